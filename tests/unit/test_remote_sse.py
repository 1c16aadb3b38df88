"""The older transport of two: one stream of events brings all messages, a POST takes each."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from remotes import HELLO, PATIENCE, Remote, Request, Talk


class Events:
    """A server that answers by its stream; `breaks` is a method at which it ends that instead."""

    def __init__(
        self, endpoint: str = "messages/?id={}", end: str = "\n", breaks: str = ""
    ) -> None:
        self.endpoint = endpoint
        self.end = end
        self.breaks = breaks
        self.streams: list[Request] = []
        self.broken = threading.Event()

    def __call__(self, request: Request) -> None:
        """Answer a request of HTTP."""
        if request.verb == "GET":
            self.streams.append(request)
            endpoint = self.endpoint.format(len(self.streams))
            lines = ["retry: 0", "event: endpoint", f"data: {endpoint}", "", ""]
            request.stream(self.end.join(lines).encode())
            request.wait_for_hangup()
            return
        request.reply(202, "Accepted", "text/plain")
        if request.method == self.breaks:
            self.broken.set()
            self.streams[-1].drop()
        elif request.id is not None:
            result = HELLO if request.method == "initialize" else {"at": request.path}
            self.say(request.response(result))

    def say(self, text: str) -> None:
        """Send a message."""
        self.streams[-1].send(f"event: message{self.end}data: {text}{self.end * 2}".encode())


def refusing(status: int) -> Callable[[Request], None]:
    """Return a server that refuses each call with this status."""
    plain = Events()

    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(status)
        else:
            plain(request)

    return behave


def talk_to(server: Remote, **headers: str) -> Talk:
    return Talk(server.url, headers, transport="sse")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("whole", [True, False])
def test_messages_go_where_the_stream_says_and_answers_come_by_it(end: str, whole: bool) -> None:
    behave = Events(end=end)
    with Remote(behave) as server, talk_to(server, key="k") as talk:
        if whole:
            behave.endpoint = f"http://127.0.0.1:{server.port}/messages/?id={{}}"
        answer = talk.greet().call("tools/list")
        assert answer.value("result") == {"at": "/messages/?id=1"}
        assert {request.headers["key"] for request in server.requests} == {"k"}
        assert [request.method for request in server.requests] == [
            "GET",
            "initialize",
            "notifications/initialized",
            "tools/list",
        ]


def test_requests_of_the_server_come_by_the_stream_too() -> None:
    behave = Events()
    with Remote(behave) as server, talk_to(server) as talk:
        talk.greet()
        behave.say('{"jsonrpc":"2.0","id":"p",\ndata: "method":"ping"}')
        assert talk.notified("ping").id == "p"


def test_an_endpoint_at_another_origin_gets_nothing() -> None:
    with Remote() as other:
        behave = Events(endpoint=f"{other.url}?key=1")
        with Remote(behave) as server, talk_to(server) as talk:
            talk.ask("initialize")
            why = talk.end()
            assert f"names an endpoint at another origin, http://127.0.0.1:{other.port}:" in why
        assert other.requests == []


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [(401, "text/plain", "wants a login"), (200, "text/html", "web page")],
)
def test_a_server_without_such_a_stream_is_told(status: int, kind: str, words: str) -> None:
    def behave(request: Request) -> None:
        request.reply(status, "<html>", kind)

    with Remote(behave) as server, talk_to(server) as talk:
        talk.ask("initialize")
        assert words in talk.end()
        assert talk.connection.refusal_status == status


def test_a_message_that_is_refused_fails_alone() -> None:
    with Remote(refusing(413)) as server, talk_to(server) as talk:
        assert "too large" in talk.greet().failure("tools/call")
        talk.call("tools/list")


def test_a_stream_that_breaks_fails_its_calls_and_the_next_one_opens_it_again() -> None:
    behave = Events(breaks="tools/call")
    with Remote(behave) as server, talk_to(server) as talk:
        talk.greet()
        assert "closed its stream" in talk.failure("tools/call")
        assert behave.broken.wait(PATIENCE)
        numbers = [talk.ask("tools/list") for _ in range(4)]
        for number in numbers:
            assert talk.answer(number).value("result") == {"at": "/messages/?id=2"}
        assert len(server.of("initialize")) == len(server.of("notifications/initialized")) == 2
        assert talk.renewals == 1
        assert len(server.of("tools/call")) == 1


@pytest.mark.parametrize(
    ("status", "text"), [(404, "Could not find session"), (400, "Invalid session ID")]
)
def test_a_session_that_the_server_has_lost_is_opened_again_though_its_stream_lives(
    status: int, text: str
) -> None:
    """The call that finds out was not acted upon, so it is made again."""
    plain = Events()
    lost: set[str] = set()

    def behave(request: Request) -> None:
        if request.path in lost:
            request.reply(status, text, "text/plain")
        else:
            plain(request)

    with Remote(behave) as server, talk_to(server) as talk:
        talk.greet().call("tools/list")
        lost.add("/messages/?id=1")
        for _ in range(2):
            assert talk.call("tools/list").value("result") == {"at": "/messages/?id=2"}
        assert len(server.of("initialize")) == len(server.of("GET")) == 2
        assert (talk.renewals, talk.failures, talk.ends) == (1, {}, [])


def test_a_session_that_is_lost_at_once_again_fails_the_call() -> None:
    with Remote(refusing(404)) as server, talk_to(server) as talk:
        assert "not even a new one" in talk.greet().failure("tools/call")
        assert len(server.of("tools/call")) == 2
        talk.call("tools/list")


def test_the_stream_is_opened_again_though_nobody_asks() -> None:
    behave = Events()
    with Remote(behave) as server, talk_to(server) as talk:
        talk.greet()
        server.wait("notifications/initialized")
        behave.streams[0].drop()
        server.wait("notifications/initialized", 2)
        talk.wait(lambda: talk.renewals)
        assert [talk.renewals, talk.ends, talk.failures] == [1, [], {}]


def test_a_server_that_does_not_come_back_fails_each_call() -> None:
    behave = Events(breaks="tools/call")

    def gone(request: Request) -> None:
        if behave.broken.is_set():
            request.reply(503, Retry_After="9")
        else:
            behave(request)

    with Remote(gone) as server, talk_to(server) as talk:
        talk.greet().failure("tools/call")
        assert behave.broken.wait(PATIENCE)
        for _ in range(2):
            assert "try again in 9 s" in talk.failure("tools/list")


def test_a_cancelled_call_is_taken_back_by_name() -> None:
    seen: list[Any] = []

    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(202)
        else:
            plain(request)

    plain = Events()
    with Remote(behave) as server, talk_to(server) as talk:
        number = talk.greet().ask("tools/call")
        server.wait("tools/call")
        talk.tell("notifications/cancelled", json.dumps({"requestId": number}))
        seen.append(server.wait("notifications/cancelled").message["params"])
        talk.call("tools/list")
        assert (seen, talk.failures) == ([{"requestId": number}], {})
