"""Messages as objects: what is known of their members, and edits that leave the rest alone."""

from __future__ import annotations

import json

import pytest

from mcpagg_runtime.messages.jsontext import LARGE, Json, edited
from mcpagg_runtime.messages.message import (
    Message,
    failure,
    notification,
    read_message,
    request,
    result,
)

RESULT = '{ "a" : 1.0, "b":{"c" : [1e999]} ,"d":"\\ud800" }'


def read(text: str = RESULT) -> Json:
    """Return the result of a response, as it is when a line has been read."""
    return read_message(f'{{"id":1,"result":{text},"jsonrpc":"2.0"}}').json("result")


def test_the_members_of_a_result_have_their_places() -> None:
    found = read()
    assert (found.text, found.part("a"), found.part("b", "c")) == (RESULT, "1.0", "[1e999]")
    assert (found.part("b", "x"), found.part("x"), found.place(("x",))) == ("", "", (0, 0))
    assert found.value["b"] == {"c": [float("inf")]}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("drop", "add", "expected"),
    [
        ((), {}, RESULT),
        (("x",), {}, RESULT),
        ((), {"e": "5"}, '{ "a" : 1.0, "b":{"c" : [1e999]} ,"d":"\\ud800" ,"e":5}'),
        ((), {"a": "2"}, '{"a":2,"b":{"c" : [1e999]},"d":"\\ud800"}'),
        (("a",), {}, '{"b":{"c" : [1e999]},"d":"\\ud800"}'),
        (("b",), {}, '{"a":1.0,"d":"\\ud800"}'),
        (("d",), {"e": "5"}, '{"a":1.0,"b":{"c" : [1e999]},"e":5}'),
        (("a", "b", "d"), {}, "{}"),
    ],
)
def test_an_edit_leaves_the_other_members_as_they_were_written(
    known: bool, drop: tuple[str, ...], add: dict[str, str], expected: str
) -> None:
    json_ = read() if known else Json(RESULT)
    assert json_.edited(drop, add).text == expected
    assert edited(RESULT, drop, add) == expected


def test_of_a_member_that_stands_twice_nothing_is_left_behind() -> None:
    text = '{"a":1,"b":2,"a":3,"b":4}'
    assert edited(text, ("a",)) == Json(text).edited(("a",)).text == '{"b":4}'
    assert Json(text).edited(add={"a": "5"}).text == '{"a":5,"b":4}'


@pytest.mark.parametrize("text", ["{}", "{ }"])
def test_an_empty_object_can_be_added_to(text: str) -> None:
    assert json.loads(edited(text, add={"a": "1"})) == {"a": 1}


def test_a_response_passes_on_under_another_id_without_being_read_again() -> None:
    message = read_message(f'{{"id":1,"result":{RESULT}}}')
    passed = message.under('"x"')
    assert passed.value("result") is message.value("result")
    assert passed.line().decode() == f'{{"jsonrpc":"2.0","id":"x","result":{RESULT}}}\n'


def test_an_error_counts_before_a_result_unless_it_is_null() -> None:
    both = read_message('{"id":1,"result":{},"error":{"code":5}}')
    assert both.under("1").members.keys() == {"error"}
    null = read_message('{"id":1,"result":{"a":1},"error":null}')
    assert null.under("1").raw("result") == '{"a":1}'


@pytest.mark.parametrize("message", [notification("n"), result("1", "[]"), read_message("{}")])
def test_what_is_no_object_counts_as_an_empty_one(message: Message) -> None:
    assert (message.json("params").text, message.json("result").value) == ("{}", {})


@pytest.mark.parametrize("code", ["[-1,-1]", "{}", '"-1"', "-1.5", "true", "null"])
def test_an_error_has_a_code_only_if_that_is_an_integer(code: str) -> None:
    assert read_message(f'{{"id":1,"error":{{"code":{code},"message":"m"}}}}').code is None
    assert read_message('{"id":1,"error":{"code":-1,"message":"m"}}').code == -1


@pytest.mark.parametrize("fill", ["x", "0", "\u00e9"])
@pytest.mark.parametrize("what", ["params", "result", "error"])
def test_a_large_message_is_sent_in_pieces_that_are_its_line(what: str, fill: str) -> None:
    value = json.dumps({"id": 0, "text": fill * LARGE}, ensure_ascii=False)
    sent = request(10, "tools/call0", value) if what == "params" else result("10", value)
    if what == "error":
        sent = failure("10", value)
    pieces = sent.pieces()
    assert len(pieces) == 3
    assert b"".join(pieces) == sent.line()
    assert json.loads(sent.line())[what] == json.loads(value)
