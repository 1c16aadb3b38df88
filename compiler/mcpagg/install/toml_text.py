"""Where the tables and values of a TOML text stand, and edits of one table's pairs there.

As in `tree`, an edit is made in the text, and whatever it does not name stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mcpagg.install import tree
from mcpagg.install.tree import Member, Node, Path, Span, Uneditable, line_end_of

_BLANK = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\r\n\ufeff]+|#[^\n]*)*")
"""What may stand between statements, and between the items of a list."""
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\n]*?)?(?:\r?\n|\Z)")
_KEY = re.compile(r"""(?P<bare>[A-Za-z0-9_-]+)|(?P<basic>"(?:[^"\\]|\\.)*")|'(?P<literal>[^']*)'""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' r"|'''.*?'{3,5}(?!')" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'",
    re.S,
)
_WORD = re.compile(r"[^\s,\]}#]+(?: [0-9:.]+(?:Z|[+-][0-9:]+)?)?")
"""A number, a boolean, or a date, which may have a space within."""


class Statement(NamedTuple):
    """A header of a table, or a pair; `span` is all of its lines, `path` leads from the root."""

    path: Path
    span: Span
    value: Node | None = None
    """The value of a pair, None for a header."""


def statements(text: str) -> list[Statement]:
    """Return the statements of a TOML text, which has been read before and is well-formed."""
    return [*_Scanner(text).statements()]


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.counts: dict[Path, int] = {}
        """How many tables there are so far in each list of tables."""

    def statements(self) -> Iterator[Statement]:
        table: Path = ()
        while (start := self._skip(_BETWEEN)) < len(self.text):
            value = None
            if self.text[start] == "[":
                table = path = self._header()
            else:
                path = (*table, *self._keys())
                self.place += 1  # the equals sign
                self._skip(_BLANK)
                value = self._value()
            self._skip(_REST_OF_LINE)
            yield Statement(path, Span(start, self.place), value)

    def _skip(self, what: re.Pattern[str]) -> int:
        match = what.match(self.text, self.place)
        self.place = match.end() if match else self.place
        return self.place

    def _header(self) -> Path:
        is_list = self.text.startswith("[[", self.place)
        self.place += 1 + is_list
        keys = self._keys()
        self.place += 1 + is_list
        path: Path = ()
        for index, key in enumerate(keys):
            path = (*path, key)
            if is_list and index == len(keys) - 1:
                self.counts[path] = self.counts.get(path, 0) + 1
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
        return path

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_BLANK)
            match = _KEY.match(self.text, self.place)
            if match is None:
                raise Uneditable("a key of it is not understood")
            self.place = match.end()
            basic = match["basic"]
            keys.append(_unquoted(basic) if basic else match["bare"] or match["literal"] or "")
            self._skip(_BLANK)
            if not self.text.startswith(".", self.place):
                return keys
            self.place += 1

    def _value(self) -> Node:
        start = self.place
        if self.text[start] == "{":
            return self._inline_table(start)
        if self.text[start] == "[":
            self.place += 1
            items: list[Node] = []
            while self.text[self._skip(_BETWEEN)] != "]":
                items.append(self._value())
                if self.text[self._skip(_BETWEEN)] == ",":
                    self.place += 1
            self.place += 1
            return Node(Span(start, self.place), items=items)
        match = _STRING.match(self.text, start) or _WORD.match(self.text, start)
        if match is None:
            raise Uneditable("a value of it is not understood")
        self.place = match.end()
        return Node(Span(start, self.place))

    def _inline_table(self, start: int) -> Node:
        self.place += 1
        members: dict[str, Member] = {}
        is_shared = False
        while self.text[self._skip(_BETWEEN)] != "}":
            begin = self.place
            first, *more = self._keys()
            key = Span(begin, self.place)
            self.place += 1
            self._skip(_BLANK)
            members[first] = Member(key, self._value())
            is_shared = is_shared or bool(more)  # a dotted key: parts of one table stand apart
            if self.text[self._skip(_BETWEEN)] == ",":
                self.place += 1
        self.place += 1
        return Node(Span(start, self.place), members, is_shared=is_shared)


def _unquoted(text: str) -> str:
    """Return what a basic string says; its escapes are those of JSON and a few more."""
    escape = r"\\U([0-9A-Fa-f]{8})|\\e|\\x([0-9A-Fa-f]{2})"
    plain = re.sub(
        escape, lambda match: json.dumps(chr(int(match[1] or match[2] or "1b", 16)))[1:-1], text
    )
    try:
        said: str = json.loads(plain, strict=False)
    except ValueError:
        raise Uneditable("a key of it is not understood") from None
    return said


def find_table(text: str, path: Path) -> Span:
    """Return where the lines of a table are, its subtables included.

    Raises:
        Uneditable: it has no header of its own, or its parts do not stand together.
    """
    found = statements(text)
    own = [index for index, one in enumerate(found) if one.path[: len(path)] == path]
    if not own or found[own[0]].path != path or found[own[0]].value is not None:
        raise Uneditable("it has no table of its own")
    if own[-1] - own[0] + 1 != len(own):
        raise Uneditable("its tables do not stand together")
    return Span(found[own[0]].span.start, found[own[-1]].span.end)


class Table:
    """The text of one table of a TOML file, from its header on, its subtables included."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.header, *self.rest = statements(text)

    def _of(self, path: Path) -> Path:
        return (*self.header.path, *path)

    def node(self, path: Path) -> Node | None:
        """Return the value at a path below the table; None where there is none, or a subtable."""
        for one in self.rest:
            length = len(one.path) - len(self.header.path)
            if one.value is not None and one.path == self._of(path[:length]):
                return tree.at(one.value, path[length:])
        return None

    def _subtable(self, key: str) -> Statement | None:
        path = self._of((key,))
        return next((one for one in self.rest if one.value is None and one.path == path), None)

    def put(self, path: Path, value: Any, after: str = "") -> str:
        """Return the text with a pair set: in its place, or behind another, or first."""
        *outer, key = path
        node = self.node(path)
        if node is not None:
            return self.text[: node.span.start] + toml(value) + self.text[node.span.end :]
        if not outer:
            anchor = self._pair(after) or self.header
            return self._with_line(anchor, f"{_key(str(key))} = {toml(value)}")
        holder = self.node(tuple(outer))
        if holder is not None:
            if holder.is_shared:
                raise Uneditable("an inline table of it has dotted keys")
            return _put_inline(self.text, holder, str(key), value)
        if subtable := self._subtable(str(outer[0])):
            return self._with_line(subtable, f"{_key(str(key))} = {toml(value)}")
        dotted = [one for one in self.rest if one.path[:-1] == self._of(tuple(outer))]
        if dotted:
            return self._with_line(
                dotted[-1], f"{'.'.join(_key(str(k)) for k in path)} = {toml(value)}"
            )
        return self.put(tuple(outer), {str(key): value}, after)

    def remove(self, path: Path) -> str:
        """Return the text without what stands at a path: a pair, or pairs and tables below it."""
        node = self.node(path)
        if len(path) > 1 and node is not None:
            holder = self.node(path[:-1])
            if holder is not None:
                return tree.remove(self.text, holder, str(path[-1]))
        text = self.text
        for one in reversed(self.rest):
            if one.path[: len(self._of(path))] == self._of(path):
                text = text[: one.span.start] + text[one.span.end :]
        # What stood before a table at the end goes with it, or it would be behind the entry.
        text = text[: statements(text)[-1].span.end]
        return text if self.text.endswith("\n") else text.rstrip("\r\n")

    def _pair(self, key: str) -> Statement | None:
        return next((one for one in self.rest if one.path == self._of((key,)) and one.value), None)

    def _with_line(self, anchor: Statement, line: str) -> str:
        """Return the text with a line behind a statement, indented as that is."""
        start, end = anchor.span
        before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        new_line = line_end_of(self.text)
        if not self.text[start:end].endswith("\n"):  # at the end of the file
            return f"{self.text[:end]}{new_line}{before}{line}{self.text[end:]}"
        return f"{self.text[:end]}{before}{line}{new_line}{self.text[end:]}"


def _put_inline(text: str, holder: Node, key: str, value: Any) -> str:
    """Return the text with a first pair in an inline table."""
    members = [*(holder.members or {}).values()]
    if not members:
        return f"{text[: holder.span.start]}{toml({key: value})}{text[holder.span.end :]}"
    start = members[0].key.start
    return f"{text[:start]}{_key(key)} = {toml(value)}, {text[start:]}"


def toml(value: Any) -> str:
    """Return a value on one line."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{_key(key)} = {toml(member)}" for key, member in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return tree.encoded(value).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml(key)
