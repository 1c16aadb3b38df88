"""Logins that go with the requests to a remote server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from remotes import Remote, Request, Talk

from mcpagg_runtime.remote.login import Login


def logged_in(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, token: str) -> Login:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setenv("LOCALAPPDATA", str(folder))
    login = Login(url)
    login.save(record(token))
    return login


def record(token: str) -> dict[str, str]:
    return {"token_endpoint": "https://a.example/", "client_id": "c", "access_token": token}


@pytest.mark.skipif(sys.platform == "darwin", reason="the state folder there is no variable's")
def test_a_login_goes_with_every_request_and_is_refreshed_when_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behave(request: Request) -> None:
        # Not of the stream that belongs to no request: nobody knows when that is asked for.
        if request.verb == "POST" and request.headers["authorization"] != f"Bearer {valid[-1]}":
            request.reply(401)

    valid = ["first"]
    with Remote(behave) as server:
        login = logged_in(server.url, tmp_path, monkeypatch, "first")
        with Talk(server.url) as talk:
            talk.greet().call("tools/list")
            valid.append("second")
            login.save(record("second"))
            talk.call("tools/list")
            valid.append("third")
            assert "to log in, run `mcpagg-compile --login" in talk.failure("tools/list")
        sent = [request.headers["authorization"] for request in server.of("tools/list")]
        assert sent == ["Bearer first", "Bearer first", "Bearer second", "Bearer second"]


@pytest.mark.skipif(sys.platform == "darwin", reason="the state folder there is no variable's")
def test_a_login_that_cannot_be_refreshed_now_is_told_with_what_helps_if_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Remote(lambda request: request.reply(401)) as server:
        login = logged_in(server.url, tmp_path, monkeypatch, "first")
        away = {"token_endpoint": "http://127.0.0.1:9/token", "refresh_token": "r"}
        login.save({**record("first"), **away})
        with Talk(server.url) as talk:
            talk.ask("initialize")
            why = talk.end()
    assert "cannot be refreshed now: the authorization server cannot be reached" in why
    assert "if that lasts, run `mcpagg-compile --login" in why


@pytest.mark.skipif(sys.platform == "darwin", reason="the state folder there is no variable's")
@pytest.mark.parametrize(
    ("challenge", "with_login", "without"),
    [
        (
            'Bearer error="insufficient_scope", scope="files:read files:write"',
            "its login lacks the scope 'files:read files:write'; add it to `scopes` in `oauth` of "
            "its entry, and run `mcpagg-compile --login",
            "these credentials lack the scope 'files:read files:write'",
        ),
        ('Bearer error="insufficient_scope"', "not allowed this", "not allowed this"),
        ('Bearer scope="files:read"', "not allowed this", "not allowed this"),
    ],
)
def test_a_scope_that_is_lacking_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    challenge: str,
    with_login: str,
    without: str,
) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(403, WWW_Authenticate=challenge)

    with Remote(behave) as server:
        logged_in(server.url, tmp_path, monkeypatch, "issued-token")
        with Talk(server.url) as talk:
            assert with_login in talk.greet().failure("tools/call")
            talk.call("tools/list")
        with Talk(server.url, {"Authorization": "Bearer x"}) as talk:
            assert without in talk.greet().failure("tools/call")


def test_credentials_of_the_config_come_before_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Remote() as server:
        logged_in(server.url, tmp_path, monkeypatch, "mine")
        with Talk(server.url.replace("http://", "http://user:pass%20word@")) as talk:
            talk.greet()
        assert server.requests[0].headers["authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="
