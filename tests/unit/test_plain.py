"""Which large answers are passed on unread, and what they cost."""

from __future__ import annotations

import pytest
from core import World, call

from mcpagg_runtime.serve.plain import UNREAD_BYTES, unread_answer

FILL = "x" * UNREAD_BYTES
LINE = '{"jsonrpc":"2.0","id":7,"result":{"x":"%s"}}'


@pytest.mark.parametrize("fill", [FILL, FILL + "é\u2028", FILL + '\\n\\"'])
@pytest.mark.parametrize(
    "line",
    [
        LINE,
        '{"jsonrpc": "2.0", "id": 7, "result": {"x": "%s"}}',
        '{"result":{"x":"%s"},"jsonrpc":"2.0","id":7}',
    ],
)
def test_a_large_answer_is_passed_on_as_it_came(line: str, fill: str) -> None:
    answer = unread_answer((line % fill).encode())
    assert answer is not None
    assert answer.id == 7
    assert answer.under('"a"').line().decode() == line.replace("7", '"a"') % fill + "\n"
    assert answer.value("result") == {"x": fill.replace('\\n\\"', '\n"')}


@pytest.mark.parametrize(
    "line",
    [
        LINE % FILL[:100],
        LINE % (FILL + "\t"),
        LINE % (FILL + '","uri":"a:b'),
        LINE % (FILL + '","jsonrpc":"2.0'),
        (LINE % FILL).replace("result", "error"),
        (LINE % FILL).replace('"id":7', '"id":"7"'),
        (LINE % FILL)[:-1],
        (LINE % FILL)[:-1] + ',"x":1}',
        f'{{"jsonrpc":"2.0","id":7,"result":"{FILL}"}}',
        LINE % FILL + LINE % FILL,
    ],
)
def test_any_other_line_is_read(line: str) -> None:
    assert unread_answer(line.encode()) is None


def test_bytes_that_are_no_utf_8_are_seen_wherever_they_are() -> None:
    for place in (0, 1 << 20, (1 << 20) + 1, 3 << 20):
        fill = b"x" * place + "é".encode() + b"x" * UNREAD_BYTES
        line = b'{"jsonrpc":"2.0","id":7,"result":{"x":"' + fill + b'"}}'
        assert unread_answer(line) is not None
        assert unread_answer(line.replace("é".encode(), b"\xc3")) is None


def test_a_result_that_is_passed_on_unread_ends_its_call() -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, call("mine", "a:t"))
    [request] = world.received(a)
    world.say(a, (LINE % FILL).replace("7", str(request["id"])))
    assert world.lines(client) == [(LINE % FILL).replace("7", '"mine"')]
    world.say(a, (LINE % FILL).replace("7", str(request["id"])))  # a second time: late
    assert world.received(client) == []
