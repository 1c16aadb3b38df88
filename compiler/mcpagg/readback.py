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


def read_back(text: str, tables: Mapping[str, Any], lists: Mapping[str, Mapping[str, Any]]) -> None:
    """Compare what an emitted text says with the tables and JSON lists that it was made of.

    `tables` are all of the file's, by name; `lists` {server: {kind: value}} are those that the
    table SNAPSHOT holds as JSON texts.

    Raises:
        ReadBackError: they differ.
    """
    found = read_tables(text, tables)
    if missing := tables.keys() - found.keys():
        raise ReadBackError(", ".join(sorted(missing)))
    for name, value in tables.items():
        if repr(found[name]) != repr(value):  # as ==, but true is not 1, and order counts
            raise ReadBackError(name)
    for server, values in lists.items():
        for kind, value in values.items():
            # Both are read: numbers of values that nest deep do not keep their text.
            if dumps(loads(found["SNAPSHOT"][server][kind])) != dumps(loads(dumps(value))):
                raise ReadBackError(f"SNAPSHOT: {kind}")


def read_tables(text: str, names: Container[str]) -> dict[str, Any]:
    """Return {name: value} of those tables of an emitted text, which is parsed, never run.

    Of a call, as PLAN is one, the value is {keyword: value} of the arguments that are literals. A
    deferred part counts as a table, whose value is its source.

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
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    return {
        word.arg: word.value.value
        for word in node.keywords
        if word.arg and isinstance(word.value, ast.Constant)
    }
