"""Serves one client over standard input and output."""

from __future__ import annotations

import os
import signal
import stat
from typing import TYPE_CHECKING

from mcpagg_runtime.clients.answers import Answers, answer_line
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.clients.profiles import choose
from mcpagg_runtime.launch.needs import missing_variables, recursion_fault
from mcpagg_runtime.messages.jsontext import decode
from mcpagg_runtime.messages.message import (
    MAXIMUM_LINE_BYTES,
    Lines,
    Message,
    error,
    failure,
    read_message,
)
from mcpagg_runtime.messages.protocol import INVALID_REQUEST
from mcpagg_runtime.processes.memory import keep_memory
from mcpagg_runtime.processes.polling import (
    LINUX,
    POLLIN,
    POLLS,
    STDIN_CHUNK,
    Stopped,
    new_poll,
    set_nonblocking,
    wait_readable,
    writer_closed,
)
from mcpagg_runtime.processes.threads import SIGNAL_SECONDS
from mcpagg_runtime.processes.writer import Writer
from mcpagg_runtime.start.handover import ENDING, HEAD_START_SECONDS, HEAD_STARTS
from mcpagg_runtime.stdio.standard import print_error

if TYPE_CHECKING:
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.start.handover import Handover
    from mcpagg_runtime.stdio.engine import Engine, Log
    from mcpagg_runtime.stdio.windows_input import ThreadedInput


DRAIN_SECONDS = 5.0
FLUSH_SECONDS = 1.0
# Exit statuses, the same as the compiler's.
INPUT_UNREADABLE = 2
STARTED_BY_ITSELF = 2
MISSING_VARIABLE = 3


class Stdio:
    """Serves the client on standard input until it ends or a signal comes.

    Answers come from the file until a server is needed; from then on the engine gives them.
    """

    def __init__(self, plan: Plan, folder: str, log: Log | None = None) -> None:
        """`log`: see Engine."""
        # Standard output is for the protocol alone: a stray print goes to stderr.
        self.writer = _protocol_output()
        os.dup2(2, 1)
        self.folder = folder
        self.plan = plan
        self.answers = Answers(plan)
        self.profiles = bool(plan.profiles)
        """Whether the client's name, which is not known yet, decides what it is offered."""
        self.client = Client(plan.options.names)
        self.engine: Engine | None = None
        self._log = log
        self.waiting = False
        self.stopped = False
        self.input = _new_input(self.writer)

    def run(self, handover: Handover) -> int:
        """Serve, then end: pending answers are written, and every child is ended.

        Returns the exit status.
        """
        fault = start_fault(self.answers, self.folder)
        if fault:
            return fault
        if os.isatty(0):
            waits = "waiting for the JSON-RPC messages of an MCP client on standard input"
            print_error(f"{self.answers.plan.name}: {waits}; -h shows what else it does")
        status = 0
        for number in ENDING:
            signal.signal(number, self._stop)
        try:
            self._read(self._resume(handover))
            if self.engine is not None:
                self.engine.settle(self.client, DRAIN_SECONDS, lambda: self.stopped)
        except Stopped:
            pass
        except OSError as problem:
            print_error(f"{self.answers.plan.name}: cannot read standard input: {problem.strerror}")
            status = INPUT_UNREADABLE
        finally:
            self.waiting = False
            self.writer.flush(FLUSH_SECONDS)
            if self.engine is not None:
                self.engine.close()
                self.writer.flush(FLUSH_SECONDS)
        return status

    def _resume(self, handover: Handover) -> bytes:
        """Go on where the static answers ended; return the input that was not answered."""
        if handover.unwritten:
            self.writer.send(handover.unwritten)
        if handover.initialize_line:
            hello = read_message(decode(handover.initialize_line))
            self.client.introduce(hello, self.answers.plan.newest)
        if handover.initialized:
            self.client.shake_hands()
            if not handover.unprocessed and self._wants_servers():
                self._ensure_engine()
        return handover.unprocessed

    def _read(self, unread: bytes) -> None:
        lines = Lines(self._refuse)
        self._receive(lines.feed(unread))
        head_starts = 0
        while True:
            # A signal handler raises only here, where nothing is half done.
            self.waiting = True
            if self.stopped or self.writer.broken:
                raise Stopped
            wakes = self.engine is None and self._wants_servers()
            head_starts += wakes
            is_late = head_starts > HEAD_STARTS
            has_input = not wakes or (not is_late and self.input.ready(HEAD_START_SECONDS))
            data = self.input.read() if has_input else None
            self.waiting = False
            if data is None:
                self._ensure_engine()
            elif data:
                complete = lines.feed(data)
                # A slice that is still referenced keeps the whole buffer in memory.
                del data
                self._receive(complete)
                del complete
            else:
                self._receive([lines.rest()])
                return

    def _receive(self, lines: list[bytes]) -> None:
        """Answer lines from the file, until the engine is needed; then the engine takes them."""
        taken = 0
        while taken < len(lines):
            if self.engine is None:
                self._answer(lines[taken])
                taken += 1
            else:
                taken += self.engine.receive(self.client, *lines[taken:])
            if not self.has_room():
                self._wait_for_client()

    def _answer(self, line: bytes) -> None:
        if self.profiles:
            self.answers, self.profiles = choose(self.plan, self.answers, line)
        try:
            answer = answer_line(self.answers, self.client, line)
        except Exception as fault:
            self._ensure_engine().fail(self.client, line, fault)
            return
        if answer is None:
            self._ensure_engine().receive(self.client, line)
        elif not isinstance(answer, str):
            self.send(answer)

    def _wait_for_client(self) -> None:
        """Wait until the client has read what waits for it, so that memory stays bounded.

        If the client has closed its end, the rest of the input is no more than a pipe holds.
        """
        while not (writer_closed(0) or self.writer.has_room(SIGNAL_SECONDS)):
            if self.stopped:
                raise Stopped

    def _refuse(self) -> None:
        """Answer a line that is too long; its id is not known."""
        text = f"Invalid message: longer than {MAXIMUM_LINE_BYTES >> 20} MiB"
        self.send(failure("null", error(INVALID_REQUEST, text)))

    def send(self, *messages: Message) -> None:
        """Write messages to the client, now or as soon as it reads."""
        self.writer.send_messages(*messages)

    def has_room(self, seconds: float = 0.0) -> bool:
        """See `Writer.has_room`."""
        return self.writer.has_room(seconds)

    def _wants_servers(self) -> bool:
        eager = self.answers.plan.options.start == "eager"
        return self.client.starter is not None and eager

    def _ensure_engine(self) -> Engine:
        """Return the engine; make it if there is none yet."""
        if self.engine is None:
            from mcpagg_runtime.stdio.engine import Engine

            keep_memory()
            self.engine = Engine(self.answers, self.folder, self._log)
            self.engine.connect(self.client, self)
        return self.engine

    def _stop(self, *_: object) -> None:
        if self.stopped:
            # The second signal: end at once.
            if self.engine is not None:
                self.engine.kill()
            os._exit(1)
        self.stopped = True
        if self.waiting:
            raise Stopped


def start_fault(answers: Answers, folder: str) -> int:
    """Report what keeps the proxy from starting; return the exit status, 0 if nothing does.

    It must not be started by a server of its own, and every variable that servers need must be
    set. With `--allow-failed` it starts without the servers that lack one.
    """
    plan = answers.plan
    if why := recursion_fault(plan, os.environ):
        print_error(f"{plan.name}: {why}")
        return STARTED_BY_ITSELF
    if all(name in os.environ for name in plan.needs):
        return 0
    # A variable that is not in the environment may be in an env file.
    missing = missing_variables(plan.servers, os.environ, folder)
    for server, problem in missing.items():
        print_error(f"{plan.name}: server '{server}' cannot be started: {problem}")
    if missing and not plan.options.allow_failed:
        remedy = "set it in the environment, or in the client's `env` for this program"
        print_error(f"{plan.name}: nothing was started; {remedy}")
        return MISSING_VARIABLE
    answers.outages.update(missing)
    return 0


class _Input:
    """Standard input; a signal, or the client closing `output`, ends a read."""

    def __init__(self, output: int) -> None:
        self.output = output
        # A signal that comes just before the wait would not end it; the byte that it writes does.
        woken, wake = os.pipe()
        set_nonblocking(wake)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.poll = new_poll()
        self.poll.register(0, POLLIN)
        self.poll.register(woken, POLLIN)
        self.poll.register(output, 0)

    def ready(self, seconds: float) -> bool:
        """Wait until it has data or has ended, no longer than `seconds`."""
        return wait_readable(0, seconds)

    def read(self) -> bytes:
        """Wait for input; b"" is its end. Another process may have made the pipe non-blocking."""
        while True:
            for number, _ in self.poll.poll():
                if number == self.output:
                    raise Stopped
            try:
                return os.read(0, STDIN_CHUNK)
            except BlockingIOError:
                wait_readable(0, None)


def _new_input(output: Writer) -> _Input | ThreadedInput:
    """Return standard input, as this system can wait for it."""
    if POLLS:
        return _Input(output.descriptor)
    from mcpagg_runtime.stdio.windows_input import ThreadedInput  # which few systems need

    return ThreadedInput(output)


def _protocol_output() -> Writer:
    """Return a writer for standard output: on Linux, if it is a pipe, an open file of our own."""
    if LINUX and stat.S_ISFIFO(os.fstat(1).st_mode):
        try:
            return Writer(os.open("/proc/self/fd/1", os.O_WRONLY), private=True)
        except OSError:
            pass
    return Writer(os.dup(1), private=False)
