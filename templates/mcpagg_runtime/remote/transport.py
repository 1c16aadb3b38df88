"""One life of a remote child: to the engine what a process is of a child on this machine."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import Message, minted, notification
from mcpagg_runtime.messages.param_headers import modern_headers
from mcpagg_runtime.messages.printable import printable, where
from mcpagg_runtime.messages.protocol import CANCELLED, INITIALIZED
from mcpagg_runtime.messages.reading import read_line
from mcpagg_runtime.processes.threads import NO_THREAD, start_thread
from mcpagg_runtime.remote.faults import RemoteFault
from mcpagg_runtime.remote.login import Credentials
from mcpagg_runtime.remote.sse import SseSession
from mcpagg_runtime.remote.streamable import StreamableSession
from mcpagg_runtime.remote.transfers import HttpClient, Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.launch.launch import Launch

# How long a cancellation waits for what it cancels to be sent.
SENDING_SECONDS = 10.0


class Handshake:
    """The handshake of one life, which is repeated where a session is lost.

    `hello` is the `initialize` of this life, None for a modern one, which has no handshake;
    `version` is what the server has answered it with, "" before. `done` is set once the server
    knows that the handshake is over: no request goes before.
    """

    def __init__(self) -> None:
        self.hello: Message | None = None
        self.version = ""
        self.done = threading.Event()
        self._again: Transfer | None = None
        """The repetition that is under way."""
        self._refusal = ""
        """The error that the last one was answered with, as JSON text, "" for none."""

    def takes(self, line: bytes, transfer: Transfer) -> bool:
        """Note the answer to a handshake, if that is in a line; return whether it is a repetition.

        Whoever speaks with the server does not know that there was one.
        """
        if self.hello is None or (self._again is None and self.done.is_set()):
            return False
        number, again = self.hello.number, self._again
        for message in read_line(line, request=transfer.number)[0]:
            if not isinstance(message, Message) or message.method or message.number != number:
                continue
            result = message.value("result")
            version = result.get("protocolVersion") if type(result) is dict else None
            self.version = version if type(version) is str else self.version
            if again is not None:
                self._refusal = message.raw("error") if message.is_error else ""
                again.answered = True
                again.over.set()
                return True
        return False

    def repeat(
        self, ask: Callable[[Transfer, Message], object], tell: Callable[[Message], object]
    ) -> None:
        """Open a session again: `ask` returns when the request is answered, `tell` at once.

        Raises:
            RemoteFault: the server does not answer, or refuses it.
        """
        if self.hello is None:
            return
        self._again = again = Transfer(self.hello.number)
        try:
            ask(again, self.hello)
        finally:
            self._again = None
        if not again.answered or self._refusal:
            why = self._refusal or "it does not answer"
            raise RemoteFault(f"has lost its session, and refuses another: {why}")
        tell(notification(INITIALIZED))


class InOrder:
    """Does one thing after another, in a thread that ends when there is nothing to do."""

    def __init__(self, do: Callable[..., None]) -> None:
        self._do = do
        self._lock = threading.Lock()
        self._waiting: list[tuple[Any, ...]] = []
        self._is_running = False

    def add(self, arguments: tuple[Any, ...]) -> bool:
        """Have something done; return whether a thread is needed for that."""
        with self._lock:
            self._waiting.append(arguments)
            was_running, self._is_running = self._is_running, True
        return not was_running

    def do_all(self) -> None:
        """Do what there is to do; runs in a thread of its own."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                arguments = self._waiting.pop(0)
            self._do(*arguments)


class RemoteConnection:
    """A remote child that is spoken to; nothing is sent before the first message.

    Each request has a thread, and a connection, of its own until it is answered; what needs no
    answer is sent in order by one more. A failure ends the life only if the server has never
    answered: later ones fail the request that they are about, since the next may go well.

    `ended` is called once, with why the life is over; `failed` with the id of a request and why it
    gets no answer. Both texts complete "Server 'x' …". `renewed` is called when the server has
    forgotten what it was sent and has shaken hands again.
    """

    def __init__(
        self,
        launch: Launch,
        receive: Callable[[bytes, int], list[int]],
        ended: Callable[[str, str], None],
        failed: Callable[[int, str], None],
        renewed: Callable[[], None] = lambda: None,
        tool: Callable[[str], str] = lambda name: "",
        agent: str = "mcpagg",
        config: str = "CONFIG",
    ) -> None:
        """`receive` takes the lines of the server, `tool` gives the JSON text of a tool, or "".

        `config` is the path of the config, by which a person logs in there.

        Raises:
            ValueError: its URL, or one of its headers, is of no use.
        """
        self.launch = launch
        self.ended = ended
        self.renewed = renewed
        self.gone = self.silent = threading.Event()
        self.retired = False
        """Whether it was ended on purpose."""
        self.refused_with = 0
        """The status of HTTP that ended it."""
        self._handshake = Handshake()
        self._receive = receive
        self._failed = failed
        self._tool = tool
        self._answers = False
        """Whether the server has answered a request."""
        self._closing = threading.Event()
        self._problem = ""
        """Why it is to end, where that could not be said at once."""
        self._lock = threading.Lock()
        """Guards the three that follow."""
        self._is_reported = False
        """Whether its end was reported, or is not to be."""
        self._is_closed = False
        self._transfers: dict[int, Transfer] = {}
        self._in_order = InOrder(self._post)
        """What needs no answer."""
        http = HttpClient(launch.url, launch.headers, agent, Credentials(launch, config))
        self._where = http.where
        kind = SseSession if launch.transport == "sse" else StreamableSession
        self._session: SseSession | StreamableSession = kind(http, self, self._handshake)

    @property
    def silence_told(self) -> str:
        """Where it is that answers nothing, and what has not come yet."""
        awaited = self._session.awaited
        return f" at {self._where}: {awaited}" if awaited else f" at {self._where}"

    # What the engine says

    def send(self, *messages: Message) -> None:
        """Send messages; never waits."""
        for message in messages:
            self._send(message)

    def _send(self, message: Message) -> None:
        if message.method == "initialize":
            self._handshake.hello = message
        headers = {} if self._handshake.hello else modern_headers(message, self._tool)
        if message.method is not None and message.id is not None:
            transfer = Transfer(message.number)
            with self._lock:
                self._transfers[transfer.number] = transfer
            self._run_in_thread(self._make, transfer, message, headers)
        elif self._in_order.add((message, headers)):
            self._run_in_thread(self._in_order.do_all)

    def _run_in_thread(self, work: Callable[..., None], *arguments: object) -> None:
        """Do something in a thread of its own; without one, the life is over.

        Whoever sends may hold a lock that whoever is told of the end takes: the thread that reads
        tells it.
        """
        if start_thread(work, *arguments) is None:
            self._problem = f"was not asked: {NO_THREAD}"
            self._closing.set()
            self._handshake.done.set()
            self._session.stop()

    def read(self) -> None:
        """Read what belongs to no request, until the life is over."""
        self._session.listen()
        self._closing.wait()
        if self._problem:
            self.end(self._problem)

    def _make(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request; runs in a thread of its own."""
        fault: RemoteFault | None = None
        try:
            if self._handshake.hello not in (None, message):
                self._handshake.done.wait()
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

    def _post(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send what needs no answer."""
        try:
            if message.method == CANCELLED:
                self._cancel(message)
            else:
                self._session.post(message, headers)
        except RemoteFault:
            pass  # the requests that depend on it will tell
        except Exception as problem:
            self.end(f"was given up over an internal fault: {where(problem)}")
        if message.method == INITIALIZED:
            self._handshake.done.set()

    def _cancel(self, message: Message) -> None:
        """Take a request back; in a modern life, closing the stream of its answer is enough."""
        with self._lock:
            transfer = self._transfers.get(minted(message.params.get("requestId")))
        if transfer is None:
            return
        try:
            if self._handshake.hello is not None and transfer.sent.wait(SENDING_SECONDS):
                self._session.post(message, {})
        finally:
            transfer.break_off()

    # What the server says

    def receive(self, text: bytes, transfer: Transfer) -> None:
        """Pass on JSON of the server, and note what it answers.

        The line ends in it, which stand between values, become blanks.
        """
        line = text.replace(b"\n", b" ").replace(b"\r", b" ")
        transfer.began = True
        if transfer.reopened:
            transfer.reopened = False
            self.renewed()
        if self._handshake.takes(line, transfer):
            return
        for number in self._receive(line, transfer.number):
            self._answers = True
            with self._lock:
                answered = self._transfers.get(number)
            if answered is not None:
                answered.answered = True
                answered.over.set()

    def _shown(self, what: str) -> str:
        return printable(self.launch.redact(what))

    # Its end

    def is_over(self, seconds: float) -> bool:
        """Wait so long, or until the life is over; return whether it is."""
        return self._closing.wait(seconds) if seconds else self._closing.is_set()

    def retire(self) -> None:
        """Take no more of it, and say nothing of its end: it was ended on purpose."""
        self.retired = True
        self.silence()

    def silence(self) -> None:
        """Report nothing from here on."""
        self._is_reported = True

    def end(self, reason: str) -> None:
        """Report why the life is over, if nobody has, and see that it is."""
        with self._lock:
            was_reported, self._is_reported = self._is_reported, True
        if not was_reported:
            self.ended(self._shown(reason), "")
        self.close()

    def close(self) -> None:
        """Break off what is under way, and end the session; returns when that is done."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            self.gone.wait()
            return
        self._closing.set()
        with self._lock:
            transfers = [*self._transfers.values()]
        for transfer in transfers:
            transfer.break_off()
        self._handshake.done.set()
        self._session.close()
        self.gone.set()

    def kill(self) -> None:
        """Do nothing: what is left of it are connections, which end with this process."""

    def last_words(self, _most: int = 0) -> str:
        """Return nothing: it has no standard error."""
        return ""
