"""Prints values for the emitted file: as JSON text, which costs a start less than Python literals.

Every value that reaches the emitted file goes through here, so that no name, path or description
of a config or a child can end a string and become code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

from mcpagg.jsontext import dumps
from mcpagg_runtime.lists.hidden import HIDDEN

WIDTH = 100
ONE_LINE = 1 << 20
"""A width that no list has, so each of strings or numbers is one line."""
# The indentation of n levels takes n² characters, so what nests deeper is one line.
_DEEPEST_LINES = 32

_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def literal(text: str) -> str:
    """Return the Python literal of a string, in the quotes that cost fewer escapes."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    body = text.replace("\\", "\\\\").replace(mark, f"\\{mark}")
    return f"{mark}{HIDDEN.sub(_python_escape, body)}{mark}"


# What follows is JSON text for a raw string in triple double quotes, which it never holds: a quote
# within a string is escaped, and two strings never touch. Characters that cannot be seen (controls,
# bidirectional marks, lone surrogates) are escaped: a reviewer must see what a model would read.


def json_text(value: Any, width: int = WIDTH) -> str:
    """Return the JSON text of a value, a line for each member of an object.

    The layout of a value depends on what it holds, and not on its length, so that a changed field
    is one changed line, or two. Of a list of strings or numbers alone, `width` is what one line may
    have.
    """
    if isinstance(value, dict) and value:
        return f"{{\n {_members(value, 1, width)}}}"
    return _laid_out(value, 0, width)


def json_line(value: Any) -> str:
    return dumps(value, quote=_json_string)


def table_text(table: Mapping[str, Mapping[str, Any]], width: int = WIDTH) -> str:
    """Return the JSON text of a table {server: {key: value}}, with a line for each key.

    Between those of two servers two lines stand, which change with neither: so that Git merges
    changes of both.
    """
    rows = [
        f"{_json_string(server)}: {{\n {_members(row, 1, width)}\n}}"
        for server, row in table.items()
    ]
    return "{\n" + ",\n".join(rows) + "\n}"


def lines_text(table: Mapping[str, Sequence[str]]) -> str:
    """Return the JSON text of a table {server: strings}, with a line for each string.

    Between those of two servers two lines stand, as in `table_text`.
    """
    rows = [
        f"{_json_string(server)}: [\n " + ",\n ".join(map(_json_string, lines)) + "\n]"
        for server, lines in table.items()
    ]
    return "{\n" + ",\n".join(rows) + "\n}"


def list_text(items: Sequence[Mapping[str, Any]]) -> str:
    """Return the JSON text of a list of tools, prompts, … as `cut_list` of the runtime cuts it.

    Each item begins a line, each of its members but the first a line with one space.
    """
    texts = [f"{{{_members(item, 1, ONE_LINE)}}}" for item in items]
    return "[\n" + ",\n".join(texts) + "\n]" if texts else "[]"


def _members(value: Mapping[str, Any], indent: int, width: int) -> str:
    texts = [f"{_json_string(k)}: {_laid_out(v, indent, width)}" for k, v in value.items()]
    return (",\n" + " " * indent).join(texts)


def _laid_out(value: Any, indent: int, width: int) -> str:
    """Return JSON text in which what holds objects or lists has lines of its own.

    Strings and numbers of an object that stand side by side share a line.
    """
    if isinstance(value, str):
        return _json_string(value)
    if not value or not isinstance(value, dict | list | tuple) or indent >= _DEEPEST_LINES:
        return json_line(value)
    inner = indent + 1
    if isinstance(value, dict):
        begin, end = "{}"
        texts = [f"{_json_string(k)}: {_laid_out(v, inner, width)}" for k, v in value.items()]
        apart = [*map(_holds_more, value.values())]
    else:
        begin, end = "[]"
        texts = [_laid_out(item, inner, width) for item in value]
        apart = [any(map(_holds_more, value)) or sum(map(len, texts)) > width] * len(texts)
    own_line = "\n" + " " * inner
    pieces = [begin, own_line if apart[0] else "", texts[0]]
    for text, before, now in zip(texts[1:], apart, apart[1:], strict=False):
        pieces += [",", own_line if before or now else " ", text]
    return "".join([*pieces, end])


def _holds_more(value: Any) -> bool:
    """Whether a value is an object, or a list in which there is an object or a list."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, dict | list | tuple) and item for item in value)
    return isinstance(value, dict) and bool(value)


def comment(text: str) -> str:
    return HIDDEN.sub(_escaped, text)


def visible(text: str) -> str:
    """Return a text on one line, with characters that cannot be seen escaped."""
    return HIDDEN.sub(lambda match: ascii(match[0])[1:-1], text)


def is_visible(text: str) -> bool:
    """Whether a text is one line in which there is something to see."""
    return bool(HIDDEN.sub("", text).strip()) and not any(char < " " for char in text)


def _json_string(text: str) -> str:
    quoted = encode_basestring(text)
    # Of ASCII, what can be printed can be seen; to ask that is a tenth of a search.
    return quoted if quoted.isascii() and quoted.isprintable() else HIDDEN.sub(_escaped, quoted)


def _escaped(match: re.Match[str]) -> str:
    # Outside the basic plane, JSON wants a surrogate pair.
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _python_escape(match: re.Match[str]) -> str:
    char, code = match[0], ord(match[0])
    if char in _SHORT:
        return _SHORT[char]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
