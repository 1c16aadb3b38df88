"""What is read of requests, and what is passed on of answers, is what they say.

More examples: --hypothesis-profile thorough.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.jsontext import Malformed, decode
from mcpagg_runtime.messages.message import Message, read_line, read_message
from mcpagg_runtime.servers.calls import Call

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
ANSWERED = st.sampled_from(['"jsonrpc"', '"id"', '"result"', '"r\\u0065sult"', '"error"', '"x"'])
ANSWERS = objects(ANSWERED, st.one_of(SCALARS, PARAMS))


def read(line: bytes) -> Message | None:
    """Read a line in full, None for one that is no message."""
    try:
        return read_message(decode(line))
    except Malformed:
        return None


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
        assert bool(message.ambiguity) == (names > 1)
        places = [at for at, (name, _) in enumerate(params) if name == "name"]
        if places:
            asked = Call(Client("spec"), message, "", ("name",), "t")
            asked.number = 7
            sent = asked.request().line()
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


# --- Answers ----------------------------------------------------------------------------------


@given(st.one_of(ANSWERS, ANSWERS.map(lambda answer: f'{answer[:-1]},"id":7}}')))
def test_what_is_passed_on_of_an_answer_is_one_value_and_nothing_beside_it(text: str) -> None:
    found, _ = read_line(text.encode("utf-8", "surrogatepass"))
    passed = [
        json.loads(message.under("9").line(), object_pairs_hook=Pairs)
        for message in found
        if isinstance(message, Message) and "7" * 5000 not in text
    ]
    for answer in passed:
        assert [name for name, _ in answer] in (["jsonrpc", "id", what] for what in OUTCOMES)
        assert answer.last("id") == 9
    try:
        whole = json.loads(text.strip(" \t\r\n"), object_pairs_hook=Pairs)
    except ValueError:
        return
    if len(dict(whole)) < len(whole):
        assert passed == [] or not {"id", *OUTCOMES} & dict(whole).keys()
    elif dict(whole).keys() & {*OUTCOMES}:
        outcome = "result" if whole.last("error") is None else "error"
        assert repr(passed[0].last(outcome)) == repr(dict(whole).get(outcome, Pairs()))


OUTCOMES = ("result", "error")
