"""The way to one server: its URL taken apart, a proxy where need be, and kept connections.

A request is sent once. Only if the server cannot have it whole, because a kept connection turned
out to be closed, is it sent over another one.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
from binascii import b2a_base64
from contextlib import suppress
from ipaddress import ip_address
from time import monotonic, sleep
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from mcpagg_runtime.launch.urls import NO_URL
from mcpagg_runtime.processes.threads import start_thread
from mcpagg_runtime.remote.faults import NotSent, RemoteFault, unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PORTS = {"http": 80, "https": 443}
HIDDEN = "***"
CONNECT_SECONDS = 10.0
# How long a connection without work is kept, unless the server says less: Node and uvicorn close it
# after 5 s, and a request that is sent at that moment is lost.
KEPT_SECONDS = 4.0
KEEPALIVE_SECONDS = 60


class Address:
    """One URL of http or https, whole: `target` is its path with the query.

    `origin` is what a credential is for: scheme, host and port; `shown_origin` is its text. `shown`
    is the URL without what may be secret in it: user, password, and the values of the query.
    """

    __slots__ = (
        *("host", "origin", "password", "port", "scheme", "shown", "shown_origin"),
        *("target", "url", "user"),
    )

    def __init__(self, url: str) -> None:
        """Take a URL apart.

        Raises:
            ValueError: it is none, or one of another scheme.
        """
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:  # which may say parts of a password
            raise ValueError(NO_URL) from None
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError(NO_URL)
        self.scheme = parts.scheme
        self.host = parts.hostname
        self.port = port or PORTS[parts.scheme]
        self.user = unquote(parts.username or "", errors="surrogateescape")
        self.password = unquote(parts.password or "", errors="surrogateescape")
        self.origin = (self.scheme, self.host, self.port)
        path = _in_ascii(parts.path or "/")
        self.target = path + (f"?{_in_ascii(parts.query)}" if parts.query else "")
        where = f"[{self.host}]" if ":" in self.host else self.host
        if self.port != PORTS[self.scheme]:
            where += f":{self.port}"
        self.url = f"{self.scheme}://{where}{self.target}"
        self.shown_origin = f"{self.scheme}://{where}"
        self.shown = f"{self.shown_origin}{path}{_without_values(parts.query)}"

    def joined(self, reference: str) -> Address:
        """Return the address that a reference in an answer leads to.

        Raises:
            ValueError: it leads nowhere.
        """
        return Address(urljoin(self.url, reference))


def _in_ascii(text: str) -> str:
    """Return a part of a URL in ASCII, as it is sent: a blank or a letter with an accent is not."""
    octets = text.encode("utf-8", "surrogateescape")
    return "".join(chr(o) if 0x20 < o < 0x7F else f"%{o:02X}" for o in octets)


def _without_values(query: str) -> str:
    names = [pair.partition("=")[0] for pair in query.split("&")] if query else []
    return f"?{'&'.join(f'{name}={HIDDEN}' for name in names)}" if names else ""


def proxy_for(address: Address, environ: Mapping[str, str]) -> tuple[str, Address] | None:
    """Return the variable that names the proxy for an address, and the proxy; None for none.

    `HTTP_PROXY` or `HTTPS_PROXY`, and `NO_PROXY`, in either case; the lower one counts first, as
    with curl. This machine itself is never reached through a proxy.

    Raises:
        ValueError: the variable names something else than an HTTP proxy.
    """
    name = f"{address.scheme}_proxy"
    name = name if environ.get(name) else name.upper()
    value = environ.get(name, "").strip()
    if not value or is_this_machine(address.host):
        return None
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    # Commas or spaces part them, as with curl; in files of variables line ends are among these.
    if any(_matches(entry, address) for entry in exceptions.lower().replace(",", " ").split()):
        return None
    if "://" not in value:
        value = f"http://{value}"
    if not value.startswith("http://"):
        kind = value.partition("://")[0]
        raise ValueError(f"{name} names a proxy of the kind {kind}, and only http:// ones work")
    return name, Address(value)


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine, by a name or a number of its own."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    with suppress(OSError):  # 127.1 is one, too
        return socket.inet_aton(name)[0] in (0, 127)
    with suppress(ValueError):
        found = ip_address(name)
        mapped = getattr(found, "ipv4_mapped", None) or found
        return mapped.is_loopback or mapped.is_unspecified
    return False


def _matches(entry: str, address: Address) -> bool:
    """Whether an entry of NO_PROXY names an address: `*`, a host or a domain, a network."""
    if entry == "*":
        return True
    if "/" in entry:
        return _is_within(address.host, entry)
    host, _, port = entry.rpartition(":")
    if host and port.isdigit() and (":" not in host or host.endswith("]")):
        if int(port) != address.port:
            return False
        entry = host
    entry = entry.strip("[]").lstrip(".")
    return bool(entry) and (address.host == entry or address.host.endswith(f".{entry}"))


def _is_within(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


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
        self._lock = threading.Lock()
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
        if not watched and start_thread(self._watch) is None:
            self._watched = False  # what is kept next sees to it

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
            connection.set_tunnel(address.host, address.port, basic_credentials(proxy[1], "Proxy-"))
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
        return basic_credentials(self._proxy[1], "Proxy-")


def basic_credentials(address: Address, prefix: str = "") -> dict[str, str]:
    """Return the user and the password in a URL as a header, {} if it has none."""
    if not address.user and not address.password:
        return {}
    pair = f"{address.user}:{address.password}".encode("utf-8", "surrogateescape")
    coded = b2a_base64(pair, newline=False).decode("ascii")
    return {f"{prefix}Authorization": f"Basic {coded}"}
