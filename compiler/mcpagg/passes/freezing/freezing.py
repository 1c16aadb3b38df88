"""The freezing pass: what each server starts, down to the last package, as rows of FROZEN.

A tree that FILE has is kept while its server asks for the same packages: only `--refresh NAME`
resolves it anew. Scripts and programs of this machine are part of what is compiled, as the config
is: whenever their server is asked, their digest is that of now.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from mcpagg.passes.config.places import where
from mcpagg.passes.freezing.commands import (
    ImageRequest,
    NotFreezable,
    NpmRequest,
    ProgramRequest,
    PypiRequest,
    Request,
    ScriptRequest,
    read_command,
)
from mcpagg.passes.freezing.images import resolve_image
from mcpagg.passes.freezing.local import freeze_program, freeze_script
from mcpagg.passes.freezing.npm import NEEDED as NPM_NEEDED
from mcpagg.passes.freezing.npm import left_out, resolve_npm
from mcpagg.passes.freezing.pypi import NEEDED as UV_NEEDED
from mcpagg.passes.freezing.pypi import resolve_pypi
from mcpagg.passes.freezing.running import Tool, Unresolved
from mcpagg.problems import ChildFault, ConfigError, Problem, count, name_list, suggest
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.frozen.local import LOADED
from mcpagg_runtime.frozen.table import Program, read_frozen
from mcpagg_runtime.launch.launch import Launch, Location

if TYPE_CHECKING:
    from mcpagg.job import Job
    from mcpagg.passes.emission.recorded import Contents
    from mcpagg_runtime.frozen.table import Frozen

T = TypeVar("T")
Rows = Mapping[str, Sequence[str]]
"""The table FROZEN: {server: its head and lines}."""
AT_A_TIME = 4
"""How many servers are resolved side by side."""
LOCAL = (ScriptRequest, ProgramRequest)
ADVICE = "--skip NAME leaves a server out, --allow-failed goes on without those that fail"


@dataclass(frozen=True, slots=True)
class Requests:
    """What the servers that are to be frozen ask for, and why others of them cannot be."""

    asked: Mapping[str, Request]
    refused: Mapping[str, NotFreezable]


def read_requests(job: Job, spec: ProxySpec) -> Requests:
    """Return what the commands of the servers to freeze ask for. Nothing is started.

    Raises:
        ConfigError: `--freeze` names no server; with `--strict`, servers cannot be frozen.
    """
    _check_names(job, spec)
    asked: dict[str, Request] = {}
    refused: dict[str, NotFreezable] = {}
    for server in spec.servers:
        if any(fnmatchcase(server.name, glob) for glob in job.options.freeze):
            try:
                asked[server.name] = _request(server)
            except NotFreezable as fault:
                refused[server.name] = fault
    if refused and job.options.strict:
        raise ConfigError(spec.source, _not_frozen(spec, refused))
    return Requests(asked, refused)


def check_requests(job: Job, spec: ProxySpec) -> Collection[str]:
    """Return the servers whose commands can be frozen, and warn of others.

    Raises:
        ConfigError: see `read_requests`.
    """
    requests = read_requests(job, spec)
    job.warn(_not_frozen(spec, requests.refused))
    return requests.asked


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
    requests = read_requests(job, spec)
    kept = {
        name: _with_args(before.frozen[name], request)
        for name, request in requests.asked.items()
        if _is_kept(name, request, job, ready, before)
    }
    new = {name: request for name, request in requests.asked.items() if name not in kept}
    _check_offline(job, spec, [name for name in new if name not in _names(ready)], before)
    fresh = _resolved(job, ready, {n: r for n, r in new.items() if n in _names(ready)})
    _report(job, spec, {**requests.refused, **fresh.refused}, before)
    stays = {
        name: _with_args(before.frozen[name], requests.asked[name])
        for name in fresh.failures
        if _asks_alike(name, requests.asked[name], before)
    }
    changed = [name for name in fresh.failures if name in before.frozen and name not in stays]
    if fresh.failures and (changed or not job.options.allow_failed):
        raise ChildFault(spec.source, fresh.failures.values(), ADVICE)
    job.warn(fresh.failures.values())
    rows = kept | stays | fresh.rows
    job.warn(_local_code(ready, requests.asked, rows))
    return {name: rows[name] for name in spec.rows if name in rows}, fresh.failures.keys()


def _names(spec: ProxySpec) -> set[str]:
    return {server.name for server in spec.servers}


def _check_names(job: Job, spec: ProxySpec) -> None:
    names = [server.name for server in spec.servers]
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


def _is_kept(name: str, request: Request, job: Job, ready: ProxySpec, before: Contents) -> bool:
    """Whether the rows that FILE has of a server are those to write."""
    if name in _names(ready) and (name in (job.refresh or ()) or isinstance(request, LOCAL)):
        return False
    return _asks_alike(name, request, before)


def _asks_alike(name: str, request: Request, before: Contents) -> bool:
    """Whether FILE has a server frozen whose command asks for the same."""
    if name not in before.frozen or name not in before.rows:
        return False
    row = before.rows[name]
    try:
        return read_command(row["command"], row["args"], row["env"]) == request
    except (NotFreezable, KeyError):
        return False


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
    job: Job, spec: ProxySpec, refused: Mapping[str, NotFreezable], before: Contents
) -> None:
    """Say what is not frozen; refuse that of a server that was, or any with `--strict`."""
    thawed = {name: why for name, why in refused.items() if name in before.frozen}
    if job.options.strict or thawed:
        raise ConfigError(spec.source, _not_frozen(spec, refused if job.options.strict else thawed))
    job.warn(_not_frozen(spec, refused))


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


# Resolving


@dataclass(frozen=True, slots=True)
class _Fresh:
    rows: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, NotFreezable] = field(default_factory=dict)
    failures: dict[str, Problem] = field(default_factory=dict)


def _resolved(job: Job, ready: ProxySpec, requests: Mapping[str, Request]) -> _Fresh:
    """Resolve what servers ask for, side by side."""
    fresh = _Fresh()
    without: dict[str, list[str]] = {}
    servers = {server.name: server for server in ready.servers}
    launches = ready.launches([*requests], job.environ, job.options.minimal)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        began = {
            name: pool.submit(_timed, job, requests[name], launches[name]) for name in requests
        }
        for name, future in began.items():
            server = servers[name]
            try:
                frozen, others, seconds = future.result()
            except NotFreezable as fault:
                fresh.refused[name] = fault
            except Unresolved as fault:
                what = f"server '{name}' could not be frozen: {launches[name].redact(str(fault))}"
                fresh.failures[name] = Problem(server.path, what)
            else:
                fresh.rows[name] = frozen.rows()
                if others:
                    without.setdefault(others, []).append(name)
                job.listener.progress(name, f"{_what(fresh.rows[name])}, {seconds:.1f} s")
    job.warn(
        Problem(
            servers[names[0]].path if len(names) == 1 else "",
            f"{count(len(names), 'server')} frozen, but not for {others}: {name_list(names)}",
        )
        for others, names in without.items()
    )
    return fresh


def _what(rows: Sequence[str]) -> str:
    lines = len(rows) - 1
    return f"frozen, {count(lines, 'package')}" if lines else "frozen"


def _timed(job: Job, request: Request, launch: Launch) -> tuple[Frozen, str, float]:
    begin = monotonic()
    frozen, others = resolve(request, launch, job.options.freeze_scripts)
    return frozen, others, monotonic() - begin


def resolve(request: Request, launch: Launch, scripts: Collection[str]) -> tuple[Frozen, str]:
    """Return what a request asks for now, and for what platforms that is not, "" for none.

    `launch` is how its server is started; `scripts` are packages whose install scripts may run.

    Raises:
        NotFreezable: it has what cannot be frozen.
        Unresolved: a tool failed.
    """
    match request:
        case ScriptRequest():
            return freeze_script(request, launch), ""
        case ProgramRequest():
            return freeze_program(launch), ""
        case ImageRequest():
            return in_folder(lambda folder: resolve_image(request, launch, folder)), ""
        case NpmRequest():
            npm = Tool("npm", launch, NPM_NEEDED)
            tree = in_folder(lambda folder: resolve_npm(request, npm, folder, scripts))
            return tree, left_out(tree)
        case PypiRequest():
            _check_project(request, launch)
            uv = Tool("uv", launch, UV_NEEDED)
            return in_folder(lambda folder: resolve_pypi(request, uv, folder))


def in_folder(work: Callable[[Path], T]) -> T:
    """Return what work gives in an empty folder, which is removed then."""
    with tempfile.TemporaryDirectory(prefix="mcpagg-", ignore_cleanup_errors=True) as folder:
        return work(Path(folder))


def _check_project(request: PypiRequest, launch: Launch) -> None:
    """Refuse `uv run` in a project: it would run in the environment of that."""
    folder = Path(launch.cwd or os.curdir).resolve()
    if request.project:
        for place in (folder, *folder.parents):
            if (place / "pyproject.toml").exists():
                raise NotFreezable(
                    "is run by `uv run` in a project, with the packages of that",
                    "write --no-project if it needs none of them",
                )
