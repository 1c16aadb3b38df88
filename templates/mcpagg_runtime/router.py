"""The router: every message of every client and child comes by here.

One event in, the actions that follow out; see the core. It answers handshakes and lists from what
the compiler wrote, without waiting for any child, and forwards the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.calls import minted
from mcpagg_runtime.lifecycle import Lifecycle
from mcpagg_runtime.names import prefix_of
from mcpagg_runtime.peers import DOWN, READY, STARTING, Call, Child
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Malformed,
    Message,
    NotAnObject,
    decode,
    elements,
    error,
    failure,
    notification,
    read_message,
)

if TYPE_CHECKING:
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.core import Action

BATCH_VERSION = "2025-03-26"  # the one revision in which a line may hold an array of messages


class Router(Lifecycle):
    """Routes between clients and children; see Core for what its methods return."""

    def connect(self, client: Client) -> list[Action]:
        """Take on a client, which may have shaken hands at the desk already."""
        self.clients.append(client)
        if client.initialized:
            self._initialized(client)
        return self._taken()

    def disconnect(self, client: Client) -> list[Action]:
        """Let a client go: nobody will read what it is still owed."""
        self.clients.remove(client)
        for call in client.calls:
            self._withdraw(call, lambda number: f'{{"requestId":{number}}}')
        for question in client.questions.values():
            question.child.questions.remove(question)
            refusal = failure(question.identifier, error(METHOD_NOT_FOUND, "The client is gone"))
            self._send(question.child, refusal)
        client.calls, client.questions = [], {}
        return self._taken()

    def owes(self, client: Client) -> bool:
        """Whether a request of the client is still to be answered."""
        return bool(client.calls)

    def from_client(self, client: Client, line: bytes) -> list[Action]:
        """Take one line of a client."""
        for message in _messages(line, client.version == BATCH_VERSION):
            if isinstance(message, Malformed):
                # The reference stays silent here; a client that waits for an answer needs one.
                code = INVALID_REQUEST if isinstance(message, NotAnObject) else PARSE_ERROR
                self._send(client, failure("null", error(code, f"Invalid message: {message}")))
            else:
                self._client_message(client, message)
        return self._taken()

    def from_child(self, child: Child, line: bytes) -> list[Action]:
        """Take one line of a child; what is no message is passed over with one warning."""
        if child.state not in (STARTING, READY):  # the last words of one that is down
            return []
        for message in _messages(line, True):
            if not isinstance(message, Malformed):
                self._child_message(child, message)
            elif not child.warned:
                child.warned = True
                self._say(f"server '{child.name}' wrote something else than JSON-RPC: {message}")
        return self._taken()

    def _client_message(self, client: Client, message: Message) -> None:
        if message.method is None:
            if "result" in message.members or "error" in message.members:
                self._replied(client, message)
            else:
                self._invalid(client, message)
        elif "id" not in message.members:
            self._client_notification(client, message)
        elif message.id is None:
            self._invalid(client, message)
        elif message.method == "tools/call":
            self._call(client, message)
        else:
            self._answer(client, message)

    def _invalid(self, client: Client, message: Message) -> None:
        identifier = "null" if message.id is None else message.raw("id")
        self._send(client, failure(identifier, error(INVALID_REQUEST, "Invalid request")))

    def _client_notification(self, client: Client, message: Message) -> None:
        if message.method == "notifications/cancelled":
            self._cancel(client, message)
        elif message.method == "notifications/initialized":
            self._initialized(client)
        elif message.method == "notifications/roots/list_changed":
            for child in self.children.values():
                if child.client is client and child.state == READY:
                    text = notification(message.method, message.raw("params"))
                    self._send(child, text)

    def _initialized(self, client: Client) -> None:
        """A client has shaken hands: from now on it may want its children."""
        client.initialized = True
        if self.plan.options["start"] == "eager":
            for child in self.children.values():
                self._wake(child, client)

    def _answer(self, client: Client, message: Message) -> None:
        """Answer a request that needs no child."""
        refusal = error(METHOD_NOT_FOUND, f"Method not found: {message.method}")
        text = self.desk.answer(client, message)
        self._send(client, text or failure(message.raw("id"), refusal))

    def _call(self, client: Client, message: Message) -> None:
        """Route a call by the table; ask a child once about a name that may be new."""
        name = message.params.get("name")
        if type(name) is not str:
            refusal = error(INVALID_PARAMS, "tools/call needs params with the name of a tool")
            self._send(client, failure(message.raw("id"), refusal))
            return
        tool = self.catalogue.find(name)
        if tool is None:
            self._unknown(client, message, name)
            return
        child = self.children[tool.server]
        call = Call(client, message, child, name)
        call.original = tool.original
        client.calls.append(call)
        if child.state == DOWN:
            self._fail(call, child.reason)
        else:
            child.waiting.append(call)
            self._wake(child, client)
            self._flush(child)

    def _unknown(self, client: Client, message: Message, name: str) -> None:
        """Refuse a name that the table lacks, unless its child may have got it since."""
        for child in self.children.values():
            if name in child.refused:
                self._fail(Call(client, message, child, name), child.refused[name])
                return
        server = prefix_of(name, self.children, self.plan.options["separator"])
        if server is None and self.plan.options["names"] != "bare":
            refusal = error(INVALID_PARAMS, f"Tool name must be prefixed with server key: {name}")
            self._send(client, failure(message.raw("id"), refusal))
            return
        asked = self.children[server] if server is not None else None
        if asked is None or self.plan.options["on_drift"] != "live" or asked.state == DOWN:
            refusal = error(METHOD_NOT_FOUND, f"Tool not found: {name}")
            self._send(client, failure(message.raw("id"), refusal))
            return
        call = Call(client, message, asked, name)
        client.calls.append(call)
        asked.unknown.append(call)
        self._wake(asked, client)
        if asked.state == READY:
            self._read_list(asked)

    def _child_message(self, child: Child, message: Message) -> None:
        if message.method is None:
            self._child_answer(child, message)
        elif "id" in message.members:
            self._question(child, message)
        elif message.method == "notifications/progress":
            self._progress(child, message)
        elif message.method == "notifications/cancelled":
            self._withdraw_question(child, message)
        elif message.method == "notifications/tools/list_changed":
            self._list_announced(child)

    def _child_answer(self, child: Child, message: Message) -> None:
        """Take a child's answer. One to nothing in flight is late, to a call that was cancelled."""
        number = minted(message.id)
        if number in child.own:
            self._own_answer(child, child.own.pop(number).method, message)
        elif number in child.calls:
            self._answered(child.calls.pop(number), message)


def _messages(line: bytes, batches: bool) -> list[Message | Malformed]:
    """Read the message of a line, or those of a batch; a blank line has none."""
    try:
        text = decode(line)
        if not text:
            return []
        if batches and text.startswith("["):
            parts = [text[start:end] for _, start, end in elements(text, 0)]
            return [_message(part) for part in parts] or [NotAnObject("an empty batch")]
    except Malformed as problem:
        return [problem]
    return [_message(text)]


def _message(text: str) -> Message | Malformed:
    try:
        return read_message(text)
    except Malformed as problem:
        return problem
