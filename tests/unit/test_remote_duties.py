"""What HTTP asks of a client: packed bodies, cookies, limits; which refusals are of a session."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clock import LIMIT, forward
from remotes import Remote, Request, Talk

from mcpagg.passes.config import read_config
from mcpagg.passes.discovery.discovery import discover
from mcpagg_runtime.remote import responses
from mcpagg_runtime.remote.connections import Address
from mcpagg_runtime.remote.cookies import MAXIMUM_COOKIES, Cookies
from mcpagg_runtime.remote.responses import UNPACKED_PIECE, CannotUnpack, unpacked

Json = dict[str, Any]


def plain_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]) + b"\0" * 9,
    "deflate": zlib.compress,
    "Deflate, identity": plain_deflate,
}

# Packed bodies


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_packed_answer_is_unpacked(encoding: str) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            body = PACKERS[encoding](request.response({"text": "x" * 300_000}).encode())
            request.reply(200, body, "application/json", Content_Encoding=encoding)

    with Remote(behave) as server, Talk(server.url) as talk:
        found = talk.greet().call("tools/call").value("result")
        assert found == {"text": "x" * 300_000}
        assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("cut", [1, 7, 1 << 16])
@pytest.mark.parametrize("encoding", PACKERS)
def test_pieces_may_be_cut_anywhere(encoding: str, cut: int) -> None:
    data = bytes(range(256)) * 400 + b"\0" * 200_000
    packed = PACKERS[encoding](data)
    pieces = [packed[at : at + cut] for at in range(0, len(packed), cut)]
    found = [*unpacked(encoding, pieces)]
    assert b"".join(found) == data
    assert max(map(len, found)) <= UNPACKED_PIECE
    with pytest.raises(EOFError):
        [*unpacked(encoding, [plain_deflate(data)[:-9] if "," in encoding else packed[:-30]])]


def test_an_event_that_is_packed_comes_at_once() -> None:
    packer = zlib.compressobj(wbits=31)

    def packed(text: str) -> bytes:
        return packer.compress(f"data: {text}\n\n".encode()) + packer.flush(zlib.Z_SYNC_FLUSH)

    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.stream(
                packed('{"jsonrpc":"2.0","method":"notifications/progress"}'),
                Content_Encoding="gzip",
            )
            talk.notified("notifications/progress")
            request.send(packed(request.response({})))
            request.wait_for_hangup()

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet().call("tools/call")
        assert talk.failures == {}


def test_what_is_unpacked_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses.Response.body, "__defaults__", (1 << 20,))
    bomb = gzip.compress(b"x" * (64 << 20))

    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(200, bomb, "application/json", Content_Encoding="gzip")

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        tracemalloc.start()
        assert "more than 1 MiB" in talk.failure("tools/call")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [
        ("br", b"\x1b\x00\x00", "encoded as 'br', and only gzip and deflate are accepted"),
        ("zstd", b"\x28\xb5\x2f\xfd", "encoded as 'zstd'"),
        ("gzip, br", b"", "encoded as 'gzip, br'"),
        ("gzip", b"{}", "content that is no gzip"),
        ("gzip", gzip.compress(b"{}" * 99, mtime=0)[:-9], "closed the connection before"),
    ],
)
def test_what_cannot_be_unpacked_is_named(encoding: str, body: bytes, words: str) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(200, body, "application/json", Content_Encoding=encoding)

    with Remote(behave) as server, Talk(server.url) as talk:
        assert words in talk.greet().failure("tools/call")
        talk.call("tools/list")


def test_a_refusal_that_cannot_be_unpacked_is_told_by_its_status() -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(503, b"\x1b\x00", "text/html", Content_Encoding="br")

    with Remote(behave) as server, Talk(server.url) as talk:
        assert "answered with 503" in talk.greet().failure("tools/call")
    assert [*unpacked("gzip", [])] == []
    with pytest.raises(CannotUnpack):
        unpacked("compress", [])


# Cookies


def test_a_cookie_goes_back_with_all_that_follows() -> None:
    """As balancers want it that keep a session on one node."""

    def behave(request: Request) -> None:
        if request.method == "initialize":
            return request.result(
                {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}},
                Mcp_Session_Id="s",
                Set_Cookie="AWSALB=node7; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT",
            )
        if "AWSALB=node7" not in request.headers.get("cookie", ""):
            request.reply(404, "session not found")
        return None

    with Remote(behave) as server:
        with Talk(server.url) as talk:
            talk.greet().call("tools/list")
            assert len(server.of("initialize")) == 1
        with Talk(server.url, {"cookie": "mine=1"}) as talk:
            talk.greet()
            server.wait("notifications/initialized", 2)
        sent = [request.headers.get("cookie") for request in server.of("initialize")]
        assert sent == [None, "mine=1"]
        told = server.of("notifications/initialized")[1]
        assert told.headers["cookie"] == "mine=1; AWSALB=node7"


AT = Address("https://h.example/api/mcp?x=y")


@pytest.mark.parametrize(
    ("line", "url", "sent"),
    [
        ("a=b", "https://h.example/api/mcp", "a=b"),
        ("a=b", "https://h.example/api/messages/7", "a=b"),
        ("a=b", "https://h.example/apis", ""),
        ("a=b", "https://h.example/", ""),
        ("a=b=c; HttpOnly; SameSite=None; Secure", "https://h.example/api/", "a=b=c"),
        ("a=b; secure; path=/", "http://h.example/", ""),
        ('a="b c"; Path=/x', "https://h.example/x/y", 'a="b c"'),
        ("a=b; Path=/x", "https://h.example/xy", ""),
        ("a=b; Domain=.Example", "https://h.example/api/", "a=b"),
        ("a=b; Domain=other.example", "https://h.example/api/", ""),
        ("a=b; Max-Age=60; Expires=Wed, 21 Oct 2015 07:28:00 GMT", "https://h.example/api/", "a=b"),
        ("a=b; Max-Age=0", "https://h.example/api/", ""),
        ("a=b; Max-Age=-1", "https://h.example/api/", ""),
        ("a=b; Expires=Wed, 21-Oct-2015 07:28:00 GMT", "https://h.example/api/", ""),
        ("a=b; Expires=soon", "https://h.example/api/", "a=b"),
        ("a", "https://h.example/api/", ""),
        ("=b", "https://h.example/api/", ""),
        ("a=\x01", "https://h.example/api/", ""),
        (f"a={'b' * 5000}", "https://h.example/api/", ""),
    ],
)
def test_a_cookie_is_sent_where_and_while_its_server_says(line: str, url: str, sent: str) -> None:
    cookies = Cookies()
    cookies.accept([line], AT)
    assert cookies.header(Address(url), "") == sent


def test_a_cookie_is_replaced_and_ended_by_one_of_its_name() -> None:
    cookies = Cookies()
    cookies.accept(["a=1; Path=/", "a=2", "b=3; Path=/", "a=4; Path=/"], AT)
    assert cookies.header(AT, "") == "a=2; b=3; a=4"
    assert cookies.header(AT, "b=own") == "b=own; a=2; a=4"
    cookies.accept(["a=; Max-Age=0", "b=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], AT)
    assert cookies.header(AT, "") == "a=4"


def test_there_are_only_so_many_cookies() -> None:
    cookies = Cookies()
    cookies.accept([f"n{number}=" for number in range(200)], AT)
    assert len(cookies.header(AT, "").split("; ")) == MAXIMUM_COOKIES


def test_a_cookie_never_goes_to_another_origin() -> None:
    with Remote() as other:

        def behave(request: Request) -> None:
            if request.method == "tools/list":
                request.reply(307, Location=other.url, Set_Cookie="a=b; Path=/")

        with Remote(behave) as server, Talk(server.url) as talk:
            assert "to another origin" in talk.greet().failure("tools/list")
            talk.call("tools/call")
            assert server.of("tools/call")[0].headers["cookie"] == "a=b"
        assert other.requests == []


# Limits


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({f"X_{number}": "v" for number in range(150)}, "answered with more than 100 headers"),
        ({"X": "v" * 70_000}, "answered with more than 65,536 bytes in one header"),
    ],
)
def test_a_limit_of_headers_is_named(headers: dict[str, str], words: str) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(200, "{}", **headers)

    with Remote(behave) as server, Talk(server.url) as talk:
        why = talk.greet().failure("tools/call")
        assert f"{words} at {server.url}, and no more are read" in why
        talk.call("tools/list")


# Sessions


def said(error: Json, number: Any = None) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": error})


@pytest.mark.parametrize(
    "body",
    [
        said({"code": -32000, "message": "Bad Request: Server not initialized"}),
        said({"code": -32000, "message": "Bad Request: Mcp-Session-Id header is required"}),
        said({"code": -32600, "message": "Session not found"}, "server-error"),
        said({"code": -32600, "message": "Session has expired"}, "ID"),
        "Bad Request: No valid session ID provided",
        "Session 4f2a-77 does not exist",
        "Invalid sessionId",
        "unknown session",
        "The client has not been initialized",
        "session terminated",
    ],
)
def test_what_speaks_of_the_session_is_a_lost_one(body: str) -> None:
    refusals: list[str] = []

    def behave(request: Request) -> None:
        if request.method == "tools/call" and not refusals:
            refusals.append(body.replace('"ID"', str(request.id)))
            request.reply(400, refusals[0], "application/json")

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet().call("tools/call")
        assert (len(server.of("initialize")), talk.renewals) == (2, 1)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, '{"error": "bad session argument"}', "bad session argument"),
        (400, '{"detail": "the recording session is full"}', "the recording session is full"),
        (400, "Invalid session name given", "Invalid session name given"),
        (400, said({"code": -32602, "message": "no session id"}, "ID"), "no session id"),
        (404, said({"code": -32601, "message": "no such method"}, "ID"), "no such method"),
        (400, '{"error": {"message": "database not initialized"}}', "database not initialized"),
        (422, "Session not found", "Session not found"),
    ],
)
def test_a_refusal_of_the_call_itself_comes_once_in_the_words_of_the_server(
    status: int, body: str, words: str
) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            own = body.replace('"ID"', str(request.id))
            request.reply(status, own, "application/json")

    with Remote(behave) as server, Talk(server.url) as talk:
        number = talk.greet().ask("tools/call")
        talk.wait(lambda: talk.failures or any(m.id == number for m in talk.messages))
        texts = [*talk.failures.values(), *[line.decode() for line in talk.lines]]
        assert any(words in text for text in texts), texts
        assert (len(server.of("tools/call")), len(server.of("initialize"))) == (1, 1)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (said({"code": -32000, "message": "Session not found: x"}), "Session not found: x"),
        ("<html>no such session</html>", "not even a new one"),
        ("Session not found here", "not even a new one; it says 'Session not found here'"),
    ],
)
def test_what_is_refused_in_a_new_session_too_is_told_in_the_words_of_the_server(
    body: str, words: str
) -> None:
    def behave(request: Request) -> None:
        if request.method == "tools/call":
            request.reply(404, body, "application/json")

    with Remote(behave) as server, Talk(server.url) as talk:
        number = talk.greet().ask("tools/call")
        talk.wait(lambda: talk.failures or any(m.id in (number, None) for m in talk.messages[1:]))
        texts = [*talk.failures.values(), *[line.decode() for line in talk.lines]]
        assert any(words in text for text in texts), texts
        assert len(server.of("tools/call")) == 2


def test_a_session_that_is_lost_while_nothing_is_called_is_opened_again_at_once() -> None:
    lives: list[str] = []

    def behave(request: Request) -> None:
        if request.method == "initialize":
            lives.append(f"s-{len(lives)}")
            request.result(
                {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}},
                Mcp_Session_Id=lives[-1],
            )
        elif request.verb == "GET" and request.headers["mcp-session-id"] != lives[-1]:
            request.reply(404, "session not found")
        elif request.verb == "GET" and len(lives) == 1:
            request.stream(b"retry: 0\nid: 1\n\n")
            lives.append("lost")
        elif request.verb == "GET":
            request.stream('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
            request.wait_for_hangup()

    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        talk.notified("notifications/tools/list_changed")
        assert [r.headers["mcp-session-id"] for r in server.of("GET")] == ["s-0", "s-0", "s-2"]
        assert (len(server.of("initialize")), talk.renewals) == (2, 1)
        assert len(server.of("notifications/initialized")) == 2


# What is said of it


def test_a_stream_on_which_no_endpoint_comes_is_told_with_its_url() -> None:
    def behave(request: Request) -> None:
        if request.verb == "GET":
            request.stream(b": ping\n\n")
            skip(LIMIT)
            request.wait_for_hangup()

    with Remote(behave) as server, forward() as skip:
        text = json.dumps({"mcpServers": {"far": {"type": "sse", "url": server.url}}}).encode()
        spec, _ = read_config(text, source="mcp.json", folder=Path("/"))
        why = f"did not answer initialize within {LIMIT:g} s at {server.url}: no `endpoint` event"
        [failure] = discover(spec, {}, connect_timeout=LIMIT).failures
        assert why in failure.what


def test_nothing_that_only_a_program_has_is_said_of_a_server_behind_a_url() -> None:
    def behave(request: Request) -> None:
        if request.method == "initialize":
            request.stream("hello there", '{"jsonrpc":"2.0","id":"p","method":"ping"}')
            server.wait("POST", len(server.of("initialize")))  # the pong: the noise has been read
            skip(LIMIT)
            request.wait_for_hangup()

    with Remote(behave) as server, forward() as skip:
        text = json.dumps({"mcpServers": {"far": {"type": "http", "url": server.url}}}).encode()
        spec, _ = read_config(text, source="mcp.json", folder=Path("/"))
        [failure] = discover(spec, {}, connect_timeout=LIMIT).failures
    why = str(failure)
    assert 'but writes something else than JSON-RPC: "hello there"' in why
    assert "(is it an MCP server that is there" in why
    assert not re.search("stdout|stderr|install|output", why)
