"""What keeps a proxy from starting: variables that are not set, servers that started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.launch.launch import (
    Location,
    MissingVariables,
    mentioned_by_all,
    prepare,
    strings,
)
from mcpagg_runtime.launch.nesting import standing_above
from mcpagg_runtime.launch.variables import references
from mcpagg_runtime.start.opening import ABOVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.launch.launch import Row
    from mcpagg_runtime.plan.plan import Plan


def endless(plan: Plan, environ: Mapping[str, str]) -> str:
    """Say which servers would start the proxy that they have started, "" if none would."""
    above = standing_above(plan.tables, plan.servers, environ)
    names = ", ".join([f"'{name}'" for name in above])
    if not above:
        return ""
    return (
        f"nothing was started: its own server {names} has started this proxy, which would start"
        " itself without end; take what starts it out of that server's entry (or unset"
        f" {ABOVE}, if that server has ended)"
    )


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
    known = mentioned_by_all(rows)
    missing = {name: _unset_for(name, rows, environ, folder, known) for name in rows}
    return {name: problem for name, problem in missing.items() if problem is not None}


def _unset_for(
    name: str, rows: Mapping[str, Row], environ: Mapping[str, str], folder: str, known: set[str]
) -> MissingVariables | None:
    try:
        prepare(name, rows, environ, folder, known=known)
    except MissingVariables as problem:
        return problem
    except (OSError, ValueError):  # its env file cannot be read: another fault, of it alone
        return None
    return None
