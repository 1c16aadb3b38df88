"""One call: what is asked, by whom, of which server, and until when; it is answered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import ModernRequest, extra_of
from mcpagg_runtime.messages.jsontext import Json, members, place_of, spliced
from mcpagg_runtime.messages.message import Message, request
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.jsontext import Span

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
        self.token = client.token
        """The JSON text of the client's progress token, "" for none."""
        if type(message.params.get("_meta")) is dict and not client.is_modern:
            given = message.members["params"].part("_meta", "progressToken")
            self.token = given if given != "null" else ""
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

    @property
    def is_ambiguous(self) -> bool:
        """Whether its `_meta`, or a member of that, stands twice."""
        if isinstance(self.client, ModernRequest) and self.client.repeats:
            return True
        return self._message.members["params"].stands_twice("_meta")

    def extra(self) -> dict[str, str]:
        """Return {name: JSON text} of what its `_meta` has beside who asks and a progress token."""
        if self.client.is_modern:
            return self.client.extra
        params = self._message.json("params")
        if type(params.value.get("_meta")) is not dict:
            return {}
        text = params.part("_meta")
        return extra_of(text, members(text)[0])

    def request(self, meta: str | None = None) -> Message:
        """Return the request to its child; where nobody else is to be asked, it is kept no longer.

        `meta` is the JSON text of another `_meta`, "" for none, None for the client's own, in which
        only the progress token is another one.
        """
        message, number = self._message, str(self.number)
        if not self.others:
            self._message = _SENT
        given = message.params
        changes: list[tuple[Span, str]] = []
        if not given and not meta:
            return request(self.number, self.method, message.raw("params"))
        params = message.json("params")
        if self.path:
            changes.append((params.place(self.path), quote(self.original)))
        if meta is None and self.token:
            changes.append((params.place(("_meta", "progressToken")), number))
        if meta and "_meta" in given and not params.stands_twice("_meta"):
            changes.append((params.place(("_meta",)), meta))
        elif meta is not None:
            head = self.path[:1]
            params = params.edited(
                () if meta else ("_meta",),
                {
                    **{name: self._renamed(params.part(name)) for name in head},
                    **({"_meta": meta} if meta else {}),
                },
            )
            changes = []
        new = Json(spliced(params.text, changes)) if changes else params
        return Message({"params": new}, self.method, number, self.number)

    def _renamed(self, part: str) -> str:
        """Return the member of params that says what it is for, with the child's own name in it."""
        if len(self.path) == 1:
            return quote(self.original)
        return spliced(part, [(place_of(part, self.path[1:]), quote(self.original))])

    def is_settled_by(self, code: object) -> bool:
        """Whether an error with this code is the answer, so that nobody else is asked."""
        return False

    def succeeded(self, server: str, message: Message) -> Message:
        """Note that a server has answered with a result; return what is passed on."""
        return message

    def failed(self) -> None:
        """Note that the call ends with an error."""
