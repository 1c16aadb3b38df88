"""The formats of configs: JSON with comments and trailing commas, TOML and YAML, as plain values.

Whatever the format, numbers keep their text, and a fault has its line and column.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

_TOML_FAULT = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end .*)\)"
)
_IN_PLAIN_WORDS = {
    "missing commas are not allowed": "a comma is missing",
    "expecting key": "expecting a key; write it in double quotes",
    "unquoted keys are not allowed": "a key without quotes; write it in double quotes",
    "expecting value": "expecting a value; write text in double quotes",
    "invalid initial character for a key part": "expecting a key; write `{…}` on one line",
    "invalid backslash escape": "invalid backslash escape; write \\\\ for one backslash",
}
"""What the readers of JSON and TOML say → the same with its cure."""
_YAML_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
YAML_TAG = "tag:yaml.org,2002:"
"""What begins the tags that YAML itself defines."""
_YAML_TEXTS = frozenset({"str", "int", "float", "timestamp"})
_MOST_YAML_VALUES = 200_000
"""Aliases can make a short text mean more than any config holds."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written; `value` may have fewer digits."""

    text: str

    @property
    def value(self) -> float:
        return float(self.text) if "." in self.text else int(self.text)


class Object(dict[str, object]):
    """An object that knows which of its keys were written more than once."""

    def __init__(self, pairs: Sequence[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs) if len(self) < len(pairs) else {}
        self.repeated = [key for key, count in counts.items() if count > 1]


class SyntaxFault(Exception):
    """Raised by a reader of a format; its text holds nothing of the config's values."""

    def __init__(self, what: str, line: int | None = None, column: int | None = None) -> None:
        """`line` and `column` count from 1, None where the format's reader does not know them."""
        super().__init__(what)
        self.what = what
        self.line = line
        self.column = column

    @property
    def place(self) -> str:
        """Say where in the text it is: `line 3, column 7: `, or nothing."""
        if self.line is None:
            return ""
        return f"line {self.line}, column {self.column}: "


def load_json(text: str) -> object:
    """Return the value of JSON, strict or with comments and trailing commas.

    Raises:
        SyntaxFault: with line and column.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=Object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_json,
        )
    except ValueError:
        return _load_with_comments(text)


def _no_json(_: str) -> NoReturn:
    raise ValueError  # NaN and the infinities; the second reader says where


def _load_with_comments(text: str) -> object:
    import jsonyx  # noqa: PLC0415 - 25 ms that strict JSON need not pay
    from jsonyx.allow import COMMENTS, TRAILING_COMMA  # noqa: PLC0415

    hooks: dict[str, Callable[[Any], Any]] = {"object": Object, "int": Number, "float": Number}
    try:
        return jsonyx.loads(text, allow=COMMENTS | TRAILING_COMMA, hooks=hooks)
    except jsonyx.TruncatedSyntaxError as problem:
        what = problem.msg[:1].lower() + problem.msg[1:]
        what = _IN_PLAIN_WORDS.get(what, what)
        line, column = problem.lineno, problem.colno
        # `from None`, here and in the other readers: the parser's error holds the config's text.
        raise SyntaxFault(what, line, column) from None


def load_toml(text: str) -> object:
    """Return the value of TOML; numbers keep what they say, dates are strings.

    Raises:
        SyntaxFault: with line and column, or the end of the text. Duplicate keys are one.
    """
    import tomllib  # noqa: PLC0415 - most configs are JSON

    try:
        return _plain(tomllib.loads(text, parse_float=Number))
    except ValueError as problem:
        match = _TOML_FAULT.fullmatch(str(problem))
        if match is None:
            raise SyntaxFault("holds a number beyond all bounds") from None
        what = match["what"][:1].lower() + match["what"][1:]
        what = _IN_PLAIN_WORDS.get(what, what)
        if match["line"] is None:
            what, last = f"{what} at the end", text.rstrip("\n").split("\n")
            raise SyntaxFault(what, len(last), len(last[-1]) + 1) from None
        raise SyntaxFault(what, int(match["line"]), int(match["column"])) from None


def _plain(value: Any) -> object:
    """Return the value with the types that all formats share."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return Number(str(value))
    if isinstance(value, str | bool | Number):
        return value
    return value.isoformat()  # a date or a time


_YAML_WORDS = (
    ("'\\t'", "begins with a tab; indent with spaces"),
    ("<", "does not fit what is above it; check indentation, quotes and brackets up to here"),
)
"""What holds the parser's own words, and what is said instead."""


def composed(text: str) -> Any:
    """Return the root node of a YAML text, None for a text without one.

    Raises:
        SyntaxFault: with line and column.
    """
    from ruamel.yaml import YAML  # noqa: PLC0415 - 70 ms that JSON need not pay
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be set anew
            node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        what = problem.problem or problem.context or "cannot be read"
        what = next((said for part, said in _YAML_WORDS if part in what), what)
        if mark is None:
            raise SyntaxFault(what) from None
        raise SyntaxFault(what, mark.line + 1, mark.column + 1) from None
    except YAMLError:
        raise SyntaxFault("holds a character that YAML does not allow") from None
    return node


def load_yaml(text: str) -> object:
    """Return the value of YAML 1.2; aliases and merge keys are filled in.

    Raises:
        SyntaxFault: with line and column.
    """
    node = composed(text)
    return _YamlReader().value(node) if node is not None else None


class _YamlReader:
    """Turns the nodes of a YAML text into values; counts them, and detects circular aliases."""

    def __init__(self) -> None:
        self.count = 0
        self.open: set[int] = set()

    def value(self, node: Any) -> object:
        self.count += 1
        if self.count > _MOST_YAML_VALUES:
            raise _yaml_fault(node, "holds more values than a config can have")
        if id(node) in self.open:
            raise _yaml_fault(node, "holds an alias to itself")
        if isinstance(node.value, str):
            return _yaml_scalar(node)
        self.open.add(id(node))
        result: object
        if node.id == "sequence":
            result = [self.value(item) for item in node.value]
        else:
            result = self._object(node)
        self.open.remove(id(node))
        return result

    def _object(self, node: Any) -> Object:
        own: list[tuple[str, object]] = []
        merged: dict[str, object] = {}
        for key, member in node.value:
            if key.tag == f"{YAML_TAG}merge":
                for base in self._merged(member):
                    merged = {**base, **merged}
            elif isinstance(key.value, str):
                own.append((key.value, self.value(member)))
            else:
                raise _yaml_fault(key, "a key must be text")
        result = Object(own)
        for name, value in merged.items():
            result.setdefault(name, value)
        return result

    def _merged(self, node: Any) -> Iterator[Object]:
        for source in node.value if node.id == "sequence" else [node]:
            base = self.value(source)
            if not isinstance(base, Object):
                raise _yaml_fault(source, "`<<` merges objects only")
            yield base


def _yaml_scalar(node: Any) -> object:
    tag = node.tag.removeprefix(YAML_TAG)
    if tag == "null":
        return None
    if tag == "bool":
        return node.value.lower() == "true"
    if tag in ("int", "float") and _YAML_NUMBER.fullmatch(node.value):
        return Number(node.value)
    if tag in _YAML_TEXTS:
        return node.value
    raise _yaml_fault(node, "holds a tag that is not understood")


def _yaml_fault(node: Any, what: str) -> SyntaxFault:
    return SyntaxFault(what, node.start_mark.line + 1, node.start_mark.column + 1)
