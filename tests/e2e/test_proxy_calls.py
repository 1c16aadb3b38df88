"""What clients send reaches its child unread, and what children answer comes back the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, posix, served
from structure import a_call
from wire import STUB, Wire, call, received, start_call, stub_entry, text, tool_names, tools

from mcpagg_runtime.plan.names import portable_names

ODD_TOOL = (
    '{"x_future":{"a":[1]},"name":"odd","title":"T","description":"\\u2028 \\"\\"\\" \'\'\' \\\\",'
    '"inputSchema":{"type":"object","properties":{},"required":[],"const":1.0},'
    '"annotations":{"readOnlyHint":true,"x-custom":null},"_meta":{"vendor/k":1},"icons":[]}'
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    log = str(folder / "log")
    two = {"raw", "echo"}
    servers = {
        "one": stub_entry(tools="all", log=log, envelope="typescript"),
        "two": stub_entry(tools=[*sorted(two), ODD_TOOL], does={"odd": "echo"}),
        "a:b": stub_entry(tools=["c:d", "c"], page=1),
    }
    return compiled(folder, servers)


@pytest.fixture(scope="module")
def wire(file: Path) -> Any:
    with served(file, roots={}, sampling={}) as wire:
        yield wire


def test_every_tool_is_listed_in_config_order_then_the_childs(wire: Wire) -> None:
    names = tool_names(wire)
    assert names[0] == "one:echo"
    assert names[-5:] == ["two:echo", "two:raw", "two:odd", "a:b:c:d", "a:b:c"]


def test_a_tool_is_listed_with_every_field_as_its_child_gave_it(wire: Wire) -> None:
    (odd,) = [tool for tool in tools(wire) if tool["name"] == "two:odd"]
    assert {**odd, "name": "odd"} == json.loads(ODD_TOOL)
    assert list(odd) == list(json.loads(ODD_TOOL))


SCHEMAS = [
    '{"type":"object","definitions":{"Item":{"type":"string"}},"properties":'
    '{"a":{"$ref":"#/definitions/Item"}},"$schema":"http://json-schema.org/draft-07/schema#"}',
    '{"type":"object","$defs":{"x":{"$anchor":"y","$dynamicRef":"#y"}},"$id":"urn:x",'
    '"additionalProperties":false,"oneOf":[{"if":{},"then":{}}],"x-vendor":[1.0]}',
    '{"type":"object","properties":{"$ref":{"type":"string"},"b":{"$ref":"#/properties/$ref"},'
    '"c":{"$ref":"#"}}}',
    '{"type":"object","properties":{},"required":[]}',
    '{"type":"object","anyOf":[{"type":"object"},{"type":"object"}]}',
]


def test_a_schema_is_listed_as_it_was_given(tmp_path: Path) -> None:
    given = [f'{{"name":"t{n}","title":"T","inputSchema":{s}}}' for n, s in enumerate(SCHEMAS)]
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"tools": given}))
    file = compiled(tmp_path, {"one": {"command": STUB[0], "args": [*STUB[1:], f"@{options}"]}})
    with served(file) as wire:
        listed = tools(wire)
        assert [{**tool, "name": tool["name"][4:]} for tool in listed] == [
            json.loads(one) for one in given
        ]
        assert [json.dumps(tool["inputSchema"]) for tool in listed] == [
            json.dumps(json.loads(schema)) for schema in SCHEMAS
        ]
        assert text(call(wire, "one:t4")) == "{}"


NOT_AS_DECLARED = [
    '{"content":[{"type":"text","text":"quota exceeded"}],"isError":true}',
    '{"content":[],"structuredContent":{"weight":""}}',
    '{"content":[{"type":"text","text":"only text"}]}',
    '{"content":[],"structuredContent":{"error":{"code":"X"}},"isError":true}',
]


def test_a_result_is_not_held_against_the_schema_that_its_tool_declares(tmp_path: Path) -> None:
    weight = {"type": "string", "format": "uri"}
    schema = {"type": "object", "properties": {"weight": weight}, "required": ["weight"]}
    own = {"inputSchema": {"type": "object"}, "outputSchema": schema}
    does = {
        f"t{n}": {"do": "raw_result", "json": result} for n, result in enumerate(NOT_AS_DECLARED)
    }
    entry = stub_entry(tools=[{"name": name, **own} for name in does], does=does)
    with served(compiled(tmp_path, {"one": entry})) as wire:
        assert [tool["outputSchema"] for tool in tools(wire)] == [schema] * len(NOT_AS_DECLARED)
        for name, result in zip(does, NOT_AS_DECLARED, strict=True):
            number = start_call(wire, f"one:{name}")
            line = wire.response_line(number).raw.decode()
            assert line == f'{{"jsonrpc":"2.0","id":{number},"result":{result}}}'


@posix("the servers of the inner proxies are run by this Python")
def test_a_proxy_serves_behind_a_proxy_behind_a_proxy(tmp_path: Path) -> None:
    entry, name = stub_entry(tools=["inner__search"]), "inner__search"
    for depth in range(2):
        (folder := tmp_path / str(depth)).mkdir()
        file = compiled(folder, {"p": entry})
        started = {"command": sys.executable, "args": ["-I", str(file)]}
        entry, name = {**started, "mcpagg": {"nested": True}}, f"p:{name}"
    name = f"p:{name}"
    with served(compiled(tmp_path, {"p": entry})) as wire:
        assert tool_names(wire) == [name]
        assert text(call(wire, name, a=1)) == '{"a":1}'
        assert text(call(wire, portable_names([name])[name], a=2)) == '{"a":2}'


def test_names_are_looked_up_and_never_split(wire: Wire) -> None:
    assert text(call(wire, "a:b:c:d", x=1)) == '{"x":1}'
    assert text(call(wire, "a:b:c", x=2)) == '{"x":2}'


def test_clients_known_to_refuse_a_colon_see_portable_names(file: Path) -> None:
    with served(file, client="claude-ai") as wire:
        names = tool_names(wire)
        assert all(name.replace("_", "").replace("-", "").isalnum() for name in names)
        assert names[-2] == portable_names(["a:b:c:d"])["a:b:c:d"] == "a_b_c_d"
        assert text(call(wire, "a_b_c_d", x=1)) == '{"x":1}'
        assert text(call(wire, "a:b:c:d", x=1)) == '{"x":1}'


RESULTS = [
    '{"content":[],"n":1234567890123456789,"f":1.0,"e":1e999,"z":-0.0,"d":0.10000000000000000555}',
    '{"content":[{"type":"text","text":"a\u2028b\u0085c \\ud800"}],"isError":true,"isError":true}',
    '{"content":[{"type":"x-new","x":null}],"structuredContent":{},"_meta":{"k":1},"x": [ 2 ]}',
    '{"big":' + "9" * 5000 + "}",
    '{"n":NaN,"i":-Infinity}',
    "{}",
]


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("tool", ["one:raw_result"])
def test_a_result_comes_back_as_the_same_text(wire: Wire, tool: str, result: str) -> None:
    number = start_call(wire, tool, json=result)
    line = wire.line().raw.decode("utf-8")
    assert line == f'{{"jsonrpc":"2.0","id":{json.dumps(number)},"result":{result}}}'


def test_a_childs_error_comes_back_as_the_same_text(wire: Wire) -> None:
    error = '{"code":-32042,"message":"","data":null,"extra":[1.0]}'
    number = start_call(wire, "one:error", json=error)
    line = wire.line().raw.decode("utf-8")
    assert line == f'{{"jsonrpc":"2.0","id":{json.dumps(number)},"error":{error}}}'


@pytest.mark.parametrize(
    "params",
    [
        '{"name":"NAME"}',
        '{"arguments":null,"name":"NAME"}',
        '{"name":"NAME","arguments":{},"task":{"ttl":1},"x":[1.0,1e999]}',
        '{ "name" : "NAME" , "arguments" : { "a" : "\\ud800\u2028", "n" : 12345678901234567890 } }',
        '{"name":"NAME","_meta":{"traceparent":"00-ab","vendor/x":{"name":"NAME"}}}',
    ],
)
def test_params_reach_the_child_as_the_same_text_but_for_the_name(wire: Wire, params: str) -> None:
    request = '{"jsonrpc":"2.0","id":"r","method":"tools/call","params":PARAMS}'
    sent = params.replace("NAME", "two:raw", 1)
    wire.write((request.replace("PARAMS", sent) + "\n").encode("utf-8"))
    line = text(wire.response("r"))
    assert line.split('"params":', 1)[1] == params.replace("NAME", "raw", 1) + "}"


def test_ids_are_minted_for_the_child_and_mapped_back_with_their_type(wire: Wire) -> None:
    for number in (0, "", "0", 2**70, "x", -1):
        answer = wire.request("tools/call", {"name": "two:raw", "arguments": {}}, id=number)
        assert answer["id"] == number
        assert type(answer["id"]) is type(number)
        assert type(json.loads(text(answer))["id"]) is int


@pytest.mark.parametrize("token", ["tok", 7, 0])
def test_progress_comes_back_under_the_clients_own_token(wire: Wire, token: object) -> None:
    params = {"name": "one:progress", "arguments": {"count": 2}, "_meta": {"progressToken": token}}
    number = wire.start_request("tools/call", params)
    for count in (1, 2):
        notification = wire.next_notification("notifications/progress")["params"]
        assert notification["progressToken"] == token
        assert type(notification["progressToken"]) is type(token)
        assert notification["progress"] == count
    wire.response(number)


def test_a_cancelled_call_is_cancelled_at_its_child_and_never_answered(
    wire: Wire, file: Path
) -> None:
    call(wire, "one:echo")
    number = start_call(wire, "one:late", seconds=0)
    wire.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
    assert "result" in call(wire, "one:sleep", seconds=0.05)
    assert not [m for m in wire.messages() if m.get("id") == number]
    sent = received(file.parent / "log")
    late = [m for m in sent if m.get("params", {}).get("name") == "late"][-1]
    cancel = [m for m in sent if m.get("method") == "notifications/cancelled"][-1]
    assert cancel["params"] == {"requestId": late["id"], "reason": "enough"}


def test_fifty_calls_at_once_get_each_its_own_answer(wire: Wire) -> None:
    numbers = {start_call(wire, "two:echo", n=n, fill="x" * 10_000): n for n in range(50)}
    for number, n in numbers.items():
        assert json.loads(text(wire.response(number)))["n"] == n


def test_fifty_calls_that_are_answered_last_one_first_get_each_its_own_answer(
    tmp_path: Path,
) -> None:
    with served(compiled(tmp_path, {"one": stub_entry(reorder=50)})) as wire:
        numbers = {start_call(wire, "one:echo", n=n, fill="x" * 10_000): n for n in range(50)}
        for number, n in numbers.items():
            assert json.loads(text(wire.response(number)))["n"] == n


def test_a_slow_call_holds_up_nobody(wire: Wire) -> None:
    slow = start_call(wire, "one:sleep", seconds=3600)
    assert wire.request("ping") == {"jsonrpc": "2.0", "id": wire._last_id, "result": {}}
    assert text(call(wire, "two:echo", a=1)) == '{"a":1}'
    wire.notify("notifications/cancelled", {"requestId": slow})


def test_large_messages_pass_both_ways(wire: Wire) -> None:
    fill = "ü" * 5_000_000
    assert json.loads(text(call(wire, "two:echo", fill=fill)))["fill"] == fill
    assert len(text(call(wire, "one:big", bytes=20_000_000))) == 20_000_000


def test_a_child_asks_the_client_and_gets_its_answer(wire: Wire) -> None:
    number = start_call(wire, "one:ask", method="roots/list", params={"x": 1.0})
    question = wire.next_request("roots/list")
    assert question["params"] == {"x": 1.0, "_meta": {"mcpagg/server": "one"}}
    wire.answer(question, {"roots": [{"uri": "file:///x"}]})
    answer = json.loads(text(wire.response(number)))
    assert answer["result"] == {"roots": [{"uri": "file:///x"}]}


def test_a_child_that_asks_what_the_client_cannot_is_told_at_once(wire: Wire) -> None:
    answer = json.loads(text(call(wire, "one:ask", method="elicitation/create", params={})))
    assert answer["error"]["code"] == -32601


def test_a_childs_ping_is_answered(wire: Wire) -> None:
    assert json.loads(text(call(wire, "one:ask", method="ping")))["result"] == {}


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("one:none", -32601, "Tool not found: one:none"),
        ("none", -32602, "Tool name must be prefixed with server key: none"),
        ("nobody:echo", -32601, "Tool not found: nobody:echo"),
        ("", -32602, "Tool name must be prefixed with server key: "),
    ],
)
def test_a_name_outside_the_table_is_refused(
    wire: Wire, name: str, code: int, message: str
) -> None:
    assert call(wire, name)["error"] == {"code": code, "message": message}


@pytest.mark.parametrize(
    ("line", "code", "identifier"),
    [
        ("{bad json", -32700, None),
        ("[]", -32600, None),
        ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        ('"text"', -32600, None),
        ('{"jsonrpc":"2.0","id":3}', -32600, 3),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        ('{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        ('{"jsonrpc":"2.0","id":4,"method":5}', -32600, 4),
        ('{"jsonrpc":"2.0","id":5,"method":"tools/call","params":null}', -32602, 5),
        ('{"jsonrpc":"2.0","id":6,"method":"tools/call","params":[1]}', -32602, 6),
        ('{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"x"}}', -32602, 7),
        ('{"jsonrpc":"2.0","id":8,"method":"prompts/list"}', -32601, 8),
        ("[" * 100_000, -32700, None),
    ],
)
def test_bad_input_gets_one_error_and_the_session_goes_on(
    wire: Wire, line: str, code: int, identifier: object
) -> None:
    wire.write(line.encode() + b"\n")
    answer = wire.receive()
    assert (answer["error"]["code"], answer["id"]) == (code, identifier)
    assert text(call(wire, "two:echo")) == "{}"


def test_bytes_that_are_no_utf8_get_one_error(wire: Wire) -> None:
    wire.write(b"\xff\xfe\n")
    assert wire.receive()["error"]["code"] == -32700
    assert "result" in wire.request("ping")


def test_blank_lines_boms_and_carriage_returns_are_passed_over(wire: Wire) -> None:
    wire.write(b' \r\n\xef\xbb\xbf{"jsonrpc":"2.0","id":"b","method":"ping"}\r\n\n')
    assert wire.response("b")["result"] == {}


@posix("counts what is run by a profiler that ends with the process")
@pytest.mark.parametrize("modern_client", [False, True])
@pytest.mark.parametrize("modern_child", [False, True])
def test_a_call_touches_few_modules_and_functions(
    *, modern_client: bool, modern_child: bool
) -> None:
    touched = a_call(modern_client=modern_client, modern_child=modern_child)
    assert 10 <= touched["modules"] <= 16
    assert touched["functions"] <= 160
