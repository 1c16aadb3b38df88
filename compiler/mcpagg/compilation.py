"""The passes in their order: config, environment, discovery, linking, emission.

Reads as a table of contents: each pass is one module with one public function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mcpagg.config import read_config
from mcpagg.dry_run import DryRun
from mcpagg.environment import check_environment, settle_folders, unpinned
from mcpagg.options import Options
from mcpagg.problems import ChildFault, CompileError, ConfigError, Problem
from mcpagg.relocation import relocated
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec, ServerSpec

Progress = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Compilation:
    """The text of the emitted file and what there was to say about it."""

    name: str
    text: str
    servers: dict[str, list[str]]
    """Each server's exposed names."""
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
    try:
        _refuse_remote(spec)
        spec, more = _checked(spec, source, environ)
    except CompileError as fault:
        return DryRun(spec, environ, (*warnings, *unpinned(spec, {})), fault)
    return DryRun(spec, environ, (*warnings, *more, *unpinned(spec, {})))


def compile_proxy(
    source: Source,
    environ: Mapping[str, str],
    *,
    file: Path | None,
    commands: tuple[str, str],
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
    spec, warnings = _understood(source)
    _each(warn, warnings)
    _refuse_remote(spec)
    if offline:
        spec = settle_folders(spec)
    else:
        spec, warnings = _checked(spec, source, environ)
        _each(warn, warnings)
    # Not before the config is known to be good: these bring the SDK and black along.
    from mcpagg.emission import emit
    from mcpagg.linking import link

    if offline:
        from mcpagg.recorded import recorded_snapshot

        if file is None:
            raise ConfigError(source.name, [Problem("", "--offline needs -o FILE")])
        snapshot = recorded_snapshot(file)
        snapshot = _of_these(spec, snapshot, file)
    else:
        from mcpagg.discovery import discover

        snapshot, warnings = discover(
            spec,
            environ,
            connect_timeout=source.options.connect_timeout,
            allow_failed=source.options.allow_failed,
            minimal=source.options.minimal,
            progress=progress,
        )
        _each(warn, warnings)
        if file is not None:
            snapshot = _compared_with(file, snapshot, check)
        if not source.options.allow_secrets:
            from mcpagg.leaks import leaks

            if problems := leaks(spec, snapshot, environ, minimal=source.options.minimal):
                raise ChildFault(source.name, problems)
    found = {child.name for child in snapshot.children}
    seen = {child.name: str(child.info.get("version", "?")) for child in snapshot.children}
    _each(warn, unpinned(spec, seen))
    rows = launch_rows(spec, file.parent if file else spec.folder, found)
    linked, warnings = link(spec, rows, snapshot, source.options)
    _each(warn, warnings)
    name = source.options.name or _proxy_name(source.name)
    text = emit(
        name=name,
        source=Path(source.name).name,
        commands=commands,
        entries=launch_rows(spec, spec.folder, found),
        rows=rows,
        snapshot=snapshot,
        linked=linked,
        options=source.options,
    )
    servers: dict[str, list[str]] = {name: [] for name in rows}
    for exposed, route in linked.routes["tools"].items():
        if route[0] in servers:
            servers[route[0]].append(exposed)
    return Compilation(name, text, servers, tuple(linked.composed.subtools))


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
    spec: ProxySpec, source: Source, environ: Mapping[str, str]
) -> tuple[ProxySpec, tuple[Problem, ...]]:
    return check_environment(spec, environ, minimal=source.options.minimal)


def _refuse_remote(spec: ProxySpec) -> None:
    """Refuse what discovery can reach but the emitted file cannot yet.

    Raises:
        ConfigError: naming every remote server.
    """
    remedy = "--skip it, or bridge it with a command such as `npx mcp-remote URL`"
    problems = [
        Problem(server.path, f"is a remote server ({server.transport}), not proxied yet", remedy)
        for server in spec.servers
        if server.transport != "stdio"
    ]
    if problems:
        raise ConfigError(spec.source, problems)


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
        Problem("", f"{flag} {glob} is for no server of the config", "write SERVER:TOOL")
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
        servers.append(server.model_copy(update=changes))
    return spec.model_copy(update={"servers": tuple(servers)})


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


def _of_these(spec: ProxySpec, snapshot: Snapshot, file: Path) -> Snapshot:
    """Return the part of a recorded snapshot that the config's servers have.

    Raises:
        ConfigError: one has none.
    """
    recorded = [*(child.name for child in snapshot.children), *snapshot.failed]
    missing = [server for server in spec.servers if server.name not in recorded]
    if missing:
        remedy = "compile without --offline once"
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
