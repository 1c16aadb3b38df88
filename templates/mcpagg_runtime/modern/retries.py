"""What a modern client is asked in the middle of its call, and the retry that has the answers.

The call is answered by a result that says what input is required, and is suspended until its client
makes it again. https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.lists.values import same
from mcpagg_runtime.messages.jsontext import Json, Malformed, edited, elements, obj, parse, place_of
from mcpagg_runtime.messages.message import error, failure, request, result
from mcpagg_runtime.messages.protocol import METHOD_NOT_FOUND, METHODS, OTHER, SERVER_MARK
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.servers.open_requests import inability
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.clients.client import ModernRequest
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.modern.client import PendingCall
    from mcpagg_runtime.servers.effects import Effects

# How the request states start that are ours.
STATE_MARK = "mcpagg:"
# How long a client may take to answer, and how many calls may wait for such answers.
SUSPENDED_SECONDS = 600.0
MAXIMUM_SUSPENDED = 1000


class RequiredInput:
    """What the client of one call is to answer before that, and the call while it is suspended."""

    def __init__(self, call: PendingCall, suspended: SuspendedCalls) -> None:
        self.call = call
        self._suspended = suspended
        self.state = ""
        """The request state by which the client resumes the call, "" before it was suspended."""
        self.deadline = FOREVER
        """When the suspended call is given up."""
        self.asked: dict[int, tuple[str, str]] = {}
        """{id of a request to the client: (method, params)}."""
        self.outcome: Message | None = None
        """What ended the call while it was suspended."""

    def ask(self, message: Message) -> None:
        """A child asks the client something."""
        number, call = message.number, self.call
        if not _may_be_asked(call):
            refusal = error(METHOD_NOT_FOUND, f"Method not found: {message.method}")
            refused = failure(str(number), refusal)
            call.router.effects.later(lambda: call.router.reply(call, refused))
            return
        if call.identifier and not self.asked:
            call.router.effects.later(self._suspend_if_asked)  # with all that one event asks
        self.asked[number] = message.method or "", _modern_params(message.params_text)

    def _suspend_if_asked(self) -> None:
        """Suspend a call that is to be answered, and whose client is still asked something."""
        if self.asked and self.call.is_open:
            self._suspend()

    def ask_visits(self, message: Message) -> bool:
        """Ask the client to visit the URLs that an error names; then it makes its call again."""
        asking, router = self.call, self.call.router
        if not _may_be_asked(asking) or not _visits_urls(asking):
            return False
        server, speakers = router.names.server_of(asking.message), router.clients.speakers
        for number, params in enumerate(_visits(message)):
            asked = params
            if server:
                asked = speakers.asked("elicitation/create", Json(params), server)
            self.asked[-1 - number] = "elicitation/create", _modern_params(asked)
        if self.asked:
            self._suspend()
        return bool(self.asked)

    def _suspend(self) -> None:
        """Answer the call with the input that it requires; the client resumes it with that."""
        call = self.call
        self.state, self.deadline = self._suspended.add(self)
        asked = {
            str(number): obj(method=quote(method), params=params)
            for number, (method, params) in self.asked.items()
        }
        text = obj(
            resultType='"input_required"',
            requestState=quote(self.state),
            inputRequests=obj(asked),
            _meta=call.router.plan.signature,
        )
        identifier, call.identifier = call.identifier, ""
        call.connection.deliver(result(identifier, text))

    def is_met_by(self, retry: Message) -> bool:
        """Whether a request is the same call: same method, same params but for the answers."""
        own = ("_meta", "requestState", "inputResponses")
        call = self.call.message
        first, second = ({n: v for n, v in m.params.items() if n not in own} for m in (call, retry))
        return call.method == retry.method and same(first, second)

    def resume(self, retry: ModernRequest) -> bool:
        """Go on, with the answers that the client brings; return False if nothing is under way."""
        call, router = self.call, self.call.router
        call.resume(retry.connection, retry.message)
        for number, text in self._answers():
            del self.asked[number]
            if call.is_known:
                router.reply(call, result(str(number), text))
        if self.outcome is not None:
            # It has ended, whatever is still asked: nobody waits for that any more.
            self.asked = {}
            outcome, self.outcome = self.outcome, None
            call.deliver(outcome)
            return True
        self._refuse_undeclared()
        if self.asked:
            self._suspend()
            return True
        return call.is_known

    def _refuse_undeclared(self) -> None:
        """Ask nothing more of what the latest request does not declare, which speaks for itself."""
        call = self.call
        for number, (method, params) in [*self.asked.items()]:
            refusal = inability(call, request(number, method, params))
            if refusal:
                del self.asked[number]
                if call.is_known:
                    call.router.reply(call, failure(str(number), refusal))

    def _answers(self) -> list[tuple[int, str]]:
        """Return what the client answers of what it was asked: (id of the request, JSON text)."""
        params = self.call.message.json("params")
        given = params.value.get("inputResponses")
        if type(given) is not dict:
            return []
        answered = [number for number in self.asked if type(given.get(str(number))) is dict]
        return [(number, params.part("inputResponses", str(number))) for number in answered]


class SuspendedCalls:
    """The calls whose client is to answer, by request state."""

    def __init__(self, effects: Effects, mint: Callable[[], str]) -> None:
        """`mint` returns a text that nobody can guess."""
        self._effects = effects
        self._mint = mint
        self._mark = f"{STATE_MARK}{mint()}:"
        """Tells our request states from those of a child, which may be a proxy like this one."""
        self._waiting: dict[str, RequiredInput] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no call waits."""
        return not self._waiting

    def add(self, required: RequiredInput) -> tuple[str, float]:
        """Have a call wait; return the state by which its client resumes it, and until when."""
        required.call.suspend()
        if len(self._waiting) == MAXIMUM_SUSPENDED:
            oldest = self._waiting.pop(next(iter(self._waiting)))
            self._effects.later(oldest.call.end)
        state = self._mark + self._mint()
        self._waiting[state] = required
        return state, self._effects.arm(self._effects.clock() + SUSPENDED_SECONDS)

    def is_ours(self, message: Message) -> bool:
        """Whether a request resumes a call that was suspended here."""
        return _state_of(message).startswith(self._mark)

    def take(self, retry: Message) -> RequiredInput | None:
        """Return what a request resumes, which waits no longer; None if it resumes nothing."""
        required = self._waiting.get(_state_of(retry))
        if required is None or not required.is_met_by(retry):
            return None
        return self._waiting.pop(required.state)

    def tick(self, now: float) -> None:
        """Let calls go whose client never came back."""
        for state, required in [*self._waiting.items()]:
            if required.deadline <= now:
                self._waiting.pop(state).call.end()
            else:
                self._effects.arm(required.deadline)


def _state_of(message: Message) -> str:
    state = message.params.get("requestState")
    return state if type(state) is str else ""


def _modern_params(params: str) -> str:
    """Return the params of a child's request to a client as this revision has them.

    It knows neither tasks nor ids of elicitations, and reports no progress of them: of `_meta`
    stays which server asks.
    """
    mark = Json(params).part("_meta", SERVER_MARK)
    add = {"_meta": obj({SERVER_MARK: mark})} if mark else {}
    return edited(params, drop=("_meta", "task", "elicitationId"), add=add)


def _may_be_asked(asking: ModernRequest) -> bool:
    """Whether a client may be asked for input before the result of its request."""
    return METHODS.get(asking.message.method or "", OTHER).asks


def _visits_urls(asking: ModernRequest) -> bool:
    """Whether the client of a request can be asked to have a URL visited."""
    return "url" in parse(asking.capabilities.get("elicitation", "{}"))


def _visits(message: Message) -> list[str]:
    """Return the params of the elicitations in an error that requires some, as JSON texts."""
    text = message.raw("error")
    try:
        found = [*elements(text, place_of(text, ("data", "elicitations"))[0])]
    except Malformed:
        return []
    return [text[start:end] for value, start, end in found if type(value) is dict]
