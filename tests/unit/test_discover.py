"""What a client without a handshake is told from the file, and how results cross eras."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core import ASKABLE, Json, enveloped, failure, plan, request, result, tool

from mcpagg_runtime.clients.answers import (
    LIST_MILLISECONDS,
    UNCHECKED_MILLISECONDS,
    Answers,
    answer_line,
)
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.lists.catalogue import wraps_output
from mcpagg_runtime.messages.jsontext import Json as Text
from mcpagg_runtime.messages.jsontext import edited
from mcpagg_runtime.messages.message import Message
from mcpagg_runtime.messages.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    LEVEL_KEY,
    MODERN_VERSION,
    SERVER_KEY,
    VERSION_KEY,
)
from mcpagg_runtime.modern.child import legacy_result
from mcpagg_runtime.modern.client import completed

SIGNED: Json = {"_meta": {SERVER_KEY: {"name": "test", "version": "1"}}}
COMPLETE: Json = {"resultType": "complete"}
PLAN = plan({"a": ["t"]})


def served(answers: Answers, message: Json, client: Client | None = None) -> Json:
    """Return what the file answers a client, by default one that it never saw."""
    client = client or Client(answers.plan.options.names)
    answer = answer_line(answers, client, json.dumps(message).encode())
    assert isinstance(answer, Message)
    value: Json = json.loads(answer.line())
    return value


def listed(answers: Answers, kind: str = "tools", **envelope: Any) -> Json:
    """Return the result of a list request."""
    answer = served(answers, enveloped(request(1, f"{kind}/list"), **envelope))
    value: Json = answer["result"]
    return value


# --- Discovery --------------------------------------------------------------------------------


def test_a_discovery_says_what_the_proxy_is() -> None:
    answers = Answers(plan({"a": ["t"]}, instructions={"a": "words"}))
    assert served(answers, enveloped(request("x", "server/discover"))) == result(
        "x",
        {
            **COMPLETE,
            "supportedVersions": [MODERN_VERSION],
            "capabilities": {"tools": {"listChanged": True}},
            "instructions": answers.plan.instructions,
            "ttlMs": LIST_MILLISECONDS,
            "cacheScope": "public",
            **SIGNED,
        },
    )


def test_no_instructions_are_left_out() -> None:
    answer = served(Answers(PLAN), enveloped(request(1, "server/discover")))
    assert "instructions" not in answer["result"]


def test_a_discovery_without_an_envelope_asks_for_a_handshake() -> None:
    answer = served(Answers(PLAN), request(1, "server/discover", {}))
    assert answer["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["server/discover", "nonsense", "ping", "logging/setLevel"])
def test_a_probe_is_no_wish_for_children(method: str) -> None:
    client = Client("auto")
    served(Answers(PLAN), enveloped(request(1, method)), client)
    assert client.starter is None


def test_a_list_is_one() -> None:
    client = Client("auto")
    served(Answers(PLAN), enveloped(request(1, "tools/list"), ASKABLE), client)
    assert client.starter is not None
    assert list(client.starter.capabilities) == ["roots", "sampling", "elicitation"]


# --- Envelopes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({VERSION_KEY: None}, -32602),
        ({VERSION_KEY: 5}, -32602),
        ({VERSION_KEY: []}, -32602),
        ({VERSION_KEY: "2025-11-25"}, -32022),
        ({VERSION_KEY: ""}, -32022),
        ({VERSION_KEY: "2027-01-01", CAPABILITIES_KEY: 5}, -32022),
        ({CAPABILITIES_KEY: None}, -32602),
        ({CAPABILITIES_KEY: []}, -32602),
        ({LEVEL_KEY: "loud"}, -32602),
        ({LEVEL_KEY: {}}, -32602),
    ],
)
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call", "nonsense"])
def test_a_bad_envelope_is_refused_whatever_it_holds(meta: Json, code: int, method: str) -> None:
    client = Client("auto")
    answer = served(Answers(PLAN), enveloped(request("x", method), None, meta), client)
    assert (answer["id"], answer["error"]["code"]) == ("x", code)
    assert client.starter is None


def test_another_version_is_told_which_is_spoken() -> None:
    answer = served(Answers(PLAN), enveloped(request(1, "tools/list"), None, {VERSION_KEY: "3"}))
    assert answer == failure(
        1, -32022, "Unsupported protocol version", supported=[MODERN_VERSION], requested="3"
    )


@pytest.mark.parametrize("info", [None, 5, {}, {"name": 5}])
def test_who_asks_need_not_be_named(info: Any) -> None:
    assert "tools" in listed(Answers(PLAN), meta={INFO_KEY: info})


def test_a_request_without_an_envelope_is_of_the_other_era() -> None:
    assert served(Answers(PLAN), request(1, "tools/list"))["result"].keys() == {"tools"}
    message = request(1, "tools/list", {"_meta": {INFO_KEY: {}, LEVEL_KEY: "info"}})
    assert served(Answers(PLAN), message)["result"].keys() == {"tools"}


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "tasks/list", "resources/list"])
def test_what_this_revision_or_the_proxy_lacks_is_not_found(method: str) -> None:
    answer = served(Answers(PLAN), enveloped(request(1, method, {"level": "info"})))
    assert answer == failure(1, -32601, f"Method not found: {method}")


# --- Lists ------------------------------------------------------------------------------------


def checked(answers: Answers) -> Answers:
    """Return the same, after all servers were compared with the snapshot."""
    for catalogue in answers.catalogues.values():
        catalogue.checked.update(catalogue.servers)
    return answers


def test_a_list_says_for_how_long_it_may_be_kept() -> None:
    answers = checked(Answers(plan({"a": ["t"]}, names="spec", prompts={"a": ["p"]})))
    assert listed(answers) == {
        **COMPLETE,
        "tools": [tool("a:t")],
        "ttlMs": LIST_MILLISECONDS,
        "cacheScope": "public",
        **SIGNED,
    }
    assert listed(answers, "prompts")["prompts"] == [{"name": "a:p"}]


def test_templates_are_listed_too() -> None:
    answers = Answers(plan({"a": ["t"]}, resources={"a": ["x:y"]}))
    assert listed(answers, "resources/templates")["resourceTemplates"] == []
    assert listed(answers, "resources")["resources"] == [{"uri": "x:y", "name": "[a] r"}]


@pytest.mark.parametrize("cursor", ["", "x", 5])
def test_a_list_has_one_page(cursor: Any) -> None:
    message = enveloped(request(1, "tools/list", {"cursor": cursor}))
    assert served(Answers(PLAN), message)["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("policy", "ttl"),
    [
        ("live", UNCHECKED_MILLISECONDS),
        ("refuse", UNCHECKED_MILLISECONDS),
        ("warn", LIST_MILLISECONDS),
    ],
)
def test_a_list_that_may_change_yet_is_not_kept_for_long(policy: str, ttl: int) -> None:
    answers = Answers(plan({"a": ["t"], "b": ["u"]}, names="spec", on_drift=policy))
    answers.catalogues["tools"].checked.add("a")
    assert listed(answers)["ttlMs"] == ttl
    answers.outages.add("b")
    assert listed(answers)["ttlMs"] == LIST_MILLISECONDS


@pytest.mark.parametrize(
    ("hints", "ttl", "scope"),
    [
        ([], LIST_MILLISECONDS, "public"),
        ([{}, {"ttlMs": 5}], 5, "public"),
        ([{"ttlMs": 5}, {"ttlMs": 0}], 0, "public"),
        ([{"ttlMs": LIST_MILLISECONDS + 1}], LIST_MILLISECONDS, "public"),
        ([{"cacheScope": "private"}, {"cacheScope": "public"}], LIST_MILLISECONDS, "private"),
    ],
)
def test_no_child_is_kept_longer_than_it_said(hints: list[Json], ttl: int, scope: str) -> None:
    names = "abc"[: len(hints) + 1]
    facts = {name: {"hints": hint} for name, hint in zip(names, hints, strict=False)}
    answers = checked(Answers(plan({name: ["t"] for name in names}, facts=facts, names="spec")))
    assert (listed(answers)["ttlMs"], listed(answers)["cacheScope"]) == (ttl, scope)


def test_names_that_depend_on_the_client_are_for_it_alone() -> None:
    answers = Answers(plan({"a": ["t"]}, resources={"a": ["x:y"]}, prompts={"a": ["p"]}))
    scopes = [listed(answers, kind)["cacheScope"] for kind in ("tools", "prompts", "resources")]
    assert scopes == ["private", "private", "public"]


def test_tools_that_depend_on_the_client_are_for_it_alone() -> None:
    answers = Answers(plan({"a": ["t", "ask"]}, conditional={"a": ["ask"]}, names="spec"))
    assert [entry["name"] for entry in listed(answers)["tools"]] == ["a:t"]
    able = listed(answers, capabilities=ASKABLE)
    assert [entry["name"] for entry in able["tools"]] == ["a:t", "a:ask"]
    assert able["cacheScope"] == "private"


def test_a_name_is_spelled_as_the_client_can_read_it() -> None:
    answers = Answers(PLAN)
    shown = listed(answers, meta={INFO_KEY: {"name": "claude-ai"}})
    assert [entry["name"] for entry in shown["tools"]] == ["a_t"]
    assert [entry["name"] for entry in listed(answers)["tools"]] == ["a:t"]


def test_how_a_tool_is_executed_is_left_out() -> None:
    made = tool("t", execution={"taskSupport": "optional"}, title='"execution"', x={"execution": 1})
    answers = Answers(plan({"a": [made]}))
    [shown] = listed(answers)["tools"]
    assert shown == {
        "name": "a:t",
        "inputSchema": {"type": "object"},
        "title": '"execution"',
        "x": {"execution": 1},
    }
    [shown] = served(answers, request(1, "tools/list"))["result"]["tools"]
    assert shown["execution"] == {"taskSupport": "optional"}


def test_an_output_that_is_no_object_is_shown_as_it_is() -> None:
    made = tool("t", outputSchema={"type": "array"})
    answers = Answers(plan({"m": [made]}, facts={"m": {"protocol": MODERN_VERSION}}))
    assert listed(answers)["tools"][0]["outputSchema"] == {"type": "array"}


# --- Output schemas for clients that shake hands ----------------------------------------------


def understood(schema: Any) -> Any:
    """Return the output schema that a client of an older revision is shown."""
    answers = Answers(
        plan({"m": [tool("t", outputSchema=schema)]}, facts={"m": {"protocol": MODERN_VERSION}})
    )
    return served(answers, request(1, "tools/list"))["result"]["tools"][0]["outputSchema"]


def wrapped(inner: Json, **more: Any) -> Json:
    """Return a schema of an object whose member `result` is of the schema `inner`."""
    return {**more, "type": "object", "properties": {"result": inner}, "required": ["result"]}


@pytest.mark.parametrize(
    "schema", [{"type": "array"}, {}, {"type": ["object", "null"]}, {"anyOf": [{"type": "object"}]}]
)
def test_an_output_that_need_not_be_an_object_is_wrapped(schema: Json) -> None:
    assert understood(schema) == wrapped(schema)


def test_an_output_that_is_an_object_stays() -> None:
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {}}}
    assert understood(schema) == schema


def test_references_are_meant_from_the_new_place() -> None:
    schema = {
        "type": "array",
        "items": {"$ref": "#/$defs/n"},
        "$defs": {"n": {"anyOf": [{"$ref": "#"}, {"$ref": "#anchor"}, {"$ref": "other#/x"}]}},
        "default": "#/not/a/reference",
    }
    assert understood(schema) == wrapped(
        {
            "type": "array",
            "items": {"$ref": "#/properties/result/$defs/n"},
            "$defs": {
                "n": {
                    "anyOf": [
                        {"$ref": "#/properties/result"},
                        {"$ref": "#anchor"},
                        {"$ref": "other#/x"},
                    ]
                }
            },
            "default": "#/not/a/reference",
        }
    )


def test_references_within_a_schema_of_its_own_identity_stay() -> None:
    own = {"$id": "https://x/own", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {}}}
    outer = {"type": "array", "items": own, "contains": {"$ref": "#/items"}}
    assert understood(own) == wrapped(own)
    moved = {"type": "array", "items": own, "contains": {"$ref": "#/properties/result/items"}}
    assert understood(outer) == wrapped(moved)


def test_a_property_may_be_called_like_a_reference() -> None:
    schema = {"type": "array", "items": {"properties": {"$ref": {}, "$id": {"type": "string"}}}}
    assert understood(schema) == wrapped(schema)


def test_the_dialect_of_a_schema_goes_to_the_top() -> None:
    schema = {"$schema": "https://json-schema.org/draft-07/schema#", "type": "string"}
    assert understood(schema) == wrapped({"type": "string"}, **{"$schema": schema["$schema"]})


@pytest.mark.parametrize("text", ['{"name":"t"}', '{"outputSchema":5}', '{"outputSchema":null}'])
def test_what_has_no_output_schema_is_not_wrapped(text: str) -> None:
    assert not wraps_output(text)


# --- Results across eras ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "text", "more"),
    [
        ("tools/call", '{"content":[1.0],"x":1e999}', COMPLETE),
        ("tools/call", "{}", {**COMPLETE, "content": []}),
        ("prompts/get", "{}", COMPLETE),
        ("completion/complete", "{}", COMPLETE),
        ("resources/read", "{}", {**COMPLETE, "ttlMs": 0, "cacheScope": "private"}),
        (
            "resources/read",
            '{"resultType":"complete","ttlMs":7,"cacheScope":"public"}',
            {"ttlMs": 7},
        ),
        ("resources/read", '{"ttlMs":7}', {**COMPLETE, "cacheScope": "private"}),
        ("resources/read", '{"resultType":"input_required"}', {}),
        ("tools/call", '{"resultType":"task"}', {}),
    ],
)
def test_a_result_says_all_that_this_revision_wants(method: str, text: str, more: Json) -> None:
    value = json.loads(text)
    assert json.loads(completed(Text(text), PLAN.info, method).text) == {**value, **more, **SIGNED}


def test_a_completed_result_asks_nothing_of_parsers_that_ignore_case() -> None:
    text = '{"resultType":"complete","ResultType":"input_required","InputRequests":{"1":{}}}'
    answer = completed(Text(text), PLAN.info, "tools/call").value
    assert answer == {"resultType": "complete", "content": [], **SIGNED}


def test_a_completed_result_keeps_its_text() -> None:
    answer = completed(
        Text('{"content":[],"n":1.0,"e":1e999,"s":"\\ud800"}'), PLAN.info, "tools/call"
    )
    assert answer.text.startswith('{"content":[],"n":1.0,"e":1e999,"s":"\\ud800",')


@pytest.mark.parametrize("meta", ['{"v":1.0}', "{}", "null", "5"])
def test_a_result_says_which_server_it_is_from(meta: str) -> None:
    kept = json.loads(meta) if meta.startswith("{") else {}
    answer = completed(Text(f'{{"_meta":{meta}}}'), PLAN.info, "prompts/get")
    signature = json.loads(answer.text)["_meta"]
    assert signature == {**kept, **SIGNED["_meta"]}


def test_a_result_that_says_so_already_stays() -> None:
    text = f'{{ "_meta": {{"{SERVER_KEY}": 5}}, "resultType": "complete" }}'
    assert completed(Text(text), PLAN.info, "prompts/get").text == text


@pytest.mark.parametrize(
    ("text", "wraps", "expected"),
    [
        ('{ "b":1.0 }', False, '{ "b":1.0 }'),
        ('{"resultType":"complete"}', False, "{}"),
        ('{"ttlMs":1,"a":1.0,"cacheScope":"x","_meta":{}}', False, '{"a":1.0,"_meta":{}}'),
        ('{"structuredContent":{"n":1.0}}', False, '{"structuredContent":{"n":1.0}}'),
        ('{"structuredContent":{"n":1.0}}', True, '{"structuredContent":{"result":{"n":1.0}}}'),
        ('{"structuredContent":[1.0]}', False, '{"structuredContent":{"result":[1.0]}}'),
        ('{"structuredContent":null}', True, '{"structuredContent":{"result":null}}'),
        ('{"content":[]}', True, '{"content":[]}'),
    ],
)
def test_a_result_loses_what_older_revisions_do_not_know(
    text: str, wraps: bool, expected: str
) -> None:
    assert legacy_result(Text(text), wraps).text == expected


def test_editing_touches_no_other_text() -> None:
    text = '{"a":1.0,"\\u0062":{ "x":1e999 },"c":"\\ud800"}'
    assert edited(text) == text
    assert edited(text, drop=("c", "none")) == '{"a":1.0,"b":{ "x":1e999 }}'
    assert edited(text, add={"a": "2", "d": "[]"}) == (
        '{"a":2,"b":{ "x":1e999 },"c":"\\ud800","d":[]}'
    )
    assert edited("{}", add={'"': "1"}) == '{"\\"":1}'
