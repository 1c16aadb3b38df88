"""Which large results are passed on unread, with what spliced into them, and what stays of them."""

from __future__ import annotations

import gc
import json
import weakref
from mmap import mmap
from typing import Any

import pytest
from core import World, call, enveloped

from mcpagg_runtime.base import message
from mcpagg_runtime.base.message import LARGE_BYTES, Message
from mcpagg_runtime.base.protocol import MODERN_VERSION, SERVER_KEY
from mcpagg_runtime.rare import large
from mcpagg_runtime.rare.large import (
    BLOCK_BYTES,
    END_BYTES,
    PAGE_BYTES,
    LargeLine,
    LargeResult,
)
from mcpagg_runtime.serve.process import LargeLines

FILL = "x" * LARGE_BYTES
LINE = '{"jsonrpc":"2.0","id":7,"result":{"x":"%s"}}'
MADE = f'"_meta":{{"{SERVER_KEY}":{{"name":"m","version":"2"}}}}'
OURS = f'"_meta":{{"{SERVER_KEY}":{{"name":"test","version":"1"}}}}'

# What stands in results: texts that look like what is looked for, and what is not ASCII.
TEXT = '[{"type":"text","text":"' + FILL + '\\",\\"_meta\\":{\\"jsonrpc\\":\\"2.0\\"} é\u2028"}]'
ROWS = '{"rows":[' + '{"resultTypes":"_meta", "n":1.0},' * 9000 + '{}], "content": []}'


def filled(text: str) -> str:
    """Return a text with what its words in capitals stand for."""
    names = {"TEXT": TEXT, "ROWS": ROWS, "MADE": MADE, "OURS": OURS, "SERVER": OURS[9:-1]}
    for name, what in {**names, "COMPLETE": '"resultType":"complete"'}.items():
        text = text.replace(name, what)
    return text


def unread(line: str, wanted: dict[str, str] | None = None) -> LargeResult | None:
    """Return the result of a line, None if it has to be read."""
    kept = LargeLine(line.encode())
    found = kept.answer()
    return None if found is None else kept.result(found[1], wanted or {})


# --- Which ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", [FILL, FILL + "é\u2028", FILL + '\\n\\"'])
@pytest.mark.parametrize(
    "line",
    [
        LINE,
        '{"jsonrpc": "2.0", "id": 7, "result": {"x": "%s"}}',
        '{"result":{"x":"%s"},"jsonrpc":"2.0","id":7}',
    ],
)
def test_a_result_is_unread_wherever_the_id_stands(line: str, fill: str) -> None:
    kept = LargeLine((line % fill).encode())
    number, place = kept.answer() or (0, (0, 0))
    result = kept.result(place, {})
    assert number == 7
    assert result is not None
    assert json.loads(result.text) == {"x": json.loads(f'"{fill}"')}
    assert kept.whole() == (line % fill).encode()


@pytest.mark.parametrize(
    "line",
    [
        LINE % (FILL + "\t"),
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
    assert unread(line) is None


def test_bytes_that_are_no_utf_8_are_seen_wherever_they_are() -> None:
    for place in (0, BLOCK_BYTES - 40, BLOCK_BYTES - 39, PAGE_BYTES, PAGE_BYTES + 1):
        fill = b"x" * place + "é".encode() + b"x" * LARGE_BYTES
        line = b'{"jsonrpc":"2.0","id":7,"result":{"x":"' + fill + b'"}}'
        assert LargeLine(line).is_text
        assert not LargeLine(line.replace("é".encode(), b"\xc3")).is_text
    assert not LargeLine(FILL.encode() + b"\xc3").is_text


@pytest.mark.parametrize("before", [*range(PAGE_BYTES - 20, PAGE_BYTES, 3), BLOCK_BYTES - 5])
def test_a_member_is_seen_wherever_it_stands(before: int) -> None:
    line = LINE % ("y" * before + '","_meta":{},"z":"' + FILL)
    assert unread(line) is not None
    assert unread(line, {"_meta": ""}) is None
    assert unread(line, {"_meta": "{"}) is not None
    assert unread(line.replace('"_meta":', '"_meta",'), {"_meta": ""}) is not None
    assert LargeLine(line.encode()).mentions(b'"_meta"')


@pytest.mark.parametrize("member", ['"resultType":"complete"', '"isError": true', '"ttlMs":500'])
def test_a_value_that_is_cut_where_reading_ends_is_not_taken_for_another(member: str) -> None:
    [(name, value)] = json.loads(f"{{{member}}}").items()
    for before in range(END_BYTES - 40, END_BYTES):
        line = LINE % ("y" * before + f'",{member},"z":"{FILL}')
        result = unread(line, {name: ""})
        assert result is None or result.value[name] == value


def test_an_answer_that_nobody_has_read_is_to_no_other_request() -> None:
    result = unread(LINE[:-1] % FILL + ',"id":8,"y":{}}')
    assert result is not None
    for number in (7, 8):
        answer = message.result(str(number), result)
        assert json.loads(answer.line())["id"] == number
        assert b"".join(answer.pieces()) == answer.line()


# --- What is spliced ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "client", "written", "passed"),
    [
        # Of one era: as it is, whatever is in it.
        ("legacy", "legacy", '{"content": ROWS}', '{"content": ROWS}'),
        (
            "legacy",
            "legacy",
            '{ "_meta":{}, "x" : TEXT, "n":1.0 }',
            '{ "_meta":{}, "x" : TEXT, "n":1.0 }',
        ),
        # A modern client gets what results have since; what is there already stays.
        ("legacy", "modern", '{"content":TEXT}', '{"content":TEXT,COMPLETE,OURS}'),
        (
            "legacy",
            "modern",
            '{"content":[], "structuredContent":ROWS, "isError": false }',
            '{"content":[], "structuredContent":ROWS, "isError": false ,COMPLETE,OURS}',
        ),
        (
            "legacy",
            "modern",
            '{"_meta": {"v":1.0}, "content":[] , "structuredContent":ROWS}',
            '{"_meta":{"v":1.0,SERVER},"content":[] , "structuredContent":ROWS,COMPLETE}',
        ),
        (
            "legacy",
            "modern",
            '{"content":TEXT,"structuredContent":{"a":1.0} , "_meta" :{} }',
            '{"content":TEXT,"structuredContent":{"a":1.0} , "_meta":{SERVER},COMPLETE}',
        ),
        # A legacy client gets a result without what older revisions do not know.
        (
            "modern",
            "legacy",
            '{"resultType":"complete","content":TEXT,"structuredContent":ROWS,MADE}',
            '{"content":TEXT,"structuredContent":ROWS,MADE}',
        ),
        (
            "modern",
            "legacy",
            '{"content":[], "structuredContent":ROWS, "ttlMs": 5, MADE, "resultType":"complete"}',
            '{"content":[], "structuredContent":ROWS, MADE}',
        ),
        (
            "modern",
            "legacy",
            '{"content":TEXT,"resultType":"complete"}',
            '{"content":TEXT}',
        ),
        # Between modern peers nothing is missing.
        (
            "modern",
            "modern",
            '{"content":[],"structuredContent": ROWS ,"resultType":"complete", MADE }',
            '{"content":[],"structuredContent": ROWS ,"resultType":"complete", MADE }',
        ),
        # What cannot be told is read: the members between two large ones, and what is to change.
        ("legacy", "modern", '{"content":TEXT,"_meta":{},"structuredContent":ROWS}', None),
        ("legacy", "modern", '{"structuredContent":ROWS}', None),
        ("modern", "legacy", '{"content":TEXT,"resultType":"complete","x":TEXT}', None),
        ("modern", "legacy", '{"content":TEXT,"structuredContent":[],"x":TEXT}', None),
        ("legacy", "legacy", '{"content":TEXT,"x":{"jsonrpc":"2.0"}}', None),
        # So is what stands twice, of which the last counts, and what hides its name.
        ("legacy", "modern", '{"_meta":{},"content":TEXT,"_meta":{"v":1.0}}', None),
        (
            "legacy",
            "modern",
            '{"_meta":{},"content":TEXT,"_meta":{},"structuredContent":ROWS}',
            None,
        ),
        ("legacy", "modern", '{"content":TEXT,"\\u005fmeta":{},"structuredContent":ROWS}', None),
        ("modern", "legacy", '{"content":TEXT,"result\\u0054ype":"complete","x":TEXT}', None),
    ],
)
@pytest.mark.parametrize(
    "envelope", ['{"jsonrpc":"2.0","id":%s,"result":%s}', '{"result":%s,"jsonrpc":"2.0","id":%s}']
)
def test_only_members_at_the_top_are_spliced(
    envelope: str, server: str, client: str, written: str, passed: str | None
) -> None:
    world = World(
        {"a": ["t"]}, facts={"a": {"protocol": MODERN_VERSION}} if server == "modern" else {}
    )
    peer, a = world.client(), world.up("a")
    asked = call("mine", "a:t")
    world.say(peer, asked if client == "legacy" else enveloped(asked))
    [request] = world.received(a)
    first = envelope.startswith('{"result"')
    text = filled(written)
    line = envelope % ((text, request["id"]) if first else (request["id"], text))
    [answer], _ = a.connection.read(line.encode(), str)
    assert isinstance(answer, Message)
    assert isinstance(answer.members["result"], LargeResult) == (passed is not None)
    world.say(a, line)
    [got] = world.lines(peer)
    if passed is not None:
        assert got == f'{{"result":{filled(passed)},"jsonrpc":"2.0","id":"mine"}}'
    else:
        spliced = ("resultType", "structuredContent", "_meta")
        kept = {n: value for n, value in json.loads(text).items() if n not in spliced}
        result = json.loads(got)["result"]
        assert {name: result[name] for name in kept} == kept


# --- What stays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("modern", [False, True])
def test_a_result_that_was_passed_on_leaves_nothing(
    modern: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[weakref.ref[Any]] = []

    def new_page() -> Any:
        page = mmap(-1, PAGE_BYTES)
        pages.append(weakref.ref(page))
        return page

    monkeypatch.setattr(large, "_new_page", new_page)
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    asked = call("mine", "a:t")
    world.say(client, enveloped(asked) if modern else asked)
    [request] = world.received(a)
    lines = LargeLines(lambda: None, lambda: None)
    line = (LINE % (FILL * 10)).replace("7", str(request["id"])).encode() + b"\n"
    received = [
        a.connection.read(part, str)
        for start in range(0, len(line), BLOCK_BYTES)
        for part in lines.feed(line[start : start + BLOCK_BYTES])
    ]
    world.core.from_child(a, received.pop())
    [(_, _, sent)] = world.core.taken()
    assert len(pages) == 2
    assert all(page() for page in pages)
    assert len(sent.pieces()) > 2
    del sent
    assert not any(page() for page in pages), gc.get_referrers(*filter(None, (p() for p in pages)))


def test_what_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message, "MAXIMUM_LINE_BYTES", 3 * LARGE_BYTES)
    refused: list[int] = []
    lines = LargeLines(lambda: refused.append(1), lambda: None)
    for _ in range(6):
        assert lines.feed(FILL.encode()) == []
    assert refused == [1]
    assert lines._large is None
    assert lines.feed(b"\nshort\n") == [b"short"]
    [line] = lines.feed(FILL.encode() + b"!\n")
    assert isinstance(line, bytes)


def test_a_large_line_is_whole_again_when_it_is_read() -> None:
    begun: list[int] = []
    lines = LargeLines(lambda: None, lambda: begun.append(1))
    for part in (b"a", FILL.encode(), FILL.encode()):
        assert lines.feed(part) == []
    first, second = lines.feed(b"b\nsecond\nthird")
    whole: Any = first
    assert (whole.whole(), second) == (b"a" + 2 * FILL.encode() + b"b", b"second")
    assert (begun, lines.rest()) == ([1], b"third")
