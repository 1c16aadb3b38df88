"""Requests to a remote server, and its answers as they come."""

from __future__ import annotations

import http.client
import re
import threading
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import MAXIMUM_LINE_BYTES
from mcpagg_runtime.remote.compression import ACCEPTED_ENCODINGS, CannotUnpack, unpacked
from mcpagg_runtime.remote.connections import Address, Connections, Link, basic_credentials
from mcpagg_runtime.remote.cookies import Cookies
from mcpagg_runtime.remote.events import EventReader, TooLarge
from mcpagg_runtime.remote.faults import (
    FORBIDDEN,
    UNAUTHORIZED,
    NotSent,
    RemoteFault,
    broken,
    lacking_scope,
    redirected,
    refusal_in,
    refused,
    shortened,
    with_its_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Protocol

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.remote.events import Event
    from mcpagg_runtime.remote.login import Credentials

    class Life(Protocol):
        """What a transport works for: one life of a server, see `RemoteConnection`."""

        def receive(self, text: bytes, transfer: Transfer) -> None:
            """Pass on JSON that came by a transfer."""

        def renewed(self) -> None:
            """Report that the server has forgotten what it was sent, and was greeted again."""

        def is_over(self, seconds: float) -> bool:
            """Wait so long, or until the life is over; return whether it is."""

    class Greeting(Protocol):
        """How a transport begins a session, see `Handshake`."""

        hello: Message | None
        version: str
        done: threading.Event

        def repeat(
            self, ask: Callable[[Transfer, Message], object], tell: Callable[[Message], object]
        ) -> None:
            """Open a session again."""


EVENT_STREAM = "text/event-stream"
ACCEPT = {"Accept": f"application/json, {EVENT_STREAM}", "Content-Type": "application/json"}
MAXIMUM_REDIRECTS = 5
# The body stays with the request, and with its method; other redirects would make a GET of it.
KEPT_METHOD = (307, 308)
REDIRECTS = (301, 302, 303, *KEPT_METHOD)
BODY_CHUNK = 1 << 16
# Of an answer that only says what is wrong, so much is read.
REFUSAL_BYTES = 1 << 16
# How long a server may take over a message that needs no answer.
TAKING_SECONDS = 60.0
# So much of a body that nobody wants is read, for as long, so that its connection can be kept.
PASSED_OVER_BYTES = 1 << 16
PASSED_OVER_SECONDS = 0.2
# What servers say with status 400 of a session that they do not know: they speak of its id, say
# that it is over, or that nobody has shaken hands.
OF_LOST_SESSION = re.compile(
    rb"mcp-session-id|session[ -]id\b"
    rb"|\b(?:expired|find|invalid|missing|no|stale|unknown)(?: active| such| valid)* session"
    rb"(?:_?id)?\b(?! [a-z]*(?:arg|param|name|field))"
    rb"|\bsession(?:_?id)?\b(?: with id)?:?(?: [\"'(]?[\w-]{0,40}\d[\w-]{0,40}[\"')]?)?"
    rb"(?: (?:does|has|is|was))?(?: been)? (?:closed|expired|invalid|missing|not exist|not found"
    rb"|not valid|required|terminated|unknown)"
    rb"|(?:\b(?:client|connection|server|session)\b[\w ]{0,20} |^|[\"':] ?)not (?:been |yet )*"
    rb"initiali[sz]ed"
)
# Nobody says more of that; a search holds up all threads.
SEARCHED_BYTES = 1 << 12
# Errors of JSON-RPC that only a server gives that has read the request.
OF_THE_REQUEST = (-32601, -32602, -32603)


class Transfer:
    """One request and its answer, under way; any thread may break it off.

    `number` is the id of the message that is sent, 0 for one without. `sent` is set as soon as
    the server can have it whole, or never will; `over` when nothing more is waited for.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.sent = threading.Event()
        self.over = threading.Event()
        self.answered = False
        """Whether the server has answered the message."""
        self.began = False
        """Whether anything has come by this transfer."""
        self.reopened = False
        """Whether it goes on after a break, and nothing has come since."""
        self.broken_off = False
        self._lock = threading.Lock()
        self._link: Link | None = None

    def hold(self, link: Link | None) -> None:
        """Go on over this connection; None: over none."""
        with self._lock:
            self._link = link
            if link is not None and self.broken_off:
                link.shut()

    def break_off(self) -> None:
        """Wait for the answer no longer."""
        with self._lock:
            self.broken_off = True
            if self._link is not None:
                self._link.shut()
        self.sent.set()
        self.over.set()


class RemoteReply:
    """An answer, whose body is still to be read within a `with` block."""

    def __init__(
        self, connections: Connections, link: Link, got: http.client.HTTPResponse, of: Transfer
    ) -> None:
        self.status = got.status
        self.headers = {name.lower(): value for name, value in got.getheaders()}
        """The last one of each name."""
        kind = self.headers.get("content-type", "")
        self.kind = kind.partition(";")[0].strip().lower()
        """The media type of the body."""
        self.where = connections.where
        """The URL, to be shown."""
        self._connections = connections
        self._link = link
        self._got = got
        self._of = of

    def __enter__(self) -> RemoteReply:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it comes, unpacked.

        Raises:
            RemoteFault: the connection broke before its end, or nobody can unpack it.
        """
        encoding = self.headers.get("content-encoding", "")
        try:
            yield from unpacked(encoding, self._chunks())
        except CannotUnpack as problem:
            raise RemoteFault(f"{problem} at {self.where}", self.status) from None
        except EOFError as problem:
            raise RemoteFault(broken(problem, self.where)) from None

    def _chunks(self) -> Iterator[bytes]:
        """Yield the body as it was sent."""
        got, left = self._got, self._got.length
        try:
            if got.chunked or left is None:
                while data := got.read1(BODY_CHUNK):
                    if got.chunked and (got.chunk_left or 0) < 0:
                        raise http.client.HTTPException("the length of a chunk is below zero")
                    yield data
                return
            while left:
                data = got.read(min(left, BODY_CHUNK))
                if not data:
                    raise RemoteFault(broken(EOFError(), self.where))
                left -= len(data)
                yield data
            got.read()  # nothing, and notices that this is the end
        except (OSError, ValueError, http.client.HTTPException) as problem:
            raise RemoteFault(broken(problem, self.where)) from None

    def problem(self) -> bytes:
        """Return what an answer says is wrong, b"" if it is none, or cannot be read."""
        try:
            return self.body(REFUSAL_BYTES) if self.status >= 400 else b""
        except RemoteFault:
            return b""

    def body(self, limit: int = MAXIMUM_LINE_BYTES) -> bytes:
        """Return the whole body.

        Raises:
            RemoteFault: it is too large, or breaks off.
        """
        parts, size = [], 0
        for data in self.chunks():
            parts.append(data)
            size += len(data)
            if size > limit:
                raise RemoteFault(f"answered with more than {limit >> 20} MiB at {self.where}")
        return b"".join(parts)

    def events(self, reader: EventReader) -> Iterator[list[Event]]:
        """Yield the events of a body that is a stream, those together that came at once.

        Raises:
            RemoteFault: one is too large, or the stream breaks off.
        """
        reader.restart()
        try:
            for data in self.chunks():
                yield reader.feed(data)
        except TooLarge:
            size = f"{MAXIMUM_LINE_BYTES >> 20} MiB"
            what = f"sent an event of more than {size} at {self.where}"
            raise RemoteFault(what, self.status) from None

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of events."""
        return self.status == 200 and self.kind == EVENT_STREAM

    def is_of_lost_session(self, problem: bytes, number: int = 0) -> bool:
        """Whether it refuses a request because its session is over; some servers say 400.

        `problem` is its body, `number` the id of the request. A request that the server has read,
        and says so by an error of its own, was not refused for that.
        """
        if self.status not in (400, 404):
            return False
        said = refusal_in(problem)
        error = said.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if number and said.get("id") == number and code in OF_THE_REQUEST:
            return False
        words = problem[:SEARCHED_BYTES].lower()
        return self.status == 404 or OF_LOST_SESSION.search(words) is not None

    def refusal(self, problem: bytes) -> RemoteFault:
        """Return what its status means, if that is no success; `problem` is its body."""
        what = refused(self.status, self.where, self.headers)
        return RemoteFault(with_its_words(what, problem), self.status)

    def finish(self) -> None:
        """Keep the connection for the next request, or close it if the answer goes on.

        A stream that has brought the answer ends presently, if the server sees to that.
        """
        if not self._of.broken_off:
            self._pass_over()
        self._of.hold(None)
        # What did not answer its request may be out of step with what is asked.
        in_step = self._of.answered or not self._of.number or self.status != 200
        open_still = self._got.isclosed() and not self._got.will_close
        if in_step and open_still and not self._of.broken_off:
            self._connections.keep(self._link, _kept_seconds(self.headers))
        else:
            self._got.close()
            self._link.http.close()

    def _pass_over(self) -> None:
        """Read what is left of the body, if it is little and comes at once."""
        deadline = monotonic() + PASSED_OVER_SECONDS
        size = 0
        try:
            self._link.socket.settimeout(PASSED_OVER_SECONDS)
            for data in self._chunks():
                size += len(data)
                if size > PASSED_OVER_BYTES or monotonic() > deadline:
                    break
        except (OSError, RemoteFault):
            pass


def _kept_seconds(headers: Mapping[str, str]) -> float:
    """Return how long a server keeps a connection without work, less a second for the way."""
    seconds = headers.get("keep-alive", "").lower().partition("timeout=")[2].partition(",")[0]
    seconds = seconds.strip()[:9]
    return int(seconds) - 1.0 if seconds.isdecimal() else float("inf")


class HttpClient:
    """What requests to one server have in common: address, headers, connections.

    The headers of the config go to the server's own origin and nowhere else.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], agent: str, credentials: Credentials
    ) -> None:
        """`agent` is what the proxy calls itself.

        `credentials` are used where neither a header nor the URL says who asks.

        Raises:
            ValueError: the URL, a header, or the proxy on the way is of no use.
        """
        self.address = Address(url)
        self._connections = Connections(self.address)
        self.where = self._connections.where
        """The URL, to be shown."""
        own = {"User-Agent": agent, "Accept-Encoding": ACCEPTED_ENCODINGS}
        own.update(basic_credentials(self.address))
        self._headers = {**own, **{name: _sendable(name, value) for name, value in headers.items()}}
        self._cookies = Cookies()
        given = any(name.lower() == "authorization" for name in self._headers)
        self._credentials = None if given else credentials

    def close(self) -> None:
        """Close the connections that have nothing to do."""
        self._connections.close()

    def perform(
        self,
        transfer: Transfer,
        method: str,
        headers: Mapping[str, str],
        message: Message | None = None,
        *,
        target: Address | None = None,
        seconds: float | None = None,
    ) -> RemoteReply:
        """Make a request, follow redirects within the origin, and return the answer.

        Where there is a login, the request says so, and is made again, once, with a token that was
        refreshed, if the server refuses it. `target` is another address of the same origin.
        `seconds` limit each wait for the server, None for no limit.

        Raises:
            NotSent: the server cannot have got the request.
            RemoteFault: it may have, and there is no answer; or it wants a login.
        """
        body = None if message is None else message.line()[:-1]
        first = target or self.address

        def made(token: str | None) -> RemoteReply:
            bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
            address = first
            for _ in range(MAXIMUM_REDIRECTS):
                lines = self._lines({**headers, **bearer}, address)
                reply = self._once(transfer, method, address, lines, body, seconds)
                location = reply.headers.get("location")
                if reply.status not in REDIRECTS or not location:
                    return reply
                reply.finish()
                address = self._redirected(method, reply, address, location)
            raise RemoteFault(f"redirects in a circle from {self.where}")

        credentials = self._credentials
        if credentials is None:
            return made(None)
        token = credentials.token(self.where)
        reply = made(token)
        scope = lacking_scope(reply.headers) if reply.status == FORBIDDEN else ""
        if scope and token is not None:
            reply.finish()
            raise credentials.lacking(scope, self.where)
        if reply.status != UNAUTHORIZED:
            return reply
        # It was refused, and so not acted upon: with a new token it may be made again.
        reply.finish()
        return made(credentials.renewed(token, self.where))

    def _lines(self, headers: Mapping[str, str], address: Address) -> dict[str, str]:
        """Return all headers of a request; of two with one name, only one may be sent."""
        all_of_them = (self._headers, headers, self._connections.extra_headers())
        by_name = {name.lower(): (name, each[name]) for each in all_of_them for name in each}
        _, own = by_name.get("cookie", ("", ""))
        if cookies := self._cookies.header(address, own):
            by_name["cookie"] = ("Cookie", cookies)
        return dict(by_name.values())

    def _redirected(
        self, method: str, reply: RemoteReply, address: Address, location: str
    ) -> Address:
        """Return where a redirect leads to.

        Raises:
            RemoteFault: it is not followed.
        """
        try:
            to = address.joined(location)
        except ValueError:
            what = f"redirects ({reply.status}) from {self.where} to what is no URL"
            raise RemoteFault(what, reply.status) from None
        if to.origin != self.address.origin:
            what = redirected(reply.status, to.shown_origin, self.where)
            raise RemoteFault(what, reply.status)
        if method != "GET" and reply.status not in KEPT_METHOD:
            what = f"redirects ({reply.status}) from {self.where} to {shortened(to.shown)}"
            raise RemoteFault(f"{what}; write that URL", reply.status)
        return to

    def _once(
        self,
        transfer: Transfer,
        method: str,
        address: Address,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float | None,
    ) -> RemoteReply:
        connections = self._connections
        while True:
            kept = connections.take()
            link = kept or connections.open()
            transfer.hold(link)
            if transfer.broken_off:
                link.http.close()
                raise NotSent("is not asked any more")
            link.socket.settimeout(seconds)
            try:
                line = connections.request_line(address.target)
                link.http.request(method, line, body, {**headers})
            except OSError:
                if kept is not None:
                    # Closed meanwhile. Not all of it has been sent, so nobody acts upon it.
                    link.http.close()
                    continue
                # A server may refuse a request before it has read it all, and then says why.
            break
        transfer.sent.set()
        link.hurry()
        try:
            got = link.http.getresponse()
        except (OSError, ValueError, http.client.HTTPException) as problem:
            transfer.hold(None)
            link.http.close()
            raise RemoteFault(broken(problem, self.where)) from None
        self._cookies.take(got.headers.get_all("set-cookie", ()), address)
        return RemoteReply(connections, link, got, transfer)


def _sendable(name: str, value: str) -> str:
    """Return the value of a header as it can be sent.

    Raises:
        ValueError: nothing like it can be.
    """
    value = value.strip()
    if not value.isprintable() or not name.isascii() or not name.isprintable() or ":" in name:
        raise ValueError(f"its header {name!r} holds a character that cannot be sent")
    return value.encode("utf-8").decode("latin-1")
