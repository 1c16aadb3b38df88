#!/usr/bin/env python3
"""A server of the SDK behind a login, and its authorization server, for tests; it prints its URL.

    python3 oauth.py OPTIONS

OPTIONS is a JSON object:
    transport     "sse" or "http"
    lifetime      the seconds of a token, 3600 where it is left out
    registration  false: clients are not registered; there is one, "known" with the secret "s3cret"

Whoever comes to the login is let in at once, so a browser only has to follow. Every access and
refresh token counts once: refreshing replaces both. POST /end ends all logins, /expire all access
tokens; GET /seen tells, as JSON, what the token endpoint was asked for.
"""

from __future__ import annotations

import json
import secrets
import socket
import sys
from time import time
from typing import Any

import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Json = dict[str, Any]


class Logins(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Clients, codes and tokens, in memory."""

    def __init__(self, options: Json) -> None:
        self.options = options
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.seen: list[Json] = []
        if not options.get("registration", True):
            self.clients["known"] = AnyRedirect(
                client_id="known",
                client_secret="s3cret",  # noqa: S106 of this test alone
                token_endpoint_auth_method="client_secret_post",  # noqa: S106
                scope="use",
            )

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            scopes=params.scopes or [],
            expires_at=time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        code = self.codes.pop(authorization_code.code)
        return self.issue("authorization_code", client.client_id, code.scopes, code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.access.clear()
        return self.issue("refresh_token", client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.end()

    def issue(self, grant: str, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        """Return new tokens."""
        self.seen.append({"grant": grant, "client": client, "scopes": scopes, "resource": resource})
        lifetime = self.options.get("lifetime", 3600)
        token, again = (f"{kind}-{secrets.token_hex(16)}" for kind in ("access", "refresh"))
        about: Json = {"client_id": client, "scopes": scopes, "resource": resource}
        self.access[token] = AccessToken(token=token, expires_at=int(time()) + 3600, **about)
        self.refresh[again] = RefreshToken(token=again, **about)
        return OAuthToken(
            access_token=token, refresh_token=again, expires_in=lifetime, scope=" ".join(scopes)
        )

    def end(self) -> None:
        """End all logins."""
        self.access.clear()
        self.refresh.clear()


class AnyRedirect(OAuthClientInformationFull):
    """A client that may be sent back to any port of the machine (RFC 8252, section 7.3)."""

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        assert redirect_uri is not None
        assert redirect_uri.host == "127.0.0.1"
        return redirect_uri


def main() -> None:
    """Serve until killed."""
    options: Json = json.loads(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    sse = options["transport"] == "sse"
    url = f"{origin}/{'sse' if sse else 'mcp'}"
    logins = Logins(options)
    scopes = ["use", "more"]
    server = MCPServer(
        "private",
        auth_server_provider=logins,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(origin),
            resource_server_url=AnyHttpUrl(url),
            required_scopes=["use"],
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(
                enabled=options.get("registration", True),
                valid_scopes=scopes,
                default_scopes=scopes,
            ),
        ),
        log_level="ERROR",
    )

    @server.tool()
    def whoami() -> str:
        """Say which client asks."""
        token = get_access_token()
        return token.client_id if token else "nobody"

    async def end(_: Request) -> Response:
        logins.end()
        return Response()

    async def expire(_: Request) -> Response:
        logins.access.clear()
        return Response()

    async def seen(_: Request) -> Response:
        return JSONResponse(logins.seen)

    print(url, flush=True)
    app = server.sse_app() if sse else server.streamable_http_app()
    app.routes.append(Route("/end", end, methods=["POST"]))
    app.routes.append(Route("/expire", expire, methods=["POST"]))
    app.routes.append(Route("/seen", seen))
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
