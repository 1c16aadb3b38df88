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
    INITIALIZED,
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
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.servers.connection import Connection

# Notifications of clients that this revision has not.
LEGACY_NOTIFICATIONS = frozenset({PROGRESS, ROOTS_CHANGED})
# As many as the TypeScript SDK makes; then the call fails.
MAXIMUM_ROUNDS = 8
# A result that requires no input says: try again later.
FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 0.25


class PendingRequest:
    """A request that the router made, on its way through rounds."""

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

    def __init__(self, message: Message, method: str, client: Client | None) -> None:
        self.number = message.number
        """The id that the router knows it by."""
        self.sent = self.number
        """The one that the child does, 0 while it is the client's turn."""
        self.method = method
        self.client = client
        """Who asks, None for the proxy itself."""
        self.round = 1
        self.questions: dict[str, tuple[str, str]] = {}
        """{id: (key in the result, method)} of requests to the client that are not answered yet."""
        self.wraps = False
        """Whether the output schema of the tool was wrapped, see `legacy_item`."""
        self.due = FOREVER
        """When it is made again."""
        self._params = message.json("params")
        self._answers: dict[str, str] = {}
        """{key: JSON text} of what the client has answered in this round."""
        self._state = ""
        """The JSON text of the state that the child wants back, "" for none."""

    def params(self, asking: str, info: str, level: str) -> str:
        """Return its params, with an envelope that says who asks, and what has been answered."""
        add = {}
        if self._answers:
            add["inputResponses"] = obj(self._answers)
        if self._state:
            add["requestState"] = self._state
        meta = self._params.value.get("_meta")
        old = self._params.part("_meta") if type(meta) is dict else ""
        return self._params.edited(add={**add, "_meta": envelope(asking, info, level, old)}).text

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
        self._pending: dict[int, PendingRequest] = {}
        """By the id that the router knows them by."""
        self._streams = Streams(connection, self._own, self._say)

    @property
    def is_idle(self) -> bool:
        """Whether all requests of the router have ended."""
        return not self._pending

    # From the router to the child

    def deliver(self, message: Message) -> None:
        """Take what the router says to a child that shakes hands, and say it as this one wants."""
        method = message.method
        if method is None:
            self._replied(message)
        elif message.id is None:
            if method == INITIALIZED:
                self._streams.listen(self._declared)
            elif method == CANCELLED:
                self._cancel(message)
            elif method not in LEGACY_NOTIFICATIONS:
                self._send(notification(method, message.raw("params")))
        elif method == "initialize":
            self._discover(message)
        elif method == "logging/setLevel":
            self._level = message.params["level"]
            self._say(result(message.id_text, "{}"))
        elif method == "resources/subscribe":
            self._streams.subscribe(message)
        elif method == "resources/unsubscribe":
            self._streams.unsubscribe(message)
        else:
            self._start(message)

    def _discover(self, message: Message) -> None:
        params = message.json("params")
        self._asking, self._info = params.part("capabilities"), params.part("clientInfo")
        empty = request(message.number, "server/discover", "{}")
        self._make(PendingRequest(empty, "server/discover", None))

    def _start(self, message: Message) -> None:
        call = self._connection.calls.get(message.number)
        one = PendingRequest(message, message.method or "", call.client if call else None)
        # A modern client knows the schema as it is, and gets the result as it is.
        if call is not None and message.method == "tools/call" and not call.client.is_modern:
            one.wraps = wraps_output(self._tool(call.original))
        self._make(one)

    def _make(self, one: PendingRequest) -> None:
        """Make a request, or make it again with what the client has answered."""
        one.due = FOREVER
        self._pending[one.number] = one
        asking, info, level = self._asking, self._info, self._level
        if one.client is not None:
            asking, level = able(one.client), one.client.level
            info = one.client.info or self._about
        self._send(request(one.sent, one.method, one.params(asking, info, level)))

    def _own(self, params: str) -> str:
        """Return the params of a request of the proxy's own, with its envelope."""
        return edited(params, add={"_meta": envelope(self._asking, self._info, self._level, "")})

    def _cancel(self, message: Message) -> None:
        number = message.params.get("requestId", 0)
        one = self._pending.pop(number, None)
        if one is None:
            self._streams.withdraw(number)
            return
        self._take_back(one)
        if one.sent:
            params = message.json("params").owned({"requestId": str(one.sent)}).text
            self._send(notification(CANCELLED, params))

    def _take_back(self, one: PendingRequest) -> None:
        """Take back from the client what it was asked."""
        for question in one.questions:
            self._say(notification(CANCELLED, obj(requestId=quote(question))))
        one.questions = {}

    def _replied(self, message: Message) -> None:
        """Take a client's answer; with the last one the call is made again."""
        question = str(message.id)
        found = [one for one in self._pending.values() if question in one.questions]
        for one in found:
            refused = one.answered(question, message)
            if refused:
                self._take_back(one)
                self._fail(one, f"asked the client for {refused} and was refused")
            elif not one.questions:
                self._again(one)

    def _again(self, one: PendingRequest) -> None:
        one.sent = self._connection.mint()
        self._make(one)

    def tick(self, now: float) -> None:
        """Make the rounds that are due."""
        for one in [*self._pending.values()]:
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

    def _owed(self) -> set[int]:
        """Return what the child is to answer, by the ids that it knows."""
        return self._streams.awaited.union([one.sent for one in self._pending.values() if one.sent])

    def _unmatched(self, said: Message | Fragment) -> None:
        """End what an answer that matches no request may be to."""
        for answer in self._connection.unmatched(said, self._owed()):
            self._answered(answer)

    def _answered(self, message: Message) -> None:
        sent = message.number
        if sent in self._streams:
            self._streams.ended(sent, message.raw("error") if message.is_error else "")
            return
        found = [one for one in self._pending.values() if sent and one.sent == sent]
        if found:
            self._ended(found[0], message)
        elif message.is_response and sent < FIRST_ID and not self._unasked.takes(message):
            self._unmatched(message)

    def _ended(self, one: PendingRequest, message: Message) -> None:
        number, said = str(one.number), message.json("result")
        kind = said.value.get("resultType", "complete")
        if message.is_error:
            self._end(one, failure(number, _explained(message, one.client, self._connection.name)))
        elif type(message.value("result")) is not dict:
            self._fail(one, "answered with what is no result")
        elif one.method == "server/discover":
            self._declared = said.value.get("capabilities")
            self._end(one, result(number, _introduction(said)))
        elif one.client is None or one.client.is_modern:
            # One that speaks the same revision gets all as it is, what input is required too.
            if kind == "input_required":
                text = attributed_input(said, self._connection.name, self._several)
                message = result(number, text)
            self._end(one, message.under(number))
        elif kind == "input_required":
            self._require(one, said)
        elif kind == "complete":
            wraps = one.wraps and said.value.get("isError", False) is not True
            self._end(one, result(number, legacy_result(said, wraps)))
        else:
            shown = said.part("resultType")
            how = f"answered with a result of type {shown}, which cannot be passed on"
            self._fail(one, how)

    def _end(self, one: PendingRequest, message: Message) -> None:
        del self._pending[one.number]
        self._say(message)

    def _fail(self, one: PendingRequest, reason: str) -> None:
        text = error(INTERNAL_ERROR, f"Server '{self._connection.name}' {reason}")
        self._end(one, failure(str(one.number), text))

    def _require(self, one: PendingRequest, required: Json) -> None:
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

    def _ask(self, one: PendingRequest, question: Message) -> None:
        """Ask the client something, unless it has refused something else by then."""

        def ask() -> None:
            if one.client is not None and question.id in one.questions:
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


def envelope(asking: str, info: str, level: str, meta: str) -> str:
    """Return a `_meta` with an envelope: what the client can do, who it is, what it wants logged.

    `meta` is the JSON text of what else is in it, "" for nothing.
    """
    said = {VERSION_KEY: quote(MODERN_VERSION), CAPABILITIES_KEY: asking}
    if info:
        said[INFO_KEY] = info
    if level:
        said[LEVEL_KEY] = quote(level)
    rest = meta.strip()[1:].lstrip() if meta else "}"
    return obj(said)[:-1] + ("" if rest == "}" else ",") + rest


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
