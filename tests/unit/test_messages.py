"""What is read of a line of a server that is not written as it should be."""

from __future__ import annotations

import json

import pytest

from mcpagg_runtime.messages.message import Fragment, Message, read_line

ANSWER = '{"jsonrpc":"2.0","id":7,"result":{"n":1}}'
OTHER = '{"jsonrpc":"2.0","id":8,"result":{}}'


def read(line: bytes | str) -> tuple[list[object], str]:
    """Return what a line holds: messages as values, fragments as (id, method)."""
    parts, oddity = read_line(line.encode() if isinstance(line, str) else line)
    return [
        (part.id, part.method) if isinstance(part, Fragment) else json.loads(part.line())
        for part in parts
    ], oddity


def test_a_message_alone_is_not_odd() -> None:
    parts, oddity = read_line(f" {ANSWER}\r".encode())
    [message] = parts
    assert isinstance(message, Message)
    assert (message.id, message.raw("result"), oddity) == (7, '{"n":1}', "")


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    line = ANSWER.replace("1", '"caf\xe9"').encode("latin-1")
    parts, oddity = read(line)
    assert parts == [{"jsonrpc": "2.0", "id": 7, "result": {"n": "caf\ufffd"}}]
    assert oddity.startswith("not UTF-8 at byte ")


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        ("Loading... ", '"Loading..."'),
        ("\x1b]0;title\x07", '""'),
        ("[12:00:01] ", '"12:00:01"'),
        ("got {x}: ", '"got {x}:"'),
    ],
)
def test_what_stands_before_a_message_is_passed_over(before: str, shown: str) -> None:
    assert read(before + ANSWER) == ([json.loads(ANSWER)], shown)


@pytest.mark.parametrize(
    "line", [ANSWER + OTHER, f"{ANSWER} \t{OTHER}", f"[{ANSWER}, {OTHER}]", f"[{ANSWER},{OTHER}"]
)
def test_all_messages_of_a_line_are_read(line: str) -> None:
    assert read(line) == ([json.loads(ANSWER), json.loads(OTHER)], "")


@pytest.mark.parametrize(
    "line",
    [
        *("", "  ", "[]", "Server is up", "5", "null", "{ready}", "{", "{ {", '{"'),
        "{'jsonrpc': '2.0', 'id': 3}",
        '{"name"=>"a Ruby hash"}',
        'INFO: called with {"text":"and so o…',
        "{x" * 100_000,
        'x{"a":' * 100_000,
    ],
)
def test_a_line_that_does_not_begin_as_an_object_holds_no_message(line: str) -> None:
    assert read(line)[0] == []


@pytest.mark.parametrize(
    ("text", "identifier", "method"),
    [
        ('{"jsonrpc":"2.0","id":7,"result":{"n":', 7, ""),
        ('{"jsonrpc":"2.0","id":"7","result":nonsense}', "7", ""),
        ('{"id":7,"result":{"n":', 7, ""),
        ('{"a":', None, ""),
        ('Loading... {"jsonrpc":"2.0","id":7,"result":{"n":', 7, ""),
        ('{"result":{"n":NaN?},"jsonrpc":"2.0","id":7}', None, ""),
        ('{"result":{"id":3,"n":NaN?},"jsonrpc":"2.0"', None, ""),
        ('{"jsonrpc":"2.0","result":{"n":NaN?,"inner":{"id":3}}}', None, ""),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":{', 7, "ping"),
        (
            '{"jsonrpc":"2.0","method":"notifications/message","params":{',
            None,
            "notifications/message",
        ),
    ],
)
def test_of_what_cannot_be_read_the_members_before_the_fault_count(
    text: str, identifier: object, method: str
) -> None:
    assert read(text)[0] == [(identifier, method)]


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ('{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}', [9]),
        ('{"jsonrpc":"2.0","result":{"n":', [9]),
        (f"[{ANSWER},{OTHER}]", [7, 8]),
        ('{"jsonrpc":"2.0","method":"notifications/x"}', []),
        ('{"jsonrpc":"2.0","id":1,"method":"ping"}', []),
        ('{"error":"Unauthorized"}', []),
        ("<html>", []),
    ],
)
def test_an_answer_without_an_id_is_to_the_request_that_its_line_answers(
    line: str, answers: list[int]
) -> None:
    found, _ = read_line(line.encode(), request=9)
    assert [one.number for one in found if one.id is not None and not one.method] == answers


@pytest.mark.parametrize(
    "line",
    [
        f'{{"jsonrpc":"2.0","id":7,"res{OTHER}',
        f'{{"jsonrpc":"2.0","id":7,"result":{{"n":{OTHER}',
        f'{{"jsonrpc":"2.0","id":7,"result":?}},{OTHER}',
    ],
)
def test_of_several_messages_that_cannot_be_read_apart_no_id_is_known(line: str) -> None:
    assert read(line)[0] == [(None, "")]


def test_an_object_within_what_cannot_be_read_is_no_message() -> None:
    text = '{"jsonrpc":"2.0","id":7,"result":{"inner":{"id":8,"result":{}},"n":?}}'
    assert read(text)[0] == [(7, "")]


def test_what_nests_deep_and_cannot_be_read_is_one_fragment() -> None:
    assert read('{"jsonrpc":' + '{"a":' * 100_000)[0] == [(None, "")]
