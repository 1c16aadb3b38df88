"""The router: every message of every client and child comes by here.

One event in, the actions that follow out; see the core. It answers handshakes and lists from what
the compiler wrote, without waiting for any child, and forwards the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.calls import minted
from mcpagg_runtime.catalogue import KINDS, PROMPTS, TOOLS, Item
from mcpagg_runtime.lifecycle import Lifecycle
from mcpagg_runtime.names import prefix_of
from mcpagg_runtime.peers import DOWN, READY, STARTING, Call, Child
from mcpagg_runtime.templates import fits
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
    quote,
    read_message,
    result,
)

if TYPE_CHECKING:
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.core import Action

# What goes to a child, and the capability that some child must have declared for it.
FORWARDED = {
    "tools/call": "tools",
    "prompts/get": "prompts",
    "resources/read": "resources",
    "resources/subscribe": "resources",
    "resources/unsubscribe": "resources",
    "completion/complete": "completions",
    "logging/setLevel": "logging",
}
ANNOUNCEMENTS = frozenset(f"notifications/{kind.capability}/list_changed" for kind in KINDS)
# https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
RESOURCE_NOT_FOUND = -32002
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
        else:
            self._client_request(client, message)

    def _client_request(self, client: Client, message: Message) -> None:
        """Answer at the desk, or forward; what nobody declared is not found."""
        method = message.method or ""
        text = self.desk.answer(client, message)
        if text is not None:
            self._send(client, text)
        elif FORWARDED.get(method) in self.desk.declared:
            if type(message.value("params")) not in (dict, type(None)):
                self._deny(client, message, INVALID_PARAMS, "params must be an object")
            elif method == "logging/setLevel":
                self._set_level(client, message)
            elif method in ("tools/call", "prompts/get"):
                self._call(client, message)
            elif method == "completion/complete":
                self._complete(client, message)
            else:
                self._resource(client, message)
        else:
            self._deny(client, message, METHOD_NOT_FOUND, f"Method not found: {method}")

    def _deny(self, client: Client, message: Message, code: int, text: str, data: str = "") -> None:
        """Answer a request with an error of the proxy's own, without asking a child."""
        self._send(client, failure(message.raw("id"), error(code, text, data)))

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

    def _call(self, client: Client, message: Message) -> None:
        """Route a call of a tool or a prompt by the table."""
        name = message.params.get("name")
        kind = TOOLS if message.method == "tools/call" else PROMPTS
        if type(name) is not str:
            self._deny(client, message, INVALID_PARAMS, f"{message.method} needs a name in params")
            return
        item = self.catalogues[kind.name].find(name)
        if item is not None and not item.server:
            self._call_subtool(client, message, item)
        elif item is not None:
            self._route(client, message, self.children[item.server], name, ("name",), item)
        elif kind is TOOLS:
            self._unknown(client, message, name)
        elif not self._refused(client, message, name):
            self._deny(client, message, INVALID_PARAMS, f"Prompt not found: {name}")

    def _call_subtool(self, client: Client, message: Message, composite: Item) -> None:
        """Route a call of a composite tool as one of the subtool that it names."""
        from mcpagg_runtime.composite import Subcall

        call = Subcall(message, composite.original, self.plan.subtools[composite.original])
        if call.fault:
            self._deny(client, message, INVALID_PARAMS, call.fault)
            return
        # As it was compiled: what has changed since may be withheld, by the name that it had.
        recorded = self.catalogues["tools"].recorded(call.server)
        hidden = Item(call.server, call.tool, "", "", "")
        item = next((item for item in recorded if item.original == call.tool), hidden)
        child = self.children[call.server]
        self._route(client, call.message, child, item.exposed, ("name",), item)

    def _route(
        self,
        client: Client,
        message: Message,
        child: Child,
        name: str,
        path: tuple[str, ...] = (),
        item: Item | None = None,
    ) -> Call:
        """Send a request on to a child; `path` leads to the member that becomes the item's own."""
        call = Call(client, message, child, name)
        if item is not None:
            call.path, call.original = path, item.original
        client.calls.append(call)
        self._limit(call)
        self._submit(call)
        return call

    def _refused(self, client: Client, message: Message, name: str) -> bool:
        """Whether a child has what is asked for, but it is withheld; the client is told so."""
        for child in self.children.values():
            reason = child.withheld(message.method or "", name)
            if reason is not None:
                self._fail(Call(client, message, child, name), reason)
                return True
        return False

    def _unknown(self, client: Client, message: Message, name: str) -> None:
        """Refuse a name that the table lacks, unless its child may have got it since."""
        if self._refused(client, message, name):
            return
        server = prefix_of(name, self.children, self.plan.options["separator"])
        if server is None and self.plan.options["names"] != "bare":
            text = f"Tool name must be prefixed with server key: {name}"
            self._deny(client, message, INVALID_PARAMS, text)
            return
        asked = self.children[server] if server is not None else None
        live = self.plan.options["on_drift"] == "live"
        if asked is None or not live or (asked.state == DOWN and not self._may_retry(asked)):
            self._deny(client, message, METHOD_NOT_FOUND, f"Tool not found: {name}")
            return
        call = Call(client, message, asked, name)
        call.path = ("name",)
        client.calls.append(call)
        self._limit(call)
        asked.unknown.append(call)
        self._wake(asked, client)
        if asked.state == READY:
            self._read_list(asked, asked.readings["tools"])

    def _complete(self, client: Client, message: Message) -> None:
        """Ask the owner of a prompt or a template for completions; its names are translated."""
        reference = message.params.get("ref")
        of = reference if type(reference) is dict else {}
        name, uri = of.get("name"), of.get("uri")
        if type(name) is str and of.get("type") == "ref/prompt":
            item = self.catalogues["prompts"].find(name)
            path: tuple[str, ...] = ("ref", "name")
        elif type(uri) is str and of.get("type") == "ref/resource":
            templates, resources = self.catalogues["templates"], self.catalogues["resources"]
            item, path = templates.find(uri) or resources.find(uri), ()
        else:
            self._deny(client, message, INVALID_PARAMS, "completion/complete needs a ref")
            return
        if item is None:
            self._deny(client, message, INVALID_PARAMS, f"Nothing to complete: {name or uri}")
            return
        wanted = name if path else uri
        self._route(client, message, self.children[item.server], str(wanted), path, item)

    def _resource(self, client: Client, message: Message) -> None:
        """Route what is about a resource to its owner, or to those who may be it."""
        uri = message.params.get("uri")
        if type(uri) is not str:
            self._deny(client, message, INVALID_PARAMS, f"{message.method} needs a uri in params")
            return
        if self._refused(client, message, uri):
            return
        owners = self._owners(uri)
        if not owners:
            data = f'{{"uri":{quote(uri)}}}'
            self._deny(client, message, RESOURCE_NOT_FOUND, f"Resource not found: {uri}", data)
            return
        if message.method == "resources/subscribe":
            client.subscriptions.add(uri)
        elif message.method == "resources/unsubscribe":
            client.subscriptions.discard(uri)
        call = Call(client, message, owners[0], uri)
        call.others = owners[1:]
        client.calls.append(call)
        self._limit(call)
        self._submit(call)

    def _owners(self, uri: str) -> list[Child]:
        """Return who may have a resource: its owner, else those whose templates fit.

        Children that are down are asked last: they can only say that they are.
        """
        item = self.catalogues["resources"].find(uri)
        if item is not None:
            return [self.children[item.server]]
        catalogue = self.catalogues["templates"]
        every = [item for server in self.children for item in catalogue.served(server)]
        fitting = [item for item in every if fits(item.original, uri)]
        servers = dict.fromkeys(item.server for item in fitting or every)
        owners = [self.children[server] for server in servers]
        return sorted(owners, key=lambda child: child.state == DOWN)

    def _set_level(self, client: Client, message: Message) -> None:
        """Pass a log level on to every child that logs, now or once it is up."""
        level = message.params.get("level")
        if type(level) is not str or level not in LEVELS:
            self._deny(client, message, INVALID_PARAMS, "Unknown log level")
            return
        self.level = level
        for child in self.children.values():
            if child.state == READY and "logging" in child.capabilities:
                self._ask(child, "logging/setLevel", f'{{"level":{quote(level)}}}')
        self._send(client, result(message.raw("id"), "{}"))

    def _child_message(self, child: Child, message: Message) -> None:
        if message.method is None:
            self._child_answer(child, message)
        elif "id" in message.members:
            self._question(child, message)
        elif message.method == "notifications/progress":
            self._progress(child, message)
        elif message.method == "notifications/cancelled":
            self._withdraw_question(child, message)
        elif message.method in ANNOUNCEMENTS:
            self._list_announced(child, message.method)
        elif child.state == READY:
            self._pass_on(child, message)

    def _pass_on(self, child: Child, message: Message) -> None:
        """Give a child's notification (log, resource, unknown) to the clients that it concerns."""
        uri = message.params.get("uri")
        for client in self.clients:
            if not client.initialized:
                continue
            if message.method == "notifications/resources/updated":
                if type(uri) is not str or uri not in client.subscriptions:
                    continue
            elif message.method == "notifications/message" and "logging" not in self.desk.declared:
                continue
            self._send(client, notification(message.method or "", message.raw("params")))

    def _child_answer(self, child: Child, message: Message) -> None:
        """Take a child's answer. One to nothing in flight is late, to a call that was cancelled."""
        number = minted(message.id)
        if number in child.own:
            self._own_answer(child, child.own.pop(number), message)
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
