"""Servers without a handshake, for tests."""

from __future__ import annotations

from typing import Any

from core import ASKABLE, Json, Message, World, call, result

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.protocol import CAPABILITIES_KEY, INFO_KEY, MODERN_VERSION, VERSION_KEY
from mcpagg_runtime.servers.child import Child

FACTS: Json = {"m": {"protocol": MODERN_VERSION}}
FORM: Json = {"message": "m", "requestedSchema": {"type": "object"}}
ACCEPTED: Json = {"action": "accept", "content": {"n": 1}}
TEST_INFO: Json = {"name": "test", "version": "1"}


def envelope(capabilities: Json | None = None, **more: Any) -> Json:
    """Return the envelope of who can do `capabilities`."""
    return {
        VERSION_KEY: MODERN_VERSION,
        CAPABILITIES_KEY: capabilities or {},
        INFO_KEY: TEST_INFO,
        **more,
    }


def required(state: Any = None, **asked: Json) -> Json:
    """Return a result that requires input, `asked` by key."""
    members: Json = {"resultType": "input_required"}
    if asked:
        members["inputRequests"] = asked
    return members if state is None else {**members, "requestState": state}


def elicitation(**more: Any) -> Json:
    """Return what stands for a form in a result that requires input."""
    return {"method": "elicitation/create", "params": {**FORM, **more}}


ROOTS_LIST: Json = {"method": "roots/list"}


class Scene:
    """A child without a handshake that is up, and a client that has called it."""

    def __init__(self, client: Client | None = None, **choices: Any) -> None:
        """The client is a legacy one that can be asked everything."""
        self.world = World({"m": ["t", "u"]}, facts=FACTS, **choices)
        self.client: Client = self.world.client(ASKABLE)
        self.m: Child = self.world.up("m")
        self.sent = self.call(1)

    def call(self, identifier: Any, **more: Any) -> Json:
        """Let the client make a call; return what reaches the child."""
        self.world.say(self.client, call(identifier, "m:t", **more))
        [sent] = self.got()
        return sent

    def got(self) -> list[Json]:
        """Return what the child was sent."""
        return self.world.received(self.m)

    def received(self) -> list[Json]:
        """Return what the client was sent."""
        return self.world.received(self.client)

    def say(self, value: Any) -> None:
        """Let the child answer the latest round of the call."""
        self.world.say(self.m, result(self.sent["id"], value))

    def asked(self, state: Any = None, **asked: Json) -> list[Json]:
        """Let the child require input; return what the client is asked."""
        self.say(required(state, **asked))
        assert self.got() == []
        return self.received()

    def answer(self, *messages: Message) -> Json:
        """Let the client answer; return the round that is made then."""
        self.world.say(self.client, *messages)
        [self.sent] = self.got()
        return self.sent

    def end(self) -> None:
        """Let the child end the call; its client gets the result, and all is over."""
        self.say({"resultType": "complete", "content": []})
        assert self.received() == [result(1, {"content": []})]
        assert self.world.idle()
