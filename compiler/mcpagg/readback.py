"""Reads an emitted text back before it is written: every table must equal what it was made of.

If the literals, the formatter or a template print a value wrongly, nothing is written, rather than
a proxy that does something else than its config says.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping
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

    Of a call, as PLAN is one, the value is {keyword: value} of the arguments that are literals.

    Raises:
        SyntaxError, ValueError: it is no text that the compiler wrote.
    """
    return {
        target.id: _value(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in names
    }


def _value(node: ast.expr) -> Any:
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    return {
        word.arg: word.value.value
        for word in node.keywords
        if word.arg and isinstance(word.value, ast.Constant)
    }
