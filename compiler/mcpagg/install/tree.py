"""Where each value of a JSON or YAML text stands, and edits of an object's members there.

An edit is made in the text: all that it does not name stays as it is, comments, order, indentation
and line ends too. Positions are indices of characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mcpagg.passes.config.formats import YAML_TAG, Number, composed

Path = tuple[str | int, ...]
"""The keys, and the indices of lists, that lead to a value."""


def value_at(value: Any, path: Path) -> Any:
    """Return what stands in a value at a path, None if nothing does."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value


class Uneditable(Exception):
    """Raised for an entry whose text cannot be changed safely; says why, with no value of it."""


class Span(NamedTuple):
    """The place of a text, its end excluded."""

    start: int
    end: int


@dataclass(slots=True)
class Node:
    """A value, and where it stands; `members` of an object, `items` of a list."""

    span: Span
    members: dict[str, Member] | None = None
    items: list[Node] | None = None
    is_block: bool = False
    """Whether it is in the block style of YAML, without braces and commas."""
    is_shared: bool = False
    """Whether another place of the text uses it, or it uses one: an anchor, an alias or a merge."""


@dataclass(slots=True)
class Member:
    """A member of an object: its key, and its value."""

    key: Span
    node: Node


def at(node: Node | None, path: Path) -> Node | None:
    """Return the value at a path below a node, None if nothing stands there."""
    for step in path:
        if node is None:
            return None
        if isinstance(step, int):
            node = node.items[step] if node.items and step < len(node.items) else None
        else:
            member = (node.members or {}).get(step)
            node = member.node if member else None
    return node


def any_shared(node: Node) -> bool:
    inner = [member.node for member in (node.members or {}).values()] + (node.items or [])
    return node.is_shared or any(map(any_shared, inner))


# --- JSON -------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/"
    r'|(?P<string>"(?:[^"\\]|\\.)*")|(?P<sign>[{}\[\],:])|(?P<word>[^\s{}\[\],:"/]+)',
    re.S,
)


def json_tree(text: str) -> Node:
    """Return where the values of a JSON text stand, with comments and trailing commas or without.

    The text has been read before, so it is known to be well-formed.
    """
    return _JsonScanner(text).value()


@dataclass(slots=True)
class _JsonScanner:
    text: str
    tokens: Iterator[re.Match[str]] = field(init=False)
    next: re.Match[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.tokens = (match for match in _TOKEN.finditer(self.text) if match.lastgroup)
        self._advance()

    def _advance(self) -> re.Match[str]:
        token, self.next = self.next, next(self.tokens, None)
        return token  # type: ignore[return-value] # of a well-formed text there is one

    def _sign(self) -> str:
        return self.next[0] if self.next is not None else ""

    def value(self) -> Node:
        first = self._advance()
        if first[0] == "{":
            members: dict[str, Member] = {}
            while self._sign() != "}":
                key = self._advance()
                self._advance()  # the colon
                members[json.loads(key[0], strict=False)] = Member(Span(*key.span()), self.value())
                if self._sign() == ",":
                    self._advance()
            return Node(Span(first.start(), self._advance().end()), members)
        if first[0] == "[":
            items: list[Node] = []
            while self._sign() != "]":
                items.append(self.value())
                if self._sign() == ",":
                    self._advance()
            return Node(Span(first.start(), self._advance().end()), items=items)
        return Node(Span(*first.span()))


# --- YAML -------------------------------------------------------------------------------------


_BLOCK_SCALARS = ("|", ">")


def yaml_tree(text: str) -> Node:
    """Return where the values of a YAML text stand, which has been read before."""
    return _yaml_node(composed(text), text, set())


def _yaml_node(node: Any, text: str, seen: set[int]) -> Node:
    """Return a node of ours for one of the parser; a block ends with the last value in it."""
    is_shared = bool(node.anchor) or id(node) in seen
    span = Span(node.start_mark.index, node.end_mark.index)
    if id(node) in seen:
        return Node(span, is_shared=True)
    seen.add(id(node))
    is_block = not (isinstance(node.value, str) or node.flow_style)
    if isinstance(node.value, str):
        if node.style in _BLOCK_SCALARS:  # less the blank lines that follow it
            span = Span(span.start, span.start + len(text[span.start : span.end].rstrip()))
        return Node(span, is_shared=is_shared)
    if node.id == "sequence":
        items = [_yaml_node(item, text, seen) for item in node.value]
        end = items[-1].span.end if is_block and items else span.end
        return Node(Span(span.start, end), None, items, is_block, is_shared)
    members: dict[str, Member] = {}
    end = span.end
    for key, value in node.value:
        is_shared = is_shared or key.tag == f"{YAML_TAG}merge"
        inner = _yaml_node(value, text, seen)
        members[str(key.value)] = Member(Span(key.start_mark.index, key.end_mark.index), inner)
        end = inner.span.end if is_block else end
    return Node(Span(span.start, end), members, None, is_block, is_shared)


# --- Edits ------------------------------------------------------------------------------------


_PLAIN_KEY = re.compile(r"(?!(?i:true|false|null|yes|no|on|off|y|n)$)[A-Za-z_][A-Za-z0-9_-]*")
"""What YAML takes for a text without quotes."""


def put(text: str, node: Node, key: str, value: Any, after: str = "") -> str:
    """Return the text with a member of an object set: in its place, or behind another, or first."""
    members = node.members or {}
    if key in members:
        return _replaced(text, node, members[key], value)
    anchor = members.get(after)
    if not members:
        new = f"{{{encoded(key)}: {encoded(value)}}}"
        return text[: node.span.start] + new + text[node.span.end :]
    beside = anchor or next(iter(members.values()))
    indent = _indent(text, beside.key.start)
    is_open = (
        node.is_block
        or "\n" in text[node.span.start : beside.key.start]
        or (anchor is not None and "\n" in text[node.span.start : anchor.key.start])
    )
    line_end = line_end_of(text)
    name = key if node.is_block and _PLAIN_KEY.fullmatch(key) else encoded(key)
    new = f"{name}: {_laid_out(text, node, value, indent, is_open)}"
    comma = "" if node.is_block else ","
    between = f"{comma}{line_end}{indent}" if is_open else ", "
    if anchor is not None:
        end = anchor.node.span.end
        return text[:end] + between + new + text[end:]
    start = beside.key.start
    return text[:start] + new + between + text[start:]


def remove(text: str, node: Node, key: str) -> str:
    """Return the text without a member of an object, which is not its only one."""
    members = [*(node.members or {}).values()]
    member = (node.members or {})[key]
    index = members.index(member)
    if index + 1 < len(members):
        return text[: member.key.start] + text[members[index + 1].key.start :]
    return text[: members[index - 1].node.span.end] + text[member.node.span.end :]


def _replaced(text: str, node: Node, member: Member, value: Any) -> str:
    """Return the text with another value of a member; in a block, on the line of its key."""
    start, end = member.node.span
    if node.is_block:
        if not re.match(r"\s*:", text[member.key.end :]):
            raise Uneditable("a key of it is written with `?`")
        return f"{text[: member.key.end]}: {encoded(value)}{text[end:]}"
    indent = _indent(text, member.key.start)
    is_open = (
        "\n" in text[start:end] if isinstance(value, list) else "\n" in text[: member.key.start]
    )
    return text[:start] + _laid_out(text, node, value, indent, is_open) + text[end:]


def _laid_out(text: str, node: Node, value: Any, indent: str, is_open: bool) -> str:
    """Return a value as text, an item a line where its surroundings are written so."""
    if not is_open or node.is_block or not isinstance(value, dict | list) or not value:
        return encoded(value)
    outer = _indent(text, node.span.end - 1)
    step = indent.removeprefix(outer) or "  "
    end = line_end_of(text)
    items = (
        [f"{encoded(key)}: {encoded(item)}" for key, item in value.items()]
        if isinstance(value, dict)
        else [encoded(item) for item in value]
    )
    inner = f",{end}{indent}{step}".join(items)
    begin, close = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}{end}{indent}{step}{inner}{end}{indent}{close}"


def _indent(text: str, position: int) -> str:
    """Return what a line needs before it to begin in the column of a position."""
    before = text[text.rfind("\n", 0, position) + 1 : position]
    return (
        before if not before.strip() else re.sub(r"\S.*", lambda rest: " " * len(rest[0]), before)
    )


def line_end_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def encoded(value: Any) -> str:
    """Return a value as JSON on one line, which YAML takes as well."""
    return json.dumps(value, ensure_ascii=False, default=plain)


def plain(value: object) -> float:
    """Return the value of what JSON has no form for, as far as it has one."""
    if isinstance(value, Number):
        return value.value
    raise Uneditable("it has a value that is neither a text nor a number")
