"""A server behind a URL, in this process, that does what a test says; and who speaks to it.

    def behave(request):
        if request.method == "tools/call":
            return request.drop()

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        assert "closed the connection" in talk.failure("tools/call")

What `behave` does not answer (it returns None and has said nothing), is answered as a plain server
would: a handshake of 2025-11-25 or a discovery, a session, `{}` for any other request.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import (
    Fragment,
    Message,
    notification,
    read_line,
    request,
)
from mcpagg_runtime.remote.transport import RemoteConnection

Json = dict[str, Any]
PATIENCE = 60.0
"""Seconds; only tests that fail wait so long."""

HELLO: Json = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "remote", "version": "1"},
}
DISCOVERED: Json = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
}


class Request:
    """One request of HTTP that the server has got, and the ways to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler, number: int) -> None:
        self._handler = handler
        self.number = number
        """How many came before it."""
        self.verb = handler.command
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        size = int(self.headers.get("content-length", 0))
        self.body = handler.rfile.read(size)
        self.message: Json = json.loads(self.body) if self.body[:1] in (b"{", b"[") else {}
        self.method = self.message.get("method", self.verb)
        """The method of the message, or that of HTTP where there is none."""
        self.id = self.message.get("id")
        self.answered = False

    def reply(
        self, status: int = 200, body: bytes | str = b"", kind: str = "", **headers: str
    ) -> None:
        """Answer with one body; headers are named with _ for -."""
        octets = body.encode() if isinstance(body, str) else body
        self._begin(status, kind, {"Content_Length": str(len(octets)), **headers})
        self.write(octets)

    def result(self, result: Any, **headers: str) -> None:
        """Answer the message with a result, as JSON."""
        self.reply(200, self.response(result), "application/json", **headers)

    def error(self, status: int, code: int, message: str, *, with_id: bool = True) -> None:
        """Answer the message with an error, as JSON."""
        error = {"code": code, "message": message}
        said = {"jsonrpc": "2.0", "id": self.id if with_id else None, "error": error}
        self.reply(status, json.dumps(said), "application/json")

    def response(self, result: Any) -> str:
        """Return the JSON text of a result for this message."""
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "result": result})

    def stream(self, *events: bytes | str, **headers: str) -> None:
        """Begin to answer with a stream of events; `drop` or returning ends it."""
        self._handler.close_connection = True
        with suppress(ConnectionError):  # of one that has hung up: see `wait_for_hangup`
            self._begin(200, "text/event-stream; charset=utf-8", {"Connection": "close", **headers})
            self.send(*events)

    def send(self, *events: bytes | str) -> None:
        """Go on with a stream: an event is its data, or the whole event as bytes."""
        for event in events:
            self.write(event if isinstance(event, bytes) else f"data: {event}\n\n".encode())

    def write(self, octets: bytes) -> None:
        """Write any bytes."""
        self.answered = True
        self._handler.wfile.write(octets)
        self._handler.wfile.flush()

    def drop(self) -> None:
        """Break the connection off, as a process that dies does."""
        self.answered = True
        self._handler.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        with suppress(OSError):
            self._handler.connection.shutdown(socket.SHUT_RDWR)

    def wait_for_hangup(self) -> None:
        """Return once the other side has closed the connection."""
        self._handler.connection.settimeout(PATIENCE)
        with suppress(ConnectionError):
            assert self._handler.connection.recv(1) == b""

    def _begin(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.answered = True
        self._handler.send_response(status)
        if kind:
            self._handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            self._handler.send_header(name.replace("_", "-"), value)
        self._handler.end_headers()


Behave = Callable[[Request], None]


class Remote:
    """The server; `requests` are all that it has got."""

    def __init__(
        self,
        behave: Behave = lambda request: None,
        session: str = "s-1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`session` is the id that it gives, "" for none; with `tls`, it is one of https."""
        self.requests: list[Request] = []
        self.session = session
        self.connections = 0
        self._behave = behave
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(), False)
        self._server.daemon_threads = True
        self._server.server_bind()
        self._server.server_activate()
        self.port: int = self._server.server_address[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}/mcp"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Remote:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def of(self, method: str) -> list[Request]:
        """Return the requests with this method, of MCP or of HTTP."""
        return [request for request in self.requests if request.method == method]

    def wait(self, method: str, count: int = 1) -> Request:
        """Wait until so many requests of a method have come; return the last one."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.of(method)) >= count, PATIENCE)
            return self.of(method)[count - 1]

    def _got(self, handler: BaseHTTPRequestHandler) -> None:
        with self._changed:
            request = Request(handler, len(self.requests))
            self.requests.append(request)
            self._changed.notify_all()
        self._behave(request)
        if not request.answered:
            self._plain(request)

    def _plain(self, request: Request) -> None:
        headers = {"Mcp_Session_Id": self.session} if self.session else {}
        if request.method == "initialize":
            request.result(HELLO, **headers)
        elif request.method == "server/discover":
            request.result(DISCOVERED)
        elif request.verb != "POST":
            request.reply(405 if request.verb == "GET" else 204)
        elif request.id is None:
            request.reply(202)
        else:
            request.result({})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        remote = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                remote.connections += 1

            def __getattr__(self, name: str) -> Any:
                if name in ("do_POST", "do_GET", "do_DELETE"):
                    return lambda: remote._got(self)
                raise AttributeError(name)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def handle(self) -> None:
                with suppress(OSError):  # the other side is gone
                    super().handle()

        return Handler


class Talk:
    """A connection to a remote server, and what it reports.

    `lines` are all lines that it passed on, `ends` why it ended, `renewals` how often the server
    has shaken hands again.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] = {},
        *,
        transport: str = "streamable-http",
        mentioned: Mapping[str, str] = {},
        tools: Mapping[str, str] = {},
    ) -> None:
        """`tools` {name: JSON text} is what is known of the server's tools."""
        self.lines: list[bytes] = []
        self.messages: list[Message] = []
        self.failures: dict[int, str] = {}
        self.ends: list[str] = []
        self.renewals = 0
        self._changed = threading.Condition()
        self._last = 0
        launch = Launch([], {}, None, dict(mentioned), url, headers, transport=transport)
        self.connection = RemoteConnection(
            launch,
            self._receive,
            self._ended,
            self._failed,
            self._renewed,
            lambda n: tools.get(n, ""),
        )

    def __enter__(self) -> Talk:
        threading.Thread(target=self.connection.read_to_end, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.suppress_report()
        self.connection.close()

    def greet(self) -> Talk:
        """Shake hands."""
        info = '{"name":"talk","version":"1"}'
        params = obj(protocolVersion='"2025-11-25"', capabilities="{}", clientInfo=info)
        self.answer(self.ask("initialize", params))
        self.tell("notifications/initialized")
        return self

    def discover(self) -> Talk:
        """Begin without a handshake."""
        self.answer(self.ask("server/discover", "{}"))
        return self

    def ask(self, method: str, params: str = "{}") -> int:
        """Send a request; return its id."""
        with self._changed:
            self._last += 1
            number = self._last
        self.connection.send(request(number, method, params))
        return number

    def tell(self, method: str, params: str = "") -> None:
        """Send a notification."""
        self.connection.send(notification(method, params))

    def call(self, method: str, params: str = "{}") -> Message:
        """Send a request and wait for the answer."""
        return self.answer(self.ask(method, params))

    def answer(self, number: int) -> Message:
        """Wait for the answer to a request."""
        found = self.wait(lambda: next((m for m in self.messages if m.id == number), None))
        assert isinstance(found, Message), f"{self.failures} {self.ends}"
        return found

    def failure(self, method: str, params: str = "{}") -> str:
        """Send a request that gets no answer; return why."""
        return self.failed(self.ask(method, params))

    def failed(self, number: int) -> str:
        """Wait until a request has failed; return why."""
        found = self.wait(lambda: self.failures.get(number))
        assert isinstance(found, str), f"{self.lines} {self.ends}"
        return found

    def end(self) -> str:
        """Wait until the connection has ended; return why."""
        found = self.wait(lambda: self.ends and self.ends[0])
        assert isinstance(found, str), f"{self.lines} {self.failures}"
        return found

    def notified(self, method: str) -> Message:
        """Wait for a notification or a request of the server."""
        found = self.wait(lambda: next((m for m in self.messages if m.method == method), None))
        assert isinstance(found, Message), f"{self.lines} {self.failures} {self.ends}"
        return found

    def wait(self, find: Callable[[], object]) -> object:
        """Wait until something is found in what has come; return it, or what is no such thing."""
        with self._changed:
            self._changed.wait_for(find, PATIENCE)
            return find()

    def _receive(self, line: bytes, request: int) -> list[Message | Fragment]:
        found, _ = read_line(line, request=request)
        with self._changed:
            self.lines.append(line)
            self.messages += [message for message in found if isinstance(message, Message)]
            self._changed.notify_all()
        return found

    def _ended(self, reason: str, _last_words: str) -> None:
        with self._changed:
            self.ends.append(reason)
            self._changed.notify_all()

    def _failed(self, number: int, reason: str) -> None:
        with self._changed:
            self.failures[number] = reason
            self._changed.notify_all()

    def _renewed(self) -> None:
        with self._changed:
            self.renewals += 1
            self._changed.notify_all()
