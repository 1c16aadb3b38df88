"""What keeps a proxy from starting: variables that are not set, or a server that started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.launch.launch import Launches, Location, MissingVariables, strings
from mcpagg_runtime.launch.nesting import servers_above
from mcpagg_runtime.launch.variables import references
from mcpagg_runtime.start.handover import ABOVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.launch.launch import Row
    from mcpagg_runtime.plan.plan import Plan


def recursion_fault(plan: Plan, environ: Mapping[str, str]) -> str:
    """Say which of its own servers has started this proxy, "" if none has."""
    above = servers_above(plan.tables, plan.servers, environ)
    names = ", ".join([f"'{name}'" for name in above])
    if not above:
        return ""
    return (
        f"nothing was started: its own server {names} has started this proxy, which would start"
        " itself without end; take what starts it out of that server's entry (or unset"
        f" {ABOVE}, if that server has ended)"
    )


def uses(row: Row) -> list[tuple[Location, str, str | None]]:
    """Return the variables that a row needs: (location, variable, default or None).

    A name that the row's own `env` defines is not needed, except by the definition itself.
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
    """Return the variables that are not set, by server."""
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
