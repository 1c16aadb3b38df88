"""Logging in at a remote server, once for all its proxies: `mcpagg-compile --login NAME`.

The flow of the protocol runs on the client of the SDK: the metadata of the server and of its
authorization server (RFC 9728, 8414), a client's id from the config or by registration (RFC 7591),
PKCE, and a redirect to a port of this machine. What comes of it is kept by `Login` of the runtime.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from mcpagg.options import Source
from mcpagg.passes.config import read_config
from mcpagg.passes.environment.environment import check_environment
from mcpagg.passes.environment.faces import originals
from mcpagg.problems import ChildFault, ConfigError, EnvironmentFault, Problem
from mcpagg.spec import OAuth, ServerSpec
from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.launch.variables import MissingVariable, resolve
from mcpagg_runtime.remote.connections import is_this_machine
from mcpagg_runtime.remote.faults import shortened
from mcpagg_runtime.remote.login import Login, issued, unsafe
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS

LOGIN_SECONDS = 600.0
REQUEST_SECONDS = 30.0
METADATA = "/.well-known/"
"""What stands in the path of all metadata (RFC 8615)."""
CHALLENGE_METHOD = "S256"
USUAL_PORT = 8765
"""What is proposed for the redirect of a client that a person registers."""
PAGE = "<!doctype html><title>mcpagg</title><p>{}. You can close this page."


def log_in(
    source: Source, name: str, environ: Mapping[str, str], show: Callable[[str], None]
) -> str:
    """Log in at server `name` of a config, and keep the login; return what came of it.

    `show` is called with what a person has to know meanwhile: the URL at which to log in, as a
    browser is opened there.

    Raises:
        ConfigError: there is no such server, or nothing to log in at.
        EnvironmentFault: a variable that its entry refers to is not set.
        ChildFault: the login failed.
    """
    # Whoever asks the SDK's loggers gets tracebacks of what is said here in a line.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    server, launch, oauth = _resolved_server(source, name, environ)
    try:
        flow = _flow(server, launch, oauth, show)
        record = asyncio.run(asyncio.wait_for(flow, LOGIN_SECONDS))
        return _save(launch.url, record) if record else "asks for no login"
    except TimeoutError:
        what = f"nobody has logged in within {LOGIN_SECONDS:g} s"
    except (OAuthFlowError, httpx2.HTTPError, ValueError, OSError) as problem:
        what = f"the login failed: {launch.redact(str(problem) or type(problem).__name__)}"
    raise ChildFault(source.name, [Problem(server.path, " ".join(what.split()))])


def _resolved_server(
    source: Source, name: str, environ: Mapping[str, str]
) -> tuple[ServerSpec, Launch, OAuth]:
    """Return the server to log in at, where it is, and how to log in, with values for references.

    Raises:
        ConfigError, EnvironmentFault: see `log_in`.
    """
    spec, _ = read_config(
        source.text,
        source=source.name,
        folder=source.folder,
        only=(name,),
        defines=source.options.defines,
        allow_secrets=True,  # nothing of it is written
        original=originals(source),
    )
    ready, _ = check_environment(spec, environ)
    (server,) = ready.servers
    launch = ready.launches([name], environ)[name]
    if server.transport == "stdio":
        what = "is started as a program, which logs in by itself"
    elif any(header.lower() == "authorization" for header in launch.headers):
        what = "has a header Authorization, and needs no login"
    else:
        return server, launch, _resolved_oauth(source, server, environ)
    raise ConfigError(source.name, [Problem(server.path, what)])


def _resolved_oauth(source: Source, server: ServerSpec, environ: Mapping[str, str]) -> OAuth:
    """Return how to log in with values for references.

    Raises:
        EnvironmentFault: a variable is not set.
    """
    oauth = server.oauth
    try:
        return replace(
            oauth,
            client_id=resolve(oauth.client_id, environ.get),
            client_secret=resolve(oauth.client_secret, environ.get),
        )
    except MissingVariable as missing:
        what = f"server '{server.name}' needs the variable {missing.name}, which is not set"
        raise EnvironmentFault(source.name, [Problem(server.path, what, "export it")]) from None


def _save(url: str, record: dict[str, Any]) -> str:
    """Keep a login in the system's keyring, if there is one, else in a file; say where.

    Raises:
        OSError: it cannot be kept.
    """
    login = Login(url)
    if importlib.util.find_spec("keyring") is not None:
        try:
            login.save(record, keyring=sys.executable)
        except OSError:  # a machine without a desktop has none
            pass
        else:
            return "logged in; the login is kept in the keyring of the system"
    login.save(record)
    return f"logged in; the login is kept in {login.path}"


async def _flow(
    server: ServerSpec, launch: Launch, oauth: OAuth, show: Callable[[str], None]
) -> dict[str, Any] | None:
    """Run the flow; return what `Login` keeps, None if the server lets everybody in.

    Raises:
        OAuthFlowError, ValueError: it fails.
        httpx2.HTTPError, OSError: a server cannot be reached.
    """
    async with _Redirect(oauth.port, show) as redirect:
        provider = _Provider(launch.url, oauth, redirect)
        async with httpx2.AsyncClient(
            auth=provider,
            headers={**launch.headers, "MCP-Protocol-Version": LEGACY_VERSIONS[0]},
            timeout=REQUEST_SECONDS,
            event_hooks={"request": [provider.check], "response": []},
        ) as client:
            # Whatever it answers, who must log in sees that first.
            method = "GET" if server.transport == "sse" else "POST"
            try:
                async with client.stream(method, launch.url, json={}) as response:
                    status = response.status_code
            except OAuthRegistrationError as refusal:
                raise OAuthFlowError(
                    provider.unregistered(f" ({shortened(str(refusal))})")
                ) from None
    if status in (401, 403):
        raise OAuthFlowError(f"it takes no token that it was given: HTTP {status}")
    return provider.record()


class _Provider(OAuthClientProvider):
    """The SDK's client of the flow; it stores nothing."""

    def __init__(self, url: str, oauth: OAuth, redirect: _Redirect) -> None:
        uri = AnyUrl(redirect.uri)
        super().__init__(
            url,
            OAuthClientMetadata(
                client_name="mcpagg",
                redirect_uris=[uri],
                token_endpoint_auth_method="none",  # noqa: S106 - a program on a desktop keeps no secret
            ),
            _InitialStorage(oauth, uri),
            self._open_browser,
            redirect.wait_for_code,
        )
        self._oauth = oauth
        self._redirect = redirect

    async def check(self, request: httpx2.Request) -> None:
        """Refuse a request to a URL that is not safe, whoever named it.

        With metadata, and without a client, the only POST is that which registers a client.

        Raises:
            OAuthFlowError: the request must not be sent.
        """
        self.refuse_unsafe(str(request.url))
        metadata = self.context.oauth_metadata
        if metadata is not None and self.context.client_info is None and request.method == "POST":
            self.refuse_without_challenge()
            if metadata.registration_endpoint is None:
                raise OAuthFlowError(self.unregistered())

    def unregistered(self, why: str = "") -> str:
        """Say that no client was registered, and what to do."""
        context, metadata = self.context, self.context.oauth_metadata
        where = (
            metadata.issuer if metadata else context.get_authorization_base_url(context.server_url)
        )
        port = self._oauth.port or USUAL_PORT
        what = f"the authorization server {where} registers no client for this program{why}"
        uri = f"http://127.0.0.1:{port}/callback"
        remedy = f"register one there with the redirect {uri}, a public one or one with a secret"
        if metadata is not None and metadata.client_id_metadata_document_supported:
            remedy += f", or publish a client metadata document with {uri}, whose URL is the id"
        member = f'"oauth": {{"clientId": "…", "callbackPort": {port}}}'
        return f"{what}; {remedy}, and write {member} into its entry"

    def refuse_without_challenge(self) -> None:
        """Refuse an authorization server that does not say that it takes PKCE.

        Clients must (2025-11-25, authorization code protection). Without any metadata there is no
        place where it could be said: that is a server of an older revision.

        Raises:
            OAuthFlowError: it is one.
        """
        metadata = self.context.oauth_metadata
        if metadata is None:
            return
        if CHALLENGE_METHOD not in (metadata.code_challenge_methods_supported or ()):
            what = f"does not say that it takes PKCE with {CHALLENGE_METHOD}"
            where = "`code_challenge_methods_supported` of its metadata"
            raise OAuthFlowError(
                f"the authorization server {metadata.issuer} {what} ({where}), "
                "without which a code that is stolen lets others in: whoever runs it must mend that"
            )

    async def _open_browser(self, url: str) -> None:
        self.refuse_unsafe(url)
        await self._redirect.open_browser(url)

    def refuse_unsafe(self, url: str) -> None:
        """Refuse a URL to which no part of the login may be sent: see `unsafe`.

        On this machine, the only safe URLs are those of the server, and of the authorization server
        that it names, once that has shown by its metadata that it is one.

        Raises:
            OAuthFlowError: the URL is not safe.
        """
        context = self.context
        parts = urlsplit(url)
        place = f"{parts.scheme}://{parts.hostname}"
        if why := unsafe(url, context.server_url):
            raise OAuthFlowError(f"{place} {why}")
        issuer = urlsplit(context.auth_server_url or context.server_url)
        is_asked = parts.netloc == issuer.netloc and (
            context.oauth_metadata is not None or METADATA in parts.path
        )
        is_own = parts.netloc == urlsplit(context.server_url).netloc
        if is_this_machine(parts.hostname or "") and not (is_own or is_asked):
            what = "is of this machine, and neither the server nor its authorization server"
            raise OAuthFlowError(f"{place}:{parts.port} {what}")

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        self.refuse_without_challenge()
        if self._oauth.scopes:  # the SDK takes those that the metadata say
            self.context.client_metadata.scope = self._oauth.scopes
        return await super()._perform_authorization_code_grant()

    def record(self) -> dict[str, Any] | None:
        """Return what `Login` keeps, None without a token."""
        context = self.context
        if context.current_tokens is None or context.client_info is None:
            return None
        metadata, client = context.oauth_metadata, context.client_info
        origin = context.get_authorization_base_url(context.server_url)
        record: dict[str, Any] = {
            "server": urljoin(context.server_url, "?").rstrip("?"),
            "token_endpoint": str(metadata.token_endpoint if metadata else f"{origin}/token"),
            "client_id": client.client_id,
            "client_secret": client.client_secret,
            "auth_method": client.token_endpoint_auth_method,
            **issued(context.current_tokens.model_dump(mode="json")),
        }
        if context.should_include_resource_param(context.protocol_version):
            record["resource"] = context.get_resource_url()
        return {key: value for key, value in record.items() if value is not None}


class _InitialStorage:
    """The storage of the SDK, as the flow begins: no token, and the client of the config if any."""

    def __init__(self, oauth: OAuth, redirect: AnyUrl) -> None:
        self._oauth = oauth
        self._redirect = redirect

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if not self._oauth.client_id:
            return None
        secret = self._oauth.client_secret or None
        return OAuthClientInformationFull(
            client_id=self._oauth.client_id,
            client_secret=secret,
            token_endpoint_auth_method="client_secret_post" if secret else "none",
            redirect_uris=[self._redirect],
        )

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass


class _Redirect:
    """The redirect URI of a login: a port of this machine, which no other machine can reach."""

    def __init__(self, port: int, show: Callable[[str], None]) -> None:
        self.uri = ""
        self._port = port
        self._show = show
        self._state = ""
        self._has_reported = False
        """Whether it was said that somebody came back who was not sent."""

    async def __aenter__(self) -> _Redirect:
        self._found: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        port = self._listener.sockets[0].getsockname()[1]
        self.uri = f"http://127.0.0.1:{port}/callback"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()

    async def open_browser(self, url: str) -> None:
        """Send a person to the authorization server."""
        self._state = parse_qs(urlsplit(url).query)["state"][0]
        self._show(f"log in with your browser; if none opens, go to {url}")
        # A browser of the terminal returns only when it is left.
        self._browsing = asyncio.create_task(asyncio.to_thread(webbrowser.open, url))

    async def wait_for_code(self) -> AuthorizationCodeResult:
        """Wait until the person is sent back."""
        answer = await self._found
        if "code" not in answer:
            raise OAuthFlowError(f"the authorization server refused: {answer.get('error')}")
        return AuthorizationCodeResult(
            code=answer["code"], state=answer["state"], iss=answer.get("iss")
        )

    def _report_stranger(self) -> None:
        """Say once that a request was not believed: another program or page may guess."""
        if not self._has_reported:
            self._has_reported = True
            what = "a request came back with a `state` that is not of this login"
            self._show(f"{what}: it was not believed, and the login goes on")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; what does not know the state of this login has no say in it."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(head.split()[1].decode("ascii"))
            answer = {key: values[0] for key, values in parse_qs(target.query).items()}
            ours = target.path == "/callback" and answer.get("state") == self._state != ""
            if ours and not self._found.done():
                self._found.set_result(answer)
            elif target.path == "/callback" and not ours:
                self._report_stranger()
            outcome = "Logged in" if "code" in answer else "Not logged in"
            page = PAGE.format(outcome if ours else "Nothing is here").encode("ascii")
            status = "200 OK" if ours else "404 Not Found"
            lines = [
                f"HTTP/1.1 {status}",
                "Content-Type: text/html",
                f"Content-Length: {len(page)}",
                "Connection: close",
                "",
                "",
            ]
            writer.write("\r\n".join(lines).encode("ascii") + page)
            await writer.drain()
        except (ValueError, IndexError, EOFError, asyncio.LimitOverrunError, OSError):
            pass  # no request of a browser
        finally:
            writer.close()
