"""Requests of children on their way to clients, and whose turn it is to be asked.

What a child asks says not for which call. So a child that asks is given the calls of one client at
a time; one that waits for an answer is not in the way, unless it is another connection's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.attribution import attributed
from mcpagg_runtime.core import Core
from mcpagg_runtime.peers import Child, Question
from mcpagg_runtime.wire import (
    INTERNAL_ERROR,
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
    from typing import Any

    from mcpagg_runtime.client import Client
    from mcpagg_runtime.wire import Span

# What a child may ask a client, and the capability that the client must have declared for it.
QUESTIONS = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
# Those that mean one call; a list of roots means the client as a whole.
ATTRIBUTED = ("sampling/createMessage", "elicitation/create")


class Questions(Core):
    """Asks clients on behalf of children, and brings back what they answer."""

    def _question(self, child: Child, message: Message) -> None:
        """Answer what a child asks, or ask the client that it works for."""
        if message.method == "ping":
            self._send(child, result(message.raw("id"), "{}"))
            return
        if message.method in ATTRIBUTED:
            child.asks = True
        client = self._asked(child, message.method or "")
        if client is None and self._may_keep(child, message):
            child.kept.append(message)
        else:
            self._ask_client(client, child, message)

    def _may_keep(self, child: Child, message: Message) -> bool:
        """Whether a question can wait for the next call of the client that the child works for.

        A client without a handshake can be asked in the middle of a call alone; servers ask for
        its roots before there is one.
        """
        starter = child.client
        started = starter is not None and starter.connection in self.clients
        return started and not child.calls and message.method == "roots/list"

    def _ask_what_was_kept(self, child: Child, client: Client) -> None:
        """Ask a client that calls a child what the child wanted to know before."""
        starter = child.client
        if starter is not None and starter.connection is client.connection:
            kept, child.kept = child.kept, []
            for message in kept:
                self._ask_client(client, child, message)

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
        params = message.params_text
        token = span(message, ("_meta", "progressToken"))
        if token[1] and message.text[slice(*token)] != "null":
            question.token = message.text[slice(*token)]
            params = message.spliced_params([(token, str(client.next_id))])
        several = len(self.plan.servers) > 1
        params = attributed(message.method or "", params, child.name, several)
        self._send(client, request(client.next_id, message.method or "", params))
        self._flush(child)

    def _asked(self, child: Child, method: str) -> Client | None:
        """Return the client that a child's question is for: who calls it, or else who started it.

        Where it could be for several, it is for nobody: an answer must never reach another one's
        call. Roots are those of the connection, whichever of its requests asks.
        """
        callers = list(dict.fromkeys([call.client for call in child.calls.values()]))
        if not callers:
            return child.client if child.client in self.clients else None
        if any(client.connection is not callers[0].connection for client in callers):
            return None
        at_work = _at_work(child)
        certain = len(at_work) == 1 or len(callers) == 1
        chosen = [client for client in callers if client in at_work] or callers
        return chosen[-1] if certain or method not in ATTRIBUTED else None

    def _must_wait(self, child: Child, client: Client) -> bool:
        """Whether a client's call has to wait until a child has done with another client's."""
        if not child.takes_turns:
            return False
        foreign = any(
            one.client.connection is not client.connection for one in child.calls.values()
        )
        return foreign or bool(_at_work(child) - {client})

    def _replied(self, client: Client, message: Message) -> None:
        """Pass a client's answer back to the child that asked, as soon as it is the call's turn."""
        question = client.questions.pop(minted(message.value("id")), None)
        if question is not None:
            question.reply = message
            self._flush_replies(question.child)

    def _progress_of_client(self, client: Client, message: Message) -> None:
        """Pass a client's progress on to the child whose question it is about, by its own token."""
        token = message.params.get("progressToken")
        question = client.questions.get(token) if type(token) is int else None
        if question is not None and question.token:
            params = replaced(message, "progressToken", question.token)
            self._send(question.child, notification("notifications/progress", params))

    def _flush_replies(self, child: Child) -> None:
        """Let a child go on with the calls that it got answers for, one client's at a time."""
        for question, reply in [(one, one.reply) for one in child.questions if one.reply]:
            client = question.client
            busy = child.takes_turns and any(
                other is not client and other.connection is client.connection
                for other in _at_work(child)
            )
            if not busy:
                child.questions.remove(question)
                child.active_at = self.clock()
                self._send(child, answer(question.identifier, reply))

    def _withdraw_question(self, child: Child, message: Message) -> None:
        """A child no longer wants an answer to what it asked."""
        key = message.params.get("requestId")
        child.kept = [one for one in child.kept if not (is_id(key) and one.id == key)]
        question = latest(child.questions, key)
        if question is not None:
            child.questions.remove(question)
            if question.client.questions.pop(question.client_id, None) is not None:
                params = replaced(message, "requestId", str(question.client_id))
                self._send(question.client, notification("notifications/cancelled", params))

    def _flush(self, child: Child) -> None:
        """Send a child what waited, if it may go; the room of drift knows when."""
        raise NotImplementedError


def _at_work(child: Child) -> set[Client]:
    """Return the clients whose calls a child works at: it waits for no answer of theirs."""
    callers = {call.client for call in child.calls.values()}
    return callers - {question.client for question in child.questions}


def is_error(message: Message) -> bool:
    """Whether a response is an error; one with both members is, unless the error is null."""
    return message.value("error") is not None


def is_response(message: Message) -> bool:
    """Whether an object without a method or an id is meant as an answer: some servers log JSON."""
    problem = message.value("error")
    shaped = type(problem) is dict and type(problem.get("code")) is int
    return shaped or (
        "jsonrpc" in message.members and (is_error(message) or "result" in message.members)
    )


def unusable(server: str, how: str) -> str:
    """Return the error that a request ends with whose answer is of no use."""
    data = f'{{"server":{quote(server)}}}'
    return error(INTERNAL_ERROR, f"Server '{server}' gave an answer {how}", data)


def without_id(server: str, message: Message) -> str:
    """Return the error that a response without an id means for its request.

    A result is not passed on: it might reach another call than its own.
    """
    if is_error(message):
        return message.raw("error")
    return unusable(server, "without the id of a request")


def code_of(message: Message) -> object:
    """Return the code of an error response, None if it has none."""
    error = message.value("error")
    return error.get("code") if type(error) is dict else None


def minted(identifier: object) -> int:
    """Return the id of ours that a peer answers to, 0 for none; some write 7 as "7" or 7.0."""
    if type(identifier) is str and len(identifier) < 19 and identifier.isascii():
        return int(identifier) if identifier.isdigit() else 0
    if type(identifier) is float and identifier.is_integer():
        return int(identifier)
    return identifier if type(identifier) is int else 0


def make_ready(message: Message, line: bytes, identifier: str) -> None:
    """Write the line that passes a large result on, from the line that it came in."""
    if "result" not in message.members or is_error(message):
        return
    _, start, end = message.members["result"]
    whole = line.startswith(b"{") and message.text.isascii()
    body = memoryview(line)[start:end] if whole else message.raw("result").encode("utf-8")
    head = f'{{"jsonrpc":"2.0","id":{identifier},"result":'
    message.ready = identifier, b"".join([head.encode("utf-8"), body, b"}\n"])


def answer(identifier: str, message: Message) -> str | bytes:
    """Return the text that passes a response on under another id, or the line if it is ready."""
    if message.ready is not None and message.ready[0] == identifier:
        return message.ready[1]
    if is_error(message):
        return failure(identifier, message.raw("error"))
    return result(identifier, message.raw("result") or "{}")


def latest(line: list[Any], key: object) -> Any:
    """Return the youngest request of a peer that has the id `key`: one may be used again."""
    found = [asked for asked in line if asked.key == key] if is_id(key) else []
    return found[-1] if found else None


def span(message: Message, path: tuple[str, ...]) -> Span:
    """Return where the member of params that `path` leads to stands, (0, 0) if there is none."""
    value, start, end = message.members.get("params", (None, 0, 0))
    for name in path:
        if type(value) is not dict or name not in value:
            return 0, 0
        value, start, end = members(message.text, start)[0][name]
    return start, end


def replaced(message: Message, member: str, text: str) -> str:
    """Return the text of a message's params with one member of it replaced."""
    _, start, _ = message.members["params"]
    params, _ = members(message.text, start)
    _, begin, end = params[member]
    return message.spliced_params([((begin, end), text)])
