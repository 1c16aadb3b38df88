"""Streamable HTTP: each message is a POST, and its answer one body or a stream of events.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (sessions, resumption),
and 2026-07-28, which has neither.
"""

from __future__ import annotations

import _thread
from contextlib import suppress
from threading import Event as Flag
from typing import TYPE_CHECKING

from mcpagg_runtime.base.message import MAXIMUM_LINE_BYTES, Message, minted, notification
from mcpagg_runtime.base.protocol import INITIALIZED, LISTEN
from mcpagg_runtime.remote.events import EventReader, TooLarge, reopening_pause
from mcpagg_runtime.remote.faults import RemoteFault, broken, no_answer
from mcpagg_runtime.remote.fields import ACCEPT, EVENT_STREAM, LAST_EVENT_FIELD, SESSION_FIELD
from mcpagg_runtime.remote.handshake import Handshake, is_lost
from mcpagg_runtime.remote.transfers import REFUSAL_BYTES, TAKING_SECONDS, Transfer
from mcpagg_runtime.serve.messages import read_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.remote.transfers import HttpClient, Life, RemoteReply

    Hear = Callable[[bytes, Transfer], None]

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

    def __init__(self, http: HttpClient, life: Life) -> None:
        self._http = http
        self._life = life
        self._handshake = Handshake()
        self._posts = Posts(http, life, self._handshake)
        self._listening = Transfer()

    # Messages to the server

    def make(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        """Make a request; returns when it has been answered, or broken off.

        Raises:
            RemoteFault: it was not answered.
        """
        if message.method == "initialize":
            self._handshake.hello = message
        elif self._handshake.hello is not None:
            self._handshake.done.wait()
        if message.method == LISTEN:
            self._keep_listening(transfer, message, headers)
        else:
            self._ask(transfer, message, headers)

    def _keep_listening(
        self, transfer: Transfer, message: Message, headers: Mapping[str, str]
    ) -> None:
        """Open a stream of news, which is no call: after a break it is opened again."""
        breaks = 0
        while True:
            try:
                self._ask(transfer, message, headers)
                return
            except RemoteFault as fault:
                refused = 400 <= fault.status < 500
                if not transfer.began or refused or transfer.broken_off:
                    raise
            if self._life.is_over(reopening_pause(EventReader(), breaks)):
                return
            transfer.reopened = True
            breaks += 1

    def _ask(self, transfer: Transfer, message: Message, headers: Mapping[str, str]) -> None:
        generation = self._handshake.generation
        if self._posts.ask(transfer, message, self._posts.headers(headers), self._hear):
            return
        if self._handshake.repeat(generation, self._greet_again):
            self._life.renewed()
        if not self._posts.ask(transfer, message, self._posts.headers(headers), self._hear):
            raise RemoteFault(f"knows no session at {self._http.where}, not even a new one")

    def post(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message that needs no answer.

        Raises:
            RemoteFault: the server does not take it.
        """
        try:
            self._posts.tell(message, self._posts.headers(headers))
        finally:
            if message.method == INITIALIZED:
                self._handshake.done.set()

    def _hear(self, text: bytes, transfer: Transfer) -> None:
        """Pass on what came as JSON: its line ends, which stand between values, become blanks."""
        if self._handshake.is_asked_by(transfer):
            self._handshake.note_version(text)
        if transfer.reopened:
            transfer.reopened = False
            self._life.renewed()
        line = text.replace(b"\n", b" ").replace(b"\r", b" ")
        self._life.receive(line, transfer)

    def _greet_again(self) -> None:
        """Repeat the handshake."""

        def hear(text: bytes, transfer: Transfer) -> None:
            self._handshake.note_version(text)
            for message in read_line(text, request=transfer.number)[0]:
                if not isinstance(message, Message) or minted(message.id) != transfer.number:
                    continue
                if message.is_error:
                    what = f"has lost its session, and refuses another: {message.raw('error')}"
                    raise RemoteFault(what)
                transfer.answered = True

        hello = self._handshake.hello
        if hello is not None:
            self._posts.ask(Transfer(minted(hello.id)), hello, ACCEPT, hear)
        self._posts.tell(notification(INITIALIZED), {**ACCEPT, **self._handshake.coming})

    # The stream that belongs to no request

    def listen(self) -> None:
        """Read what the server says of its own accord, in a session, for as long as it lives."""
        self._handshake.done.wait()
        reader, vain = EventReader(), 0
        while not self._life.is_over(0):
            generation = self._handshake.generation
            self._handshake.repeated.clear()
            before = reader.last_id
            try:
                offered = self._listen_once(reader)
            except RemoteFault:
                offered = True
            if self._handshake.generation != generation:
                reader, vain = EventReader(), 0
            elif not offered:
                self._handshake.repeated.wait()
            else:
                vain = vain + 1 if reader.last_id == before else 0
                self._handshake.repeated.wait(reopening_pause(reader, vain))

    def _listen_once(self, reader: EventReader) -> bool:
        """Read the stream to its end; return whether the server has one."""
        transfer = self._listening = Transfer()
        headers = {**self._posts.headers({}), "Accept": EVENT_STREAM}
        if reader.last_id:
            headers[LAST_EVENT_FIELD] = reader.last_id
        reply = self._http.perform(transfer, "GET", headers)
        try:
            if reply.status != 200 or reply.kind != EVENT_STREAM:
                return False
            self._posts.read(transfer, reply, reader, self._hear)
        finally:
            reply.finish()
        return True

    def stop(self) -> None:
        """Have nobody wait any more; never waits itself."""
        self._handshake.done.set()
        self._handshake.repeated.set()
        self._listening.break_off()

    def close(self) -> None:
        """End the session, if the server takes that in time."""
        self.stop()
        if SESSION_FIELD in self._handshake.headers:
            done = Flag()
            with suppress(RuntimeError):  # there is no thread for it
                # To look a name up, or to connect, may take longer than there is.
                _thread.start_new_thread(self._say_goodbye, (done,))
                done.wait(GOODBYE_SECONDS)
        self._http.close()

    def _say_goodbye(self, done: Flag) -> None:
        with suppress(RemoteFault):
            headers = self._posts.headers({})
            reply = self._http.perform(Transfer(), "DELETE", headers, seconds=GOODBYE_SECONDS)
            reply.finish()
        done.set()


class Posts:
    """Messages as POSTs, and what answers them: one body, or a stream, which may be resumed."""

    def __init__(self, http: HttpClient, life: Life, handshake: Handshake) -> None:
        self._http = http
        self._life = life
        self._handshake = handshake

    def headers(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a message, `more` included."""
        return {**ACCEPT, **more, **self._handshake.headers}

    def ask(
        self, transfer: Transfer, message: Message, headers: Mapping[str, str], hear: Hear
    ) -> bool:
        """Send a request and take the answer; return False if it was refused for its session."""
        reply = self._http.perform(transfer, "POST", headers, message.line()[:-1])
        try:
            problem = reply.body(REFUSAL_BYTES) if reply.status >= 400 else b""
            if is_lost(headers, reply, problem):
                return False
            self._take(transfer, reply, problem, hear)
        finally:
            reply.finish()
        return True

    def tell(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message that needs no answer.

        Raises:
            RemoteFault: the server does not take it.
        """
        reply = self._http.perform(
            Transfer(), "POST", headers, message.line()[:-1], seconds=TAKING_SECONDS
        )
        reply.finish()
        if reply.status >= 400:
            raise reply.refusal()

    def _take(self, transfer: Transfer, reply: RemoteReply, problem: bytes, hear: Hear) -> None:
        """Take the answer to a request; `problem` is its body where the status says so."""
        if self._handshake.is_asked_by(transfer):
            self._handshake.note_session(reply)
        if reply.status >= 400:
            if reply.status in EXPLAINED and b'"jsonrpc"' in problem:
                hear(problem, transfer)
            if not transfer.answered:
                raise reply.refusal()
        elif reply.kind == EVENT_STREAM:
            self._follow(transfer, reply, hear)
        else:
            body = reply.body()
            if b'"jsonrpc"' in body:
                hear(body, transfer)
            if not transfer.answered:
                raise RemoteFault(no_answer(reply.kind, body, reply.where), reply.status)

    def _follow(self, transfer: Transfer, reply: RemoteReply, hear: Hear) -> None:
        """Read the stream that a request is answered by; one that breaks off may be resumed."""
        reader = EventReader()
        problem = self.read(transfer, reply, reader, hear)
        vain = 0
        while not transfer.answered and not transfer.broken_off:
            if self._handshake.hello is None or not reader.last_id or vain == MAXIMUM_RESUMPTIONS:
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
        headers = {**self.headers({}), "Accept": EVENT_STREAM, LAST_EVENT_FIELD: reader.last_id}
        reply = self._http.perform(transfer, "GET", headers)
        try:
            if reply.status != 200 or reply.kind != EVENT_STREAM:
                what = f"broke the stream off, and does not resume it ({reply.status})"
                raise RemoteFault(f"{what} at {reply.where}", reply.status)
            return self.read(transfer, reply, reader, hear)
        finally:
            reply.finish()

    def read(
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
