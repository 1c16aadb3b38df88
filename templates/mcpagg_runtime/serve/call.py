"""One call of a client on its way to a child.

Its id and progress token towards the child are minted here and mapped back with their JSON type;
all else of its message passes as the text that it came in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.message import Message
from mcpagg_runtime.serve.editing import spliced
from mcpagg_runtime.serve.effects import FOREVER
from mcpagg_runtime.serve.messages import request
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.base.client import Client
    from mcpagg_runtime.base.jsontext import Span

# A call may take so many times as long as its limit, if its server reports progress.
LONGEST_TIMES = 10
# What stands for the message of a call that was sent: it may be large, and is never sent twice.
_SENT = Message({})


class Call:
    """One request of a client: what it asks for, whom else to ask, and until when."""

    __slots__ = (
        "_latest",
        "_limit",
        "_message",
        "answer",
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

    rewrites = False
    """Whether its result is passed on with something replaced in it."""

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
        self.identifier = message.raw("id")
        """The client's id as JSON text."""
        self.key = message.id
        """The same id as a value."""
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
        """Have `listen` told of the answer, before the client is given it."""
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
        params, text = message.json("params"), message.raw("params")
        changes: list[tuple[Span, str]] = []
        if self.path:
            changes.append((params.place(self.path), quote(self.original)))
        token = params.part("_meta", "progressToken") if "_meta" in params.value else ""
        if token not in ("", "null"):
            self.token = token
            changes.append((params.place(("_meta", "progressToken")), str(number)))
        return request(number, self.method, spliced(text, changes) if changes else text)

    def is_settled_by(self, code: object) -> bool:
        """Whether an error with this code is the answer, so that nobody else is asked."""
        return False

    def succeeded(self, server: str, message: Message) -> Message:
        """Note that a server has answered with a result; return what is passed on."""
        return message

    def failed(self) -> None:
        """Note that the call ends with an error."""
