"""The passes in their order: config, environment, discovery, linking, lint, emission.

Reads as a table of contents: each pass is one module with one public function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mcpagg.approval import approving
from mcpagg.clients import FILE_NAMES
from mcpagg.config import read_config
from mcpagg.config.selection import filtered
from mcpagg.environment import check_environment, settle_folders
from mcpagg.filters import check_filters
from mcpagg.nesting import check_nesting
from mcpagg.options import NO_COMMANDS, Commands, Options, Source
from mcpagg.output import is_extension
from mcpagg.pins import Pin, Written, find_pins, write_pins
from mcpagg.problems import ChildFault, CompileError, ConfigError, Problem, count, some
from mcpagg.recorded import (
    NOTHING,
    Contents,
    Rows,
    asked_servers,
    check_known,
    combined,
    new_names,
    read_contents,
)
from mcpagg.relocation import check_alone, launch_rows, reached
from mcpagg.snapshot import Snapshot
from mcpagg.spec import LeftOut, ProxySpec, ServerSpec

if TYPE_CHECKING:
    from mcpagg.approval import Approval
    from mcpagg.costs import Cost
    from mcpagg.discovery import Awaited, Found
    from mcpagg.dry_run import DryRun
    from mcpagg.kept import Known
    from mcpagg.linking import Linked
    from mcpagg.lint import Finding


class Listener:
    """Hears how a compilation goes, as soon as it is known; this one takes no notice.

    What it hears may be why a later pass fails.
    """

    def warn(self, problems: Sequence[Problem], servers: Collection[str] = ()) -> None:
        """Hear warnings; `servers` are the paths of the entries that they may be about."""

    def failed(self, failures: Sequence[Problem], advice: str) -> None:
        """Hear which servers failed, and what helps."""

    def progress(self, server: str, text: str) -> None:
        """Hear what came of a server, "" for all of them."""

    def waiting(self, awaited: Sequence[Awaited]) -> None:
        """Hear, about once in a second, which servers are still awaited."""


SILENT = Listener()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be compiled, and how this time.

    `file` is where the proxy will lie, None for standard output; `commands` are those for it.
    `refresh` names the servers to ask, None for all: the others need nothing of what a start needs,
    as their snapshots are those of `file`. `check`: the text is to be compared with `file`, so what
    a server computes anew each time is taken from there (see `Snapshot.with_known_ttl`). `against`
    is another file to compare the text with, which gives nothing of what is compiled. `key` is
    the path of a key to approve the data with; without, the approval that `file` has is kept as
    long as it is of the same data. Of the stderr of a server that fails so many lines are `quoted`.
    """

    source: Source
    environ: Mapping[str, str]
    file: Path | None = None
    commands: Commands = NO_COMMANDS
    refresh: Collection[str] | None = None
    check: bool = False
    against: Path | None = None
    key: str | None = None
    listener: Listener = SILENT
    verbose: bool = False

    @property
    def options(self) -> Options:
        """The options that the file records."""
        return self.source.options

    @property
    def may_know(self) -> bool:
        """Whether what servers said in a run that failed will do: see `kept`.

        What is to be compared, or renewed by name, is asked; what may be secret is not kept.
        """
        return not (self.check or self.refresh is not None or self.options.allow_secrets)

    @property
    def name(self) -> str:
        """The proxy's own name, by default the config's without what says its format.

        All users of a client have a config of the same name; it is that of nothing in particular.
        """
        if self.options.name or self.source.name == "-":
            return self.options.name or "mcpagg"
        file = Path(self.source.name).name
        if file in FILE_NAMES:
            return "mcp"
        stem = re.split(r"\.(?:json|toml|ya?ml)", file)[0]
        return stem.lstrip(".") or "mcpagg"

    def warn_of(self, problems: Iterable[Problem], servers: Iterable[ServerSpec] = ()) -> None:
        """Report warnings, `servers` being those whose entries they may be about."""
        self.listener.warn([*problems], [server.path for server in servers])


@dataclass(frozen=True, slots=True)
class Earlier:
    """What FILE says of its servers, for a comparison with what is compiled now.

    `renamed` {old name: new name} has the servers that only have another name now; `text_of`
    returns the text that contents would be compiled to with the options of now.
    """

    contents: Contents = NOTHING
    renamed: Mapping[str, str] = field(default_factory=dict)
    text_of: Callable[[Contents], str] = lambda contents: ""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of FILE, under the names of now."""
        return self.contents.snapshot.renamed(self.renamed)


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What an emitted file is made of, for the other forms of it too (a report, an extension, …).

    `rows` is the launch table as the file has it; `spec` has an entry for each row. `listed` is the
    snapshot with overlays applied: as clients see it.
    """

    spec: ProxySpec
    rows: Rows
    snapshot: Snapshot
    linked: Linked
    listed: Snapshot


@dataclass(frozen=True)
class Compilation:
    """The text of the emitted file, what it is made of, and what there was to say about it."""

    name: str
    text: str
    options: Options
    made_of: MadeOf
    absent: tuple[LeftOut, ...] = ()
    """Entries of the config that were not compiled."""
    findings: tuple[Finding, ...] = ()
    """What was found wrong with what it lists, and is no error."""
    pins: tuple[Pin, ...] = ()
    """Servers that were asked and whose package has no exact version."""
    earlier: Earlier = field(default_factory=Earlier)

    @property
    def servers(self) -> dict[str, list[str]]:
        """Each server's tools, by the names that are listed, to most clients at least."""
        listed: dict[str, list[str]] = {name: [] for name in self.made_of.rows}
        for exposed, (server, _, portable) in self.made_of.linked.routes["tools"].items():
            if server in listed:
                listed[server].append(portable if self.options.names == "portable" else exposed)
        return listed

    @property
    def is_portable(self) -> bool:
        """Whether every tool's name is portable as it is."""
        tools = self.made_of.linked.routes["tools"]
        return all(name == portable for name, (_, _, portable) in tools.items())

    @property
    def left_out(self) -> dict[str, str]:
        """Entries of the config that are no part of the proxy, and why."""
        failed = dict.fromkeys(self.made_of.snapshot.failed, "failed")
        return failed | {one.name: one.why for one in self.absent}

    @cached_property
    def earlier_text(self) -> str:
        """What the snapshot of FILE would be compiled to now, "" if it has none that fits."""
        try:
            contents = self.earlier.contents
            return self.earlier.text_of(contents) if contents.rows else ""
        except CompileError:  # the options of now do not fit it
            return ""

    @cached_property
    def costs(self) -> tuple[Cost, ...]:
        """What each server adds to the list of tools."""
        from mcpagg.costs import measure

        return measure(self.made_of.listed, self.made_of.linked, self.options)

    @cached_property
    def profiles(self) -> dict[str, tuple[Cost, ...]]:
        """The same of each profile."""
        from mcpagg.costs import measure

        listed, linked = self.made_of.listed, self.made_of.linked
        return {
            name: measure(listed, linked, self.options, subset.tools)
            for name, subset in linked.profiles.items()
        }


def dry_run(source: Source, environ: Mapping[str, str], file: Path | None = None) -> DryRun:
    """Return what would be started, and why a compilation to `file` would refuse it.

    Starts nothing.

    Raises:
        ConfigError: the config cannot be understood.
    """
    from mcpagg.dry_run import DryRun

    heard = _Collected()
    job = Job(source=source, environ=environ, file=file, listener=heard)
    spec, fault = _understood(job), None
    try:
        spec = _ready(job, spec, asked_servers(spec, None), ())
    except CompileError as problem:
        fault = problem
    return DryRun(spec, environ, tuple(heard.warnings), find_pins(spec, {}), fault)


class _Collected(Listener):
    def __init__(self) -> None:
        self.warnings: list[Problem] = []

    def warn(self, problems: Sequence[Problem], servers: Collection[str] = ()) -> None:
        self.warnings += problems


def find_versions(job: Job) -> tuple[tuple[Pin, ...], bool]:
    """Start the servers whose packages have no exact version; return what to write for each.

    Also return whether some failed, of which that is not known.

    Raises:
        CompileError: the config cannot be understood, or what it needs is not there.
    """
    spec = _understood(job)
    names = [pin.server.name for pin in find_pins(spec, {})]
    if not names:
        return (), False
    found = _asked(job, spec, _ready(job, spec, names, ()))
    if found.failures:
        job.listener.failed(found.failures, "; ".join(_facts(job, found)))
    pins = find_pins(spec, {child.name: child.ran for child in found.snapshot.children})
    return pins, bool(found.failures)


def with_versions(job: Job, pins: Sequence[Pin]) -> Written:
    """Return the config's text with versions in it, and those that have no place in it."""

    def read(text: bytes) -> Sequence[ServerSpec]:
        source = replace(job.source, text=text)
        return _understood(replace(job, source=source, listener=SILENT)).servers

    return write_pins(job.source.text, pins, read)


def compile_proxy(job: Job) -> Compilation:
    """Compile a config.

    The snapshot of a server that fails is that of the job's file, if the options allow failures.
    Where the file exists, the order in it is kept (see `ordering`).

    Raises:
        CompileError: with all faults of the pass that failed.
        ReadBackError: a fault of the compiler.
    """
    spec = _understood(job)
    asked = asked_servers(spec, job.refresh)
    rows = launch_rows(spec, job.file.parent if job.file else spec.folder)
    earlier = _earlier(job, job.file, spec, rows)
    if is_extension(job.file):
        check_alone(spec, rows)
    check_known(spec, asked, earlier.snapshot, str(job.file), job.commands.again)
    ready = _ready(job, spec, asked, earlier.snapshot.names)
    found = _found(job, spec, ready, earlier.snapshot) if ready.servers else Snapshot(())
    snapshot = combined(spec, asked, found, earlier.snapshot)
    what = f"is as {job.file} has it: it could not be asked"
    job.warn_of(Problem(one.path, what) for one in spec.servers if one.name in snapshot.kept)
    made = _linked(job, spec, reached(rows, snapshot), snapshot)
    job.warn_of(check_filters(spec, snapshot, job.options))
    findings = _findings(job, made)
    text = _text(job, made, job.key, earlier.contents.approval)
    if job.against is not None:
        earlier = _earlier(replace(job, refresh=None), job.against, spec, rows)
    pins = find_pins(ready, {child.name: child.ran for child in found.children})
    done = Compilation(job.name, text, job.options, made, ready.left_out, findings, pins, earlier)
    if job.options.max_bytes is not None:
        from mcpagg.costs import check_size

        check_size(done.costs, done.profiles, job.options.max_bytes, job.source.name)
    if job.may_know:
        from mcpagg.kept import Kept

        Kept(spec, job.environ, job.options.minimal).forget()
    return done


def _understood(job: Job) -> ProxySpec:
    """Read the config, and choose its servers and tools as the options say.

    Raises:
        ConfigError: with every problem of the config.
    """
    source, options = job.source, job.options
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
    if options.profile:
        from mcpagg.profiles import check_chosen

        check_chosen(spec, options.profile)
    spec = settle_folders(filtered(spec, options.expose, options.hide))
    check_nesting(spec, job.file, job.environ)
    job.warn_of(warnings, spec.servers)
    return spec


def _earlier(job: Job, file: Path | None, spec: ProxySpec, rows: Rows) -> Earlier:
    """Return what a file says of its servers, `rows` being those of now.

    Raises:
        ConfigError: it says nothing that can be read, and that is needed.
    """
    contents = NOTHING
    try:
        if file is not None:
            contents = read_contents(file, job.commands.again)
    except ConfigError:
        if job.refresh is not None:
            raise

    def text_of(contents: Contents) -> str:
        servers = tuple(ServerSpec(name=name, path=name) for name in contents.rows)
        silent = replace(job, listener=SILENT)
        made = _linked(silent, replace(spec, servers=servers), contents.rows, contents.snapshot)
        return _text(silent, made, None, contents.approval)

    return Earlier(contents, new_names(contents.rows, rows), text_of)


def _ready(
    job: Job, spec: ProxySpec, asked: Collection[str], recorded: Collection[str]
) -> ProxySpec:
    """Return the spec of the servers to start, made ready for this machine.

    `asked` and `recorded` are those of `check_environment`.

    Raises:
        EnvironmentFault: servers lack something.
    """
    ready, warnings = check_environment(
        spec,
        job.environ,
        asked=asked,
        recorded=recorded,
        minimal=job.options.minimal,
        allow_failed=job.options.allow_failed,
    )
    job.warn_of(warnings, spec.servers)
    return ready


def _found(job: Job, spec: ProxySpec, ready: ProxySpec, before: Snapshot) -> Snapshot:
    """Start the servers of `spec` that are `ready`, and return what they say.

    Its order is that of what they said before.

    Raises:
        ChildFault: one fails, and that is not allowed, or repeats a secret.
    """
    from mcpagg.kept import Kept
    from mcpagg.ordering import in_order_of

    options = job.options
    kept = Kept(spec, job.environ, options.minimal) if job.may_know else None
    known = kept.find([server.name for server in ready.servers]) if kept else {}
    if known:
        said = f"{count(len(known), 'server')} not asked again, from the run that failed"
        oldest = max(one.seconds for one in known.values())
        job.listener.progress("", f"{said} {oldest:.0f} s ago: {some([*known])}")
    found = _asked(job, spec, ready, known)
    job.warn_of(found.warnings)
    if not options.allow_secrets:
        from mcpagg.leaks import leaks

        if problems := leaks(spec, found.snapshot, job.environ, minimal=options.minimal):
            raise ChildFault(spec.source, problems)
    number = kept.keep(found.snapshot.children, known) if kept else 0
    if found.failures and not options.allow_failed:
        raise ChildFault(job.source.name, found.failures, _advice(job, found, number))
    if found.failures:
        job.listener.failed(found.failures, _advice(job, found))
    snapshot = in_order_of(before, found.snapshot)
    return snapshot.with_known_ttl(before) if job.check else snapshot


def _asked(
    job: Job, spec: ProxySpec, ready: ProxySpec, known: Mapping[str, Known] = MappingProxyType({})
) -> Found:
    """Start the servers of `spec` that are `ready` and not `known`, and return what all say."""
    from mcpagg.discovery import ALL_LINES, LAST_WORDS_LINES, discover

    found = discover(
        spec,
        job.environ,
        asked=[server.name for server in ready.servers if server.name not in known],
        connect_timeout=job.options.connect_timeout,
        minimal=job.options.minimal,
        quoted=ALL_LINES if job.verbose else LAST_WORDS_LINES,
        progress=job.listener.progress,
        waiting=job.listener.waiting,
    )
    children = {one.name: one for one in found.snapshot.children}
    children |= {name: one.child for name, one in known.items()}
    ordered = tuple(children[one.name] for one in ready.servers if one.name in children)
    return found._replace(snapshot=replace(found.snapshot, children=ordered))


def _facts(job: Job, found: Found) -> list[str]:
    """Return how many servers came up, and what helps those that were late."""
    up = len(found.snapshot.children)
    facts = [f"{count(up, 'server')} of {up + len(found.failures)} came up"]
    if found.late:
        given = f"{job.options.connect_timeout:g} seconds"
        facts.append(f"--connect-timeout S gives {some(found.late)} more than {given}")
    return facts


def _advice(job: Job, found: Found, kept: int = 0) -> str:
    """Return what helps against what failed, where so many of the others are kept."""
    tips = _facts(job, found)
    if job.options.allow_failed:
        tips.append("--refresh NAME, with -o FILE, asks one again")
    else:
        tips.append("--skip NAME leaves a server out")
        tips.append("--allow-failed goes on without those that fail")
    if kept:
        tips.append(f"for some minutes, the next run does not ask {count(kept, 'server')} again")
    return "; ".join(tips)


def _linked(job: Job, spec: ProxySpec, rows: Rows, snapshot: Snapshot) -> MadeOf:
    """Apply overlays to the snapshot, and return it with the tables of the emitted file.

    Raises:
        ConfigError: an overlay, a profile or a composite tool means what is not there.
        NameClash: two tools, or two prompts, would get one name.
    """
    from mcpagg.linking import link
    from mcpagg.overlays import as_listed, idle, patches
    from mcpagg.profiles import subsets

    listed = as_listed(spec, snapshot)
    linked, warnings = link(spec, rows, listed, job.options)
    profiles, more = subsets(spec, listed, linked, job.options)
    job.warn_of((*warnings, *more, *idle(spec, snapshot, linked)))
    linked = replace(linked, profiles=profiles, overlays=patches(spec, snapshot))
    return MadeOf(spec, rows, snapshot, linked, listed)


def _findings(job: Job, made: MadeOf) -> tuple[Finding, ...]:
    """Return what is wrong with what is listed.

    Raises:
        ConfigError: with `--strict`, for what some client or reader is harmed by.
    """
    from mcpagg.lint import lint

    findings, warnings = lint(made.spec, made.listed, made.linked, job.options, job.name)
    job.warn_of(warnings)
    return findings


def _text(job: Job, made: MadeOf, key: str | None, before: Approval) -> str:
    """Return the text of the emitted file; `before` is an approval to keep if it still holds.

    Raises:
        ReadBackError: a fault of the compiler.
    """
    from mcpagg.emission import APPROVED, emit  # with Jinja

    text = emit(
        name=job.name,
        source=Path(job.source.name).name,
        commands=job.commands,
        rows=made.rows,
        snapshot=made.snapshot,
        linked=made.linked,
        options=job.options,
        http=job.options.http(made.spec),
        approve=approving(key, before),
    )
    if before and APPROVED not in text:
        what = f"the approval in {job.file} is of other data, and is left out"
        job.warn_of([Problem("", what, f"have it approved anew: {job.commands.again} --sign KEY")])
    return text
