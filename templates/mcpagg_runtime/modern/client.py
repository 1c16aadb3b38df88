"""The edge to modern clients: a request starts a call, and takes its events.

What a child asks in the middle of a call suspends it: the client gets a result that says what input
is required, and makes its request again with the answers. https://modelcontextprotocol.io/
specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import ModernRequest
from mcpagg_runtime.lists.values import same
from mcpagg_runtime.messages.ambiguity import ambiguity
from mcpagg_runtime.messages.jsontext import Json, Malformed, edited, elements, obj, parse, place_of
from mcpagg_runtime.messages.message import Message, error, failure, is_id, result
from mcpagg_runtime.messages.protocol import (
    CANCELLED,
    ENVELOPE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LEGACY,
    LISTEN,
    LOG_MESSAGE,
    METHOD_NOT_FOUND,
    METHODS,
    OTHER,
    PROGRESS,
    RESOURCE_NOT_FOUND,
    SERVER_MARK,
    URL_ELICITATION_REQUIRED,
)
from mcpagg_runtime.modern.results import completed, without_meta
from mcpagg_runtime.modern.subscriptions import Subscription, subscription
from mcpagg_runtime.servers.calls import tool_not_found, tool_of_nobody
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.routing.router import Router

# How the request states start that are ours.
STATE_MARK = "mcpagg:"
# How long a client may take to answer, and how many calls may wait for such answers.
SUSPENDED_SECONDS = 600.0
MAXIMUM_SUSPENDED = 1000


class PendingCall:
    """One call of a modern client, made by one request, or by one and its retries."""

    def __init__(self, port: ModernClients, asking: ModernRequest) -> None:
        self.request = asking
        self.state = ""
        """The request state by which the client resumes the call, "" before it was suspended."""
        self.deadline = FOREVER
        """When a suspended call is given up."""
        self._port = port
        self._router = port.router
        self._plan = port.router.plan
        self._asked: dict[int, tuple[str, str]] = {}
        """{id of a request to the client: (method, params)}, what input is required."""
        self._outcome: Message | None = None
        """What ended the call while it was suspended."""

    @property
    def is_known(self) -> bool:
        """Whether the router has it still."""
        return self.request in self._router.clients

    def start(self) -> None:
        """Let the router have the call."""
        asking, message = self.request, self.request.message
        asking.deliver = self.deliver
        if message.params.get("requestState") is not None and self._port.is_ours(message):
            params = message.json("params").edited(("requestState", "inputResponses"))
            message = message.changed({"params": params.text})
        self._router.begin(asking, message)

    def cancel(self, params: str) -> None:
        """Take the call back; nothing more is said of it. `params` are those of the client."""
        self._router.withdraw(self.request, params)
        self.end()

    def end(self) -> None:
        """Let the router forget the call, and whatever is under way of it."""
        if self.is_known:
            self._router.disconnect(self.request)
        if self.request.identifier:  # else its client may resume it
            self.request.release()

    def _finish(self) -> None:
        """Let the router forget the call, which has been answered."""
        self._router.end(self.request)

    # From the router to the client

    def deliver(self, message: Message) -> None:
        """Take what the router says to the call's client."""
        asking = self.request
        if message.method is None:
            self._ended(message)
        elif message.id_text:
            self._require(message)
        elif message.method == CANCELLED:
            self._asked.pop(message.params["requestId"], None)
        elif not asking.identifier:
            pass  # it is suspended
        elif message.method == PROGRESS or (message.method == LOG_MESSAGE and asking.level):
            asking.connection.deliver(message)

    def _ended(self, message: Message) -> None:
        asking = self.request
        if not asking.identifier:
            self._outcome = message
            return
        self._port.calls.pop(asking, None)
        if asking.asked or asking.party is asking:
            self._port.later(self._finish)  # what its servers have of it ends with the call
        else:
            self._router.end(asking)
        said = message.members.get("result")
        if message.is_error:
            self._failed(message)
        elif said is None or type(said.value) is not dict:
            refusal = error(INTERNAL_ERROR, "The server answered with what is no result")
            asking.connection.deliver(failure(asking.identifier, refusal))
        else:
            answer = completed(said, self._plan, asking.message.method or "")
            is_same = answer is said and message.id_text == asking.identifier
            asking.connection.deliver(message if is_same else result(asking.identifier, answer))
        if asking.identifier:  # else its client may resume it
            asking.release()

    def _failed(self, message: Message) -> None:
        code, text = message.code, message.raw("error")
        method, params = self.request.message.method or "", self.request.message.params
        if code == URL_ELICITATION_REQUIRED and self._requires_visits(message):
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
        self.request.connection.deliver(failure(self.request.identifier, text))

    # Input that is required

    def _requires_visits(self, message: Message) -> bool:
        """Ask the client to visit the URLs that an error names; then it makes its call again."""
        asking = self.request
        if not _may_be_asked(asking) or not _visits_urls(asking):
            return False
        server, speakers = self._port.server_of(asking.message), self._router.clients.speakers
        for number, params in enumerate(_visits(message)):
            asked = params
            if server:
                asked = speakers.asked("elicitation/create", Json(params), server)
            self._asked[-1 - number] = "elicitation/create", _modern_params(asked)
        if self._asked:
            self._suspend()
        return bool(self._asked)

    def _require(self, message: Message) -> None:
        """A child asks the client something."""
        number = message.number
        if not _may_be_asked(self.request):
            refusal = error(METHOD_NOT_FOUND, f"Method not found: {message.method}")
            refused = failure(str(number), refusal)
            self._port.later(lambda: self._router.receive(self.request, refused))
            return
        self._asked[number] = message.method or "", _modern_params(message.params_text)
        if self.request.identifier:
            self._suspend()

    def _suspend(self) -> None:
        """Answer the call with the input that it requires; the client resumes it with that."""
        self.state = self._port.suspended(self)
        self.deadline = self._router.effects.arm(self._router.effects.clock() + SUSPENDED_SECONDS)
        asked = {
            str(number): obj(method=quote(method), params=params)
            for number, (method, params) in self._asked.items()
        }
        text = obj(
            resultType='"input_required"',
            requestState=quote(self.state),
            inputRequests=obj(asked),
            _meta=self._plan.signature,
        )
        identifier, self.request.identifier = self.request.identifier, ""
        self.request.connection.deliver(result(identifier, text))

    def is_resumed_by(self, retry: Message) -> bool:
        """Whether a request is the same call: same method, same params but for the answers."""
        own = ("_meta", "requestState", "inputResponses")
        call = self.request.message
        first, second = ({n: v for n, v in m.params.items() if n not in own} for m in (call, retry))
        return call.method == retry.method and same(first, second)

    def resume(self, retry: ModernRequest) -> None:
        """Go on, with the answers that the client brings."""
        asking = self.request
        asking.resume(retry.connection, retry.message)
        for number, text in self._answers():
            del self._asked[number]
            if self.is_known:
                self._router.receive(self.request, result(str(number), text))
        if self._outcome is not None:
            # It has ended, whatever is still asked: nobody waits for that any more.
            self._asked = {}
            outcome, self._outcome = self._outcome, None
            self._ended(outcome)
        elif self._asked:
            self._suspend()
        elif not self.is_known:
            self._port.start(retry)

    def _answers(self) -> list[tuple[int, str]]:
        """Return what the client answers of what it was asked: (id of the request, JSON text)."""
        params = self.request.message.json("params")
        given = params.value.get("inputResponses")
        if type(given) is not dict:
            return []
        answered = [number for number in self._asked if type(given.get(str(number))) is dict]
        return [(number, params.part("inputResponses", str(number))) for number in answered]


class ModernClients:
    """The calls and subscriptions of all modern clients."""

    def __init__(self, router: Router, mint: Callable[[], str]) -> None:
        """`mint` returns a text that nobody can guess."""
        self.router = router
        self.later = router.effects.later
        self._mint = mint
        self._mark = f"{STATE_MARK}{mint()}:"
        """Tells our request states from those of a child, which may be a proxy like this one."""
        self.calls: dict[ModernRequest, PendingCall] = {}
        """Those that are to be answered."""
        self._subscriptions: dict[ModernRequest, Subscription] = {}
        self._suspended: dict[str, PendingCall] = {}
        """Those whose client is to answer, by request state."""

    @property
    def is_idle(self) -> bool:
        """Whether all requests have ended."""
        return not (self.calls or self._subscriptions or self._suspended)

    def receive(self, client: Client, message: Message) -> bool:
        """Take a message of a client if it is a modern one; return whether it was."""
        if message.method == CANCELLED and not message.id_text:
            return self._cancel(client, message)
        if message.id is None or message.method in (None, "initialize"):
            return False
        if not message.is_enveloped:
            return False
        first = client.starter is None
        asking = ModernRequest(client, message)
        answer = self.router.answers.answer_modern(asking)
        if answer is not None:
            client.deliver(answer)
        elif message.method != LISTEN and message.params.get("requestState") is None:
            self.start(asking)
        elif fault := ambiguity(message):
            refusal = error(INVALID_PARAMS, fault)
            client.deliver(failure(asking.identifier, refusal))
        elif message.method == LISTEN:
            self._listen(asking)
        elif self.is_ours(message):
            self._resume(asking)
        elif self._knows_no_state(asking):
            self._refuse(asking)
        else:
            self.start(asking)
        if first and client.starter is not None:
            self.router.want_children(client.starter)
        return True

    def start(self, asking: ModernRequest) -> None:
        """Begin a call."""
        self.calls[asking] = call = PendingCall(self, asking)
        call.start()

    def _listen(self, asking: ModernRequest) -> None:
        wanted = subscription(asking, self.router)
        if wanted is not None:
            self._subscriptions[asking] = wanted
            wanted.start()

    # Calls that are suspended

    def is_ours(self, message: Message) -> bool:
        """Whether a request resumes a call that was suspended here."""
        return _state_of(message).startswith(self._mark)

    def suspended(self, call: PendingCall) -> str:
        """Note that a call waits for its client; return the state by which that resumes it."""
        self.calls.pop(call.request, None)
        if len(self._suspended) == MAXIMUM_SUSPENDED:
            oldest = self._suspended.pop(next(iter(self._suspended)))
            self.later(oldest.end)
        state = self._mark + self._mint()
        self._suspended[state] = call
        return state

    def _resume(self, retry: ModernRequest) -> None:
        call = self._suspended.get(_state_of(retry.message))
        if call is None or not call.is_resumed_by(retry.message):
            self._refuse(retry)
            return
        del self._suspended[call.state]
        if call.is_known:
            self.calls[call.request] = call
        call.resume(retry)

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
            server = self.server_of(message)
            owners = [server] if server in servers else []
            if not owners:
                return False
        return all(servers[owner].shared(asking).era == LEGACY for owner in owners)

    def server_of(self, message: Message) -> str:
        """Return the server that a call is for whose name is in a list, "" if that is not known."""
        kind = METHODS.get(message.method or "", OTHER).kind
        name = message.params.get("name")
        items = self.router.names.named(kind, name) if kind and type(name) is str else []
        return items[0].server if len(items) == 1 else ""

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
            call.cancel(_unenveloped(message))
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
        """Let calls go whose client never came back, and wait no longer for subscriptions."""
        for subscribed in [*self._subscriptions.values()]:
            subscribed.tick(now)
        for state, call in [*self._suspended.items()]:
            if call.deadline <= now:
                self._suspended.pop(state).end()
            else:
                self.router.effects.arm(call.deadline)

    def end_subscriptions(self) -> None:
        """Say of every subscription that it ends."""
        subscriptions, self._subscriptions = self._subscriptions, {}
        for subscribed in subscriptions.values():
            subscribed.finish()

    def owes(self, client: Client) -> bool:
        """Whether a call of a client is still to be answered."""
        return any(asking.connection is client for asking in self.calls)


def _state_of(message: Message) -> str:
    state = message.params.get("requestState")
    return state if type(state) is str else ""


def _unenveloped(notification: Message) -> str:
    """Return the params of a notification without an envelope: some clients put one there too."""
    params = notification.json("params")
    if type(params.value.get("_meta")) is not dict:
        return params.text
    return without_meta(params, ENVELOPE)


def _modern_params(params: str) -> str:
    """Return the params of a child's request to a client as this revision has them.

    It knows neither tasks nor ids of elicitations, and reports no progress of them: of `_meta`
    stays which server asks.
    """
    mark = Json(params).part("_meta", SERVER_MARK)
    add = {"_meta": obj({SERVER_MARK: mark})} if mark else {}
    return edited(params, drop=("_meta", "task", "elicitationId"), add=add)


def _may_be_asked(request: ModernRequest) -> bool:
    """Whether a client may be asked for input before the result of its request."""
    return METHODS.get(request.message.method or "", OTHER).asks


def _visits_urls(request: ModernRequest) -> bool:
    """Whether the client of a request can be asked to have a URL visited."""
    return "url" in parse(request.capabilities.get("elicitation", "{}"))


def _visits(message: Message) -> list[str]:
    """Return the params of the elicitations in an error that requires some, as JSON texts."""
    text = message.raw("error")
    try:
        found = [*elements(text, place_of(text, ("data", "elicitations"))[0])]
    except Malformed:
        return []
    return [text[start:end] for value, start, end in found if type(value) is dict]
