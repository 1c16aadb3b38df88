"""Clients without a handshake at the border: each request is a legacy session of one call.

What a child asks in the middle of a call parks it: the client gets a result that says what input is
required, and takes the call up again with its answers. https://modelcontextprotocol.io/
specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.attribution import attributed, mark_of
from mcpagg_runtime.calls import tool_not_found, tool_of_nobody
from mcpagg_runtime.catalogue import PROMPTS, TOOLS
from mcpagg_runtime.client import is_enveloped
from mcpagg_runtime.effects import FOREVER
from mcpagg_runtime.jsontext import Malformed, edited, elements, members, parse, place_of, quote
from mcpagg_runtime.live import same
from mcpagg_runtime.message import (
    Message,
    error,
    failure,
    notification,
    request,
    result,
)
from mcpagg_runtime.modern import completed, signed, without_meta
from mcpagg_runtime.protocol import (
    ENVELOPE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LEGACY,
    LISTEN,
    MAY_ASK,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    URL_ELICITATION_REQUIRED,
)
from mcpagg_runtime.reception import receive
from mcpagg_runtime.routed import ambiguity
from mcpagg_runtime.session import Session
from mcpagg_runtime.subscriptions import ASIDE, CALL, Subscriptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.border import Border
    from mcpagg_runtime.client import Client

# How handles start.
HANDLE = "mcpagg:"
# How long a client may take to answer, and how many calls may wait for such answers.
PARKED_SECONDS = 600.0
MAXIMUM_PARKED = 1000


class Sessions:
    """The sessions of all clients: `waiting` for an answer or listening, and `parked` by handle.

    `mark` tells our handles from those of a child of this revision, which pass as they are; it may
    be a proxy like this one.
    """

    def __init__(self, border: Border, mint: Callable[[], str]) -> None:
        """`mint` returns a text that nobody can guess."""
        self.border = border
        self.router = border.router
        self.answers = border.router.answers
        self.mint = mint
        self.mark = f"{HANDLE}{mint()}:"
        self.subscriptions = Subscriptions(border)
        self.waiting: list[Session] = []
        self.parked: dict[str, Session] = {}

    @property
    def alarm(self) -> float:
        """When the first parked call expires, or a subscription is to be acknowledged."""
        return min(
            [one.deadline for one in [*self.parked.values(), *self._held()]], default=FOREVER
        )

    def _held(self) -> list[Session]:
        """Return the subscriptions that are not acknowledged yet."""
        return [session for session in self.waiting if session.held is not None]

    def take(self, client: Client, message: Message) -> bool:
        """Take a message of a client if it is of this revision; return whether it was."""
        if message.method == "notifications/cancelled" and "id" not in message.members:
            return self._cancel(client, message)
        if message.id is None or message.method in (None, "initialize"):
            return False
        if not is_enveloped(message):
            return False
        first = client.starter is None
        session, answer = receive(self.answers, client, message)
        if answer is not None:
            self.border.send(client, answer)
        elif ambiguity(message):
            refusal = error(INVALID_PARAMS, ambiguity(message))
            self.border.send(client, failure(session.identifier, refusal))
        elif message.method == LISTEN:
            if self.subscriptions.open(session):
                self.waiting.append(session)
        elif _handle(message).startswith(self.mark):
            self._take_up(session)
        elif message.params.get("requestState") is not None and self._knows_no_state(message):
            self._deny(session)
        else:
            self._start(session)
        if first and client.starter is not None:
            self.border.carry(self.router.want(client.starter))
        return True

    def _start(self, session: Session) -> None:
        self.waiting.append(session)
        self.border.carry(self.router.connect(session))
        if session.level and "logging" in self.answers.declared:
            params = f'{{"level":{quote(session.level)}}}'
            self._hear(session, request(ASIDE, "logging/setLevel", params))
        ours = _handle(session.message).startswith(self.mark)
        drop = ("requestState", "inputResponses") if ours else ()
        params = _unenveloped(session.message.raw("params"), drop)
        self._hear(session, request(CALL, session.message.method or "", params))

    def _hear(self, session: Session, message: Message) -> None:
        """Let the router hear a session say something."""
        self.border.carry(self.router.hear(session, message))

    def _close(self, session: Session) -> None:
        if session in self.waiting:
            self.waiting.remove(session)
        if session in self.router.clients:
            self.border.carry(self.router.disconnect(session))

    def close(self, client: Client) -> None:
        """Let all sessions of a client go."""
        parked = [one for one in self.parked.values() if one.connection is client]
        self.parked = {h: one for h, one in self.parked.items() if one.connection is not client}
        for session in [*parked, *(one for one in self.waiting if one.connection is client)]:
            self._close(session)

    def told(self, session: Session, message: Message) -> None:
        """Take what the router says to a session, and say it to the client as it understands it."""
        if message.method is None:
            if message.id == CALL:
                self._ended(session, message)
            elif session.listens is not None:
                self.subscriptions.answered(session, message)
        elif "id" in message.members:
            self._asked(session, message)
        elif message.method == "notifications/cancelled":
            session.asked.pop(message.params["requestId"], None)
        elif session.listens is not None:
            self.subscriptions.tell(session, message)
        elif session.identifier and message.method == "notifications/progress":
            self._progress(session, message)
        elif session.identifier and message.method == "notifications/message" and session.level:
            self.border.send(session.connection, message)

    def _progress(self, session: Session, message: Message) -> None:
        """Tell of progress, unless whoever took the call up again wants none."""
        if session.token:
            params = edited(message.params_text, add={"progressToken": session.token})
            self.border.send(session.connection, notification(message.method or "", params))

    # A call ends

    def _ended(self, session: Session, message: Message) -> None:
        if not session.identifier:
            session.outcome = message
            return
        self._close(session)
        if message.is_error:
            self._failed(session, message)
        elif type(message.value("result")) is not dict:
            refusal = error(INTERNAL_ERROR, "The server answered with what is no result")
            self.border.send(session.connection, failure(session.identifier, refusal))
        else:
            text = completed(message.raw("result"), self.answers.plan, session.message.method or "")
            self.border.send(session.connection, result(session.identifier, text))

    def _failed(self, session: Session, message: Message) -> None:
        value = message.value("error")
        code = value.get("code") if type(value) is dict else None
        text = message.raw("error")
        method, params = session.message.method or "", session.message.params
        if code == URL_ELICITATION_REQUIRED and self._asks_for_visits(session, message):
            return
        if code == URL_ELICITATION_REQUIRED:
            text = edited(text, add={"code": str(INTERNAL_ERROR)})
        elif code == RESOURCE_NOT_FOUND:
            uri = params.get("uri")
            data = {"data": f'{{"uri":{quote(uri)}}}'} if type(uri) is str else {}
            text = edited(text, add={"code": str(INVALID_PARAMS), **data})
        elif method == "tools/call" and _names_no_tool(text, params.get("name")):
            text = error(INVALID_PARAMS, f"Unknown tool: {params['name']}")
        self.border.send(session.connection, failure(session.identifier, text))

    def _asks_for_visits(self, session: Session, message: Message) -> bool:
        """Ask the client to visit the URLs that an error names; then it makes its call again."""
        elicitation = session.capabilities.get("elicitation", "{}")
        if session.message.method not in MAY_ASK or "url" not in parse(elicitation):
            return False
        server, several = self._server_of(session.message), len(self.router.children) > 1
        for number, params in enumerate(_visits(message)):
            asked = attributed("elicitation/create", params, server, several) if server else params
            session.asked[-1 - number] = "elicitation/create", _modern_question(asked)
        if session.asked:
            self._park(session)
        return bool(session.asked)

    def _server_of(self, message: Message) -> str:
        """Return the server that a call of a tool or a prompt is for, "" if that is not known."""
        kind = PROMPTS if message.method == "prompts/get" else TOOLS
        name = message.params.get("name")
        items = self.router.names.named(kind, name) if type(name) is str else []
        return items[0].server if len(items) == 1 else ""

    # A child asks

    def _asked(self, session: Session, message: Message) -> None:
        number = message.value("id")
        if session.message.method not in MAY_ASK:
            refusal = error(METHOD_NOT_FOUND, f"Method not found: {message.method}")
            self._hear(session, failure(str(number), refusal))
            return
        session.asked[number] = message.method or "", _modern_question(message.params_text)
        if session.identifier:
            self._park(session)

    def _park(self, session: Session) -> None:
        """Answer a call with the input that it requires; the client takes it up again with that."""
        if session in self.waiting:
            self.waiting.remove(session)
        if len(self.parked) == MAXIMUM_PARKED:
            self._close(self.parked.pop(next(iter(self.parked))))
        session.state = self.mark + self.mint()
        session.deadline = self.border.clock() + PARKED_SECONDS
        self.parked[session.state] = session
        asked = [
            f'"{number}":{{"method":{quote(method)},"params":{params}}}'
            for number, (method, params) in session.asked.items()
        ]
        text = f'{{"resultType":"input_required","requestState":"{session.state}"'
        text = signed(f'{text},"inputRequests":{{{",".join(asked)}}}}}', self.answers.plan)
        self.border.send(session.connection, result(session.identifier, text))
        session.identifier = ""

    def _take_up(self, retry: Session) -> None:
        """Go on with a parked call, with the answers that the client brings."""
        session = self.parked.get(_handle(retry.message))
        if session is None or not _is_same_call(session.message, retry.message):
            self._deny(retry)
            return
        del self.parked[session.state]
        session.connection = retry.connection
        session.take_up(retry.message)
        if session in self.router.clients:
            self.waiting.append(session)
        for number, text in _answers(session):
            del session.asked[number]
            if session in self.router.clients:
                self._hear(session, result(str(number), text))
        if session.outcome is not None:
            # It has ended, whatever is still asked: nobody waits for that any more.
            session.asked = {}
            outcome, session.outcome = session.outcome, None
            self._ended(session, outcome)
        elif session.asked:
            self._park(session)
        elif session not in self.router.clients:
            self._start(retry)

    def _deny(self, session: Session) -> None:
        refusal = error(INVALID_PARAMS, "Unknown or expired requestState, or one of another call")
        self.border.send(session.connection, failure(session.identifier, refusal))

    def _knows_no_state(self, message: Message) -> bool:
        """Whether no child that a call may be for has request states of its own."""
        name = message.params.get("uri" if message.method == "resources/read" else "name")
        if type(name) is not str:
            return True
        if message.method == "resources/read":
            return all(child.era == LEGACY for child in self.router.resources.owners(name))
        child = self.router.children.get(self._server_of(message))
        return child is not None and child.era == LEGACY

    def tick(self) -> None:
        """Let calls go whose client never came back, and wait no longer for subscriptions."""
        now = self.border.clock()
        for session in [one for one in self._held() if one.deadline <= now]:
            self.subscriptions.give_up(session)
        for handle in [h for h, session in self.parked.items() if session.deadline <= now]:
            self._close(self.parked.pop(handle))

    # A call is cancelled

    def _cancel(self, client: Client, message: Message) -> bool:
        """Stop a call or a subscription that its client no longer wants; nothing more is said."""
        key = message.params.get("requestId")
        found = [
            session
            for session in self.waiting
            if session.connection is client
            and type(key) is type(session.message.id)
            and session.message.id == key
        ]
        if not found:
            return False
        session = found[-1]
        params = edited(_unenveloped(message.params_text), add={"requestId": str(CALL)})
        self._hear(session, notification("notifications/cancelled", params))
        self._close(session)
        return True

    def end_subscriptions(self) -> None:
        """Say of every subscription that it ends."""
        for session in [one for one in self.waiting if one.listens is not None]:
            self.subscriptions.end(session)
            self.waiting.remove(session)

    def owes(self, client: Client) -> bool:
        """Whether a call of a client is still to be answered."""
        return any(one.connection is client and one.listens is None for one in self.waiting)


def _handle(message: Message) -> str:
    state = message.params.get("requestState")
    return state if type(state) is str else ""


def _unenveloped(text: str, drop: tuple[str, ...] = ()) -> str:
    """Return the params of a message without its envelope, if any, and the members of `drop`.

    Some clients put an envelope into notifications too.
    """
    return edited(without_meta(text, ENVELOPE), drop=drop)


def _modern_question(params: str) -> str:
    """Return the params of a child's question as this revision has them.

    It knows neither tasks nor ids of elicitations, and reports no progress of them: of `_meta`
    stays which server asks.
    """
    mark = mark_of(params)
    add = {"_meta": mark} if mark else {}
    return edited(params, drop=("_meta", "task", "elicitationId"), add=add)


def _names_no_tool(text: str, name: Any) -> bool:
    """Whether an error is the router's own about a tool that nobody has."""
    return type(name) is str and text in (tool_not_found(name), tool_of_nobody(name))


def _visits(message: Message) -> list[str]:
    """Return the params of the elicitations in an error that requires some, as JSON texts."""
    text = message.raw("error")
    try:
        found = elements(text, place_of(text, ("data", "elicitations"))[0])
    except Malformed:
        return []
    return [text[start:end] for value, start, end in found if type(value) is dict]


def _answers(session: Session) -> list[tuple[int, str]]:
    """Return what a client answers of what it was asked: (the question's id, JSON text)."""
    text = session.message.raw("params")
    params, _ = members(text)
    if type(params.get("inputResponses", (None,))[0]) is not dict:
        return []
    given, _ = members(text, params["inputResponses"][1])
    keys = [number for number in session.asked if type(given.get(str(number), (0,))[0]) is dict]
    return [(number, text[slice(*given[str(number)][1:])]) for number in keys]


def _is_same_call(one: Message, other: Message) -> bool:
    """Whether a request takes up another one: same method, same params but for the answers."""
    own = ("_meta", "requestState", "inputResponses")
    first, second = ({n: v for n, v in m.params.items() if n not in own} for m in (one, other))
    return one.method == other.method and same(first, second)
