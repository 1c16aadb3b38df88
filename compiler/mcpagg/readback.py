"""Reads an emitted text back before it is written: every table must equal what it was made of.

If the literals, the formatter or a template print a value wrongly, nothing is written, rather than
a proxy that does something else than its config says.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from typing import Any

from mcpagg.jsontext import dumps, loads
from mcpagg.problems import InternalFault


class ReadBackError(InternalFault):
    """Raised for a text that does not mean what it was made of: a fault of ours, not of the user's.

    Names the table alone: its values may be anything.
    """


def read_back(
    text: str,
    tables: Mapping[str, Any],
    lists: Mapping[str, Mapping[str, Any]],
    literals: Mapping[str, Any],
) -> None:
    """Compare what an emitted text says with what it was made of.

    `tables` {name: JSON-like value} stand in it as JSON texts, and so do `lists` {server: {kind:
    value}}, in the table SNAPSHOT. `literals` are all other values, by name, and deferred parts.

    Raises:
        ReadBackError: they differ.
    """
    found = read_tables(text, {*tables, *literals, "SNAPSHOT"})
    for name, value in literals.items():
        if repr(found.get(name)) != repr(value):  # as ==, but true is not 1, and order counts
            raise ReadBackError(name)
    for name, value in tables.items():
        if not _says(found.get(name), value):
            raise ReadBackError(name)
    for server, values in lists.items():
        for kind, value in values.items():
            if not _says(found["SNAPSHOT"][server][kind], value):
                raise ReadBackError(f"SNAPSHOT: {kind}")


def _says(text: Any, value: Any) -> bool:
    """Whether a JSON text says a value."""
    if not isinstance(text, str):
        return False
    read, wanted = dumps(loads(text)), dumps(value)
    # Of values that nest deep, numbers do not keep their text.
    return read == wanted or read == dumps(loads(wanted))


def read_tables(text: str, names: Container[str]) -> dict[str, Any]:
    """Return {name: value} of those tables of an emitted text, which is parsed, never run.

    Of a dict, as PLAN is one, the value has those entries that are literals. A deferred part counts
    as a table, whose value is its source.

    Raises:
        SyntaxError, ValueError: it is no text that the compiler wrote.
    """
    return {name: _value(node) for name, node in _named(ast.parse(text)) if name in names}


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name and the value of each table and each part."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Expr(ast.Call(args=[ast.Constant(value=str() as name), source])):
                yield name, source


def _value(node: ast.expr) -> Any:
    if not isinstance(node, ast.Dict):
        return ast.literal_eval(node)
    entries = zip(node.keys, node.values, strict=True)
    return {
        ast.literal_eval(key): _value(value)
        for key, value in entries
        if key is not None and not isinstance(value, ast.Name)
    }
