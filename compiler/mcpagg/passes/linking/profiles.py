"""Profiles: named subsets of what a proxy offers, one of which it may be asked to serve alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from mcpagg.options import Options
from mcpagg.passes.linking.linking import Linked, Subset, declared_capabilities, merged_instructions
from mcpagg.problems import ConfigError, Problem, suggest
from mcpagg.snapshot import Snapshot
from mcpagg.spec import Profile, ProxySpec, tool_glob

DEFAULT = "default"
"""The profile that is served where none is chosen."""


def subsets(
    spec: ProxySpec, snapshot: Snapshot, linked: Linked, options: Options
) -> tuple[dict[str, Subset], tuple[Problem, ...]]:
    """Return {profile: what it offers} for those that are compiled in, and warnings.

    A profile has the tools that its globs fit now: what a server adds later is in none.

    Raises:
        ConfigError: one offers nothing, or a composite tool without what that calls.
    """
    chosen: dict[str, Subset] = {}
    faults: list[Problem] = []
    warnings: list[Problem] = []
    for profile in spec.profiles:
        if options.profile and profile.name not in options.profile:
            continue
        tools = _tools(profile, snapshot, linked)
        absent = _absent(profile, spec, snapshot)
        warnings += _unused_globs(profile, linked, absent)
        if absent and not tools:
            names = " and ".join(f"'{name}'" for name in absent)
            warnings.append(Problem(profile.path, f"is left out, as {names} is"))
            continue
        faults += _faults(profile, tools, linked.composed.subtools)
        children = tuple(child for child in snapshot.children if child.name in tools)
        part = Snapshot(children)
        chosen[profile.name] = Subset(
            profile.clients,
            tools,
            declared_capabilities(part.with_handshakes),
            declared_capabilities(part),
            merged_instructions(part),
        )
    if faults:
        raise ConfigError(spec.source, faults)
    return chosen, tuple(warnings)


def check_chosen(spec: ProxySpec, names: Iterable[str]) -> None:
    """Check what `--profile` names.

    Raises:
        ConfigError: the config has no such profile.
    """
    profiles = [profile.name for profile in spec.profiles]
    has = f"the config has {', '.join(profiles)}" if profiles else "write it into `mcpagg.profiles`"
    problems = [
        Problem("", f"--profile: there is no profile '{name}'", suggest(name, profiles) or has)
        for name in names
        if name not in profiles
    ]
    if problems:
        raise ConfigError(spec.source, problems)


def _tools(profile: Profile, snapshot: Snapshot, linked: Linked) -> dict[str, list[str]]:
    """Return {server: own names of its tools} of what is in a profile.

    A server without tools is in it if it is not filtered; one with tools if one of them is.
    """
    routes = linked.routes["tools"].values()
    tools: dict[str, list[str]] = {}
    for child in snapshot.children:
        offered = [name for server, name, _ in routes if server == child.name]
        chosen = [name for name in offered if _has(profile, f"{child.name}:{name}")]
        if chosen or (not offered and _has(profile, f"{child.name}:")):
            tools[child.name] = chosen
    if composites := [name for name in linked.composed.subtools if _has(profile, name)]:
        tools[""] = composites
    return tools


def _has(profile: Profile, target: str) -> bool:
    if any(fnmatchcase(target, glob) for glob in profile.hide):
        return False
    return profile.expose is None or any(fnmatchcase(target, glob) for glob in profile.expose)


def _absent(profile: Profile, spec: ProxySpec, snapshot: Snapshot) -> list[str]:
    """Return the servers of a profile that are no part of the proxy: left out, or failed."""
    names = [*(server.name for server in spec.servers), *(entry.name for entry in spec.left_out)]
    return [
        name
        for name in names
        if name not in snapshot.names
        and any(tool_glob(glob, name) is not None for glob in profile.expose or ())
    ]


def _unused_globs(profile: Profile, linked: Linked, absent: Iterable[str]) -> Iterable[Problem]:
    """Warn of globs to expose that fit nothing that is offered, though their server is there."""
    targets = [
        f"{server}:{name}" if server else name
        for server, name, _ in linked.routes["tools"].values()
    ]
    for glob in profile.expose or ():
        fits = any(fnmatchcase(target, glob) for target in targets)
        if not fits and not any(tool_glob(glob, server) is not None for server in absent):
            near = suggest(glob, targets)
            yield Problem(profile.path, f"'{glob}' fits nothing that is offered", near)


def _faults(
    profile: Profile,
    tools: Mapping[str, list[str]],
    subtools: Mapping[str, Mapping[str, list[str]]],
) -> Iterable[Problem]:
    if not tools:
        yield Problem(profile.path, "offers nothing", "its globs are SERVER:TOOL")
    for composite in tools.get("", ()):
        for server in subtools[composite]:
            if server not in tools:
                what = f"the composite tool '{composite}' calls '{server}', which is not in it"
                yield Problem(profile.path, what, f"hide '{composite}', or expose tools of both")
