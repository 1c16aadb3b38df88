"""Sessions of streamable HTTP: lost, resumed, and their stream of news."""

from __future__ import annotations

import json

import pytest
from remotes import Remote, Request, Talk

from mcpagg_runtime.remote import responses

# --- Sessions -------------------------------------------------------------------------------


class Forgetful:
    """A server with sessions, which it forgets when told to."""

    def __init__(self, status: int = 404, text: str = "Session not found") -> None:
        self.status = status
        self.text = text
        self.session = 0
        self.refuses = False

    def __call__(self, request: Request) -> None:
        if request.method == "initialize":
            if self.refuses:
                return request.reply(503)
            self.session += 1
            request.result(
                {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}},
                Mcp_Session_Id=f"s-{self.session}",
            )
        elif request.verb == "POST" and request.headers.get("mcp-session-id") != (
            f"s-{self.session}"
        ):
            request.reply(self.status, json.dumps({"error": self.text}), "application/json")
        return None


@pytest.mark.parametrize(
    ("status", "text"), [(404, "Session not found"), (400, "Bad Request: No valid session ID")]
)
def test_a_lost_session_is_opened_again_once_for_all_calls(status: int, text: str) -> None:
    behave = Forgetful(status, text)
    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet().call("tools/list")
        behave.session = 7
        for number in [talk.ask("tools/call") for _ in range(5)]:
            talk.answer(number)
        assert behave.session == 8
        assert talk.renewals == 1
        assert len(server.of("initialize")) == 2
        assert len(server.of("notifications/initialized")) == 2
        known = [r for r in server.of("tools/call") if r.headers["mcp-session-id"] == "s-8"]
        assert len(known) == len({request.id for request in known}) == 5


def test_a_session_that_cannot_be_opened_again_fails_the_call() -> None:
    behave = Forgetful()
    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        behave.session, behave.refuses = 7, True
        assert "answered with 503" in talk.failure("tools/call")
        behave.refuses = False
        talk.call("tools/call")


def test_a_session_that_is_lost_at_once_again_fails_the_call() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(404)

    with Remote(behave) as server, Talk(server.url) as talk:
        assert "not even a new one" in talk.greet().failure("tools/call")
        assert len(server.of("tools/call")) == 2


def test_without_a_session_404_is_the_answer() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(404)

    with Remote(behave, session="") as server, Talk(server.url) as talk:
        assert "check the path" in talk.greet().failure("tools/call")
        assert len(server.of("initialize")) == 1


# --- Resumption -----------------------------------------------------------------------------


def test_a_stream_that_breaks_off_is_resumed_behind_its_last_event() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.stream(b"retry: 0\nid: 1\ndata:\n\n")
        elif request.verb == "GET" and request.headers.get("last-event-id") == "1":
            progress = '{"jsonrpc":"2.0","method":"notifications/progress"}'
            request.stream(f"id: 2\ndata: {progress}\n\n".encode())
        elif request.verb == "GET" and request.headers.get("last-event-id") == "2":
            call = server.of("tools/call")[0]
            request.stream(f"id: 3\ndata: {call.response({})}\n\n".encode())

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet().call("tools/call")
        assert len(server.of("tools/call")) == 1
        assert [m.method for m in talk.messages if m.method] == ["notifications/progress"]


def test_a_stream_that_is_not_resumed_fails_its_call() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.stream(b"retry: 0\nid: 1\ndata:\n\n")

    with Remote(behave) as server, Talk(server.url) as talk:
        assert "does not resume it (405)" in talk.greet().failure("tools/call")


# --- The stream of the server's own messages ------------------------------------------------


def test_what_the_server_says_of_its_own_accord_is_heard() -> None:
    ping = '{"jsonrpc":"2.0","id":"p","method":"ping"}'

    def behave(request: Request) -> None:
        if request.verb == "GET":
            request.stream(ping)
            request.wait_for_hangup()

    with Remote(behave) as server:
        with Talk(server.url) as talk:
            talk.greet()
            assert talk.notified("ping").id == "p"
            get = server.wait("GET")
            assert get.headers["mcp-session-id"] == "s-1"
            assert get.headers["accept"] == "text/event-stream"
        assert len(server.of("DELETE")) == 1


def test_the_stream_is_opened_again_behind_its_last_event() -> None:
    def behave(request: Request) -> None:
        if request.verb == "GET":
            request.stream(b"retry: 0\nid: %d\ndata: {}\n\n" % len(server.of("GET")))

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        server.wait("GET", 3)
        ids = [request.headers.get("last-event-id") for request in server.of("GET")[:3]]
        assert ids == [None, "1", "2"]


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [(404, "", ""), (405, "", ""), (200, "text/html", "<html>"), (200, "application/json", "{}")],
)
def test_a_server_without_such_a_stream_is_asked_once(status: int, kind: str, body: str) -> None:
    def behave(request: Request) -> None:
        if request.verb == "GET":
            request.reply(status, body, kind)

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        server.wait("GET")
        for _ in range(3):
            talk.call("tools/list")
        assert len(server.of("GET")) == 1


def test_streams_that_end_at_once_are_opened_ever_more_rarely() -> None:
    reader = responses.EventReader()
    pauses = [responses.reopening_pause(reader, vain) for vain in range(2000)]
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert max(pauses) == 60.0
