"""YAML 1.2, as LibreChat, Continue, Goose and others write it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

from mcpagg.config.values import Number, Object, SyntaxFault

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_TAG = "tag:yaml.org,2002:"
_TEXTS = frozenset({"str", "int", "float", "timestamp"})
_MOST_VALUES = 200_000
"""Aliases can make a short text mean more than any config holds."""


def load(text: str) -> object:
    """Return the value that `text` holds; aliases and merge keys are filled in.

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
        if mark is None:
            raise SyntaxFault(what) from None
        raise SyntaxFault(what, mark.line + 1, mark.column + 1) from None
    except YAMLError:
        raise SyntaxFault("holds a character that YAML does not allow") from None
    return _Reader().value(node) if node is not None else None


class _Reader:
    """Turns the nodes of one text into values; counts them, and knows those it is inside of."""

    def __init__(self) -> None:
        self.count = 0
        self.open: set[int] = set()

    def value(self, node: Any) -> object:
        self.count += 1
        if self.count > _MOST_VALUES:
            raise _fault(node, "holds more values than a config can have")
        if id(node) in self.open:
            raise _fault(node, "holds an alias to itself")
        if isinstance(node.value, str):
            return _scalar(node)
        self.open.add(id(node))
        found: object
        if node.id == "sequence":
            found = [self.value(item) for item in node.value]
        else:
            found = self._object(node)
        self.open.remove(id(node))
        return found

    def _object(self, node: Any) -> Object:
        own: list[tuple[str, object]] = []
        merged: dict[str, object] = {}
        for key, member in node.value:
            if key.tag == f"{_TAG}merge":
                for found in self._merged(member):
                    merged = {**found, **merged}
            elif isinstance(key.value, str):
                own.append((key.value, self.value(member)))
            else:
                raise _fault(key, "a key must be text")
        result = Object(own)
        for name, value in merged.items():
            result.setdefault(name, value)
        return result

    def _merged(self, node: Any) -> Iterator[Object]:
        for source in node.value if node.id == "sequence" else [node]:
            found = self.value(source)
            if not isinstance(found, Object):
                raise _fault(source, "`<<` merges objects only")
            yield found


def _scalar(node: Any) -> object:
    tag = node.tag.removeprefix(_TAG)
    if tag == "null":
        return None
    if tag == "bool":
        return node.value.lower() == "true"
    if tag in ("int", "float") and _NUMBER.fullmatch(node.value):
        return Number(node.value)
    if tag in _TEXTS:
        return node.value
    raise _fault(node, "holds a tag that is not understood")


def _fault(node: Any, what: str) -> SyntaxFault:
    return SyntaxFault(what, node.start_mark.line + 1, node.start_mark.column + 1)
