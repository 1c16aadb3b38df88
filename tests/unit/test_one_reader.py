"""What passes as a result is one JSON value, whatever its size and whatever stands beside it."""

from __future__ import annotations

import gc
import json
import threading
from typing import Any

import pytest
from core import World, call, enveloped
from remotes import PATIENCE, Remote, Request, Talk

from mcpagg_runtime.messages.jsontext import LARGE
from mcpagg_runtime.messages.message import read_message
from mcpagg_runtime.messages.protocol import MODERN_VERSION

SMALL, BIG = "x", "é\u2028" * LARGE
ERAS = ("legacy", "modern")
RESULT = '{"content":[{"type":"text","text":"TEXT}}"}],"resultType":"complete"}'
ASKS = '"method":"elicitation/create","params":{"message":"Your password?","mode":"form"}'
ENDED, WAITS = "error", None

# What a server says in place of the answer to its call ONE, while it owes that to TWO as well:
# what becomes of each of these.
ANSWERS = {
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT}': ("result", WAITS),
    '{"result":RESULT,"jsonrpc":"2.0","id":ONE}': ("result", WAITS),
    # A request, under whatever spelling.
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,ASKS}': (ENDED, WAITS),
    '{ASKS,"result":RESULT,"jsonrpc":"2.0","id":ONE}': (ENDED, WAITS),
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"\\u006dethod":"sampling/createMessage"}': (
        ENDED,
        WAITS,
    ),
    '{"jsonrpc":"2.0","id":ONE,ASKS,"error":{"code":1,"message":"no"}}': (ENDED, WAITS),
    # An error.
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"error":{"code":1,"message":"no"}}': (ENDED, WAITS),
    '{"error":{"code":1,"message":"no"},"result":RESULT,"jsonrpc":"2.0","id":ONE}': (ENDED, WAITS),
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"error":null}': ("result", WAITS),
    # The id of another call.
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"id":TWO}': (ENDED, ENDED),
    '{"jsonrpc":"2.0","id":TWO,"result":RESULT,"id":ONE}': (ENDED, ENDED),
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"\\u0069d":TWO}': (ENDED, ENDED),
    '{"\\u0069d":TWO,"result":RESULT,"jsonrpc":"2.0","id":ONE}': (ENDED, ENDED),
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"id":77}': (ENDED, WAITS),
    # Another result.
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"result":{"content":[]}}': (ENDED, WAITS),
    '{"jsonrpc":"2.0","id":ONE,"result":{"content":[]},"resul\\u0074":RESULT}': (ENDED, WAITS),
    '{"result":RESULT,"x":{},"result":{"content":[]},"jsonrpc":"2.0","id":ONE}': (ENDED, WAITS),
    # What nobody knows is left behind.
    '{"result":RESULT,"x":{},"jsonrpc":"2.0","id":ONE}': ("result", WAITS),
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"z":{"y":{}}}': ("result", WAITS),
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT,"params":{"message":"Your password?"}}': (
        "result",
        WAITS,
    ),
    # Another message, or the beginning of one.
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT},{"id":TWO,"result":{}': ("result", ENDED),
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT} {"id":TWO,"result":{"content":[]}}': (
        "result",
        "result",
    ),
    # What is no JSON.
    '{"jsonrpc":"2.0","id":ONE,"result":RESULT': (ENDED, WAITS),
    '{"jsonrpc":"2.0","id":ONE,"result":{"content":[],"z":{,"y":"TEXT"}}}': (ENDED, WAITS),
    '{"jsonrpc":"2.0","id":ONE,"result":{"content":[]}},"z":{"y":"TEXT"}}': ("result", WAITS),
}


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these members, of which none may stand twice."""
    names = [name for name, _ in pairs]
    assert len({*names}) == len(names), names
    return dict(pairs)


def scene(server: str, client: str) -> tuple[World, Any, Any, list[int]]:
    """Return a world, its client and its server, and the ids of two calls that this one has."""
    world = World(
        {"a": ["t"]}, facts={"a": {"protocol": MODERN_VERSION}} if server == "modern" else {}
    )
    peer, a = world.client({"elicitation": {}}), world.up("a")
    for name in ("one", "two"):
        asked = call(name, "a:t")
        world.say(peer, asked if client == "legacy" else enveloped(asked, {"elicitation": {}}))
    return world, peer, a, [request["id"] for request in world.received(a)]


@pytest.mark.parametrize("text", [SMALL, BIG], ids=["small", "large"])
@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize(("answer", "outcomes"), ANSWERS.items())
def test_what_stands_beside_a_result_reaches_nobody_and_every_call_ends(
    answer: str, outcomes: tuple[str | None, str | None], server: str, client: str, text: str
) -> None:
    world, peer, a, [one, two] = scene(server, client)
    for word, what in {"RESULT": RESULT, "ASKS": ASKS, "ONE": str(one), "TWO": str(two)}.items():
        answer = answer.replace(word, what)
    expected = dict(zip(("one", "two"), outcomes, strict=True))
    world.say(a, answer.replace("TEXT", text))
    got = [json.loads(line, object_pairs_hook=once) for line in world.lines(peer)]
    for message in got:
        [outcome] = message.keys() - {"jsonrpc", "id"}
        assert expected.pop(message["id"]) == outcome
        if outcome == "result" and message["id"] == "one" and "TEXT" in answer.split('"z"')[0]:
            assert message["result"]["content"][0]["text"] == text + "}}"
    assert [*expected.values()] == [WAITS] * len(expected)
    for name in expected:  # it is not lost
        number = {"one": one, "two": two}[name]
        world.say(a, {"jsonrpc": "2.0", "id": number, "result": {"content": []}})
        [late] = world.received(peer)
        assert (late["id"], late["result"]["content"]) == (name, [])
    assert world.received(a) == []


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server", ERAS)
def test_a_result_that_was_passed_on_leaves_nothing(server: str, client: str) -> None:
    world, peer, a, [one, two] = scene(server, client)
    gc.collect()
    gc.disable()
    try:
        for number in (one, two):
            rows = f'{{"content":[],"structuredContent":{{"the mark":[{number}],"x":"{BIG}"}}}}'
            world.say(a, f'{{"jsonrpc":"2.0","id":{number},"result":{rows}}}')
            assert len(world.lines(peer)) == 1
        left = [one for one in gc.get_objects() if type(one) is dict and "the mark" in one]
        assert left == []
    finally:
        gc.enable()


@pytest.mark.parametrize("by", ["body", "stream"])
@pytest.mark.parametrize("text", [SMALL, BIG], ids=["small", "large"])
@pytest.mark.parametrize("beside", ['"method":"roots/list"', '"id":77', '"\\u0069d":77', ASKS])
def test_over_http_too_an_answer_that_contradicts_itself_ends_its_call(
    beside: str, text: str, by: str
) -> None:
    hung_up = threading.Event()

    def behave(request: Request) -> None:
        if request.method == "tools/call":
            head = f'{{"jsonrpc":"2.0","id":{request.id},"result":'
            answer = head + RESULT.replace("TEXT", text) + f",{beside}}}"
            if by == "body":
                request.reply(200, answer, "application/json")
            else:
                request.stream(answer)
                request.wait_for_hangup()
            hung_up.set()

    world, peer, a, _ = scene("legacy", "legacy")
    world.say(peer, call("three", "a:t"))
    with Remote(behave) as server, Talk(server.url) as talk:
        talk.greet()
        [asked] = world.lines(a)
        talk.connection.send(read_message(asked))
        assert hung_up.wait(PATIENCE)
        assert talk.wait(lambda: b"content" in talk.lines[-1])
        world.say(a, talk.lines[-1])
    [answer] = world.received(peer)
    assert (answer["id"], [*answer][2]) == ("three", "error")
    assert talk.failures == {}
