"""HTTP+SSE, the transport of 2024-11-05: one stream brings all messages, a POST takes each.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports
"""

from __future__ import annotations

import _thread
from threading import Condition
from threading import Event as Flag
from typing import TYPE_CHECKING

from mcpagg_runtime.base.message import minted, notification
from mcpagg_runtime.base.protocol import INITIALIZED
from mcpagg_runtime.remote.events import EventReader, TooLarge, reopening_pause
from mcpagg_runtime.remote.faults import RemoteFault, no_answer, shortened
from mcpagg_runtime.remote.fields import ACCEPT, EVENT_STREAM
from mcpagg_runtime.remote.transfers import REFUSAL_BYTES, TAKING_SECONDS, Transfer
from mcpagg_runtime.serve.messages import answered, read_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.remote.addresses import Address
    from mcpagg_runtime.remote.events import Event
    from mcpagg_runtime.remote.transfers import HttpClient, Life


class SseSession:
    """The stream of one life, and where its messages go.

    A session lasts as long as its stream. What is in flight when it breaks fails; then it is opened
    again, with a repetition of the handshake: at once if somebody wants it, else after a pause.
    """

    def __init__(self, http: HttpClient, life: Life) -> None:
        self._http = http
        self._life = life
        self._hello: Message | None = None
        self._greeted = Flag()
        """Set once the server knows that the handshake is done: no request goes before."""
        self._stream = Transfer()
        self._changed = Condition()
        """Guards what follows."""
        self._endpoint: Address | None = None
        """Where messages go, None while there is no session."""
        self._breaks = 0
        """How many streams have ended, or never began."""
        self._fault = RemoteFault("was not reached")
        """Why the last one did."""
        self._wanted = False
        """Whether somebody waits for a session."""
        self._waiting: list[Transfer] = []
        """Requests that the stream owes an answer."""
        self._greeting: Transfer | None = None
        """The repetition of the handshake that is under way."""

    # Messages to the server

    def make(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request; returns when it has been answered, or broken off.

        Raises:
            RemoteFault: it was not answered.
        """
        if message.method == "initialize":
            self._hello = message
        elif self._hello is not None:
            self._greeted.wait()
        endpoint = self._join(transfer)
        try:
            self._post_to(endpoint, transfer, message)
            transfer.over.wait()
        finally:
            with self._changed:
                if transfer in self._waiting:
                    self._waiting.remove(transfer)
        if not transfer.answered and not transfer.broken_off:
            raise self._fault

    def post(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message that needs no answer.

        Raises:
            RemoteFault: the server does not take it.
        """
        try:
            self._post_to(self._join(None), Transfer(), message)
        finally:
            if message.method == INITIALIZED:
                self._greeted.set()

    def _join(self, transfer: Transfer | None) -> Address:
        """Return where to send a request, once there is a session; it is owed an answer then.

        Raises:
            RemoteFault: there will be none.
        """
        with self._changed:
            breaks = self._breaks
            self._wanted = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._endpoint or self._breaks != breaks)
            if self._endpoint is None:
                raise self._fault
            if transfer is not None:
                self._waiting.append(transfer)
            return self._endpoint

    def _post_to(self, endpoint: Address, transfer: Transfer, message: Message) -> None:
        line = message.line()[:-1]
        reply = self._http.perform(
            transfer, "POST", ACCEPT, line, target=endpoint, seconds=TAKING_SECONDS
        )
        reply.finish()
        if reply.status >= 400:
            raise reply.refusal()

    # The stream

    def listen(self) -> None:
        """Read the stream, and open it again whenever it ends, for as long as the life lasts."""
        vain = 0
        while not self._life.is_over(0):
            reader = EventReader()
            opened = False
            try:
                self._read_stream(reader)
            except RemoteFault as fault:
                opened = self._broke(fault)
            vain = 0 if opened else vain + 1
            with self._changed:
                pause = reopening_pause(reader, vain)
                self._changed.wait_for(lambda: self._wanted or self._life.is_over(0), pause)

    def _read_stream(self, reader: EventReader) -> None:
        """Read one stream to its end, and say why that was.

        Raises:
            RemoteFault: always.
        """
        transfer = self._stream = Transfer()
        self._wanted = False
        reply = self._http.perform(transfer, "GET", {"Accept": EVENT_STREAM})
        try:
            if reply.status >= 400:
                raise reply.refusal()
            if reply.kind != EVENT_STREAM:
                what = no_answer(reply.kind, reply.body(REFUSAL_BYTES), reply.where)
                raise RemoteFault(what, reply.status)
            for data in reply.chunks():
                for event in reader.feed(data):
                    self._take(event)
        except TooLarge:
            raise RemoteFault(f"sent an event that is too large at {reply.where}") from None
        finally:
            reply.finish()
        raise RemoteFault(f"closed its stream at {reply.where}")

    def _take(self, event: Event) -> None:
        if event.kind == "endpoint":
            self._found(event.data.decode("utf-8", "replace").strip())
        elif event.kind == "message":
            line = event.data.replace(b"\n", b" ").replace(b"\r", b" ")
            greeting = self._greeting
            if greeting is None or greeting.number not in answered(read_line(line)[0]):
                self._life.receive(line, self._stream)
            else:
                greeting.answered = True
                greeting.over.set()

    def _found(self, where: str) -> None:
        """The server says where messages go; it must be its own place."""
        try:
            endpoint = self._http.address.joined(where)
        except ValueError:
            raise RemoteFault("names an endpoint that is no URL") from None
        if endpoint.origin != self._http.address.origin:
            origin = endpoint.shown.partition("://")[2].partition("/")[0]
            what = f"names an endpoint at another origin, {endpoint.scheme}://{shortened(origin)}"
            raise RemoteFault(f"{what}: nothing was sent there")
        if self._breaks == 0:
            self._opened(endpoint)
        else:
            # The answer comes by the stream that this thread reads.
            _thread.start_new_thread(self._greet_again, (endpoint,))

    def _opened(self, endpoint: Address) -> None:
        with self._changed:
            self._endpoint = endpoint
            self._changed.notify_all()

    def _greet_again(self, endpoint: Address) -> None:
        """Repeat the handshake; without an answer the stream is of no use."""
        stream, hello = self._stream, self._hello
        if hello is None:
            return
        self._greeting = greeting = Transfer(minted(hello.id))
        try:
            self._post_to(endpoint, greeting, hello)
            if greeting.over.wait(TAKING_SECONDS) and greeting.answered:
                self._post_to(endpoint, Transfer(), notification(INITIALIZED))
                self._opened(endpoint)
                self._life.renewed()
                return
        except RemoteFault:
            pass  # the end of the stream tells
        finally:
            self._greeting = None
        stream.break_off()

    def _broke(self, fault: RemoteFault) -> bool:
        """The stream has ended: so has what waits for it. Return whether there was a session."""
        with self._changed:
            opened = self._endpoint is not None
            self._endpoint = None
            self._fault = fault
            self._breaks += 1
            lost, self._waiting = self._waiting, []
            self._changed.notify_all()
        for transfer in lost:
            transfer.over.set()
        if self._greeting is not None:
            self._greeting.over.set()
        return opened

    def stop(self) -> None:
        """Have nobody wait any more; never waits itself."""
        self._greeted.set()
        self._stream.break_off()
        with self._changed:
            self._breaks += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End the session."""
        self.stop()
        self._http.close()
