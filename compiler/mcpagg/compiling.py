"""The passes in their order: config, environment, discovery, linking, lint, emission.

Reads as a table of contents: each pass is one module with one public function.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.compilation import Compilation, Earlier, ProxyData
from mcpagg.job import SILENT, Job, Listener
from mcpagg.options import PROGRAM, Source
from mcpagg.passes.config import read_config
from mcpagg.passes.config.reading import ALLOW
from mcpagg.passes.config.selection import filtered
from mcpagg.passes.emission.approval import approving
from mcpagg.passes.emission.output import is_extension
from mcpagg.passes.emission.recorded import (
    NO_CONTENTS,
    Contents,
    Rows,
    asked_servers,
    check_recorded,
    combined,
    read_contents,
    renamed_servers,
)
from mcpagg.passes.environment.environment import check_environment, settle_folders
from mcpagg.passes.environment.faces import originals
from mcpagg.passes.environment.nesting import check_nesting
from mcpagg.passes.environment.pins import Pin, PinnedConfig, find_pins, write_pins
from mcpagg.passes.environment.relocation import check_self_contained, launch_rows, with_transports
from mcpagg.passes.linking.filters import check_filters
from mcpagg.problems import CompileError, ConfigError, Problem
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec, ServerSpec

if TYPE_CHECKING:
    from mcpagg.passes.emission.approval import Approval
    from mcpagg.passes.freezing.checking import Offered
    from mcpagg.passes.freezing.freezing import Rows as FrozenRows
    from mcpagg.review.dry_run import DryRun
    from mcpagg.review.lint import Finding


def dry_run(source: Source, environ: Mapping[str, str], file: Path | None = None) -> DryRun:
    """Return what would be started, and why a compilation to `file` would refuse it.

    Starts nothing.

    Raises:
        ConfigError: the config cannot be understood.
    """
    from mcpagg.review.dry_run import DryRun

    listener = _Warnings()
    job = Job(source=source, environ=environ, file=file, listener=listener)
    spec, fault = read_spec(job), None
    frozen: Collection[str] = ()
    try:
        spec = ready_spec(job, spec, asked_servers(spec, None), ())
        if job.options.freeze:
            from mcpagg.passes.freezing.freezing import check_requests

            frozen = check_requests(job, spec).asked
    except CompileError as problem:
        fault = problem
    return DryRun(spec, environ, tuple(listener.warnings), find_pins(spec, {}, frozen), fault)


class _Warnings(Listener):
    """A listener that collects the warnings."""

    def __init__(self) -> None:
        self.warnings: list[Problem] = []

    def warn(self, problems: Sequence[Problem], servers: Collection[str] = ()) -> None:
        self.warnings += problems


def find_versions(job: Job) -> tuple[tuple[Pin, ...], bool]:
    """Start the servers whose packages have no exact version; return what to write for each.

    Also return whether some failed: of these the version is not known.

    Raises:
        CompileError: the config cannot be understood, or what it needs is not there.
    """
    from mcpagg.passes.discovery.survey import ask, outcome_of

    spec = read_spec(job)
    names = [pin.server.name for pin in find_pins(spec, {})]
    if not names:
        return (), False
    discovery = ask(job, spec, ready_spec(job, spec, names, ()))
    if discovery.failures:
        job.listener.failed(discovery.failures, "; ".join(outcome_of(job, discovery)))
    return find_pins(spec, discovery.snapshot.versions), bool(discovery.failures)


def with_versions(job: Job, pins: Sequence[Pin]) -> PinnedConfig:
    """Return the config's text with versions in it, and the pins that have no place in it."""

    def read(text: bytes) -> Sequence[ServerSpec]:
        source = replace(job.source, text=text)
        return read_spec(replace(job, source=source, listener=SILENT)).servers

    return write_pins(job.source.text, pins, read)


def compile_proxy(job: Job) -> Compilation:
    """Compile a config.

    The snapshot of a server that fails is that of the job's file, if the options allow failures.
    Where the file exists, the order in it is kept (see `ordering`).

    Raises:
        CompileError: with all faults of the pass that failed.
        ReadBackError: a fault of the compiler.
    """
    spec = read_spec(job)
    asked = asked_servers(spec, job.refresh)
    rows = launch_rows(spec, job.file.parent if job.file else spec.folder)
    earlier = _earlier(job, job.file, rows, is_needed=job.refresh is not None)
    if is_extension(job.file):
        check_self_contained(spec, rows)
    check_recorded(spec, asked, earlier.snapshot, str(job.file), job.commands.again)
    ready = ready_spec(job, spec, asked, earlier.snapshot.names)
    ready, frozen = _frozen(job, spec, ready, earlier)
    answers = _answers(job, spec, ready, earlier.snapshot, frozen)
    snapshot = combined(spec, asked, answers, earlier.snapshot)
    what = f"is as {job.file} has it: it could not be asked"
    job.warn(Problem(server.path, what) for server in spec.servers if server.name in snapshot.kept)
    before = earlier
    if job.against is not None:
        before = _earlier(job, job.against, rows, is_needed=False)
    rows = with_transports(rows, snapshot)
    job.listener.learnt(before, Contents(rows, snapshot, frozen=frozen))
    data = _linked(job, spec, rows, snapshot, frozen)
    job.warn(check_filters(spec, snapshot, job.options))
    findings = _findings(job, data)
    text = _text(job, data, job.key, earlier.contents.approval)
    pins = find_pins(ready, answers.versions, frozen)
    offered = _offered(job, ready, frozen)
    result = Compilation(job, text, data, ready.left_out, findings, pins, before, offered)
    if job.options.max_bytes is not None:
        from mcpagg.review.costs import check_size

        check_size(result.costs, result.profiles, job.options.max_bytes, job.source.name)
    if job.may_use_cache:
        from mcpagg.passes.discovery.cache import Cache

        Cache(spec, job.environ, job.options.minimal, job.values).clear()
    return result


def earlier_text(result: Compilation) -> str:
    """Return the text that the snapshot of FILE would be compiled to now, "" if none fits."""
    contents = result.earlier.contents
    job = replace(result.job, listener=SILENT)
    servers = tuple(ServerSpec(name=name, path=name) for name in contents.rows)
    spec = replace(result.data.spec, servers=servers)
    try:
        data = _linked(job, spec, contents.rows, contents.snapshot, contents.frozen)
        return _text(job, data, None, contents.approval) if servers else ""
    except CompileError:  # the options of now do not fit it
        return ""


def read_spec(job: Job) -> ProxySpec:
    """Read the config, and choose its servers and tools as the options say.

    Raises:
        ConfigError: with every problem of the config.
    """
    options = job.options
    spec, warnings = _read(job.source)
    if options.profile:
        from mcpagg.passes.linking.profiles import check_chosen

        check_chosen(spec, options.profile)
    spec = settle_folders(filtered(spec, options.expose, options.hide))
    check_nesting(spec, job.file, job.environ)
    job.warn(warnings, spec.servers)
    return spec


def _read(source: Source) -> tuple[ProxySpec, tuple[Problem, ...]]:
    options = source.options
    try:
        return read_config(
            source.text,
            source=source.name,
            folder=source.folder,
            only=options.only,
            skip=options.skip,
            defines=options.defines,
            stdio_only=options.stdio_only,
            allow_secrets=options.allow_secrets,
            original=originals(source),
        )
    except ConfigError as fault:
        if source.client and any(ALLOW in problem.remedy for problem in fault.problems):
            what = f"{PROGRAM} --from {source.client} --install leaves credentials where they are"
            raise ConfigError(fault.source, fault.problems, what) from None
        raise


def _earlier(job: Job, file: Path | None, rows: Rows, *, is_needed: bool) -> Earlier:
    """Return what a file says of its servers; `rows` is the launch table of now.

    Raises:
        ConfigError: the file cannot be read, and is needed.
    """
    contents = NO_CONTENTS
    try:
        if file is not None:
            contents = read_contents(file, job.commands.again)
    except ConfigError:
        if is_needed:
            raise
    return Earlier(contents, renamed_servers(contents.rows, rows))


def ready_spec(
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
        values=job.values,
    )
    job.warn(warnings, spec.servers)
    return ready


def _frozen(
    job: Job, spec: ProxySpec, ready: ProxySpec, earlier: Earlier
) -> tuple[ProxySpec, FrozenRows]:
    """Return the servers that are ready and, if they are to be frozen, could be; and the rows.

    Raises:
        CompileError: see `freeze`.
    """
    if not job.options.freeze:
        return ready, {}
    from mcpagg.passes.freezing.freezing import freeze

    frozen, failed = freeze(job, spec, ready, earlier.contents.renamed(earlier.renamed))
    servers = tuple(server for server in ready.servers if server.name not in failed)
    return replace(ready, servers=servers), frozen


def _offered(job: Job, ready: ProxySpec, frozen: FrozenRows) -> Mapping[str, Offered]:
    """Return what there is now of frozen servers that are asked, if FILE is to be compared."""
    if not (job.check and frozen and ready.servers):
        return {}
    from mcpagg.passes.freezing.checking import find_offered

    return find_offered(job, ready, frozen)


def _answers(
    job: Job, spec: ProxySpec, ready: ProxySpec, before: Snapshot, frozen: FrozenRows
) -> Snapshot:
    """Return what the servers that are `ready` say; see `survey`."""
    if not ready.servers:
        return Snapshot(())
    from mcpagg.passes.discovery.survey import survey

    return survey(job, spec, ready, before, frozen)


def _linked(
    job: Job, spec: ProxySpec, rows: Rows, snapshot: Snapshot, frozen: FrozenRows
) -> ProxyData:
    """Apply overlays to the snapshot, and return it with the tables of the emitted file.

    Raises:
        ConfigError: an overlay, a profile or a composite tool is for a tool that is not there.
        NameClash: two tools, or two prompts, would get one name.
    """
    from mcpagg.passes.linking.linking import link
    from mcpagg.passes.linking.overlays import patches, unused_overlays, with_overlays
    from mcpagg.passes.linking.profiles import subsets

    listed = with_overlays(spec, snapshot)
    linked, warnings = link(spec, rows, listed, job.options)
    profiles, more = subsets(spec, listed, linked, job.options)
    job.warn((*warnings, *more, *unused_overlays(spec, snapshot, linked)))
    linked = replace(linked, profiles=profiles, overlays=patches(spec, snapshot))
    frozen = {name: lines for name, lines in frozen.items() if name in rows}
    return ProxyData(spec, rows, snapshot, linked, listed, frozen)


def _findings(job: Job, data: ProxyData) -> tuple[Finding, ...]:
    """Return what lint finds in what is listed.

    Raises:
        ConfigError: with `--strict`, for findings that harm a client or a reader.
    """
    from mcpagg.review.lint import lint

    findings, warnings = lint(data.spec, data.listed, data.linked, job.options, job.name)
    job.warn(warnings)
    return findings


def _text(job: Job, data: ProxyData, key: str | None, before: Approval) -> str:
    """Return the text of the emitted file; `before` is an approval to keep if it still holds.

    Raises:
        ReadBackError: a fault of the compiler.
    """
    from mcpagg.passes.emission.emission import APPROVED, emit  # with Jinja

    text = emit(
        name=job.name,
        source=Path(job.source.name).name,
        commands=job.commands,
        rows=data.rows,
        snapshot=data.snapshot,
        linked=data.linked,
        options=job.options,
        http=job.options.http(data.spec),
        approve=approving(key, before),
        frozen=data.frozen,
    )
    if before and APPROVED not in text:
        what = f"the approval in {job.file} is of other data, and is left out"
        job.warn([Problem("", what, f"have it approved anew: {job.commands.again} --sign KEY")])
    return text
