"""Logging in at a real authorization server, and what a login is worth afterwards."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from proxies import posix, served
from remotes import Remote, Request
from wire import Wire, call, text

from mcpagg import Aggregator
from mcpagg.command.cli import main
from mcpagg.problems import ChildFault
from mcpagg_runtime.remote.login import Login, LoginNeeded, state_folder

Json = dict[str, Any]
SERVERS = Path(__file__).parents[1] / "servers"


@contextmanager
def started(script: str, **options: Any) -> Iterator[str]:
    """Start a server of the tests behind a port; give its URL."""
    argv = [sys.executable, str(SERVERS / script), json.dumps(options)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@pytest.fixture(scope="module")
def private() -> Iterator[str]:
    """Return the URL of a server behind a login."""
    with started("oauth.py", transport="http") as url:
        yield url


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have logins lie in a folder of the test."""
    for variable in ("XDG_STATE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "state"))
    return Path(state_folder())


def get(url: str, data: bytes | None = None) -> bytes:
    """Follow a URL as a browser does."""
    with urllib.request.urlopen(url, data, timeout=60) as response:  # noqa: S310
        body: bytes = response.read()
    return body


def pressed(server: str, path: str) -> Json:
    """Use a control of the server; return what it says."""
    said = get(f"{server.rpartition('/')[0]}/{path}", None if path == "seen" else b"")
    return {"said": json.loads(said)} if said else {}


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Stand in for a browser and a person who agrees; return the pages that they are shown."""
    pages: list[bytes] = []

    def browse(url: str) -> bool:
        pages.append(get(url))
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    return pages


LogIn = Callable[..., tuple[int, str]]


@pytest.fixture
def log_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> LogIn:
    """Return a function that logs in at an entry; it returns the status and all that is said."""

    def run(entry: Json, *options: str) -> tuple[int, str]:
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"far": entry}}))
        status = main(["--login", "far", str(config), *options])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def knock(url: str, token: str | None) -> int:
    """Return the status with which a server answers a bearer of a token."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, b"{}", headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60):  # noqa: S310
            return 200
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return refusal.code


def test_a_login_lets_in_and_lasts(private: str, log_in: LogIn, browser: list[bytes]) -> None:
    status, said = log_in({"url": private})
    login = Login(private)
    first = login.bearer()
    assert (status, knock(private, first), knock(private, "wrong")) == (0, 406, 401)
    assert "far: log in with your browser; if none opens, go to http://127.0.0.1" in said
    assert f"far: logged in; the login is kept in {login.path}" in said
    assert str(first) not in said
    assert b"Logged in" in browser[0]
    pressed(private, "expire")
    assert knock(private, first) == 401
    second = login.refreshed(first)
    assert knock(private, second) == 406
    grants = [(asked["grant"], asked["resource"]) for asked in pressed(private, "seen")["said"]]
    assert grants == [("authorization_code", private), ("refresh_token", private)]
    pressed(private, "end")
    with pytest.raises(LoginNeeded, match="its login has expired, or was revoked"):
        login.refreshed(second)
    assert log_in({"url": private})[0] == 0
    assert knock(private, login.refreshed(second)) == 406


def test_a_client_of_the_config_logs_in_as_itself(
    log_in: LogIn, browser: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    oauth = {"clientId": "known", "clientSecret": "${S}", "scopes": ["use"]}
    with started("oauth.py", transport="sse", registration=False) as url:
        status, said = log_in({"type": "sse", "url": url, "oauth": oauth})
        assert (status, browser) == (3, [])
        assert "mcpServers.far: server 'far' needs the variable S, which is not set" in said
        monkeypatch.setenv("S", "s3cret")
        status, said = log_in({"type": "sse", "url": url, "oauth": oauth})
        assert status == 0, said
        login = Login(url)
        assert login.refreshed(login.bearer()) == login.bearer()
        known = {"client": "known", "scopes": ["use"], "resource": url}
        assert pressed(url, "seen")["said"] == [
            {"grant": "authorization_code", **known},
            {"grant": "refresh_token", **known},
        ]


def test_only_the_answer_to_this_login_counts(
    private: str, log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def browse(url: str) -> bool:
        redirect = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        for target in ("?code=x&state=y", "?error=access_denied", "/../favicon.ico", "?state="):
            with pytest.raises(urllib.error.HTTPError) as caught:
                get(redirect + target)
            refused.append(caught.value.code)
            caught.value.close()
        get(url)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    status, said = log_in({"url": private})
    assert (status, refused) == (0, [404] * 4), said
    assert said.count("far: a request came back with a `state` that is not of this login: it") == 1
    assert Login(private).bearer()


def test_a_login_that_is_refused_says_why(
    private: str, log_in: LogIn, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    def refuse(url: str) -> bool:
        assert b"Not logged in" in _come_back(url, error="access_denied")
        return True

    monkeypatch.setattr("webbrowser.open", refuse)
    status, said = log_in({"url": private})
    assert status == 4
    assert "mcpServers.far: the login failed: the authorization server refused: access_den" in said
    assert not state.exists()


def test_who_asks_for_no_login_is_believed(private: str, log_in: LogIn, state: Path) -> None:
    open_to_all = private.replace("/mcp", "/seen")
    assert log_in({"url": open_to_all}) == (0, "far: asks for no login\n")
    assert not state.exists()


@pytest.mark.parametrize(
    ("entry", "status", "why"),
    [
        ({"command": "sh"}, 2, "is started as a program"),
        ({"url": "https://h/x", "headers": {"authorization": "Basic ${A}"}}, 2, "needs no login"),
        ({"url": "https://h/${NOT_SET}"}, 3, "NOT_SET"),
        ({"url": "http://192.0.2.1/mcp"}, 4, "http://192.0.2.1 is not safe: https only"),
        ({"url": "http://127.0.0.1:9/mcp"}, 4, "the login failed: All connection attempts failed"),
    ],
)
def test_where_there_is_nothing_to_log_in_at_it_says_why(
    entry: Json, status: int, why: str, log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", "b")
    found, said = log_in(entry)
    assert (found, why in said) == (status, True), said


def test_nobody_comes(
    private: str, log_in: LogIn, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    monkeypatch.setattr("mcpagg.command.login.LOGIN_SECONDS", 0.5)
    status, said = log_in({"url": private})
    assert (status, "nobody has logged in within 0.5 s" in said) == (4, True), said
    assert not state.exists()


@posix("the keyring of this test is a script")
@pytest.mark.parametrize("works", [True, False])
def test_the_keyring_keeps_a_login_where_it_is_installed_and_works(
    works: bool,
    private: str,
    log_in: LogIn,
    browser: list[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    item = tmp_path / "item"
    python = tmp_path / "python"
    body = f'case $4 in set) cat > "{item}";; get) cat "{item}";; esac'
    python.write_text(f"#!/bin/sh\n{body if works else 'exit 1'}\n")
    python.chmod(0o700)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "keyring")
    monkeypatch.setattr("mcpagg.command.login.sys.executable", str(python))
    status, said = log_in({"url": private})
    login = Login(private)
    where = "the keyring of the system" if works else login.path
    assert (status, f"the login is kept in {where}" in said) == (0, True), said
    token = login.bearer()
    assert token is not None
    assert (token in Path(login.path).read_text(), item.exists()) == (not works, works)
    assert knock(private, token) == 406


def whoami(wire: Wire) -> Json:
    """Call the server's tool through a proxy."""
    return call(wire, "far:whoami")


def test_a_proxy_is_logged_in_as_long_as_its_user_is(
    private: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], browser: list[bytes]
) -> None:
    config, file = tmp_path / "mcp.json", tmp_path / "server.py"
    config.write_text(json.dumps({"mcpServers": {"far": {"type": "http", "url": private}}}))
    compiling = [str(config), "-o", str(file), "--quiet"]
    assert main(compiling) == 4
    wanted = f"to log in, run `mcpagg-compile --login far {config}`"
    said = capsys.readouterr().err
    assert f"401 Unauthorized at {private}: it wants a login, or a header such as" in said
    assert wanted in said

    assert main(["--login", "far", str(config)]) == 0
    assert main(compiling) == 0
    login = Login(private)
    with served(file) as one, served(file) as two:
        first = text(whoami(one))
        pressed(private, "expire")
        assert text(whoami(two)) == text(whoami(one)) == first
        token = login.refreshed("of nobody")
        pressed(private, "end")
        refusal = str(whoami(one)["error"]["message"])
        assert "401 Unauthorized" in refusal
        assert "its login has expired, or was revoked" in refusal
        assert wanted in refusal
        assert wanted in str(whoami(two)["error"]["message"])
        assert main(["--login", "far", "-o", str(file)]) == 0  # it knows its config
        assert text(whoami(one)) != first
    texts = [file.read_text(), one.stderr, two.stderr, refusal]
    assert not [one for one in texts if token in one or "refresh-" in one]


async def asked(url: str) -> list[str]:
    """Return the tools of a server, by the live aggregator."""
    async with Aggregator({"mcpServers": {"far": {"url": url}}}) as a:
        return [tool["name"] for tool in await a.list_tools()]


def test_the_live_aggregator_is_logged_in_too(
    private: str, log_in: LogIn, browser: list[bytes]
) -> None:
    with pytest.raises(ChildFault) as caught:
        asyncio.run(asked(private))
    wanted = f"config: mcpServers.far: server 'far' answered with 401 Unauthorized at {private}: it"
    assert str(caught.value).startswith(wanted)
    assert "to log in, run `mcpagg-compile --login far config`" in str(caught.value)
    log_in({"url": private})
    assert asyncio.run(asked(private)) == ["far.whoami"]
    pressed(private, "expire")
    assert asyncio.run(asked(private)) == ["far.whoami"]


def naming(issuer: str, **endpoints: Any) -> Callable[[Request], None]:
    """Return what makes a server ask for a login at `issuer`, which has these endpoints."""

    def behave(request: Request) -> None:
        own = f"http://{request.headers['host']}"
        named = issuer or own
        about = {
            "issuer": named,
            "authorization_endpoint": f"{named}/authorize",
            "token_endpoint": f"{named}/token",
            "registration_endpoint": f"{named}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            **endpoints,
        }
        about = {key: value for key, value in about.items() if value is not None}
        if "protected-resource" in request.path:
            found: Json = {"resource": f"{own}/mcp", "authorization_servers": [named]}
            request.reply(200, json.dumps(found), "application/json")
        elif "authorization-server" in request.path:
            request.reply(200, json.dumps(about), "application/json")
        elif request.path == "/register":
            client = {**request.message, "client_id": "c"}
            request.reply(201, json.dumps(client), "application/json")
        elif request.path == "/token":
            request.reply(200, '{"access_token": "t", "token_type": "Bearer"}', "application/json")
        elif "authorization" not in request.headers:
            request.reply(401)

    return behave


@pytest.mark.parametrize("is_named", [True, False])
def test_of_two_resources_at_one_origin_that_of_the_path_counts(
    is_named: bool, log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda url: _come_back(url, code="x"))
    plain, place = naming(""), "/.well-known/oauth-protected-resource"

    def behave(request: Request) -> None:
        own = f"http://{request.headers['host']}"
        if request.path == place:
            about = {"resource": f"{own}/other", "authorization_servers": [f"{other.url}/none"]}
            request.reply(200, json.dumps(about), "application/json")
        elif is_named and request.path == "/mcp" and "authorization" not in request.headers:
            challenge = f'Bearer resource_metadata="{own}{place}/mcp"'
            request.reply(401, WWW_Authenticate=challenge)
        else:
            plain(request)

    with Remote() as other, Remote(behave) as server:
        status, said = log_in({"url": server.url})
        assert (status, other.requests) == (0, []), said


TENANT = "/tenant1"


@pytest.mark.parametrize(
    ("place", "resource", "challenge", "asked"),
    [
        ("/.well-known/oauth-authorization-server/tenant1", "/mcp", None, {"resource": "/mcp"}),
        ("/tenant1/.well-known/openid-configuration", "/mcp", None, {}),
        ("/tenant1/.well-known/openid-configuration", "", None, {"resource": ""}),
        ("/.well-known/openid-configuration/tenant1", "/mcp", 'Bearer scope="a b"', {}),
    ],
)
def test_an_authorization_server_is_found_wherever_it_describes_itself(
    place: str,
    resource: str,
    challenge: str | None,
    asked: Json,
    log_in: LogIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return bool(_come_back(url, code="x"))

    def behave(request: Request) -> None:
        own = f"http://{request.headers['host']}"
        if "protected-resource" in request.path:
            about = {"resource": own + resource, "authorization_servers": [own + TENANT]}
            request.reply(200, json.dumps(about), "application/json")
        elif ".well-known" in request.path and request.path != place:
            request.reply(404)
        elif request.path == place:
            naming(own + TENANT)(_as_asked_for(request))
        elif request.path == "/mcp" and challenge and "authorization" not in request.headers:
            request.reply(401, WWW_Authenticate=challenge)
        else:
            naming("")(_as_asked_for(request))

    monkeypatch.setattr("webbrowser.open", browse)
    with Remote(behave) as server:
        status, said = log_in({"url": server.url})
    assert status == 0, said
    sent = {key: values[0] for key, values in parse_qs(urlsplit(opened[0]).query).items()}
    if "resource" in asked:
        assert sent["resource"] == server.url.removesuffix("/mcp") + asked["resource"]
    assert sent.get("scope") == ("a b" if challenge else None)


def _as_asked_for(request: Request) -> Request:
    """Return a request below the path of a tenant as one that `naming` knows."""
    request.path = request.path.removeprefix(TENANT)
    if ".well-known" in request.path:
        request.path = "/.well-known/oauth-authorization-server"
    return request


def test_an_answer_in_the_name_of_another_authorization_server_is_refused(
    log_in: LogIn, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    evil = {"code": "x", "iss": "https://evil.example"}
    monkeypatch.setattr("webbrowser.open", lambda url: _come_back(url, **evil))
    with Remote(naming("", authorization_response_iss_parameter_supported=True)) as server:
        status, said = log_in({"url": server.url})
        assert not [one for one in server.requests if one.path == "/token"]
    assert (status, "iss mismatch" in said, state.exists()) == (4, True, False), said


def test_metadata_sends_nobody_to_plain_http_or_to_other_ports_of_this_machine(
    log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return bool(_come_back(url, error="access_denied"))

    monkeypatch.setattr("webbrowser.open", browse)
    with Remote() as other:
        bystander = other.url.removesuffix("/mcp")
        for endpoint, url, why in (
            ("authorization_endpoint", "http://auth.example.com/", "is not safe: https only"),
            ("authorization_endpoint", f"{bystander}/authorize", "neither the server nor its"),
            ("registration_endpoint", f"{bystander}/register", "neither the server nor its"),
        ):
            with Remote(naming("", **{endpoint: url})) as server:
                status, said = log_in({"url": server.url})
            assert (status, why in said) == (4, True), said
        assert opened == []
        with Remote(naming(bystander)) as server:  # no authorization server is there
            assert log_in({"url": server.url})[0] == 4
        assert [one for one in other.requests if ".well-known" not in one.path] == []
    assert not any(url.startswith(bystander) for url in opened)


def test_a_server_on_this_machine_may_name_an_authorization_server_there(log_in: LogIn) -> None:
    with Remote(naming("")) as login:
        issuer = login.url.removesuffix("/mcp")
        with Remote(naming(issuer)) as server, pytest.MonkeyPatch.context() as patch:
            patch.setattr("webbrowser.open", lambda url: _come_back(url, code="x"))
            status, said = log_in({"url": server.url})
            assert (status, Login(server.url).bearer()) == (0, "t"), said
        assert {"/register", "/token"} <= {one.path for one in login.requests}


def _come_back(url: str, **said: str) -> bytes:
    """Come back from an authorization server as a browser does; return the page."""
    asked = {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}
    return get(f"{asked['redirect_uri']}?{urlencode({**said, 'state': asked['state']})}")


PORT = "register one there with the redirect http://127.0.0.1:8765/callback"
WRITE = 'write "oauth": {"clientId": "…", "callbackPort": 8765} into its entry'


@pytest.mark.parametrize("documents", [None, True])
def test_a_server_that_registers_nobody_is_not_asked_and_what_to_write_is_said(
    documents: bool | None, log_in: LogIn, browser: list[bytes]
) -> None:
    about = {
        "registration_endpoint": None,
        "client_id_metadata_document_supported": documents,
    }
    with Remote(naming("", **about)) as server:
        status, said = log_in({"url": server.url})
        assert (status, server.of("/register"), browser) == (4, [], []), said
        assert not [one for one in server.requests if one.path == "/register"]
    assert f"{server.url.removesuffix('/mcp')} registers no client for this program; {PORT}" in said
    assert WRITE in said
    published = "publish a client metadata document with http://127.0.0.1:8765/callback"
    assert (published in said) == (documents is True)


def test_a_registration_that_is_refused_says_what_to_write(log_in: LogIn) -> None:
    plain = naming("")

    def behave(request: Request) -> None:
        if request.path == "/register":
            request.reply(403, "by invitation", "text/plain")
        else:
            plain(request)

    with Remote(behave) as server:
        status, said = log_in({"url": server.url})
    assert (status, "403 by invitation" in said, PORT in said, WRITE in said) == (4, *[True] * 3)


def test_the_url_of_a_client_metadata_document_is_a_client_id(
    log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return bool(_come_back(url, code="x"))

    monkeypatch.setattr("webbrowser.open", browse)
    oauth = {"clientId": "https://team.example/mcpagg.json"}
    with Remote(naming("", registration_endpoint=None)) as server:
        status, said = log_in({"url": server.url, "oauth": oauth})
    assert status == 0, said
    assert parse_qs(urlsplit(opened[0]).query)["client_id"] == [oauth["clientId"]]


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
@pytest.mark.parametrize("client", [{}, {"clientId": "c"}])
def test_who_does_not_say_that_it_takes_pkce_is_refused(
    methods: list[str] | None, client: Json, log_in: LogIn, browser: list[bytes], state: Path
) -> None:
    with Remote(naming("", code_challenge_methods_supported=methods)) as server:
        status, said = log_in({"url": server.url, "oauth": client})
        assert {one.path for one in server.requests if one.verb == "POST"} == {"/mcp"}
    assert (status, browser, state.exists()) == (4, [], False)
    assert "does not say that it takes PKCE with S256 (`code_challenge_methods_supp" in said
