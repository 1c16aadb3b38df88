"""Has servers start what was frozen of them, and installs that where it is not installed yet."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.cache import TreeCache
from mcpagg_runtime.frozen.contents import bytecode_in, difference
from mcpagg_runtime.frozen.coverage import refuse_uncovered
from mcpagg_runtime.frozen.docker import is_here, pinned, pull
from mcpagg_runtime.frozen.environment import drop_foreign_code, put_first
from mcpagg_runtime.frozen.folders import remove
from mcpagg_runtime.frozen.local import PYTHON, files_digest, program_digest
from mcpagg_runtime.frozen.locking import lock, lock_of
from mcpagg_runtime.frozen.npm import install_modules, node_of_scripts, npm_command
from mcpagg_runtime.frozen.programs import Programs
from mcpagg_runtime.frozen.pypi import (
    install_environment,
    is_usable,
    python_command,
    scripts_folder,
)
from mcpagg_runtime.frozen.table import (
    DockerImage,
    FrozenError,
    LocalFiles,
    NpmTree,
    Program,
    PypiTree,
    read_frozen,
)
from mcpagg_runtime.messages.jsontext import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Union

    from mcpagg_runtime.frozen.table import Frozen
    from mcpagg_runtime.launch.launch import Launch
    from mcpagg_runtime.plan.plan import Plan

    Tree = Union[NpmTree, PypiTree]

INSTALLING_AT_ONCE = 4
ENDING_SECONDS = 5.0


class FrozenServers:
    """What the table FROZEN has servers start, on this machine."""

    def __init__(
        self, table: Mapping[str, Sequence[str]], folder: str, environ: Mapping[str, str]
    ) -> None:
        """`folder` is where the emitted file lies; `environ` says where the user's cache is."""
        self._table = table
        self._folder = folder
        self._environ = environ
        self._turns = threading.Semaphore(INSTALLING_AT_ONCE)
        self._running: list[Programs] = []
        """The installations under way."""
        self._is_ended = False

    def prepare(self, launch: Launch, report: Callable[[str], None]) -> None:
        """Change a launch so that it starts what was frozen; that is installed first, if need be.

        `report` is given what is being installed, as soon as it is and now and then meanwhile. A
        server that is not frozen stays as it is.

        Raises:
            FrozenError: it cannot be started as it was frozen.
            OSError: a file of it cannot be read.
        """
        rows = self._table.get(launch.name)
        if rows is None:
            return
        frozen = read_frozen(rows)
        if isinstance(frozen, Program):
            _refuse_other(launch, launch.argv[0], frozen.digest, program_digest(launch.argv[0]))
            return
        before, own = _split(launch.argv, frozen.args)
        if isinstance(frozen, DockerImage):
            launch.argv = [*before[:-1], pinned(before[-1], frozen), *own]
            return
        drop_foreign_code(launch.env)
        if isinstance(frozen, LocalFiles):
            script = os.path.join(launch.cwd or os.getcwd(), before[-1])
            digest, _ = files_digest(script, frozen.language)
            _refuse_other(launch, script, frozen.digest, digest)
            if frozen.language == PYTHON:
                compiled = self._bytecode(digest, script)
                launch.env["PYTHONPYCACHEPREFIX"] = compiled  # for what the script starts
                # With -E and -I, Python reads no variables.
                option = ["-X", f"pycache_prefix={compiled}"]
                launch.argv = [*before[:-1], *option, before[-1], *own]
            return
        place = self.installed(frozen, launch, report)
        if isinstance(frozen, PypiTree):
            put_first(launch.env, scripts_folder(place))
            launch.argv = [*python_command(frozen, place), *own]
        else:
            launch.argv = [*npm_command(self._programs(launch, lambda: None), frozen, place), *own]

    def end(self) -> None:
        """End what is being installed; returns when nothing is left of it, or soon after."""
        self.kill()
        end = monotonic() + ENDING_SECONDS
        while self._running and monotonic() < end:
            sleep(0.02)

    def kill(self) -> None:
        """Kill what is being installed; takes no lock, since a signal handler calls it."""
        self._is_ended = True
        for programs in list(self._running):
            programs.end()

    # Installing

    def state(self, launch: Launch) -> str:
        """Return whether what a server starts is installed, and how, for people; starts nothing.

        Raises:
            FrozenError: it is not known, or is not to be trusted.
        """
        frozen = read_frozen(self._table[launch.name])
        if not isinstance(frozen, (NpmTree, PypiTree)):
            return described(frozen)
        is_installed = self._is_whole(frozen, self._place(frozen, launch))
        return f"{described(frozen)}, {'' if is_installed else 'not yet '}installed"

    def damage(self, launch: Launch, *, deep: bool = False) -> str:
        """Return what of an installed tree is not as it was installed, "" for nothing.

        `deep`: what files hold is read, and what Python has compiled of them is removed:
        whether that is right is not known, and it is compiled again.

        Raises:
            FrozenError: it is not to be trusted.
        """
        frozen = read_frozen(self._table[launch.name])
        if deep and isinstance(frozen, LocalFiles) and frozen.language == PYTHON:
            remove(self._cache().bytecode(frozen.digest))
        if not isinstance(frozen, (NpmTree, PypiTree)):
            return ""
        place = self._place(frozen, launch)
        if not self._is_whole(frozen, place):
            return ""
        found = difference(place, deep=deep)
        if deep:
            for folder in bytecode_in(place):
                remove(folder)
            found = found or next((f"{path} is there" for path in bytecode_in(place)), "")
        remedy = f"remove {place}, and it is installed anew"
        return f"what is installed is not as it was: {found}; {remedy}" if found else ""

    def require_sound(self, launch: Launch) -> None:
        """Refuse a tree that is installed, and not as it was.

        Raises:
            FrozenError: it is not.
        """
        if found := self.damage(launch):
            raise FrozenError(found)

    def fetch(self, launch: Launch, report: Callable[[str], None]) -> str:
        """Have all on this machine that a server starts; return that in a few words.

        Raises:
            FrozenError: it cannot be had.
        """
        frozen = read_frozen(self._table[launch.name])
        if isinstance(frozen, (NpmTree, PypiTree)):
            self.installed(frozen, launch, report)
            self.require_sound(launch)
        elif isinstance(frozen, DockerImage):
            with self._at_work(self._programs(launch, lambda: None)) as programs:
                pull(programs, frozen, launch.argv[0], self._folder)
        return self.state(launch)

    def require(self, launch: Launch) -> str:
        """Return what a server starts in a few words, if all of it is here; nothing is fetched.

        Raises:
            FrozenError: something is not.
        """
        frozen = read_frozen(self._table[launch.name])
        if isinstance(frozen, (NpmTree, PypiTree)):
            is_there = self._is_whole(frozen, self._place(frozen, launch))
            if not is_there:
                raise FrozenError("it is not installed")
            self.require_sound(launch)
        elif isinstance(frozen, DockerImage):
            with self._at_work(self._programs(launch, lambda: None)) as programs:
                if not is_here(programs, frozen, launch.argv[0], self._folder):
                    raise FrozenError("its image is not on this machine")
        return self.state(launch)

    def _place(self, tree: Tree, launch: Launch) -> str:
        """Return the folder of a tree.

        Raises:
            FrozenError: there is no Node that its install scripts could be run for.
        """
        programs = self._programs(launch, lambda: None)
        more = node_of_scripts(programs, tree, self._folder) if isinstance(tree, NpmTree) else ""
        return self._cache().place(tree, more)

    def _is_whole(self, tree: Tree, place: str) -> bool:
        """Whether a tree is installed in its place, and can be started.

        Raises:
            FrozenError: somebody else might have put something else there.
        """
        return self._cache().has(place) and (isinstance(tree, NpmTree) or is_usable(place))

    def installed(self, tree: Tree, launch: Launch, report: Callable[[str], None]) -> str:
        """Return the folder of a tree, which is installed first if it is not.

        Raises:
            FrozenError: it cannot be installed.
        """
        cache = self._cache()
        place = self._place(tree, launch)
        if self._is_whole(tree, place):
            return place
        refuse_uncovered(tree)
        what = f"is being installed: {described(tree)}"
        report(what)
        with self._at_work(self._programs(launch, lambda: report(what))) as programs:
            try:
                cache.prepare()
                waits = f": another process, which has locked {lock_of(place)}, is installing it"
                with lock(place, lambda: programs.check(waits)) as held:
                    if not self._is_whole(tree, place):
                        programs.held = () if held is None else (held,)
                        if held is not None:
                            cache.remove_leftovers(place)
                        _install(cache, tree, place, programs)
            except OSError as problem:
                raise cache.unwritable(problem) from problem
        return place

    def _cache(self) -> TreeCache:
        return TreeCache(self._environ)

    def _programs(self, launch: Launch, report: Callable[[], None]) -> Programs:
        command = launch.argv[0]
        beside = os.path.dirname(command) if os.path.isabs(command) else ""
        return Programs(launch.env, launch.cwd or self._folder, beside, report)

    @contextmanager
    def _at_work(self, programs: Programs) -> Iterator[Programs]:
        """Let an installation have its turn, and be ended with all others."""
        self._running.append(programs)
        try:
            if self._is_ended:
                programs.end()
            while not self._turns.acquire(timeout=0.1):
                programs.check()
            try:
                yield programs
            finally:
                self._turns.release()
        finally:
            self._running.remove(programs)

    def _bytecode(self, digest: str, script: str) -> str:
        """Return where Python keeps what it compiles of such files; nowhere if that is unsafe.

        Below a file, the script for one, no system has a folder.
        """
        try:
            return self._cache().bytecode(digest)
        except (FrozenError, OSError):
            return os.path.join(script, "bytecode")


def frozen_table(plan: Plan) -> dict[str, list[str]]:
    """Return the table FROZEN of a file: {server: rows}."""
    table: dict[str, list[str]] = parse(plan.tables["frozen"])
    return table


def described(frozen: Frozen) -> str:
    """Return what is frozen in a few words: `npm, 107 packages`."""
    if isinstance(frozen, (NpmTree, PypiTree)):
        count = len(frozen.packages)
        return f"{frozen.kind}, {count} package{'' if count == 1 else 's'}"
    if isinstance(frozen, DockerImage):
        return f"docker, {frozen.digest[:19]}"
    if isinstance(frozen, LocalFiles):
        return f"{frozen.count} local file{'' if frozen.count == 1 else 's'}"
    return "a local program"


def _install(cache: TreeCache, tree: Tree, place: str, programs: Programs) -> None:
    """Install a tree; under its own name it is whole."""
    if os.path.lexists(place):
        cache.discard(place)
    with cache.made(place) as folder:
        if isinstance(tree, NpmTree):
            install_modules(programs, tree, folder)
        else:
            install_environment(programs, tree, folder)


def _split(argv: list[str], count: int) -> tuple[list[str], list[str]]:
    """Return a command without the last words, which are the server's own, and those."""
    if not 0 <= count < len(argv):
        raise FrozenError("its command has fewer words than were frozen")
    return argv[: len(argv) - count], argv[len(argv) - count :]


def _refuse_other(launch: Launch, what: str, frozen: str, found: str) -> None:
    if found != frozen:
        raise FrozenError(
            f"{what} is not what was reviewed, or something else that it may load is not: "
            f"frozen as {frozen}, and now {found}; "
            f"review what has changed, and compile again with --refresh {launch.name}"
        )
