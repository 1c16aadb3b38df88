"""The freezing pass: what each server starts, down to the last package, as rows of FROZEN.

A tree that FILE has is kept while its server asks for the same packages: only `--refresh NAME`
resolves it anew. Scripts and programs of this machine are part of what is compiled, as the config
is: whenever their server is asked, their digest is that of now.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from mcpagg.passes.config.places import where
from mcpagg.passes.freezing.commands import (
    NotFreezable,
    NpmRequest,
    ProgramRequest,
    PypiRequest,
    Request,
    ScriptRequest,
    read_command,
)
from mcpagg.passes.freezing.resolving import resolve, resolve_all
from mcpagg.passes.freezing.trees import other_builders
from mcpagg.problems import ChildFault, ConfigError, Problem, suggest
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.frozen.local import LOADED
from mcpagg_runtime.frozen.table import SOURCE, NpmTree, Program, PypiTree, read_frozen
from mcpagg_runtime.launch.launch import Location, MissingVariables

if TYPE_CHECKING:
    from mcpagg.job import Job
    from mcpagg.passes.emission.recorded import Contents

Rows = Mapping[str, Sequence[str]]
"""The table FROZEN: {server: its head and lines}."""
THAWED = "cannot be frozen as it is now"
LOCAL = (ScriptRequest, ProgramRequest)
ADVICE = "--skip NAME leaves a server out, --allow-failed goes on without those that fail"


class Requests(NamedTuple):
    """What the servers that are to be frozen ask for, and why others of them cannot be."""

    asked: Mapping[str, Request]
    refused: Mapping[str, NotFreezable]


def requests_of(job: Job, spec: ProxySpec) -> Requests:
    """Return what the commands of the servers to freeze ask for. Nothing is started."""
    asked: dict[str, Request] = {}
    refused: dict[str, NotFreezable] = {}
    for server in spec.servers:
        if any(fnmatchcase(server.name, glob) for glob in job.options.freeze):
            try:
                asked[server.name] = _request(server)
            except NotFreezable as fault:
                refused[server.name] = fault
    return Requests(asked, refused)


def check_requests(job: Job, spec: ProxySpec) -> Requests:
    """Return the same, with warnings of what cannot be frozen.

    Raises:
        ConfigError: `--freeze` names no server; with `--strict`, a server cannot be frozen.
    """
    _check_names(job, spec)
    requests = requests_of(job, spec)
    _report(job, spec, requests.refused, thawed=())
    return requests


def freeze(
    job: Job, spec: ProxySpec, ready: ProxySpec, before: Contents
) -> tuple[Rows, Collection[str]]:
    """Return what the servers to freeze start, and those that failed, which is allowed then.

    `ready` are those that are asked. `before` is what FILE says, under the names of now.

    Raises:
        ConfigError: a server can no longer be frozen; none of what FILE has fits one that is not
            asked; with `--strict`, one cannot be frozen.
        ChildFault: a tool fails, and that is not allowed, or FILE has the server frozen otherwise.
    """
    requests = check_requests(job, spec)
    asked, there = requests.asked, ready.paths
    old = {name: rows for name, rows in before.frozen.items() if _is_alike(name, asked, before)}
    renewed = {name for name in asked if name in there and _is_renewed(name, job, asked, old)}
    new = {name: asked[name] for name in asked if name in renewed or name not in old}
    _check_offline(job, spec, [name for name in new if name not in there], before)
    fresh = resolve_all(job, ready, {n: r for n, r in new.items() if n in there})
    thawed = [name for name in (*requests.refused, *fresh.refused) if name in before.frozen]
    _report(job, spec, fresh.refused, thawed)
    changed = [name for name in fresh.failures if name in before.frozen and name not in old]
    if fresh.failures and (changed or not job.options.allow_failed):
        raise ChildFault(spec.source, fresh.failures.values(), ADVICE)
    job.warn(fresh.failures.values())
    rows = {name: _with_args(old[name], asked[name]) for name in asked if name in old} | fresh.rows
    if job.check:
        local = {name: asked[name] for name in old if isinstance(asked[name], LOCAL)}
        rows |= _local_rows(job, spec, {name: local[name] for name in local if name not in there})
    job.warn(_local_code(ready, asked, rows))
    job.warn(_other_builders(ready, before.frozen, fresh.rows))
    job.warn(_unused_scripts(job, rows))
    return {name: rows[name] for name in spec.rows if name in rows}, fresh.failures.keys()


def _check_names(job: Job, spec: ProxySpec) -> None:
    names = [*spec.paths]
    there = f"there are: {', '.join(names)}"
    if problems := [
        Problem("", f"--freeze={glob} is no server of the config", suggest(glob, names) or there)
        for glob in job.options.freeze
        if not any(fnmatchcase(name, glob) for name in names)
    ]:
        raise ConfigError(spec.source, problems)


def _request(server: ServerSpec) -> Request:
    if server.transport != "stdio":
        raise NotFreezable("is reached at a URL, and runs elsewhere")
    return read_command(server.command, server.args, server.env)


def _is_alike(name: str, asked: Mapping[str, Request], before: Contents) -> bool:
    """Whether a server asks for what it was frozen by in FILE."""
    row = before.rows.get(name, {})
    try:
        return (
            name in asked and read_command(row["command"], row["args"], row["env"]) == asked[name]
        )
    except (NotFreezable, KeyError):
        return False


def _is_renewed(name: str, job: Job, asked: Mapping[str, Request], old: Rows) -> bool:
    """Whether a server is resolved anew, though FILE may have it: it is refreshed, or local.

    Or FILE lets install scripts run that are no longer named.
    """
    return (
        name in (job.refresh or ())
        or isinstance(asked[name], LOCAL)
        or not _runs_code(old.get(name, ())) <= _named(job)
    )


def _named(job: Job) -> set[str]:
    """Return the packages that may run code when installed; names of an index in one spelling."""
    names = job.options.freeze_scripts
    return {*names, *map(canonicalize_name, names)}


def _runs_code(rows: Sequence[str]) -> set[str]:
    """Return the packages of a server that run code when installed: scripts, or a build."""
    frozen = read_frozen(rows) if rows else None
    packages = frozen.packages if isinstance(frozen, NpmTree | PypiTree) else []
    return {package.name for package in packages if package.marks & {"scripts", SOURCE}}


def _other_builders(ready: ProxySpec, before: Rows, fresh: Rows) -> Iterator[Problem]:
    """Warn of packages that come in, and were built elsewhere than those of FILE."""
    for name, rows in fresh.items():
        if name in before:
            for found in other_builders(read_frozen(before[name]), read_frozen(rows)):
                yield Problem(ready.paths[name], f"server '{name}': {found}")


def _unused_scripts(job: Job, rows: Rows) -> Iterator[Problem]:
    """Warn of packages of `--freeze-scripts` that run none."""
    there = {name for lines in rows.values() for name in _runs_code(lines)}
    for name in job.options.freeze_scripts:
        if not {name, canonicalize_name(name)} & there:
            yield Problem(
                "",
                f"--freeze-scripts {name}: no frozen server runs code of it to install it",
            )


def _local_rows(job: Job, spec: ProxySpec, requests: Mapping[str, Request]) -> dict[str, list[str]]:
    """Return what servers that are not asked have on this machine now, if it can be read here."""
    rows = {}
    for name, request in requests.items():
        try:
            launch = spec.launches([name], job.environ, job.options.minimal, job.values)[name]
            rows[name] = resolve(request, launch, ())[0].rows()
        except (NotFreezable, MissingVariables, OSError, ValueError) as fault:
            what = f"server '{name}': what it starts here was not compared: it {_why(fault)}"
            job.warn([Problem(spec.paths[name], what)])
    return rows


def _why(fault: Exception) -> str:
    return fault.why if isinstance(fault, NotFreezable) else "lacks what a start needs"


def _with_args(rows: Sequence[str], request: Request) -> list[str]:
    """Return rows with the number of the server's own words as it is now."""
    frozen = read_frozen(rows)
    if not isinstance(frozen, Program) and not isinstance(request, ProgramRequest):
        frozen.args = request.args
    return frozen.rows()


def _check_offline(job: Job, spec: ProxySpec, names: Collection[str], before: Contents) -> None:
    """Refuse servers that are to be frozen, and neither asked nor frozen in FILE as they are now.

    What is left out altogether is none.
    """
    if problems := [
        Problem(
            spec.paths[name],
            f"is not frozen in {job.file} as its command is now",
            f"--refresh {name} resolves it",
        )
        for name in names
        if name in before.rows
    ]:
        raise ConfigError(spec.source, problems)


def _report(
    job: Job, spec: ProxySpec, refused: Mapping[str, NotFreezable], thawed: Collection[str]
) -> None:
    """Say what is not frozen; refuse that of a server that was (`thawed`), or with `--strict`."""
    problems = _not_frozen(spec, refused)
    if problems and job.options.strict:
        raise ConfigError(spec.source, problems)
    job.warn(problems)
    if thawed:
        raise ConfigError(
            spec.source,
            [
                Problem(spec.paths[name], f"server '{name}' is frozen in {job.file}, and {THAWED}")
                for name in thawed
            ],
            "leave it out of --freeze if it may start what nobody has reviewed",
        )


def _not_frozen(spec: ProxySpec, refused: Mapping[str, NotFreezable]) -> list[Problem]:
    paths = spec.paths
    return [
        Problem(paths[name], f"server '{name}' is not frozen: it {fault.why}", fault.remedy)
        for name, fault in refused.items()
    ]


def _local_code(ready: ProxySpec, requests: Mapping[str, Request], rows: Rows) -> Iterator[Problem]:
    """Warn of code of this machine that a frozen package is given to run."""
    suffixes = tuple(suffix for language in LOADED.values() for suffix in language)
    for server in ready.servers:
        request = requests.get(server.name)
        if server.name not in rows or not isinstance(request, NpmRequest | PypiRequest):
            continue
        for index in range(len(server.args) - request.args, len(server.args)):
            word = server.args[index]
            path = os.path.join(ready.folder, server.cwd or "", word)
            if word.endswith(suffixes) and os.path.isfile(path):
                what = f"server '{server.name}' is frozen but for {word}, which it is given to run"
                yield Problem(where(server, Location("args", index)), what)
