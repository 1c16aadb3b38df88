"""The store of logins: what is read, refreshed, written back, and said when a login has ended."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qsl

import pytest
from proxies import posix

from mcpagg_runtime.remote.login import Login, LoginNeeded, issued, state_folder, unsafe

SERVER = "https://localhost/mcp"


class TokenEndpoint(ThreadingHTTPServer):
    """Answers each request with the next of `answers`: (status, JSON), or a location to go to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/token"
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[dict[str, str]] = []


class Handler(BaseHTTPRequestHandler):
    """One request to the token endpoint."""

    server: TokenEndpoint

    def do_POST(self) -> None:
        """Note the form, with the Authorization header under `auth`."""
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        if "Authorization" in self.headers:
            form["auth"] = self.headers["Authorization"]
        self.server.asked.append(form)
        status, answer = self.server.answers.pop(0)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if 300 <= status < 400:
            self.send_header("Location", answer)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have logins lie in a folder of the test."""
    for variable in ("XDG_STATE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    return Path(state_folder())


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    """Return a token endpoint."""
    with TokenEndpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def record(endpoint: TokenEndpoint | None = None, **more: Any) -> dict[str, Any]:
    """Return the record of a login whose token lasts."""
    url = endpoint.url if endpoint else "http://127.0.0.1:9/token"
    tokens = {"access_token": "a1", "refresh_token": "r1"}
    return {"token_endpoint": url, "client_id": "me", **tokens, **more}


def logged_in(endpoint: TokenEndpoint | None = None, **more: Any) -> Login:
    """Return a login that was just saved."""
    Login(SERVER).save(record(endpoint, **more))
    return Login(SERVER)


NEXT = (
    200,
    {"access_token": "a2", "token_type": "Bearer", "expires_in": 60, "refresh_token": "r2"},
)
GONE = (400, {"error": "invalid_grant"})


def test_without_a_login_there_is_no_token() -> None:
    assert Login(SERVER).bearer() is None
    with pytest.raises(LoginNeeded, match="it wants a login, or a header"):
        Login(SERVER).refreshed(None)
    with pytest.raises(LoginNeeded, match="it wants a login, or a header"):
        Login(SERVER).refreshed("a1")


@posix("permissions are those of the user's profile there")
def test_a_login_is_a_file_for_its_owner_alone(state: Path) -> None:
    assert logged_in().bearer() == "a1"
    modes = {path.name.partition(".")[2]: path.stat().st_mode & 0o777 for path in state.iterdir()}
    assert modes == {"json": 0o600, "lock": 0o600}
    assert state.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "spelling",
    [
        "https://LocalHost/mcp",
        "https://localhost:443/mcp#there",
        "https://u:p@" + SERVER[8:],
    ],
)
def test_spellings_of_one_url_have_one_login(spelling: str) -> None:
    logged_in()
    assert Login(spelling).bearer() == "a1"
    assert Login(SERVER + "/other").bearer() is None


def test_a_token_is_refreshed_before_it_expires(endpoint: TokenEndpoint) -> None:
    endpoint.answers.append(NEXT)
    login = logged_in(endpoint, refresh_at=time() - 1, resource=SERVER)
    assert login.bearer() == login.bearer() == Login(SERVER).bearer() == "a2"
    grant = {"grant_type": "refresh_token", "refresh_token": "r1"}
    assert endpoint.asked == [{**grant, "client_id": "me", "resource": SERVER}]
    kept = json.loads(Path(login.path).read_text())
    assert (kept["refresh_token"], kept["resource"]) == ("r2", SERVER)
    assert time() + 50 < kept["refresh_at"] < time() + 60


def test_what_an_answer_leaves_out_stays_as_it_was(endpoint: TokenEndpoint) -> None:
    endpoint.answers.append((200, {"access_token": "a2"}))
    login = logged_in(endpoint, refresh_at=time() - 1)
    assert login.refreshed("a1") == login.bearer() == "a2"
    assert json.loads(Path(login.path).read_text()) == record(endpoint) | {"access_token": "a2"}


def test_of_many_that_are_refused_one_token_one_refreshes_it(endpoint: TokenEndpoint) -> None:
    endpoint.answers.append(NEXT)
    logged_in(endpoint)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: Login(SERVER).refreshed("a1"), range(8)))
    assert found == ["a2"] * 8
    assert len(endpoint.asked) == 1


def test_a_token_is_refreshed_as_often_as_it_expires(endpoint: TokenEndpoint) -> None:
    third = {"access_token": "a3", "refresh_token": "r3"}
    endpoint.answers += [NEXT, (200, third), (200, {"access_token": "a4"}), GONE]
    login = logged_in(endpoint)
    assert [login.refreshed(f"a{number}") for number in (1, 2, 3)] == ["a2", "a3", "a4"]
    assert "refresh_at" not in json.loads(Path(login.path).read_text())
    with pytest.raises(LoginNeeded, match="its login has expired, or was revoked"):
        login.refreshed("a4")
    assert [asked["refresh_token"] for asked in endpoint.asked] == ["r1", "r2", "r3", "r3"]


def test_of_two_proxies_the_one_that_comes_later_takes_the_token_of_the_other(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refresh token counts once: a second use of it would end the login of both."""
    endpoint.answers += [NEXT, GONE]
    one, other = logged_in(endpoint), Login(SERVER)
    assert one.bearer() == other.bearer() == "a1"
    began = threading.Event()
    refresh = one._refresh

    def noted(known: dict[str, Any]) -> dict[str, Any]:
        began.set()
        return refresh(known)

    monkeypatch.setattr(one, "_refresh", noted)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(one.refreshed, "a1")
        assert began.wait(60)
        second = threads.submit(other.refreshed, "a1")
        assert (first.result(), second.result()) == ("a2", "a2")
    assert other.bearer() == one.bearer() == "a2"
    assert endpoint.answers == [GONE]


@pytest.mark.parametrize(
    "refusal",
    [GONE, (401, {"error": "invalid_client"}), (403, {"error": "access_denied"}), (400, "no")],
)
def test_a_login_that_has_ended_is_not_tried_again(
    refusal: tuple[int, Any], endpoint: TokenEndpoint
) -> None:
    endpoint.answers.append(refusal)
    login = logged_in(endpoint, refresh_at=time() - 1)
    for attempt in (login.bearer, Login(SERVER).bearer, lambda: Login(SERVER).refreshed("a1")):
        with pytest.raises(LoginNeeded, match="its login has expired, or was revoked"):
            attempt()
    assert len(endpoint.asked) == 1
    assert not {"a1", "r1"} & set(json.loads(Path(login.path).read_text()).values())


@pytest.mark.parametrize(
    ("status", "error"),
    [(200, "bad_refresh_token"), (400, "invalid_request"), (401, "invalid_client")],
)
def test_a_refusal_is_known_whatever_its_status_and_code(
    status: int, error: str, endpoint: TokenEndpoint
) -> None:
    endpoint.answers.append((status, {"error": error}))
    with pytest.raises(LoginNeeded, match="its login has expired, or was revoked"):
        logged_in(endpoint).refreshed("a1")


def test_a_token_that_cannot_be_refreshed_is_used_until_it_is_refused() -> None:
    Login(SERVER).save(
        {"token_endpoint": "x", "client_id": "me", "access_token": "a1", "refresh_at": 0}
    )
    assert Login(SERVER).bearer() == "a1"
    with pytest.raises(LoginNeeded, match="its login has expired, and cannot be refreshed"):
        Login(SERVER).refreshed("a1")


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (503, {}, "HTTP 503"),
        (429, {"error": "slow_down"}, "HTTP 429"),
        (403, {"message": "this network is blocked"}, "HTTP 403"),
        (404, "no such page", "HTTP 404"),
        (307, "http://127.0.0.1:9/elsewhere", "HTTP 307"),
    ],
)
def test_a_fault_of_the_authorization_server_ends_no_login(
    status: int, answer: Any, why: str, endpoint: TokenEndpoint
) -> None:
    endpoint.answers += [(status, answer), (status, answer), NEXT]
    login = logged_in(endpoint, refresh_at=time() - 1)
    assert login.bearer() == login.bearer() == "a1"  # no call waits for each try
    assert len(endpoint.asked) == 1
    with pytest.raises(OSError, match=why):
        login.refreshed("a1")
    assert login.bearer() == "a1"
    assert Login(SERVER).bearer() == "a2"


def test_where_nothing_can_be_kept_nothing_is_asked_for(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    login = logged_in(endpoint, refresh_at=time() - 1)
    with monkeypatch.context() as full:
        full.setattr("mcpagg_runtime.remote.login._write_login", refuse)
        assert login.bearer() == "a1"
        with pytest.raises(OSError, match="Read-only"):
            login.refreshed("a1")
    assert endpoint.asked == []
    endpoint.answers = [NEXT]
    assert login.refreshed("a1") == "a2"


def test_an_authorization_server_that_is_away_is_told() -> None:
    with pytest.raises(OSError, match="the authorization server cannot be reached"):
        logged_in().refreshed("a1")


def test_a_client_shows_who_it_is_as_it_was_registered(endpoint: TokenEndpoint) -> None:
    endpoint.answers += [NEXT, NEXT]
    secret = {"client_secret": "s:/1"}
    logged_in(endpoint, **secret).refreshed("a1")
    logged_in(endpoint, **secret, auth_method="client_secret_basic").refreshed("a1")
    post, basic = endpoint.asked
    assert post.items() >= secret.items()
    assert "client_secret" not in basic
    assert base64.b64decode(basic["auth"].split()[1]) == b"me:s%3A%2F1"


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"access_token": "a1"}'])
def test_what_is_no_login_is_said_to_be_none(text: str) -> None:
    login = logged_in()
    Path(login.path).write_text(text)
    with pytest.raises(LoginNeeded, match="its login cannot be read"):
        login.bearer()


KEYRING = """#!{python}
import pathlib, sys
*_, verb, service, name = sys.argv
item = pathlib.Path(__file__).with_name(service + name)
if verb == "set":
    item.write_text(sys.stdin.read())
else:
    print(item.read_text())
"""


@posix("the keyring of this test is a script")
def test_a_keyring_keeps_the_record_where_there_is_one(
    endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(KEYRING.format(python=sys.executable))
    python.chmod(0o700)
    login = Login(SERVER)
    login.save(record(endpoint), keyring=str(python))
    endpoint.answers += [NEXT, GONE]
    assert Login(SERVER).bearer() == "a1"
    assert Login(SERVER).refreshed("a1") == "a2"
    assert Login(SERVER).bearer() == "a2"
    assert json.loads(Path(login.path).read_text()) == {"keyring": str(python)}
    with pytest.raises(LoginNeeded):
        Login(SERVER).refreshed("a2")
    (tmp_path / f"mcpagg{login.name}").unlink()
    with pytest.raises(OSError, match="keyring"):
        Login(SERVER).bearer()


def test_how_long_a_token_lives_is_read_as_servers_write_it() -> None:
    assert issued({"access_token": "a", "expires_in": "60"})["refresh_at"] < time() + 60
    assert issued({"access_token": "a", "expires_in": "soon"}) == {"access_token": "a"}


def test_a_relative_state_folder_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert os.path.isabs(state_folder())


@pytest.mark.parametrize(
    ("url", "server", "why"),
    [
        ("https://auth.example.com/t", "https://mcp.example.com", ""),
        ("https://auth.example.com/t", "http://localhost:1", ""),
        ("http://127.0.0.1:2/t", "http://localhost:1", ""),
        ("http://[::1]:2/t", "http://127.0.0.1:1", ""),
        ("http://auth.example.com/t", "https://mcp.example.com", "https only"),
        ("http://auth.example.com/t", "http://localhost:1", "https only"),
        ("file:///etc/passwd", "http://localhost:1", "https only"),
        ("javascript:alert(1)", "http://localhost:1", "https only"),
        ("ftp://localhost/x", "http://localhost:1", "https only"),
        ("https://[::1", "https://mcp.example.com", "is no URL"),
        *(
            (f"{scheme}://{host}:6379/t", "https://mcp.example.com", "is on this machine")
            for scheme in ("http", "https")
            for host in (
                *("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9"),
                *("127.1", "2130706433", "0x7f.1", "[::1]", "[::]", "[::ffff:127.0.0.1]", "0"),
            )
        ),
    ],
)
def test_where_a_login_may_be_sent(url: str, server: str, why: str) -> None:
    assert why in unsafe(url, server)
    assert bool(why) == bool(unsafe(url, server))


def test_a_token_is_not_refreshed_where_none_may_be_sent(endpoint: TokenEndpoint) -> None:
    login = Login("https://mcp.example.com/mcp")
    login.save(record(endpoint))
    with pytest.raises(LoginNeeded, match="its token endpoint is on this machine"):
        login.refreshed("a1")
    assert endpoint.asked == []
