"""Requests and notifications on their way between clients and children.

Ids and progress tokens towards a child are minted here and mapped back with their JSON type; all
else of a message passes as the text that it came in. A call is sent once, and answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.core import gone
from mcpagg_runtime.peers import ASKS_FOR, FOREVER, Call, Child
from mcpagg_runtime.questions import (
    Questions,
    answer,
    code_of,
    is_error,
    latest,
    replaced,
    span,
)
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Message,
    error,
    failure,
    notification,
    quote,
    read_message,
    request,
    result,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.client import Client
    from mcpagg_runtime.wire import Span

REQUEST_TIMEOUT = -32001  # the SDKs' own code for it
RESOURCE_NOT_FOUND = -32002
# With these a server says that it does not know what it is asked for; some SDKs say 0.
UNKNOWN_CODES = frozenset({RESOURCE_NOT_FOUND, INVALID_PARAMS, METHOD_NOT_FOUND, 0})

# A call may take so many times as long as its limit, if its server reports progress.
LONGEST_TIMES = 10

# What stands for the message of a call that was sent: it may be large, and is never sent twice.
_SENT = Message("", {})


class Calls(Questions):
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
            changes.append((span(message, call.path), quote(call.original)))
        token = span(message, ("_meta", "progressToken"))
        if token[1] and message.text[slice(*token)] != "null":
            call.token = message.text[slice(*token)]
            changes.append((token, str(call.child_id)))
        params = message.spliced_params(changes) if "params" in message.members else ""
        self._send(child, request(call.child_id, message.method or "", params))
        if child.kept and message.method in ASKS_FOR:
            self._ask_what_was_kept(child, call.client)

    def _answered(self, call: Call, message: Message) -> None:
        """Pass a child's answer on to the client that asked, or ask the next child."""
        call.child.active_at = self.clock()
        if is_error(message):
            if call.name == call.method and code_of(message) != METHOD_NOT_FOUND:
                # A request of an extension, which this child knows: its answer is the one.
                call.others, call.refusal = [], ""
            self._refused_by_child(call, message.raw("error"), code_of(message) in UNKNOWN_CODES)
            return
        self._note_success(call, message)
        self._forget(call)
        if call.moved and type(message.value("result")) is dict:
            from mcpagg_runtime.skills import moved_result

            text = moved_result(message.raw("result"), call.child.name)
            self._send(call.client, result(call.identifier, text))
        else:
            self._send(call.client, answer(call.identifier, message))

    def _note_success(self, call: Call, message: Message) -> None:
        """Note what a result says about resources: whose they are, and who tells of them."""
        self.origins.learn(message.value("result"), call.child.name)
        if call.method == "resources/subscribe":
            call.client.subscriptions[call.name] = call.child
            self.origins.add(call.name, call.child.name)
        elif call.method == "resources/unsubscribe":
            call.client.subscriptions.pop(call.name, None)

    def _refused_by_child(self, call: Call, refusal: str, unknown: bool = False) -> None:
        """Ask the next child, or answer with the error that says most: `unknown` says least."""
        if not call.refusal or not unknown:
            call.refusal = refusal
        if call.others:
            call.child = call.others.pop(0)
            self._submit(call)
            return
        if call.method == "resources/subscribe":
            call.client.subscriptions.pop(call.name, None)
        self._refuse(call, call.refusal)

    def _accept(self, call: Call) -> None:
        """Owe a client the answer to a call, in due time: a start of its child included."""
        call.client.calls.append(call)
        limit = call.child.row.get("timeout") or self.plan.options.get("timeout")
        if limit:
            call.limit = limit
            call.deadline = self._arm(self.clock() + limit)
            call.latest = self.clock() + LONGEST_TIMES * limit

    def _submit(self, call: Call) -> None:
        """See that a call reaches its child; the room of lifecycles knows how."""
        raise NotImplementedError

    def _cancel(self, client: Client, message: Message) -> None:
        """Stop a call that its client no longer wants; nobody gets an answer to it."""
        call = latest(client.calls, message.params.get("requestId"))
        if call is not None:
            client.calls.remove(call)
            self._withdraw(call, lambda number: replaced(message, "requestId", number))

    def _withdraw(self, call: Call, params: Callable[[str], str]) -> None:
        """Take a call back from its child; `params` makes those of the cancellation from its id."""
        child = call.child
        for line in (child.waiting, child.unknown):
            if call in line:
                line.remove(call)
                return
        if child.calls.pop(call.child_id, None) is not None:
            self._send(child, notification("notifications/cancelled", params(str(call.child_id))))
            self._settle_lost(child)
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
        self._give_up_own(child, now)

    def _give_up_own(self, child: Child, now: float) -> None:
        """Wait no longer for answers that matter to nobody; a handshake and lists have rules."""
        unheeded = {
            number: own.deadline
            for number, own in child.own.items()
            if own.reading is None and own.method != "initialize"
        }
        for number, deadline in unheeded.items():
            if deadline <= now:
                del child.own[number]
            else:
                self._arm(deadline)
        self._settle_lost(child)

    def _settle_lost(self, child: Child) -> None:
        """End the requests that answers without an id must have been for."""
        while child.lost:
            settled = child.lost.settled({*child.own, *child.calls})
            if not settled:
                return
            for number, problem in settled.items():
                self._child_answer(child, read_message(failure(str(number), problem)))

    def _child_answer(self, child: Child, message: Message) -> None:
        """Take a child's answer; the router knows what it may be about."""
        raise NotImplementedError

    def _progress(self, child: Child, message: Message) -> None:
        """Pass progress on to the client whose call it is about, under the client's own token.

        A call that makes progress has its time anew, so many times as long in all.
        """
        token = message.params.get("progressToken")
        call = child.calls.get(token) if type(token) is int else None
        if call is not None and call.token:
            if call.deadline < FOREVER:
                call.deadline = min(self.clock() + call.limit, call.latest)
            params = replaced(message, "progressToken", call.token)
            self._send(call.client, notification("notifications/progress", params))

    def _abandon(self, child: Child, reason: str) -> None:
        """Fail everything that a child still owes, and take back everything that it asked."""
        owed = [*child.calls.values(), *child.waiting, *child.unknown]
        # What a fault of ours took out of these is still owed to its client.
        owed += [call for client in self.clients for call in client.calls if call.child is child]
        for call in dict.fromkeys(owed):
            self._refused_by_child(call, gone(child, reason))
        for question in child.questions:
            if question.client.questions.pop(question.client_id, None) is not None:
                params = f'{{"requestId":{question.client_id}}}'
                self._send(question.client, notification("notifications/cancelled", params))


def tool_not_found(name: str) -> str:
    """Return the error for a prefixed name, or one of a server's tools, that nobody has."""
    return error(METHOD_NOT_FOUND, f"Tool not found: {name}")


def tool_of_nobody(name: str) -> str:
    """Return the error for a name without the prefix of a server."""
    return error(INVALID_PARAMS, f"Tool name must be prefixed with server key: {name}")
