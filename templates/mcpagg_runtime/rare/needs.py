"""What the rows of the launch table need of the environment, and what of that is not set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.spawn.launch import Location, MissingVariables, prepare, strings
from mcpagg_runtime.spawn.variables import references

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.spawn.launch import Row


def uses(row: Row) -> list[tuple[Location, str, str | None]]:
    """Return what a row asks its environment for: (location, variable, default or None).

    A name that the row's own `env` defines comes from there, unless the definition itself asks.
    """
    own = row.get("env", {})
    return [
        (location, name, default)
        for location, text in strings(row)
        for name, default in references(text)
        if name not in own or location == Location("env", name)
    ]


def unset(
    rows: Mapping[str, Row], environ: Mapping[str, str], folder: str
) -> dict[str, MissingVariables]:
    """Return what is not set now, by server."""
    missing = {name: _unset_for(name, rows, environ, folder) for name in rows}
    return {name: problem for name, problem in missing.items() if problem is not None}


def _unset_for(
    name: str, rows: Mapping[str, Row], environ: Mapping[str, str], folder: str
) -> MissingVariables | None:
    try:
        prepare(name, rows, environ, folder)
    except MissingVariables as problem:
        return problem
    except (OSError, ValueError):  # its env file cannot be read: another fault, of it alone
        return None
    return None
