"""Requests to one remote server: its headers, cookies and login, redirects within its origin."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

from mcpagg_runtime.remote.connections import Address, ConnectionPool, basic_credentials
from mcpagg_runtime.remote.cookies import Cookies
from mcpagg_runtime.remote.faults import (
    FORBIDDEN,
    UNAUTHORIZED,
    NotSent,
    RemoteFault,
    broken,
    lacking_scope,
    redirected,
    shortened,
)
from mcpagg_runtime.remote.responses import ACCEPTED_ENCODINGS, EVENT_STREAM, Response, Transfer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.remote.login import Credentials

    class SessionOwner(Protocol):
        """What a session reports to: see `RemoteConnection`."""

        def on_message(self, text: bytes, transfer: Transfer) -> None:
            """Pass on JSON that came by a transfer."""

        def on_session_renewed(self) -> None:
            """Report that the server had lost the session, and that there is a new one."""

        def is_closing(self, seconds: float) -> bool:
            """Wait so long, or until the connection closes; return whether it does."""


ACCEPT = {"Accept": f"application/json, {EVENT_STREAM}", "Content-Type": "application/json"}
MAXIMUM_REDIRECTS = 5
# The body stays with the request, and with its method; other redirects would make a GET of it.
KEPT_METHOD = (307, 308)
REDIRECTS = (301, 302, 303, *KEPT_METHOD)
# How long a server may take over a message that needs no answer.
POST_SECONDS = 60.0


class HttpClient:
    """Makes requests to one server: it has its address, headers, cookies and connections.

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
        self._pool = ConnectionPool(self.address)
        self.where = self._pool.where
        """The URL, to be shown."""
        own = {"User-Agent": agent, "Accept-Encoding": ACCEPTED_ENCODINGS}
        own.update(basic_credentials(self.address))
        self._headers = {
            **own,
            **{name: _header_value(name, value) for name, value in headers.items()},
        }
        self._cookies = Cookies()
        given = any(name.lower() == "authorization" for name in self._headers)
        self._credentials = None if given else credentials

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def request(
        self,
        transfer: Transfer,
        method: str,
        headers: Mapping[str, str],
        message: Message | None = None,
        *,
        target: Address | None = None,
        seconds: float | None = None,
    ) -> Response:
        """Make a request, follow redirects within the origin, and return the response.

        Where there is a login, the request carries its token; if the server refuses that, the
        request is made once more with a refreshed one. `target` is another address of the same
        origin. `seconds` limit each wait for the server, None for no limit.

        Raises:
            NotSent: the server cannot have got the request.
            RemoteFault: it may have, and there is no response; or it wants a login.
        """
        body = None if message is None else message.line()[:-1]
        first = target or self.address

        def send(token: str | None) -> Response:
            bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
            address = first
            for _ in range(MAXIMUM_REDIRECTS):
                merged = self._merged_headers({**headers, **bearer}, address)
                response = self._send(transfer, method, address, merged, body, seconds)
                location = response.headers.get("location")
                if response.status not in REDIRECTS or not location:
                    return response
                response.close()
                address = self._redirect_target(method, response, address, location)
            raise RemoteFault(f"redirects in a circle from {self.where}")

        credentials = self._credentials
        if credentials is None:
            return send(None)
        token = credentials.token(self.where)
        response = send(token)
        scope = lacking_scope(response.headers) if response.status == FORBIDDEN else ""
        if scope and token is not None:
            response.close()
            raise credentials.lacks_scope(scope, self.where)
        if response.status != UNAUTHORIZED:
            return response
        # A request that was refused was not acted upon, so it may be made again.
        response.close()
        return send(credentials.refreshed(token, self.where))

    def _merged_headers(self, headers: Mapping[str, str], address: Address) -> dict[str, str]:
        """Return all headers of a request, each name once."""
        sources = (self._headers, headers, self._pool.extra_headers())
        by_name = {name.lower(): (name, each[name]) for each in sources for name in each}
        _, own = by_name.get("cookie", ("", ""))
        if cookies := self._cookies.header(address, own):
            by_name["cookie"] = ("Cookie", cookies)
        return dict(by_name.values())

    def _redirect_target(
        self, method: str, response: Response, address: Address, location: str
    ) -> Address:
        """Return the address that a redirect leads to.

        Raises:
            RemoteFault: it is not followed.
        """
        try:
            to = address.joined(location)
        except ValueError:
            what = f"redirects ({response.status}) from {self.where} to what is no URL"
            raise RemoteFault(what, response.status) from None
        if to.origin != self.address.origin:
            what = redirected(response.status, to.shown_origin, self.where)
            raise RemoteFault(what, response.status)
        if method != "GET" and response.status not in KEPT_METHOD:
            what = f"redirects ({response.status}) from {self.where} to {shortened(to.shown)}"
            raise RemoteFault(f"{what}; write that URL", response.status)
        return to

    def _send(
        self,
        transfer: Transfer,
        method: str,
        address: Address,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float | None,
    ) -> Response:
        pool = self._pool
        while True:
            kept = pool.acquire()
            connection = kept or pool.connect()
            transfer.use(connection)
            if transfer.cancelled:
                connection.http.close()
                raise NotSent("is not asked any more")
            connection.socket.settimeout(seconds)
            try:
                line = pool.request_line(address.target)
                connection.http.request(method, line, body, {**headers})
            except OSError:
                if kept is not None:
                    # The server had closed it, and cannot act upon half a request.
                    connection.http.close()
                    continue
                # A server may refuse a request before it has read all of it, and say why.
            break
        transfer.sent.set()
        connection.acknowledge_at_once()
        try:
            response = connection.http.getresponse()
        except (OSError, ValueError, http.client.HTTPException) as problem:
            transfer.use(None)
            connection.http.close()
            raise RemoteFault(broken(problem, self.where)) from None
        self._cookies.accept(response.headers.get_all("set-cookie", ()), address)
        return Response(pool, connection, response, transfer)


def _header_value(name: str, value: str) -> str:
    """Return the value of a header as it is sent.

    Raises:
        ValueError: it cannot be sent.
    """
    value = value.strip()
    if not value.isprintable() or not name.isascii() or not name.isprintable() or ":" in name:
        raise ValueError(f"its header {name!r} holds a character that cannot be sent")
    return value.encode("utf-8").decode("latin-1")
