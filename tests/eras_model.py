"""Calls and questions of both eras, as their stateful model sees them."""

from __future__ import annotations

from typing import Any

from core import Json
from hypothesis import strategies as st

ASKING, MODERN = ("a", "b"), "m"
LEGACY_CLIENT = "the client that shook hands"
METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"]
IDS: list[Any] = [0, 1, "1", "", "0", -1, 2**64, "\ud800", 1]
TOKENS: list[Any] = [None, None, 1, "1", 0, ""]
GONE, NOT_FOUND, FAILED, INVALID, VISIT = "The client is gone", -32601, -32603, -32602, -32042
REFUSED = -9
"""The code of the errors that the client answers questions with."""
EPSILON = 1e-6
ids, tokens, methods = st.sampled_from(IDS), st.sampled_from(TOKENS), st.sampled_from(METHODS)
modes = st.sampled_from(["right", "right", "right", "missing", "none", "surplus"])


def key(value: Any) -> tuple[type, Any]:
    """Return an id as something that tells 1 from "1"."""
    return type(value), value


class Server:
    """A child as the model sees it; `is_owned` outlives it, like in the router."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "asked"  # to start; up, down
        self.is_owned = False
        """Whether it has asked something in the middle of calls."""
        self.starter: Any = LEGACY_CLIENT
        self.in_flight: list[Call] = []
        self.questions: list[Question] = []
        self.spent: list[int] = []


class Call:
    """A call of a client: open while it is owed an answer, suspended while the client is."""

    def __init__(self, serial: int, message: Json, server: Server, modern: bool) -> None:
        self.serial = serial
        self.message = message
        self.server = server
        self.modern = modern
        self.capable = True
        self.state = "open"
        """Or suspended; visits: suspended, and to be made anew; handed: to the child."""
        self.sent = False
        self.child_id = 0
        self.child_token: Any = None
        self.deadline = float("inf")
        self.asked: dict[int, Question] = {}
        """By serial, what its client has not answered yet."""
        self.request_state = ""
        self.outcome: tuple[Any, ...] = ()
        # What a child of the newer revision wants back, and gets, in the next round.
        self.round = 1
        self.answers: Json | None = None
        self.wants_back: str | None = None
        self.due = float("inf")

    @property
    def raw(self) -> Any:
        """The id of the latest request that it is made by."""
        return self.message["id"]

    @property
    def token(self) -> Any:
        """The progress token of that."""
        return self.message["params"].get("_meta", {}).get("progressToken")

    @property
    def client(self) -> Any:
        """Whose call it is to the router: each of the newer revision has a client of its own."""
        return self if self.modern else LEGACY_CLIENT


class Question:
    """What a child asks. `of` is whose client is asked, `raw` the child's id for it."""

    def __init__(self, serial: int, method: str, raw: Any, server: Server, of: Any) -> None:
        self.serial = serial
        self.method = method
        self.raw = raw
        self.server = server
        self.of = of
        self.key = ""
        self.client_id: Any = None
        self.answered = False
        self.call: Call | None = None
        """The call of which this is input that the child requires."""
        self.name = ""
