"""A server that speaks both eras: what is recorded, declared, reviewed and compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from core import World, enveloped, plan, request, tool

from mcpagg.options import Options
from mcpagg.passes.config import read_config
from mcpagg.passes.discovery.inquiry import recorded_era
from mcpagg.passes.emission.recorded import Contents
from mcpagg.passes.environment.relocation import launch_rows
from mcpagg.passes.linking.linking import Linked, link
from mcpagg.review.changes import compare
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg_runtime.clients.answers import Answers, answer_line
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.clients.profiles import narrowed
from mcpagg_runtime.lists.catalogue import TOOLS
from mcpagg_runtime.lists.listing import Listing
from mcpagg_runtime.messages.message import Message
from mcpagg_runtime.messages.protocol import MODERN_VERSION

LEGACY = "2025-11-25"
TASK = {"execution": {"taskSupport": "optional"}}
WATCHED: Json = {"tools": {}, "resources": {"subscribe": True}, "extensions": {"com.example/a": {}}}
PLAIN: Json = {"tools": {}, "resources": {"subscribe": False}}


def shaken(*tools: Json, **facts: Any) -> ChildSnapshot:
    return ChildSnapshot("a", LEGACY, tools=tools, **facts)


def plain(*tools: Json, **facts: Any) -> ChildSnapshot:
    return ChildSnapshot("a", MODERN_VERSION, tools=tools, **facts)


def both() -> ChildSnapshot:
    """Return what is recorded of a server that declares other things in each of its eras."""
    old = shaken(tool("t"), capabilities=PLAIN)
    return recorded_era(old, plain(tool("t"), capabilities=WATCHED))[0]


# --- What is recorded ---------------------------------------------------------------------------


def test_equal_lists_are_recorded_without_a_handshake_and_its_version_beside() -> None:
    old = shaken(
        tool("a", **TASK, inputSchema={"type": "object", "required": ["x", "y"]}),
        tool("b"),
        capabilities=PLAIN,
        instructions="Shake.",
        conditional=frozenset("b"),
    )
    new = plain(
        tool("b"),
        tool("a", inputSchema={"required": ["y", "x"], "type": "object"}),
        capabilities=WATCHED,
        instructions="Ask.",
        hints={"ttlMs": 5},
    )
    said = {"protocolVersion": LEGACY, "capabilities": PLAIN}
    assert recorded_era(old, new) == (replace(new, handshake=said, conditional=frozenset("b")), [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (shaken(tool("a")), plain(tool("a"), tool("b"))),
        (shaken(tool("a", title="A")), plain(tool("a"))),
        (shaken(), plain(skills=({"uri": "skill://x", "name": "x"},))),
        # Wrapped for older revisions, as the SDK for TypeScript does.
        (
            shaken(tool("a", outputSchema={"type": "object", "properties": {"result": {}}})),
            plain(tool("a", outputSchema={})),
        ),
        (shaken(tool("a", outputSchema={})), plain(tool("a", outputSchema={}))),
    ],
)
def test_other_lists_that_lack_nothing_are_recorded_alone(
    old: ChildSnapshot, new: ChildSnapshot
) -> None:
    assert recorded_era(old, new) == (new, [])


def test_what_lists_less_without_a_handshake_is_served_with_one() -> None:
    old = shaken(tool("a"), prompts=({"name": "p"},))
    assert recorded_era(old, plain(tool("a"), tool("b"))) == (
        old,
        [
            "lists the prompt 'p' only after a handshake, so all clients are served in "
            f"{LEGACY} alone"
        ],
    )


# --- What is declared ---------------------------------------------------------------------------


def linked(*children: ChildSnapshot) -> Linked:
    config = {"mcpServers": {child.name: {"command": "x"} for child in children}}
    spec, _ = read_config(json.dumps(config).encode(), source="mcp.json", folder=Path("/"))
    return link(spec, launch_rows(spec, Path("/")), Snapshot(children), Options())[0]


def test_each_client_is_declared_what_its_era_has() -> None:
    tables = linked(both(), ChildSnapshot("b", MODERN_VERSION, capabilities={"logging": {}}))
    common = {"tools": {"listChanged": True}, "logging": {}}
    assert tables.capabilities == {**common, "resources": {"listChanged": True}}
    assert tables.modern_capabilities == {
        **common,
        "resources": {"listChanged": True, "subscribe": True},
        "extensions": {"com.example/a": {}},
    }
    assert tables.children["a"]["handshake"] == LEGACY
    assert "handshake" not in tables.children["b"]


def test_a_client_is_answered_with_what_is_declared_in_its_era() -> None:
    given = plan({"a": ["t"]}, profiles={"few": {"a": ["t"]}})
    few = json.loads(given.profiles)
    few["few"]["modern_capabilities"] = {"few": {}}
    whole = given.narrowed(modern_capabilities='{"all":{}}', profiles=json.dumps(few))
    for part, name in ((whole, "all"), (narrowed(whole, "few"), "few")):
        answers, client = Answers(part), Client("auto")
        asked = enveloped(request(1, "server/discover")), request(2, "initialize")
        replies = []
        for message in asked:
            answer = answer_line(answers, client, json.dumps(message).encode())
            assert isinstance(answer, Message)
            replies.append(answer.value("result")["capabilities"])
        assert replies == [{name: {}}, {"tools": {"listChanged": True}}]


# --- What is compared ---------------------------------------------------------------------------


def test_a_member_of_one_era_alone_is_left_out_of_a_list() -> None:
    schema = '"inputSchema":{"type":"object"}'
    entry = f'{{"x":"execution","name":"t" , "execution":{{"a":1}},"y":1.0,{schema}}}'
    listing = Listing(TOOLS, "a", without=("execution",))
    listing.add_page(f'{{"tools":[{entry}]}}')
    [text] = [item.listed(item.original) for item in listing.items]
    assert json.loads(text) == {"x": "execution", "y": 1.0, **tool("t")}


def test_what_a_server_lists_after_a_handshake_alone_is_no_drift() -> None:
    shaken = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}}
    facts = {"a": {"protocol": MODERN_VERSION, "handshake": shaken}}
    world = World({"a": ["x"]}, facts=facts, on_drift="refuse")
    child = world.own("a", world.client())
    reader = child.lists["tools"]
    world.up(child, [tool("x", **TASK)])
    assert (reader.compared, reader.drift, reader.withheld.reasons) == (True, "", {})


def test_the_review_tells_of_the_handshake() -> None:
    rows = {"a": {"command": "x", "args": [], "env": {}}}

    def said(before: ChildSnapshot, after: ChildSnapshot) -> list[tuple[str, str]]:
        contents = [Contents(rows, Snapshot((child,))) for child in (before, after)]
        return [(one.class_, one.place) for one in compare(contents[0], contents[1], {})]

    now = both()
    older = {**now.handshake, "protocolVersion": "2025-06-18"}
    fewer = {**now.handshake, "capabilities": {"tools": {}}}
    assert said(now, now) == []
    assert said(now, replace(now, handshake={})) == [("version", "/handshake")]
    assert said(now, replace(now, handshake=older)) == [("version", "/handshake")]
    assert {row[0] for row in said(now, replace(now, handshake=fewer))} == {"capabilities"}
