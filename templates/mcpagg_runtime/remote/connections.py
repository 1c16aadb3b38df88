"""Connections to one server: a kept one for each request under way, through a proxy where need be.

A request is sent once. Only if the server cannot have it whole, because a kept connection turned
out to be closed, is it sent over another one.
"""

from __future__ import annotations

import _thread
import http.client
import os
import socket
from binascii import b2a_base64
from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING

from mcpagg_runtime.remote.addresses import Address, proxy_for
from mcpagg_runtime.remote.faults import NotSent, RemoteFault, unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CONNECT_SECONDS = 10.0
# How long a connection without work is kept, unless the server says less: Node and uvicorn close it
# after 5 s, and a request that is sent at that moment is lost.
KEPT_SECONDS = 4.0
KEEPALIVE_SECONDS = 60


class Answer(http.client.HTTPResponse):
    """The head of an answer, read as HTTP wants it, where the base class lets too much pass.

    Any number of interim answers (1xx) may come before it (RFC 9110, section 15.2). Where its
    length cannot be read, nobody knows where it ends (RFC 9112, section 6.3).
    """

    def begin(self) -> None:
        """Read status and headers.

        Raises:
            HTTPException: they are no head of an answer.
        """
        super().begin()
        while self.status < 200:
            self.headers = None  # type: ignore[assignment]  # as before it has begun
            super().begin()
        lengths = {*self.headers.get_all("content-length", ())}
        if not self.chunked and lengths and (len(lengths) > 1 or not lengths.pop().isdecimal()):
            raise http.client.HTTPException("its length cannot be read")


class Link:
    """One connection."""

    __slots__ = ("http", "socket", "until")

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.http = connection
        self.socket: Any = connection.sock
        self.until = 0.0
        """Up to when it may be used again."""

    def is_usable(self) -> bool:
        """Whether it is still open, and nothing is on it that nobody asked for."""
        if self.http.sock is None or monotonic() > self.until:
            return False
        self.socket.setblocking(False)
        try:
            # Below TLS: whatever is there, or its end, makes the connection of no use.
            socket.socket.recv(self.socket, 1, socket.MSG_PEEK)
            return False
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False

    def hurry(self) -> None:
        """Confirm what comes next at once, where the system lets us choose.

        Some servers write the head and the body of an answer one by one, and wait with the second
        until the first one is confirmed: 40 ms a call.
        """
        if hasattr(socket, "TCP_QUICKACK"):
            with suppress(OSError):
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def shut(self) -> None:
        """Have whoever waits for it see its end."""
        with suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


class Connections:
    """The connections to one address."""

    def __init__(self, address: Address) -> None:
        """Look into the environment for the proxy on the way.

        Raises:
            ValueError: there is one that cannot be used.
        """
        self.address = address
        self._proxy = proxy_for(address, os.environ)
        self.where = address.shown
        """The URL, and the proxy on the way to it, to be shown."""
        if self._proxy is not None:
            self.where += f" through the proxy {self._proxy[1].shown} ({self._proxy[0]})"
        self._context: Any = None
        self._lock = _thread.allocate_lock()
        self._idle: list[Link] = []
        self._closed = False
        self._watched = False
        """Whether a thread sees to what gets too old."""

    def take(self) -> Link | None:
        """Return a connection that is kept and still open, None if there is none."""
        while True:
            with self._lock:
                link = self._idle.pop() if self._idle else None
            if link is None or link.is_usable():
                return link
            link.http.close()

    def keep(self, link: Link, seconds: float) -> None:
        """Keep a connection that has nothing to do, for at most so long."""
        link.until = monotonic() + min(seconds, KEPT_SECONDS)
        with self._lock:
            self._idle.append(link)
            watched, self._watched = self._watched, True
        self._close_old()
        if not watched:
            try:
                _thread.start_new_thread(self._watch, ())
            except RuntimeError:  # no thread is to be had: what is kept next sees to it
                self._watched = False

    def _watch(self) -> None:
        """Close what gets too old, until nothing is kept: the server has closed its side."""
        watched = True
        while watched:
            sleep(KEPT_SECONDS)
            self._close_old()
            with self._lock:
                watched = self._watched = bool(self._idle)

    def _close_old(self) -> None:
        now = monotonic()
        with self._lock:
            idle = self._idle
            self._idle = [] if self._closed else [one for one in idle if one.until > now]
            old = set(idle).difference(self._idle)
        for one in old:
            one.http.close()

    def close(self) -> None:
        """Close what is kept, and keep nothing from here on."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.http.close()

    def open(self) -> Link:
        """Connect.

        Raises:
            NotSent: there is no connection.
        """
        connection = self._connection()
        connection.response_class = Answer
        try:
            connection.connect()
        except (OSError, ValueError, http.client.HTTPException) as problem:
            connection.close()
            host = self.address.host if self._proxy is None else self._proxy[1].host
            raise NotSent(unreachable(problem, self.where, host, CONNECT_SECONDS)) from None
        sock = connection.sock
        sock.settimeout(None)
        # A server that is gone without a word would be waited for for ever.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)
        return Link(connection)

    def _connection(self) -> http.client.HTTPConnection:
        address, proxy = self.address, self._proxy
        target = address if proxy is None else proxy[1]
        if address.scheme == "http":
            return http.client.HTTPConnection(target.host, target.port, timeout=CONNECT_SECONDS)
        connection = http.client.HTTPSConnection(
            target.host, target.port, timeout=CONNECT_SECONDS, context=self._trust()
        )
        if proxy is not None:
            connection.set_tunnel(address.host, address.port, credentials_of(proxy[1], "Proxy-"))
        return connection

    def _trust(self) -> Any:
        """Return what decides whom to trust: the system, or the file that SSL_CERT_FILE names."""
        if self._context is None:
            import ssl

            try:
                self._context = ssl.create_default_context()
            except (OSError, ValueError) as problem:
                what = f"cannot be reached: the system's certificates are of no use: {problem}"
                raise RemoteFault(what) from None
        return self._context

    def request_line(self, target: str) -> str:
        """Return what to ask for: a proxy of http wants the whole URL."""
        if self._proxy is None or self.address.scheme == "https":
            return target
        return self.address.joined(target).url

    def extra_headers(self) -> Mapping[str, str]:
        """Return the headers that the way itself asks for."""
        if self._proxy is None or self.address.scheme == "https":
            return {}
        return credentials_of(self._proxy[1], "Proxy-")


def credentials_of(address: Address, prefix: str = "") -> dict[str, str]:
    """Return the user and the password in a URL as a header, {} if it has none."""
    if not address.user and not address.password:
        return {}
    pair = f"{address.user}:{address.password}".encode()
    coded = b2a_base64(pair, newline=False).decode("ascii")
    return {f"{prefix}Authorization": f"Basic {coded}"}
