"""A client of the engine within this process."""

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
    """Called with the answer to a request, None if the proxy has ended without one."""


class LocalClient:
    """The engine for a plan, and its one client."""

    def __init__(
        self, plan: Plan, folder: str, handshake: str = "", without: Iterable[str] = ()
    ) -> None:
        """Start the servers, except those in `without`.

        `folder` is where the emitted file lies. `handshake` are the params of `initialize`; without
        them, a server is started when it is called.
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
        if self._awaited.pop(number, None) is not None:
            cancelled = notification(CANCELLED, obj(requestId=str(number)))
            self.engine.receive(self.client, cancelled.line())

    def send(self, *messages: Message) -> None:
        """Pass on answers; other messages are ignored."""
        for message in messages:
            answered = self._awaited.pop(message.id, None) if message.method is None else None
            if answered is not None:
                answered(message)

    def has_room(self, _seconds: float = 0.0) -> bool:
        """Return True: nothing waits here."""
        return True

    def close(self) -> None:
        """End every server; requests that are pending get None."""
        self.engine.close()
        while self._awaited:
            self._awaited.popitem()[1](None)
