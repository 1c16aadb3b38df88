"""One life of a child started over stdio: its process group, its pipes and who reads them.

Closing follows the specification (basic/lifecycle, shutdown): close stdin, wait, SIGTERM, wait,
SIGKILL; always to the whole group, because `npx` and `sh -c` leave grandchildren. On Windows,
which has no process groups in this sense, the tree is ended by taskkill at the second step.
"""

from __future__ import annotations

import _thread
import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.outbox import Outbox
from mcpagg_runtime.wire import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpagg_runtime.launch import Launch

STDIN_GRACE_SECONDS = 2.0
SIGTERM_GRACE_SECONDS = 2.0
# How long the pipes of a dead child are read on for what is still in them: a grandchild may hold
# them open for ever.
LAST_WORDS_SECONDS = 0.3
LAST_WORDS_BYTES = 4096
LAST_WORDS_LINES = 10
CHUNK = 1 << 16

# By number: the signal module costs a start 6 ms.
TERMINATE = 15
KILL = 9


class Process:
    """A started child.

    `hear` gets each line of its stdout, `ended` why it is gone and the end of its stderr, once.
    """

    def __init__(
        self, launch: Launch, hear: Callable[[bytes], None], ended: Callable[[str, str], None]
    ) -> None:
        """Start it.

        Raises:
            OSError: the command cannot be started.
            ValueError: an argument holds a NUL.
        """
        # Not before a child is started: these take as long to import as the rest of a start.
        import subprocess
        import threading

        self.launch = launch
        self.hear = hear
        self.ended = ended
        self.exited = threading.Event()
        self.drained = threading.Event()
        self.gone = threading.Event()
        self._last_words = b""
        self._claim = _thread.allocate_lock()
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        ours_err, theirs_err = os.pipe()
        try:
            self.popen = subprocess.Popen(
                launch.argv,
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=theirs_err,
                env=launch.env,
                cwd=launch.cwd,
                start_new_session=True,
            )
        except BaseException:
            for descriptor in (ours_in, ours_out, ours_err):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (theirs_in, theirs_out, theirs_err):
                os.close(descriptor)
        self.outbox = Outbox(ours_in, private=True)
        self._stdout = ours_out
        _thread.start_new_thread(self._read_stderr, (ours_err,))
        _thread.start_new_thread(self._wait, ())

    def read(self) -> None:
        """Pass on the lines of stdout until it ends; then the child is of no use any more."""
        lines = Lines()
        for data in _chunks(self._stdout):
            for line in lines.feed(data):
                self.hear(line)
        self.drained.set()
        if not self.exited.wait(LAST_WORDS_SECONDS):
            self.end("closed its standard output")

    def end(self, reason: str) -> None:
        """Report why the child is gone, if nobody has, and see that it is."""
        if self._claim.acquire(False):
            self.ended(reason, self.last_words())
        self.close()

    def silence(self) -> None:
        """Report nothing from here on."""
        self._claim.acquire(False)

    def close(self) -> None:
        """Close stdin, then end what is left of the process group; returns when it is gone."""
        self._close()
        self.gone.set()

    def _close(self) -> None:
        self.outbox.close()
        if self.exited.wait(STDIN_GRACE_SECONDS) and not signal_group(self.popen.pid, 0):
            return
        signal_group(self.popen.pid, TERMINATE)
        if self._group_gone(SIGTERM_GRACE_SECONDS):
            return
        signal_group(self.popen.pid, KILL)
        self.exited.wait(SIGTERM_GRACE_SECONDS)

    def kill(self) -> None:
        """End the process group at once, and wait for nothing."""
        signal_group(self.popen.pid, KILL)

    def last_words(self) -> str:
        """Return the end of what the child wrote to stderr, without values of variables."""
        text = self._last_words.decode("utf-8", "replace")
        return self.launch.redact("\n".join(text.splitlines()[-LAST_WORDS_LINES:]))

    def _group_gone(self, seconds: float) -> bool:
        """Wait for the leader by its exit and for the rest of its group by asking."""
        from time import monotonic, sleep

        deadline = monotonic() + seconds
        self.exited.wait(seconds)
        while signal_group(self.popen.pid, 0):
            if monotonic() > deadline:
                return False
            sleep(0.01)
        return True

    def _read_stderr(self, descriptor: int) -> None:
        # Always read, or the child blocks once the pipe is full; only the end is kept.
        for data in _chunks(descriptor):
            self._last_words = (self._last_words + data)[-LAST_WORDS_BYTES:]

    def _wait(self) -> None:
        status = self.popen.wait()
        self.exited.set()
        self.drained.wait(LAST_WORDS_SECONDS)
        self.end(describe(status))


def describe(status: int) -> str:
    """Say how a process ended, from its return code: negative is minus a signal."""
    if status >= 0:
        return f"exited with status {status}"
    import signal

    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _chunks(descriptor: int) -> Iterator[bytes]:
    """Read a descriptor until its end, and close it."""
    try:
        while True:
            data = os.read(descriptor, CHUNK)
            if not data:
                return
            yield data
    except OSError:
        return
    finally:
        os.close(descriptor)


def signal_group(leader: int, number: int) -> bool:
    """Send a signal (0: none, only ask) to a process group; return whether it has members."""
    if sys.platform == "win32":
        if number:
            import subprocess

            command = ["taskkill", "/F", "/T", "/PID", str(leader)]
            subprocess.run(command, capture_output=True, check=False)
        return False
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: the group has only zombies left
        return False
    return True
