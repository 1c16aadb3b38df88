"""The short way of reading a message finds what the full one finds, or leaves it to that.

More examples: --hypothesis-profile thorough.
"""

from __future__ import annotations

import json

from core import Json, enveloped
from hypothesis import given
from hypothesis import strategies as st

from mcpagg_runtime.base.client import Client, is_enveloped
from mcpagg_runtime.base.jsontext import Malformed
from mcpagg_runtime.base.message import Message, decode, read_message
from mcpagg_runtime.serve.connection import Call
from mcpagg_runtime.serve.plain import (
    UNREAD_BYTES,
    plain_answer,
    plain_message,
    unread_answer,
)
from mcpagg_runtime.serve.routing import ambiguity

# --- Lines ------------------------------------------------------------------------------------

SPACES = st.sampled_from(["", "", "", "", " ", "  ", "\t", "\r"])
SCALARS = st.one_of(
    st.sampled_from(["null", "true", "0", "-1", "1.50", "1E400", "7" * 5000, "NaN", "tru", ""]),
    st.sampled_from(['"a:t"', '"é\u2028"', '"\\u0061"', '"\\ud800"', '"a\tb"', '"\\x"', '"']),
    st.integers().map(str),
)
NAMES = st.sampled_from(['"name"', '"Name"', '"n\\u0061me"', '"arguments"', '"_meta"', '"x"'])
TOKENS = st.sampled_from(['"progressToken"', '"io.modelcontextprotocol/protocolVersion"', '"y"'])


def objects(names: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy:
    """Return texts of objects, and of what is nearly one."""
    member = st.tuples(SPACES, names, SPACES, st.just(":"), SPACES, values).map("".join)
    comma = st.tuples(SPACES, st.sampled_from([",", ",", ",", ",", ",,", ""])).map("".join)
    parts = st.lists(st.tuples(member, comma).map("".join), max_size=4).map("".join)
    last = st.one_of(member, member, st.just(""))
    end = st.sampled_from(["}", "}", "}", "}", "", "}}", "]"])
    return st.tuples(st.just("{"), parts, last, SPACES, end).map("".join)


META = objects(TOKENS, SCALARS)
PARAMS = objects(NAMES, st.one_of(SCALARS, META, st.just('{"a": [1, {}]}')))
MEMBERS = st.sampled_from(['"jsonrpc"', '"id"', '"method"', '"params"', '"params"', '"result"'])
METHODS = st.sampled_from(['"tools/call"', '"resources/read"', '"completion/complete"', "5"])
REQUESTS = objects(MEMBERS, st.one_of(METHODS, SCALARS, PARAMS))
ENVELOPES = st.sampled_from(
    [
        '{"jsonrpc":"2.0","id":ID,"result":SAID}',
        '{"jsonrpc": "2.0", "id": ID, "result": SAID}',
        '{"result":SAID,"jsonrpc":"2.0","id":ID}',
        '{"jsonrpc":"2.0","id":ID,"error":SAID}',
        '{"jsonrpc":"2.0","result":SAID,"id":ID}',
        '{"jsonrpc":"2.0", "id":ID,"result":SAID}',
        '{"jsonrpc":"2.0","id":ID,"result":SAID,"x":1}',
        '{"jsonrpc":"2.0","id":ID,"result":SAID}{}',
        '{"result":SAID,"x":{"result":1},"jsonrpc":"2.0","id":ID}',
    ]
)
IDS = st.sampled_from(["1", "12", "01", "-1", "1.0", '"1"', "null", "", "1 ", "9" * 30, "٣"])
ENDS = st.sampled_from(["", "", "", "\r", " ", "\ufeff"])


def read(line: bytes) -> Message | None:
    """Read a line in full, None for one that is no message."""
    try:
        return read_message(decode(line))
    except Malformed:
        return None


def alike(short: Message, full: Message, *names: str) -> bool:
    """Whether two messages have the same method, id and members."""
    heads = [(message.method, message.id) for message in (short, full)]
    return heads[0] == heads[1] and all(
        short.raw(name) == full.raw(name) and repr(short.value(name)) == repr(full.value(name))
        for name in names
    )


# --- Requests ---------------------------------------------------------------------------------


@given(
    st.one_of(REQUESTS, PARAMS.map(lambda params: f'{{"method":"tools/call","params":{params}}}'))
)
def test_a_message_is_the_same_both_ways(text: str) -> None:
    line = text.encode("utf-8", "surrogatepass")
    short = plain_message(line)
    if short is None:
        return
    full = read(line)
    assert full is not None
    assert alike(short, full, "id", "params")
    assert ambiguity(short) == ambiguity(full)
    assert is_enveloped(short) == is_enveloped(full)
    sent = [
        Call(Client("spec"), one, "", ("name",), "t").sent_as(7).line() for one in (short, full)
    ]
    assert sent[0] == sent[1]


@given(st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans(), st.booleans())
def test_what_programs_write_is_read_the_short_way(
    separators: tuple[str, str], modern: bool, first: bool
) -> None:
    params = {"name": "a:t", "arguments": {"x": [1]}, "_meta": {"progressToken": 1}}
    call: Json = {"method": "tools/call", "params": params}
    call = enveloped(call) if modern else call
    head = {"jsonrpc": "2.0", "id": 1}
    text = json.dumps({**head, **call} if first else {**call, **head}, separators=separators)
    assert plain_message(text.encode()) is not None
    answer = {**head, "result": {}} if first else {"result": {}, **head}
    spaced = separators[0] == ", "
    assert (plain_answer(json.dumps(answer, separators=separators).encode()) is None) == (
        spaced and not first
    )


# --- Answers ----------------------------------------------------------------------------------


@given(ENVELOPES, IDS, st.one_of(SCALARS, PARAMS), ENDS)
def test_an_answer_is_the_same_both_ways(envelope: str, number: str, said: str, end: str) -> None:
    text = envelope.replace("ID", number).replace("SAID", said) + end
    line = text.encode("utf-8", "surrogatepass")
    short = plain_answer(line)
    if short is None:
        return
    full = read(line)
    assert full is not None
    assert alike(short, full, "id", "result")
    assert short.under('"x"').line() == full.under('"x"').line()
    assert short.is_error == full.is_error


@given(ENVELOPES, IDS, st.one_of(SCALARS, PARAMS), ENDS)
def test_a_large_answer_that_is_passed_on_unread_says_the_same(
    envelope: str, number: str, said: str, end: str
) -> None:
    filled = '{"x":"' + "é" * (UNREAD_BYTES // 2) + '","y":' + said + "}"
    text = envelope.replace("ID", number).replace("SAID", filled) + end
    line = text.encode("utf-8", "surrogatepass")
    short, full = unread_answer(line), read(line)
    if short is None or full is None:
        return  # what is in a result is not looked at, unless it must be read
    assert alike(short, full, "id", "result")
    assert json.loads(short.under('"x"').line()) == json.loads(full.under('"x"').line())
