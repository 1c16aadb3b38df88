"""Which servers a compilation asks, and what the snapshot has of the others: what FILE has.

All are asked, or those that `--refresh` names, or none (`--offline`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mcpagg.problems import ConfigError, Problem, meant
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec

# What a row of the launch table says of starting or reaching a server.
LAUNCH = ("command", "args", "env", "env_file", "cwd", "url", "headers")

Rows = Mapping[str, Mapping[str, Any]]


def asked_servers(spec: ProxySpec, refresh: Collection[str] | None) -> frozenset[str]:
    """Return the names of the servers to ask: those of `refresh`, or all where it is None.

    Raises:
        ConfigError: one is no server of the config.
    """
    names = [server.name for server in spec.servers]
    if refresh is None:
        return frozenset(names)
    there = f"there are: {', '.join(names)}"
    if problems := [
        Problem("", f"--refresh {name} is no server of the config", meant(name, names) or there)
        for name in refresh
        if name not in names
    ]:
        raise ConfigError(spec.source, problems)
    return frozenset(refresh)


def new_names(before: Rows, now: Rows) -> dict[str, str]:
    """Return {old name: new name} of the servers that only have another name now.

    Such a one is started as before, and no other that came or went is.
    """
    gone = [name for name in before if name not in now]
    come = [name for name in now if name not in before]
    found = {}
    for old in gone:
        alike = [new for new in come if _start_alike(before[old], now[new])]
        twins = [other for other in gone if _start_alike(before[old], before[other])]
        if len(alike) == len(twins) == 1:
            found[old] = alike[0]
    return found


def _start_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in LAUNCH)


def combined(
    spec: ProxySpec, asked: Collection[str], found: Snapshot, before: Snapshot
) -> Snapshot:
    """Return the snapshot of a config: of each server what was found, else what was there before.

    `asked` are those that were to be found.
    """
    new = {child.name: child for child in found.children}
    old = {child.name: child for child in before.children}
    known = old | new
    names = [server.name for server in spec.servers]
    stale = [name for name in names if name in old and name not in new]
    return Snapshot(
        children=tuple(known[name] for name in names if name in known),
        failed=tuple(name for name in names if name not in known),
        kept=tuple(name for name in stale if name in asked or name in before.kept),
    )


def check_known(
    spec: ProxySpec, asked: Collection[str], before: Snapshot, file: str, rebuild: str
) -> None:
    """Refuse a server that is neither asked nor recorded in `file`; `rebuild` writes that anew.

    Raises:
        ConfigError: naming each.
    """
    recorded = {*before.names, *before.failed}
    if problems := [
        Problem(
            server.path,
            f"is not in the snapshot of {file}",
            f"ask it with --refresh {server.name}, or compile anew: {rebuild}",
        )
        for server in spec.servers
        if server.name not in recorded and server.name not in asked
    ]:
        raise ConfigError(spec.source, problems)
