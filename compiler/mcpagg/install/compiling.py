"""Compiles the source of an installation: each server is asked with the values of its own entry.

If a server fails, nothing is installed; where that is allowed, its entry stays as it was. A remote
server that wants a login which is not held stays as it was in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path

from mcpagg.compilation import Compilation
from mcpagg.compiling import compile_proxy, read_spec, ready_spec
from mcpagg.install.planning import Plan
from mcpagg.install.source import text_of
from mcpagg.install.tree import Path as Keys
from mcpagg.job import SILENT, Job, Listener
from mcpagg.options import PROGRAM, Options, Source, commands
from mcpagg.passes.config.places import step
from mcpagg.passes.environment.environment import check_environment
from mcpagg.problems import (
    ChildFault,
    CompileError,
    EnvironmentFault,
    Problem,
    is_within,
    name_list,
)
from mcpagg.spec import ProxySpec
from mcpagg_runtime.launch.launch import COMMON_VARIABLES
from mcpagg_runtime.launch.platforms import FOR_THIS_USER
from mcpagg_runtime.remote.login import ENDED_LOGIN, EXPIRED_LOGIN, NO_LOGIN

_SHOWN = 40
_WANTS_LOGIN = (NO_LOGIN, EXPIRED_LOGIN, ENDED_LOGIN)


def check_plan(
    plan: Plan, environ: Mapping[str, str], options: Options, allow_failed: bool
) -> None:
    """Check, by the places of the client's own config, what starting its servers would need.

    Raises:
        EnvironmentFault: something is missing, and that is not allowed.
    """
    servers = [one.written for one in plan.chosen.values() if one.written is not None]
    if not servers:
        return
    spec = ProxySpec(source=str(plan.scope.file), folder=plan.scope.folder, servers=tuple(servers))
    try:
        values = {name: one.values for name, one in plan.chosen.items()}
        check_environment(spec, environ, minimal=options.minimal, values=values)
    except EnvironmentFault as fault:
        missing = _failed(spec, fault.problems)
        if not allow_failed or not missing:
            raise
        for name, problem in missing.items():
            plan.leave(name, f"it lacks what a start needs: {problem.what}")


def compile_plan(
    plan: Plan,
    environ: Mapping[str, str],
    options: Options,
    only: Collection[str],
    allow_failed: bool,
    listener: Listener,
    verbose: bool,
) -> Compilation | None:
    """Return what a plan compiles to, None if no server is left.

    With `only`, the servers that FILE has already are not asked again.

    Raises:
        CompileError: a pass fails, or a server; it names the places of the client's own config.
    """
    listener = _InTheConfig(listener, plan)
    while plan.chosen:
        job = _job(plan, environ, options, only, listener, verbose)
        try:
            with _present(plan.source.parent):
                return compile_proxy(job)
        except CompileError as fault:
            if not isinstance(fault, ChildFault | EnvironmentFault):
                raise _placed(plan, fault, fault.problems) from None
            failed = _failed(read_spec(replace(job, listener=SILENT)), fault.problems)
            excused = {
                name: problem
                for name, problem in failed.items()
                if allow_failed or any(what in problem.what for what in _WANTS_LOGIN)
            }
            if not excused or excused.keys() < failed.keys():
                raise _placed(plan, fault, _reasons(job, fault, failed) or fault.problems) from None
            for name, problem in excused.items():
                plan.leave(name, _why(plan, name, problem, allow_failed))
    return None


@contextmanager
def _present(folder: Path) -> Iterator[None]:
    """Have a folder be there, from which the paths of a source lead; none is left if it was not."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=FOR_THIS_USER)
    try:
        yield
    finally:
        with suppress(OSError):  # something is in it by now
            for one in missing:
                one.rmdir()


def _job(
    plan: Plan,
    environ: Mapping[str, str],
    options: Options,
    only: Collection[str],
    listener: Listener,
    verbose: bool,
) -> Job:
    text = text_of([one.server for one in plan.chosen.values()], plan.overlays)
    source = Source(text, str(plan.source), plan.source.parent, options)
    asked = [
        name
        for name, one in plan.chosen.items()
        if one.is_asked and (not only or name in only or one.face is None)
    ]
    return Job(
        source=source,
        environ=environ,
        values={name: one.values for name, one in plan.chosen.items()},
        file=plan.file,
        commands=commands(source, str(plan.file)),
        refresh=None if len(asked) == len(plan.chosen) else asked,
        listener=listener,
        verbose=verbose,
    )


def _failed(spec: ProxySpec, problems: Collection[Problem]) -> dict[str, Problem]:
    """Return the first problem of each server that has one; none if another thing is wrong."""
    found: dict[str, Problem] = {}
    for problem in problems:
        names = [name for name, path in spec.paths.items() if is_within(problem.where, path)]
        if not names:
            return {}
        found.setdefault(names[0], problem)
    return found


def _why(plan: Plan, name: str, problem: Problem, allow_failed: bool) -> str:
    if any(what in problem.what for what in _WANTS_LOGIN):
        return f"it wants a login: {PROGRAM} --login {name} --from {plan.scope.client}"
    return f"it failed: {problem.what.splitlines()[0]}"


def _placed(plan: Plan, fault: CompileError, problems: Sequence[Problem]) -> CompileError:
    return type(fault)(str(plan.scope.file), _in_the_config(plan, problems), fault.advice)


def _reasons(job: Job, fault: CompileError, failed: Mapping[str, Problem]) -> list[Problem]:
    """Return the problems of servers, with what helps those that start with all variables."""
    if not (job.options.minimal and failed and isinstance(fault, ChildFault)):
        return []
    from mcpagg.passes.discovery.survey import ask  # noqa: PLC0415 - few runs fail

    options = replace(job.options, env="inherit")
    whole = replace(job, source=replace(job.source, options=options), listener=SILENT)
    spec = read_spec(whole)
    up = ask(whole, spec, ready_spec(whole, spec, failed, ())).snapshot.names
    had = sorted(name for name in job.environ if name not in COMMON_VARIABLES)
    remedy = (
        f"it starts with what this shell sets besides: {name_list(had, _SHOWN)}; give it what it"
        ' needs of that in its entry: "env": {"NAME": "VALUE"}'
    )
    return [
        replace(problem, remedy=remedy) if name in up else problem
        for name, problem in failed.items()
    ]


class _InTheConfig(Listener):
    """Passes on what is said of a source, with the places of the client's config."""

    def __init__(self, listener: Listener, plan: Plan) -> None:
        self._listener = listener
        self._plan = plan
        self.progress = listener.progress  # type: ignore[method-assign]
        self.waiting = listener.waiting  # type: ignore[method-assign]

    def warn(self, problems: Sequence[Problem], servers: Collection[str] = ()) -> None:
        paths = [_path(chosen.keys) for chosen in self._plan.chosen.values()]
        self._listener.warn(_in_the_config(self._plan, problems), paths)

    def failed(self, failures: Sequence[Problem], advice: str) -> None:
        self._listener.failed(_in_the_config(self._plan, failures), advice)


def _in_the_config(plan: Plan, problems: Sequence[Problem]) -> list[Problem]:
    places = {_path(("mcpServers", name)): _path(one.keys) for name, one in plan.chosen.items()}
    found = []
    for problem in problems:
        within = [path for path in places if is_within(problem.where, path)]
        where = places[within[0]] + problem.where[len(within[0]) :] if within else problem.where
        found.append(replace(problem, where=where))
    return found


def _path(keys: Keys) -> str:
    return reduce(step, keys, "")
