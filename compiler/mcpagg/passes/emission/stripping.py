"""Strips Python source of what only its authors need: the file is read at every start.

Docstrings, comments, annotations, blank lines and what is for type checkers go, and a level of
indentation is one space; the rest stays as it was written. The text is cut by its layout, which is
black's: parsing all modules takes as long as half a compilation. The tests compare what is left of
each module with what the parser says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_INDENT = 4  # of the runtime as it is written
_STRING = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_TEXT = re.compile(_STRING)
_DOCSTRING = re.compile(r'^ *r?""".*?"""\n', re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(rf"({_STRING})|#.*")
_TOKEN = re.compile(rf"{_STRING}|\blambda[^:]*: |[][(){{}}]|: | = |,")
_FOR_CHECKERS = ("from __future__ import ", "from typing import ", "if TYPE_CHECKING:")
_FUNCTION = re.compile(r" *(?:async )?def ")
_ANNOTATED = re.compile(r" *[\w.]+: ")
_DEFINITION = ("def ", "async def ", "class ", "@")


def stripped(text: str) -> str:
    """Return what is left of a module, with a blank line before each of its definitions.

    `text` must be formatted by black; its annotations have no effect: no dataclasses.
    """
    lines: list[str] = []
    opened = -1  # the indentation of a statement that has no body yet
    for statement in _without_annotations(_statements(text)):
        indent = _indent_of(statement)
        if opened >= indent:
            lines.append(" " * (opened + 1) + "pass")
        if not indent and statement.startswith(_DEFINITION) and lines:
            lines += [] if lines[-1].startswith("@") else [""]
        for line in statement.split("\n"):
            lines.append(" " * _indent_of(line) + line.lstrip())
        opened = indent if statement.endswith(":") else -1
    if opened >= 0:
        lines.append(" " * (opened + 1) + "pass")
    return "".join(f"{line}\n" for line in lines)


def _indent_of(line: str) -> int:
    return (len(line) - len(line.lstrip())) // _INDENT


def _statements(text: str) -> Iterator[str]:
    """Yield the statements of a module, with all their lines, without docstrings and comments."""
    lines: list[str] = []
    depth = 0
    for line in _DOCSTRING.sub("", text).splitlines():
        code = (_COMMENT.sub(r"\1", line) if "#" in line else line).rstrip()
        if code:
            lines.append(code)
            if depth or code.endswith(("(", "[", "{")):
                bare = _TEXT.sub("", code)
                depth += sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
            if not depth:
                yield "\n".join(lines)
                lines = []


def _without_annotations(statements: Iterator[str]) -> Iterator[str]:
    for_checkers = False
    for statement in statements:
        for_checkers = statement.startswith(_FOR_CHECKERS) or (
            for_checkers and statement.startswith(" ")
        )
        if for_checkers:
            continue
        if _FUNCTION.match(statement):
            yield _signature(statement)
        elif not _ANNOTATED.match(statement):
            yield statement
        else:
            target, _, rest = statement.partition(": ")
            _, equals, value = rest.partition(" = ")
            if equals:
                yield f"{target} = {value}"


def _signature(statement: str) -> str:
    """Return the first statement of a function without annotations."""
    pieces = []
    done = depth = 0
    begin = -1  # where an annotation begins, -1 outside of one
    has_default = False
    for token in _TOKEN.finditer(statement):
        text = token[0]
        depth += (text in "([{") - (text in ")]}")
        if begin >= 0 and (depth == 0 or (depth == 1 and text in (" = ", ","))):
            pieces.append(statement[done:begin])
            # Without an annotation, black wants no spaces around it.
            pieces += ["="] if text == " = " else []
            done = token.end() if text == " = " else token.start()
            begin = -1
        if depth == 0:
            break
        if depth == 1 and text in (": ", " = ", ",", "="):
            has_default = text == " = " or (has_default and text != ",")
            begin = token.start() if text == ": " and not has_default else begin
    rest = statement[done:]
    returns = rest.rfind(") -> ")
    return "".join(
        [*pieces, rest if returns < 0 else rest[: returns + 1] + rest[rest.rindex(":") :]]
    )
