"""The router: every message of every client and child comes by here.

One event in, the actions that follow out; see the core. It answers handshakes and lists from what
the compiler wrote, without waiting for any child, and forwards the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.attribution import attributed_log
from mcpagg_runtime.catalogue import KINDS, SKILLS
from mcpagg_runtime.client import LEVELS
from mcpagg_runtime.lenient import Fragment, read_line
from mcpagg_runtime.peers import LEGACY, READY, STARTING, Call, Child
from mcpagg_runtime.questions import is_error, is_response, make_ready, minted, unusable, without_id
from mcpagg_runtime.routed import ambiguity
from mcpagg_runtime.routing import Routing
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    LARGE,
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
    quote,
    read_message,
    result,
)

if TYPE_CHECKING:
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.core import Action
    from mcpagg_runtime.wire import Id

    Said = tuple[list[Message | Fragment], str]

# What goes to a child, and the capability that some child must have declared for it.
FORWARDED = {
    "tools/call": "tools",
    "prompts/get": "prompts",
    "resources/read": "resources",
    "resources/subscribe": "resources",
    "resources/unsubscribe": "resources",
    "completion/complete": "completions",
    "logging/setLevel": "logging",
    "skills/get": SKILLS.capability,
    "resources/directory/read": SKILLS.capability,
}
RESOURCE_UPDATED = "notifications/resources/updated"
ANNOUNCEMENTS = frozenset(kind.announcement for kind in KINDS)

# Notifications that only the other side may send.
ROOTS_CHANGED = "notifications/roots/list_changed"
OF_CLIENTS = frozenset({"notifications/initialized", ROOTS_CHANGED})
OF_SERVERS = ANNOUNCEMENTS | {
    "notifications/message",
    RESOURCE_UPDATED,
    "notifications/elicitation/complete",
    "notifications/subscriptions/acknowledged",
}

BATCH_VERSION = "2025-03-26"  # the one revision in which a line may hold an array of messages


class Router(Routing):
    """Routes between clients and children; see Core for what its methods return."""

    def connect(self, client: Client) -> list[Action]:
        """Take on a client, which may have shaken hands at the desk already."""
        self.clients.append(client)
        if client.initialized:
            self._initialized(client)
        elif client.modern is not None:
            self._want_children(client.modern)
        return self._taken()

    def disconnect(self, client: Client) -> list[Action]:
        """Let a client go: nobody will read what it is still owed."""
        self.clients.remove(client)
        asked = [call for call in client.calls if call.method == "resources/subscribe"]
        watched = {**{call.name: call.child for call in asked}, **client.subscriptions}
        for call in reversed(client.calls):
            self._withdraw(call, lambda number: f'{{"requestId":{number}}}')
        for child in self.children.values():
            for question in [one for one in child.questions if one.client is client]:
                child.questions.remove(question)
                gone = error(METHOD_NOT_FOUND, "The client is gone")
                self._send(child, failure(question.identifier, gone))
        for uri, child in watched.items():
            if child.state == READY and not self._is_watched(uri, child):
                self._ask(child, "resources/unsubscribe", f'{{"uri":{quote(uri)}}}')
        client.calls, client.questions = [], {}
        return self._taken()

    def owes(self, client: Client) -> bool:
        """Whether a request of the client is still to be answered."""
        return bool(client.calls)

    def from_client(self, client: Client, line: bytes) -> list[Action]:
        """Take one line of a client."""
        for message in read_messages(line, client.version == BATCH_VERSION):
            self._client_message(client, message)
        return self._taken()

    def want(self, client: Client) -> list[Action]:
        """A client has asked for something: from now on it may want its children."""
        self._want_children(client)
        return self._taken()

    def hear(self, client: Client, message: Message | Malformed) -> list[Action]:
        """Take one message of a client, or what was to be one."""
        self._client_message(client, message)
        return self._taken()

    def hear_child(self, child: Child, message: Message | Fragment) -> list[Action]:
        """Take one message of a child that is starting or ready, or what is left of one."""
        self._child_message(child, message)
        return self._taken()

    def ask(self, client: Client, child: Child, message: Message) -> list[Action]:
        """Take a question of a child of which it is known whom it is for."""
        self._ask_client(client, child, message)
        return self._taken()

    def read(self, child: Child, line: bytes) -> Said:
        """Read a line of a child, for `from_child`; the lock need not be held.

        What takes long about it is done here: nothing of it depends on what others do.
        """
        said = read_line(line)
        for message in said[0]:
            if isinstance(message, Message) and message.method is None and not is_error(message):
                number = minted(message.value("id"))
                own, call = child.own.get(number), child.calls.get(number)
                if own is not None:
                    self.read_ahead(child, own, message)
                elif call is not None and len(line) > LARGE and _passes_untouched(child, call):
                    make_ready(message, line, call.identifier)
        return said

    def from_child(self, child: Child, said: Said) -> list[Action]:
        """Take what was read of a line of a child; what is odd is warned of once."""
        if child.state not in (STARTING, READY):  # the last words of one that is down
            return []
        messages, oddity = said
        for message in messages:
            self._child_message(child, message)
        return [*self.warn(child, oddity), *self._taken()]

    def warn(self, child: Child, oddity: str) -> list[Action]:
        """Say what is odd about the lines of a child, "" for nothing; once."""
        if oddity and not child.warned:
            child.warned = True
            self._say(f"server '{child.name}' wrote something else than JSON-RPC: {oddity}")
        return self._taken()

    def _client_message(self, client: Client, message: Message | Malformed) -> None:
        if isinstance(message, Malformed):
            # The reference stays silent here; a client that waits for an answer needs one.
            code = INVALID_REQUEST if isinstance(message, NotAnObject) else PARSE_ERROR
            self._send(client, failure("null", error(code, f"Invalid message: {message}")))
        elif message.method is None:
            if "result" in message.members or "error" in message.members:
                self._replied(client, message)
            else:
                self._invalid(client, message)
        elif "id" not in message.members:
            self._client_notification(client, message)
        elif message.id is None:
            self._invalid(client, message)
        else:
            self._client_request(client, message)

    def _client_request(self, client: Client, message: Message) -> None:
        """Answer at the desk, or forward; what nobody declared is not found."""
        method = message.method or ""
        text = self.desk.answer(client, message)
        if text is not None:
            self._send(client, text)
        elif FORWARDED.get(method) in self.desk.declared:
            fault = ambiguity(message)
            if type(message.value("params")) not in (dict, type(None)):
                self._deny(client, message, INVALID_PARAMS, "params must be an object")
            elif fault:
                self._deny(client, message, INVALID_PARAMS, fault)
            elif method == "logging/setLevel":
                self._set_level(client, message)
            elif method in ("tools/call", "prompts/get"):
                self._call(client, message)
            elif method == "completion/complete":
                self._complete(client, message)
            else:
                self._resource(client, message)
        else:
            self._extension(client, message)

    def _invalid(self, client: Client, message: Message) -> None:
        identifier = "null" if message.id is None else message.raw("id")
        self._send(client, failure(identifier, error(INVALID_REQUEST, "Invalid request")))

    def _client_notification(self, client: Client, message: Message) -> None:
        if message.method == "notifications/cancelled":
            self._cancel(client, message)
        elif message.method == "notifications/initialized":
            self._initialized(client)
        elif message.method == "notifications/progress":
            self._progress_of_client(client, message)
        elif (message.method or "").startswith(
            "notifications/"
        ) and message.method not in OF_SERVERS:
            # One that is not known may be for any of them. A request without an id is none.
            for_all = message.method != ROOTS_CHANGED
            for child in self.children.values():
                if child.state == READY and (for_all or child.client is client):
                    text = notification(message.method or "", message.raw("params"))
                    self._send(child, text)

    def _initialized(self, client: Client) -> None:
        """A client has shaken hands: from now on it may want its children."""
        client.initialized = True
        self._want_children(client)

    def _want_children(self, client: Client) -> None:
        if self.plan.options["start"] == "eager":
            for child in self.children.values():
                if child.name not in self.desk.down:
                    self._wake(child, client)

    def _set_level(self, client: Client, message: Message) -> None:
        """Pass a log level on to every child that logs, now or once it is up."""
        level = message.params.get("level")
        if type(level) is not str or level not in LEVELS:
            self._deny(client, message, INVALID_PARAMS, "Unknown log level")
            return
        client.level = level
        asked = [one.level for one in [*self.clients, client] if one.level]
        # What one client does not want to hear, another one may.
        before, self.level = self.level, min(asked, key=LEVELS.index)
        for child in self.children.values():
            if child.state == READY and self.level != before:
                self._ask_level(child)
        self._send(client, result(message.raw("id"), "{}"))

    def _child_message(self, child: Child, message: Message | Fragment) -> None:
        if isinstance(message, Fragment):
            self._unreadable(child, message)
        elif message.method is None:
            self._child_answer(child, message)
        elif "id" in message.members:
            self._question(child, message)
        elif message.method == "notifications/progress":
            self._progress(child, message)
        elif message.method == "notifications/cancelled":
            self._withdraw_question(child, message)
        elif message.method in ANNOUNCEMENTS:
            self._list_announced(child, message.method)
        elif child.state == READY and message.method not in OF_CLIENTS:
            self._pass_on(child, message)

    def _pass_on(self, child: Child, message: Message) -> None:
        """Give a child's notification (log, resource, unknown) to the clients that it concerns."""
        callers = {call.client for call in child.calls.values()}
        params = message.raw("params")
        if message.method == "notifications/message":
            params = attributed_log(message.params_text, child.name)
        told = []
        for client in self.clients:
            # One that has not shaken hands hears of its own calls, if they are nobody else's.
            hears = client.initialized or callers == {client}
            if not hears or not self._concerns(client, child, message):
                continue
            # What a server logs is told once over one connection, whoever speaks over it.
            if message.method != "notifications/message" or client.connection not in told:
                told.append(client.connection)
                self._send(client, notification(message.method or "", params))

    def _concerns(self, client: Client, child: Child, message: Message) -> bool:
        if message.method == RESOURCE_UPDATED:
            uri = message.params.get("uri")
            watched = [one for one, owner in client.subscriptions.items() if owner is child]
            return type(uri) is str and any(_lies_in(uri, one) for one in watched)
        if message.method == "notifications/message":
            loud = _is_loud(message.params.get("level"), client.level)
            return loud and "logging" in self.desk.declared
        return True

    def _child_answer(self, child: Child, message: Message) -> None:
        """Take a child's answer. One to nothing in flight is late, to a call that was cancelled."""
        number = minted(message.value("id"))
        if number in child.own:
            self._own_answer(child, child.own.pop(number), message)
        elif number in child.calls:
            self._answered(child.calls.pop(number), message)
            self._flush(child)
        elif message.id is None and not number and is_response(message):
            self._lost_answer(child, without_id(child.name, message))
        self._settle_lost(child)

    def _unreadable(self, child: Child, fragment: Fragment) -> None:
        """End what a message that cannot be read was about."""
        self._actions += self.warn(child, fragment.problem)
        if fragment.method:
            if fragment.id is not None:
                refusal = error(PARSE_ERROR, f"Invalid message: {fragment.problem}")
                self._send(child, failure(_id_text(fragment.id), refusal))
            return
        number = minted(fragment.id)
        problem = unusable(child.name, f"that cannot be read: {fragment.problem}")
        if number in child.own or number in child.calls:
            self._child_answer(child, read_message(failure(str(number), problem)))
        elif fragment.id is None:
            self._lost_answer(child, problem)

    def _lost_answer(self, child: Child, problem: str) -> None:
        """An answer is to nobody knows what: the request ends as soon as it can be told."""
        child.lost.add({*child.own, *child.calls}, problem)
        self._settle_lost(child)


def _id_text(identifier: Id) -> str:
    return quote(identifier) if type(identifier) is str else str(identifier)


def _passes_untouched(child: Child, call: Call) -> bool:
    """Whether a result reaches the client as it is: of one era, with nothing masked or moved."""
    of_one_era = child.era == LEGACY and call.client.connection is call.client
    return of_one_era and not child.masks and not call.moved


def _is_loud(level: object, threshold: str) -> bool:
    """Whether a log message is to reach who asked for `threshold`, "" for all of them."""
    return level not in LEVELS or not threshold or LEVELS.index(level) >= LEVELS.index(threshold)


def _lies_in(uri: str, watched: str) -> bool:
    """Whether a URI is the one that is watched, or of something within that resource."""
    if not uri.startswith(watched):
        return False
    return len(uri) == len(watched) or watched.endswith("/") or uri[len(watched)] in "/?#"


def read_messages(line: bytes, batches: bool) -> list[Message | Malformed]:
    """Read the message of a line, or those of a batch; a blank line has none.

    What is no message stands as the error that says why.
    """
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
