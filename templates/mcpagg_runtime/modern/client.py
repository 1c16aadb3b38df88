"""The edge to modern clients: a request starts a call, and takes its events.

https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import ModernRequest
from mcpagg_runtime.messages.jsontext import Json, obj, rivals
from mcpagg_runtime.messages.message import Message, error, failure, is_id, result
from mcpagg_runtime.messages.protocol import (
    CANCELLED,
    ENVELOPE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LEGACY,
    LISTEN,
    LOG_MESSAGE,
    METHODS,
    OTHER,
    PROGRESS,
    RESOURCE_NOT_FOUND,
    SERVER_KEY,
    URL_ELICITATION_REQUIRED,
)
from mcpagg_runtime.modern.retries import RequiredInput, SuspendedCalls
from mcpagg_runtime.modern.subscriptions import Subscription, subscription
from mcpagg_runtime.servers.calls import tool_not_found, tool_of_nobody
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.routing.router import Router

# The result of a call that has none, and of one that says nothing of its own.
UNCACHED = {"ttlMs": "0", "cacheScope": '"private"'}
# What is ours to say, or to see, in a result: whether it asks something, and how long it keeps.
_OURS = frozenset({"resultType", "inputRequests", "requestState", "_meta", *UNCACHED})


class PendingCall(ModernRequest):
    """One call of a modern client, made by one request, or by one and its retries."""

    def __init__(self, edge: ModernClients, client: Client, message: Message) -> None:
        super().__init__(client, message)
        self.router = edge.router
        self._edge = edge
        self._input: RequiredInput | None = None
        """What its client is to answer, None as long as nothing was asked."""

    @property
    def is_known(self) -> bool:
        """Whether the router has it still."""
        return self in self.router.clients

    @property
    def is_open(self) -> bool:
        """Whether its client waits for an answer."""
        return self in self._edge.calls

    @property
    def input(self) -> RequiredInput:
        """What its client is to answer."""
        self._input = self._input or RequiredInput(self, self._edge.suspended)
        return self._input

    def suspend(self) -> None:
        """It is answered for now; its client may resume it."""
        self._edge.calls.pop(self, None)

    def cancel(self, params: Json) -> None:
        """Take the call back; nothing more is said of it. `params` are those of the client."""
        self.router.withdraw(self, params)
        self.end()

    def end(self) -> None:
        """Let the router forget the call, and whatever is under way of it."""
        if self.is_known:
            self.router.disconnect(self)
        if self.identifier:  # else its client may resume it
            self.release()

    def _finish(self) -> None:
        """Let the router forget the call, which has been answered."""
        self.router.end(self)

    def deliver(self, message: Message) -> None:
        """Take an event of the call."""
        if message.method is None:
            self._ended(message)
        elif message.id_text:
            self.input.ask(message)
        elif message.method == CANCELLED:
            self.input.asked.pop(message.params["requestId"], None)
        elif not self.identifier:
            pass  # it is suspended
        elif message.method == PROGRESS or (message.method == LOG_MESSAGE and self.level):
            self.connection.deliver(message)

    def _ended(self, message: Message) -> None:
        if not self.identifier:
            self.input.outcome = message
            return
        self._edge.calls.pop(self, None)
        if self.asked or self.party is self:
            # What its servers have of it ends with the call.
            self.router.effects.later(self._finish)
        else:
            self.router.end(self)
        said = message.members.get("result")
        if message.is_error:
            self._failed(message)
        elif said is None or type(said.value) is not dict:
            refusal = error(INTERNAL_ERROR, "The server answered with what is no result")
            self.connection.deliver(failure(self.identifier, refusal))
        else:
            answer = completed(said, self._edge.info, self.message.method or "")
            is_same = answer is said and message.id_text == self.identifier
            self.connection.deliver(message if is_same else result(self.identifier, answer))
        if self.identifier:  # else its client may resume it
            self.release()

    def _failed(self, message: Message) -> None:
        code, text = message.code, message.raw("error")
        method, params = self.message.method or "", self.message.params
        if code == URL_ELICITATION_REQUIRED and self.input.ask_visits(message):
            return
        if code == URL_ELICITATION_REQUIRED:
            text = Json(text).owned({"code": str(INTERNAL_ERROR)}).text
        elif code == RESOURCE_NOT_FOUND:
            uri = params.get("uri")
            data = {"data": obj(uri=quote(uri))} if type(uri) is str else {}
            text = Json(text).owned({"code": str(INVALID_PARAMS), **data}).text
        elif method == "tools/call" and type(params.get("name")) is str:
            name = params["name"]
            is_unknown = text in (tool_not_found(name), tool_of_nobody(name))  # the router's own
            text = error(INVALID_PARAMS, f"Unknown tool: {name}") if is_unknown else text
        self.connection.deliver(failure(self.identifier, text))


class ModernClients:
    """The calls and subscriptions of all modern clients."""

    def __init__(self, router: Router, mint: Callable[[], str]) -> None:
        """`mint` returns a text that nobody can guess."""
        self.router = router
        self.info = router.plan.info
        self.calls: dict[ModernRequest, PendingCall] = {}
        """Those that are to be answered, by themselves."""
        self._subscriptions: dict[ModernRequest, Subscription] = {}
        self.suspended = SuspendedCalls(router.effects, mint)

    @property
    def is_idle(self) -> bool:
        """Whether all requests have ended."""
        return not (self.calls or self._subscriptions) and self.suspended.is_empty

    def receive(self, client: Client, message: Message) -> bool:
        """Take a message of a client if it is a modern one; return whether it was."""
        if message.method == CANCELLED and not message.id_text:
            return self._cancel(client, message)
        if message.id is None or message.method in (None, "initialize"):
            return False
        if not message.is_enveloped:
            return False
        first = client.starter is None
        asking = PendingCall(self, client, message)
        answer = None
        if asking.fault or not METHODS.get(message.method or "", OTHER).modern:
            answer = self.router.answers.answer_modern(asking)
        else:
            client.starter = asking
        if answer is not None:
            client.deliver(answer)
        elif message.method == LISTEN or message.params.get("requestState") is not None:
            self._receive_other(asking)
        else:
            self.start(asking)
        if first and client.starter is not None:
            self.router.want_children(client.starter)
        return True

    def _receive_other(self, asking: PendingCall) -> None:
        """Take a request that listens, or has a state of a call that was made before."""
        message = asking.message
        if fault := message.ambiguity:
            client, refusal = asking.connection, error(INVALID_PARAMS, fault)
            client.deliver(failure(asking.identifier, refusal))
        elif message.method == LISTEN:
            self._listen(asking)
        elif self.suspended.is_ours(message):
            self._resume(asking)
        elif self._knows_no_state(asking):
            self._refuse(asking)
        else:
            self.start(asking)

    def start(self, call: PendingCall) -> None:
        """Begin a call."""
        message = call.message
        if "requestState" in message.params and self.suspended.is_ours(message):
            params = message.json("params").edited(("requestState", "inputResponses"))
            message = message.changed({"params": params.text})
        self.calls[call] = call
        self.router.begin(call, message)

    def _listen(self, asking: ModernRequest) -> None:
        wanted = subscription(asking, self.router)
        if wanted is not None:
            self._subscriptions[asking] = wanted
            wanted.start()

    # Calls that are suspended

    def _resume(self, retry: PendingCall) -> None:
        required = self.suspended.take(retry.message)
        if required is None:
            self._refuse(retry)
            return
        if required.call.is_known:
            self.calls[required.call] = required.call
        if not required.resume(retry):
            self.start(retry)

    def _refuse(self, asking: ModernRequest) -> None:
        why = "Unknown or expired requestState, or of another call: make the request anew without"
        asking.connection.deliver(failure(asking.identifier, error(INVALID_PARAMS, why)))

    def _knows_no_state(self, asking: ModernRequest) -> bool:
        """Whether no child that a call may be for has request states of its own."""
        message, servers = asking.message, self.router.servers
        row = METHODS.get(message.method or "", OTHER)
        name = message.params.get(row.member) if row.asks else None
        if type(name) is not str:
            return True
        if row.member == "uri":
            owners = [child.name for child in self.router.resources.owners(name)]
        else:
            server = self.router.names.server_of(message)
            owners = [server] if server in servers else []
            if not owners:
                return False
        return all(servers[owner].shared(asking).era == LEGACY for owner in owners)

    # What ends

    def _cancel(self, client: Client, message: Message) -> bool:
        """Stop a call or a subscription that its client no longer wants; nothing more is said."""
        key = message.params.get("requestId")
        found = [
            asking
            for asking in (*self._subscriptions, *self.calls)
            if asking.connection is client and is_id(key) and asking.message.id == key
        ]
        if not found:
            return False
        # An id may be used again: the youngest is meant.
        call = self.calls.pop(found[-1], None)
        if call is not None:
            params = message.json("params")
            has_meta = type(params.value.get("_meta")) is dict  # some clients put an envelope there
            call.cancel(params.reduced("_meta", ENVELOPE) if has_meta else params)
        else:
            self._subscriptions.pop(found[-1]).end()
        return True

    def close(self, client: Client) -> None:
        """Let all requests of a client go.

        A call that is suspended has been answered: whoever has its state may resume it, over
        another connection.
        """
        for asking in [one for one in self.calls if one.connection is client]:
            self.calls.pop(asking).end()
        for asking in [one for one in self._subscriptions if one.connection is client]:
            self._subscriptions.pop(asking).end()

    def tick(self, now: float) -> None:
        """Do what is due at this time."""
        for subscribed in [*self._subscriptions.values()]:
            subscribed.tick(now)
        self.suspended.tick(now)

    def end_subscriptions(self) -> None:
        """Say of every subscription that it ends."""
        subscriptions, self._subscriptions = self._subscriptions, {}
        for subscribed in subscriptions.values():
            subscribed.finish()

    def owes(self, client: Client) -> bool:
        """Whether a call of a client is still to be answered."""
        return any(asking.connection is client for asking in self.calls)


def completed(said: Json, info: str, method: str) -> Json:
    """Return the result of a child, whichever revision it speaks, as one of this revision.

    What is already there stays: a child of this revision says it all itself. `info` says who the
    proxy is, for a result that names no server.
    """
    value = said.value
    add: dict[str, str] = {}
    if value.get("resultType", "complete") == "complete":
        if "resultType" not in value:
            add["resultType"] = '"complete"'
        if method == "tools/call" and "content" not in value:
            add["content"] = "[]"
        if METHODS.get(method, OTHER).cached:
            add.update({name: hint for name, hint in UNCACHED.items() if name not in value})
    meta = value.get("_meta")
    if type(meta) is not dict:
        add["_meta"] = obj({SERVER_KEY: info})
    elif SERVER_KEY not in meta:
        add["_meta"] = Json(said.part("_meta")).owned({SERVER_KEY: info}).text
    return said.owned(add, _OURS) if add or rivals(value, _OURS) else said
