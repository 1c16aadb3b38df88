"""Addresses, and the pool of HTTP connections to one of them, through a proxy if there is one."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from binascii import b2a_base64
from contextlib import suppress
from ipaddress import ip_address, ip_network
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
# How long an idle connection is kept, unless the server says less: Node and uvicorn close it after
# 5 s, and a request that is sent at that moment is lost.
KEPT_SECONDS = 4.0
KEEPALIVE_SECONDS = 60


class Address:
    """One absolute URL of http or https; `target` is its path with the query.

    `origin` is scheme, host and port, which credentials are bound to; `shown_origin` is its text.
    `shown` is the URL without what may be secret: user, password, and the values of the query.
    """

    __slots__ = (
        *("host", "origin", "password", "port", "scheme", "shown", "shown_origin"),
        *("target", "url", "user"),
    )

    def __init__(self, url: str) -> None:
        """Parse a URL.

        Raises:
            ValueError: it is no URL, or has another scheme.
        """
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:  # whose text may hold parts of a password
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
        """Return the address of a reference that is relative to this one.

        Raises:
            ValueError: it is no URL.
        """
        return Address(urljoin(self.url, reference))


def _in_ascii(text: str) -> str:
    """Return a part of a URL as it is sent: what is not printable ASCII is percent-encoded."""
    octets = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in octets)


def _without_values(query: str) -> str:
    names = [pair.partition("=")[0] for pair in query.split("&")] if query else []
    return f"?{'&'.join(f'{name}={HIDDEN}' for name in names)}" if names else ""


def proxy_for(address: Address, environ: Mapping[str, str]) -> tuple[str, Address] | None:
    """Return the variable that names the proxy for an address, and the proxy; None for none.

    The variables are `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in either case; the lower case
    has precedence, as with curl. This machine itself is never reached through a proxy.

    Raises:
        ValueError: the variable names something else than an HTTP proxy.
    """
    name = f"{address.scheme}_proxy"
    name = name if environ.get(name) else name.upper()
    value = environ.get(name, "").strip()
    if not value or is_this_machine(address.host):
        return None
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    # Separated by commas or white space, as with curl.
    if any(_matches(entry, address) for entry in exceptions.lower().replace(",", " ").split()):
        return None
    if "://" not in value:
        value = f"http://{value}"
    if not value.startswith("http://"):
        kind = value.partition("://")[0]
        raise ValueError(f"{name} names a proxy of the kind {kind}, and only http:// ones work")
    return name, Address(value)


def is_this_machine(host: str) -> bool:
    """Whether a host is a name or an address of this machine."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    with suppress(OSError):  # it reads 127.1, too
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
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


class StrictResponse(http.client.HTTPResponse):
    """A response whose head is read more strictly than by the base class.

    Any number of interim responses (1xx) may come before it (RFC 9110, section 15.2). One whose
    length cannot be read is refused, as its end is not known (RFC 9112, section 6.3).
    """

    def begin(self) -> None:
        """Read status and headers.

        Raises:
            HTTPException: they cannot be read.
        """
        super().begin()
        while self.status < 200:
            self.headers = None  # type: ignore[assignment]  # as before it has begun
            super().begin()
        lengths = {*self.headers.get_all("content-length", ())}
        if not self.chunked and lengths and (len(lengths) > 1 or not lengths.pop().isdecimal()):
            raise http.client.HTTPException("its length cannot be read")


class Connection:
    """One HTTP connection."""

    __slots__ = ("http", "socket", "usable_until")

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.http = connection
        self.socket: Any = connection.sock
        self.usable_until = 0.0
        """When it is closed if it is idle, see `ConnectionPool`."""

    def is_usable(self) -> bool:
        """Whether it is still open, and has sent nothing that was not asked for."""
        if self.http.sock is None or monotonic() > self.usable_until:
            return False
        self.socket.setblocking(False)
        try:
            # Below TLS. Anything that can be read, or the end, makes the connection unusable.
            socket.socket.recv(self.socket, 1, socket.MSG_PEEK)
            return False
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False

    def acknowledge_at_once(self) -> None:
        """Have the next packet acknowledged without delay, where the system has TCP_QUICKACK.

        Some servers write head and body of a response one by one, and send the second when the
        first is acknowledged: 40 ms a call.
        """
        if hasattr(socket, "TCP_QUICKACK"):
            with suppress(OSError):
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def shutdown(self) -> None:
        """Have a thread that reads it see its end."""
        with suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


class ConnectionPool:
    """The connections to one address, and the idle ones among them."""

    def __init__(self, address: Address) -> None:
        """Read from the environment which proxy is used.

        Raises:
            ValueError: the proxy cannot be used.
        """
        self.address = address
        self._proxy = proxy_for(address, os.environ)
        self.where = address.shown
        """The URL, and the proxy on the way to it, to be shown."""
        if self._proxy is not None:
            self.where += f" through the proxy {self._proxy[1].shown} ({self._proxy[0]})"
        self._context: Any = None
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False
        self._is_watched = False
        """Whether a thread closes idle connections when they expire."""

    def acquire(self) -> Connection | None:
        """Return an idle connection that is still open, None if there is none."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or connection.is_usable():
                return connection
            connection.http.close()

    def release(self, connection: Connection, seconds: float) -> None:
        """Take back a connection that is idle, to be kept for at most so long."""
        connection.usable_until = monotonic() + min(seconds, KEPT_SECONDS)
        with self._lock:
            self._idle.append(connection)
            is_watched, self._is_watched = self._is_watched, True
        self._close_expired()
        if not is_watched and start_thread(self._close_expired_in_time) is None:
            self._is_watched = False  # the next release tries again

    def _close_expired_in_time(self) -> None:
        """Close connections when they expire, until none is idle: the server closes its side."""
        is_watched = True
        while is_watched:
            sleep(KEPT_SECONDS)
            self._close_expired()
            with self._lock:
                is_watched = self._is_watched = bool(self._idle)

    def _close_expired(self) -> None:
        now = monotonic()
        with self._lock:
            idle = self._idle
            self._idle = (
                []
                if self._closed
                else [connection for connection in idle if connection.usable_until > now]
            )
            expired = set(idle).difference(self._idle)
        for connection in expired:
            connection.http.close()

    def close(self) -> None:
        """Close the idle connections, and keep none from here on."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.http.close()

    def connect(self) -> Connection:
        """Connect.

        Raises:
            NotSent: there is no connection.
        """
        connection = self._connection()
        connection.response_class = StrictResponse
        try:
            connection.connect()
        except (OSError, ValueError, http.client.HTTPException) as problem:
            connection.close()
            host = self.address.host if self._proxy is None else self._proxy[1].host
            raise NotSent(unreachable(problem, self.where, host, CONNECT_SECONDS)) from None
        sock = connection.sock
        sock.settimeout(None)
        # Else a server that is gone without closing would be waited for for ever.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)
        return Connection(connection)

    def _connection(self) -> http.client.HTTPConnection:
        address, proxy = self.address, self._proxy
        target = address if proxy is None else proxy[1]
        if address.scheme == "http":
            return http.client.HTTPConnection(target.host, target.port, timeout=CONNECT_SECONDS)
        connection = http.client.HTTPSConnection(
            target.host, target.port, timeout=CONNECT_SECONDS, context=self._tls_context()
        )
        if proxy is not None:
            connection.set_tunnel(address.host, address.port, basic_credentials(proxy[1], "Proxy-"))
        return connection

    def _tls_context(self) -> Any:
        """Return the TLS context: it trusts whom the system, or SSL_CERT_FILE, trusts."""
        if self._context is None:
            import ssl

            try:
                self._context = ssl.create_default_context()
            except (OSError, ValueError) as problem:
                what = f"cannot be reached: the system's certificates are of no use: {problem}"
                raise RemoteFault(what) from None
        return self._context

    def request_line(self, target: str) -> str:
        """Return the target of a request line: for a proxy of http, the whole URL."""
        if self._proxy is None or self.address.scheme == "https":
            return target
        return self.address.joined(target).url

    def extra_headers(self) -> Mapping[str, str]:
        """Return the headers that the proxy needs."""
        if self._proxy is None or self.address.scheme == "https":
            return {}
        return basic_credentials(self._proxy[1], "Proxy-")


def basic_credentials(address: Address, prefix: str = "") -> dict[str, str]:
    """Return the user and the password in a URL as a header, {} if it has none."""
    if not address.user and not address.password:
        return {}
    return {f"{prefix}Authorization": basic(address.user, address.password)}


def basic(user: str, password: str) -> str:
    """Return a user and a password as the value of a header Authorization (RFC 7617)."""
    pair = f"{user}:{password}".encode("utf-8", "surrogateescape")
    return f"Basic {b2a_base64(pair, newline=False).decode('ascii')}"
