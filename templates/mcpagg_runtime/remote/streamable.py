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
from mcpagg_runtime.remote.events import EventReader, reopening_pause
from mcpagg_runtime.remote.faults import RemoteFault, broken, no_answer, with_its_words
from mcpagg_runtime.remote.transfers import (
    ACCEPT,
    EVENT_STREAM,
    TAKING_SECONDS,
    Transfer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.remote.transfers import Greeting, HttpClient, Life, RemoteReply

SESSION_FIELD = "Mcp-Session-Id"
LAST_EVENT_FIELD = "Last-Event-ID"
VERSION_FIELD = "MCP-Protocol-Version"
# How long a server may take over the end of a session.
GOODBYE_SECONDS = 2.0
# So many times in a row may a stream be resumed without anything new on it.
MAXIMUM_RESUMPTIONS = 10
# What these mean may be said in the body, as an error of JSON-RPC; the others speak for themselves.
EXPLAINED = (400, 404, 405, 406, 409, 413, 415, 422)


class StreamableSession:
    """The messages of one life, and the stream that belongs to none of them.

    A session that the server has lost is opened again, once for all calls that notice. That is a
    repetition of the handshake; a call that was refused for want of a session is then made again.
    """

    def __init__(self, http: HttpClient, life: Life, handshake: Greeting) -> None:
        self._http = http
        self._life = life
        self._handshake = handshake
        self._session = self._coming = ""
        """The id of the session, "" without one, and of the one that is being opened."""
        self._generation = 0
        """How often a session was opened again."""
        self._opening = threading.Lock()
        """Held while one is."""
        self._opened = threading.Event()
        """Set each time that one was."""
        self._attempts = 0
        """How often that was tried."""
        self._fault: RemoteFault | None = None
        """Why the last try failed."""
        self._listening = Transfer()

    @property
    def awaited(self) -> str:
        """See SseSession: here nothing has to come first."""
        return ""

    # Messages to the server

    def make(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request; returns when it has been answered, or broken off.

        Raises:
            RemoteFault: it was not answered.
        """
        breaks = 0
        while True:
            try:
                self._ask(transfer, message, headers)
                return
            except RemoteFault as fault:
                # A stream of news is no call: after a break it is opened again.
                broke = message.method == LISTEN and transfer.began and not transfer.broken_off
                if not broke or 400 <= fault.status < 500:
                    raise
            if self._life.is_over(reopening_pause(EventReader(), breaks)):
                return
            transfer.reopened = True
            breaks += 1

    def _ask(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        generation = self._generation
        if self._is_taken(transfer, message, headers):
            return
        self._open_again(generation)
        self._is_taken(transfer, message, headers, is_last=True)

    def _is_taken(
        self,
        transfer: Transfer,
        message: Message,
        headers: Mapping[str, str],
        *,
        is_last: bool = False,
    ) -> bool:
        """Send a request and take the answer; return False if it was refused for its session.

        Where `is_last`, such a refusal is an answer like any other.
        """
        is_hello = message is self._handshake.hello
        session = "" if is_hello else self._session
        headers = {**ACCEPT, **headers} if is_hello else self._headers(session, headers)
        with self._http.perform(transfer, "POST", headers, message) as reply:
            problem = reply.problem()
            if session and reply.is_of_lost_session(problem, transfer.number):
                if not is_last:
                    return False
                if b'"jsonrpc"' not in problem:
                    what = f"knows no session at {self._http.where}, not even a new one"
                    raise RemoteFault(with_its_words(what, problem), reply.status)
            if is_hello and reply.status < 400:
                self._coming = reply.headers.get(SESSION_FIELD.lower(), "")
                if not self._handshake.done.is_set():
                    self._session = self._coming
            self._take(transfer, reply, problem)
        return True

    def _headers(self, session: str, more: Mapping[str, str] = {}) -> dict[str, str]:
        """Return the headers of a message, by which the server knows this life."""
        version = self._handshake.version
        known = {SESSION_FIELD: session} if session else {}
        return {**ACCEPT, **more, **known, **({VERSION_FIELD: version} if version else {})}

    def _open_again(self, generation: int) -> None:
        """Open a session again, unless somebody has since that generation.

        All who wait share the outcome; until it is known, the old session stays.

        Raises:
            RemoteFault: it cannot be opened.
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
                    lambda transfer, hello: self._is_taken(transfer, hello, {}),
                    lambda message: self._tell(message, self._headers(self._coming)),
                )
            except RemoteFault as fault:
                self._fault = fault
                raise
            self._session, self._fault = self._coming, None
            self._generation += 1
        self._opened.set()
        self._life.renewed()

    def post(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message that needs no answer.

        Raises:
            RemoteFault: the server does not take it.
        """
        self._tell(message, self._headers(self._session, headers))

    def _tell(self, message: Message, headers: Mapping[str, str]) -> None:
        seconds = TAKING_SECONDS
        with self._http.perform(Transfer(), "POST", headers, message, seconds=seconds) as reply:
            if reply.status >= 400:
                raise reply.refusal(reply.problem())

    # Their answers

    def _take(self, transfer: Transfer, reply: RemoteReply, problem: bytes) -> None:
        """Take the answer to a request; `problem` is its body where the status says so."""
        if reply.status < 400 and reply.kind == EVENT_STREAM:
            self._follow(transfer, reply)
            return
        body = problem if reply.status >= 400 else reply.body()
        if (reply.status < 400 or reply.status in EXPLAINED) and b'"jsonrpc"' in body:
            self._life.receive(body, transfer)
        if not transfer.answered:
            if reply.status >= 400:
                raise reply.refusal(problem)
            raise RemoteFault(no_answer(reply.kind, body, reply.where), reply.status)

    def _follow(self, transfer: Transfer, reply: RemoteReply) -> None:
        """Read the stream that a request is answered by; one that breaks off may be resumed."""
        reader = EventReader()
        problem = self._read(transfer, reply, reader)
        vain = 0
        while not transfer.answered and not transfer.broken_off:
            if self._handshake.hello is None or not reader.last_id or vain == MAXIMUM_RESUMPTIONS:
                raise problem or RemoteFault(broken(EOFError(), reply.where))
            before = reader.last_id
            self._life.is_over(reopening_pause(reader, vain))
            try:
                with self._stream(transfer, reader) as more:
                    if not more.is_stream:
                        what = f"broke the stream off, and does not resume it ({more.status})"
                        raise RemoteFault(f"{what} at {more.where}", more.status)
                    problem = self._read(transfer, more, reader)
            except RemoteFault as fault:
                if fault.status:
                    raise
                problem = fault
            vain = vain + 1 if reader.last_id == before else 0

    def _stream(self, transfer: Transfer, reader: EventReader) -> RemoteReply:
        """Ask for a stream, from behind the last event of it that has come."""
        headers = {**self._headers(self._session), "Accept": EVENT_STREAM}
        if reader.last_id:
            headers[LAST_EVENT_FIELD] = reader.last_id
        return self._http.perform(transfer, "GET", headers)

    def _read(
        self, transfer: Transfer, reply: RemoteReply, reader: EventReader
    ) -> RemoteFault | None:
        """Read a stream until the answer has come, or to its end; return why it broke off."""
        try:
            for events in reply.events(reader):
                for event in events:
                    if event.kind == "message":
                        self._life.receive(event.data, transfer)
                if transfer.answered:
                    break
        except RemoteFault as fault:
            if fault.status:  # it is of no use, however often it is read
                raise
            return fault
        return None

    # The stream that belongs to no request

    def listen(self) -> None:
        """Read what the server says of its own accord, in a session, for as long as it lives."""
        self._handshake.done.wait()
        reader, vain = EventReader(), 0
        had_one = False  # whether this session has had such a stream
        while not self._life.is_over(0):
            generation, before = self._generation, reader.last_id
            self._opened.clear()
            transfer = self._listening = Transfer()
            offered = True
            try:
                with self._stream(transfer, reader) as reply:
                    offered = reply.is_stream
                    is_lost = had_one and reply.is_of_lost_session(reply.problem())
                    had_one = had_one or offered
                    if offered:
                        self._read(transfer, reply, reader)
                if is_lost:
                    offered = True
                    self._open_again(generation)
            except RemoteFault:
                pass  # as if it had ended
            if self._generation != generation:
                reader, vain, had_one = EventReader(), 0, False
            elif not offered:
                self._opened.wait()
            else:
                vain = vain + 1 if reader.last_id == before else 0
                self._opened.wait(reopening_pause(reader, vain))

    # Its end

    def stop(self) -> None:
        """Have nobody wait any more; never waits itself."""
        self._opened.set()
        self._listening.break_off()

    def close(self) -> None:
        """End the session, if the server takes that in time."""
        self.stop()
        if self._session:
            done = threading.Event()
            # To look a name up, or to connect, may take longer than there is.
            if start_thread(self._say_goodbye, done) is not None:
                done.wait(GOODBYE_SECONDS)
        self._http.close()

    def _say_goodbye(self, done: threading.Event) -> None:
        headers = self._headers(self._session)
        with suppress(RemoteFault):
            self._http.perform(Transfer(), "DELETE", headers, seconds=GOODBYE_SECONDS).finish()
        done.set()
