"""Starts every server and says how it is, and whether it still is as it was compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.client import RELAYED, Client
from mcpagg_runtime.desk import Desk
from mcpagg_runtime.drift import PATIENCE_SECONDS
from mcpagg_runtime.peers import DOWN, FOREVER, READY
from mcpagg_runtime.printing import print_json, print_lines
from mcpagg_runtime.relay import Relay

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.desk import Plan
    from mcpagg_runtime.peers import Child


def check_servers(plan: Plan, folder: str, as_json: bool) -> int:
    """Start every server and say how it is; return 1 if one is down, or not as it was compiled."""
    from time import sleep

    relay = Relay(Desk(plan), folder)
    client = Client("spec")
    client.capabilities = dict.fromkeys(RELAYED, "{}")
    client.initialized = True
    relay.connect(client, _Silence())
    children = relay.router.children.values()
    try:
        for child in children:
            relay.wake(child, client)
        while not all(child.state == DOWN or _looked_at(child, relay) for child in children):
            sleep(0.01)
    finally:
        relay.close()
    servers = {child.name: _health(child, relay) for child in children}
    if as_json:
        status = print_json({"servers": servers})
    else:
        status = print_lines(_said(name, health) for name, health in servers.items())
    return status or (1 if any(h["state"] == DOWN or h["drift"] for h in servers.values()) else 0)


def _looked_at(child: Child, relay: Relay) -> bool:
    """Whether a child's lists were compared and are at rest, or will never be at rest."""
    readings = child.readings.values()
    if child.state != READY or not all(reading.compared for reading in readings):
        now = relay.router.clock()
        return any(reading.give_up_at <= now for reading in readings)
    if relay.router.clock() > child.ready_at + PATIENCE_SECONDS:
        return True
    return not any(reading.under_way or reading.again_at < FOREVER for reading in readings)


def _health(child: Child, relay: Relay) -> dict[str, Any]:
    """Return how a child is, for programs; without values of variables."""
    drift = {name: relay.redact(reading.drift) for name, reading in child.readings.items()}
    for name, reading in child.readings.items():
        if child.state == READY and not reading.compared:
            drift[name] = "changes too often to be compared"
    started = child.ready_at < FOREVER
    return {
        "state": child.state,
        "reason": relay.redact(child.reason) or None,
        "protocol": relay.redact(child.protocol) or None,
        "drift": {name: text for name, text in drift.items() if text},
        "started_in": round(child.ready_at - child.starting_at, 3) if started else None,
    }


def _said(name: str, health: dict[str, Any]) -> str:
    """Return how a child is, for people."""
    if health["state"] == DOWN:
        return f"{name}: down: {health['reason']}"
    drifts = [f"{kind} {text}" for kind, text in health["drift"].items()]
    return f"{name}: {health['state']}, {'; '.join(drifts) or 'as it was compiled'}"


class _Silence:
    """The sink of a client that reads nothing."""

    def send(self, line: bytes) -> None:
        """Take one line for the client."""

    def gate(self) -> None:
        """Nothing ever waits here."""
