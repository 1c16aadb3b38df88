"""The passes in their order: config, environment, discovery, linking, emission.

Reads as a table of contents: each pass is one module with one public function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagg.approval import approving
from mcpagg.asking import Rows, asked_servers, check_known, combined, new_names
from mcpagg.config import read_config
from mcpagg.dry_run import DryRun
from mcpagg.environment import check_environment, settle_folders, unpinned
from mcpagg.options import Commands, Options
from mcpagg.output import is_extension
from mcpagg.problems import (
    ChildFault,
    CompileError,
    ConfigError,
    Problem,
    meant,
)
from mcpagg.recorded import NOTHING, Contents, read_contents
from mcpagg.relocation import check_alone, relocated
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec, ServerSpec

if TYPE_CHECKING:
    from mcpagg.costs import Cost
    from mcpagg.linking import Linked
    from mcpagg.lint import Finding

Progress = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Earlier:
    """What FILE says of its servers, for a comparison with what is compiled now.

    `renamed` {old name: new name} has the servers that only have another name now; `text_of`
    returns the text that contents would be compiled to with the options of now.
    """

    contents: Contents = NOTHING
    renamed: Mapping[str, str] = field(default_factory=dict)
    text_of: Callable[[Contents], str] = lambda contents: ""


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
    kept: tuple[str, ...]
    """Servers that failed, whose snapshot is that of an earlier compilation."""
    composites: tuple[str, ...]
    costs: tuple[Cost, ...]
    """What each server adds to the list of tools."""
    profiles: dict[str, tuple[Cost, ...]]
    """The same of each profile."""
    findings: tuple[Finding, ...]
    """What was found wrong with what it lists, and is no error."""
    made_of: MadeOf
    earlier: Earlier = field(default_factory=Earlier)


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What an emitted file was made of, for the other forms of it (a report, an extension, …).

    `rows` is the launch table as the file has it; `spec` has an entry for each row. `listed` is the
    snapshot with overlays applied: as clients are told.
    """

    spec: ProxySpec
    rows: Mapping[str, Mapping[str, Any]]
    snapshot: Snapshot
    linked: Linked
    listed: Snapshot


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
        spec, more = _checked(spec, source.options, environ, asked_servers(spec, None), ())
        warnings += more
    except CompileError as problem:
        fault = problem
    return DryRun(spec, environ, (*warnings, *unpinned(spec, {})), fault)


def compile_proxy(  # noqa: PLR0913 - as many as there are ways to compile
    source: Source,
    environ: Mapping[str, str],
    *,
    file: Path | None,
    commands: Commands,
    refresh: Collection[str] | None = None,
    check: bool = False,
    key: str | None = None,
    progress: Progress | None = None,
    warn: Callable[[Problem], None] = lambda problem: None,
) -> Compilation:
    """Compile a config. `file` is where the proxy will lie, None for standard output.

    `warn` is called with each warning as soon as it is known: it may be why a later pass fails.
    `refresh` names the servers to ask, None for all. The others need nothing of what a start
    needs: their snapshots are those of `file`. So is that of a server that fails, if the options
    allow failures. Where `file` exists, the order in it is kept (see `ordering`). `check`: the text
    is to be compared with `file`, so what a server computes anew each time is taken from there
    (see `Snapshot.with_known_ttl`). `key` is the path of a key to approve the data with; without,
    the approval that `file` has is kept as long as it is of the same data.

    Raises:
        CompileError: with all faults of the pass that failed.
        ReadBackError: a fault of the compiler.
    """
    understood, warnings = _understood(source)
    _each(warn, warnings)
    options = source.options
    spec = settle_folders(understood)
    asked = asked_servers(spec, refresh)
    rows = launch_rows(spec, file.parent if file else spec.folder)
    recorded = _recorded(file, commands.again, is_needed=refresh is not None)
    renamed = new_names(recorded.rows, rows)
    before = recorded.snapshot.renamed(renamed)
    if is_extension(file):
        check_alone(spec, rows)
    check_known(spec, asked, before, str(file), commands.again)
    ready, warnings = _checked(spec, options, environ, asked, before.names)
    _each(warn, warnings)
    # Not before the config is known to be good: these bring Jinja along.
    from mcpagg.costs import measured
    from mcpagg.emission import APPROVED, emit
    from mcpagg.lint import lint

    found = Snapshot(())
    if ready.servers:
        from mcpagg.ordering import in_order_of

        started = frozenset(server.name for server in ready.servers)
        found = _discovered(spec, started, options, environ, progress, warn)
        found = in_order_of(before, found)
        found = found.with_known_ttl(before) if check else found
        seen = {child.name: str(child.info.get("version", "?")) for child in found.children}
        _each(warn, unpinned(ready, seen))
    snapshot = combined(spec, asked, found, before)
    what = f"is as {file} has it: it could not be asked"
    _each(warn, (Problem(one.path, what) for one in spec.servers if one.name in snapshot.kept))
    rows = reached(rows, snapshot)
    listed, linked, warnings = _linked(spec, rows, snapshot, options)
    _each(warn, warnings)
    name = options.name or _proxy_name(source.name)
    findings, warnings = lint(spec, listed, linked, options, name)
    _each(warn, warnings)
    costs, lists = measured(listed, linked, options, source.name)
    emitted = partial(
        emit,
        name=name,
        source=Path(source.name).name,
        commands=(commands.rebuild, commands.check),
        config=commands.config,
        options=options,
        http=over_http(spec, options),
        approve=approving(None, recorded.approval),
    )

    def text_of(contents: Contents) -> str:
        servers = tuple(ServerSpec(name=one, path=one) for one in contents.rows)
        other = replace(spec, servers=servers)
        _, linked, _ = _linked(other, contents.rows, contents.snapshot, options)
        return emitted(rows=contents.rows, snapshot=contents.snapshot, linked=linked)

    approve = approving(key, recorded.approval)
    text = emitted(rows=rows, snapshot=snapshot, linked=linked, approve=approve)
    if recorded.approval and APPROVED not in text:
        what = f"the approval in {file} is of other data, and is left out"
        warn(Problem("", what, f"have it approved anew: {commands.again} --sign KEY"))
    left_out = dict.fromkeys(snapshot.failed, "failed")
    return Compilation(
        name,
        text,
        options,
        servers=_listed(linked, rows, options),
        portable=all(name == route[2] for name, route in linked.routes["tools"].items()),
        left_out=left_out | {one.name: one.why for one in ready.left_out},
        kept=snapshot.kept,
        composites=tuple(linked.composed.subtools),
        costs=costs,
        profiles=lists,
        findings=findings,
        made_of=MadeOf(spec, rows, snapshot, linked, listed),
        earlier=Earlier(recorded, renamed, text_of),
    )


def _linked(
    spec: ProxySpec,
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    options: Options,
) -> tuple[Snapshot, Linked, tuple[Problem, ...]]:
    """Return the snapshot with overlays applied, the tables of the emitted file, and warnings.

    Raises:
        ConfigError: an overlay, a profile or a composite tool means what is not there.
        NameClash: two tools, or two prompts, would get one name.
    """
    from mcpagg.linking import link
    from mcpagg.overlays import as_listed, idle, patches
    from mcpagg.profiles import subsets

    listed = as_listed(spec, snapshot)
    linked, warnings = link(spec, rows, listed, options)
    profiles, more = subsets(spec, listed, linked, options)
    linked = replace(linked, profiles=profiles, overlays=patches(spec, snapshot))
    return listed, linked, (*warnings, *more, *idle(spec, snapshot, linked))


def _recorded(file: Path | None, rebuild: str, *, is_needed: bool) -> Contents:
    """Return what `file` says of its servers.

    Raises:
        ConfigError: it says nothing that can be read, and that is needed.
    """
    if file is None:
        return NOTHING
    try:
        return read_contents(file, rebuild)
    except ConfigError:
        if is_needed:
            raise
        return NOTHING


def _discovered(
    spec: ProxySpec,
    asked: Collection[str],
    options: Options,
    environ: Mapping[str, str],
    progress: Progress | None,
    warn: Callable[[Problem], None],
) -> Snapshot:
    """Start servers, and return what they say.

    Raises:
        ChildFault: one fails, and that is not allowed, or repeats a secret.
    """
    from mcpagg.discovery import discover

    snapshot, warnings = discover(
        spec,
        environ,
        asked=asked,
        connect_timeout=options.connect_timeout,
        allow_failed=options.allow_failed,
        minimal=options.minimal,
        progress=progress,
    )
    _each(warn, warnings)
    if not options.allow_secrets:
        from mcpagg.leaks import leaks

        if problems := leaks(spec, snapshot, environ, minimal=options.minimal):
            raise ChildFault(spec.source, problems)
    return snapshot


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
    _check_profiles(spec, options)
    return _filtered(spec, options), warnings


def _check_profiles(spec: ProxySpec, options: Options) -> None:
    """Check what `--profile` names.

    Raises:
        ConfigError: the config has no such profile.
    """
    known = [profile.name for profile in spec.profiles]
    has = f"the config has {', '.join(known)}" if known else "write it into `mcpagg.profiles`"
    problems = [
        Problem("", f"--profile: there is no profile '{name}'", meant(name, known) or has)
        for name in options.profile
        if name not in known
    ]
    if problems:
        raise ConfigError(spec.source, problems)


def _checked(
    spec: ProxySpec,
    options: Options,
    environ: Mapping[str, str],
    asked: Collection[str],
    recorded: Collection[str],
) -> tuple[ProxySpec, tuple[Problem, ...]]:
    """Return the spec of the servers to start, made ready for this machine, and warnings.

    `asked` and `recorded` are those of `check_environment`.

    Raises:
        EnvironmentFault: servers lack something.
    """
    return check_environment(
        spec,
        environ,
        asked=asked,
        recorded=recorded,
        minimal=options.minimal,
        allow_failed=options.allow_failed,
    )


def launch_rows(spec: ProxySpec, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the launch table: {server: row}, relative folders meant from `folder`.

    A config and its proxy move as a whole, so a relative `cwd` stays relative, to the proxy.
    """
    return {server.name: relocated(server.row(), spec.folder, folder) for server in spec.servers}


def over_http(spec: ProxySpec, options: Options) -> dict[str, Any] | None:
    """Return what is said of serving over HTTP, None for a proxy that does not.

    The config may ask for it where no option does.
    """
    asked = options.serve == "stdio,http" if options.serve else spec.http is not None
    return (spec.http or {}) if asked else None


def reached(rows: Rows, snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Return the rows of the servers that a snapshot has, as it was taken.

    A URL alone does not say which of two transports is behind it; the snapshot does.
    """
    children = {child.name: child for child in snapshot.children}
    return {
        name: {**row, "transport": children[name].transport} if "url" in row else {**row}
        for name, row in rows.items()
        if name in children
    }


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


def _proxy_name(source: str) -> str:
    """Return the config's name without what says its format."""
    if source == "-":
        return "mcpagg"
    return re.split(r"\.(?:json|toml|ya?ml)", Path(source).name)[0].lstrip(".") or "mcpagg"
