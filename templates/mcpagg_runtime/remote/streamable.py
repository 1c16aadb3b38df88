"""Streamable HTTP: each message is a POST, and its answer one body or a stream of events.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (sessions, resumption),
and 2026-07-28, which has neither.
"""

from __future__ import annotations

import _thread
from contextlib import suppress
from threading import Event as Flag
from typing import TYPE_CHECKING

from mcpagg_runtime.remote.events import EventReader, TooLarge
from mcpagg_runtime.remote.faults import RemoteFault, broken, no_answer, refused
from mcpagg_runtime.remote.fields import VERSION_FIELD
from mcpagg_runtime.remote.transfers import Transfer
from mcpagg_runtime.serve.messages import minted, notification, read_line
from mcpagg_runtime.start.message import MAXIMUM_LINE_BYTES, Message
from mcpagg_runtime.start.protocol import INITIALIZED, LISTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.remote.transfers import HttpClient, RemoteReply
    from mcpagg_runtime.remote.transport import RemoteConnection

    Hear = Callable[[bytes, Transfer], None]

EVENT_STREAM = "text/event-stream"
JSON_TYPE = "application/json"
SESSION_FIELD = "Mcp-Session-Id"
LAST_EVENT_FIELD = "Last-Event-ID"
ACCEPT = {"Accept": f"{JSON_TYPE}, {EVENT_STREAM}", "Content-Type": JSON_TYPE}

# Of an answer that only says what is wrong, so much is read.
REFUSAL_BYTES = 1 << 16
# How long a server may take over a message that needs no answer, and over the end of a session.
TAKING_SECONDS = 60.0
GOODBYE_SECONDS = 2.0
# How long to wait before a stream is opened again, unless the server says how long.
FIRST_REOPENING_SECONDS = 1.0
LONGEST_REOPENING_SECONDS = 60.0
# So many times in a row may a stream be resumed without anything new on it.
MAXIMUM_RESUMPTIONS = 10
# What these mean may be said in the body, as an error of JSON-RPC; the others speak for themselves.
EXPLAINED = (400, 404, 405, 406, 409, 413, 415, 422)


class StreamableSession:
    """What the messages of one life have in common: a session, where there is one.

    A session that the server has lost is opened again, once for all calls that notice. That is a
    repetition of the handshake; a call that was refused for want of a session is then made again.
    """

    def __init__(self, http: HttpClient, life: RemoteConnection) -> None:
        self._http = http
        self._life = life
        self._hello: Message | None = None
        """The `initialize` of this life; a modern one has none."""
        self._session: dict[str, str] = {}
        """The headers that say session and version, once they are known."""
        self._coming = self._session
        """Those that the handshake under way fills."""
        self._greeted = Flag()
        """Set once the server knows that the handshake is done: no request goes before."""
        self._renewing = _thread.allocate_lock()
        self._generation = 0
        """How many sessions were opened again."""
        self._attempts = 0
        """How often that was tried."""
        self._failed: RemoteFault | None = None
        """Why it failed at the last try."""
        self._reopened = Flag()
        self._listening = Transfer()

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
        if message.method == LISTEN:
            self._keep_listening(transfer, message, headers)
        else:
            self._ask(transfer, message, headers)

    def _keep_listening(
        self, transfer: Transfer, message: Message, headers: Mapping[str, str]
    ) -> None:
        """Open a stream of news, which is no call: after a break it is opened again."""
        pause = FIRST_REOPENING_SECONDS
        while True:
            try:
                self._ask(transfer, message, headers)
                return
            except RemoteFault as fault:
                refused = 400 <= fault.status < 500
                if not transfer.began or refused or transfer.broken_off:
                    raise
            if self._life.is_over(pause):
                return
            transfer.reopened = True
            pause = min(2 * pause, LONGEST_REOPENING_SECONDS)

    def _ask(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        generation = self._generation
        if self._transfer(transfer, message, self._said(headers), self._hear):
            return
        self._renew(generation)
        if not self._transfer(transfer, message, self._said(headers), self._hear):
            raise RemoteFault(f"knows no session at {self._http.where}, not even a new one")

    def _transfer(
        self, transfer: Transfer, message: Message, headers: Mapping[str, str], hear: Hear
    ) -> bool:
        """Send a request and take the answer; return False if it was refused for its session."""
        reply = self._http.perform(transfer, "POST", headers, message.line()[:-1])
        try:
            problem = reply.body(REFUSAL_BYTES) if reply.status >= 400 else b""
            if self._is_lost(headers, reply, problem):
                return False
            self._take(transfer, reply, problem, hear)
        finally:
            reply.finish()
        return True

    def post(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message that needs no answer.

        Raises:
            RemoteFault: the server does not take it.
        """
        try:
            self._tell(message, self._said(headers))
        finally:
            if message.method == INITIALIZED:
                self._greeted.set()

    def _tell(self, message: Message, headers: Mapping[str, str]) -> None:
        reply = self._http.perform(
            Transfer(), "POST", headers, message.line()[:-1], seconds=TAKING_SECONDS
        )
        reply.finish()
        if reply.status >= 400:
            raise self._refusal(reply)

    def _said(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**ACCEPT, **headers, **self._session}

    # What the server answers

    def _take(self, transfer: Transfer, reply: RemoteReply, problem: bytes, hear: Hear) -> None:
        """Take the answer to a request; `problem` is its body where the status says so."""
        if self._is_greeting(transfer):
            self._note_session(reply)
        if reply.status >= 400:
            if reply.status in EXPLAINED and b'"jsonrpc"' in problem:
                hear(problem, transfer)
            if not transfer.answered:
                raise self._refusal(reply)
        elif reply.kind == EVENT_STREAM:
            self._follow(transfer, reply, hear)
        else:
            body = reply.body()
            if b'"jsonrpc"' in body:
                hear(body, transfer)
            if not transfer.answered:
                raise RemoteFault(no_answer(reply.kind, body, reply.where), reply.status)

    def _refusal(self, reply: RemoteReply) -> RemoteFault:
        what = refused(reply.status, reply.where, reply.headers)
        return RemoteFault(what, reply.status)

    def _hear(self, text: bytes, transfer: Transfer) -> None:
        """Pass on what came as JSON: its line ends, which stand between values, become blanks."""
        if self._is_greeting(transfer):
            self._note_version(text)
        if transfer.reopened:
            transfer.reopened = False
            self._life.renewed()
        line = text.replace(b"\n", b" ").replace(b"\r", b" ")
        self._life.heard(line, transfer)

    def _is_greeting(self, transfer: Transfer) -> bool:
        return self._hello is not None and minted(self._hello.id) == transfer.number

    def _follow(self, transfer: Transfer, reply: RemoteReply, hear: Hear) -> None:
        """Read the stream that a request is answered by; one that breaks off may be resumed."""
        reader = EventReader()
        problem = self._read(transfer, reply, reader, hear)
        vain = 0
        while not transfer.answered and not transfer.broken_off:
            if self._hello is None or not reader.last_id or vain == MAXIMUM_RESUMPTIONS:
                raise problem or RemoteFault(broken(EOFError(), reply.where))
            before = reader.last_id
            self._life.is_over(reopening_pause(reader, vain))
            try:
                problem = self._resume(transfer, reader, hear)
            except RemoteFault as fault:
                if fault.status:
                    raise
                problem = fault
            vain = vain + 1 if reader.last_id == before else 0

    def _resume(self, transfer: Transfer, reader: EventReader, hear: Hear) -> RemoteFault | None:
        """Read on in a stream behind the last event of it that came."""
        headers = {**self._said({}), "Accept": EVENT_STREAM, LAST_EVENT_FIELD: reader.last_id}
        reply = self._http.perform(transfer, "GET", headers)
        try:
            if reply.status != 200 or reply.kind != EVENT_STREAM:
                what = f"broke the stream off, and does not resume it ({reply.status})"
                raise RemoteFault(f"{what} at {reply.where}", reply.status)
            return self._read(transfer, reply, reader, hear)
        finally:
            reply.finish()

    def _read(
        self, transfer: Transfer, reply: RemoteReply, reader: EventReader, hear: Hear
    ) -> RemoteFault | None:
        """Read a stream until the answer has come, or to its end; return why it broke off."""
        reader.restart()
        try:
            for data in reply.chunks():
                for event in reader.feed(data):
                    if event.kind == "message":
                        hear(event.data, transfer)
                if transfer.answered:
                    break
        except TooLarge:
            size = f"{MAXIMUM_LINE_BYTES >> 20} MiB"
            raise RemoteFault(f"sent an event of more than {size} at {reply.where}") from None
        except RemoteFault as fault:
            return fault
        return None

    # The session

    def _note_session(self, reply: RemoteReply) -> None:
        identifier = reply.headers.get(SESSION_FIELD.lower(), "")
        if identifier and reply.status < 400:
            self._coming[SESSION_FIELD] = identifier

    def _note_version(self, text: bytes) -> None:
        for message in read_line(text)[0]:
            result = message.value("result") if isinstance(message, Message) else None
            version = result.get("protocolVersion") if type(result) is dict else None
            if type(version) is str:
                self._coming[VERSION_FIELD] = version

    def _is_lost(self, headers: Mapping[str, str], reply: RemoteReply, problem: bytes) -> bool:
        """Whether a request was refused because its session is over; some servers say 400."""
        if SESSION_FIELD not in headers:
            return False
        return reply.status == 404 or (reply.status == 400 and b"session" in problem.lower())

    def _renew(self, generation: int) -> None:
        """Open a session again, unless somebody has since this one; all who wait share the outcome.

        Raises:
            RemoteFault: it cannot be opened.
        """
        attempts = self._attempts
        with self._renewing:
            if self._generation != generation:
                return
            if self._failed is not None and self._attempts != attempts:
                raise self._failed
            self._attempts += 1
            try:
                self._greet_again()
            except RemoteFault as fault:
                self._failed = fault
                raise
            self._failed = None
            self._generation += 1
        self._reopened.set()
        self._life.renewed()

    def _greet_again(self) -> None:
        """Repeat the handshake; until it is done, the old session stays."""
        self._coming = {}

        def hear(text: bytes, transfer: Transfer) -> None:
            self._note_version(text)
            for message in read_line(text, request=transfer.number)[0]:
                if not isinstance(message, Message) or minted(message.id) != transfer.number:
                    continue
                if message.is_error:
                    what = f"has lost its session, and refuses another: {message.raw('error')}"
                    raise RemoteFault(what)
                transfer.answered = True

        if self._hello is not None:
            self._transfer(Transfer(minted(self._hello.id)), self._hello, ACCEPT, hear)
        self._tell(notification(INITIALIZED), {**ACCEPT, **self._coming})
        self._session = self._coming

    # The stream that belongs to no request

    def listen(self) -> None:
        """Read what the server says of its own accord, in a session, for as long as it lives."""
        self._greeted.wait()
        reader, vain = EventReader(), 0
        while not self._life.is_over(0):
            generation = self._generation
            self._reopened.clear()
            before = reader.last_id
            try:
                offered = self._listen_once(reader)
            except RemoteFault:
                offered = True
            if self._generation != generation:
                reader, vain = EventReader(), 0
            elif not offered:
                self._reopened.wait()
            else:
                vain = vain + 1 if reader.last_id == before else 0
                self._reopened.wait(reopening_pause(reader, vain))

    def _listen_once(self, reader: EventReader) -> bool:
        """Read the stream to its end; return whether the server has one."""
        transfer = self._listening = Transfer()
        headers = {**self._said({}), "Accept": EVENT_STREAM}
        if reader.last_id:
            headers[LAST_EVENT_FIELD] = reader.last_id
        reply = self._http.perform(transfer, "GET", headers)
        try:
            if reply.status != 200 or reply.kind != EVENT_STREAM:
                return False
            self._read(transfer, reply, reader, self._hear)
        finally:
            reply.finish()
        return True

    def stop(self) -> None:
        """Have nobody wait any more; never waits itself."""
        self._greeted.set()
        self._reopened.set()
        self._listening.break_off()

    def close(self) -> None:
        """End the session, if the server takes that in time."""
        self.stop()
        if SESSION_FIELD in self._session:
            done = Flag()
            with suppress(RuntimeError):  # there is no thread for it
                # To look a name up, or to connect, may take longer than there is.
                _thread.start_new_thread(self._say_goodbye, (done,))
                done.wait(GOODBYE_SECONDS)
        self._http.close()

    def _say_goodbye(self, done: Flag) -> None:
        with suppress(RemoteFault):
            headers = self._said({})
            reply = self._http.perform(Transfer(), "DELETE", headers, seconds=GOODBYE_SECONDS)
            reply.finish()
        done.set()


def reopening_pause(reader: EventReader, vain: int) -> float:
    """Return how long to wait before a stream is opened again, that was in vain so many times."""
    pause = FIRST_REOPENING_SECONDS if reader.retry is None else reader.retry
    if vain:
        pause = max(pause, FIRST_REOPENING_SECONDS) * 2.0 ** min(vain, 10)
    return min(pause, LONGEST_REOPENING_SECONDS)
