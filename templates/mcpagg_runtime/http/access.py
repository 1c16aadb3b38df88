"""Where the proxy is served over HTTP, and which requests are allowed.

Requests of foreign web pages, for names that are not ours, and without the token are refused.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, the security warning
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from mcpagg_runtime.http.exchange import Refused, plain_path
from mcpagg_runtime.launch.variables import MissingVariable, resolve
from mcpagg_runtime.stdio.log_file import is_debug

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.http.exchange import Exchange
    from mcpagg_runtime.plan.plan import Plan

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 3006
DEFAULT_PATH = "/mcp"
# Paths that the endpoint cannot have, since they have other purposes.
RESERVED_PATHS = frozenset({"/sse", "/messages", "/health"})

TOKEN = "MCP_PROXY_AUTH_TOKEN"  # noqa: S105 - the name of the variable
ALLOWED_HOSTS = "MCP_PROXY_ALLOWED_HOSTS"
MAXIMUM_BODY = "MCP_PROXY_MAX_BODY_BYTES"
MAXIMUM_BODY_BYTES = 1 << 24
MAXIMUM_HEADERS = 200
MAXIMUM_HEADER_BYTES = 1 << 16
# The headers that a page of an allowed origin may send, and read of a response.
_PAGES_SEND = (
    "authorization, content-type, accept, last-event-id, mcp-protocol-version, mcp-session-id, "
    "mcp-method, mcp-name"
)
_PAGES_READ = "mcp-session-id, mcp-protocol-version, www-authenticate"


class BadSetting(Exception):
    """Raised for a setting that cannot be used; the text says which, and what to do."""


class Settings:
    """Where to serve, and to whom.

    The command line has precedence, then the config's `serverTransport`, then the environment.
    """

    def __init__(
        self, plan: Plan, environ: Mapping[str, str], given: Mapping[str, Any] = {}
    ) -> None:
        """`given` has `host`, `port` and `path` if the command line gives them.

        Raises:
            BadSetting: one cannot be used.
        """
        config = {**(plan.options.http or {}), **given}
        host: str = config.get("host") or environ.get("HOST") or DEFAULT_HOST
        self.host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        """Without the brackets of an IPv6 address."""
        self.port = _port(config.get("port", environ.get("PORT") or DEFAULT_PORT))
        path: str = config.get("path") or environ.get("MCP_PROXY_PATH") or DEFAULT_PATH
        self.path = plain_path(path)
        if not path.startswith("/") or self.path in RESERVED_PATHS:
            taken = ", ".join(sorted(RESERVED_PATHS))
            raise BadSetting(
                f"the path {path!r} cannot be used: write one as /mcp or /, none of {taken}"
            )
        self.token = _token(config.get("token"), environ)
        """The bearer token that every request needs, "" for none."""
        named = [name.strip().lower() for name in environ.get(ALLOWED_HOSTS, "").split(",")]
        bound = [] if is_wildcard(self.host) else [self.host.lower()]
        # In the variable, an IPv6 address may stand without brackets.
        self.hosts = LOCAL_NAMES.union(host_of(name) or name for name in (*named, *bound) if name)
        """The names under which clients reach the proxy, in lower case and without ports."""
        limit = environ.get(MAXIMUM_BODY, "") or str(MAXIMUM_BODY_BYTES)
        if not (limit.isascii() and limit.isdigit()):
            raise BadSetting(f"{MAXIMUM_BODY} is no number of bytes: {limit!r}")
        self.maximum_body = int(limit)
        """How large the body of a request may be, in bytes."""
        self.is_verbose = is_debug(environ)
        """Whether the log, if there is one, has a line for each request."""
        self.ends_with_clients = (
            config.get("type") == "sse" and environ.get("KEEP_SERVER_OPEN") != "1"
        )
        """Whether the proxy ends when its last client has left."""

    def check_address(self) -> None:
        """Check that a token is needed where other machines can connect.

        Raises:
            BadSetting: there is no token.
        """
        if not self.token and not is_local(self.host):
            raise BadSetting(
                f"{self.host} can be reached by others, so clients need a token: set {TOKEN}, "
                "or serve 127.0.0.1"
            )


class Guard:
    """Refuses requests that are not allowed, on every path."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = settings.hosts
        self._token = settings.token.encode("utf-8", "surrogateescape")

    def check_origin(self, exchange: Exchange) -> None:
        """Check that a request is for a name of ours, and from no foreign web page.

        A page can have its own name resolve to our address (DNS rebinding); the browser then takes
        us for the page's server, but sends that name in `Host`.

        Raises:
            Refused: it is not, or its headers are too large.
        """
        size = sum(len(name) + len(value) for name, value in exchange.headers)
        if size > MAXIMUM_HEADER_BYTES or len(exchange.headers) > MAXIMUM_HEADERS:
            raise Refused(431, "The headers are too large", headers={"connection": "close"})
        hosts, origins = exchange.header_values("host"), exchange.header_values("origin")
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
        # The address that the request came to is allowed as a name, too.
        server = exchange.server
        at = server[0].lower() if server is not None and server[1] is not None else ""
        return bool(name) and name == at

    def check_token(self, exchange: Exchange) -> None:
        """Check the token of a request; where there is none, only this machine may connect.

        Raises:
            Refused: it does not.
        """
        if self.is_authorized(exchange):
            return
        if self._token:
            refusal = {"www-authenticate": "Bearer"}
            raise Refused(401, "A bearer token is needed", headers=refusal)
        raise Refused(403, f"Others can reach this address: set {TOKEN} where it is served")

    def is_authorized(self, exchange: Exchange) -> bool:
        """Whether a request may use the servers; the token is compared in constant time."""
        if not self._token:
            return _is_local_request(exchange)
        scheme, _, token = exchange.header("authorization").partition(" ")
        given = token.strip().encode("latin-1")
        return scheme.lower() == "bearer" and hmac.compare_digest(given, self._token)


def preflight(exchange: Exchange) -> dict[str, str]:
    """Return the headers of a CORS preflight response; the origin was checked."""
    asked = exchange.header("access-control-request-headers").lower()
    mirrored = [name.strip() for name in asked.split(",") if name.strip().startswith("mcp-param-")]
    return {
        "access-control-allow-methods": "GET, POST, DELETE",
        "access-control-allow-headers": ", ".join([_PAGES_SEND, *mirrored]),
        "access-control-max-age": "600",
    }


def _is_local_request(exchange: Exchange) -> bool:
    server = exchange.server
    return server is not None and (server[1] is None or is_local(server[0]))


def host_of(authority: str) -> str:
    """Return the host of an authority, without its port and in lower case; "" for what is none."""
    authority = authority.strip().lower()
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
    else:
        host, mark, port = authority.partition(":")
        port = mark + port
    return host if port[:1] in ("", ":") and not port[1:].strip("0123456789") else ""


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host.lower() in LOCAL_NAMES or _is_loopback(host)


def is_wildcard(host: str) -> bool:
    """Whether an address stands for all addresses of the machine."""
    return host in ("0.0.0.0", "::", "")  # noqa: S104 - recognised, never the default


def _is_loopback(host: str) -> bool:
    parts = host.removeprefix("::ffff:").split(".")
    return len(parts) == 4 and parts[0] == "127" and all(part.isdigit() for part in parts)


def _port(config: object) -> int:
    text = str(config)
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise BadSetting(f"the port {text!r} is not a number from 0 to 65535")
    return int(text)


def _token(reference: str | None, environ: Mapping[str, str]) -> str:
    """Return the token that the config refers to, else that of the environment."""
    if reference is None:
        return environ.get(TOKEN, "")
    try:
        token = resolve(reference, environ.get)
    except MissingVariable as missing:
        why = f"serverTransport.auth.token needs the variable {missing.name}, which is not set"
        raise BadSetting(why) from None
    if not token:
        raise BadSetting("serverTransport.auth.token is empty")
    return token
