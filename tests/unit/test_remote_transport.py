"""What is said to a server behind a URL, and what is made of its answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.client import HTTPConnection

import pytest
from remotes import PATIENCE, Remote, Request, Talk

from mcpagg_runtime.remote import connections, responses, streamable, transport
from mcpagg_runtime.remote.connections import Address


def test_a_handshake_comes_first_and_the_session_goes_with_all_that_follows() -> None:
    with Remote() as server:
        with Talk(server.url) as talk:
            talk.greet().call("tools/list")
        hello, initialized, *_ = [one for one in server.requests if one.verb == "POST"]
        assert "mcp-session-id" not in hello.headers
        assert hello.headers["accept"] == "application/json, text/event-stream"
        assert hello.headers["content-type"] == "application/json"
        assert hello.message["params"]["protocolVersion"] == "2025-11-25"
        assert initialized.method == "notifications/initialized"
        for request in (initialized, *server.of("tools/list"), *server.of("DELETE")):
            assert request.headers["mcp-session-id"] == "s-1"
            assert request.headers["mcp-protocol-version"] == "2025-11-25"
        assert len(server.of("DELETE")) == 1


def test_no_request_overtakes_the_end_of_the_handshake() -> None:
    order: list[str] = []

    def behave(request: Request) -> None:
        if request.method == "notifications/initialized":
            assert asked.wait(PATIENCE)
            order.append("initialized")
        elif request.method == "tools/list":
            order.append("list")

    asked = threading.Event()
    with Remote(behave) as server, Talk(server.url) as talk:
        number = talk.greet().ask("tools/list")
        asked.set()
        talk.answer(number)
    assert order == ["initialized", "list"]


KINDS = ("", "application/json; charset=utf-8", "Application/JSON", "application/json-rpc")


@pytest.mark.parametrize("kind", ["application/json", *KINDS, "text/plain", "text/json"])
def test_an_answer_in_one_body_is_one_line_with_the_same_text(kind: str) -> None:
    body = '{\r\n  "id": %d,\n "result" : {"a": 1.0, "text": "\\u2028 ü"}\n, "jsonrpc":"2.0"}\n'

    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(200, body % request.id, kind)

    with Remote(behave) as server, Talk(server.url) as talk:
        answer = talk.greet().call("tools/call")
        assert answer.raw("result") == '{"a": 1.0, "text": "\\u2028 ü"}'
        assert b"\n" not in talk.lines[-1]


def test_an_answer_may_come_as_a_stream_with_other_messages_before_it() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
            lines = request.response({"big": "x" * 100_000}).replace(": ", ":\ndata: ", 1)
            request.stream(
                b": hello\r\n\r\n", progress, f"event: message\ndata: {lines}\n\n".encode()
            )

    with Remote(behave) as server, Talk(server.url) as talk:
        answer = talk.greet().call("tools/call")
        assert len(answer.value("result")["big"]) == 100_000
        talk.notified("notifications/progress")


@pytest.mark.parametrize("form", ["[{}]", "\ufeff{}", " {}\n"])
@pytest.mark.parametrize("status", [200, 201, 202])
def test_an_answer_is_taken_in_whatever_form_it_comes(status: int, form: str) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            body = form.replace("{}", request.response({"n": 1}))
            request.reply(status, body, "application/json")

    with Remote(behave) as server, Talk(server.url) as talk:
        assert talk.greet().call("tools/call").value("result") == {"n": 1}


@pytest.mark.parametrize("is_begun", [True, False])
def test_nothing_waits_for_a_stream_of_news_on_which_nothing_comes(is_begun: bool) -> None:
    def behave(request: Request) -> None:
        if request.verb == "GET":
            request.answered = True
            if is_begun:
                request.stream()
            request.wait_for_hangup()

    with Remote(behave) as server:
        with Talk(server.url) as talk:
            talk.greet()
            server.wait("GET")
            assert talk.call("tools/call").value("result") == {}
        assert len(server.of("DELETE")) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [(202, "", ""), (202, "Accepted", "text/plain; charset=utf-8"), (204, "", ""), (200, "", "")],
)
def test_whatever_answers_a_notification_is_enough(status: int, body: str, kind: str) -> None:
    def behave(request: Request) -> None:
        if request.id is None and request.verb == "POST":
            request.reply(status, body, kind)

    with Remote(behave) as server, Talk(server.url) as talk:
        assert talk.greet().call("tools/list").raw("result") == "{}"


def test_connections_are_kept_and_each_call_under_way_has_its_own() -> None:
    together = threading.Barrier(3)

    def behave(request: Request) -> None:
        if request.method == "slow":
            together.wait(PATIENCE)

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        for _ in range(5):
            talk.call("tools/list")
        few = server.connections
        for number in [talk.ask("slow") for _ in range(3)]:
            talk.answer(number)
        # One may be given back only after the next call has taken another.
        assert few < len(server.of("tools/list"))
        assert server.connections <= few + 3


def test_a_kept_connection_that_the_server_has_closed_is_replaced() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/list":
            request.result({})
            request.drop()
            dropped.release()

    dropped = threading.Semaphore(0)
    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        for _ in range(3):
            talk.call("tools/list")
            assert dropped.acquire(timeout=PATIENCE)
        assert len(server.of("tools/list")) == 3


def test_a_call_whose_connection_breaks_is_not_made_again() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.drop()

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        for _ in range(3):
            why = talk.failure("tools/call")
            assert "before it had answered" in why
            assert "not repeated" in why
        assert len(server.of("tools/call")) == 3
        talk.call("tools/list")


@pytest.mark.parametrize("cut", ["body", "chunk", "stream"])
def test_an_answer_that_is_cut_short_fails_its_call(cut: str) -> None:
    def behave(request: Request) -> None:
        if request.method != "tools/call":
            return
        text = request.response({"x": "y" * 1000})
        if cut == "body":
            request.reply(200, text[:-5], "application/json", Content_Length=str(len(text)))
        elif cut == "chunk":
            request.reply(200, "", "application/json", Transfer_Encoding="chunked", X="1")
            request.write(b"400\r\n" + text[:100].encode())
        else:
            request.stream(f"data: {text[:-5]}".encode())
        request.drop()

    with Remote(behave) as server, Talk(server.url) as talk:
        assert "before it had answered" in talk.greet().failure("tools/call")
        talk.call("tools/list")


def test_interim_answers_are_no_answers_and_leave_the_connection_in_step() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 2)
            request.result({"number": request.number})

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        for _ in range(3):
            answer = talk.call("tools/call")
            assert answer.value("result") == {"number": server.of("tools/call")[-1].number}


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("Content-Length: -5", ""),
        ("Content-Length: many", ""),
        ("Content-Length: 2\r\nContent-Length: 3", ""),
        ("Transfer-Encoding: chunked", "-5\r\nhello\r\n0\r\n\r\n"),
    ],
)
def test_an_answer_whose_end_is_not_known_is_not_waited_for(head: str, body: str) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            kind = "Content-Type: application/json"
            request.write(f"HTTP/1.1 200 OK\r\n{kind}\r\n{head}\r\n\r\n{body or '{}'}".encode())
            request.wait_for_hangup()

    with Remote(behave) as server, Talk(server.url) as talk:
        assert "no HTTP" in talk.greet().failure("tools/call")
        talk.call("tools/list")


@pytest.mark.parametrize("timeout", ["²", "9" * 5000, "-1", ""])
def test_a_connection_is_kept_whatever_is_said_of_that(timeout: str) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.result({}, Keep_Alive=f"timeout={timeout}")

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        for _ in range(2):
            talk.call("tools/call")


def test_connections_that_nobody_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    watches: list[Callable[[], None]] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def start(work: Callable[[], None]) -> threading.Thread:
        watches.append(work)
        return threading.current_thread()

    monkeypatch.setattr(connections, "sleep", sleep)
    monkeypatch.setattr(connections, "monotonic", lambda: now)
    monkeypatch.setattr(connections, "start_thread", start)
    pool = connections.ConnectionPool(Address("http://127.0.0.1:9/"))
    for kept in (1, 3):
        https = [HTTPConnection("127.0.0.1") for _ in range(kept)]
        for http in https:
            http.sock, other = socket.socketpair()
            other.close()
            pool.release(connections.Connection(http), 60)
        [watch] = watches
        watches.clear()
        watch()
        assert [http.sock for http in https] == [None] * kept


def test_what_a_server_says_is_shown_in_part() -> None:
    def behave(request: Request) -> None:
        if request.method == "busy":
            request.reply(429, Retry_After="x" * 9000)
        elif request.method == "moved":
            request.reply(307, Location=f"http://{'x' * 9000}/")
        elif request.method == "packed":
            request.reply(200, b"\x1f\x8b" + b"x" * 9000, "application/json")

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        for method, words in (
            ("busy", "try again after xxx"),
            ("moved", "redirects (307)"),
            ("packed", "compressed"),
        ):
            why = talk.failure(method)
            assert words in why
            assert len(why) < 1000


def test_an_answer_that_is_no_json_is_named_for_its_own_call() -> None:
    def behave(request: Request) -> None:
        if request.method == "page":
            request.reply(200, "<!DOCTYPE html><html>", "text/html")
        elif request.method == "words":
            request.reply(200, "all is well", "application/json")
        elif request.method == "nothing":
            request.reply(200, "", "application/json")
        elif request.method == "taken":
            request.reply(202)

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        assert "with a web page" in talk.failure("page")
        assert "'all is well'" in talk.failure("words")
        assert "answered with nothing" in talk.failure("nothing")
        assert "answered with nothing" in talk.failure("taken")


def test_an_error_without_an_id_is_of_the_request_that_it_answers() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.error(400, -32602, "bad", with_id=False)

    with Remote(behave) as server, Talk(server.url) as talk:
        assert talk.greet().call("tools/call").value("error")["message"] == "bad"


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (401, {}, 'such as "Authorization": "Bearer ${TOKEN}"'),
        (403, {}, "not allowed"),
        (404, {}, "check the path"),
        (405, {}, "takes no MCP requests"),
        (413, {}, "too large"),
        (429, {"Retry_After": "7"}, "try again in 7 s"),
        (503, {"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT"}, "try again after Wed, 21 Oct"),
        (500, {}, "the fault is its own"),
        (418, {}, "418"),
    ],
)
def test_a_status_is_told_with_its_remedy(status: int, headers: dict[str, str], words: str) -> None:
    def behave(request: Request) -> None:
        request.reply(status, "no", "text/plain", **headers)

    with Remote(behave) as server, Talk(f"{server.url}?key=abcdef") as talk:
        talk.ask("initialize")
        why = talk.end()
        assert f"answered with {status}" in why
        assert words in why
        assert f"at {server.url}?key=***" in why
        assert talk.connection.refusal_status == status


def test_a_refusal_fails_its_call_alone_once_the_server_has_answered() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(401)

    with Remote(behave) as server, Talk(server.url, {"authorization": "Bearer x"}) as talk:
        assert "are they still valid?" in talk.greet().failure("tools/call")
        talk.call("tools/list")
        assert server.of("tools/list")[0].headers["authorization"] == "Bearer x"


def test_nobody_there_is_told_with_the_url() -> None:
    with Remote() as server:
        pass
    with Talk(server.url, mentioned={"127.0.0.1": "HOST"}) as talk:
        talk.ask("initialize")
        url = server.url.replace("127.0.0.1", "${HOST}")
        assert (
            talk.end()
            == f"could not be reached at {url}: the connection was refused; is it running?"
        )


def test_a_name_that_nobody_knows_is_told() -> None:
    with Talk("http://no-such-host.invalid/mcp") as talk:
        talk.ask("initialize")
        assert "the name no-such-host.invalid is not known" in talk.end()


def test_a_body_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses.Response.body, "__defaults__", (1 << 20,))
    monkeypatch.setattr(responses, "MAXIMUM_LINE_BYTES", 1 << 20)

    def behave(request: Request) -> None:
        big = request.response("x" * (1 << 21))
        if request.method == "body":
            request.reply(200, big, "application/json")
        elif request.method == "stream":
            request.stream(big)

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        assert "more than 1 MiB" in talk.failure("body")
        assert "an event of more than" in talk.failure("stream")
        talk.call("tools/list")


# --- Redirects ------------------------------------------------------------------------------


def test_a_redirect_within_the_origin_is_followed_with_the_same_body() -> None:
    def behave(request: Request) -> None:
        if request.path == "/mcp":
            request.reply(307, Location="/elsewhere/")

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet().call("tools/list", '{"cursor":"x"}')
        first, second = server.of("tools/list")
        assert (first.path, second.path) == ("/mcp", "/elsewhere/")
        assert first.body == second.body


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_origin_is_refused_and_gets_no_header(status: int) -> None:
    with Remote() as other:

        def behave(request: Request) -> None:
            request.reply(status, Location=f"{other.url}?secret=1")

        with Remote(behave) as server, Talk(server.url, {"X-Key": "k"}) as talk:
            talk.ask("initialize")
            why = talk.end()
            assert f"to another origin, http://127.0.0.1:{other.port}" in why
            assert "secret" not in why
        assert other.requests == []


def test_a_redirect_that_would_lose_the_body_is_refused() -> None:
    with (
        Remote(lambda request: request.reply(302, Location="/x")) as server,
        Talk(server.url) as talk,
    ):
        talk.ask("initialize")
        assert f"redirects (302) from {server.url} to" in talk.end()
        assert len(server.requests) == 1


def test_a_circle_of_redirects_has_an_end() -> None:
    with (
        Remote(lambda request: request.reply(307, Location=request.path)) as server,
        Talk(server.url) as talk,
    ):
        talk.ask("initialize")
        assert "redirects in a circle" in talk.end()


# --- Cancellation ---------------------------------------------------------------------------


def test_a_call_that_is_cancelled_is_taken_back_by_name_and_its_stream_closed() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.stream(b": working\n\n")
            request.wait_for_hangup()
            hung_up.set()

    hung_up = threading.Event()
    with Remote(behave) as server, Talk(server.url) as talk:
        number = talk.greet().ask("tools/call")
        server.wait("tools/call")
        talk.tell("notifications/cancelled", f'{{"requestId":{number}}}')
        assert server.wait("notifications/cancelled").message["params"] == {"requestId": number}
        talk.call("tools/list")
        assert hung_up.wait(PATIENCE)
        assert talk.failures == {}


def test_a_modern_call_is_cancelled_by_closing_its_stream() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.wait_for_hangup()
            hung_up.set()
            request.drop()

    hung_up = threading.Event()
    with Remote(behave) as server, Talk(server.url) as talk:
        number = talk.discover().ask("tools/call", '{"name":"t"}')
        server.wait("tools/call")
        talk.tell("notifications/cancelled", f'{{"requestId":{number}}}')
        assert hung_up.wait(PATIENCE)
        assert talk.failures == {}
        assert server.of("notifications/cancelled") == []


# --- Without a handshake --------------------------------------------------------------------


def test_a_modern_request_says_in_its_headers_what_it_is() -> None:
    with Remote() as server:
        with Talk(server.url) as talk:
            talk.discover().call("tools/call", '{"name":"t"}')
        discover, call = server.requests
        for request in (discover, call):
            assert request.headers["mcp-protocol-version"] == "2026-07-28"
            assert request.headers["mcp-method"] == request.method
            assert "mcp-session-id" not in request.headers
        assert call.headers["mcp-name"] == "t"
        assert "mcp-name" not in discover.headers


def test_a_stream_of_news_is_opened_again_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "FIRST_REOPENING_SECONDS", 0.0)

    def behave(request: Request) -> None:
        if request.method == "subscriptions/listen":
            note = '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}'
            request.stream(note)
            if len(server.of("subscriptions/listen")) > 1:
                request.wait_for_hangup()

    with Remote(behave) as server, Talk(server.url) as talk:
        number = talk.discover().ask("subscriptions/listen")
        server.wait("subscriptions/listen", 2)
        assert [one.id for one in server.of("subscriptions/listen")] == [number, number]
        talk.wait(lambda: talk.renewals)
        assert talk.failures == {}


# --- Its end --------------------------------------------------------------------------------


def test_without_a_thread_to_be_had_the_life_is_over_and_whoever_reads_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Remote() as server, Talk(server.url) as talk:
        monkeypatch.setattr(transport, "start_thread", lambda *_: None)
        talk.ask("initialize")
        monkeypatch.undo()
        assert talk.end() == "was not asked: the system has no thread for it"


def test_a_server_that_does_not_take_the_end_of_its_session_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def behave(request: Request) -> None:
        if request.verb == "DELETE":
            request.wait_for_hangup()

    monkeypatch.setattr(streamable, "DELETE_SECONDS", 0.01)
    with Remote(behave) as server:
        with Talk(server.url) as talk:
            talk.greet()
        assert talk.connection.gone.is_set()
