"""One run of a child started over stdio: its process group, its pipes and who reads them.

Closing follows the specification (basic/lifecycle, shutdown): close stdin, wait, SIGTERM, wait,
SIGKILL; always to the whole group, because `npx` and `sh -c` leave grandchildren. On Windows the
second step is the last one.
"""

from __future__ import annotations

import os
import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import MAXIMUM_LINE_BYTES, Lines
from mcpagg_runtime.messages.printable import printable
from mcpagg_runtime.processes.memory import return_memory
from mcpagg_runtime.processes.polling import POLLIN, POLLS, new_poll, widen
from mcpagg_runtime.processes.reasons import how_ended, telling
from mcpagg_runtime.processes.spawning import KILL
from mcpagg_runtime.processes.threads import NO_THREAD, start_thread
from mcpagg_runtime.processes.writer import RETURNED, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.processes.spawning import Spawned


STDIN_GRACE_SECONDS = 2.0
SIGTERM_GRACE_SECONDS = 2.0
# How long the pipes of a dead child are read on for what is still in them: a grandchild may hold
# them open for ever.
LAST_WORDS_SECONDS = 0.3
LAST_WORDS_BYTES = 8192
LAST_WORDS_LINES = 10
CHUNK = 1 << 16

TERMINATE = 15  # by number, see KILL


class Process:
    """A started child.

    `receive` gets the lines of its stdout, as many as come at once. `ended` gets why it is gone and
    the end of its stderr, once.
    """

    def __init__(
        self, spawned: Spawned, receive: Callable[..., object], ended: Callable[[str, str], None]
    ) -> None:
        """Look after a process from now on.

        Raises:
            OSError: no pipe can be made. The process is ended then.
            RuntimeError: no thread can be started. So it is then.
        """
        self.launch = spawned.launch
        self.receive = receive
        self.ended = ended
        self.exited = threading.Event()
        self.drained = threading.Event()
        self.stderr_closed = threading.Event()
        self.gone = threading.Event()
        self.detached = False
        """Whether it was ended on purpose."""
        self._is_passing_on = False
        """Whether lines are being passed on: that waits for a client that does not read."""
        self._stderr_tail = b""
        self._lock = threading.Lock()
        """Guards the two that follow."""
        self._is_reported = False
        """Whether its end was reported, or is not to be."""
        self._is_closed = False
        self.handle = spawned.handle
        self._group = spawned.group
        try:
            # The first one hangs up when the second is closed.
            self._closed, self._close = os.pipe()
        except OSError:
            spawned.discard()
            raise
        stdin, self._stdout, stderr = spawned.pipes
        self.writer = Writer(
            stdin,
            private=True,
            broke=lambda: self._end_in_thread(self._deaf),
            overflowed=lambda waiting: self._end_in_thread(self._full, waiting),
        )
        if start_thread(self._read_stderr, stderr) is None:
            self._undo(self._stdout, stderr, self._closed)
        if start_thread(self._wait) is None:
            self._undo(self._stdout)

    def send(self, *messages: Message) -> None:
        """Send it messages, now or as soon as it reads; never waits."""
        self.writer.send(*[piece for message in messages for piece in message.pieces()])

    def detach(self) -> None:
        """Take no more of it, and report nothing of its end: it was ended on purpose."""
        self.detached = True
        self.suppress_report()

    def _undo(self, *descriptors: int) -> NoReturn:
        """End a child that nobody looks after, and close what nobody reads."""
        self.kill()
        self.handle.wait()
        self.exited.set()
        self.close()
        for descriptor in descriptors:
            os.close(descriptor)
        raise RuntimeError(NO_THREAD)

    def _end_in_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do in a thread what ends the child; without one, it is killed at once."""
        if start_thread(work, *arguments) is None:
            self.kill()

    def read(self) -> None:
        """Pass on the lines of stdout until it ends; then the child is of no use any more."""
        lines = Lines(self._endless)
        is_wide = False
        for data in _chunks(self._stdout):
            if len(data) == CHUNK and not is_wide:
                is_wide = True
                widen(self._stdout)
            was_large = lines.size > RETURNED
            self._is_passing_on = True
            self.receive(*lines.feed(data))
            self._is_passing_on = False
            del data  # while it waits for more, it keeps nothing: see `_chunks`
            if was_large and lines.size <= RETURNED:
                return_memory()
        self.drained.set()
        if not self.exited.wait(LAST_WORDS_SECONDS):
            self.end("closed its standard output")

    def _endless(self) -> None:
        """A line of the child has no end: what it means by it will never be known."""
        reason = f"wrote a line of more than {MAXIMUM_LINE_BYTES >> 20} MiB"
        self._end_in_thread(self.end, reason)

    def _deaf(self) -> None:
        """The child takes no input any more: what it owes, it owes for ever."""
        if not self.exited.wait(LAST_WORDS_SECONDS):
            self.end("closed its standard input")

    def _full(self, waiting: int) -> None:
        """The child is owed more than anyone would keep for it."""
        self.end(f"does not read its input, {waiting >> 20} MiB are waiting")

    def end(self, reason: str) -> None:
        """Report why the child is gone, if nobody has, and see that it is."""
        with self._lock:
            was_reported, self._is_reported = self._is_reported, True
        if not was_reported:
            self.ended(printable(self.launch.redact(reason)), self.stderr_tail())
        self.close()

    def suppress_report(self) -> None:
        """Report nothing from here on."""
        self._is_reported = True

    def close(self) -> None:
        """Close stdin, then end what is left of the process group; returns when it is gone."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            # Whoever polls a pipe keeps it open: first let go of the child's input, then close it.
            os.close(self._close)
        self.writer.close()
        if self._group_gone(STDIN_GRACE_SECONDS):
            return
        self._signal(TERMINATE)
        if self._group_gone(SIGTERM_GRACE_SECONDS):
            return
        self._signal(KILL)
        self._group_gone(SIGTERM_GRACE_SECONDS)

    def kill(self) -> None:
        """End the process group at once, and wait for nothing."""
        self._signal(KILL)

    def stderr_tail(self, most: int = LAST_WORDS_LINES) -> str:
        """Return what of the end of its stderr says best why the child is gone, fit to be shown.

        Without values of variables, and without what a terminal would act upon.
        """
        text = self.launch.redact(self._stderr_tail.decode("utf-8", "replace"))
        is_whole = len(self._stderr_tail) <= LAST_WORDS_BYTES
        if not is_whole:
            # What stands before the first line end may be the rest of a value that was cut.
            text = text[-LAST_WORDS_BYTES:].partition("\n")[2]
        lines = [printable(line).rstrip() for line in text.replace("\r", "\n").split("\n")]
        return "\n".join(telling([line for line in lines if line], most, is_whole))

    def _group_gone(self, seconds: float) -> bool:
        """Wait for the end of the whole group: the leader tells it, the rest is asked for.

        A group that was seen gone is never asked for again: its number may be another's by then.
        """
        deadline = monotonic() + seconds
        self.exited.wait(seconds)
        while not self.gone.is_set():
            if self.exited.is_set() and not self._group.signal(0):
                self.gone.set()
            elif monotonic() > deadline:
                return False
            else:
                sleep(0.01)
        return True

    def _signal(self, number: int) -> None:
        if not self.gone.is_set():
            self._group.signal(number)

    def _read_stderr(self, descriptor: int) -> None:
        """Read stderr, always, or the child blocks once the pipe is full; only its end is kept."""
        for data in _chunks(descriptor, self._listens(descriptor)):
            self._stderr_tail = (self._stderr_tail + data)[-2 * LAST_WORDS_BYTES :]
        self.stderr_closed.set()
        os.close(self._closed)

    def _listens(self, descriptor: int) -> Callable[[], None]:
        """Return what waits for stderr and notices when the child no longer takes input.

        What was written before that is lost without a word: only the pipe itself tells.
        """
        if not POLLS:
            return lambda: None
        poll = new_poll()
        poll.register(descriptor, POLLIN)
        watched = [self._closed, self.writer.descriptor]
        for number in watched:
            poll.register(number, 0)

        def wait() -> None:
            while True:
                ready = [number for number, _ in poll.poll()]
                # Once it is closed, the number may be another file's.
                closed = self._closed in ready
                if watched and (closed or self.writer.descriptor in ready):
                    while watched:
                        poll.unregister(watched.pop())
                    if not closed:
                        self._end_in_thread(self._deaf)
                if descriptor in ready:
                    return

        return wait

    def _wait(self) -> None:
        status = self.handle.wait()
        self.exited.set()
        while not self.drained.wait(LAST_WORDS_SECONDS) and self._is_passing_on:
            pass  # what it has said is still to come
        self.stderr_closed.wait(LAST_WORDS_SECONDS)
        if self._is_reported:  # there is nothing to report
            self.close()
            return
        self.end(how_ended(status, self.launch))


def _chunks(descriptor: int, wait: Callable[[], None] | None = None) -> Iterator[bytes]:
    """Read a descriptor until its end, and close it; `wait`, if any, comes before each reading."""
    try:
        while True:
            if wait is not None:
                wait()
            data = os.read(descriptor, CHUNK)
            if not data:
                return
            yield data
            # The end of a large line, kept, would keep the memory of all that stood before it.
            del data
    except OSError:
        return
    finally:
        os.close(descriptor)
