"""Servers whose lists are no longer those of their snapshot, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core import Json, World, result, tool

from mcpagg_runtime.servers.child import Child
from mcpagg_runtime.servers.lists import SETTLE_SECONDS


def drifted(
    listed: Iterable[str | Json], *, capabilities: Json | None = None, **choices: Any
) -> tuple[World, Any, Child]:
    """Return a world whose child "a", compiled with tools x and y, lists others once settled."""
    world = World({"a": ["x", "y"], "b": ["z"]}, **choices)
    client, a = world.client(capabilities), world.up("a", listed)
    world.wait(SETTLE_SECONDS)
    if world.lines(a):
        tools = [tool(t) if isinstance(t, str) else t for t in listed]
        world.answer(a, {"tools": tools}, "tools/list")
    return world, client, a


def pages(world: World, a: Child, listed: list[tuple[list[str], Any]]) -> list[Any]:
    """Let a child answer page by page; return the cursors that it was asked for."""
    cursors = []
    for names, cursor in listed:
        [asked] = [m for m in world.received(a) if m["method"] == "tools/list"]
        cursors.append(asked["params"].get("cursor"))
        page = {"tools": [tool(name) for name in names], "nextCursor": cursor}
        world.say(a, result(asked["id"], page))
    return cursors
