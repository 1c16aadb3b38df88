"""The connection to a remote server: to the engine, what a process is of a local one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import Message, minted
from mcpagg_runtime.messages.param_headers import modern_headers
from mcpagg_runtime.messages.printable import printable, where
from mcpagg_runtime.messages.protocol import CANCELLED, INITIALIZED
from mcpagg_runtime.processes.threads import NO_THREAD, start_thread
from mcpagg_runtime.remote.faults import RemoteFault
from mcpagg_runtime.remote.handshake import Handshake
from mcpagg_runtime.remote.http_client import HttpClient
from mcpagg_runtime.remote.login import Credentials
from mcpagg_runtime.remote.responses import Transfer
from mcpagg_runtime.remote.sse import SseSession
from mcpagg_runtime.remote.streamable import StreamableSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from mcpagg_runtime.launch.launch import Launch
    from mcpagg_runtime.messages.message import Fragment

# How long a cancellation waits until the request that it cancels was sent.
SENDING_SECONDS = 10.0


class SerialTasks:
    """Runs tasks one after another, in a thread that ends when there is none left."""

    def __init__(self, do: Callable[..., None]) -> None:
        self._do = do
        self._lock = threading.Lock()
        self._waiting: list[tuple[Any, ...]] = []
        self._is_running = False

    def add(self, arguments: tuple[Any, ...]) -> bool:
        """Queue a task; return whether a thread is to be started for `run_all`."""
        with self._lock:
            self._waiting.append(arguments)
            was_running, self._is_running = self._is_running, True
        return not was_running

    def run_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                arguments = self._waiting.pop(0)
            self._do(*arguments)


class RemoteConnection:
    """The connection to a remote server; nothing is sent before the first message.

    Each request has a thread, and an HTTP connection, of its own until it is answered.
    Notifications are sent in order by one more thread. A failure ends the connection only if the
    server has never answered; a later one fails its own request, since the next may go well.

    `on_end` is called once, with why the connection has ended; `on_request_failed` with the id of a
    request and why it gets no answer. Both texts complete "Server 'x' …". `on_session_renewed` is
    called when the server had lost the session, with all that it was sent in it, and has shaken
    hands again.
    """

    def __init__(
        self,
        launch: Launch,
        on_line: Callable[[bytes, int], Iterable[Message | Fragment]],
        on_end: Callable[[str, str], None],
        on_request_failed: Callable[[int, str], None],
        on_session_renewed: Callable[[], None] = lambda: None,
        tool: Callable[[str], str] = lambda name: "",
        agent: str = "mcpagg",
        config: str = "CONFIG",
    ) -> None:
        """`on_line` takes a line of the server and the id of the request by whose response it came.

        It returns what it has read in it. `tool` returns the JSON text of a
        tool, or "". `config` is the path of the config, which the command for a login names.

        Raises:
            ValueError: the URL, or one of the headers, cannot be used.
        """
        self.launch = launch
        self.on_end = on_end
        self.on_session_renewed = on_session_renewed
        self.gone = self.stderr_ended = threading.Event()
        self.detached = False
        """Whether it was ended on purpose."""
        self.refusal_status = 0
        """The HTTP status that ended it, 0 for none."""
        self._handshake = Handshake()
        self._on_line = on_line
        self._on_request_failed = on_request_failed
        self._tool = tool
        self._has_answered = False
        """Whether the server has answered a request."""
        self._closing = threading.Event()
        self._problem = ""
        """Why it is to end, where that could not be reported at once."""
        self._lock = threading.Lock()
        """Guards the three attributes that follow."""
        self._is_reported = False
        """Whether its end was reported, or is not to be reported."""
        self._is_closed = False
        self._transfers: dict[int, Transfer] = {}
        self._notifications = SerialTasks(self._notify)
        """Sends what needs no answer."""
        http = HttpClient(launch.url, launch.headers, agent, Credentials(launch, config))
        self._where = http.where
        kind = SseSession if launch.transport == "sse" else StreamableSession
        self._session: SseSession | StreamableSession = kind(http, self, self._handshake)

    @property
    def silence_detail(self) -> str:
        """Where the server does not answer, and what has not come from there."""
        missing = self._session.waiting_for
        return f" at {self._where}: {missing}" if missing else f" at {self._where}"

    # Messages to the server

    def send(self, *messages: Message) -> None:
        """Send messages; never waits."""
        for message in messages:
            self._send(message)

    def _send(self, message: Message) -> None:
        if message.method == "initialize":
            self._handshake.initialize = message
        headers = {} if self._handshake.initialize else modern_headers(message, self._tool)
        if message.method is not None and message.id is not None:
            transfer = Transfer(message.number)
            with self._lock:
                self._transfers[transfer.number] = transfer
            self._run_in_thread(self._request, transfer, message, headers)
        elif self._notifications.add((message, headers)):
            self._run_in_thread(self._notifications.run_all)

    def _run_in_thread(self, work: Callable[..., None], *arguments: object) -> None:
        """Run `work` in a thread; if there is none, the connection ends.

        The caller may hold a lock that `on_end` takes, so the thread that reads calls that.
        """
        if start_thread(work, *arguments) is None:
            self._problem = f"was not asked: {NO_THREAD}"
            self._closing.set()
            self._handshake.done.set()
            self._session.stop()

    def read_to_end(self) -> None:
        """Read what belongs to no request, until the connection closes."""
        self._session.listen()
        self._closing.wait()
        if self._problem:
            self.end(self._problem)

    def _request(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request, and report if it fails; runs in a thread of its own."""
        fault: RemoteFault | None = None
        try:
            if self._handshake.initialize not in (None, message):
                self._handshake.done.wait()
            self._session.request(transfer, message, headers)
        except RemoteFault as problem:
            fault = problem
        except Exception as problem:
            fault = RemoteFault(f"was given up over an internal fault: {where(problem)}")
        transfer.sent.set()
        with self._lock:
            self._transfers.pop(transfer.number, None)
        if fault is None or transfer.answered or transfer.cancelled:
            return
        if self._has_answered:
            self._on_request_failed(transfer.number, self._shown(fault.what))
        else:
            self.refusal_status = fault.status
            self.end(fault.what)

    def _notify(self, message: Message, headers: Mapping[str, str]) -> None:
        try:
            if message.method == CANCELLED:
                self._cancel(message)
            else:
                self._session.notify(message, headers)
        except RemoteFault:
            pass  # the requests that depend on it will fail
        except Exception as problem:
            self.end(f"was given up over an internal fault: {where(problem)}")
        if message.method == INITIALIZED:
            self._handshake.done.set()

    def _cancel(self, message: Message) -> None:
        """Cancel a request; for a modern server, closing the stream of the answer is enough."""
        with self._lock:
            transfer = self._transfers.get(minted(message.params.get("requestId")))
        if transfer is None:
            return
        try:
            if self._handshake.initialize is not None and transfer.sent.wait(SENDING_SECONDS):
                self._session.notify(message, {})
        finally:
            transfer.cancel()

    # Messages from the server

    def on_message(self, text: bytes, transfer: Transfer) -> None:
        """Pass on JSON of the server, and note which requests it answers.

        Line ends in it can only stand between values; they become blanks.
        """
        line = text.replace(b"\n", b" ").replace(b"\r", b" ")
        transfer.has_received = True
        if transfer.reopened:
            transfer.reopened = False
            self.on_session_renewed()
        if self._handshake.takes(line, transfer):
            return
        for message in self._on_line(line, transfer.number):
            if message.method or message.id is None:
                continue
            self._has_answered = True
            with self._lock:
                answered = self._transfers.get(message.number)
            if answered is not None:
                answered.answered = True
                answered.done.set()

    def _shown(self, what: str) -> str:
        return printable(self.launch.redact(what))

    # End

    def is_closing(self, seconds: float) -> bool:
        """Wait so long, or until the connection closes; return whether it does."""
        return self._closing.wait(seconds) if seconds else self._closing.is_set()

    def detach(self) -> None:
        """Ignore what still comes of it, and do not report its end: it is ended on purpose."""
        self.detached = True
        self.suppress_report()

    def suppress_report(self) -> None:
        """Do not report its end."""
        self._is_reported = True

    def end(self, reason: str) -> None:
        """Report why the connection ends, unless that was reported, and close it."""
        with self._lock:
            was_reported, self._is_reported = self._is_reported, True
        if not was_reported:
            self.on_end(self._shown(reason), "")
        self.close()

    def close(self) -> None:
        """Cancel all requests and end the session; returns when that is done."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            self.gone.wait()
            return
        self._closing.set()
        with self._lock:
            transfers = [*self._transfers.values()]
        for transfer in transfers:
            transfer.cancel()
        self._handshake.done.set()
        self._session.close()
        self.gone.set()

    def kill(self) -> None:
        """Do nothing: connections end with this process."""

    def stderr_tail(self, _most: int = 0) -> str:
        """Return nothing: it has no standard error."""
        return ""
