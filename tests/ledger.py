"""What a client is owed, and whether what it gets is right: the judge of the soak."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Key = tuple[type, Any]  # of an id: 1, "1" and true are different ones
Right = Callable[[Json], bool]


class Violation(AssertionError):
    """Raised when the proxy breaks a promise; the text has the last events."""


@dataclass(eq=False)
class Owed:
    """A request that is owed an answer; `right` knows the right one, `then` is called on it."""

    kind: str
    key: Key
    server: str  # "" for one that the proxy answers itself
    right: Right = field(repr=False)
    then: Callable[[], object] = field(repr=False)
    steps: int  # of progress, still to be seen
    since: float = field(default_factory=time.monotonic)
    cancelled: bool = False


@dataclass
class Ledger:
    """What the client is owed, by whom, and what has happened so far."""

    restarts: bool = False  # whether a child may come back, having forgotten everything
    owed: dict[Key, Owed] = field(default_factory=dict)
    codes: deque[int] = field(default_factory=deque)  # of the errors without an id that are due
    asked: set[int] = field(default_factory=set)  # ids of questions
    serials: set[int] = field(default_factory=set)  # what the children call them
    questions: dict[int, Json] = field(default_factory=dict)  # those that wait for our answer
    dying: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    story: deque[str] = field(default_factory=lambda: deque(maxlen=50))

    def note(self, event: str) -> None:
        """Add to the story."""
        self.story.append(f"{time.monotonic():.3f} {event[:250]}")

    def violation(self, what: str) -> Violation:
        """Return what is to be raised, with the story."""
        return Violation("\n".join([*self.story, f"VIOLATION: {what}"]))

    def receive(self, line: bytes) -> None:
        """Take a line from the proxy."""
        self.note(f"< {line[:200]!r}")
        message = json.loads(line)
        if "method" in message:
            self._told(message, message.get("params") or {})
        elif message["id"] is not None:
            self._answered(message)
        elif not self.codes or self.codes.popleft() != message["error"]["code"]:
            raise self.violation("an error that nobody asked for")

    def forgive(self, cancelled: Owed) -> None:
        """A cancelled request must not be answered any more."""
        if self.owed.get(cancelled.key) is cancelled:
            del self.owed[cancelled.key]
            self.counts[f"{cancelled.kind}: cancelled"] += 1

    def _answered(self, message: Json) -> None:
        owed = self.owed.pop((type(message["id"]), message["id"]), None)
        if owed is None:
            raise self.violation(f"an answer that is not owed: {message['id']!r}")
        body = {key: message[key] for key in message if key not in ("jsonrpc", "id")}
        outcome = "cancelled too late" if owed.cancelled else "answered"
        if self._names_the_dead(owed.server, body.get("error") or {}):
            self.down.add(owed.server)
            outcome = "failed with its child"
        elif not owed.right(body) or owed.steps:
            raise self.violation(f"not the right answer, or progress is missing: {owed}")
        elif owed.server in self.down and "result" in body and not self.restarts:
            raise self.violation(f"an answer of {owed.server}, which is down")
        else:
            owed.then()
        self.counts[f"{owed.kind}: {outcome}"] += 1
        took = time.monotonic() - owed.since
        self.slowest[owed.kind] = max(took, self.slowest.get(owed.kind, 0))

    def _names_the_dead(self, server: str, error: Json) -> bool:
        named = str(error.get("message")).startswith(f"Server '{server}' ")
        right = (error.get("code"), error.get("data")) == (-32603, {"server": server})
        return named and right and server in self.dying

    def _told(self, message: Json, params: Json) -> None:
        """Take a notification, or a question that a child has."""
        method = message["method"]
        self.counts[f"received: {method}"] += 1
        if "id" in message:
            if message["id"] in self.asked or params["serial"] in self.serials:
                raise self.violation("a question that was asked before")
            self.asked.add(message["id"])
            self.serials.add(params["serial"])
            self.questions[message["id"]] = params
        elif method == "notifications/progress":
            owed = self.owed.get((type(params["progressToken"]), params["progressToken"]))
            if owed is None or params["total"] - params["progress"] != owed.steps - 1:
                raise self.violation("progress of nothing under way, or not the next step")
            owed.steps -= 1
        elif method == "notifications/cancelled":
            self.questions.pop(params["requestId"], None)  # it may be answered already
            if params["requestId"] not in self.asked:
                raise self.violation("a question was taken back that was not asked")
        elif method != "notifications/tools/list_changed":
            raise self.violation(f"nobody wants {method}")


# What a right answer is, as a function of an answer's `result` or `error`


def dumps(value: object) -> str:
    """Return JSON text as the stub writes it."""
    return json.dumps(value, separators=(",", ":"))


def result(**members: object) -> Right:
    """Whether it is this result."""
    return lambda body: body == {"result": members}


def success(body: Json) -> bool:
    """Whether it is any result."""
    return "result" in body


def never(_: Json) -> bool:
    """No answer but that the child died."""
    return False


def says(text: str) -> Right:
    """Whether it is a tool's answer with this text."""
    return result(content=[{"type": "text", "text": text}])


def error(code: int, words: str) -> Right:
    """Whether it is an error with this code and these words."""
    return lambda body: body["error"]["code"] == code and words in body["error"]["message"]


def reply_to(question: Json) -> Json:
    """Return what the client answers a child's question."""
    if question["fails"]:
        return {"error": {"code": -1, "message": str(question["serial"])}}
    return {"result": {"serial": question["serial"]}}


def passes_on(reply: Json) -> Right:
    """Whether it is the answer of a child that got this reply to its question."""
    return lambda body: reply.items() <= json.loads(body["result"]["content"][0]["text"]).items()
