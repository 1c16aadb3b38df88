"""Text to JSON values: strict JSON, and JSON with comments and trailing commas.

Numbers keep their text, so that `8080` and `1.10` reach a child as they were written. Duplicate
keys, and strings that no process can receive, are errors with their JSON path.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from mcpagg.config.findings import Place
from mcpagg.problems import ConfigError, Problem

_OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # the marks of UTF-32 begin alike


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number as it was written."""

    text: str


class _Object(dict[str, object]):
    """A JSON object that knows which of its keys were written more than once."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs) if len(self) < len(pairs) else {}
        self.repeated = [key for key, count in counts.items() if count > 1]


def parse(text: bytes, source: str) -> object:
    """Return the value that `text` holds; `source` is its name in messages.

    Raises:
        ConfigError: with line and column, or with the JSON path of every duplicate key.
    """
    root = Place()
    try:
        value = _load(_decode(text, source), source)
        _check(value, root)
    except RecursionError:
        _refuse(source, "is nested too deeply to be a config")
    if root.errors:
        raise ConfigError(source, root.errors)
    return value


def _decode(text: bytes, source: str) -> str:
    if text.startswith(_OTHER_ENCODINGS) or b"\0" in text[:4]:
        _refuse(source, "is encoded in UTF-16 or UTF-32", "save it as UTF-8")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = text.count(b"\n", 0, problem.start) + 1
        column = problem.start - text.rfind(b"\n", 0, problem.start)
        _refuse(source, f"line {line}, column {column}: not UTF-8", "save it as UTF-8")
    if not decoded.strip():
        _refuse(source, "is empty", 'write at least {"mcpServers": {NAME: {"command": …}}}')
    return decoded


def _load(text: str, source: str) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=_Object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_json,
        )
    except ValueError:
        return _load_with_comments(text, source)


def _no_json(_: str) -> NoReturn:
    raise ValueError  # NaN and the infinities; the second reader says where


def _load_with_comments(text: str, source: str) -> object:
    import jsonyx  # noqa: PLC0415 - 25 ms that strict JSON need not pay
    from jsonyx.allow import COMMENTS, TRAILING_COMMA  # noqa: PLC0415

    hooks: dict[str, Callable[[Any], Any]] = {"object": _Object, "int": Number, "float": Number}
    try:
        return jsonyx.loads(text, allow=COMMENTS | TRAILING_COMMA, hooks=hooks)
    except jsonyx.TruncatedSyntaxError as problem:
        what = problem.msg[:1].lower() + problem.msg[1:]
        what = what.replace("missing commas are not allowed", "a comma is missing")
        _refuse(source, f"line {problem.lineno}, column {problem.colno}: not JSON: {what}")


def _check(value: object, at: Place) -> None:
    """Report duplicate keys, and strings that cannot be passed on, at any depth."""
    if isinstance(value, str):
        _check_text(value, at)
    elif isinstance(value, _Object):
        for key in value.repeated:
            at.at(key).error("this key is written more than once", "keep one of them")
        for key, member in value.items():
            _check_text(key, at.at(key))
            _check(member, at.at(key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            _check(member, at.at(index))


def _check_text(text: str, at: Place) -> None:
    if "\0" in text:
        at.error("holds a NUL character, which no process can be given")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        at.error("holds half of a surrogate pair, which is no character")


def _refuse(source: str, what: str, remedy: str = "") -> NoReturn:
    # `from None`: the parser's own error holds the config's text, secrets and all.
    raise ConfigError(source, [Problem("", what, remedy)]) from None
