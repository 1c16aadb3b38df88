"""Lines and messages by their text: cut, taken apart and put together without a change."""

from __future__ import annotations

import sys

import pytest

from mcpagg_runtime.messages import message as lines_of
from mcpagg_runtime.messages.jsontext import (
    Malformed,
    NotAnObject,
    decode,
    elements,
    parse,
    place_of,
    spliced,
)
from mcpagg_runtime.messages.message import (
    Lines,
    error,
    failure,
    notification,
    read_message,
    request,
    result,
)


def test_only_byte_0a_ends_a_line() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    assert Lines().feed(text.encode() + b"\nrest") == [text.encode()]


def test_a_line_may_come_in_any_number_of_pieces() -> None:
    lines = Lines()
    assert lines.feed(b"on") == []
    assert lines.feed(b"e") == []
    assert lines.rest() == b"one"
    assert lines.feed(b"\ntwo\n\nthr") == [b"one", b"two", b""]
    assert lines.feed(b"") == []
    assert lines.rest() == b"thr"
    assert lines.feed(b"\n") == [b"thr"]
    assert lines.rest() == b""


def test_a_long_line_costs_no_more_than_its_length() -> None:
    lines = Lines()
    for _ in range(2000):
        assert lines.feed(b"x" * 10_000) == []
    [line] = lines.feed(b"\n")
    assert len(line) == 20_000_000


def test_a_line_without_end_is_refused_once_and_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_of, "MAXIMUM_LINE_BYTES", 5)
    refused: list[int] = []
    lines = Lines(lambda: refused.append(1))
    assert lines.feed(b"12345") == []
    assert lines.feed(b"\n1234") == [b"12345"]
    assert (lines.feed(b"5"), refused) == ([], [])
    assert (lines.feed(b"6"), refused) == ([], [1])
    assert (lines.feed(b"789" * 10), refused) == ([], [1])
    assert lines.rest() == b""
    assert (lines.feed(b"0\nab\nc"), refused) == ([b"ab"], [1])
    assert lines.feed(b"d\n") == [b"cd"]
    assert (lines.feed(b"12345"), lines.feed(b"6\n"), refused) == ([], [], [1, 1])
    assert lines.feed(b"ef\n") == [b"ef"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"{}", "{}"),
        (b"{}\r", "{}"),
        (b"\xef\xbb\xbf{}\r", "{}"),
        (b" \t{} \r", "{}"),
        (b"", ""),
        (b" \t\r", ""),
        (b"\xef\xbb\xbf", ""),
        ('"\u2028"'.encode(), '"\u2028"'),
    ],
)
def test_a_line_sheds_its_mark_and_white_space(line: bytes, text: str) -> None:
    assert decode(line) == text


@pytest.mark.parametrize("line", [b"\xff\xfe", b'{"a":"\xed\xa0\x80"}', b'{"a":"\xc3"}'])
def test_a_line_that_is_not_utf_8_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed, match="not UTF-8 at byte"):
        decode(line)


@pytest.mark.parametrize(
    "raw",
    [
        "1.0",
        "-0.0",
        "1e999",
        "1E+400",
        "0.1000000000000000055511151231257827",
        "1234567890123456789",
        "9" * 5000,
        "-" + "9" * 5000,
        "NaN",
        "-Infinity",
        "null",
        '"\\ud800"',
        '"\\u0041\\/"',
        '"\u2028\x7f"',
        '{"b":1,"a":2,"b":3}',
        '{ "a" : [ 1 , { } , [ ] ] }',
        "[" * 500 + "]" * 500,
        '{"a":' * 500 + "{}" + "}" * 500,
    ],
)
def test_a_member_keeps_its_text(raw: str) -> None:
    message = read_message(f'{{"jsonrpc":"2.0", "id" : 1 ,"result":{raw},"x":0}}')
    assert message.raw("result") == raw
    assert (message.id_text, message.value("x"), message.raw("none")) == ("1", 0, "")


def test_a_member_that_stands_twice_has_its_last_value() -> None:
    message = read_message('{"id":1,"id":2,"\\u0069d":3}')
    assert (message.id, message.id_text) == (3, "3")


@pytest.mark.parametrize(
    ("raw", "identifier"),
    [
        ("0", 0),
        ("-1", -1),
        ('""', ""),
        ('"0"', "0"),
        ("9223372036854775808", 2**63),
        ("9" * 4000, int("9" * 4000)),
        ('"\\u00e9\\ud800"', "é\ud800"),
        ("null", None),
        ("true", None),
        ("1.0", None),
        ("1e3", None),
        ("[1]", None),
        ("{}", None),
        ("9" * 5000, None),
    ],
)
def test_an_id_is_an_integer_or_a_string(raw: str, identifier: object) -> None:
    message = read_message(f'{{"id":{raw},"method":"m"}}')
    assert message.id == identifier
    assert type(message.id) is type(identifier)
    assert message.id_text == raw


def test_a_lower_limit_of_the_interpreter_on_long_integers_does_no_harm() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert read_message('{"result":' + "7" * 1000 + "}").raw("result") == "7" * 1000
    finally:
        sys.set_int_max_str_digits(limit)


@pytest.mark.parametrize("text", ["5", '"s"', "null", "[]", '[{"id":1}]', "true", " 1 "])
def test_json_that_is_no_object_is_told_from_what_is_no_json(text: str) -> None:
    with pytest.raises(NotAnObject):
        read_message(text)


@pytest.mark.parametrize(
    "text",
    [
        "Server started",
        "{",
        "{}x",
        "{} {}",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{"a" 1}',
        "{a:1}",
        '{"a":1 "b":2}',
        '{"a":[1,]}',
        '{"a":tru}',
        '{"a":"\t"}',
        '{"a\t":1}',
        '{"a":"',
        '{"a',
        '{"\\x":1}',
        "[1,",
        "'a'",
        "NaN1",
        '{"a":' + "[" * 5000,
        '{"a":' + "[" * 5000 + "}" * 5000 + "}",
        '{"a":' + "[" * 5000 + "1 1" + "]" * 5000 + "}",
        '{"a":' + '{"b":' * 5000 + "}" * 5001,
        '{"a":' + '{"b" ' * 5000 + "}" * 5001,
        '{"a":' + "{1:" * 5000 + "}" * 5001,
    ],
)
def test_what_is_no_json_is_malformed(text: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_message(text)
    assert type(caught.value) is Malformed


def test_params_that_are_absent_null_or_no_object_count_as_none() -> None:
    for params in ("", ',"params":null', ',"params":[1]', ',"params":"x"'):
        assert read_message(f'{{"id":1,"method":"m"{params}}}').params == {}


def test_a_method_that_is_no_string_counts_as_none() -> None:
    assert read_message('{"id":1,"method":5}').method is None


def test_parts_of_params_can_be_replaced() -> None:
    message = read_message('{"params" : {"a":1, "b" :2},"id":7}')
    text = message.raw("params")
    changes = [(place_of(text, ("b",)), '"two"'), (place_of(text, ("a",)), '"one"')]
    assert spliced(text, changes) == '{"a":"one", "b" :"two"}'
    assert spliced(text, []) == '{"a":1, "b" :2}'


def test_the_elements_of_an_array_have_their_places() -> None:
    text = '{"a": [ 1 , "x" ,{"b":[]}]}'
    found = list(elements(text, text.index("[")))
    assert [text[start:end] for _, start, end in found] == ["1", '"x"', '{"b":[]}']
    assert list(elements("[ ]", 0)) == []


@pytest.mark.parametrize("text", ["{}", "", "[1", "[1 2]", "[,]"])
def test_what_is_no_array_has_no_elements(text: str) -> None:
    with pytest.raises(Malformed):
        list(elements(text, 0))


def test_a_text_is_one_value() -> None:
    assert parse(' {"a": 1e999} ') == {"a": float("inf")}
    with pytest.raises(Malformed, match="unexpected text at character 2"):
        parse("[] []")


def test_messages_are_written_in_ascii_where_the_words_are_ours() -> None:
    lines = [
        (request(3, "m"), '"id":3,"method":"m"'),
        (request(3, "m\u2028", "[1]"), '"id":3,"method":"m\\u2028","params":[1]'),
        (notification("n", '{"a":1}'), '"method":"n","params":{"a":1}'),
        (result('"x"', "1e999"), '"id":"x","result":1e999'),
    ]
    for message, said in lines:
        assert message.line().decode() == f'{{"jsonrpc":"2.0",{said}}}\n'
    problem = error(-32603, "é\ud800", '{"k":1}')
    assert problem == '{"code":-32603,"message":"\\u00e9\\ud800","data":{"k":1}}'
    line = f'{{"jsonrpc":"2.0","id":null,"error":{problem}}}\n'
    assert failure("null", problem).line().decode() == line
