"""Resolves what servers ask for, side by side, each by the tool that its command names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from mcpagg.passes.discovery.discovery import LOOK_SECONDS, Awaited
from mcpagg.passes.freezing.commands import (
    ImageRequest,
    NotFreezable,
    NpmRequest,
    ProgramRequest,
    PypiRequest,
    Request,
    ScriptRequest,
)
from mcpagg.passes.freezing.images import resolve_image
from mcpagg.passes.freezing.local import freeze_program, freeze_script
from mcpagg.passes.freezing.npm import NEEDED as NPM_NEEDED
from mcpagg.passes.freezing.npm import left_out, resolve_npm
from mcpagg.passes.freezing.provenance import record_builders, unknown_builders
from mcpagg.passes.freezing.pypi import NEEDED as UV_NEEDED
from mcpagg.passes.freezing.pypi import resolve_pypi
from mcpagg.passes.freezing.running import Tool, Unresolved, end_tools
from mcpagg.passes.freezing.trees import Version, hashes_of
from mcpagg.problems import Problem, count, name_list
from mcpagg.signals import ending_later
from mcpagg.spec import ProxySpec
from mcpagg_runtime.frozen.table import NpmTree, PypiTree, Unreadable, read_frozen
from mcpagg_runtime.launch.launch import Launch

if TYPE_CHECKING:
    from mcpagg.job import Job
    from mcpagg_runtime.frozen.table import Frozen

T = TypeVar("T")
AT_A_TIME = 4
"""How many servers are resolved side by side."""
ENDING_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Resolution:
    """What came of servers: the rows of some; why others cannot be frozen, or could not now."""

    rows: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, NotFreezable] = field(default_factory=dict)
    failures: dict[str, Problem] = field(default_factory=dict)


def resolve_all(job: Job, ready: ProxySpec, requests: Mapping[str, Request]) -> Resolution:
    """Resolve what servers ask for, and warn of platforms that this leaves out."""
    launches = ready.launches([*requests], job.environ, job.options.minimal, job.values)
    paths = ready.paths
    resolution = Resolution()
    without: dict[str, list[str]] = {}
    unasked: dict[str, int] = {}

    def work(name: str) -> tuple[Frozen, str, int, float]:
        begin = monotonic()
        frozen, others = resolve(requests[name], launches[name], job.options.freeze_scripts)
        unknown = ask_builders(frozen, hashes_of(frozen), launches[name])
        return frozen, others, unknown, monotonic() - begin

    for name, task in side_by_side(job, [*requests], work).items():
        try:
            frozen, others, unknown, seconds = task.result()
        except NotFreezable as fault:
            resolution.refused[name] = fault
        except Unresolved as fault:
            what = f"server '{name}' could not be frozen: {launches[name].redact(str(fault))}"
            resolution.failures[name] = Problem(paths[name], what)
        else:
            resolution.rows[name] = frozen.rows()
            if unknown:
                unasked[name] = unknown
            if others:
                without.setdefault(others, []).append(name)
            job.listener.progress(name, f"{_what(resolution.rows[name])}, {seconds:.1f} s")
    job.warn(
        Problem(
            paths[names[0]] if len(names) == 1 else "",
            f"{count(len(names), 'server')} frozen, but not for {others}: {name_list(names)}",
        )
        for others, names in without.items()
    )
    job.warn(
        Problem(paths[name], f"server '{name}': {unknown_builders(number)}")
        for name, number in unasked.items()
    )
    return resolution


def _what(rows: Sequence[str]) -> str:
    lines = len(rows) - 1
    return f"frozen, {count(lines, 'package')}" if lines else "frozen"


def side_by_side(job: Job, names: Sequence[str], work: Callable[[str], T]) -> dict[str, Future[T]]:
    """Return what becomes of work for servers, a few at a time; report which are awaited.

    An interruption ends the tools that run, and those that their threads still start.
    """
    began: dict[str, float] = {}

    def begun(name: str) -> T:
        began[name] = monotonic()
        return work(name)

    with ending_later(meanwhile=_stop), ThreadPoolExecutor(AT_A_TIME) as pool:
        tasks = {name: pool.submit(begun, name) for name in names}
        try:
            while wait(tasks.values(), LOOK_SECONDS).not_done:
                left = [name for name, task in tasks.items() if not task.done()]
                job.listener.waiting([_awaited(name, began.get(name)) for name in left])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while any(task.running() for task in tasks.values()):
                end_tools()
                wait(tasks.values(), ENDING_SECONDS)
            raise
    job.listener.waiting([])
    return tasks


class _Stopped(BaseException):
    """Raised in the main thread by a signal that ends the process."""


def _stop() -> None:
    raise _Stopped


def _awaited(name: str, began: float | None) -> Awaited:
    if began is None:
        return Awaited(name)
    return Awaited(name, monotonic() - began, lambda: "its packages are looked up")


def resolve(request: Request, launch: Launch, scripts: Collection[str]) -> tuple[Frozen, str]:
    """Return what a request asks for now, and for what platforms that is not, "" for none.

    `launch` is how its server is started; `scripts` are packages whose install scripts may run,
    or that may be built from their source.

    Raises:
        NotFreezable: it has what cannot be frozen.
        Unresolved: a tool failed.
    """
    frozen, others = _resolved(request, launch, scripts)
    try:
        read_frozen(frozen.rows())  # as each start will
    except Unreadable as fault:
        raise NotFreezable(f"has what a line of FROZEN cannot say: {fault}") from None
    return frozen, others


def _resolved(request: Request, launch: Launch, scripts: Collection[str]) -> tuple[Frozen, str]:
    match request:
        case ScriptRequest():
            return freeze_script(request, launch), ""
        case ProgramRequest():
            return freeze_program(launch), ""
        case ImageRequest():
            return in_folder(lambda folder: resolve_image(request, launch, folder)), ""
        case NpmRequest():
            _check_modules(request, launch)
            npm = Tool("npm", launch, NPM_NEEDED)
            tree = in_folder(lambda folder: resolve_npm(request, npm, folder, scripts))
            return tree, left_out(tree)
        case PypiRequest():
            _check_project(request, launch)
            uv = Tool("uv", launch, UV_NEEDED)
            return in_folder(lambda folder: resolve_pypi(request, uv, folder, scripts))


def ask_builders(frozen: Frozen, versions: Collection[Version], launch: Launch) -> int:
    """Say of versions in a tree who has built them; see `record_builders`."""
    if not isinstance(frozen, NpmTree | PypiTree) or not versions:
        return 0
    return in_folder(lambda folder: record_builders(frozen, versions, launch, folder))


def in_folder(work: Callable[[Path], T]) -> T:
    """Return what work gives in an empty folder, which is removed then."""
    with tempfile.TemporaryDirectory(prefix="mcpagg-", ignore_cleanup_errors=True) as folder:
        return work(Path(folder))


def _check_project(request: PypiRequest, launch: Launch) -> None:
    """Refuse `uv run` in a project: it would run in the environment of that."""
    if request.project and any((place / "pyproject.toml").exists() for place in _around(launch)):
        raise NotFreezable(
            "is run by `uv run` in a project, with the packages of that",
            "write --no-project if it needs none of them",
        )


def _check_modules(request: NpmRequest, launch: Launch) -> None:
    """Refuse npx in a project that has the package, or the program: it would start that."""
    names = [name for name, _ in request.packages]
    program = request.program or names[0]
    for modules in (place / "node_modules" for place in _around(launch) if request.project):
        if (modules / ".bin" / program).exists() or any(
            (modules / name).exists() for name in names
        ):
            raise NotFreezable(
                f"is run in a project that has {program} in {modules}, and starts that",
                "start it by node and the path of its script, or in another folder",
            )
        if modules.exists() or modules.with_name("package.json").exists():
            return


def _around(launch: Launch) -> Iterator[Path]:
    """Yield the folder of a server, and those that it is in."""
    folder = Path(launch.cwd or os.curdir).resolve()
    yield from (folder, *folder.parents)
