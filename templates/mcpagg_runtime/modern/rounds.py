"""Rounds: a modern server asks by a result, and a client of an older revision cannot retry.

So a result that says that input is required becomes requests to the client, and the call is made
again with the answers. https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, members, obj
from mcpagg_runtime.messages.message import notification, request
from mcpagg_runtime.messages.protocol import CANCELLED, CLIENT_METHODS
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.modern.child import ModernChildPort
    from mcpagg_runtime.servers.calls import Call

# As many as the TypeScript SDK makes; then the call fails.
MAXIMUM_ROUNDS = 8
# A result that requires no input says: try again later.
FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 0.25


class Rounds:
    """One call of a legacy client that has required input, on its way through rounds."""

    __slots__ = (
        "_answers",
        "_params",
        "_port",
        "_state",
        "call",
        "due",
        "number",
        "questions",
        "round",
        "sent",
    )

    def __init__(self, port: ModernChildPort, call: Call, first: Message) -> None:
        """`first` is the request of the first round, which has been answered."""
        self._port = port
        self.call = call
        self.number = call.number
        """The id that the call has."""
        self.sent = 0
        """That of the request of this round, 0 while it is the client's turn."""
        self.round = 1
        self.questions: dict[str, tuple[str, str]] = {}
        """{id: (key in the result, method)} of requests to the client that are not answered yet."""
        self.due = FOREVER
        """When it is made again."""
        self._params = first.json("params")
        self._answers: dict[str, str] = {}
        """{key: JSON text} of what the client has answered in this round."""
        self._state = ""
        """The JSON text of the state that the child wants back, "" for none."""

    def again(self) -> None:
        """Make the request once more, with what has been answered."""
        self.sent, self.due = self._port.connection.mint(), FOREVER
        self._port.in_flight[self.sent] = self._ended
        add = {}
        if self._answers:
            add["inputResponses"] = obj(self._answers)
        if self._state:
            add["requestState"] = self._state
        params = self._params.edited(add=add).text
        self._port.connection.transmit(request(self.sent, self.call.method, params))

    # What the child says

    def _ended(self, message: Message) -> None:
        """The child has answered this round."""
        answer = self._port.legacy_answer(self.call, message)
        if answer is None:
            self.require(message.members["result"])
        else:
            self._end(answer)

    def _end(self, answer: Message) -> None:
        del self._port.rounds[self.number]
        self._later(partial(self._port.events.answered, self.number, answer))

    def _later(self, work: Callable[[], None]) -> None:
        """Do something behind what is under way: a client's answer, for instance."""
        self._port.connection.effects.later(work)

    def _fail(self, reason: str) -> None:
        self._end(self._port.failure(self.number, reason))

    def require(self, required: Json) -> None:
        """Ask the client what the child requires, or wait a moment where that is nothing."""
        self.round += 1
        self.sent = 0
        self._answers = {}
        self._state = required.part("requestState")
        if self.round > MAXIMUM_ROUNDS:
            self._fail(f"asked for more than {MAXIMUM_ROUNDS} rounds of input")
            return
        if not required.value.get("inputRequests"):
            effects = self._port.connection.effects
            wait = min(FIRST_WAIT_SECONDS * 2.0 ** (self.round - 2), LONGEST_WAIT_SECONDS)
            self.due = effects.arm(effects.clock() + wait)
            return
        questions = self._questions_in(required)
        if questions is None:
            self._fail("requires input of a kind that cannot be asked for")
            return
        for question in questions:
            self._later(partial(self._ask, question))

    def _ask(self, question: Message) -> None:
        """Ask the client something, unless it has refused something else by then."""
        if question.id in self.questions:
            self._port.events.asks(self.call, question)

    def _questions_in(self, required: Json) -> list[Message] | None:
        """Return what input is required as requests to the client, None if that cannot be asked."""
        wanted = required.value["inputRequests"]
        if type(wanted) is not dict or not all(map(_is_askable, wanted.values())):
            return None
        text = required.part("inputRequests")
        asked = []
        for key, (value, start, end) in members(text)[0].items():
            number = f"{self.number}.{self.round}/{key}"
            self.questions[number] = key, value["method"]
            asked.append(_question(number, value, text[start:end]))
        return asked

    # What the client says

    def answered(self, question: str, answer: Message) -> None:
        """Take a client's answer; with the last one the request is made again."""
        key, method = self.questions.pop(question)
        if not answer.is_error:
            self._answers[key] = answer.raw("result") or "{}"
        elif method == "elicitation/create":
            self._answers[key] = '{"action":"cancel"}'
        else:
            self.take_back()
            self._fail(f"asked the client for {method} and was refused")
            return
        if not self.questions:
            self.again()

    def take_back(self) -> None:
        """Take back from the client what it was asked."""
        for question in self.questions:
            gone = notification(CANCELLED, obj(requestId=quote(question)))
            self._later(partial(self._port.events.notifies, gone))
        self.questions = {}


def _is_askable(value: Any) -> bool:
    method = value.get("method") if type(value) is dict else None
    if type(method) is not str or method not in CLIENT_METHODS:
        return False
    return type(value.get("params")) in (dict, type(None))


def _question(number: str, value: Any, text: str) -> Message:
    """Return one of the input requests of a result as a request in the router's form."""
    params = value.get("params")
    asked = "{}" if params is None else Json(text).part("params")
    if params is not None and params.get("mode") == "url":
        # Older revisions know each visit by an id.
        asked = Json(asked).owned({"elicitationId": quote(number)}).text
    return request(number, value["method"], asked)
