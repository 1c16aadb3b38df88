"""Calls of clients: what one is, and the queue of those for one child.

A call is one object from when it is routed until it has ended. It is sent once, and answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import extra_of
from mcpagg_runtime.messages.jsontext import Json, members, obj, place_of, rivals, spliced
from mcpagg_runtime.messages.message import Message, error, failure, notification, request
from mcpagg_runtime.messages.protocol import (
    CANCELLED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    METHODS,
    MODERN,
    OTHER,
    PROGRESS,
    REQUEST_TIMEOUT,
    RESOURCE_NOT_FOUND,
)
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.servers.lifecycle import READY
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.lists.catalogue import Catalogue
    from mcpagg_runtime.lists.uris import UriOwners
    from mcpagg_runtime.messages.jsontext import Span
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.instances import Instances

# A call may take so many times as long as its limit, if its server reports progress.
LONGEST_TIMES = 10
# What stands for the message of a call that was sent: it may be large, and is never sent twice.
_SENT = Message({})
# With these a server says that it does not know what it is asked for; some SDKs say 0.
UNKNOWN_CODES = frozenset({RESOURCE_NOT_FOUND, INVALID_PARAMS, METHOD_NOT_FOUND, 0})


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

    @property
    def progress_token(self) -> str:
        """The token that its client gave for progress, "" for none, as JSON text.

        Whoever has resumed a call may want it under another token, or none.
        """
        return self.client.token if self.client.is_modern else self.token

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
        return self.client.repeats or self._message.members["params"].stands_twice("_meta")

    def extra(self) -> Mapping[str, str]:
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
        if not given and not meta:
            return request(self.number, self.method, message.raw("params"))
        params = message.json("params")
        changes: list[tuple[Span, str]] = []
        if self.path:
            changes.append((params.place(self.path), quote(self.original)))
        if meta is None:
            if self.token:
                changes.append((params.place(("_meta", "progressToken")), number))
        elif meta and given and "_meta" not in given:
            end = params.text.rindex("}")
            changes.append(((end, end), f',"_meta":{meta}'))
        elif meta and given and not params.stands_twice("_meta"):
            changes.append((params.place(("_meta",)), meta))
        else:
            add = {}
            if self.path:
                add[self.path[0]] = self._renamed(params)
            add.update({"_meta": meta} if meta else {})
            params = params.edited(() if meta else ("_meta",), add)
            changes = []
        new = Json(spliced(params.text, changes)) if changes else params
        return Message({"params": new}, self.method, number, self.number)

    def _renamed(self, params: Json) -> str:
        """Return the member of params that says what it is for, with the child's own name in it."""
        head, *inner = self.path
        if not inner:
            return quote(self.original)
        part = params.part(head)
        return spliced(part, [(place_of(part, (*inner,)), quote(self.original))])

    def is_settled_by(self, code: object) -> bool:
        """Whether an error with this code is the answer, so that nobody else is asked."""
        return False

    def succeeded(self, server: str) -> None:
        """Note that a server has answered with a result."""

    def failed(self) -> None:
        """Note that the call ends with an error."""


class CallQueue:
    """The calls for one child, from the moment that they are routed to it until they end.

    Under `refuse` they wait until the child's lists have been compared; for other calls they wait
    where it would not be known any more whom a request of the child is for.
    """

    def __init__(
        self,
        child: Child,
        catalogues: Mapping[str, Catalogue],
        origins: UriOwners,
        instances: Instances,
    ) -> None:
        self._connection = connection = child.connection
        self._effects = connection.effects
        self._lifecycle = child.lifecycle
        self._requests = child.requests
        self._lists = child.lists
        self._catalogues = catalogues
        self._origins = origins
        self._instances = instances
        self._guarded = connection.options.is_guarded
        self._may_sleep = bool(connection.options.idle_stop)
        """Whether the child is ended when it has had nothing to do for long enough."""
        self.seconds = connection.row.get("timeout") or connection.options.timeout
        """How many seconds a call may take, 0 or None for any number."""
        self._waiting: list[Call] = []
        """Those that are to be sent as soon as the child can take them."""
        self._unknown: list[Call] = []
        """Those for a tool that the child may have got since the snapshot."""

    @property
    def any_waits(self) -> bool:
        """Whether a call waits for the child."""
        return bool(self._waiting or self._unknown)

    def all(self) -> list[Call]:
        """Return all calls that the child still owes an answer to."""
        return [*self._connection.calls.values(), *self._waiting, *self._unknown]

    def of(self, client: Client) -> list[Call]:
        """Return those of a client."""
        return [call for call in self.all() if call.client is client]

    # From the client to the child

    def limit(self, call: Call) -> None:
        """Give a call the time that the config gives calls of this child, its start included."""
        if self.seconds:
            self._effects.arm(call.limit(self.seconds, self._effects.clock()))

    def submit(self, call: Call) -> None:
        """Have a call reach the child, started or not; refuse it if the child is down for good."""
        if self._lifecycle.state != READY:
            if self._lifecycle.is_down_for_good:
                self._refused(call, self._connection.gone(self._lifecycle.reason))
                return
            self._lifecycle.want(call.client)
            self._effects.starts_due = True
            self._waiting.append(call)
        elif self._guarded:
            self._waiting.append(call)
            self.flush()
        else:
            self._send([call])  # those that wait are no nearer to their turn

    def submit_unknown(self, call: Call) -> None:
        """Have a call wait until the child has listed its tools."""
        self._unknown.append(call)
        self._lifecycle.want(call.client)
        self._effects.starts_due = True

    def settle_unknown(self) -> None:
        """Send on, or refuse, the calls that waited for the list of tools."""
        unknown, self._unknown = self._unknown, []
        for call in unknown:
            tool = self._catalogues["tools"].find(call.name)
            if tool is not None and tool.server == self._connection.name:
                call.original = tool.original
                self._waiting.append(call)
            else:
                self._refuse(call, tool_not_found(call.name))

    def flush(self) -> None:
        """Send the child what it can take, calls under `refuse` not before its lists are known."""
        if self._lifecycle.state != READY:
            return
        requests = self._requests
        if requests.held:
            requests.settle()
        if self._guarded and not self._lists.compared:
            self._give_up_waiting()
            return
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._send(waiting)

    def _send(self, calls: list[Call]) -> None:
        """Send the child those calls that need not wait for others, and keep the rest."""
        requests = self._requests
        for call in calls:
            if self._guarded and self._is_withheld(call):
                continue
            # A modern server asks in the answer to a call: no other one has to wait for that.
            if self._lifecycle.era == MODERN or not requests.holds_back(call):
                self._forward(call)
                continue
            instance = self._instances.serving(call.client)
            if instance is self._connection.child:
                self._waiting.append(call)
            else:  # the child has asked something since the call came
                instance.calls.submit(call)

    def _give_up_waiting(self) -> None:
        """Fail the calls that waited long enough for lists that cannot be compared."""
        for kind in self._lists.given_up(self._effects.clock()):
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                what = f"its list of {kind.name}"
                self.fail(call, f"changes {what} too often to compare it with the snapshot")

    def _is_withheld(self, call: Call) -> bool:
        """Refuse a call for what is withheld, or no longer served: it may have waited."""
        by_uri = call.path[-1:] == ("uri",)
        reason = self._lists.withheld(call.method, call.original if by_uri else call.name)
        if reason is not None:
            self.fail(call, reason)
            return True
        if call.path != ("name",):
            return False
        item = self._catalogues[METHODS[call.method].kind].find(call.name)
        if item is None or item.server != self._connection.name:
            self._refuse(call, tool_not_found(call.name))
            return True
        return False

    def _forward(self, call: Call) -> None:
        """Send a call, and ask its client what the child wanted to know before there was one."""
        if self._may_sleep:
            self._lifecycle.touch()
        self._connection.forward(call)
        if call.client.capabilities:
            self._requests.sent(call)
        if self._requests.deferred.waiting and METHODS.get(call.method, OTHER).kind:
            self._requests.ask_deferred(call.client)

    # From the child to the client

    def answered(self, call: Call, message: Message) -> None:
        """Pass the child's answer on to the client that asked, or ask the next child."""
        connection = self._connection
        if self._may_sleep:
            self._lifecycle.touch()
        if call is self._requests.first_calls.alone:
            self._requests.first_calls.end()
        if message.is_error:
            del connection.calls[call.number]
            if call.is_settled_by(message.code):
                call.others, call.refusal = [], ""
            self._refused(call, message.raw("error"), unknown=message.code in UNKNOWN_CODES)
        else:
            if self._origins.are_asked_for:
                message = self._origins.note_result(message, connection.name)
            call.succeeded(connection.name)
            call.answer(message.under(call.identifier))
            del connection.calls[call.number]
        if self._waiting or self._requests.held:
            self.flush()

    def _refused(self, call: Call, refusal: str, *, unknown: bool = False) -> None:
        """Ask the next child, or answer with the error that says most: `unknown` says least."""
        if not call.refusal or not unknown:
            call.refusal = refusal
        if call.others:
            call.others.pop(0)(call)
            return
        call.failed()
        self._refuse(call, call.refusal)

    def progress(self, message: Message) -> None:
        """Pass progress on to the client whose call it is about, under the client's own token."""
        token = message.params.get("progressToken")
        call = self._connection.calls.get(token) if type(token) is int else None
        if call is not None and call.token:
            call.progressed(self._effects.clock())
            known = call.progress_token
            if not known:
                return
            params = message.json("params")
            if rivals(params.value, ("progressToken",)):
                text = params.owned({"progressToken": known}).text
            else:
                text = spliced(params.text, [(params.place(("progressToken",)), known)])
            call.client.deliver(notification(PROGRESS, text))

    # Calls that end otherwise

    def withdraw(self, call: Call, params: Callable[[str], str]) -> None:
        """Take a call back from the child; `params` makes those of the cancellation from its id."""
        for line in (self._waiting, self._unknown):
            if call in line:
                line.remove(call)
                self._lists["tools"].is_awaited = bool(self._unknown)
                return
        if self._connection.calls.pop(call.number, None) is not None:
            self._requests.taken_back(call)
            self._connection.send(notification(CANCELLED, params(str(call.number))))

    def time_out(self, now: float) -> None:
        """Fail the calls whose time is up, and tell the child."""
        for call in [call for call in self.all() if call.deadline <= now]:
            self._time_out(call)
        for call in self.all():
            if call.deadline < FOREVER:
                self._effects.arm(call.deadline)

    def _time_out(self, call: Call) -> None:
        self.withdraw(call, lambda number: obj(requestId=number, reason='"timed out"'))
        reason = f"Server '{self._connection.name}' did not answer in time"
        # What the client was asked in the middle of the call is taken back first.
        self._effects.later(lambda: self._refuse(call, error(REQUEST_TIMEOUT, reason)))

    def abandon(self, reason: str) -> None:
        """Fail all calls, since their child is gone, or ask the next child."""
        calls, self._waiting, self._unknown = self.all(), [], []
        self._connection.calls = {}
        for call in calls:
            self._refused(call, self._connection.gone(reason))

    def fail(self, call: Call, reason: str) -> None:
        """Answer a call that the child will not answer, naming the child and the reason."""
        self._refuse(call, self._connection.gone(reason))

    def _refuse(self, call: Call, refusal: str) -> None:
        """Answer a call with an error of the proxy's own, as JSON text."""
        call.answer(failure(call.identifier, refusal))


def tool_not_found(name: str) -> str:
    """Return the error for a prefixed name, or one of a server's tools, that nobody has."""
    return error(METHOD_NOT_FOUND, f"Tool not found: {name}")


def tool_of_nobody(name: str) -> str:
    """Return the error for a name without the prefix of a server."""
    return error(INVALID_PARAMS, f"Tool name must be prefixed with server key: {name}")
