"""Requests and notifications on their way between clients and children.

Ids and progress tokens towards a child are minted here and mapped back with their JSON type; all
else of a message passes as the text that it came in. A call is sent once, and answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.core import Core
from mcpagg_runtime.peers import FOREVER, Call, Child, Question
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Message,
    error,
    failure,
    is_id,
    members,
    notification,
    quote,
    request,
    result,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.client import Client
    from mcpagg_runtime.wire import Span

REQUEST_TIMEOUT = -32001  # the SDKs' own code for it

# What a child may ask a client, and the capability that the client must have declared for it.
QUESTIONS = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
# Those that mean one call; a list of roots means the client as a whole.
ATTRIBUTED = ("sampling/createMessage", "elicitation/create")

# What stands for the message of a call that was sent: it may be large, and is never sent twice.
_SENT = Message("", {})


class Calls(Core):
    """Forwards calls to children that are up, and what comes back to the client that asked."""

    def _forward(self, child: Child, call: Call) -> None:
        """Send a client's call to its child, under the child's own name for what it asks for."""
        message = call.message
        if not call.others:
            call.message = _SENT
        child.next_id += 1
        call.child_id = child.next_id
        child.calls[call.child_id] = call
        child.active_at = self.clock()
        changes: list[tuple[Span, str]] = []
        if call.path:
            changes.append((_span(message, call.path), quote(call.original)))
        token = _span(message, ("_meta", "progressToken"))
        if token[1] and message.text[slice(*token)] != "null":
            call.token = message.text[slice(*token)]
            changes.append((token, str(call.child_id)))
        params = message.spliced_params(changes) if "params" in message.members else ""
        self._send(child, request(call.child_id, message.method or "", params))

    def _answered(self, call: Call, message: Message) -> None:
        """Pass a child's answer on to the client that asked, or ask the next child."""
        call.child.active_at = self.clock()
        if call.others and is_error(message):
            call.child = call.others.pop(0)
            self._submit(call)
            return
        self._forget(call)
        self._send(call.client, _answer(call.identifier, message))

    def _accept(self, call: Call) -> None:
        """Owe a client the answer to a call, in due time: a start of its child included."""
        call.client.calls.append(call)
        limit = call.child.row.get("timeout") or self.plan.options.get("timeout")
        if limit:
            call.deadline = self._arm(self.clock() + limit)

    def _submit(self, call: Call) -> None:
        """See that a call reaches its child; the room of lifecycles knows how."""
        raise NotImplementedError

    def _flush(self, child: Child) -> None:
        """Send a child the calls that waited, if they may go; the room of drift knows when."""
        raise NotImplementedError

    def _must_wait(self, call: Call) -> bool:
        """Whether a call must wait for one of another client to end.

        What a child asks says not for which call. One that asks is given the calls of one client
        at a time, so that it is certain who is asked.
        """
        child = call.child
        return child.asks and any(one.client is not call.client for one in child.calls.values())

    def _cancel(self, client: Client, message: Message) -> None:
        """Stop a call that its client no longer wants; nobody gets an answer to it."""
        call = _latest(client.calls, message.params.get("requestId"))
        if call is not None:
            client.calls.remove(call)
            self._withdraw(call, lambda number: _replaced(message, "requestId", number))

    def _withdraw(self, call: Call, params: Callable[[str], str]) -> None:
        """Take a call back from its child; `params` makes those of the cancellation from its id."""
        child = call.child
        for line in (child.waiting, child.unknown):
            if call in line:
                line.remove(call)
                return
        if child.calls.pop(call.child_id, None) is not None:
            self._send(child, notification("notifications/cancelled", params(str(call.child_id))))
            self._flush(child)

    def _time_out(self, child: Child, now: float) -> None:
        """Fail the calls whose time is up, and tell the child to stop working on them."""
        under_way = [*child.calls.values(), *child.waiting, *child.unknown]
        for call in [call for call in under_way if call.deadline <= now]:
            self._withdraw(call, lambda number: f'{{"requestId":{number},"reason":"timed out"}}')
            reason = f"Server '{child.name}' did not answer in time"
            self._refuse(call, error(REQUEST_TIMEOUT, reason))
        for call in [*child.calls.values(), *child.waiting, *child.unknown]:
            if call.deadline < FOREVER:
                self._arm(call.deadline)

    def _progress(self, child: Child, message: Message) -> None:
        """Pass progress on to the client whose call it is about, under the client's own token."""
        token = message.params.get("progressToken")
        call = child.calls.get(token) if type(token) is int else None
        if call is not None and call.token:
            params = _replaced(message, "progressToken", call.token)
            self._send(call.client, notification("notifications/progress", params))

    def _question(self, child: Child, message: Message) -> None:
        """Answer what a child asks, or ask the client that it works for."""
        if message.method == "ping":
            self._send(child, result(message.raw("id"), "{}"))
            return
        if message.method in ATTRIBUTED:
            child.asks = True
        self._ask_client(self._asked(child, message.method or ""), child, message)

    def _ask_client(self, client: Client | None, child: Child, message: Message) -> None:
        """Pass a child's question on to a client, or refuse it where that cannot be."""
        needed = QUESTIONS.get(message.method or "")
        if client is None or message.id is None or needed not in client.capabilities:
            refusal = error(METHOD_NOT_FOUND, f"Method not found: {message.method}")
            self._send(child, failure(message.raw("id") or "null", refusal))
            return
        client.next_id += 1
        question = Question(child, client, message, client.next_id)
        client.questions[client.next_id] = question
        child.questions.append(question)
        self._send(client, request(client.next_id, message.method or "", message.raw("params")))

    def _asked(self, child: Child, method: str) -> Client | None:
        """Return the client that a child's question is for: who calls it, or else who started it.

        Where several do, nobody is: an answer must never reach another one's call. Roots are those
        of the connection, whichever of its requests asks.
        """
        callers = list(dict.fromkeys([call.client for call in child.calls.values()]))
        if not callers:
            return child.client if child.client in self.clients else None
        same = all(client.connection is callers[0].connection for client in callers)
        if len(callers) == 1 or (same and method not in ATTRIBUTED):
            return callers[-1]
        return None

    def _replied(self, client: Client, message: Message) -> None:
        """Pass a client's answer back to the child that asked."""
        question = client.questions.pop(minted(message.id), None)
        if question is not None:
            question.child.questions.remove(question)
            question.child.active_at = self.clock()
            self._send(question.child, _answer(question.identifier, message))

    def _withdraw_question(self, child: Child, message: Message) -> None:
        """A child no longer wants an answer to what it asked."""
        question = _latest(child.questions, message.params.get("requestId"))
        if question is not None:
            child.questions.remove(question)
            del question.client.questions[question.client_id]
            params = _replaced(message, "requestId", str(question.client_id))
            self._send(question.client, notification("notifications/cancelled", params))

    def _abandon(self, child: Child, reason: str) -> None:
        """Fail everything that a child still owes, and take back everything that it asked."""
        for call in [*child.calls.values(), *child.waiting, *child.unknown]:
            self._fail(call, reason)
        for question in child.questions:
            del question.client.questions[question.client_id]
            params = f'{{"requestId":{question.client_id}}}'
            self._send(question.client, notification("notifications/cancelled", params))


def tool_not_found(name: str) -> str:
    """Return the error for a tool that its server does not have."""
    return error(METHOD_NOT_FOUND, f"Tool not found: {name}")


def tool_of_nobody(name: str) -> str:
    """Return the error for a name that is of no server."""
    return error(INVALID_PARAMS, f"Tool name must be prefixed with server key: {name}")


def is_error(message: Message) -> bool:
    """Whether a response is an error; one with both members is, unless the error is null."""
    return message.value("error") is not None


def minted(identifier: object) -> int:
    """Return the id of ours that a peer answers to, 0 for none; some peers write 7 as "7"."""
    if type(identifier) is str and len(identifier) < 19 and identifier.isascii():
        return int(identifier) if identifier.isdigit() else 0
    return identifier if type(identifier) is int else 0


def _answer(identifier: str, message: Message) -> str:
    """Return the text that passes a response on under another id."""
    if is_error(message):
        return failure(identifier, message.raw("error"))
    return result(identifier, message.raw("result") or "{}")


def _latest(line: list[Any], key: object) -> Any:
    """Return the youngest request of a peer that has the id `key`: one may be used again."""
    found = [asked for asked in line if asked.key == key] if is_id(key) else []
    return found[-1] if found else None


def _span(message: Message, path: tuple[str, ...]) -> Span:
    """Return where the member of params that `path` leads to stands, (0, 0) if there is none."""
    value, start, end = message.members.get("params", (None, 0, 0))
    for name in path:
        if type(value) is not dict or name not in value:
            return 0, 0
        value, start, end = members(message.text, start)[0][name]
    return start, end


def _replaced(message: Message, member: str, text: str) -> str:
    """Return the text of a message's params with one member of it replaced."""
    _, start, _ = message.members["params"]
    params, _ = members(message.text, start)
    _, begin, end = params[member]
    return message.spliced_params([((begin, end), text)])
