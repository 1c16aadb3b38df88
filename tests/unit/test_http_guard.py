"""Who may ask over HTTP, how much, and what all are told of the proxy's health and end."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgi import Answer, Site, run
from core import call, request, result

from mcpagg_runtime.http.access import BadSetting, Settings
from mcpagg_runtime.http.app import GRACE_SECONDS
from mcpagg_runtime.http.exchange import BODY_SECONDS
from mcpagg_runtime.http.serving import _url, listen

SERVERS = {"db": ["query"], "web": ["fetch"]}
PATHS = (("POST", "/mcp"), ("GET", "/sse"), ("POST", "/messages"), ("GET", "/health"), ("GET", "/"))
TOKEN = {"MCP_PROXY_AUTH_TOKEN": "s3cret"}


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example.com"},
        {"host": ""},
        {"host": ["localhost", "localhost"]},
        {"host": "localhost.evil.example.com:3006"},
        {"host": "localhost:x@evil.example.com"},
        {"host": "[::1]evil.example.com"},
        {"origin": "http://evil.example.com"},
        {"origin": "null"},
        {"origin": "file://localhost"},
        {"origin": "localhost"},
        {"origin": "http://"},
        {"origin": "http://localhost:x@evil.example.com"},
        {"origin": ["http://localhost", "http://localhost"]},
    ],
)
def test_foreign_pages_and_names_are_refused_on_every_path(
    method: str, path: str, headers: dict[str, Any]
) -> None:
    async def scenario(site: Site) -> None:
        answer = site.fetch(method, path, headers)
        assert await answer.status() == 403
        assert (await answer.json())["error"]["code"] == -32600
        assert "access-control-allow-origin" not in answer.headers

    run(SERVERS, scenario, environ={"MCP_PROXY_ALLOWED_HOSTS": " ,"})


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1"},
        {"host": "[::1]:3006"},
        {"host": "LOCALHOST:1"},
        {"host": "10.1.2.3:3006"},
        {"host": "mcp.example.com"},
        {"origin": "http://localhost:6274"},
        {"origin": "https://mcp.example.com"},
    ],
)
def test_our_own_names_are_served(headers: dict[str, str]) -> None:
    async def scenario(site: Site) -> None:
        answer = site.fetch("GET", "/health", headers, server=("10.1.2.3", 3006))
        assert await answer.status() == 200
        assert answer.headers.get("access-control-allow-origin") == headers.get("origin")

    run(SERVERS, scenario, environ={"MCP_PROXY_ALLOWED_HOSTS": "mcp.example.com:443, , other"})


def test_a_browser_is_told_what_a_page_may_send() -> None:
    async def scenario(site: Site) -> None:
        headers = {
            "origin": "http://localhost:6274",
            "access-control-request-headers": "mcp-param-region, x-other",
        }
        answer = site.fetch("OPTIONS", "/mcp", headers)
        assert await answer.status() == 204
        allowed = answer.headers["access-control-allow-headers"]
        assert "mcp-session-id" in allowed
        assert "mcp-param-region" in allowed
        assert "x-other" not in allowed

    run(SERVERS, scenario, environ=TOKEN)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("Bearer s3cret", 200),
        ("bearer s3cret", 200),
        ("Bearer s3cret2", 401),
        ("Bearer ", 401),
        ("Basic s3cret", 401),
        ("Bearer s\xe9cret", 401),
        ("", 401),
    ],
)
def test_every_request_carries_the_token(given: str, status: int) -> None:
    async def scenario(site: Site) -> None:
        hello = request(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        answer = site.post(hello, authorization=given)
        assert await answer.status() == status
        if status == 401:
            assert answer.headers["www-authenticate"] == "Bearer"
            return
        session = answer.headers["mcp-session-id"]
        unknown = site.post(request(1, "ping"), "bogus", authorization=given)
        assert await unknown.status() == 404
        wrong = site.post(request(1, "ping"), session, authorization="Bearer wrong")
        assert await wrong.status() == 401

    run(SERVERS, scenario, environ=TOKEN)


@pytest.mark.parametrize(
    ("server", "status"),
    [
        (("127.0.0.1", 80), 404),
        (("127.8.8.8", 80), 404),
        (("::1", 80), 404),
        (("/run/proxy.sock", None), 404),
        (("10.0.0.1", 80), 403),
        (("0.0.0.0", 80), 403),  # noqa: S104
        (("/run/proxy.sock", 80), 403),
        (None, 403),
    ],
)
def test_without_a_token_this_machine_alone_is_served(
    server: tuple[str, int | None] | None, status: int
) -> None:
    async def scenario(site: Site) -> None:
        assert await site.fetch("GET", "/nothing", server=server).status() == status

    run(SERVERS, scenario)


def test_a_body_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpagg_runtime.http.exchange.MAXIMUM_DISCARDED_BYTES", 1 << 20)

    async def scenario(site: Site) -> None:
        session = await site.session()
        large = json.dumps(call(1, "db:query", {"x": "y" * (1 << 19)})).encode()
        answer = site.post(large, session)
        await site.rest()
        db = site.up("db")
        [asked] = site.received(db)
        site.say(db, result(asked["id"], {}))
        assert await answer.json() == result(1, {})
        headers = {"content-type": "application/json", "mcp-session-id": session}
        said = {**headers, "content-length": str(1 << 30)}
        for refused, closes in (
            (site.fetch("POST", headers=said), True),
            (site.fetch("POST", headers=headers, chunks=[b"x" * (1 << 16)] * 20), False),
            (site.fetch("POST", headers=headers, chunks=[b"x" * (1 << 16)] * 40), True),
        ):
            assert await refused.status() == 413
            assert ("connection" in refused.headers) is closes
            assert (await refused.json())["error"]["code"] == -32600

    run(SERVERS, scenario, environ={"MCP_PROXY_MAX_BODY_BYTES": str(1 << 20)})


def test_a_body_that_does_not_arrive_is_not_waited_for() -> None:
    async def scenario(site: Site) -> None:
        answer = site.post(request(1, "ping"))
        answer._chunks.clear()
        await site.rest()
        await site.later(BODY_SECONDS)
        assert await answer.status() == 408

    run(SERVERS, scenario)


@pytest.mark.parametrize("headers", [{"x": "y" * 70_000}, {"x": ["y"] * 300}])
def test_headers_have_a_limit(headers: dict[str, Any]) -> None:
    async def scenario(site: Site) -> None:
        assert await site.fetch("GET", "/health", headers).status() == 431

    run(SERVERS, scenario)


@pytest.mark.parametrize("path", ["/health", "/nothing"])
def test_a_client_that_has_left_is_no_fault(
    path: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def left(self: Answer, message: Any) -> None:
        raise ConnectionResetError

    async def scenario(site: Site) -> None:
        monkeypatch.setattr(Answer, "_send", left)
        await site.fetch("GET", path).hang_up()

    run(SERVERS, scenario)
    assert capfd.readouterr().err == ""


def test_health_tells_states_to_those_who_may_use_the_servers() -> None:
    async def scenario(site: Site) -> None:
        assert await site.fetch("GET", "/health").json() == {"status": "ok"}
        token = {"authorization": "Bearer s3cret"}
        healthy = site.fetch("GET", "/health", token)
        states = {"db": "created", "web": "created"}
        assert await healthy.json() == {"status": "ok", "servers": states, "sessions": 0}

    run(SERVERS, scenario, environ=TOKEN)


@pytest.mark.parametrize(
    ("host", "server", "knows"),
    [
        ("localhost", ("127.0.0.1", 3006), True),
        ("[::1]:3006", ("::1", 3006, 0, 0), True),
        ("10.0.0.1:3006", ("10.0.0.1", 3006), False),
        ("localhost", None, False),
    ],
)
def test_without_a_token_health_tells_states_to_this_machine_alone(
    host: str, server: Any, knows: bool
) -> None:
    async def scenario(site: Site) -> None:
        health = await site.fetch("GET", "/health", {"host": host}, server=server).json()
        assert (health["status"], "servers" in health, "sessions" in health) == ("ok", knows, knows)

    run(SERVERS, scenario)


def test_at_the_end_answers_that_are_owed_are_given_and_no_new_request_is_taken() -> None:
    async def scenario(site: Site) -> None:
        session = await site.session()
        answer = site.post(call(1, "db:query"), session)
        stream = site.listen(session)
        listening = site.stateless(
            request("s", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        )
        assert (await listening.event())["method"].endswith("acknowledged")
        db = site.up("db")
        [asked] = site.received(db)
        site.app.begin_to_stop()
        await site.rest()
        assert "id: 0.0" in await stream.block()
        assert await stream.block() == ": the server is stopping"
        assert await stream.block() == ""
        [last] = await listening.events()
        assert last["result"]["resultType"] == "complete"
        refused = site.post(request(2, "ping"), session)
        assert await refused.status() == 503
        assert await site.fetch("GET", "/health").status() == 503
        assert answer.is_open
        site.say(db, result(asked["id"], {}))
        assert await answer.json() == result(1, {})
        await site.app.stop()
        assert site.closed

    run(SERVERS, scenario)


def test_at_the_end_what_is_never_answered_is_waited_for_no_longer_than_the_bound() -> None:
    async def scenario(site: Site) -> None:
        answer = site.post(call(1, "db:query"), await site.session())
        modern = site.stateless(call(2, "db:query"))
        await site.rest()
        stopping = asyncio.ensure_future(site.app.stop())
        await site.rest()
        assert not stopping.done()
        await site.later(GRACE_SECONDS)
        await stopping
        for one in (answer, modern):
            assert (await one.json())["error"]["message"] == "The server is stopping"

    run(SERVERS, scenario)


@pytest.mark.parametrize(
    ("given", "environ", "config", "expected"),
    [
        ({}, {}, {}, ("127.0.0.1", 3006, "/mcp", "")),
        ({}, {"PORT": "1", "HOST": "::1", "MCP_PROXY_PATH": "/x"}, {}, ("::1", 1, "/x", "")),
        ({}, {"PORT": "1"}, {"port": 2, "path": "/y/"}, ("127.0.0.1", 2, "/y", "")),
        ({"host": "[::1]"}, {"MCP_PROXY_PATH": "/"}, {}, ("::1", 3006, "/", "")),
        ({"port": "0", "path": "/z"}, {"PORT": "1"}, {"port": 2}, ("127.0.0.1", 0, "/z", "")),
        ({}, {"T": "t", **TOKEN}, {"token": "${T}"}, ("127.0.0.1", 3006, "/mcp", "t")),
        ({}, TOKEN, {}, ("127.0.0.1", 3006, "/mcp", "s3cret")),
    ],
)
def test_the_command_line_comes_before_the_config_and_that_before_the_environment(
    given: Any, environ: Any, config: Any, expected: tuple[Any, ...]
) -> None:
    async def scenario(site: Site) -> None:
        site.plan.options.http = config
        found = Settings(site.plan, environ, given)
        assert (found.host, found.port, found.path, found.token) == expected

    run(SERVERS, scenario)


@pytest.mark.parametrize(
    ("environ", "config"),
    [
        ({"PORT": "x"}, {}),
        ({"PORT": "65536"}, {}),
        ({"MCP_PROXY_PATH": "mcp"}, {}),
        ({"MCP_PROXY_MAX_BODY_BYTES": "16M"}, {}),
        ({"MCP_PROXY_PATH": "/sse"}, {}),
        ({"MCP_PROXY_PATH": "/health/"}, {}),
        ({}, {"token": "${UNSET}"}),
        ({"EMPTY": ""}, {"token": "${EMPTY}"}),
    ],
)
def test_settings_that_cannot_be_used_are_refused(environ: Any, config: Any) -> None:
    async def scenario(site: Site) -> None:
        site.plan.options.http = config
        with pytest.raises(BadSetting):
            Settings(site.plan, environ)

    run(SERVERS, scenario)


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("0.0.0.0", False)])  # noqa: S104
def test_an_address_that_others_reach_needs_a_token(host: str, local: bool) -> None:
    async def scenario(site: Site) -> None:
        Settings(site.plan, TOKEN, {"host": host}).check_address()
        if local:
            Settings(site.plan, {}, {"host": host}).check_address()
        else:
            with pytest.raises(BadSetting):
                Settings(site.plan, {}, {"host": host}).check_address()

    run(SERVERS, scenario)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]"])
def test_the_url_that_is_told_is_the_one_that_is_served(host: str) -> None:
    async def scenario(site: Site) -> None:
        settings = Settings(site.plan, {}, {"host": host, "port": "0", "path": "/"})
        try:
            listener = listen(settings.host, settings.port)
        except OSError:
            assert ":" in host
            pytest.skip("this machine has no IPv6")
        with listener:
            parts = urlsplit(_url(settings, listener))
            assert (parts.hostname, parts.path) == (host.strip("[]"), "/")
            socket.create_connection((str(parts.hostname), int(parts.port or 0))).close()

    run(SERVERS, scenario)


def test_what_is_written_to_a_connection_does_not_wait_for_more() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
