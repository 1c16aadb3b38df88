"""HTTP+SSE, the transport of 2024-11-05: one stream brings all messages, a POST takes each.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mcpagg_runtime.processes.threads import NO_THREAD, start_thread
from mcpagg_runtime.remote.faults import RemoteFault, no_answer
from mcpagg_runtime.remote.http_client import ACCEPT, POST_SECONDS
from mcpagg_runtime.remote.responses import (
    EVENT_STREAM,
    REFUSAL_BYTES,
    EventReader,
    Transfer,
    reopening_pause,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.remote.connections import Address
    from mcpagg_runtime.remote.handshake import Handshake
    from mcpagg_runtime.remote.http_client import HttpClient, SessionOwner
    from mcpagg_runtime.remote.responses import Event


class SseSession:
    """The stream of one connection, and the endpoint that its messages go to.

    A session lasts as long as its stream. The stream is closed here if the server does not know
    the session any more. Requests in flight fail when it ends; then it is opened again, with a
    repetition of the handshake: at once if a message waits for it, else after a pause.
    """

    def __init__(self, http: HttpClient, owner: SessionOwner, handshake: Handshake) -> None:
        self._http = http
        self._owner = owner
        self._handshake = handshake
        self._changed = threading.Condition()
        """Guards what follows."""
        self._stream = Transfer()
        """The stream that is read, or the last one that was."""
        self._endpoint: Address | None = None
        """Where messages are posted to, None while there is no session."""
        self._ends = 0
        """How many streams have ended, or could not be opened."""
        self._fault = RemoteFault("was not reached")
        """Why the last stream ended."""
        self._wanted = False
        """Whether a message waits for a session."""
        self._waiting: set[Transfer] = set()
        """The requests whose answers are to come by the stream."""

    @property
    def waiting_for(self) -> str:
        """What every request waits for, to be shown; "" for nothing."""
        return "" if self._endpoint else "no `endpoint` event came by the stream"

    # Messages to the server

    def request(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request; returns when it is answered or cancelled.

        Raises:
            RemoteFault: it was not answered.
        """
        if not self._post_in_session(transfer, message) and not self._post_in_session(
            transfer, message
        ):
            raise RemoteFault(f"knows no session at {self._http.where}, not even a new one")
        transfer.done.wait()
        with self._changed:
            self._waiting.discard(transfer)
        if not transfer.answered and not transfer.cancelled:
            raise self._fault

    def notify(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message that needs no answer.

        Raises:
            RemoteFault: the server does not take it.
        """
        self._post_in_session(Transfer(), message)

    def _post_in_session(self, transfer: Transfer, message: Message) -> bool:
        """Send a message; return False if the server does not know the session, whose stream ends.

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
        accepted = False
        try:
            accepted = self._post_to(endpoint, transfer, message)
        finally:
            if not accepted:
                with self._changed:
                    self._waiting.discard(transfer)
        if not accepted:
            self._on_stream_end(stream, RemoteFault(f"has lost its session at {self._http.where}"))
            stream.cancel()
        return accepted

    def _post_to(self, endpoint: Address, transfer: Transfer, message: Message) -> bool:
        """Post a message; return False if the server does not know the session.

        Raises:
            RemoteFault: the message was refused, or there is no response.
        """
        with self._http.request(
            transfer, "POST", ACCEPT, message, target=endpoint, seconds=POST_SECONDS
        ) as response:
            body = response.error_body()
            if self._handshake.version and response.means_lost_session(body, transfer.number):
                return False
            if response.status >= 400:
                raise response.fault(body)
        return True

    # The stream

    def listen(self) -> None:
        """Read the stream, and open it again whenever it ends, until the connection closes."""
        failures = 0
        while not self._owner.is_closing(0):
            reader, stream = EventReader(), Transfer()
            with self._changed:
                self._stream = stream
                self._wanted = False
            try:
                self._read_stream(reader, stream)
            except RemoteFault as fault:
                self._on_stream_end(stream, fault)
            failures = 0 if stream.has_received else failures + 1
            with self._changed:
                pause = reopening_pause(reader, failures)
                self._changed.wait_for(lambda: self._wanted or self._owner.is_closing(0), pause)

    def _read_stream(self, reader: EventReader, stream: Transfer) -> None:
        """Read one stream to its end.

        Raises:
            RemoteFault: always; it says why the stream ended.
        """
        with self._http.request(stream, "GET", {"Accept": EVENT_STREAM}) as response:
            if response.status >= 400:
                raise response.fault(response.error_body())
            if not response.is_stream:
                what = no_answer(response.kind, response.body(REFUSAL_BYTES), response.where)
                raise RemoteFault(what, response.status)
            for events in response.events(reader):
                for event in events:
                    self._on_event(event, stream)
        raise RemoteFault(f"closed its stream at {self._http.where}")

    def _on_event(self, event: Event, stream: Transfer) -> None:
        if event.kind == "message":
            self._owner.on_message(event.data, stream)
        elif event.kind == "endpoint":
            endpoint = self._endpoint_address(event.data.decode("utf-8", "replace").strip())
            if self._handshake.version:
                # The answer comes by the stream that this thread reads.
                if start_thread(self._repeat_handshake, endpoint, stream) is None:
                    raise RemoteFault(f"lost its session: {NO_THREAD}")
            else:
                self._session_opened(endpoint, stream)

    def _endpoint_address(self, reference: str) -> Address:
        """Return the endpoint that the server names, which must be of its own origin."""
        try:
            endpoint = self._http.address.joined(reference)
        except ValueError:
            raise RemoteFault("names an endpoint that is no URL") from None
        if endpoint.origin != self._http.address.origin:
            what = f"names an endpoint at another origin, {endpoint.shown_origin}"
            raise RemoteFault(f"{what}: nothing was sent there")
        return endpoint

    def _session_opened(self, endpoint: Address, stream: Transfer) -> None:
        with self._changed:
            if stream is self._stream and not stream.done.is_set():
                stream.has_received = True
                self._endpoint = endpoint
                self._changed.notify_all()

    def _repeat_handshake(self, endpoint: Address, stream: Transfer) -> None:
        """Repeat the handshake; without an answer the stream is closed."""

        def send(transfer: Transfer, initialize: Message) -> None:
            with self._changed:
                self._waiting.add(transfer)
            self._post_to(endpoint, transfer, initialize)
            transfer.done.wait(POST_SECONDS)

        try:
            self._handshake.repeat(
                send, lambda initialized: self._post_to(endpoint, Transfer(), initialized)
            )
        except RemoteFault as fault:
            self._on_stream_end(stream, fault)
            stream.cancel()
        else:
            self._session_opened(endpoint, stream)
            self._owner.on_session_renewed()

    def _on_stream_end(self, stream: Transfer, fault: RemoteFault) -> None:
        """Fail what waits for a stream that has ended, or is to end."""
        with self._changed:
            if stream is not self._stream or stream.done.is_set():
                return
            stream.done.set()
            self._endpoint = None
            self._fault = fault
            self._ends += 1
            lost, self._waiting = self._waiting, set()
            self._changed.notify_all()
        for transfer in lost:
            transfer.done.set()

    # End

    def stop(self) -> None:
        """Wake whoever waits for the stream; never waits itself."""
        self._stream.cancel()
        with self._changed:
            self._ends += 1
            self._changed.notify_all()

    def close(self) -> None:
        self.stop()
        self._http.close()
