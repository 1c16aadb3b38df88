"""A child without a handshake at the border: to the router it is one that shakes hands.

Its calls go in rounds: a result that says that input is required becomes questions to the client,
and the call is made again with the answers. https://modelcontextprotocol.io/
specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.attribution import attributed_input
from mcpagg_runtime.connection import LostAnswers
from mcpagg_runtime.effects import FOREVER
from mcpagg_runtime.jsontext import edited, members, quote
from mcpagg_runtime.lenient import Fragment
from mcpagg_runtime.message import (
    Message,
    error,
    failure,
    minted,
    notification,
    request,
    result,
)
from mcpagg_runtime.modern import MODERN_MEMBERS, legacy_result, without_meta, wraps_output
from mcpagg_runtime.protocol import (
    CAPABILITIES_KEY,
    CLIENT_METHODS,
    HEADER_MISMATCH,
    INFO_KEY,
    INTERNAL_ERROR,
    LEVEL_KEY,
    MISSING_CAPABILITY,
    MODERN_VERSION,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.session import Session
from mcpagg_runtime.streams import Streams

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.border import Border
    from mcpagg_runtime.child import Child
    from mcpagg_runtime.client import Client

# Notifications of clients that this revision has not.
OF_HANDSHAKES = frozenset({"notifications/progress", "notifications/roots/list_changed"})


# As many as the TypeScript SDK makes; then the call fails.
MAXIMUM_ROUNDS = 8
# A result that requires no input says: try again later.
FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 0.25


class Round:
    """A request that the router made, on its way through rounds.

    `identifier` is the id that the router knows it by, `sent` the one that the child does, 0 while
    it is the client's turn. `open` are the ids of questions that are not answered yet, `answers`
    {key: JSON text} those that came, `state` the JSON text that the child wants back, "" for none.
    `wraps`: see `legacy_result`. It is made again at `due`.
    """

    __slots__ = (
        "answers",
        "client",
        "due",
        "identifier",
        "made",
        "method",
        "open",
        "params",
        "sent",
        "state",
        "wraps",
    )

    def __init__(self, identifier: int, method: str, params: str, client: Client | None) -> None:
        self.identifier = identifier
        self.method = method
        self.params = params
        self.client = client
        self.sent = identifier
        self.made = 1
        self.open: set[str] = set()
        self.answers: dict[str, str] = {}
        self.state = ""
        self.wraps = False
        self.due = FOREVER


class Rounds:
    """One life of one child."""

    def __init__(self, border: Border, child: Child) -> None:
        self.border = border
        self.router = border.router
        self.child = child
        self.introduction = ""
        """The envelope of the proxy's own requests, without its version."""
        self.level = ""
        self.lost = LostAnswers()
        self.rounds: dict[int, Round] = {}
        """By the id that the router knows them by."""
        self.questions: dict[str, tuple[Round, str, str]] = {}
        """By the id that the router was given: (round, key in it, method)."""
        self.streams = Streams(border, child, self._own)

    @property
    def alarm(self) -> float:
        """When the next round is due."""
        return min([one.due for one in self.rounds.values()], default=FOREVER)

    # From the router to the child

    def told(self, message: Message) -> None:
        """Take what the router says to a child that shakes hands, and say it as this one wants."""
        method = message.method
        if method is None:
            self._replied(message)
        elif message.id is None:
            if method == "notifications/initialized":
                self.streams.listen()
            elif method == "notifications/cancelled":
                self._cancel(message)
            elif method not in OF_HANDSHAKES:
                self.border.send(self.child, notification(method, message.raw("params")))
        elif method == "initialize":
            self._discover(message)
        elif method == "logging/setLevel":
            self.level = message.params["level"]
            self.border.say_for(self.child, result(message.raw("id"), "{}"))
        elif method == "resources/subscribe":
            self.streams.subscribe(message)
        elif method == "resources/unsubscribe":
            self.streams.unsubscribe(message)
        else:
            self._start(message)

    def _discover(self, message: Message) -> None:
        text = message.raw("params")
        params = {name: text[start:end] for name, (_, start, end) in members(text)[0].items()}
        self.introduction = introduction(params["capabilities"], params["clientInfo"])
        self._make(Round(minted(message.id), "server/discover", "{}", None))

    def _start(self, message: Message) -> None:
        call = self.child.connection.calls.get(minted(message.id))
        params = message.params_text
        one = Round(minted(message.id), message.method or "", params, call.client if call else None)
        if call is not None and message.method == "tools/call":
            served = self.router.answers.catalogues["tools"].served(self.child.name)
            found = [item for item in served if item.original == call.original]
            one.wraps = bool(found) and wraps_output(found[0].listed(""))
        self._make(one)

    def _make(self, one: Round) -> None:
        """Make a request, or make it again with what the client has answered."""
        add = {}
        if one.made > 1:
            if one.answers:
                answers = [f"{quote(key)}:{text}" for key, text in one.answers.items()]
                add["inputResponses"] = f'{{{",".join(answers)}}}'
            if one.state:
                add["requestState"] = one.state
        one.due = FOREVER
        self.rounds[one.identifier] = one
        params = edited(one.params, add=add)
        self.border.send(
            self.child, request(one.sent, one.method, self._enveloped(params, one.client))
        )

    def _own(self, params: str) -> str:
        """Return the params of a request of the proxy's own, with its envelope."""
        return stamped(params, self.introduction, self.level)

    def _enveloped(self, params: str, client: Client | None) -> str:
        """Return params with the envelope of who asks."""
        if client is None:
            return self._own(params)
        able = _declared(client) if isinstance(client, Session) else client.relayed()
        return stamped(
            params, introduction(able, client.info or self.router.plan.info), client.level
        )

    def _cancel(self, message: Message) -> None:
        one = self.rounds.pop(message.params.get("requestId", 0), None)
        if one is None:
            self.streams.withdraw(message.params.get("requestId", 0))
            return
        for question in one.open:
            self._withdraw(question)
        if one.sent:
            params = edited(message.params_text, add={"requestId": str(one.sent)})
            self.border.send(self.child, notification("notifications/cancelled", params))
        self._settle_lost()

    def _withdraw(self, question: str) -> None:
        """Take back from the client what it was asked."""
        del self.questions[question]
        params = f'{{"requestId":{quote(question)}}}'
        self.border.say_for(self.child, notification("notifications/cancelled", params))

    # From the child to the router

    def heard(self, message: Message | Fragment) -> None:
        """Take what a child says; it asks nothing by requests of its own."""
        if isinstance(message, Fragment):
            self._unreadable(message)
        elif message.method is None:
            self._answered(message)
        elif "id" in message.members:
            return
        elif message.method == "notifications/subscriptions/acknowledged":
            self.streams.acknowledged(message)
        elif message.method == "notifications/cancelled":
            # One of two ways in which the specification lets a server end a stream.
            self.streams.ended(minted(message.params.get("requestId")))
        else:
            text = notification(message.method, _unmarked(message))
            self.border.say_for(self.child, text)
        self._settle_lost()

    def _unreadable(self, fragment: Fragment) -> None:
        """End what an answer that cannot be read is to, as soon as that can be told."""
        if fragment.method:
            return
        problem = self.child.connection.unusable(f"that cannot be read: {fragment.problem}")
        if fragment.id is not None:
            self._answered(failure(str(minted(fragment.id)), problem))
        else:
            self.lost.add(self._in_flight(), problem)

    def _in_flight(self) -> set[int]:
        """Return what the child is to answer, by the ids that it knows."""
        waiting = {stream for stream, (_, identifier) in self.streams.open.items() if identifier}
        return waiting.union([one.sent for one in self.rounds.values() if one.sent])

    def _settle_lost(self) -> None:
        """End the requests that answers without an id must have been for."""
        while self.lost:
            settled = self.lost.settled(self._in_flight())
            if not settled:
                return
            for sent, problem in settled.items():
                self._answered(failure(str(sent), problem))

    def _sent(self, sent: int) -> Round | None:
        """Return the request that the child knows by an id."""
        return next((one for one in self.rounds.values() if sent and one.sent == sent), None)

    def _answered(self, message: Message) -> None:
        sent = minted(message.value("id"))
        if message.id is None and not sent and message.is_response:
            self.lost.add(self._in_flight(), self.child.connection.without_id(message))
            return
        if sent in self.streams.open:
            self.streams.ended(sent, message.raw("error") if message.is_error else "")
            return
        one = self._sent(sent)
        if one is None:
            return
        if message.is_error:
            self._end(one, failure(str(one.identifier), self._understood(one, message)))
        elif type(message.value("result")) is not dict:
            self._fail(one, "answered with what is no result")
        elif one.method == "server/discover":
            text = _introduced(message.raw("result"))
            self._end(one, result(str(one.identifier), text))
        elif one.client is None or isinstance(one.client, Session):
            # One that speaks the same revision gets all as it is, what input is required too.
            several = len(self.router.plan.servers) > 1
            text = attributed_input(message.raw("result"), self.child.name, several)
            self._end(one, result(str(one.identifier), text))
        else:
            self._resulted(one, message.raw("result"))

    def _end(self, one: Round, message: Message) -> None:
        del self.rounds[one.identifier]
        self.border.say_for(self.child, message)

    def _fail(self, one: Round, reason: str) -> None:
        text = error(INTERNAL_ERROR, f"Server '{self.child.name}' {reason}")
        self._end(one, failure(str(one.identifier), text))

    def _understood(self, one: Round, message: Message) -> str:
        """Return an error as the client should see it.

        What is said of an envelope or of capabilities is true of the client only if both are its
        own; otherwise it would draw conclusions about the proxy.
        """
        value = message.value("error")
        code = value.get("code") if type(value) is dict else None
        own = one.client is None or (isinstance(one.client, Session) and code == MISSING_CAPABILITY)
        if own or code not in (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION):
            return message.raw("error")
        why = value.get("message") if type(value) is dict else ""
        why = why if type(why) is str else ""
        if code == MISSING_CAPABILITY and type(value.get("data")) is dict:
            needed = value["data"].get("requiredCapabilities")
            names = ", ".join(needed) if type(needed) is dict else ""
            why = f"{why}: {names}" if names else why
        return error(INTERNAL_ERROR, f"Server '{self.child.name}' refused the request: {why}")

    def _resulted(self, one: Round, text: str) -> None:
        found, _ = members(text)
        kind = found.get("resultType", ("complete",))[0]
        if kind == "input_required":
            self._ask(one, text)
        elif kind == "complete":
            wraps = one.wraps and found.get("isError", (False,))[0] is not True
            self._end(one, result(str(one.identifier), legacy_result(text, wraps)))
        else:
            shown = text[slice(*found["resultType"][1:])]
            self._fail(one, f"answered with a result of type {shown}, which cannot be passed on")

    def _ask(self, one: Round, text: str) -> None:
        """Ask the client what the child requires, or wait a moment where that is nothing."""
        found, _ = members(text)
        one.made += 1
        if one.made > MAXIMUM_ROUNDS:
            self._fail(one, f"asked for more than {MAXIMUM_ROUNDS} rounds of input")
            return
        one.sent = 0
        one.answers = {}
        one.state = text[slice(*found["requestState"][1:])] if "requestState" in found else ""
        if not found.get("inputRequests", (None,))[0]:
            wait = min(FIRST_WAIT_SECONDS * 2 ** (one.made - 2), LONGEST_WAIT_SECONDS)
            one.due = self.border.clock() + wait
            return
        value, start, _ = found["inputRequests"]
        entries = members(text, start)[0] if type(value) is dict else {"": (None, 0, 0)}
        if not all(_is_question(value) for value, _, _ in entries.values()):
            self._fail(one, "requires input of a kind that cannot be asked for")
            return
        questions = [_question(one, text[a:b], key) for key, (_, a, b) in entries.items()]
        for key, question in zip(entries, questions):  # noqa: B905 - Python 3.9
            one.open.add(str(question.id))
            self.questions[str(question.id)] = one, key, question.method or ""
        for question in questions:
            if one.client is not None and str(question.id) in self.questions:
                self.border.ask(one.client, self.child, question)

    def _replied(self, message: Message) -> None:
        """Take a client's answer; with the last one the call is made again."""
        one, key, method = self.questions.pop(str(message.id), (None, "", ""))
        if one is None:
            return
        one.open.discard(str(message.id))
        if not message.is_error:
            one.answers[key] = message.raw("result") or "{}"
        elif method == "elicitation/create":
            one.answers[key] = '{"action":"cancel"}'
        else:
            for question in [*one.open]:
                self._withdraw(question)
            self._fail(one, f"asked the client for {method} and was refused")
            return
        if not one.open:
            self._again(one)

    def _again(self, one: Round) -> None:
        one.sent = self.child.connection.mint()
        self._make(one)

    def tick(self) -> None:
        """Make the rounds that are due."""
        now = self.border.clock()
        for one in [one for one in self.rounds.values() if one.due <= now]:
            self._again(one)


def stamped(params: str, who: str, level: str) -> str:
    """Return params with an envelope; `who` are its members that say who asks."""
    head = f'"{VERSION_KEY}":"{MODERN_VERSION}",{who}'
    if level:
        head += f',"{LEVEL_KEY}":{quote(level)}'
    found, _ = members(params)
    value, start, end = found.get("_meta", (None, 0, 0))
    rest = params[start:end].strip()[1:] if type(value) is dict and value else "}"
    return edited(params, add={"_meta": f"{{{head}{',' if len(rest) > 1 else ''}{rest}"})


def introduction(capabilities: str, info: str) -> str:
    """Return the members of an envelope that say who asks, as JSON text."""
    named = f',"{INFO_KEY}":{info}' if info else ""
    return f'"{CAPABILITIES_KEY}":{capabilities}{named}'


def _declared(session: Session) -> str:
    """Return all that a client of this revision can do, but for what does not pass a proxy."""
    if not session.extensions:
        return session.declared
    return edited(session.declared, add={"extensions": session.passing_extensions()})


def _unmarked(message: Message) -> str:
    """Return the params of a notification without the id of the stream that it came by."""
    text = message.raw("params")
    meta = message.params.get("_meta")
    if type(meta) is not dict or SUBSCRIPTION_KEY not in meta:
        return text
    return without_meta(text, (SUBSCRIPTION_KEY,))


def _introduced(text: str) -> str:
    """Return the result of a discovery as that of a handshake."""
    found, _ = members(text)
    value, start, _ = found.get("_meta", (None, 0, 0))
    add = {"protocolVersion": f'"{MODERN_VERSION}"', "serverInfo": "{}"}
    if type(value) is dict and SERVER_KEY in value:
        _, begin, end = members(text, start)[0][SERVER_KEY]
        add["serverInfo"] = text[begin:end]
    return edited(text, drop=("supportedVersions", *MODERN_MEMBERS), add=add)


def _is_question(value: Any) -> bool:
    method = value.get("method") if type(value) is dict else None
    if type(method) is not str or method not in CLIENT_METHODS:
        return False
    return type(value.get("params")) in (dict, type(None))


def _question(one: Round, text: str, key: str) -> Message:
    """Return one of the input requests of a result as a request in the router's form."""
    found, _ = members(text)
    method = found["method"][0]
    value, start, end = found.get("params", (None, 0, 0))
    params = "{}" if value is None else text[start:end]
    identifier = f"{one.identifier}.{one.made}/{key}"
    if value is not None and value.get("mode") == "url":
        # Older revisions know each visit by an id.
        params = edited(params, add={"elicitationId": quote(identifier)})
    return request(identifier, method, params)
