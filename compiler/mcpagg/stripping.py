"""Takes out of Python source what only its authors need: the emitted file is read at every start.

Docstrings, comments, annotations and blank lines go, and a level of indentation is one space; the
rest stays as it was written. A cut is made where the parser says that something stands, so the text
does not depend on which version of Python compiles.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_INDENT = 4  # of the runtime as it is written
_COMMENT = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|#.*""")


class Source:
    """Source of which statements are cut out."""

    def __init__(self, text: str) -> None:
        """`text` must be formatted by black; its annotations have no effect: no dataclasses."""
        self.text = text
        self.tree = ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._cuts: list[tuple[int, int, str]] = []  # from where to where, and what comes instead

    def of(self, node: ast.stmt) -> str:
        """Return the text of a statement."""
        return self.text[self._start(node) : self._end(node)]

    def cut(self, node: ast.stmt, instead: str = "") -> None:
        """Have something else stand in place of a statement."""
        self._cuts.append((self._start(node), self._end(node), instead))

    def strip(self) -> None:
        """Cut out docstrings, of attributes too, and annotations."""
        for body in _bodies(self.tree):
            gone = [statement for statement in body if _says_nothing(statement)]
            for statement in gone:
                empty = len(gone) == len(body) and statement is body[-1]
                self.cut(statement, "pass" if empty else "")
        for statement in statements(self.tree):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self._strip_signature(statement)
            elif isinstance(statement, ast.AnnAssign) and statement.value:
                self._cuts.append(
                    (self._end(statement.target), self._end(statement.annotation), "")
                )

    def _strip_signature(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        given = function.args
        for each in (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg):
            if each is not None and each.annotation:
                start, end = self._start(each) + len(each.arg), self._end(each.annotation)
                spaced = self.text.startswith(" = ", end)  # black wants none without annotation
                self._cuts.append((start, end + 3, "=") if spaced else (start, end, ""))
        if function.returns:
            arrow = self.text.rindex(" ->", 0, self._start(function.returns))
            self._cuts.append((arrow, self._end(function.returns), ""))

    def rest(self) -> str:
        """Return what is left, without comments and blank lines but one before each definition."""
        pieces: list[str] = []
        done = 0
        for start, end, instead in sorted(self._cuts):
            if start >= done:  # else it lies within what has gone already
                pieces += self.text[done:start], instead
                done = end
        lines: list[str] = []
        for line in "".join([*pieces, self.text[done:]]).splitlines():
            kept = _COMMENT.sub(r"\1", line) if "#" in line else line
            code = kept.strip()
            indent = (len(kept) - len(kept.lstrip())) // _INDENT
            if code and not indent and code.startswith(("def ", "async def ", "class ", "@")):
                lines += [""] if lines and not lines[-1].startswith("@") else []
            if code:
                lines.append(" " * indent + code)
        return "".join(f"{line}\n" for line in lines)

    def _start(self, node: ast.stmt | ast.expr | ast.arg) -> int:
        return self._index(node.lineno, node.col_offset)

    def _end(self, node: ast.stmt | ast.expr | ast.arg) -> int:
        return self._index(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def _index(self, number: int, column: int) -> int:
        """Return the index of a place whose column counts bytes, as the parser does."""
        line = self._lines[number - 1]
        if not line.isascii():
            column = len(line.encode()[:column].decode())
        return self._starts[number - 1] + column


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements within a node, and within those."""
    for body in _bodies(node):
        yield from body


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        if body := getattr(node, name, None):
            yield body
            for statement in body:
                yield from _bodies(statement)
    for handler in getattr(node, "handlers", ()):
        yield from _bodies(handler)


def _says_nothing(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, of an attribute too, or an annotation alone."""
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
