"""HTTP+SSE, the transport of 2024-11-05: one stream brings all messages, a POST takes each.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mcpagg_runtime.processes.threads import NO_THREAD, start_thread
from mcpagg_runtime.remote.events import EventReader, reopening_pause
from mcpagg_runtime.remote.faults import RemoteFault, no_answer
from mcpagg_runtime.remote.transfers import (
    ACCEPT,
    EVENT_STREAM,
    REFUSAL_BYTES,
    TAKING_SECONDS,
    Transfer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.remote.connections import Address
    from mcpagg_runtime.remote.events import Event
    from mcpagg_runtime.remote.transfers import Greeting, HttpClient, Life


class SseSession:
    """The stream of one life, and where its messages go.

    A session lasts as long as its stream, or until the server knows it no more: then the stream is
    ended here. What is in flight when it ends fails; then it is opened again, with a repetition of
    the handshake: at once if somebody wants it, else after a pause.
    """

    def __init__(self, http: HttpClient, life: Life, handshake: Greeting) -> None:
        self._http = http
        self._life = life
        self._handshake = handshake
        self._changed = threading.Condition()
        """Guards what follows."""
        self._stream = Transfer()
        """The one that is read, or the last one that was."""
        self._endpoint: Address | None = None
        """Where messages go, None while there is no session."""
        self._ends = 0
        """How many streams have ended, or never began."""
        self._fault = RemoteFault("was not reached")
        """Why the last one did."""
        self._wanted = False
        """Whether somebody waits for a session."""
        self._waiting: set[Transfer] = set()
        """Requests that the stream owes an answer."""

    @property
    def awaited(self) -> str:
        """What has not come yet that everything else waits for, "" for nothing."""
        return "" if self._endpoint else "no `endpoint` event came by the stream"

    # Messages to the server

    def make(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request; returns when it has been answered, or broken off.

        Raises:
            RemoteFault: it was not answered.
        """
        if not self._is_taken(transfer, message) and not self._is_taken(transfer, message):
            raise RemoteFault(f"knows no session at {self._http.where}, not even a new one")
        transfer.over.wait()
        with self._changed:
            self._waiting.discard(transfer)
        if not transfer.answered and not transfer.broken_off:
            raise self._fault

    def post(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message that needs no answer.

        Raises:
            RemoteFault: the server does not take it.
        """
        self._is_taken(Transfer(), message)

    def _is_taken(self, transfer: Transfer, message: Message) -> bool:
        """Send a message in a session; return False if that is over, which ends its stream.

        Raises:
            RemoteFault: there is no session, or the server does not take the message.
        """
        with self._changed:
            ends = self._ends
            self._wanted = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._endpoint or self._ends != ends)
            stream, endpoint = self._stream, self._endpoint
            if endpoint is None:
                raise self._fault
            if transfer.number:
                self._waiting.add(transfer)
        taken = False
        try:
            taken = self._post_to(endpoint, transfer, message)
        finally:
            if not taken:
                with self._changed:
                    self._waiting.discard(transfer)
        if not taken:
            self._ended(stream, RemoteFault(f"has lost its session at {self._http.where}"))
            stream.break_off()
        return taken

    def _post_to(self, endpoint: Address, transfer: Transfer, message: Message) -> bool:
        """Post a message; return False if it was refused for its session.

        Raises:
            RemoteFault: it was refused, or there is no answer.
        """
        with self._http.perform(
            transfer, "POST", ACCEPT, message, target=endpoint, seconds=TAKING_SECONDS
        ) as reply:
            problem = reply.problem()
            if self._handshake.version and reply.is_of_lost_session(problem, transfer.number):
                return False
            if reply.status >= 400:
                raise reply.refusal(problem)
        return True

    # The stream

    def listen(self) -> None:
        """Read the stream, and open it again whenever it ends, for as long as the life lasts."""
        vain = 0
        while not self._life.is_over(0):
            reader, stream = EventReader(), Transfer()
            with self._changed:
                self._stream = stream
                self._wanted = False
            try:
                self._read_stream(reader, stream)
            except RemoteFault as fault:
                self._ended(stream, fault)
            vain = 0 if stream.began else vain + 1
            with self._changed:
                pause = reopening_pause(reader, vain)
                self._changed.wait_for(lambda: self._wanted or self._life.is_over(0), pause)

    def _read_stream(self, reader: EventReader, stream: Transfer) -> None:
        """Read one stream to its end, and say why that was.

        Raises:
            RemoteFault: always.
        """
        with self._http.perform(stream, "GET", {"Accept": EVENT_STREAM}) as reply:
            if reply.status >= 400:
                raise reply.refusal(reply.problem())
            if not reply.is_stream:
                what = no_answer(reply.kind, reply.body(REFUSAL_BYTES), reply.where)
                raise RemoteFault(what, reply.status)
            for events in reply.events(reader):
                for event in events:
                    self._take(event, stream)
        raise RemoteFault(f"closed its stream at {self._http.where}")

    def _take(self, event: Event, stream: Transfer) -> None:
        if event.kind == "message":
            self._life.receive(event.data, stream)
        elif event.kind == "endpoint":
            endpoint = self._own_place(event.data.decode("utf-8", "replace").strip())
            if self._handshake.version:
                # The answer comes by the stream that this thread reads.
                if start_thread(self._greet_again, endpoint, stream) is None:
                    raise RemoteFault(f"lost its session: {NO_THREAD}")
            else:
                self._began(endpoint, stream)

    def _own_place(self, where: str) -> Address:
        """Return where messages go, as the server says; it must be its own place."""
        try:
            endpoint = self._http.address.joined(where)
        except ValueError:
            raise RemoteFault("names an endpoint that is no URL") from None
        if endpoint.origin != self._http.address.origin:
            what = f"names an endpoint at another origin, {endpoint.shown_origin}"
            raise RemoteFault(f"{what}: nothing was sent there")
        return endpoint

    def _began(self, endpoint: Address, stream: Transfer) -> None:
        with self._changed:
            if stream is self._stream and not stream.over.is_set():
                stream.began = True
                self._endpoint = endpoint
                self._changed.notify_all()

    def _greet_again(self, endpoint: Address, stream: Transfer) -> None:
        """Repeat the handshake; without an answer the stream is of no use."""

        def ask(transfer: Transfer, hello: Message) -> None:
            with self._changed:
                self._waiting.add(transfer)
            self._post_to(endpoint, transfer, hello)
            transfer.over.wait(TAKING_SECONDS)

        try:
            self._handshake.repeat(ask, lambda done: self._post_to(endpoint, Transfer(), done))
        except RemoteFault as fault:
            self._ended(stream, fault)
            stream.break_off()
        else:
            self._began(endpoint, stream)
            self._life.renewed()

    def _ended(self, stream: Transfer, fault: RemoteFault) -> None:
        """A stream has ended, or is to: so has what waits for it."""
        with self._changed:
            if stream is not self._stream or stream.over.is_set():
                return
            stream.over.set()
            self._endpoint = None
            self._fault = fault
            self._ends += 1
            lost, self._waiting = self._waiting, set()
            self._changed.notify_all()
        for transfer in lost:
            transfer.over.set()

    # Its end

    def stop(self) -> None:
        """Have nobody wait any more; never waits itself."""
        self._stream.break_off()
        with self._changed:
            self._ends += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End the session."""
        self.stop()
        self._http.close()
