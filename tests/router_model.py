"""Peers of the router, and what they may say, as its stateful model sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core import Json, tool
from hypothesis import strategies as st

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.servers.lifecycle import LONGEST_RETRY_SECONDS, SOUND_SECONDS

SNAPSHOT = {"a": ["x", "y"], "a_b": ["x"], "c": ["x:y"]}
CALL_SECONDS = 20.0
IDLE_SECONDS = 30.0
START_SECONDS = 60.0

IDS = ["0", "1", '"1"', '""', '"0"', "-1", "18446744073709551616", '"\\ud800"', "1"]
TOKENS = ["", "", "1", '"1"', "0", '""', "36893488147419103232"]
# The name as called, the server and its tool ("" for a server's own name, or nobody's).
TARGETS = [
    ("a:x", "a", "x"),
    ("a_x", "a", "x"),
    ("a:y", "a", "y"),
    ("a:new", "a", "new"),
    ("a:none", "a", "none"),
    ("a_b:x", "a_b", "x"),
    ("a_b_x", "a_b", "x"),
    ("a_b:new", "a_b", "new"),
    ("c:x:y", "c", "x:y"),
    ("c_x_y", "c", "x:y"),
    ("x", "", ""),
    ("y", "", ""),
    ("new", "", ""),
    ("x:y", "", ""),
    ("none", "", ""),
]
VARIANTS: list[Callable[[list[str]], list[Json]]] = [
    lambda names: [tool(name) for name in names],
    lambda names: [tool(name) for name in reversed(names)],
    lambda names: [tool(name) for name in [*names, "new"]],
    lambda names: [tool(name) for name in names[1:]],
    lambda names: [tool(name, title="changed") for name in names],
]
TOO_OFTEN = "changes its list of tools too often to compare it with the snapshot"
CLIENT_JUNK = [b"junk", b"{", b"5", b"[]", b"\xff", b'{"id":null,"method":"ping"}', b'{"id":1.5}']
CHILD_JUNK = [
    b"junk",
    b"",
    b"{",
    b"5",
    b"[]",
    b"\xff",
    b"{}",
    b'{"id":true,"result":{}}',
    b'{"method":"notifications/progress"}',
    b'{"method":"notifications/progress","params":{"progressToken":"1"}}',
    b'{"method":"notifications/cancelled","params":{"requestId":77}}',
    b'{"id":null,"error":{}}',
]
shapes = st.sampled_from(["result", "string id", "both", "error", "batch"])
ids, tokens, targets = st.sampled_from(IDS), st.sampled_from(TOKENS), st.sampled_from(TARGETS)


def key(raw: str) -> tuple[type, Any]:
    """Return an id as something that tells 1 from "1"."""
    value = json.loads(raw)
    return type(value), value


@dataclass(eq=False)
class Asked:
    """A call of a client that is owed an answer, as the model sees it."""

    serial: int
    client: Client
    raw: str
    name: str
    server: str
    original: str
    token: str
    known: bool
    child_id: int = 0  # 0: not sent yet
    deadline: float = float("inf")
    latest: float = float("inf")


@dataclass(eq=False)
class Wondered:
    """A question of a child that is owed an answer."""

    serial: int
    server: str
    raw: str
    client: Client
    client_id: int = 0


class Server:
    """A child as the model sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0
        self.retry_at = 0.0
        self.served = {entry: tool(entry) for entry in SNAPSHOT[name]}
        self.spent: list[int] = []
        self.used: set[int] = set()
        self.late: dict[Client, float] = {}
        self.forget("new")

    def forget(self, state: str) -> None:
        """End a life; what is served and the ids that were used outlive it."""
        self.state = state  # new, asked (to start), born, ready, down
        self.hello = 0
        self.deadline = float("inf")
        self.ready_at = float("inf")
        self.starter: Client | None = None
        self.refused: dict[str, str] = {}  # {tool: why}
        self.compared = False
        self.overtaken = False
        self.give_up_at = float("inf")
        self.listing = 0
        self.list_deadline = float("inf")

    def fail(self, now: float) -> None:
        """Die."""
        self.failures = 1 if now - self.ready_at > SOUND_SECONDS else self.failures + 1
        self.retry_at = now + min(2.0 ** (self.failures - 1), LONGEST_RETRY_SECONDS)
        self.forget("down")
