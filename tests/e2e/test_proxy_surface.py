"""Everything else that a server offers: prompts, resources, templates, completions, logging."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, running, served
from wire import Wire, call, initialize, received, stub_entry, text

Json = dict[str, Any]

ALL: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}


def lists(name: str, **more: Any) -> Json:
    """Return a stub's canned answers: one of each, its own and one that the other has too."""
    prompts = [{"name": "same", "description": name, "_meta": {"k": 1}}, {"name": name}]
    resources = [
        {"uri": "file:///same", "name": "same", "x": name},
        {"uri": f"own://{name}", "name": "own", "_meta": {"ui": {}}, "size": 1},
    ]
    templates = [{"uriTemplate": f"{name}://{{id}}/part{{?q}}", "name": "t", "x": 1.0}]
    return {
        "prompts/list": {"result": {"prompts": prompts}},
        "resources/list": {"result": {"resources": resources}},
        "resources/templates/list": {"result": {"resourceTemplates": templates}},
        "prompts/get": f'{{"messages":[],"by":"{name}","n":1.0}}',
        "resources/read": f'{{"contents":[],"by":"{name}","n":1e999}}',
        "resources/subscribe": {"result": {}},
        "resources/unsubscribe": {"result": {}},
        "completion/complete": f'{{"completion":{{"values":["{name}"]}},"n":1.0}}',
        "logging/setLevel": {"result": {}},
        **more,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("surface")
    updated = {"notify": "notifications/resources/updated", "params": {"uri": "own://a"}}
    message = {"notify": "notifications/message", "params": {"level": "info", "data": 1.0}}
    servers = {
        name: stub_entry(
            tools=["echo"],
            capabilities=ALL if name == "a" else {key: ALL[key] for key in ALL if key != "logging"},
            answers=lists(name),
            log=str(folder / name),
            at={"call echo": [updated, message]},
        )
        for name in ("a", "b")
    }
    servers["plain"] = stub_entry(log=str(folder / "plain"))
    compiled(folder, servers)
    for name in servers:
        (folder / name).unlink()
    return folder


@pytest.fixture(scope="module")
def wire(folder: Path) -> Iterator[Wire]:
    with served(folder / "server.py") as wire:
        yield wire


def result(wire: Wire, method: str, **params: Any) -> Any:
    response = wire.request(method, params)
    assert "result" in response, response
    return response["result"]


def test_only_what_some_server_has_is_declared(folder: Path, tmp_path: Path) -> None:
    with running(folder / "server.py") as wire:
        assert initialize(wire)["capabilities"] == ALL
    with running(compiled(tmp_path, {"plain": stub_entry()})) as wire:
        assert initialize(wire)["capabilities"] == {"tools": {"listChanged": True}}
        for method in ("prompts/list", "resources/list", "resources/templates/list"):
            assert wire.request(method)["error"]["code"] == -32601
        for method in ("prompts/get", "resources/read", "completion/complete", "logging/setLevel"):
            assert wire.request(method, {"name": "x"})["error"]["code"] == -32601


def test_extensions_of_the_servers_are_declared_and_nothing_that_is_not_passed_on(
    tmp_path: Path,
) -> None:
    ui: Json = {"io.modelcontextprotocol/ui": {"x": 1.5}}
    other: Json = {"vendor/other": {}}
    more: Json = {"experimental": {"x": {}}, "unknownCap": {"a": 1}, "tasks": {}}
    servers = {
        "a": stub_entry(capabilities={"tools": {}, "extensions": ui, **more}),
        "b": stub_entry(capabilities={"tools": {}, "extensions": {**other, **ui, "x/two": {}}}),
        "c": stub_entry(capabilities={"tools": {}, "extensions": {"x/two": {}}}),
    }
    with running(compiled(tmp_path, servers)) as wire:
        assert initialize(wire)["capabilities"] == {
            "tools": {"listChanged": True},
            "extensions": {**ui, **other},
        }


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_instructions_of_the_servers_are_merged_under_their_names(
    tmp_path: Path, names: list[str]
) -> None:
    servers = {name: stub_entry(instructions=f"Do {name}, please.") for name in names}
    with running(compiled(tmp_path, {**servers, "mute": stub_entry()})) as wire:
        head, *sections = initialize(wire)["instructions"].split("\n\n")
        assert head == "What each server behind this proxy says, by its own names for its tools:"
        assert sections == [f"# {name}\nDo {name}, please." for name in names]


def test_a_log_level_may_be_set_before_the_handshake_is_over(folder: Path) -> None:
    with running(folder / "server.py") as wire:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        assert "result" in wire.request("initialize", params)
        assert wire.request("logging/setLevel", {"level": "info"})["result"] == {}
        wire.notify("notifications/initialized")
        assert result(wire, "tools/list")["tools"]
        assert text(call(wire, "a:echo")) == "{}"


def test_prompts_are_listed_and_got_under_their_exposed_names(wire: Wire) -> None:
    prompts = result(wire, "prompts/list")["prompts"]
    assert [prompt["name"] for prompt in prompts] == ["a:same", "a:a", "b:same", "b:b"]
    assert prompts[0] == {"name": "a:same", "description": "a", "_meta": {"k": 1}}
    wire.write(
        b'{"id":"p","method":"prompts/get","params":{"name":"b:same","arguments":{"x":1.0}}}\n'
    )
    assert (
        wire.line().raw == b'{"jsonrpc":"2.0","id":"p","result":{"messages":[],"by":"b","n":1.0}}'
    )
    assert wire.request("prompts/get", {"name": "b:none"})["error"]["code"] == -32602
    assert wire.request("prompts/get", {})["error"]["code"] == -32602


def test_resources_keep_their_uris_and_the_first_server_wins(wire: Wire) -> None:
    resources = result(wire, "resources/list")["resources"]
    assert [(r["uri"], r["name"]) for r in resources] == [
        ("file:///same", "[a] same"),
        ("own://a", "[a] own"),
        ("own://b", "[b] own"),
    ]
    assert resources[1]["_meta"] == {"ui": {}}
    for uri, owner in [("file:///same", "a"), ("own://a", "a"), ("own://b", "b")]:
        assert result(wire, "resources/read", uri=uri)["by"] == owner


def test_a_uri_that_fits_a_template_goes_to_its_server(wire: Wire) -> None:
    templates = result(wire, "resources/templates/list")["resourceTemplates"]
    assert templates[1] == {"uriTemplate": "b://{id}/part{?q}", "name": "[b] t", "x": 1.0}
    assert result(wire, "resources/read", uri="b://1/part?q=2")["by"] == "b"
    assert result(wire, "resources/read", uri="a://x%20y/part")["by"] == "a"


def test_a_uri_that_fits_nothing_goes_to_the_servers_with_templates_in_order(
    tmp_path: Path,
) -> None:
    missing = {"error": {"code": -32002, "message": "no", "data": {"uri": "x"}}}
    servers = {
        name: stub_entry(capabilities=ALL, answers=lists(name, **more))
        for name, more in [("a", {"resources/read": missing}), ("b", {})]
    }
    with served(compiled(tmp_path, servers)) as wire:
        assert result(wire, "resources/read", uri="other:1")["by"] == "b"
    with served(compiled(tmp_path, {"a": servers["a"]})) as wire:
        assert wire.request("resources/read", {"uri": "other:1"})["error"] == missing["error"]


def test_a_uri_that_no_server_can_have_is_not_found(tmp_path: Path) -> None:
    missing = {"error": {"code": -32002, "message": "no", "data": {"uri": "other:1"}}}
    empty: Json = {"resources/templates/list": {"result": {"resourceTemplates": []}}}
    one = stub_entry(capabilities=ALL, answers=lists("a", **empty, **{"resources/read": missing}))
    with served(compiled(tmp_path, {"a": one})) as wire:
        error = wire.request("resources/read", {"uri": "other:1"})["error"]
        assert (error["code"], error["data"]) == (-32002, {"uri": "other:1"})


def test_completions_are_asked_of_the_owner_under_its_own_names(wire: Wire, folder: Path) -> None:
    argument, context = {"name": "x", "value": "v"}, {"arguments": {"y": "z"}}
    for reference, own in [
        ({"type": "ref/prompt", "name": "b:same"}, {"type": "ref/prompt", "name": "same"}),
        ({"type": "ref/resource", "uri": "b://{id}/part{?q}"}, None),
    ]:
        answer = result(
            wire, "completion/complete", ref=reference, argument=argument, context=context
        )
        assert answer == {"completion": {"values": ["b"]}, "n": 1.0}
        asked = [m for m in received(folder / "b") if m.get("method") == "completion/complete"][-1]
        assert asked["params"] == {
            "ref": own or reference,
            "argument": argument,
            "context": context,
        }
    params = {"ref": {"type": "ref/prompt", "name": "none"}, "argument": argument}
    assert wire.request("completion/complete", params)["error"]["code"] == -32602


def test_a_subscription_reaches_the_owner_alone_and_its_news_come_back(
    wire: Wire, folder: Path
) -> None:
    call(wire, "b:echo")
    call(wire, "a:echo")
    updated = "notifications/resources/updated"
    assert wire.messages(updated) == []
    assert result(wire, "resources/subscribe", uri="own://a") == {}
    call(wire, "a:echo")
    assert wire.next_notification(updated)["params"] == {"uri": "own://a"}
    for name, times in [("a", 1), ("b", 0)]:
        asked = [m for m in received(folder / name) if m.get("method") == "resources/subscribe"]
        assert len(asked) == times
    assert result(wire, "resources/unsubscribe", uri="own://a") == {}
    call(wire, "a:echo")
    assert wire.messages(updated) == []


def test_a_log_level_reaches_every_server_that_logs_and_is_remembered(folder: Path) -> None:
    for name in ("a", "b", "plain"):
        (folder / name).unlink(missing_ok=True)
    with served(folder / "server.py") as wire:
        assert result(wire, "logging/setLevel", level="debug") == {}
        assert wire.request("logging/setLevel", {"level": "loud"})["error"]["code"] == -32602
        for name in ("a", "b", "plain"):
            call(wire, f"{name}:echo")
        assert wire.next_notification("notifications/message")["params"]["data"] == 1.0
    for name, times in [("a", 1), ("plain", 0)]:
        asked = [m for m in received(folder / name) if m.get("method") == "logging/setLevel"]
        assert [message["params"] for message in asked] == [{"level": "debug"}] * times


def test_a_server_without_what_it_declares_costs_no_tool(tmp_path: Path) -> None:
    missing = {"error": {"code": -32601, "message": "Method not found"}}
    answers = {"prompts/list": missing, "resources/list": missing}
    one = stub_entry(capabilities=ALL, answers={**answers, "resources/templates/list": missing})
    with served(compiled(tmp_path, {"one": one})) as wire:
        assert text(call(wire, "one:echo")) == "{}"
        assert result(wire, "prompts/list") == {"prompts": []}
        wire.end_input()
        assert wire.wait() == 0
        assert wire.stderr == ""


def test_a_list_of_resources_that_changed_is_served_live(tmp_path: Path) -> None:
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"capabilities": ALL, "answers": lists("a")}))
    entry = stub_entry()
    entry["args"][-1] = f"@{options}"
    file = compiled(tmp_path, {"one": entry})
    changed = lists("a")
    changed["resources/list"] = {"result": {"resources": [{"uri": "new:1", "name": "new"}]}}
    options.write_text(json.dumps({"capabilities": ALL, "answers": changed}))
    with served(file) as wire:
        wire.next_notification("notifications/resources/list_changed")
        assert [r["uri"] for r in result(wire, "resources/list")["resources"]] == ["new:1"]
        assert result(wire, "resources/read", uri="new:1")["by"] == "a"
        assert "resources +new:1 -file:///same -own://a" in wire.wait_stderr("differs from .*")


def test_a_client_that_takes_long_to_answer_holds_up_nobody(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"one": stub_entry(tools=["echo", "ask"])})
    with served(file, roots={}, sampling={}, elicitation={}) as wire:
        asked = {}
        for method in ("sampling/createMessage", "elicitation/create", "roots/list"):
            params = {"name": "one:ask", "arguments": {"method": method, "params": {"m": method}}}
            asked[method] = wire.start_request("tools/call", params)
        questions = {method: wire.next_request(method) for method in asked}
        assert text(call(wire, "one:echo", a=1)) == '{"a":1}'
        for method in reversed(list(asked)):
            wire.answer(questions[method], {"for": method})
        for method, number in asked.items():
            assert json.loads(text(wire.response(number)))["result"] == {"for": method}
