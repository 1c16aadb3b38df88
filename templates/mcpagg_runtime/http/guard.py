"""Who may ask: refuses requests of web pages, of names that are not ours, and without the token.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, the security warning
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from mcpagg_runtime.http.exchange import Refused
from mcpagg_runtime.http.settings import TOKEN, host_of, is_local

if TYPE_CHECKING:
    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.http.settings import Settings

MAXIMUM_HEADERS = 200
MAXIMUM_HEADER_BYTES = 1 << 16
# What a page of an allowed origin may send, and read of an answer.
_PAGES_SEND = (
    "authorization, content-type, accept, last-event-id, mcp-protocol-version, mcp-session-id, "
    "mcp-method, mcp-name"
)
_PAGES_READ = "mcp-session-id, mcp-protocol-version, www-authenticate"


class Guard:
    """Refuses who must not ask, on every path."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = settings.hosts
        self._token = settings.token.encode("utf-8", "surrogateescape")

    def check_origin(self, exchange: Exchange) -> None:
        """See that a request is for us, and from no foreign web page.

        A page can have its own name resolve to our address: the browser then takes us for the
        page's server, but says the name in `Host`.

        Raises:
            Refused: it is not, or its headers are too large.
        """
        size = sum(len(name) + len(value) for name, value in exchange.headers)
        if size > MAXIMUM_HEADER_BYTES or len(exchange.headers) > MAXIMUM_HEADERS:
            raise Refused(431, "The headers are too large", headers={"connection": "close"})
        hosts, origins = exchange.all("host"), exchange.all("origin")
        if len(hosts) != 1 or not self._is_ours(host_of(hosts[0]), exchange):
            raise Refused(403, "Host is not a name of this server; see MCP_PROXY_ALLOWED_HOSTS")
        for origin in origins:
            scheme, mark, authority = origin.partition("://")
            if not (mark and scheme in ("http", "https")) or len(origins) > 1:
                raise Refused(403, "Origin is not allowed")
            if not self._is_ours(host_of(authority), exchange):
                raise Refused(403, "Origin is not allowed")
            exchange.common.update(
                {
                    "access-control-allow-origin": origin,
                    "access-control-expose-headers": _PAGES_READ,
                    "vary": "origin",
                }
            )

    def _is_ours(self, name: str, exchange: Exchange) -> bool:
        if name in self._hosts:
            return True
        # Whoever knows the very address that the request came to needs no name; "" is no name.
        server = exchange.server
        at = server[0].lower() if server is not None and server[1] is not None else ""
        return bool(name) and name == at

    def check_token(self, exchange: Exchange) -> None:
        """See that a request carries the token; without one, only this machine may ask.

        Raises:
            Refused: it does not.
        """
        if self._token:
            if not self.knows(exchange):
                refusal = {"www-authenticate": "Bearer"}
                raise Refused(401, "A bearer token is needed", headers=refusal)
        elif not _came_locally(exchange):
            raise Refused(403, f"Others can reach this address: set {TOKEN} where it is served")

    def knows(self, exchange: Exchange) -> bool:
        """Whether a request carries the token, if one is needed; compared in constant time."""
        scheme, _, token = exchange.header("authorization").partition(" ")
        given = token.strip().encode("latin-1")
        return not self._token or (
            scheme.lower() == "bearer" and hmac.compare_digest(given, self._token)
        )


def preflight(exchange: Exchange) -> dict[str, str]:
    """Return the headers that tell a browser what a page may send; its origin was checked."""
    asked = exchange.header("access-control-request-headers").lower()
    mirrored = [name.strip() for name in asked.split(",") if name.strip().startswith("mcp-param-")]
    return {
        "access-control-allow-methods": "GET, POST, DELETE",
        "access-control-allow-headers": ", ".join([_PAGES_SEND, *mirrored]),
        "access-control-max-age": "600",
    }


def _came_locally(exchange: Exchange) -> bool:
    server = exchange.server
    return server is not None and (server[1] is None or is_local(server[0]))
