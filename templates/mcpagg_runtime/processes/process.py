"""The process of a child over stdio: its group, its pipes, and the threads that read them.

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
from mcpagg_runtime.processes.polling import POLLIN, POLLS, enlarge_pipe, new_poll
from mcpagg_runtime.processes.reasons import exit_reason, key_lines
from mcpagg_runtime.processes.spawning import KILL
from mcpagg_runtime.processes.threads import NO_THREAD, start_thread
from mcpagg_runtime.processes.writer import RETURNED_BYTES, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.processes.spawning import SpawnedProcess


STDIN_GRACE_SECONDS = 2.0
SIGTERM_GRACE_SECONDS = 2.0
# How long the pipes of a dead child are still read: a grandchild may hold them open for ever.
PIPE_GRACE_SECONDS = 0.3
STDERR_TAIL_BYTES = 8192
STDERR_TAIL_LINES = 10
CHUNK = 1 << 16

TERMINATE = 15  # by number, see KILL


class Process:
    """A process of a child that runs.

    `on_lines` gets this process and lines of its stdout, as many as come at once. `on_end` gets why
    it has ended and the end of its stderr, once.
    """

    def __init__(
        self,
        spawned: SpawnedProcess,
        on_lines: Callable[..., object],
        on_end: Callable[[str, str], None],
    ) -> None:
        """Take over a process, which is ended if that fails.

        Raises:
            OSError: no pipe can be made.
            RuntimeError: no thread can be started.
        """
        self.launch = spawned.launch
        self.on_lines = on_lines
        self.on_end = on_end
        self.exited = threading.Event()
        self.stdout_ended = threading.Event()
        self.stderr_ended = threading.Event()
        self.gone = threading.Event()
        self.detached = False
        """Whether it was ended on purpose."""
        self._is_passing_on = False
        """Whether lines are being passed on, which may wait for a client that does not read."""
        self._stderr_tail = b""
        self._lock = threading.Lock()
        """Guards the two attributes that follow."""
        self._is_reported = False
        """Whether its end was reported, or is not to be reported."""
        self._is_closed = False
        self.handle = spawned.handle
        self._group = spawned.group
        try:
            # Who polls the first sees it hang up when the second is closed.
            self._close_reader, self._close_writer = os.pipe()
        except OSError:
            spawned.discard()
            raise
        stdin, self._stdout, stderr = spawned.pipes
        self.writer = Writer(
            stdin,
            private=True,
            on_broken=lambda: self._end_in_thread(self._on_stdin_closed),
            on_overflow=lambda waiting: self._end_in_thread(self._on_overflow, waiting),
        )
        if start_thread(self._read_stderr, stderr) is None:
            self._undo(self._stdout, stderr, self._close_reader)
        if start_thread(self._wait) is None:
            self._undo(self._stdout)

    def send(self, *messages: Message) -> None:
        """Write messages to its stdin, now or as soon as it reads; never waits."""
        self.writer.send_messages(*messages)

    def detach(self) -> None:
        """Ignore what still comes of it, and do not report its end: it is ended on purpose."""
        self.detached = True
        self.suppress_report()

    def _undo(self, *descriptors: int) -> NoReturn:
        """End a child that could not be taken over, and close what no thread reads."""
        self.kill()
        self.handle.wait()
        self.exited.set()
        self.close()
        for descriptor in descriptors:
            os.close(descriptor)
        raise RuntimeError(NO_THREAD)

    def _end_in_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        """Run in a thread what ends the child; without one, it is killed at once."""
        if start_thread(work, *arguments) is None:
            self.kill()

    def read_to_end(self) -> None:
        """Pass on the lines of stdout until it ends; then end the child."""
        lines = Lines(self._on_line_too_long)
        is_wide = False
        for data in _chunks(self._stdout):
            if len(data) == CHUNK and not is_wide:
                is_wide = True
                enlarge_pipe(self._stdout)
            was_large = lines.size > RETURNED_BYTES
            self._is_passing_on = True
            self.on_lines(self, *lines.feed(data))
            self._is_passing_on = False
            del data  # see `_chunks`
            if was_large and lines.size <= RETURNED_BYTES:
                return_memory()
        self.stdout_ended.set()
        if not self.exited.wait(PIPE_GRACE_SECONDS):
            self.end("closed its standard output")

    def _on_line_too_long(self) -> None:
        """End the child: a line of it is longer than any that we read."""
        reason = f"wrote a line of more than {MAXIMUM_LINE_BYTES >> 20} MiB"
        self._end_in_thread(self.end, reason)

    def _on_stdin_closed(self) -> None:
        """End the child, unless it has exited: it cannot get another message."""
        if not self.exited.wait(PIPE_GRACE_SECONDS):
            self.end("closed its standard input")

    def _on_overflow(self, waiting: int) -> None:
        """End the child: the queue of its input has overflowed."""
        self.end(f"does not read its input, {waiting >> 20} MiB are waiting")

    def end(self, reason: str) -> None:
        """Report why the child has ended, unless that was reported, and end it."""
        with self._lock:
            was_reported, self._is_reported = self._is_reported, True
        if not was_reported:
            self.on_end(printable(self.launch.redact(reason)), self.stderr_tail())
        self.close()

    def suppress_report(self) -> None:
        """Do not report its end."""
        self._is_reported = True

    def close(self) -> None:
        """Close stdin, then end the process group; returns when it is gone, or cannot be ended."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            # A thread that polls a pipe keeps it open: first have it stop, then close the pipe.
            os.close(self._close_writer)
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

    def stderr_tail(self, most: int = STDERR_TAIL_LINES) -> str:
        """Return the lines of the end of its stderr that tell best why the child has ended.

        Values of variables are redacted, and control characters escaped.
        """
        text = self.launch.redact(self._stderr_tail.decode("utf-8", "replace"))
        is_whole = len(self._stderr_tail) <= STDERR_TAIL_BYTES
        if not is_whole:
            # Before the first line end may stand the rest of a value that was cut.
            text = text[-STDERR_TAIL_BYTES:].partition("\n")[2]
        lines = [printable(line).rstrip() for line in text.replace("\r", "\n").split("\n")]
        return "\n".join(key_lines([line for line in lines if line], most, is_whole))

    def _group_gone(self, seconds: float) -> bool:
        """Wait for the end of the whole group; return whether it is gone.

        A group that is gone is never signalled again: its number may be another's by then.
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
        """Read stderr, always, or the child blocks once the pipe is full; store its last bytes."""
        for data in _chunks(descriptor, self._stderr_waiter(descriptor)):
            self._stderr_tail = (self._stderr_tail + data)[-2 * STDERR_TAIL_BYTES :]
        self.stderr_ended.set()
        os.close(self._close_reader)

    def _stderr_waiter(self, descriptor: int) -> Callable[[], None]:
        """Return a function that waits for stderr, and notices when the child has closed stdin.

        A write before that would succeed; only polling the pipe shows it.
        """
        if not POLLS:
            return lambda: None
        poll = new_poll()
        poll.register(descriptor, POLLIN)
        watched = [self._close_reader, self.writer.descriptor]
        for number in watched:
            poll.register(number, 0)

        def wait() -> None:
            while True:
                ready = [number for number, _ in poll.poll()]
                # Once it is closed, the number may be another file's.
                closed = self._close_reader in ready
                if watched and (closed or self.writer.descriptor in ready):
                    while watched:
                        poll.unregister(watched.pop())
                    if not closed:
                        self._end_in_thread(self._on_stdin_closed)
                if descriptor in ready:
                    return

        return wait

    def _wait(self) -> None:
        status = self.handle.wait()
        self.exited.set()
        while not self.stdout_ended.wait(PIPE_GRACE_SECONDS) and self._is_passing_on:
            pass  # what it has written is still to be read
        self.stderr_ended.wait(PIPE_GRACE_SECONDS)
        if self._is_reported:
            self.close()
            return
        self.end(exit_reason(status, self.launch))


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
            # A slice that is still referenced keeps the whole buffer in memory.
            del data
    except OSError:
        return
    finally:
        os.close(descriptor)
