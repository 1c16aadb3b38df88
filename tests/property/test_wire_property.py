"""Any bytes, cut anywhere, are the same lines; any JSON text passes through as it is.

More examples: --hypothesis-profile thorough.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import World
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpagg_runtime.messages.jsontext import Malformed, decode, parse
from mcpagg_runtime.messages.message import Lines, read_message
from mcpagg_runtime.start.values import quote

# --- Texts ------------------------------------------------------------------------------------

ODD_CHARACTERS = "\u2028\u2029\x85\x7f\ufeff\u202e\U0001f600é\\u000b"
ESCAPES = [
    "\\ud800",
    "\\udfff",
    "\\u2028",
    "\\n",
    "\\/",
    "\\u0041",
    "\\ud83d\\ude00",
    '\\"',
    "\\\\",
]
NUMBERS = ["1e999", "-1E+400", "1.0", "-0.0", "0.10000000000000000555", "7" * 5000, "1e-9999", "-0"]
spaces = st.sampled_from(["", "", "", " ", "\t", " \r "])


@st.composite
def strings(draw: st.DrawFn) -> str:
    """Draw the text of a JSON string."""
    plain = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'))
    piece = st.one_of(plain, st.sampled_from(ESCAPES), st.sampled_from(list(ODD_CHARACTERS[:-6])))
    return '"' + "".join(draw(st.lists(piece, max_size=4))) + '"'


scalars = st.one_of(
    st.sampled_from(["null", "true", "false", *NUMBERS]),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    strings(),
)


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Wrap texts into arrays and objects, with white space, double keys and more levels."""
    entry = st.tuples(spaces, inner, spaces).map("".join)
    keys = st.one_of(strings(), st.sampled_from(['"a"', '"name"', '"_meta"', '"progressToken"']))
    member = st.tuples(spaces, keys, spaces, st.just(":"), entry).map("".join)
    return st.one_of(
        st.lists(entry, max_size=4).map(lambda parts: "[" + ",".join(parts) + "]"),
        st.lists(member, max_size=4).map(lambda parts: "{" + ",".join(parts) + "}"),
        st.tuples(st.sampled_from([1, 30, 90]), inner).map(
            lambda drawn: "[" * drawn[0] + drawn[1] + "]" * drawn[0]
        ),
    )


texts = st.recursive(scalars, containers, max_leaves=8)
shallow = st.recursive(
    scalars.filter(lambda text: len(text) < 4000),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]"),
        st.lists(st.tuples(strings(), inner).map(":".join), max_size=3).map(
            lambda parts: "{" + ",".join(parts) + "}"
        ),
    ),
    max_leaves=6,
)
identifiers = st.one_of(
    st.integers(-(2**80), 2**80).map(str), strings(), st.sampled_from(["0", '""', '"0"'])
)


def chosen(text: str, number: int) -> str:
    """Return one of a few ways to spoil a text."""
    place = number % (len(text) + 1)
    return [
        text[:place] + text[place + 1 :],
        text[:place] + '"' + text[place:],
        text[:place] + "}" + text[place:],
        text[:place],
        text + text[place:],
    ][number % 5]


# --- Lines ------------------------------------------------------------------------------------


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b"\r"))), st.data())
def test_any_chunking_of_any_lines_gives_the_same_lines(lines: list[bytes], data: Any) -> None:
    rest = data.draw(st.binary().map(lambda line: line.replace(b"\n", b"")))
    stream = b"".join(line + b"\n" for line in lines) + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader, found = Lines(), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[begin:end])
    assert found == lines
    assert reader.rest() == rest


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_decoding_takes_nothing_but_a_mark_and_white_space(text: str) -> None:
    assert decode(text.encode()) == text.removeprefix("\ufeff").strip(" \t\r\n")


# --- Values -----------------------------------------------------------------------------------


@given(shallow)
def test_values_are_what_the_json_module_reads(text: str) -> None:
    assert parse(text) == json.loads(text)


@given(shallow, st.integers(0, 10**6))
def test_what_the_json_module_refuses_is_malformed(text: str, number: int) -> None:
    spoilt = chosen(f'{{"a":{text}}}', number)
    try:
        value = json.loads(spoilt)
    except ValueError:
        value = None
    if isinstance(value, dict):
        message = read_message(spoilt)
        assert {name: found.value for name, found in message.members.items()} == value
        for name in value:
            assert json.loads(message.raw(name)) == value[name]
    else:
        with pytest.raises(Malformed):
            read_message(spoilt)


@given(st.text())
def test_a_quoted_text_reads_as_itself(text: str) -> None:
    assert quote(text).isascii()
    assert json.loads(quote(text)) == text


# --- Messages through the router --------------------------------------------------------------


@given(identifiers, texts, st.sampled_from(["result", "error"]), spaces)
def test_an_answer_passes_byte_for_byte(raw: str, text: str, member: str, space: str) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")
    world.say(client, f'{{"id":{raw},"method":"tools/call","params":{{"name":"a:t"}}}}')
    if member == "error" and text == "null":  # means no error
        member = "result"
    [sent] = world.asked(a)
    world.say(a, f'{{"x":{space}[],"id":{sent},"{member}"{space}:{space}{text}{space}}}\r')
    assert world.lines(client) == [f'{{"jsonrpc":"2.0","id":{raw},"{member}":{text}}}']
    assert world.idle()


@given(
    st.lists(st.tuples(strings().filter(lambda name: name != '"_meta"'), texts), max_size=3),
    st.lists(st.tuples(strings(), texts), max_size=2),
    st.one_of(st.none(), identifiers),
    st.integers(0, 2),
    spaces,
)
def test_params_pass_byte_for_byte_but_for_name_and_token(
    more: list[tuple[str, str]],
    meta: list[tuple[str, str]],
    token: str | None,
    place: int,
    space: str,
) -> None:
    world = World({"a": ["t"]})
    client, a = world.client(), world.up("a")

    def params(name: str, number: str | None) -> str:
        entries = [f"{key}{space}:{value}" for key, value in more]
        entries.insert(place, f'"name"{space}:{space}"{name}"')
        within = [f"{key}:{value}" for key, value in meta]
        if number is not None:
            within.insert(place, f'"progressToken":{space}{number}')
        entries.append('"_meta":{' + f"{space},".join(within) + "}")
        return "{" + ",".join(entries) + space + "}"

    # A member that stands twice counts with its last value: only that one is replaced.
    doubled = {json.loads(key) for key, _ in more} & {"name", "_meta"}
    doubled |= {json.loads(key) for key, _ in meta} & {"progressToken"}
    assume(not doubled)
    world.say(client, f'{{"id":1,"method":"tools/call","params":{params("a:t", token)}}}')
    [sent] = world.asked(a)
    expected = params("t", None if token is None else str(sent))
    assert world.lines(a) == [
        f'{{"jsonrpc":"2.0","id":{sent},"method":"tools/call","params":{expected}}}'
    ]
    if token is not None:
        told = f'"params":{{"progressToken":{sent}}}'
        world.say(a, f'{{"method":"notifications/progress",{told}}}')
        assert world.lines(client) == [
            '{"jsonrpc":"2.0","method":"notifications/progress",'
            f'"params":{{"progressToken":{token}}}}}'
        ]


@given(texts, identifiers)
def test_a_question_and_its_answer_keep_their_text(text: str, raw: str) -> None:
    """But for the name of the server that asks, which is put at the end of the params."""
    assume("_meta" not in text)
    before = text.rstrip()[:-1] if text.startswith("{") else "{"
    comma = "," if before.strip() != "{" else ""
    asked = before + comma + '"_meta":{"mcpagg/server":"a"}}'
    world = World({"a": ["t"]})
    client, a = world.client({"sampling": {}}), world.up("a")
    world.say(a, f'{{"id":{raw},"method":"sampling/createMessage","params":{text}}}')
    assert world.lines(client) == [
        f'{{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{asked}}}'
    ]
    world.say(client, f'{{"id":1,"result":{text}}}')
    assert world.lines(a) == [f'{{"jsonrpc":"2.0","id":{raw},"result":{text}}}']


@given(st.lists(st.one_of(st.binary(), texts.map(str.encode)), max_size=5))
def test_any_line_of_anybody_is_survived(lines: list[bytes]) -> None:
    world = World({"a": ["t"]})
    client, a = world.client({"roots": {}}), world.up("a")
    for line in lines:
        for part in line.split(b"\n"):
            world.say(client, part)
            world.say(a, part)
    world.lines(client), world.lines(a)
    world.say(client, '{"id":"last","method":"tools/call","params":{"name":"a:t"}}')
    [sent] = world.received(a)
    world.say(a, f'{{"id":{sent["id"]},"result":{{}}}}')
    assert world.lines(client) == ['{"jsonrpc":"2.0","id":"last","result":{}}']
