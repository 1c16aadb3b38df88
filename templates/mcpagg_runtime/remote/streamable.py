"""Streamable HTTP: each message is a POST, and its answer one body or a stream of events.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (sessions, resumption),
and 2026-07-28, which has neither.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.protocol import LISTEN
from mcpagg_runtime.processes.threads import start_thread
from mcpagg_runtime.remote.faults import RemoteFault, broken, no_answer, with_its_words
from mcpagg_runtime.remote.http_client import ACCEPT, POST_SECONDS
from mcpagg_runtime.remote.responses import (
    EVENT_STREAM,
    EventReader,
    Transfer,
    reopening_pause,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.remote.handshake import Handshake
    from mcpagg_runtime.remote.http_client import HttpClient, SessionOwner
    from mcpagg_runtime.remote.responses import Response

SESSION_FIELD = "Mcp-Session-Id"
LAST_EVENT_FIELD = "Last-Event-ID"
VERSION_FIELD = "MCP-Protocol-Version"
# How long a server may take over the end of a session.
DELETE_SECONDS = 2.0
# How often in a row a stream is resumed without anything new on it.
MAXIMUM_RESUMPTIONS = 10
# With these statuses, the body may be an error of JSON-RPC that says more.
EXPLAINED = (400, 404, 405, 406, 409, 413, 415, 422)


class StreamableSession:
    """The messages of one connection, and the standalone stream, which belongs to no request.

    A session that the server has lost is opened again by a repetition of the handshake, once for
    all requests that notice. A request that was refused for want of a session is then made again.
    """

    def __init__(self, http: HttpClient, owner: SessionOwner, handshake: Handshake) -> None:
        self._http = http
        self._owner = owner
        self._handshake = handshake
        self._session = self._new_session = ""
        """The id of the session, "" without one, and of the one that is being opened."""
        self._generation = 0
        """How often a session was opened again."""
        self._opening = threading.Lock()
        """Held while a session is opened again."""
        self._opened = threading.Event()
        """Set each time that a session was opened again."""
        self._attempts = 0
        """How often that was tried."""
        self._fault: RemoteFault | None = None
        """Why the last attempt failed."""
        self._listening = Transfer()

    @property
    def waiting_for(self) -> str:
        """See SseSession: here, no request waits for anything."""
        return ""

    # Messages to the server

    def request(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request; returns when it is answered or cancelled.

        Raises:
            RemoteFault: it was not answered.
        """
        breaks = 0
        while True:
            try:
                self._request_once(transfer, message, headers)
                return
            except RemoteFault as fault:
                # A subscription is opened again when its stream breaks.
                may_reopen = (
                    message.method == LISTEN and transfer.has_received and not transfer.cancelled
                )
                if not may_reopen or 400 <= fault.status < 500:
                    raise
            if self._owner.is_closing(reopening_pause(EventReader(), breaks)):
                return
            transfer.reopened = True
            breaks += 1

    def _request_once(
        self, transfer: Transfer, message: Message, headers: Mapping[str, str]
    ) -> None:
        generation = self._generation
        if self._post(transfer, message, headers):
            return
        self._open_again(generation)
        self._post(transfer, message, headers, is_last=True)

    def _post(
        self,
        transfer: Transfer,
        message: Message,
        headers: Mapping[str, str],
        *,
        is_last: bool = False,
    ) -> bool:
        """Post a request and take the response; return False if its session is lost.

        Where `is_last`, such a refusal is a response like any other.
        """
        is_initialize = message is self._handshake.initialize
        session = "" if is_initialize else self._session
        headers = {**ACCEPT, **headers} if is_initialize else self._headers(session, headers)
        with self._http.request(transfer, "POST", headers, message) as response:
            body = response.error_body()
            if session and response.means_lost_session(body, transfer.number):
                if not is_last:
                    return False
                if b'"jsonrpc"' not in body:
                    what = f"knows no session at {self._http.where}, not even a new one"
                    raise RemoteFault(with_its_words(what, body), response.status)
            if is_initialize and response.status < 400:
                self._new_session = response.headers.get(SESSION_FIELD.lower(), "")
                if not self._handshake.done.is_set():
                    self._session = self._new_session
            self._on_response(transfer, response, body)
        return True

    def _headers(self, session: str, more: Mapping[str, str] = {}) -> dict[str, str]:
        """Return the headers of a message, by which the server knows the session."""
        version = self._handshake.version
        known = {SESSION_FIELD: session} if session else {}
        return {**ACCEPT, **more, **known, **({VERSION_FIELD: version} if version else {})}

    def _open_again(self, generation: int) -> None:
        """Open a session again, unless another thread has since that generation.

        All threads that wait share the outcome; until then, the old session stays.

        Raises:
            RemoteFault: no session can be opened.
        """
        attempts = self._attempts
        with self._opening:
            if self._generation != generation:
                return
            if self._fault is not None and self._attempts != attempts:
                raise self._fault
            self._attempts += 1
            try:
                self._handshake.repeat(
                    lambda transfer, initialize: self._post(transfer, initialize, {}),
                    lambda message: self._notify_with(message, self._headers(self._new_session)),
                )
            except RemoteFault as fault:
                self._fault = fault
                raise
            self._session, self._fault = self._new_session, None
            self._generation += 1
        self._opened.set()
        self._owner.on_session_renewed()

    def notify(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message that needs no answer.

        Raises:
            RemoteFault: the server does not take it.
        """
        self._notify_with(message, self._headers(self._session, headers))

    def _notify_with(self, message: Message, headers: Mapping[str, str]) -> None:
        seconds = POST_SECONDS
        with self._http.request(Transfer(), "POST", headers, message, seconds=seconds) as response:
            if response.status >= 400:
                raise response.fault(response.error_body())

    # Responses

    def _on_response(self, transfer: Transfer, response: Response, error_body: bytes) -> None:
        """Take the response to a request; `error_body` is its body if the status is an error."""
        is_error = response.status >= 400
        if not is_error and response.kind == EVENT_STREAM:
            self._follow(transfer, response)
            return
        body = error_body if is_error else response.body()
        if (not is_error or response.status in EXPLAINED) and b'"jsonrpc"' in body:
            self._owner.on_message(body, transfer)
        if not transfer.answered:
            if is_error:
                raise response.fault(body)
            raise RemoteFault(no_answer(response.kind, body, response.where), response.status)

    def _follow(self, transfer: Transfer, response: Response) -> None:
        """Read the stream that answers a request, and resume it if it breaks and can be resumed."""
        reader = EventReader()
        problem = _read_stream(self._owner, transfer, response, reader)
        failures = 0
        while not transfer.answered and not transfer.cancelled:
            if (
                self._handshake.initialize is None
                or not reader.last_id
                or failures == MAXIMUM_RESUMPTIONS
            ):
                raise problem or RemoteFault(broken(EOFError(), response.where))
            before = reader.last_id
            self._owner.is_closing(reopening_pause(reader, failures))
            try:
                with self._stream(transfer, reader) as more:
                    if not more.is_stream:
                        what = f"broke the stream off, and does not resume it ({more.status})"
                        raise RemoteFault(f"{what} at {more.where}", more.status)
                    problem = _read_stream(self._owner, transfer, more, reader)
            except RemoteFault as fault:
                if fault.status:
                    raise
                problem = fault
            failures = failures + 1 if reader.last_id == before else 0

    def _stream(self, transfer: Transfer, reader: EventReader) -> Response:
        """Ask for a stream, from behind the last event that has come by it."""
        headers = {**self._headers(self._session), "Accept": EVENT_STREAM}
        if reader.last_id:
            headers[LAST_EVENT_FIELD] = reader.last_id
        return self._http.request(transfer, "GET", headers)

    # The standalone stream

    def listen(self) -> None:
        """Read what the server sends outside of responses, until the connection closes."""
        self._handshake.done.wait()
        reader, failures = EventReader(), 0
        had_stream = False  # whether this session has had such a stream
        while not self._owner.is_closing(0):
            generation, before = self._generation, reader.last_id
            self._opened.clear()
            transfer = self._listening = Transfer()
            offered = True
            try:
                with self._stream(transfer, reader) as response:
                    offered = response.is_stream
                    is_lost = had_stream and response.means_lost_session(response.error_body())
                    had_stream = had_stream or offered
                    if offered:
                        _read_stream(self._owner, transfer, response, reader)
                if is_lost:
                    offered = True
                    self._open_again(generation)
            except RemoteFault:
                pass  # as if the stream had ended
            if self._generation != generation:
                reader, failures, had_stream = EventReader(), 0, False
            elif not offered:
                self._opened.wait()
            else:
                failures = failures + 1 if reader.last_id == before else 0
                self._opened.wait(reopening_pause(reader, failures))

    # End

    def stop(self) -> None:
        """Wake whoever waits for the stream; never waits itself."""
        self._opened.set()
        self._listening.cancel()

    def close(self) -> None:
        """End the session, waiting for the server no longer than DELETE_SECONDS."""
        self.stop()
        if self._session:
            done = threading.Event()
            # Name resolution, or connecting, may take longer than there is time.
            if start_thread(self._delete_session, done) is not None:
                done.wait(DELETE_SECONDS)
        self._http.close()

    def _delete_session(self, done: threading.Event) -> None:
        headers = self._headers(self._session)
        with suppress(RemoteFault):
            self._http.request(Transfer(), "DELETE", headers, seconds=DELETE_SECONDS).close()
        done.set()


def _read_stream(
    owner: SessionOwner, transfer: Transfer, response: Response, reader: EventReader
) -> RemoteFault | None:
    """Read a stream until the answer has come, or to its end; return what broke it."""
    try:
        for events in response.events(reader):
            for event in events:
                if event.kind == "message":
                    owner.on_message(event.data, transfer)
            if transfer.answered:
                break
    except RemoteFault as fault:
        if fault.status:  # the server refuses it, however often it is read
            raise
        return fault
    return None
