"""The router: clients, children, and which of the latter a message of the former is for.

It answers handshakes and lists from what the compiler wrote, without waiting for any child, and
forwards the rest. It knows one form of messages, that of the handshake: ports translate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.clients import Clients
from mcpagg_runtime.clients.speakers import Speakers
from mcpagg_runtime.lists.uris import UriOwners
from mcpagg_runtime.messages.ambiguity import ambiguity
from mcpagg_runtime.messages.jsontext import Json, Malformed, NotAnObject, obj
from mcpagg_runtime.messages.message import error, failure, is_id, notification, result
from mcpagg_runtime.messages.protocol import (
    CANCELLED,
    INITIALIZED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEVELS,
    METHOD_NOT_FOUND,
    METHODS,
    OF_SERVERS,
    OTHER,
    PARSE_ERROR,
    PROGRESS,
    ROOTS_CHANGED,
)
from mcpagg_runtime.routing.resources import ResourceRouting
from mcpagg_runtime.routing.routing import NameRouting
from mcpagg_runtime.servers.call import Call
from mcpagg_runtime.servers.instances import Instances, admit

if TYPE_CHECKING:

    from mcpagg_runtime.clients.answers import Answers
    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.routing.routing import Dispatching
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.effects import Effects


class ExtensionCall(Call):
    """A request of an extension, for the first child that knows its method."""

    __slots__ = ()

    def is_settled_by(self, code: object) -> bool:
        """Whether a child that answers with this error knows the method."""
        return code != METHOD_NOT_FOUND


class Router:
    """Takes the messages of clients, in the form of the handshake."""

    def __init__(self, answers: Answers, effects: Effects, dispatching: Dispatching) -> None:
        """`dispatching` makes what gives calls to children."""
        self.answers = answers
        self.plan = answers.plan
        self.effects = effects
        speakers = Speakers(named=not self.plan.face, several=len(self.plan.servers) > 1)
        self.clients = Clients("logging" in answers.declared, speakers)
        self._origins = UriOwners(answers.has_addresses, answers.addresses)
        self.servers = {
            name: Instances(name, answers, effects, self.clients, self._origins)
            for name in self.plan.servers
        }
        self.children = {name: instances.main for name, instances in self.servers.items()}
        """The instance of each server that stands for it."""
        self._dispatch = dispatching(self.servers)
        self.names = NameRouting(self.plan, answers.catalogues, self.children, self._dispatch)
        self.resources = ResourceRouting(answers, self.children, self._origins, self._dispatch)

    def _instances(self) -> list[Child]:
        """Return all instances of all servers."""
        return [child for instances in self.servers.values() for child in instances]

    def admit(self) -> None:
        """Start queued children, a few at a time."""
        admit(self._instances())

    # Clients

    def connect(self, client: Client) -> None:
        """Take on a client, which may have shaken hands already."""
        self.clients.connect(client)
        if client.starter is not None:
            self.want_children(client.starter)

    def end_input(self, client: Client) -> None:
        """A client will send nothing more: no server waits for its answers any longer."""
        client.may_answer = False
        for child in self._instances():
            child.requests.refuse_for(client)

    def disconnect(self, client: Client) -> None:
        """Let a client go: nobody will read what it is still owed."""
        calls = self._calls_of(client)
        subscribing = [(s, c) for s, c in calls if c.method == "resources/subscribe"]
        asked = [(s.name, c.original or c.name) for s, c in subscribing]
        watched = dict.fromkeys([*asked, *client.watched.values()])
        self.clients.disconnect(client)
        # One that is a single request comes and goes with a level of its own.
        if client.connection is client:
            self._tell_level()
        for child, call in reversed(calls):
            self._dispatch.withdraw(call, child, lambda number: obj(requestId=number))
        for child in self._instances():
            if calls:
                child.requests.refuse_for(client)
            else:
                child.requests.hand_over(client)
        for server, uri in watched:
            self.servers[server].of(client).unwatch(uri)
        for instances in self.servers.values():
            instances.left(client)

    # One request of a modern client is a client by itself

    def begin(self, asking: Client, message: Message) -> None:
        """Take a request, and forget who asks when it ends."""
        self.clients.connect(asking)
        if asking.level and "logging" in self.answers.declared:
            self._tell_level()
        self._client_request(asking, message)

    def withdraw(self, asking: Client, params: str) -> None:
        """Take back what is under way of a request; `params` say more of that."""
        said = Json(params)
        for child, call in self._calls_of(asking):
            self._dispatch.withdraw(call, child, lambda n: said.owned({"requestId": n}).text)

    def end(self, asking: Client) -> None:
        """Forget a request that was answered."""
        self.clients.disconnect(asking)
        if asking.asked:
            for child in self._instances():
                child.requests.hand_over(asking)
        if asking.party is asking:
            for instances in self.servers.values():
                instances.left(asking)

    def _calls_of(self, client: Client) -> list[tuple[Child, Call]]:
        """Return (child, call) for each call of a client that is to be answered, oldest first."""
        found = [(child, call) for child in self._instances() for call in child.calls.of(client)]
        return sorted(found, key=lambda pair: pair[1].serial)

    def note_attention(self, client: Client, identifiers: list[str], *, attended: bool) -> None:
        """Note whether somebody reads what is said to a client about these of its calls.

        A call that nobody attends goes on, but what it asks is asked of nobody.
        """
        for child, call in self._calls_of(client):
            if call.identifier in identifiers:
                call.attended = attended
                child.requests.settle()

    def owes(self, client: Client) -> bool:
        """Whether a request of the client is still to be answered."""
        return any(child.calls.of(client) for child in self._instances())

    def want_children(self, client: Client) -> None:
        """A client has asked for something: from now on it may want its children."""
        if self.plan.options.start == "eager":
            for name, instances in self.servers.items():
                if name not in self.answers.outages:
                    instances.of(client).lifecycle.want(client)

    def receive(self, client: Client, message: Message | Malformed) -> None:
        """Take one message of a client, or what was to be one."""
        if isinstance(message, Malformed):
            # The reference stays silent here; a client that waits for an answer needs one.
            code = INVALID_REQUEST if isinstance(message, NotAnObject) else PARSE_ERROR
            client.deliver(failure("null", error(code, f"Invalid message: {message}")))
        elif message.method is None:
            if "result" in message.members or "error" in message.members:
                self._client_answer(client, message)
            else:
                self._invalid(client, message)
        elif not message.id_text:
            self._client_notification(client, message)
        elif message.id is None:
            self._invalid(client, message)
        else:
            self._client_request(client, message)

    def _invalid(self, client: Client, message: Message) -> None:
        identifier = "null" if message.id is None else message.id_text
        client.deliver(failure(identifier, error(INVALID_REQUEST, "Invalid request")))

    def _client_answer(self, client: Client, message: Message) -> None:
        """Pass a client's answer back to the child that asked, as soon as it is the call's turn."""
        number = message.number
        any(child.requests.open.answer(client, number, message) for child in self._instances())

    def _client_request(self, client: Client, message: Message) -> None:
        """Forward what some server declared, answer the rest from the file, or not at all."""
        method = message.method or ""
        row = METHODS.get(method, OTHER)
        if row.capability in self.answers.declared:
            self._forward(client, message, row.member)
            return
        answer = self.answers.answer(client, message)
        if answer is not None:
            client.deliver(answer)
        else:
            self._extension(client, message)

    def _forward(self, client: Client, message: Message, member: str) -> None:
        """Give a request to whoever routes such requests, if it says once what it is for."""
        if message.params or message.value("params") in ({}, None):
            fault = ambiguity(message)
        else:
            fault = "params must be an object"
        if fault:
            self._dispatch.deny(client, message, INVALID_PARAMS, fault)
        elif member == "name":
            self.names.call(client, message)
        elif member == "uri":
            self.resources.request(client, message)
        elif member == "ref":
            self._complete(client, message)
        else:
            self._set_level(client, message)

    def _set_level(self, client: Client, message: Message) -> None:
        """Pass a log level on to every child that logs, now or once it is up."""
        level = message.params.get("level")
        if type(level) is not str or level not in LEVELS:
            self._dispatch.deny(client, message, INVALID_PARAMS, "Unknown log level")
            return
        client.level = level
        self._tell_level()
        client.deliver(result(message.id_text, "{}"))

    def _tell_level(self) -> None:
        """Ask servers for another log level, if clients want another one by now."""
        if self.clients.settle_level():
            for child in self._instances():
                child.set_level()

    def _complete(self, client: Client, message: Message) -> None:
        """Ask the owner of a prompt or a template for completions; its names are translated."""
        reference = message.params.get("ref")
        of = reference if type(reference) is dict else {}
        name, uri = of.get("name"), of.get("uri")
        if type(name) is str and of.get("type") == "ref/prompt":
            self.names.complete(client, message, name)
        elif type(uri) is str and of.get("type") == "ref/resource":
            self.resources.complete(client, message, uri)
        else:
            fault = "completion/complete needs a ref"
            self._dispatch.deny(client, message, INVALID_PARAMS, fault)

    def _extension(self, client: Client, message: Message) -> None:
        """Ask the servers with extensions of their own in turn, until one knows the method."""
        method = message.method or ""
        children = [self.children[name] for name in self.answers.extenders(method)]
        if children and (fault := ambiguity(message)):
            self._dispatch.deny(client, message, INVALID_PARAMS, fault)
        elif children:
            self._dispatch.send(ExtensionCall(client, message, method), children)
        else:
            fault = f"Method not found: {method}"
            self._dispatch.deny(client, message, METHOD_NOT_FOUND, fault)

    def _client_notification(self, client: Client, message: Message) -> None:
        method = message.method or ""
        if method == CANCELLED:
            self._cancel(client, message)
        elif method == INITIALIZED:
            client.shake_hands()
            self.want_children(client)
        elif method == PROGRESS:
            number = message.params.get("progressToken")
            if type(number) is int:
                for child in self._instances():
                    child.requests.open.progress(client, number, message)
        elif method.startswith("notifications/") and method not in OF_SERVERS:
            # One that is not known may be for any of them. A request without an id is none.
            for_all = method != ROOTS_CHANGED
            for instances in self.servers.values():
                child = instances.of(client)
                if child.lifecycle.is_ready and (for_all or child.lifecycle.client is client):
                    child.connection.send(notification(method, message.raw("params")))

    def _cancel(self, client: Client, message: Message) -> None:
        """Stop a call that its client no longer wants; nobody gets an answer to it."""
        key = message.params.get("requestId")
        found = [pair for pair in self._calls_of(client) if is_id(key) and pair[1].key == key]
        if found:
            # An id may be used again: the youngest is meant.
            child, call = found[-1]
            params = message.json("params")
            self._dispatch.withdraw(call, child, lambda n: params.owned({"requestId": n}).text)
