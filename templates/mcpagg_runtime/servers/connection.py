"""The connection to one child: its port, the requests that it is sent, and what it owes.

A port stands between a peer and the router, which knows one form of messages. The id and progress
token of a client's call are minted here towards the child and mapped back with their JSON type; all
else of its message passes as the text that it came in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, spliced
from mcpagg_runtime.messages.message import Fragment, Message, error, failure, id_text, request
from mcpagg_runtime.messages.protocol import PARSE_ERROR
from mcpagg_runtime.messages.reading import read_line
from mcpagg_runtime.servers.effects import FOREVER
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

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.jsontext import Span
    from mcpagg_runtime.plan.plan import Options
    from mcpagg_runtime.servers.effects import Effects, Peer
    from mcpagg_runtime.servers.masking import Masks

    Received = tuple[list[Message | Fragment], str]

    class ChildPort(Protocol):
        """One life of a child, as it is spoken to."""

        @property
        def is_idle(self) -> bool:
            """Whether it remembers no request of the router."""

        def deliver(self, message: Message) -> None:
            """Take what the router says to the child."""

        def receive(self, message: Message | Fragment) -> None:
            """Take what the child says."""

        def tick(self, now: float) -> None:
            """Do what is due at this time."""


# A call may take so many times as long as its limit, if its server reports progress.
LONGEST_TIMES = 10
# What stands for the message of a call that was sent: it may be large, and is never sent twice.
_SENT = Message({})


class LegacyChildPort:
    """The port of a legacy child: its messages have the form that the router knows."""

    def __init__(
        self, child: Peer, effects: Effects, receive: Callable[[Message | Fragment], None]
    ) -> None:
        """`receive` takes what the child says."""
        self.deliver = effects.sender(child)
        """Sends the child what the router says to it."""
        self.receive = receive

    @property
    def is_idle(self) -> bool:
        """It remembers no request: the connection does."""
        return True

    def tick(self, now: float) -> None:
        """Nothing is ever due here."""


class Call:
    """One request of a client: what it asks for, whom else to ask, and until when."""

    __slots__ = (
        "_latest",
        "_limit",
        "_message",
        "answer",
        "attended",
        "client",
        "deadline",
        "identifier",
        "key",
        "method",
        "name",
        "number",
        "original",
        "others",
        "path",
        "refusal",
        "serial",
        "token",
    )

    def __init__(
        self,
        client: Client,
        message: Message,
        name: str,
        path: tuple[str, ...] = (),
        original: str = "",
    ) -> None:
        self.client = client
        self.answer = client.deliver
        """Takes the answer; see `overhear`."""
        self.method = message.method or ""
        self.identifier = message.id_text
        """The client's id as JSON text."""
        self.key = message.id
        """The same id as a value."""
        self.attended = True
        """Whether its client can be reached meanwhile; see `Core.unattend`."""
        self.name = name
        """What it asks for, as the client named it."""
        self.path = path
        """Leads within params to the member that becomes `original`; () if nothing is replaced."""
        self.original = original
        """The child's own name for what it asks for."""
        self.others: list[Callable[[Call], None]] = []
        """Take the call next, one after the other, as long as it is answered with an error."""
        self.refusal = ""
        """The error, as JSON text, that says most of those that came so far."""
        self.serial = 0
        """Its place among all calls of all clients."""
        self.number = 0
        """The id that its child knows it by, 0 before it was sent."""
        self.token = ""
        """The JSON text of the client's progress token, "" for none."""
        self.deadline = FOREVER
        self._latest = FOREVER
        self._limit = 0.0
        self._message = message

    @property
    def params(self) -> dict[str, Any]:
        """Its parameters, {} once they were sent for good."""
        return self._message.params

    def overhear(self, listen: Callable[[Message], None]) -> None:
        """Have `listen` get the answer beforehand."""
        deliver = self.answer

        def answer(message: Message) -> None:
            listen(message)
            deliver(message)

        self.answer = answer

    def limit(self, seconds: float, now: float) -> float:
        """Let it take no longer than so many seconds; return the deadline."""
        self._limit = seconds
        self._latest = now + LONGEST_TIMES * seconds
        self.deadline = now + seconds
        return self.deadline

    def progressed(self, now: float) -> None:
        """Give a call that makes progress its time anew, LONGEST_TIMES as long in all."""
        if self.deadline < FOREVER:
            self.deadline = min(now + self._limit, self._latest)

    def sent_as(self, number: int) -> Message:
        """Return the request to the child, under an id that was minted for it."""
        self.number = number
        message = self._message
        if not self.others:
            self._message = _SENT
        given = message.params
        if not given:
            return request(number, self.method, message.raw("params"))
        params = message.members["params"]
        changes: list[tuple[Span, str]] = []
        if self.path:
            changes.append((params.place(self.path), quote(self.original)))
        token = params.part("_meta", "progressToken") if "_meta" in given else ""
        if token not in ("", "null"):
            self.token = token
            changes.append((params.place(("_meta", "progressToken")), str(number)))
        text = spliced(params.text, changes) if changes else params.text
        return Message({"params": Json(text)}, self.method, str(number), number)

    def is_settled_by(self, code: object) -> bool:
        """Whether an error with this code is the answer, so that nobody else is asked."""
        return False

    def succeeded(self, server: str, message: Message) -> Message:
        """Note that a server has answered with a result; return what is passed on."""
        return message

    def failed(self) -> None:
        """Note that the call ends with an error."""


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
    """What one child is sent, and what it owes: `calls` of clients, and requests of the `own`.

    Both are known by ids that are minted here. These go on from one life of the child to the next,
    so that nothing of the one can be taken for an answer in the other.
    """

    def __init__(
        self,
        child: Peer,
        receive: Callable[[Message | Fragment], None],
        row: Mapping[str, Any],
        options: Options,
        effects: Effects,
    ) -> None:
        self.child = child
        self.name = child.name
        self.row = row
        """What the launch table has of the child."""
        self.receive = receive
        """Takes what the child says, in the form that the router knows."""
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
        self._legacy = LegacyChildPort(child, effects, receive)
        self.port: ChildPort = self._legacy
        """What stands between the child and the router."""
        self._masks: Masks | None = None
        self.warned = False
        """Whether it was said that the child's lines are odd."""

    def clear(self) -> None:
        """Forget one life."""
        self.calls, self.own = {}, {}
        self.unclear, self.alone = set(), []
        self.unasked = AnsweredNotifications()
        self.port = self._legacy

    def open(self, port: ChildPort | None, masks: Masks | None) -> None:
        """The child has a new life: messages go through `port`, None for that of a legacy child.

        `masks` says what is replaced in them, in both directions.
        """
        self.port = self._legacy if port is None else port
        self._masks = masks

    def send(self, message: Message) -> None:
        """Send the child a message."""
        if not message.id_text:
            self.unasked.told(message.method)
        masked = message if self._masks is None else self._masks.to_child(message)
        self.port.deliver(masked)

    def unmasked(self, message: Message) -> Message:
        """Return a message of the child as clients are to see it."""
        return message if self._masks is None else self._masks.from_child(message)

    def forward(self, call: Call) -> None:
        """Send the child a call."""
        self._last_id = number = self._last_id + 1
        self.calls[number] = call
        self.send(call.sent_as(number))

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
        self.send(request(number, method, params))
        return number

    def ask_alone(self, ask: Callable[[], None]) -> None:
        """Have a request of the own made as soon as no other one is in flight."""
        self.alone.append(ask)

    def ask_next(self) -> None:
        """Make such a request, if it is its turn."""
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

    def answered(self, message: Message) -> bool:
        """Take an answer to a request of the own; return whether it is one."""
        own = self.own.pop(message.number, None)
        if own is None:
            return False
        self.unasked.settled()
        own.finish(message)
        return True

    def ended_by(self, said: Message | Fragment) -> list[Message]:
        """Return what requests in flight are answered with, now that the child has said this.

        It is an answer, or cannot be read; if it is a request, it is refused.
        """
        if isinstance(said, Fragment):
            if said.method and said.id is not None:
                refusal = error(PARSE_ERROR, f"Invalid message: {said.problem}")
                self.send(failure(id_text(said.id), refusal))
            is_unmatched = not said.method
        elif said.number >= FIRST_ID:
            return [said] if said.number in self.owed() else []  # else it is late
        else:
            is_unmatched = said.is_response and not self.unasked.takes(said)
        return self.unmatched(said, self.owed()) if is_unmatched else []

    def unmatched(self, said: Message | Fragment, in_flight: set[int]) -> list[Message]:
        """Return what the requests in flight are answered with; see `unmatched_answers`."""
        answers = unmatched_answers(said, in_flight, self.name)
        if len(answers) > 1:
            self.unclear.update([answer.number for answer in answers])
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
