"""What keeps a proxy from starting: variables that are not set, servers that started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.launch.launch import Launches, Location, MissingVariables, strings
from mcpagg_runtime.launch.nesting import standing_above
from mcpagg_runtime.launch.variables import references
from mcpagg_runtime.start.handover import ABOVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.launch.launch import Row
    from mcpagg_runtime.plan.plan import Plan


def recursion_fault(plan: Plan, environ: Mapping[str, str]) -> str:
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


def missing_variables(
    rows: Mapping[str, Row], environ: Mapping[str, str], folder: str
) -> dict[str, MissingVariables]:
    """Return what is not set now, by server."""
    launches = Launches(rows, environ, folder)
    missing = {}
    for name in rows:
        try:
            launches.prepare(name)
        except MissingVariables as problem:
            missing[name] = problem
        except (OSError, ValueError):
            continue  # its env file cannot be read: another fault, of this server alone
    return missing
