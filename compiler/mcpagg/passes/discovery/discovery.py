"""The discovery pass: start every child once and ask it what it offers.

Children are asked side by side, each by an `Inquiry` in a thread of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from mcpagg.options import CONNECT_SECONDS
from mcpagg.passes.discovery.conversation import ALL_LINES
from mcpagg.passes.discovery.inquiry import Inquiry
from mcpagg.problems import Problem, count
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.launch.launch import Launches
from mcpagg_runtime.processes.process import STDERR_TAIL_LINES

# Windows has the first one only in name, and the second one not at all.
_ENDING = [
    signal.Signals[name] for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
]
JOIN_SECONDS = 0.2

__all__ = ["ALL_LINES", "STDERR_TAIL_LINES", "Awaited", "Found", "discover"]

Progress = Callable[[str, str], None]

# How many package managers install at a time, which is work for the network, the disk and the
# processor. A server that has shaken hands lets the next one begin.
INSTALLING = 4
LOOK_SECONDS = 1.0


class Awaited(NamedTuple):
    """A server that is still awaited, for how many seconds, None if it waits for its turn.

    `said` returns what it has said last.
    """

    name: str
    seconds: float | None = None
    said: Callable[[], str] = lambda: ""


class Found(NamedTuple):
    """What discovery has found: the snapshot, what is odd about servers, and what failed.

    `late` names those of the latter that might have come up with more time.
    """

    snapshot: Snapshot
    warnings: tuple[Problem, ...]
    failures: tuple[Problem, ...]
    late: tuple[str, ...] = ()


def discover(
    spec: ProxySpec,
    environ: Mapping[str, str],
    *,
    asked: Collection[str] | None = None,
    connect_timeout: float = CONNECT_SECONDS,
    minimal: bool = False,
    quoted: int = STDERR_TAIL_LINES,
    progress: Progress = lambda server, text: None,
    waiting: Callable[[Sequence[Awaited]], None] = lambda awaited: None,
) -> Found:
    """Start children side by side; return what they say they offer.

    `asked` names those to start, None for all; they have passed the environment check.

    `connect_timeout` bounds, in seconds, the handshake of each child and then each reading of its
    list; what a package manager takes to install it is apart. With `minimal`, children inherit the
    basic variables of `environ` only. Children that fail are named in the snapshot, with `quoted`
    lines of their stderr in `failures`.
    `progress(server, text)` is called for what comes of each: "13 tools, 0.8 s", "failed, 3.1 s";
    `waiting` about once in a second, and when all are to be ended ("", "ending 3 servers…").

    No process is left running, whether it returns, raises, or is ended by Ctrl-C, SIGTERM or
    SIGHUP.
    """
    rows = {server.name: server.row() for server in spec.servers}
    launches = Launches(rows, environ, str(spec.folder), minimal)
    inquiries = []
    for server in spec.servers:
        if asked is None or server.name in asked:
            launch = launches.prepare(server.name)
            inquiries.append(Inquiry(server, launch, spec.source, connect_timeout, quoted))
    _ask(inquiries, progress, waiting)
    warnings: list[Problem] = []
    failures: list[Problem] = []
    late: list[str] = []
    for one in inquiries:
        what = f"server '{one.server.name}'"
        remarks = dict.fromkeys(one.remarks)
        warnings += [Problem(one.server.path, f"{what} {remark}") for remark in remarks]
        if one.fault is not None:
            failures.append(Problem(one.server.path, f"{what} {one.fault}"))
            late += [one.server.name] if one.fault.is_late else []
    children = [one.found for one in inquiries if one.found is not None]
    failed = [one.server.name for one in inquiries if one.found is None]
    snapshot = Snapshot(tuple(children), tuple(failed))
    return Found(snapshot, tuple(warnings), tuple(failures), tuple(late))


def _ask(
    inquiries: Sequence[Inquiry],
    progress: Progress,
    waiting: Callable[[Sequence[Awaited]], None],
) -> None:
    """Ask all servers, and report progress; an interruption ends them all, a second one at once."""
    turns = threading.Semaphore(INSTALLING)
    steps: SimpleQueue[tuple[Inquiry, str]] = SimpleQueue()

    def ask(inquiry: Inquiry) -> None:
        steps.put((inquiry, inquiry.ask(turns if inquiry.package else nullcontext())))

    threads = [threading.Thread(target=ask, args=(one,), daemon=True) for one in inquiries]
    with _raised_signals():
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
            progress("", f"ending {count(alive, 'server')}… (again: at once)")
            try:
                for inquiry in inquiries:
                    inquiry.give_up()
                turns.release(len(threads) or 1)
                _join(threads)
            except BaseException:
                for one in [one for inquiry in inquiries for one in inquiry.alive]:
                    one.server.process.kill()
                _join(threads)
                raise
            raise


def _awaited(inquiry: Inquiry) -> Awaited:
    if inquiry.began is None:
        return Awaited(inquiry.server.name)
    said = [one.server.last_line for one in inquiry.alive[-1:]]
    return Awaited(inquiry.server.name, inquiry.since(), *said)


def _join(threads: list[threading.Thread]) -> None:
    """Wait for those that were started, in steps: on Windows Ctrl-C is noticed between waits."""
    for thread in threads:
        while thread.is_alive():
            thread.join(JOIN_SECONDS)


class _Signalled(BaseException):
    """Raised in the main thread by a signal that ends the process."""


@contextmanager
def _raised_signals() -> Iterator[None]:
    """Let such signals first be raised here, then end this process as they would have.

    Ctrl-C needs no such care: Python raises it. A signal that is ignored (nohup) or handled by the
    caller is left alone.
    """
    caught: list[int] = []

    def note(number: int, _frame: object) -> None:
        caught.append(number)
        raise _Signalled

    watched = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        watched = []
    for number in watched:
        signal.signal(number, note)
    try:
        yield
    except _Signalled:
        pass
    finally:
        for number in watched:
            signal.signal(number, signal.SIG_DFL)
        if caught:
            signal.raise_signal(caught[0])
