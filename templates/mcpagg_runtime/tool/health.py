"""Starts every server and says how it is, and whether it still is as it was compiled."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.base.answers import Answers
from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.jsontext import obj
from mcpagg_runtime.serve.effects import FOREVER
from mcpagg_runtime.serve.engine import Engine
from mcpagg_runtime.serve.lifecycle import DOWN, READY
from mcpagg_runtime.serve.lists import PATIENCE_SECONDS
from mcpagg_runtime.serve.messages import request
from mcpagg_runtime.start.greeting import RELAYED
from mcpagg_runtime.tool.printing import print_json, print_lines

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.base.plan import Plan
    from mcpagg_runtime.serve.child import Child


def check_servers(plan: Plan, folder: str, as_json: bool) -> int:
    """Start every server and say how it is; return 1 if one is down, or not as it was compiled."""
    from time import sleep

    engine = Engine(Answers(plan), folder)
    client = Client("spec")
    able = obj(dict.fromkeys(RELAYED, "{}"))
    client.introduce(request(0, "initialize", obj(capabilities=able)))
    client.shake_hands()
    engine.connect(client, _Silence())
    children = engine.core.children.values()
    try:
        for child in children:
            engine.wake(child, client)
        while not all(child.state == DOWN or _looked_at(child) for child in children):
            sleep(0.01)
    finally:
        engine.close()
    servers = {child.name: _health(child, engine) for child in children}
    if as_json:
        status = print_json({"servers": servers})
    else:
        status = print_lines(_said(name, health) for name, health in servers.items())
    return status or (1 if any(h["state"] == DOWN or h["drift"] for h in servers.values()) else 0)


def _looked_at(child: Child) -> bool:
    """Whether a child's lists were compared and are at rest, or will never be at rest."""
    now = monotonic()
    if child.state != READY or not child.lists.compared:
        return bool(child.lists.given_up(now))
    if now > child.lifecycle.ready_at + PATIENCE_SECONDS:
        return True
    return all(one.is_at_rest for one in child.lists)


def _health(child: Child, engine: Engine) -> dict[str, Any]:
    """Return how a child is, for programs; without values of variables."""
    life = child.lifecycle
    drift = {one.kind.name: engine.redact(one.drift) for one in child.lists}
    for one in child.lists:
        if life.is_ready and not one.compared:
            drift[one.kind.name] = "changes too often to be compared"
    started = life.ready_at < FOREVER
    return {
        "state": child.state,
        "reason": engine.redact(life.reason) or None,
        "protocol": engine.redact(life.protocol) or None,
        "drift": {name: text for name, text in drift.items() if text},
        "started_in": round(life.ready_at - life.starting_at, 3) if started else None,
    }


def _said(name: str, health: dict[str, Any]) -> str:
    """Return how a child is, for people."""
    if health["state"] == DOWN:
        return f"{name}: down: {health['reason']}"
    drifts = [f"{kind} {text}" for kind, text in health["drift"].items()]
    return f"{name}: {health['state']}, {'; '.join(drifts) or 'as it was compiled'}"


class _Silence:
    """The sink of a client that reads nothing."""

    def send(self, *messages: Message) -> None:
        """Take messages for the client."""

    def gate(self) -> None:
        """Nothing ever waits here."""
