"""The passes in their order: config, environment, discovery, linking, emission.

Reads as a table of contents: each pass is one module with one public function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagg.config import read_config
from mcpagg.dry_run import DryRun
from mcpagg.environment import check_environment, settle_folders, unpinned
from mcpagg.options import Commands, Options
from mcpagg.problems import (
    ChildFault,
    CompileError,
    ConfigError,
    EnvironmentFault,
    Problem,
    meant,
)
from mcpagg.relocation import relocated
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec, ServerSpec

if TYPE_CHECKING:
    from mcpagg.linking import Linked

Progress = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Compilation:
    """The text of the emitted file and what there was to say about it."""

    name: str
    text: str
    options: Options
    servers: dict[str, list[str]]
    """Each server's tools, by the names that are listed."""
    portable: bool
    """Whether every tool's name is portable as it is."""
    left_out: dict[str, str]
    """Entries of the config that are no part of the proxy, and why."""
    composites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A config to compile: its text, its name as the user wrote it, and where it lies."""

    text: bytes
    name: str
    folder: Path
    options: Options = field(default_factory=Options)


def dry_run(source: Source, environ: Mapping[str, str]) -> DryRun:
    """Return what would be started, and why a compilation would refuse it. Starts nothing.

    Raises:
        ConfigError: the config cannot be understood.
    """
    spec, warnings = _understood(source)
    fault = None
    try:
        spec, more = _checked(spec, source.options, environ)
        warnings += more
    except CompileError as problem:
        fault = problem
    return DryRun(spec, environ, (*warnings, *unpinned(spec, {})), fault)


def compile_proxy(
    source: Source,
    environ: Mapping[str, str],
    *,
    file: Path | None,
    commands: Commands,
    offline: bool = False,
    check: bool = False,
    progress: Progress | None = None,
    warn: Callable[[Problem], None] = lambda problem: None,
) -> Compilation:
    """Compile a config. `file` is where the proxy will lie, None for standard output.

    `warn` is called with each warning as soon as it is known: it may be why a later pass fails.
    `offline` needs nothing of what a start needs. Where `file` exists, the order in it is kept
    (see `ordering`). `check`: the text is to be compared with `file`, so what a server computes
    anew each time is taken from there (see `Snapshot.with_known_ttl`).

    Raises:
        CompileError: with all faults of the pass that failed.
        ReadBackError: a fault of the compiler.
    """
    understood, warnings = _understood(source)
    _each(warn, warnings)
    options = source.options
    if offline:
        if problems := _remote(understood):
            raise ConfigError(source.name, problems)
        spec = settle_folders(understood)
    else:
        spec, warnings = _checked(understood, options, environ)
        _each(warn, warnings)
    # Not before the config is known to be good: these bring black along.
    from mcpagg.emission import emit
    from mcpagg.linking import link

    if offline:
        from mcpagg.recorded import recorded_snapshot

        if file is None:
            raise ConfigError(source.name, [Problem("", "--offline needs -o FILE")])
        snapshot = _of_these(spec, recorded_snapshot(file, commands.again), file, commands.again)
    else:
        from mcpagg.discovery import discover

        snapshot, warnings = discover(
            spec,
            environ,
            connect_timeout=options.connect_timeout,
            allow_failed=options.allow_failed,
            minimal=options.minimal,
            progress=progress,
        )
        _each(warn, warnings)
        found = {child.name for child in snapshot.children}
        failed = tuple(one.name for one in understood.servers if one.name not in found)
        snapshot = replace(snapshot, failed=failed)
        if file is not None:
            snapshot = _compared_with(file, snapshot, check)
        if not options.allow_secrets:
            from mcpagg.leaks import leaks

            if problems := leaks(spec, snapshot, environ, minimal=options.minimal):
                raise ChildFault(source.name, problems)
        seen = {child.name: str(child.info.get("version", "?")) for child in snapshot.children}
        _each(warn, unpinned(spec, seen))
    found = {child.name for child in snapshot.children}
    rows = launch_rows(spec, file.parent if file else spec.folder, found)
    linked, warnings = link(spec, rows, snapshot, options)
    _each(warn, warnings)
    name = options.name or _proxy_name(source.name)
    text = emit(
        name=name,
        source=Path(source.name).name,
        commands=(commands.rebuild, commands.check),
        rows=rows,
        snapshot=snapshot,
        linked=linked,
        options=options,
    )
    left_out = dict.fromkeys(snapshot.failed, "failed")
    return Compilation(
        name,
        text,
        options,
        servers=_listed(linked, rows, options),
        portable=all(name == route[2] for name, route in linked.routes["tools"].items()),
        left_out=left_out | {one.name: one.why for one in spec.left_out},
        composites=tuple(linked.composed.subtools),
    )


def _listed(linked: Linked, servers: Iterable[str], options: Options) -> dict[str, list[str]]:
    """Return each server's tools by the names that are listed, to most clients at least."""
    listed: dict[str, list[str]] = {name: [] for name in servers}
    for exposed, (server, _, portable) in linked.routes["tools"].items():
        if server in listed:
            listed[server].append(portable if options.names == "portable" else exposed)
    return listed


def _each(warn: Callable[[Problem], None], problems: Iterable[Problem]) -> None:
    for problem in problems:
        warn(problem)


def _understood(source: Source) -> tuple[ProxySpec, tuple[Problem, ...]]:
    """Read the config, and choose its servers and tools as the options say."""
    options = source.options
    spec, warnings = read_config(
        source.text,
        source=source.name,
        folder=source.folder,
        only=options.only,
        skip=options.skip,
        defines=dict(pair.partition("=")[::2] for pair in options.define),
        stdio_only=options.stdio_only,
        allow_secrets=options.allow_secrets,
    )
    return _filtered(spec, options), warnings


def _checked(
    spec: ProxySpec, options: Options, environ: Mapping[str, str]
) -> tuple[ProxySpec, tuple[Problem, ...]]:
    """Return the spec, made ready for this machine, and warnings.

    Raises:
        ConfigError: servers cannot be proxied; tells what others lack as well.
        EnvironmentFault: servers lack something.
    """
    refused = _remote(spec)
    try:
        ready = check_environment(
            spec, environ, minimal=options.minimal, allow_failed=options.allow_failed
        )
    except EnvironmentFault as fault:
        if not refused:
            raise
        problems = (*refused, *fault.problems)
        raise ConfigError(spec.source, problems, fault.advice) from None
    if refused:
        raise ConfigError(spec.source, refused)
    return ready


def _remote(spec: ProxySpec) -> list[Problem]:
    """Return a problem for each server that discovery can reach but the emitted file cannot yet."""
    return [
        Problem(
            server.path,
            f"is a remote server ({server.transport}), not proxied yet",
            f"--skip it, or bridge it with a command such as `{_bridge(server)}`",
        )
        for server in spec.servers
        if server.transport != "stdio"
    ]


def _bridge(server: ServerSpec) -> str:
    """Return the command that makes a remote server one of stdio; headers by their names alone."""
    return " ".join(["npx mcp-remote URL", *(f"--header {name}:VALUE" for name in server.headers)])


def launch_rows(
    spec: ProxySpec, folder: Path, found: set[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the launch table: {server: row}, relative folders meant from `folder`.

    A config and its proxy move as a whole, so a relative `cwd` stays relative, to the proxy.
    """
    rows = {}
    for server in spec.servers:
        if found is None or server.name in found:
            rows[server.name] = relocated(server.row(), spec.folder, folder)
    return rows


def _filtered(spec: ProxySpec, options: Options) -> ProxySpec:
    """Apply --expose and --hide, whose globs are SERVER:TOOL.

    Raises:
        ConfigError: one is for no server; a filter that does nothing would fail open.
    """
    problems = [
        Problem("", f"{flag} {glob} is for no server of the config", _meant_server(glob, spec))
        for flag, globs in (("--expose", options.expose), ("--hide", options.hide))
        for glob in globs
        if not any(_globs_for(server, (glob,)) for server in spec.servers)
    ]
    if problems:
        raise ConfigError(spec.source, problems)
    servers = []
    for server in spec.servers:
        expose = _globs_for(server, options.expose)
        hide = (*server.hide, *_globs_for(server, options.hide))
        changes: dict[str, Any] = {"hide": hide}
        if options.expose:
            changes["expose"] = (*(server.expose or ()), *expose)
        servers.append(replace(server, **changes))
    return replace(spec, servers=tuple(servers))


def _meant_server(glob: str, spec: ProxySpec) -> str:
    server, colon, _ = glob.partition(":")
    near = meant(server, [one.name for one in spec.servers]) if colon else ""
    return near or "write SERVER:TOOL"


def _globs_for(server: ServerSpec, globs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tool parts of the SERVER:TOOL globs that are for a server, whatever its name."""
    found = []
    for glob in globs:
        for index, char in enumerate(glob):
            if char == ":" and fnmatchcase(server.name, glob[:index]):
                found.append(glob[index + 1 :])
                break
    return tuple(found)


def _compared_with(file: Path, snapshot: Snapshot, check: bool) -> Snapshot:
    """Return a snapshot less what differs from that of `file` without being a change."""
    from mcpagg.ordering import in_order_of
    from mcpagg.recorded import recorded_snapshot

    try:
        before = recorded_snapshot(file)
    except ConfigError:  # there is none
        return snapshot
    snapshot = in_order_of(before, snapshot)
    return snapshot.with_known_ttl(before) if check else snapshot


def _of_these(spec: ProxySpec, snapshot: Snapshot, file: Path, rebuild: str) -> Snapshot:
    """Return the part of a recorded snapshot that the config's servers have.

    Raises:
        ConfigError: one has none.
    """
    recorded = [*(child.name for child in snapshot.children), *snapshot.failed]
    missing = [server for server in spec.servers if server.name not in recorded]
    if missing:
        remedy = f"compile without --offline once: {rebuild}"
        problems = [Problem(s.path, f"is not in the snapshot of {file}", remedy) for s in missing]
        raise ConfigError(spec.source, problems)
    children = {child.name: child for child in snapshot.children}
    names = [server.name for server in spec.servers]
    kept = tuple(children[name] for name in names if name in children)
    return Snapshot(kept, tuple(name for name in names if name not in children))


def _proxy_name(source: str) -> str:
    """Return the config's name without what says its format."""
    if source == "-":
        return "mcpagg"
    return re.split(r"\.(?:json|toml|ya?ml)", Path(source).name)[0].lstrip(".") or "mcpagg"
