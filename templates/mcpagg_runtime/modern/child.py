"""The port of a modern child: to the router it is one that shakes hands.

Its calls go in rounds: a result that says that input is required becomes requests to the client,
and the call is made again with the answers. https://modelcontextprotocol.io/
specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.clients import able, attributed_input
from mcpagg_runtime.lists.catalogue import wraps_output
from mcpagg_runtime.messages.jsontext import Json, edited, members, obj
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
    CLIENT_METHODS,
    HEADER_MISMATCH,
    INFO_KEY,
    INTERNAL_ERROR,
    LEVEL_KEY,
    MISSING_CAPABILITY,
    MODERN_VERSION,
    PROGRESS,
    ROOTS_CHANGED,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.modern.results import MODERN_MEMBERS, legacy_result
from mcpagg_runtime.modern.subscriptions import Streams
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.servers.unmatched import FIRST_ID, AnsweredNotifications
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.servers.call import Call
    from mcpagg_runtime.servers.connection import Connection

# Notifications of clients that this revision has not.
LEGACY_NOTIFICATIONS = frozenset({PROGRESS, ROOTS_CHANGED})
# As many as the TypeScript SDK makes; then the call fails.
MAXIMUM_ROUNDS = 8
# A result that requires no input says: try again later.
FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 0.25


class Rounds:
    """One call of a legacy client, on its way through rounds."""

    __slots__ = (
        "_answers",
        "_params",
        "_state",
        "client",
        "due",
        "method",
        "number",
        "questions",
        "round",
        "sent",
        "wraps",
    )

    def __init__(self, message: Message, client: Client, wraps: bool) -> None:
        """`message` is its first request.

        `wraps` says whether the output schema of the tool was wrapped, see `legacy_item`.
        """
        self.number = message.number
        """The id that the call has."""
        self.sent = self.number
        """That of the request of this round, 0 while it is the client's turn."""
        self.method = message.method or ""
        self.client = client
        self.round = 1
        self.questions: dict[str, tuple[str, str]] = {}
        """{id: (key in the result, method)} of requests to the client that are not answered yet."""
        self.wraps = wraps
        self.due = FOREVER
        """When it is made again."""
        self._params = message.json("params")
        self._answers: dict[str, str] = {}
        """{key: JSON text} of what the client has answered in this round."""
        self._state = ""
        """The JSON text of the state that the child wants back, "" for none."""

    def request(self, number: int) -> Message:
        """Return the request of this round, with what has been answered."""
        self.sent = number
        self.due = FOREVER
        add = {}
        if self._answers:
            add["inputResponses"] = obj(self._answers)
        if self._state:
            add["requestState"] = self._state
        return request(number, self.method, self._params.edited(add=add).text)

    def next_round(self, required: Json) -> None:
        """The child requires input before it answers."""
        self.round += 1
        self.sent = 0
        self._answers = {}
        self._state = required.part("requestState")

    def wait(self) -> float:
        """Return for how long it waits if no input is required after all."""
        return min(FIRST_WAIT_SECONDS * 2.0 ** (self.round - 2), LONGEST_WAIT_SECONDS)

    def questions_in(self, required: Json) -> list[Message] | None:
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

    def answered(self, question: str, answer: Message) -> str:
        """Take a client's answer; return the method that it refuses to answer, "" for none."""
        key, method = self.questions.pop(question)
        if not answer.is_error:
            self._answers[key] = answer.raw("result") or "{}"
        elif method == "elicitation/create":
            self._answers[key] = '{"action":"cancel"}'
        else:
            return method
        return ""


class ModernChildPort:
    """One life of one modern child."""

    def __init__(
        self,
        connection: Connection,
        about: str,
        ask: Callable[[Client, Message], None] = lambda client, message: None,
        tool: Callable[[str], str] = lambda name: "",
        *,
        several: bool = False,
    ) -> None:
        """`about` says who the proxy is, for clients that do not say who they are.

        `ask` takes what the child asks in a client's call, `tool` gives the JSON text of one of its
        tools, or ""; `several` says whether the proxy has other children.
        """
        self._connection = connection
        self._about = about
        self._ask_client = ask
        self._tool = tool
        self._several = several
        self._effects = connection.effects
        self._send = self._effects.sender(connection.child)
        self._asking, self._info = "{}", ""
        """What the proxy says of itself in its own requests."""
        self._declared: Any = None
        """The capabilities that the child declares."""
        self._level = ""
        self._unasked = AnsweredNotifications()
        self._in_flight: dict[int, Rounds | None] = {}
        """What the child is to answer: {id: the call in rounds, None for all else}."""
        self._rounds: dict[int, Rounds] = {}
        """{id of the call: its rounds}."""
        self._streams = Streams(connection, self._own, self._say)

    @property
    def is_idle(self) -> bool:
        """Whether all requests of the router have ended."""
        return not (self._in_flight or self._rounds)

    # From the router to the child

    def compose(self, call: Call) -> Message | None:
        """Return the request that a call is to the child: with an envelope that says who asks."""
        client, number = call.client, call.number
        if call.method == "resources/subscribe":
            self._streams.subscribe(number, call.original)
            return None
        if call.method == "resources/unsubscribe":
            self._streams.unsubscribe(number, call.original)
            return None
        if client.is_modern:
            self._in_flight[number] = None
            if client.info and not (client.extensions or call.token or call.is_ambiguous):
                return call.request()
        extra = call.extra()
        if call.token:
            extra = {**extra, "progressToken": str(number)}
        meta = envelope(able(client), client.info or self._about, client.level, extra)
        if client.is_modern:
            return call.request(meta)
        # A modern client knows the schema as it is, and gets the result as it is.
        wraps = call.method == "tools/call" and wraps_output(self._tool(call.original))
        message = call.request(meta)
        self._in_flight[number] = self._rounds[number] = Rounds(message, client, wraps)
        return message

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

        self._connection.ask("server/discover", "{}", answered, deadline=FOREVER)

    def begin(self) -> None:
        """Have the child tell of what changes in its lists."""
        self._streams.listen(self._declared)

    def ask(self, number: int, method: str, params: str) -> None:
        """Make a request of the proxy's own."""
        self._in_flight[number] = None
        self._send(request(number, method, self._own(params or "{}")))

    def set_level(self, level: str) -> None:
        """Have it log from this level on: each request says so."""
        self._level = level

    def watch(self, uri: str) -> None:
        """Want news of a resource."""
        self._streams.subscribe(self._connection.mint(), uri)

    def unwatch(self, uri: str) -> None:
        """Want no more news of a resource."""
        self._streams.unsubscribe(self._connection.mint(), uri)

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
        one = self._rounds.pop(number, None)
        if one is not None:
            self._take_back(one)
            sent = one.sent
        if sent in self._in_flight:
            del self._in_flight[sent]
            params = message.json("params").owned({"requestId": str(sent)}).text
            self._send(notification(CANCELLED, params))
        elif one is None:
            self._streams.withdraw(number)

    def _take_back(self, one: Rounds) -> None:
        """Take back from the client what it was asked."""
        for question in one.questions:
            self._say(notification(CANCELLED, obj(requestId=quote(question))))
        one.questions = {}

    def _replied(self, message: Message) -> None:
        """Take a client's answer; with the last one the call is made again."""
        question = str(message.id)
        found = [one for one in self._rounds.values() if question in one.questions]
        for one in found:
            refused = one.answered(question, message)
            if refused:
                self._take_back(one)
                self._fail(one, f"asked the client for {refused} and was refused")
            elif not one.questions:
                self._again(one)

    def _again(self, one: Rounds) -> None:
        number = self._connection.mint()
        self._in_flight[number] = one
        self._connection.transmit(one.request(number))

    def tick(self, now: float) -> None:
        """Make the rounds that are due."""
        for one in [*self._rounds.values()]:
            if one.due <= now:
                self._again(one)
            else:
                self._effects.arm(one.due)

    # From the child to the router

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
            self._say(notification(message.method, _unmarked(message)))

    def _say(self, message: Message) -> None:
        """Let the router have what the child says, in the form that it knows."""
        self._effects.later(lambda: self._connection.receive(message))

    def _unmatched(self, said: Message | Fragment) -> None:
        """End what an answer that matches no request may be to."""
        owed = self._streams.awaited.union(self._in_flight)
        for answer in self._connection.unmatched(said, owed):
            self._answered(answer)

    def _answered(self, message: Message) -> None:
        sent = message.number
        if sent in self._in_flight:
            one = self._in_flight.pop(sent)
            if one is None:
                self._pass(sent, message)
            else:
                self._round_ended(one, message)
        elif sent in self._streams:
            self._streams.ended(sent, message.raw("error") if message.is_error else "")
        elif message.is_response and sent < FIRST_ID and not self._unasked.takes(message):
            self._unmatched(message)

    def _pass(self, number: int, message: Message) -> None:
        """Pass on an answer to who speaks this revision: as it is, what input is required too."""
        said = message.value("result")
        if message.is_error:
            call = self._connection.calls.get(number)
            asking = None if call is None else call.client
            message = failure(str(number), _explained(message, asking, self._connection.name))
        elif type(said) is not dict:
            message = self._failure(number, "answered with what is no result")
        elif said.get("resultType") == "input_required":
            whole = message.members["result"]
            text = attributed_input(whole, self._connection.name, self._several)
            message = result(str(number), text)
        self._connection.receive(message)

    def _round_ended(self, one: Rounds, message: Message) -> None:
        number, said = str(one.number), message.json("result")
        kind = said.value.get("resultType", "complete")
        if message.is_error:
            self._end(one, failure(number, _explained(message, one.client, self._connection.name)))
        elif type(message.value("result")) is not dict:
            self._fail(one, "answered with what is no result")
        elif kind == "input_required":
            self._require(one, said)
        elif kind == "complete":
            wraps = one.wraps and said.value.get("isError", False) is not True
            self._end(one, result(number, legacy_result(said, wraps)))
        else:
            shown = said.part("resultType")
            how = f"answered with a result of type {shown}, which cannot be passed on"
            self._fail(one, how)

    def _end(self, one: Rounds, message: Message) -> None:
        del self._rounds[one.number]
        self._say(message)

    def _fail(self, one: Rounds, reason: str) -> None:
        self._end(one, self._failure(one.number, reason))

    def _failure(self, number: int, reason: str) -> Message:
        text = error(INTERNAL_ERROR, f"Server '{self._connection.name}' {reason}")
        return failure(str(number), text)

    def _require(self, one: Rounds, required: Json) -> None:
        """Ask the client what the child requires, or wait a moment where that is nothing."""
        one.next_round(required)
        if one.round > MAXIMUM_ROUNDS:
            self._fail(one, f"asked for more than {MAXIMUM_ROUNDS} rounds of input")
            return
        if not required.value.get("inputRequests"):
            one.due = self._effects.arm(self._effects.clock() + one.wait())
            return
        questions = one.questions_in(required)
        if questions is None:
            self._fail(one, "requires input of a kind that cannot be asked for")
            return
        for question in questions:
            self._ask(one, question)

    def _ask(self, one: Rounds, question: Message) -> None:
        """Ask the client something, unless it has refused something else by then."""

        def ask() -> None:
            if question.id in one.questions:
                self._ask_client(one.client, question)

        self._effects.later(ask)


def _explained(message: Message, client: Client | None, server: str) -> str:
    """Return an error as the client should see it, None for the proxy itself.

    Errors about the envelope concern the proxy's envelope, not the client's, so they become
    internal errors; a modern client's own missing capability passes.
    """
    value, code = message.value("error"), message.code
    own = client is None or (client.is_modern and code == MISSING_CAPABILITY)
    if own or code not in (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION):
        return message.raw("error")
    why = value.get("message")
    why = why if type(why) is str else ""
    if code == MISSING_CAPABILITY and type(value.get("data")) is dict:
        needed = value["data"].get("requiredCapabilities")
        names = ", ".join(needed) if type(needed) is dict else ""
        why = f"{why}: {names}" if names else why
    return error(INTERNAL_ERROR, f"Server '{server}' refused the request: {why}")


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


def _unmarked(message: Message) -> str:
    """Return the params of a notification without the id of the stream that it came by."""
    meta = message.params.get("_meta")
    if type(meta) is not dict or SUBSCRIPTION_KEY not in meta:
        return message.raw("params")
    params = message.json("params")
    rest = edited(params.part("_meta"), drop=(SUBSCRIPTION_KEY,))
    return (
        params.edited(drop=("_meta",)).text
        if rest == "{}"
        else params.edited(add={"_meta": rest}).text
    )


def _introduction(said: Json) -> str:
    """Return the result of a discovery as that of a handshake; one without a version has none."""
    versions = said.value.get("supportedVersions")
    is_named = type(versions) is list and bool(versions)
    add = {
        "protocolVersion": quote(MODERN_VERSION) if is_named else "null",
        "serverInfo": said.part("_meta", SERVER_KEY) or "{}",
    }
    return said.edited(drop=MODERN_MEMBERS, add=add).text


def _is_askable(value: Any) -> bool:
    method = value.get("method") if type(value) is dict else None
    if type(method) is not str or method not in CLIENT_METHODS:
        return False
    return type(value.get("params")) in (dict, type(None))


def _question(number: str, value: Any, text: str) -> Message:
    """Return one of the input requests of a result as a request in the router's form."""
    params = value.get("params")
    asked = "{}" if params is None else text[slice(*members(text)[0]["params"][1:])]
    if params is not None and params.get("mode") == "url":
        # Older revisions know each visit by an id.
        asked = Json(asked).owned({"elicitationId": quote(number)}).text
    return request(number, value["method"], asked)
