"""A client that takes log messages is told of drift, once."""

from __future__ import annotations

from typing import Any

import pytest
from core import World, call, enveloped, notification, request, tool

from mcpagg_runtime.servers.lists import SETTLE_SECONDS

LOGGING: dict[str, Any] = {"tools": {}, "logging": {}}
DIFFERS = "server 'a' differs from its snapshot: "


def logged(world: World, client: Any) -> list[tuple[str, str, str]]:
    """Return (level, logger, data) of the log messages that a client got."""
    found = [one for one in world.received(client) if one.get("method") == "notifications/message"]
    return [tuple(one["params"][key] for key in ("level", "logger", "data")) for one in found]


def come_up(world: World, tools: list[Any]) -> Any:
    a = world.up("a", tools)
    world.wait(SETTLE_SECONDS)
    if world.lines(a):
        world.answer(a, {"tools": tools}, "tools/list")
    return a


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_a_client_is_told_what_moved_once(policy: str) -> None:
    world = World({"a": ["x"], "b": ["y"]}, declares={"a": LOGGING}, on_drift=policy)
    client = world.client()
    a = come_up(world, [tool("x", description="Other."), tool("new")])
    [(level, logger, data)] = logged(world, client)
    assert (level, logger) == ("warning", "a")
    assert data.startswith(f"{DIFFERS}+new ~x(text); ")
    assert data.partition("server 'a' ")[2] in world.said[-1]
    world.say(a, notification("notifications/tools/list_changed"))
    world.wait(1)
    world.answer(a, {"tools": [tool("x", description="Other."), tool("new")]}, "tools/list")
    assert logged(world, client) == []


def test_nobody_is_told_who_does_not_take_it() -> None:
    world = World({"a": ["x"]}, declares={"a": LOGGING})
    client = world.client()
    world.say(client, request(1, "logging/setLevel", {"level": "error"}))
    come_up(world, ["new"])
    assert logged(world, client) == []
    silent = World({"a": ["x"]})
    client = silent.client()
    come_up(silent, ["new"])
    assert logged(silent, client) == []
    assert any(DIFFERS in line for line in silent.said)


@pytest.mark.parametrize("level", ["warning", "error", None])
def test_a_modern_client_is_told_in_a_request_that_asks_for_it(level: str | None) -> None:
    world = World({"a": ["x"]}, declares={"a": LOGGING})
    client = world.modern()
    meta: dict[str, Any] = {} if level is None else {"io.modelcontextprotocol/logLevel": level}
    world.say(client, enveloped(call(1, "a:x"), meta=meta))
    come_up(world, ["x", "new"])
    assert len(logged(world, client)) == (level == "warning")
