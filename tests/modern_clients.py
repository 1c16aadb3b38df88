"""Clients without a handshake, for tests."""

from __future__ import annotations

from typing import Any

from core import (
    ASKABLE,
    Json,
    Message,
    World,
    call,
    enveloped,
    failure,
    notification,
    request,
    result,
    retried,
)

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.protocol import SERVER_KEY
from mcpagg_runtime.servers.child import Child

SIGNED: Json = {"_meta": {SERVER_KEY: {"name": "test", "version": "1"}}}
DENIED = failure(
    2, -32602, "Unknown or expired requestState, or of another call: make the request anew without"
)
FORM: Json = {"message": "m", "requestedSchema": {"type": "object"}}
ACCEPTED: Json = {"action": "accept", "content": {"n": 1}}


def modern_call(identifier: Any, name: str = "a:t", **more: Any) -> Json:
    """Return an enveloped call of a client that can be asked everything."""
    return enveloped(call(identifier, name, **more), ASKABLE)


def complete(identifier: Any, **members: Any) -> Json:
    """Return the response that ends a call of a tool."""
    return result(identifier, {**members, "resultType": "complete", **SIGNED})


class Scene:
    """One child that is up, and one client that has called it."""

    def __init__(self, message: Message | None = None, **choices: Any) -> None:
        """`message` is what the client says, by default a call with the id 1."""
        self.world = World({"a": ["t", "u"], "b": ["t"]}, **choices)
        self.client: Client = self.world.modern()
        self.message: Any = modern_call(1) if message is None else message
        self.world.say(self.client, self.message)
        self.a: Child = self.world.up("a")
        self.sent: Json = self.got()[-1]

    def got(self) -> list[Json]:
        """Return what the child was sent."""
        return self.world.received(self.a)

    def received(self) -> list[Json]:
        """Return what the client was sent."""
        return self.world.received(self.client)

    def asked(self, identifier: Any = "q", method: str = "elicitation/create") -> Json:
        """Let the child ask something; return the response that the client gets."""
        self.world.say(self.a, request(identifier, method, FORM))
        [response] = self.received()
        return response

    def take_up(self, identifier: Any, asked: Json, responses: Any) -> None:
        """Let the client take its call up again."""
        self.world.say(self.client, retried(identifier, self.message, asked, responses))

    def end(self, identifier: Any) -> None:
        """Let the child end the call; its client gets the result under that id, and all is over."""
        self.world.say(self.a, result(self.sent["id"], {"content": []}))
        assert self.received() == [complete(identifier, content=[])]
        assert self.world.idle()


def log(level: str, **more: Any) -> Json:
    """Return a log message."""
    return notification("notifications/message", {"level": level, "data": "d", **more})


def listen(identifier: Any, **wanted: Any) -> Json:
    """Return a request that opens a subscription."""
    return enveloped(request(identifier, "subscriptions/listen", {"notifications": wanted}))
