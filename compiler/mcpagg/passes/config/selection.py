"""Selects the entries of a config that are read, before any of them is checked.

An entry is left out if the user says so (`--only`, `--skip`), if its client switches it off, or
if only its client can start it. Faults of an entry that is left out are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from mcpagg.jsontext import members_of
from mcpagg.passes.config.containers import RawEntry, host_of
from mcpagg.passes.config.dialects import SERVER_LISTS, Dialect
from mcpagg.passes.config.entries import is_provided
from mcpagg.passes.config.keys import is_nested, within_of
from mcpagg.passes.config.places import Place, kind, quoted, reach
from mcpagg.passes.config.readers import switch
from mcpagg.passes.config.restrictions import SWITCHES
from mcpagg.problems import ConfigError, Problem, suggest
from mcpagg.spec import LeftOut, Pattern, ProxySpec, ServerSpec, tool_glob
from mcpagg_runtime.launch.launch import Location

_RULES = ("serverName", "serverCommand", "serverUrl")
"""What a rule of Claude's lists of servers has one of."""


def select(
    entries: list[RawEntry],
    dialect: Dialect,
    only: Collection[str],
    skip: Collection[str],
    root: Place,
) -> tuple[list[RawEntry], list[LeftOut]]:
    """Return the entries to read, each name once, and those that are left out."""
    names = list(dict.fromkeys(entry.name for entry in entries))
    for name in dict.fromkeys([*only, *skip]):
        if name not in names:
            what = f"there is no server '{name}' to choose"
            root.error(what, suggest(name, names) or f"it has {', '.join(names)}")
    wanted = [e for e in entries if e.name not in skip and (not only or e.name in only)]
    on = [entry for entry in wanted if not _is_off(entry, dialect, root)]
    for entry in wanted:
        if entry.name in only and entry not in on:
            entry.place.error("is switched off in the config", "enable it there, or leave it out")
    chosen = [entry for entry in on if not is_provided(entry.value, dialect)]
    _name_provided([entry for entry in on if entry not in chosen], root)
    if entries and not chosen and not root.errors:
        _nothing_left(wanted, on, root)
    left_out = [
        LeftOut(name=entry.name, path=entry.place.path, why=_why(entry, wanted, on, skip))
        for entry in entries
        if entry not in chosen
    ]
    return _unique(chosen), left_out


def _why(entry: RawEntry, wanted: list[RawEntry], on: list[RawEntry], skip: Collection[str]) -> str:
    """Say why an entry is left out, from what is left after each step."""
    if entry not in wanted:
        return "--skip" if entry.name in skip else "not among --only"
    return "only the client itself can start it" if entry in on else "switched off in the config"


def _nothing_left(wanted: list[RawEntry], on: list[RawEntry], root: Place) -> None:
    if not wanted:
        root.error("--only and --skip leave no server")
    elif not on:
        names = ", ".join(quoted(entry.name) for entry in wanted)
        root.error(f"every server is switched off: {names}", "enable one of them")
    else:
        names = ", ".join(quoted(entry.name) for entry in on)
        root.error(f"only the client itself can start its servers: {names}")


def _is_off(entry: RawEntry, dialect: Dialect, root: Place) -> bool:
    """Whether the client switches the server off: in its entry, or in a list beside it."""
    if any(list(_switches(members_of(entry.value), dialect, entry.place))):
        return True
    for path, runs in SERVER_LISTS.items():
        names, _ = reach(entry.beside, path, root)
        if isinstance(names, list) and _is_listed(entry, names, dialect, runs) is not runs:
            return True
    return False


def _switches(
    value: Mapping[str, Any], dialect: Dialect, at: Place, within: str = ""
) -> Iterator[bool]:
    """Yield for each switch of an entry, at any depth, whether it is off."""
    switches = {**SWITCHES, **dialect.switches}
    for key, member in value.items():
        whole = within + key
        if whole in switches and member is not None:
            yield switch(member, at.at(key)) is switches[whole]
        elif isinstance(member, dict) and is_nested(dialect.keys, whole):
            yield from _switches(member, dialect, at.at(key), within_of(whole))


def _is_listed(entry: RawEntry, listed: list[Any], dialect: Dialect, runs: bool) -> bool:
    """Whether a list of the client has a server: by its name, or by Claude's rules.

    A list of those that run which has rules for commands is for local servers a list of these
    alone; for remote ones it is so with URLs.
    """
    rules = [item if isinstance(item, dict) else {_RULES[0]: item} for item in listed]
    value = members_of(entry.value)
    own = _RULES[1] if "command" in value else _RULES[2]
    if runs and any(own in rule for rule in rules):
        rules = [rule for rule in rules if own in rule]
    args = value.get("args")
    command = [value.get("command"), *(args if isinstance(args, list) else ())]
    return any(
        rule.get(_RULES[0]) == entry.name
        or (dialect.server_globs and _fits(entry.name, rule.get(_RULES[0])))
        or rule.get(_RULES[1]) == command
        or _fits(value.get("url"), rule.get(_RULES[2]))
        for rule in rules
    )


def _fits(text: Any, glob: Any) -> bool:
    return isinstance(text, str) and isinstance(glob, str) and fnmatchcase(text, glob)


def check_lists(entries: list[RawEntry], document: Mapping[str, Any], root: Place) -> None:
    """Report lists of servers' names that are none, or that are for a part of the client alone."""
    for path in SERVER_LISTS:
        names, place = reach(document, path, root)
        if names is not None and not isinstance(names, list | dict):
            what = f"expected a list of names of servers, found {kind(names)}"
            place.error(what, 'write ["NAME"]')
        for index, item in enumerate(names if isinstance(names, list) else ()):
            if isinstance(item, dict) and (len(item) != 1 or item.keys() - {*_RULES}):
                place.at(index).error(f"expected an object with one of {', '.join(_RULES)}")
    beside = {entry.name for entry in entries if entry.beside is document}
    projects = document.get("projects")
    for project, settings in members_of(projects).items():
        names = members_of(settings).get("disabledMcpServers")
        hit = [name for name in names if name in beside] if isinstance(names, list) else []
        if hit:
            root.at("projects").at(project).at("disabledMcpServers").warn(
                f"is not honoured: it is for this project alone: {', '.join(map(quoted, hit))}",
                "--skip them for a proxy of this project",
            )


def check_hosts(
    servers: list[ServerSpec], dialect: Dialect, document: Mapping[str, Any], root: Place
) -> None:
    """Refuse remote servers whose host is not in the client's list of those that it allows."""
    allowed, _ = reach(document, dialect.hosts, root) if dialect.hosts else (None, root)
    if not isinstance(allowed, list):
        return
    globs = [re.sub(r"^.*://|[:/].*$", "", str(entry)).lower() for entry in allowed]
    for server in servers:
        host = host_of(server.url)  # a URL that is none is reported where it is read
        if server.url and not any(fnmatchcase(host, glob) for glob in globs):
            at = root.of(server, Location("url"))
            at.error(f"is no host that `{dialect.hosts}` allows", "--skip it, or add it")


def _name_provided(entries: list[RawEntry], root: Place) -> None:
    """Say in one line which entries only the client itself can start."""
    if len(entries) == 1:
        entries[0].place.warn("is left out: only the client itself can start it")
    elif entries:
        names = ", ".join(quoted(entry.name) for entry in entries)
        root.warn(f"left out, as only the client itself can start them: {names}")


def _unique(entries: list[RawEntry]) -> list[RawEntry]:
    """Return each server once; two that differ and share a name are an error."""
    first: dict[str, RawEntry] = {}
    for entry in entries:
        earlier = first.setdefault(entry.name, entry)
        if earlier.value != entry.value:
            entry.place.error(
                f"two servers are called {quoted(entry.name)}: the other is {earlier.place.path}",
                f"rename one of them, or --skip {entry.name}",
            )
        elif earlier is not entry:
            entry.place.warn(f"is the same as {earlier.place.path}")
    return list(first.values())


def filtered(spec: ProxySpec, expose: tuple[str, ...], hide: tuple[str, ...]) -> ProxySpec:
    """Apply --expose and --hide, whose globs are SERVER:TOOL.

    Raises:
        ConfigError: one is for no server; a filter that does nothing would fail open.
    """
    names = [*(server.name for server in spec.servers), *(entry.name for entry in spec.left_out)]
    problems = [
        Problem("", f"{flag} {glob} is for no server of the config", _meant_server(glob, spec))
        for flag, globs in (("--expose", expose), ("--hide", hide))
        for glob in globs
        if not any(_globs_for(name, (glob,)) for name in names)
    ]
    if problems:
        raise ConfigError(spec.source, problems)
    servers = []
    for server in spec.servers:
        own = [*_globs_for(server.name, expose).values()]
        offered = (*(server.expose or ()), *own) if expose else server.expose
        hidden = _globs_for(server.name, hide)
        patterns = {own: Pattern(glob, "", f"{server.name}:") for glob, own in hidden.items()}
        servers.append(
            replace(
                server,
                expose=offered,
                hide=(*server.hide, *hidden.values()),
                patterns=server.patterns | patterns,
            )
        )
    return replace(spec, servers=tuple(servers))


def _meant_server(glob: str, spec: ProxySpec) -> str:
    server, colon, _ = glob.partition(":")
    near = suggest(server, [other.name for other in spec.servers]) if colon else ""
    return near or "write SERVER:TOOL"


def _globs_for(server: str, globs: tuple[str, ...]) -> dict[str, str]:
    """Return {glob: its part for tools} of the SERVER:TOOL globs that are for a server."""
    parts = {glob: tool_glob(glob, server) for glob in globs}
    return {glob: part for glob, part in parts.items() if part is not None}
