"""The port of a modern child: calls become requests that say who asks, results what was asked for.

To a client that speaks this revision all passes as it is; one that does not is asked in rounds what
the child asks by a result. https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import wraps_output
from mcpagg_runtime.messages.jsontext import Json, edited, obj
from mcpagg_runtime.messages.message import (
    Fragment,
    error,
    failure,
    minted,
    notification,
    request,
    result,
)
from mcpagg_runtime.messages.protocol import (
    ACKNOWLEDGED,
    CANCELLED,
    CAPABILITIES_KEY,
    INFO_KEY,
    INTERNAL_ERROR,
    LEVEL_KEY,
    MISSING_CAPABILITY,
    MODERN_CODES,
    MODERN_VERSION,
    PROGRESS,
    ROOTS_CHANGED,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
)
from mcpagg_runtime.modern.rounds import Rounds
from mcpagg_runtime.modern.subscriptions import Streams
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.servers.unmatched import FIRST_ID
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.clients.speakers import Speakers
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.servers.calls import Call
    from mcpagg_runtime.servers.connection import Connection

# What only this revision's results have.
MODERN_MEMBERS = ("resultType", "ttlMs", "cacheScope")
# Notifications of clients that this revision has not.
LEGACY_NOTIFICATIONS = frozenset({PROGRESS, ROOTS_CHANGED})


class ModernChildPort:
    """One life of one modern child."""

    def __init__(
        self,
        connection: Connection,
        about: str,
        speakers: Speakers,
        tool: Callable[[str], str] = lambda name: "",
    ) -> None:
        """`about` says who the proxy is, for clients that do not say who they are.

        `tool` gives the JSON text of one of the child's tools, or "".
        """
        self.connection = connection
        self.events = connection.events
        self._about = about
        self._tool = tool
        self._speakers = speakers
        self._effects = connection.effects
        self._send = partial(connection.effects.send, connection.child)
        self._asking, self._info = "{}", ""
        """What the proxy says of itself in its own requests."""
        self._declared: Any = None
        """The capabilities that the child declares."""
        self._level = ""
        self.in_flight: dict[int, Callable[[Message], None]] = {}
        """{id of a request that the child is to answer: what takes the answer}."""
        self.rounds: dict[int, Rounds] = {}
        """{id of a call: its rounds}."""
        self._streams = Streams(connection, self._own)

    @property
    def is_idle(self) -> bool:
        """Whether all requests have ended."""
        return not (self.in_flight or self.rounds)

    # From the core to the child

    def compose(self, call: Call) -> Message | None:
        """Return the request that a call is to the child: with an envelope that says who asks."""
        client, number = call.client, call.number
        if call.method == "resources/subscribe":
            self._streams.subscribe(number, call.original)
            return None
        if call.method == "resources/unsubscribe":
            self._streams.unsubscribe(number, call.original)
            return None
        if client.is_modern and client.info and not (client.extensions or call.is_ambiguous):
            self.in_flight[number] = self._pass
            return call.request()
        extra = call.extra()
        if call.token:
            extra = {**extra, "progressToken": str(number)}
        request = call.request(
            envelope(client.able, client.info or self._about, client.level, extra)
        )
        is_plain = client.is_modern
        self.in_flight[number] = self._pass if is_plain else partial(self._ended, call, request)
        return request

    def introduce(self, params: str, finish: Callable[[Message], None]) -> None:
        """Ask the child who it is, for who says in `params` who it is itself."""
        said = Json(params)
        self._asking, self._info = said.part("capabilities"), said.part("clientInfo")

        def answered(answer: Message) -> None:
            about = answer.value("result")
            if not answer.is_error:
                self._declared = about.get("capabilities")
                answer = result(answer.id_text, _introduction(answer.members["result"]))
            finish(answer)

        self.connection.ask("server/discover", "{}", answered, deadline=FOREVER)

    def begin(self) -> None:
        """Have the child tell of what changes in its lists."""
        self._streams.listen(self._declared)

    def ask(self, number: int, method: str, params: str) -> None:
        """Make a request of the proxy's own."""
        self.in_flight[number] = self._pass
        self._send(request(number, method, self._own(params or "{}")))

    def set_level(self, level: str) -> None:
        """Have it log from this level on: each request says so."""
        self._level = level

    def watch(self, uri: str) -> None:
        """Subscribe to updates of a resource."""
        self._streams.subscribe(self.connection.mint(), uri)

    def unwatch(self, uri: str) -> None:
        """Unsubscribe from updates of a resource."""
        self._streams.unsubscribe(self.connection.mint(), uri)

    def deliver(self, message: Message) -> None:
        """Take an answer of a client, a cancellation, or another notification."""
        if message.method is None:
            self._replied(message)
        elif message.method == CANCELLED:
            self._cancel(message)
        elif message.method not in LEGACY_NOTIFICATIONS:
            self._send(message)

    def _own(self, params: str) -> str:
        """Return the params of a request of the proxy's own, with its envelope."""
        return edited(params, add={"_meta": envelope(self._asking, self._info, self._level)})

    def _cancel(self, message: Message) -> None:
        sent = number = message.params.get("requestId", 0)
        one = self.rounds.pop(number, None)
        if one is not None:
            one.take_back()
            sent = one.sent
        if sent in self.in_flight:
            del self.in_flight[sent]
            params = message.json("params").owned({"requestId": str(sent)}).text
            self._send(notification(CANCELLED, params))
        elif one is None:
            self._streams.withdraw(number)

    def _replied(self, message: Message) -> None:
        """Take a client's answer to what it was asked in rounds."""
        question = str(message.id)
        for rounds in [one for one in self.rounds.values() if question in one.questions]:
            rounds.answered(question, message)

    def tick(self, now: float) -> None:
        """Make the rounds that are due."""
        for one in [*self.rounds.values()]:
            if one.due <= now:
                one.again()
            else:
                self._effects.arm(one.due)

    # From the child to the core

    def receive(self, message: Message | Fragment) -> None:
        """Take what the child says; it asks nothing by requests of its own."""
        if isinstance(message, Fragment):
            if not message.method:
                self._unmatched(message)
        elif message.method is None:
            self._answered(message)
        elif message.id_text:
            return
        elif message.method == ACKNOWLEDGED:
            self._streams.acknowledged(message)
        elif message.method == CANCELLED:
            # One of two ways in which the specification lets a server end a stream.
            self._streams.ended(minted(message.params.get("requestId")))
        else:
            self.events.notifies(notification(message.method, _unmarked(message)))

    def _unmatched(self, said: Message | Fragment) -> None:
        """End what an answer that matches no request may be to."""
        owed = self._streams.awaited.union(self.in_flight)
        for answer in self.connection.unmatched(said, owed):
            self._answered(answer)

    def _answered(self, message: Message) -> None:
        sent = message.number
        if sent in self.in_flight:
            self.in_flight.pop(sent)(message)
        elif sent in self._streams:
            self._streams.ended(sent, message.raw("error") if message.is_error else "")
        elif message.is_response and sent < FIRST_ID and not self.connection.unasked.takes(message):
            self._unmatched(message)

    def _pass(self, message: Message) -> None:
        """Pass on an answer to who speaks this revision: as it is, what input is required too."""
        number, said = message.number, message.members.get("result")
        if message.is_error:
            call = self.connection.calls.get(number)
            asking = None if call is None else call.client
            message = failure(str(number), self.explained(message, asking))
        elif said is None or type(said.value) is not dict:
            message = self.failure(number, "answered with what is no result")
        elif said.value.get("resultType") == "input_required":
            asked = self._speakers.required_input(said, self.connection.name)
            message = result(str(number), asked)
        self.events.answered(number, message)

    def _ended(self, call: Call, sent: Message, message: Message) -> None:
        """Take the answer to a call of who cannot retry; most require no input."""
        answer = self.legacy_answer(call, message)
        if answer is not None:
            self.events.answered(call.number, answer)
        else:
            rounds = self.rounds[call.number] = Rounds(self, call, sent)
            rounds.require(message.members["result"])

    def legacy_answer(self, call: Call, message: Message) -> Message | None:
        """Return the answer to a call in an older revision, None where input is required."""
        number, said = call.number, message.json("result")
        kind = said.value.get("resultType", "complete")
        if message.is_error:
            return failure(str(number), self.explained(message, call.client))
        if type(message.value("result")) is not dict:
            return self.failure(number, "answered with what is no result")
        if kind == "input_required":
            return None
        if kind == "complete":
            return result(str(number), legacy_result(said, self._wraps(call, said.value)))
        shown = said.part("resultType")
        reason = f"answered with a result of type {shown}, which cannot be passed on"
        return self.failure(number, reason)

    def _wraps(self, call: Call, value: Mapping[str, Any]) -> bool:
        """Whether the output schema was wrapped, and the output is; see `legacy_item`."""
        is_output = "structuredContent" in value and value.get("isError", False) is not True
        return is_output and call.method == "tools/call" and wraps_output(self._tool(call.original))

    def failure(self, number: int, reason: str) -> Message:
        """Return the error for what has come to nothing; `reason` completes "Server 'x' …"."""
        text = error(INTERNAL_ERROR, f"Server '{self.connection.name}' {reason}")
        return failure(str(number), text)

    def explained(self, message: Message, client: Client | None) -> str:
        """Return an error as the client should see it, None for the proxy itself.

        Errors about the envelope concern the proxy's envelope, not the client's, so they become
        internal errors; a modern client's own missing capability passes.
        """
        value, code = message.value("error"), message.code
        own = client is None or (client.is_modern and code == MISSING_CAPABILITY)
        if own or code not in MODERN_CODES:
            return message.raw("error")
        why = value.get("message")
        why = why if type(why) is str else ""
        if code == MISSING_CAPABILITY and type(value.get("data")) is dict:
            needed = value["data"].get("requiredCapabilities")
            names = ", ".join(needed) if type(needed) is dict else ""
            why = f"{why}: {names}" if names else why
        return error(INTERNAL_ERROR, f"Server '{self.connection.name}' refused the request: {why}")


def envelope(asking: str, info: str, level: str = "", extra: Mapping[str, str] = {}) -> str:
    """Return a `_meta` with an envelope: what the client can do, who it is, what it wants logged.

    `extra` {name: JSON text} is what else is in it.
    """
    said = {VERSION_KEY: quote(MODERN_VERSION), CAPABILITIES_KEY: asking}
    if info:
        said[INFO_KEY] = info
    if level:
        said[LEVEL_KEY] = quote(level)
    return obj({**said, **extra})


def legacy_result(said: Json, wraps: bool) -> Json:
    """Return a result of this revision as one of an older one.

    `wraps` says that the tool's output schema was wrapped, see `legacy_item`; its structured
    content is then too, as is any that is no object.
    """
    value = said.value
    add = {}
    if "structuredContent" in value and (wraps or type(value["structuredContent"]) is not dict):
        add["structuredContent"] = obj(result=said.part("structuredContent"))
    return said.edited(MODERN_MEMBERS, add)


def _unmarked(message: Message) -> str:
    """Return the params of a notification without the id of the stream that it came by."""
    meta = message.params.get("_meta")
    if type(meta) is not dict or SUBSCRIPTION_KEY not in meta:
        return message.raw("params")
    return message.json("params").reduced("_meta", (SUBSCRIPTION_KEY,)).text


def _introduction(said: Json) -> str:
    """Return the result of a discovery as that of a handshake; one without a version has none."""
    versions = said.value.get("supportedVersions")
    is_named = type(versions) is list and bool(versions)
    add = {
        "protocolVersion": quote(MODERN_VERSION) if is_named else "null",
        "serverInfo": said.part("_meta", SERVER_KEY) or "{}",
    }
    return said.edited(drop=MODERN_MEMBERS, add=add).text
