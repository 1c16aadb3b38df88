"""The connection to one child: its port, the requests that it is sent, and what it owes.

A port knows one revision: it makes requests of calls, and events of what the child says. The id and
progress token of a client's call are minted here towards the child and mapped back with their JSON
type; all else of its message passes as the text that it came in.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import (
    Fragment,
    Message,
    error,
    failure,
    id_text,
    notification,
    read_line,
    request,
    result,
)
from mcpagg_runtime.messages.protocol import INITIALIZED, PARSE_ERROR
from mcpagg_runtime.servers.effects import FOREVER, SEND
from mcpagg_runtime.servers.unmatched import (
    FIRST_ID,
    AnsweredNotifications,
    failure_of,
    unmatched_answers,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from mcpagg_runtime.plan.plan import Options
    from mcpagg_runtime.servers.calls import Call
    from mcpagg_runtime.servers.effects import Effects, Peer
    from mcpagg_runtime.servers.masking import Masks

    Received = tuple[list[Message | Fragment], str]

    class ChildEvents(Protocol):
        """Takes what a child says, whichever revision it speaks."""

        def answered(self, number: int, message: Message) -> None:
            """It has answered the request with this id, which may have been taken back."""

        def asks(self, call: Call | None, message: Message) -> None:
            """It asks a client something in a call; None if it does not say in which."""

        def notifies(self, message: Message) -> None:
            """It says something that is no answer."""

    class ChildPort(Protocol):
        """One run of a child, as the proxy addresses it."""

        @property
        def is_idle(self) -> bool:
            """Whether it remembers no request."""

        def compose(self, call: Call) -> Message | None:
            """Return the request that a call is to the child, None if it is done otherwise."""

        def introduce(self, params: str, finish: Callable[[Message], None]) -> None:
            """Ask the child who it is; `params` are those of `initialize`, as is the answer."""

        def begin(self) -> None:
            """It has introduced itself: subscribe to what it reports outside of calls."""

        def ask(self, number: int, method: str, params: str) -> None:
            """Make a request of the proxy's own."""

        def set_level(self, level: str) -> None:
            """Have it log from this level on."""

        def watch(self, uri: str) -> None:
            """Subscribe to updates of a resource."""

        def unwatch(self, uri: str) -> None:
            """Unsubscribe from updates of a resource."""

        def deliver(self, message: Message) -> None:
            """Take an answer of a client, a cancellation, or another notification."""

        def receive(self, message: Message | Fragment) -> None:
            """Take a message of the child."""

        def tick(self, now: float) -> None:
            """Do what is due at this time."""


class LegacyChildPort:
    """The port of a legacy child."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._events = connection.events
        self.deliver = partial(connection.effects.send, connection.child)

    def introduce(self, params: str, finish: Callable[[Message], None]) -> None:
        """Shake hands."""
        self._connection.ask("initialize", params, finish, deadline=FOREVER)

    def begin(self) -> None:
        """Tell it that the handshake is over."""
        self._connection.send(notification(INITIALIZED))

    def ask(self, number: int, method: str, params: str) -> None:
        """Make a request of the proxy's own."""
        self.deliver(request(number, method, params))

    def set_level(self, level: str) -> None:
        """Have it log from this level on."""
        self._connection.ask("logging/setLevel", obj(level=quote(level)))

    def watch(self, uri: str) -> None:
        """Subscribe to updates of a resource."""
        self._connection.ask("resources/subscribe", obj(uri=quote(uri)))

    def unwatch(self, uri: str) -> None:
        """Unsubscribe from updates of a resource."""
        self._connection.ask("resources/unsubscribe", obj(uri=quote(uri)))

    def compose(self, call: Call) -> Message:
        """Return the request that a call is to the child: without what says who asks."""
        if not call.client.is_modern:
            return call.request()
        meta = call.extra()
        if call.token:
            meta = {**meta, "progressToken": str(call.number)}
        return call.request(obj(meta) if meta else "")

    def receive(self, message: Message | Fragment) -> None:
        """Take a message of the child, or what is left of one."""
        connection, number = self._connection, message.number
        if isinstance(message, Fragment):
            connection.warn(message.problem)
        elif message.method is not None:
            if message.id_text:
                self._events.asks(None, message)
            else:
                self._events.notifies(message)
            return
        elif number >= FIRST_ID:
            self._answered(number, message)
            return
        for answer in connection.ended_by(message):
            self._answered(answer.number, answer)

    def _answered(self, number: int, message: Message) -> None:
        connection = self._connection
        call = connection.calls.get(number)
        if call is not None:
            if connection.unasked.unanswered:
                connection.unasked.settled()
            if call.client.is_modern:
                message = _unasking(message)
        self._events.answered(number, message)

    @property
    def is_idle(self) -> bool:
        """It remembers no request: the connection does."""
        return True

    def tick(self, now: float) -> None:
        """Nothing is ever due here."""


def _unasking(answer: Message) -> Message:
    """Return an answer without what asks something in the modern revision alone.

    A legacy server asks by requests of its own, which say who asks.
    """
    said = answer.members.get("result")
    if said is None or type(said.value) is not dict:
        return answer
    if said.value.get("resultType", "complete") == "complete":
        return answer
    plain = said.edited(drop=("resultType", "inputRequests", "requestState"))
    return result(answer.id_text, plain)


class OwnRequest:
    """One request of the proxy itself to a child: its handshake, a page of a list, a level."""

    __slots__ = ("deadline", "finish", "prepare")

    def __init__(
        self,
        finish: Callable[[Message], None],
        prepare: Callable[[Message], None],
        deadline: float,
    ) -> None:
        self.finish = finish
        """Takes the answer."""
        self.prepare = prepare
        """Does with the answer what takes long; no lock is held, so it must change nothing else."""
        self.deadline = deadline
        """When nobody waits any more for an answer that matters little."""


class Connection:
    """The requests in flight to one child: `calls` of clients, and the proxy's `own`.

    Both are known by ids that are minted here. These go on from one life of the child to the next,
    so that nothing of the one can be taken for an answer in the other.
    """

    def __init__(
        self,
        child: Peer,
        events: ChildEvents,
        row: Mapping[str, Any],
        options: Options,
        effects: Effects,
    ) -> None:
        self.child = child
        self.name = child.name
        self.row = row
        """What the launch table has of the child."""
        self.events = events
        self.options = options
        self.effects = effects
        self.calls: dict[int, Call] = {}
        self.own: dict[int, OwnRequest] = {}
        self.unclear: set[int] = set()
        """The ids of requests that an answer has ended which may be to another one."""
        self.alone: list[Callable[[], None]] = []
        """Each makes a request of the own, once no other one is in flight."""
        self.unasked = AnsweredNotifications()
        self._last_id = FIRST_ID - 1
        self._legacy = LegacyChildPort(self)
        self.port: ChildPort = self._legacy
        """The edge to the child in its revision."""
        self.masks: Masks | None = None
        self.warned = False
        """Whether a line that is not valid JSON-RPC has been reported."""

    def clear(self) -> None:
        """Reset the state of one run."""
        self.calls, self.own = {}, {}
        self.unclear, self.alone = set(), []
        self.unasked = AnsweredNotifications()
        self.port = self._legacy

    def open(self, port: ChildPort | None, masks: Masks | None) -> None:
        """The child has a new life: messages go through `port`, None for that of a legacy child.

        `masks` says what is replaced in them, in both directions.
        """
        self.port = self._legacy if port is None else port
        self.masks = masks

    def send(self, message: Message) -> None:
        """Send the child an answer or a notification."""
        if not message.id_text:
            self.unasked.sent(message.method)
        self.port.deliver(message)

    def unmasked(self, message: Message) -> Message:
        """Return a message of the child as clients are to see it."""
        return message if self.masks is None else self.masks.from_child(message)

    def forward(self, call: Call) -> None:
        """Send the child a call."""
        self._last_id = number = self._last_id + 1
        self.calls[number] = call
        call.number = number
        message = self.port.compose(call)
        if message is not None:
            self.transmit(message)

    def transmit(self, message: Message) -> None:
        """Send the child a message that has its form."""
        masked = message if self.masks is None else self.masks.to_child(message)
        self.effects.actions.append((SEND, self.child, masked))

    def mint(self) -> int:
        """Return an id for a request to the child."""
        self._last_id += 1
        return self._last_id

    def ask(
        self,
        method: str,
        params: str,
        finish: Callable[[Message], None] = lambda message: None,
        *,
        prepare: Callable[[Message], None] = lambda message: None,
        deadline: float | None = None,
    ) -> int:
        """Send the child a request of the proxy's own; return its id.

        It is given up in due time, unless whoever asks has a `deadline` of its own.
        """
        number = self.mint()
        if deadline is None:
            deadline = self.effects.clock() + self.options.connect_timeout
        self.own[number] = OwnRequest(finish, prepare, self.effects.arm(deadline))
        self.port.ask(number, method, params)
        return number

    def ask_next(self) -> None:
        """Make a request that is to be alone, if it is its turn."""
        while self.alone and not self.owed():
            self.alone.pop(0)()

    def read(self, line: bytes, redact: Callable[[str], str], request: int = 0) -> Received:
        """Read a line of the child, for the port; the lock need not be held.

        What takes long about it is done here: nothing of it depends on what others do. `redact`
        hides secrets in what is odd about the line; `request` is what it answers, if that is known.
        """
        # Only the first odd line is shown; no other one is searched for secrets.
        received = read_line(line, str if self.warned else redact, request)
        for message in received[0] if self.own else ():
            if isinstance(message, Message) and message.method is None and not message.is_error:
                own = self.own.get(message.number)
                if own is not None:
                    own.prepare(message)
        return received

    def give_up(self, now: float) -> None:
        """Wait no longer for those answers that are due."""
        for number, own in [*self.own.items()]:
            if own.deadline <= now:
                del self.own[number]
            elif own.deadline < FOREVER:
                self.effects.arm(own.deadline)

    def owed(self) -> set[int]:
        """Return the ids of all requests in flight."""
        return {*self.own, *self.calls}

    def answered(self, number: int, message: Message) -> bool:
        """Take an answer to a request of the own; return whether it is one."""
        own = self.own.pop(number, None)
        if own is None:
            return False
        self.unasked.settled()
        own.finish(message)
        self.unclear.discard(number)
        return True

    def ended_by(self, said: Message | Fragment) -> list[Message]:
        """Return the answers that this message of the child gives to requests in flight.

        It is an answer without an id of ours, or cannot be read; if it is a request, it is refused.
        """
        if isinstance(said, Fragment):
            if said.method and said.id is not None:
                refusal = error(PARSE_ERROR, f"Invalid message: {said.problem}")
                self.send(failure(id_text(said.id), refusal))
            is_unmatched = not said.method
        else:
            is_unmatched = said.is_response and not self.unasked.takes(said)
        return self.unmatched(said, self.owed()) if is_unmatched else []

    def unmatched(self, said: Message | Fragment, in_flight: set[int]) -> list[Message]:
        """Return what the requests in flight are answered with; see `unmatched_answers`."""
        answers = unmatched_answers(said, in_flight, self.name)
        if len(answers) > 1:
            self.unclear.update(self.own.keys() & {answer.number for answer in answers})
        return answers

    def say(self, text: str) -> None:
        """Write a line about the child on standard error."""
        self.effects.say(f"server '{self.name}' {text}")

    def warn(self, oddity: str) -> None:
        """Say what is odd about the child's lines, "" for nothing; once."""
        if oddity and not self.warned:
            self.warned = True
            self.say(f"wrote something else than JSON-RPC: {oddity}")

    def gone(self, reason: str) -> str:
        """Return the error for what the child will not answer, naming it and the reason."""
        return failure_of(self.name, reason)
