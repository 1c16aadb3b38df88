"""One life of a remote child: to the engine what a process is of a child on this machine."""

from __future__ import annotations

import _thread
from threading import Event as Flag
from typing import TYPE_CHECKING

from mcpagg_runtime.base.message import minted
from mcpagg_runtime.base.protocol import CANCELLED
from mcpagg_runtime.base.writer import LOOK_SECONDS
from mcpagg_runtime.remote.credentials import Credentials
from mcpagg_runtime.remote.faults import RemoteFault
from mcpagg_runtime.remote.fields import modern_headers
from mcpagg_runtime.remote.sse import SseSession
from mcpagg_runtime.remote.streamable import StreamableSession
from mcpagg_runtime.remote.transfers import HttpClient, Transfer
from mcpagg_runtime.serve.secrecy import printable, where

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.serve.process import Receive
    from mcpagg_runtime.spawn.launch import Launch

# How long a cancellation waits for what it cancels to be sent.
SENDING_SECONDS = 10.0
NO_THREAD_LEFT = "was not asked: the system has no thread for it"


class RemoteConnection:
    """A remote child that is spoken to; nothing is sent before the first message.

    Each request has a thread, and a connection, of its own until it is answered; what needs no
    answer is sent in order by one more. A failure ends the life only if the server has never
    answered: later ones fail the request that they are about, since the next may go well.
    """

    def __init__(
        self,
        launch: Launch,
        receive: Receive,
        ended: Callable[[str, str], None],
        failed: Callable[[int, str], None],
        renewed: Callable[[], None] = lambda: None,
        tool: Callable[[str], str] = lambda name: "",
        agent: str = "mcpagg",
        config: str = "CONFIG",
    ) -> None:
        """`receive` takes the lines of the server.

        `ended` is called once, with why the life is over; `failed` with the id of a request and why
        it gets no answer. Both texts complete "Server 'x' …". `renewed` is called when the server
        has forgotten what it was told and has shaken hands again. `tool` gives the JSON text of a
        tool by its own name, or "". `config` is the path of the config, by
        which a person logs in there.

        Raises:
            ValueError: its URL, or one of its headers, is of no use.
        """
        self.launch = launch
        self.ended = ended
        self.renewed = renewed
        self.gone = self.silent = Flag()
        self.retired = False
        """Whether it was ended on purpose."""
        self.refused_with = 0
        """The status of HTTP that ended it."""
        self._receive = receive
        self._failed = failed
        self._tool = tool
        self._answers = False
        """Whether the server has answered a request."""
        self._is_modern: bool | None = None
        """Whether it is spoken to without a handshake; known with the first message."""
        self._closing = Flag()
        self._problem = ""
        """Why it is to end, where that could not be said at once."""
        self._claim = _thread.allocate_lock()
        self._open = _thread.allocate_lock()
        self._lock = _thread.allocate_lock()
        self._transfers: dict[int, Transfer] = {}
        self._waiting: list[tuple[Message, dict[str, str]]] = []
        """What is to be sent in order."""
        self._sending = False
        http = HttpClient(launch.url, launch.headers, agent, Credentials(launch, config))
        kind = SseSession if launch.transport == "sse" else StreamableSession
        self._session: SseSession | StreamableSession = kind(http, self)

    # What the engine says

    def send(self, *messages: Message) -> None:
        """Send messages; never waits."""
        for message in messages:
            self._send(message)

    def _send(self, message: Message) -> None:
        if self._is_modern is None:
            self._is_modern = message.method != "initialize"
        headers = modern_headers(message, self._tool) if self._is_modern else {}
        if message.method is not None and message.id is not None:
            self._begin(Transfer(minted(message.id)), message, headers)
        elif message.method == CANCELLED and self._is_modern:
            # Closing the stream of a request is its cancellation.
            self._break_off(minted(message.params.get("requestId")))
        else:
            self._queue(message, headers)

    def _begin(self, transfer: Transfer, message: Message, headers: dict[str, str]) -> None:
        with self._lock:
            self._transfers[transfer.number] = transfer
        self._apart(self._make, transfer, message, headers)

    def _queue(self, message: Message, headers: dict[str, str]) -> None:
        with self._lock:
            self._waiting.append((message, headers))
            if self._sending:
                return
            self._sending = True
        self._apart(self._send_waiting)

    def _apart(self, work: Callable[..., None], *arguments: object) -> None:
        """Do something in a thread of its own; without one, the life is over.

        Whoever sends may hold a lock that whoever is told of the end takes: the thread that reads
        tells it.
        """
        try:
            _thread.start_new_thread(work, arguments)
        except RuntimeError:
            self._problem = NO_THREAD_LEFT
            self._closing.set()
            self._session.stop()

    def read(self) -> None:
        """Read what belongs to no request, until the life is over."""
        self._session.listen()
        self._closing.wait()
        if self._problem:
            self.end(self._problem)

    def hold(self, gates: list[Any], is_over: Callable[[], bool]) -> None:
        """Read no more of what is being read by this thread, until clients have read.

        `gates` are locks that are held until then.
        """
        for gate in gates:
            while not is_over() and not gate.acquire(True, LOOK_SECONDS):
                pass

    # What the server says

    def receive(self, line: bytes, transfer: Transfer) -> None:
        """Pass on a line of the server, and note what it answers."""
        transfer.began = True
        for number in self._receive(line, request=transfer.number):
            self._answers = True
            with self._lock:
                answered = self._transfers.get(number)
            if answered is not None:
                answered.answered = True
                answered.over.set()

    def _make(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request; runs in a thread of its own."""
        fault: RemoteFault | None = None
        try:
            self._session.make(transfer, message, headers)
        except RemoteFault as problem:
            fault = problem
        except Exception as problem:
            fault = RemoteFault(f"was given up over an internal fault: {where(problem)}")
        transfer.sent.set()
        with self._lock:
            self._transfers.pop(transfer.number, None)
        if fault is None or transfer.answered or transfer.broken_off:
            return
        if self._answers:
            self._failed(transfer.number, self._shown(fault.what))
        else:
            self.refused_with = fault.status
            self.end(fault.what)

    def _send_waiting(self) -> None:
        """Send what is to be sent in order."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._sending = False
                    return
                message, headers = self._waiting.pop(0)
            try:
                self._post(message, headers)
            except RemoteFault:
                pass  # the requests that depend on it will tell
            except Exception as problem:
                self.end(f"was given up over an internal fault: {where(problem)}")

    def _post(self, message: Message, headers: Mapping[str, str]) -> None:
        if message.method != CANCELLED:
            self._session.post(message, headers)
            return
        number = minted(message.params.get("requestId"))
        with self._lock:
            transfer = self._transfers.get(number)
        if transfer is not None and transfer.sent.wait(SENDING_SECONDS):
            try:
                self._session.post(message, headers)
            finally:
                transfer.break_off()

    def _break_off(self, number: int) -> None:
        with self._lock:
            transfer = self._transfers.get(number)
        if transfer is not None:
            transfer.break_off()

    def _shown(self, what: str) -> str:
        return printable(self.launch.redact(what))

    # Its end

    def is_over(self, seconds: float) -> bool:
        """Wait so long, or until the life is over; return whether it is."""
        return self._closing.wait(seconds) if seconds else self._closing.is_set()

    def retire(self) -> None:
        """Receive it no more, and say nothing of its end: it was ended on purpose."""
        self.retired = True
        self.silence()

    def silence(self) -> None:
        """Report nothing from here on."""
        self._claim.acquire(False)

    def end(self, reason: str) -> None:
        """Report why the life is over, if nobody has, and see that it is."""
        if self._claim.acquire(False):
            self.ended(self._shown(reason), "")
        self.close()

    def close(self) -> None:
        """Break off what is under way, and end the session; returns when that is done."""
        if not self._open.acquire(False):
            self.gone.wait()
            return
        self._closing.set()
        with self._lock:
            transfers = [*self._transfers.values()]
        for transfer in transfers:
            transfer.break_off()
        self._session.close()
        self.gone.set()

    def kill(self) -> None:
        """Do nothing: what is left of it are connections, which end with this process."""

    def last_words(self) -> str:
        """Return nothing: it has no standard error."""
        return ""
