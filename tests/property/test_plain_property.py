"""What is read of requests, and what is passed on of large answers unread, is what they say.

More examples: --hypothesis-profile thorough.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import Json
from hypothesis import given
from hypothesis import strategies as st

from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.jsontext import Malformed
from mcpagg_runtime.base.message import LARGE_BYTES, Message, decode, read_message
from mcpagg_runtime.rare import large
from mcpagg_runtime.rare.large import LargeLine
from mcpagg_runtime.serve.connection import Call
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


class Pairs(list[tuple[str, Any]]):
    """The members of an object as they stand."""

    def last(self, name: str) -> Any:
        """Return the last value of a name."""
        return dict(self).get(name)


@given(
    st.one_of(REQUESTS, PARAMS.map(lambda params: f'{{"method":"tools/call","params":{params}}}'))
)
def test_a_request_says_what_the_json_module_reads(text: str) -> None:
    message = read(text.encode("utf-8", "surrogatepass"))
    if message is None or "7" * 5000 in text:
        return
    whole = json.loads(text.strip(" \t\r\n\ufeff"), object_pairs_hook=Pairs)
    method, params = whole.last("method"), whole.last("params")
    assert message.method == (method if type(method) is str else None)
    assert repr(message.value("params")) == repr(plain(params))
    if message.id_text:
        assert repr(json.loads(message.id_text)) == repr(plain(whole.last("id")))
    if type(params) is Pairs and message.method == "tools/call":
        names = [name.casefold() for name, _ in params].count("name")
        assert bool(ambiguity(message)) == (names > 1)
        places = [at for at, (name, _) in enumerate(params) if name == "name"]
        if places:
            sent = Call(Client("spec"), message, "", ("name",), "t").sent_as(7).line()
            params[places[-1]] = "name", "t"
            found = json.loads(sent, object_pairs_hook=Pairs)
            assert (found.last("id"), found.last("method")) == (7, "tools/call")
            assert repr(unmarked(found.last("params"))) == repr(unmarked(params))


def unmarked(params: Pairs) -> Pairs:
    """Return params without what may hold a progress token."""
    return Pairs(member for member in params if member[0] != "_meta")


def plain(value: Any) -> Any:
    """Return a value whose objects are dicts."""
    if type(value) is Pairs:
        return {name: plain(part) for name, part in value}
    return [plain(part) for part in value] if type(value) is list else value


# --- Large answers ----------------------------------------------------------------------------


@given(ENVELOPES, IDS, st.one_of(SCALARS, PARAMS), ENDS)
def test_a_large_answer_that_is_passed_on_unread_says_the_same(
    envelope: str, number: str, said: str, end: str
) -> None:
    filled = '{"x":"' + "é" * (LARGE_BYTES // 2) + '","y":' + said + "}"
    text = envelope.replace("ID", number).replace("SAID", filled) + end
    line = text.encode("utf-8", "surrogatepass")
    kept, full = LargeLine(line), read(line)
    answer = kept.answer()
    unread = kept.result(answer[1], {}) if answer is not None else None
    if answer is None or unread is None or full is None:
        return  # what is in a result is not looked at, unless it must be read
    assert (answer[0], unread.text) == (full.id, full.raw("result"))


WANTED = {"resultType": "", "_meta": "", "content": "", "structuredContent": "{"}
VALUES = st.recursive(
    st.one_of(
        st.none(), st.integers(), st.text(max_size=30), st.sampled_from([*WANTED, ',"_meta":'])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from([*WANTED, "x", "jsonrpcs"]), inner, max_size=4),
    ),
    max_leaves=12,
)
FILLED = st.lists(VALUES, min_size=1).map(lambda values: values * (1 + 40 // len(values)))
OBJECTS = st.dictionaries(
    st.one_of(st.sampled_from([*WANTED]), st.text(max_size=5)),
    st.one_of(VALUES, FILLED),
    min_size=1,
)


@given(
    OBJECTS,
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from([*WANTED]), unique=True),
)
def test_what_is_spliced_into_a_large_result_is_what_is_changed_in_its_value(
    value: Json, separators: tuple[str, str], ascii_: bool, first: bool, names: list[str]
) -> None:
    drop, add = names[:1], dict.fromkeys(names[1:], '{"new":1.0}')
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_)
    head = '"jsonrpc":"2.0","id":7'
    line = f'{{"result":{text},{head}}}' if first else f'{{{head},"result":{text}}}'
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {"END_BYTES": 70, "BLOCK_BYTES": 64, "PAGE_BYTES": 128}.items():
            patch.setattr(large, name, size)
        kept = LargeLine(line.encode())
        found = kept.answer() if kept.size > 3 * large.END_BYTES else None
        result = kept.result(found[1], WANTED) if found is not None else None
        if result is None:
            return  # what cannot be told is read
        assert json.loads(result.text) == value
        known = {name: got for name, got in result.value.items() if name in WANTED}
        assert known.keys() <= value.keys()
        assert all(
            type(got) is dict or name in known for name, got in value.items() if name in WANTED
        )
        changed = {name: got for name, got in value.items() if name not in drop}
        new = {name: json.loads(got) for name, got in add.items()}
        if known.keys() == value.keys() & WANTED.keys():
            assert json.loads(result.edited(drop, add).text) == {**changed, **new}
