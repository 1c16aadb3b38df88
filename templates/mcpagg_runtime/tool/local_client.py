"""A client of the engine within this process: it sends requests, and hands on the answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import notification, request
from mcpagg_runtime.messages.protocol import CANCELLED, MODERN
from mcpagg_runtime.stdio.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan

    Answered = Callable[[Message | None], object]
    """Takes the answer to a request, None where the proxy has ended without one."""


class LocalClient:
    """The servers of a plan, and the one client that they are started for."""

    def __init__(
        self, plan: Plan, folder: str, handshake: str = "", without: Iterable[str] = ()
    ) -> None:
        """Start the servers, but for those that are to be served `without`.

        `folder` is where the emitted file lies. `handshake` are the params of `initialize`; if
        there is none, a server is started when it is called.
        """
        answers = Answers(plan)
        answers.outages.update(without)
        self.engine = Engine(answers, folder)
        self.client = Client("spec")
        self.client.era = MODERN  # as compiled, where a server speaks both
        self._awaited: dict[object, Answered] = {}
        self._last_id = 0
        if handshake:
            self.client.introduce(request(0, "initialize", handshake))
            self.client.shake_hands()
        self.engine.connect(self.client, self)

    def ask(self, method: str, params: dict[str, Any], answered: Answered) -> int:
        """Send a request, and return its id; a thread of the engine calls `answered`.

        Raises:
            TypeError, ValueError: the parameters are not JSON.
        """
        self._last_id += 1
        number = self._last_id
        message = request(number, method, json.dumps(params, allow_nan=False))
        self._awaited[number] = answered
        self.engine.receive(self.client, message.line())
        return number

    def cancel(self, number: int) -> None:
        """Tell the proxy that nobody waits for this answer any more."""
        if self._awaited.pop(number, None) is not None:
            cancelled = notification(CANCELLED, obj(requestId=str(number)))
            self.engine.receive(self.client, cancelled.line())

    def send(self, *messages: Message) -> None:
        """Take messages for the client: it has no use for other ones than answers."""
        for message in messages:
            answered = self._awaited.pop(message.id, None) if message.method is None else None
            if answered is not None:
                answered(message)

    def has_room(self, _seconds: float = 0.0) -> bool:
        """Return that it has: nothing ever waits here."""
        return True

    def close(self) -> None:
        """End every server; nobody waits any more."""
        self.engine.close()
        while self._awaited:
            self._awaited.popitem()[1](None)
