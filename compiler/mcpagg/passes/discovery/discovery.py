"""The discovery pass: start every child once and ask it what it offers.

Children are asked side by side, each by an `Inquiry` in a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import NamedTuple

from mcpagg.options import CONNECT_SECONDS
from mcpagg.passes.discovery.inquiry import Inquiry
from mcpagg.problems import Problem, count
from mcpagg.signals import ending_later
from mcpagg.snapshot import Snapshot
from mcpagg.spec import NO_VALUES, ProxySpec, Values
from mcpagg_runtime.frozen.servers import FrozenServers
from mcpagg_runtime.processes.process import STDERR_TAIL_LINES

JOIN_SECONDS = 0.2

Progress = Callable[[str, str], None]

# How many package managers install at a time, which is work for the network, the disk and the
# processor. A server that has shaken hands lets the next one begin.
INSTALLING = 4
LOOK_SECONDS = 1.0


class Awaited(NamedTuple):
    """A server that is awaited, for how many seconds, None if it waits for its turn.

    `last_line` returns the last line of its stderr.
    """

    name: str
    seconds: float | None = None
    last_line: Callable[[], str] = lambda: ""


class Discovery(NamedTuple):
    """What discovery returns: the snapshot, warnings, and the servers that failed.

    `late` names those of them that might have come up with more time.
    """

    snapshot: Snapshot
    warnings: tuple[Problem, ...]
    failures: tuple[Problem, ...]
    late: tuple[str, ...] = ()


def discover(  # noqa: PLR0913 - what is asked, of whom, and who hears of it
    spec: ProxySpec,
    environ: Mapping[str, str],
    *,
    asked: Collection[str] | None = None,
    connect_timeout: float = CONNECT_SECONDS,
    minimal: bool = False,
    frozen: Mapping[str, Sequence[str]] = MappingProxyType({}),
    quoted: int = STDERR_TAIL_LINES,
    progress: Progress = lambda server, text: None,
    waiting: Callable[[Sequence[Awaited]], None] = lambda awaited: None,
    values: Values = NO_VALUES,
) -> Discovery:
    """Start children side by side; return what they say they offer.

    `asked` names those to start, None for all; they have passed the environment check. `values`
    are as in `Job`.

    `connect_timeout` bounds, in seconds, the handshake of each child and then each reading of its
    list; what a package manager takes to install it is apart. With `minimal`, children inherit the
    basic variables of `environ` only. `frozen` is the table FROZEN: those servers start what it
    lists, which is installed first. Children that fail are named in the snapshot, with `quoted`
    lines of their stderr in `failures`.
    `progress(server, text)` is called for what comes of each: "13 tools, 0.8 s", "failed, 3.1 s";
    `waiting` about once in a second, and when all are to be ended ("", "ending 3 servers…").

    No process is left running, whether it returns, raises, or is ended by Ctrl-C, SIGTERM or
    SIGHUP.
    """
    launches = spec.launches(spec.paths if asked is None else asked, environ, minimal, values)
    installer = FrozenServers(frozen, str(spec.folder), environ)
    inquiries = [
        Inquiry(server, launches[server.name], spec.source, connect_timeout, quoted)
        for server in spec.servers
        if server.name in launches
    ]
    for inquiry in inquiries:
        if inquiry.server.name in frozen:
            inquiry.installer = installer
    _ask(inquiries, installer, progress, waiting)
    warnings: list[Problem] = []
    failures: list[Problem] = []
    late: list[str] = []
    for inquiry in inquiries:
        what = f"server '{inquiry.server.name}'"
        remarks = dict.fromkeys(inquiry.remarks)
        warnings += [Problem(inquiry.server.path, f"{what} {remark}") for remark in remarks]
        if inquiry.fault is not None:
            failures.append(Problem(inquiry.server.path, f"{what} {inquiry.fault}"))
            late += [inquiry.server.name] if inquiry.fault.is_late else []
    children = [inquiry.snapshot for inquiry in inquiries if inquiry.snapshot is not None]
    failed = [inquiry.server.name for inquiry in inquiries if inquiry.snapshot is None]
    snapshot = Snapshot(tuple(children), tuple(failed))
    return Discovery(snapshot, tuple(warnings), tuple(failures), tuple(late))


def _ask(
    inquiries: Sequence[Inquiry],
    installer: FrozenServers,
    progress: Progress,
    waiting: Callable[[Sequence[Awaited]], None],
) -> None:
    """Ask all servers, and report progress; an interruption ends them all, a second one at once."""
    turns = threading.Semaphore(INSTALLING)
    steps: SimpleQueue[tuple[Inquiry, str]] = SimpleQueue()

    def ask(inquiry: Inquiry) -> None:
        steps.put((inquiry, inquiry.ask(turns if inquiry.package else nullcontext())))

    threads = [threading.Thread(target=ask, args=(inquiry,), daemon=True) for inquiry in inquiries]
    with ending_later(meanwhile=_raise):
        try:
            for thread in threads:
                thread.start()
            left = [*inquiries]
            while left:
                with suppress(Empty):
                    inquiry, text = steps.get(timeout=LOOK_SECONDS)
                    left.remove(inquiry)
                    progress(inquiry.server.name, text)
                waiting([_awaited(inquiry) for inquiry in left])
        except BaseException:
            alive = sum(len(inquiry.alive) for inquiry in inquiries)
            if alive:
                progress("", f"ending {count(alive, 'server')}… (again: at once)")
            try:
                installer.end()
                for inquiry in inquiries:
                    inquiry.give_up()
                turns.release(len(threads) or 1)
                _join(threads)
            except BaseException:
                installer.kill()
                for inquiry in inquiries:
                    for connection in inquiry.alive:
                        connection.server.process.kill()
                _join(threads)
                raise
            raise


def _awaited(inquiry: Inquiry) -> Awaited:
    if inquiry.began is None:
        return Awaited(inquiry.server.name)
    if inquiry.installing:
        return Awaited(inquiry.server.name, inquiry.elapsed(), lambda: inquiry.installing)
    last_lines = [connection.server.last_line for connection in inquiry.alive[-1:]]
    return Awaited(inquiry.server.name, inquiry.elapsed(), *last_lines)


def _join(threads: list[threading.Thread]) -> None:
    """Wait for those that were started, in steps: on Windows Ctrl-C is noticed between waits."""
    for thread in threads:
        while thread.is_alive():
            thread.join(JOIN_SECONDS)


class _Signalled(BaseException):
    """Raised in the main thread by a signal that ends the process."""


def _raise() -> None:
    raise _Signalled
