"""The router: which server a request of a client is for, and what clients have under way.

It gives calls to servers, by the name of a tool or a prompt, or by a URI, and knows no revision:
the edges start calls here, withdraw them, and reply to what servers ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import Clients
from mcpagg_runtime.clients.speakers import Speakers
from mcpagg_runtime.lists.catalogue import PROMPTS, TOOLS, Item, Kind
from mcpagg_runtime.lists.listing import is_hidden
from mcpagg_runtime.lists.uris import UriOwners
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import error, failure, result
from mcpagg_runtime.messages.protocol import (
    INVALID_PARAMS,
    LEVELS,
    METHOD_NOT_FOUND,
    METHODS,
    OTHER,
)
from mcpagg_runtime.plan.names import prefix_of
from mcpagg_runtime.routing.completions import Completions
from mcpagg_runtime.routing.resources import ResourceRouting
from mcpagg_runtime.servers.calls import Call, tool_not_found, tool_of_nobody
from mcpagg_runtime.servers.instances import Instances, admit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.clients.answers import Answers
    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.lists.catalogue import Catalogue
    from mcpagg_runtime.messages.jsontext import Json
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.effects import Effects

    Dispatching = Callable[[Mapping[str, Instances]], "Dispatch"]


class Dispatch:
    """Where a request goes once it is decided."""

    def __init__(self, servers: Mapping[str, Instances]) -> None:
        self._servers = servers
        self._serial = 0

    def serving(self, client: Client, server: str) -> Child:
        """Return the instance of a server that a client's call is for."""
        return self._servers[server].serving(client)

    def send(self, call: Call, children: list[Child]) -> None:
        """Give a call to the first of these servers; the others are asked if it has an error.

        `children` stand for their servers: the call is for the instance that its client has.
        """
        client, servers = call.client, self._servers
        first = servers[children[0].name].serving(client)
        self._register(call, first)
        if children[1:]:
            others = [servers[child.name].serving(client) for child in children[1:]]
            call.others = [child.calls.submit for child in others]
        first.calls.submit(call)

    def send_unknown(self, call: Call, child: Child) -> None:
        """Give a call to a child that may know by now what it is for."""
        self._register(call, child)
        child.submit_unknown(call)

    def withdraw(self, call: Call, child: Child, params: Callable[[str], str]) -> None:
        """Take back a call that its client no longer wants; see CallQueue."""
        child.withdraw(call, params)

    def _register(self, call: Call, child: Child) -> None:
        """Number a call, and give it its time: a start of its child included."""
        self._serial += 1
        call.serial = self._serial
        if child.calls.seconds:
            child.calls.limit(call)

    def deny(self, client: Client, message: Message, code: int, text: str, data: str = "") -> None:
        """Answer a request with an error of the proxy's own."""
        self.refuse(client, message, error(code, text, data))

    def refuse(self, client: Client, message: Message, refusal: str) -> None:
        """Answer a request with an error, as JSON text."""
        client.deliver(failure(message.id_text, refusal))

    def refuse_withheld(self, client: Client, message: Message, name: str) -> bool:
        """Refuse what a child has and is withheld; return whether it is so."""
        for instances in self._servers.values():
            child = instances.of(client)
            reason = child.lists.withheld(message.method or "", name)
            if reason is not None:
                self.refuse(client, message, child.connection.gone(reason))
                return True
        return False


class NameRouting:
    """Finds the child that a request for a tool or a prompt is for."""

    def __init__(
        self,
        plan: Plan,
        catalogues: Mapping[str, Catalogue],
        children: Mapping[str, Child],
        dispatch: Dispatch,
    ) -> None:
        self._plan = plan
        self._options = plan.options
        self._catalogues = catalogues
        self._children = children
        self._dispatch = dispatch

    def call(self, client: Client, message: Message) -> None:
        """Route a call of a tool or a prompt."""
        name = message.params.get("name")
        if type(name) is not str:
            self._deny(client, message, f"{message.method} needs a name in params")
            return
        catalogue = self._catalogues[METHODS[message.method or ""].kind]
        item = catalogue.find(name)
        if item is None:
            if not self._dispatch.refuse_withheld(client, message, name):
                self._call_by_own_name(client, message, catalogue.kind, name)
        elif item.server:
            self._send(client, message, name, item)
        else:
            self._call_subtool(client, message, item)

    def _send(self, client: Client, message: Message, name: str, item: Item) -> None:
        """Send a request on to the child of an item, with the child's own name for it."""
        call = Call(client, message, name, ("name",), item.original)
        self._dispatch.send(call, [self._children[item.server]])

    def _call_by_own_name(self, client: Client, message: Message, kind: Kind, name: str) -> None:
        """Route a call by a name that is in no list, if it is one server's own name for an item.

        Pages and prompts of a server call its tools as it named them itself.
        """
        items = self.named(kind.name, name)
        if len(items) == 1:
            self._call_listed(client, message, kind, items[0])
        elif items:
            meant = " or ".join([getattr(item, client.spelling) for item in items])
            self._deny(client, message, f"{_unknown(kind)}: {name}; say {meant}")
        elif self._is_asked_as_itself(kind, name):
            call = Call(client, message, name, ("name",), name)
            self._dispatch.send(call, [self._children[self._plan.face]])
        elif kind is TOOLS:
            self._call_unknown(client, message, name)
        else:
            self._deny(client, message, f"{_unknown(kind)}: {name}")

    def _is_asked_as_itself(self, kind: Kind, name: str) -> bool:
        """Whether a server as itself is asked for what it does not list: it has the better error.

        Not for what the config hides, nor where what is served is what was compiled.
        """
        face = self._plan.face
        if not face or self._options.on_drift != "live":
            return False
        return not is_hidden(kind, name, self._plan.servers[face])

    def _call_listed(self, client: Client, message: Message, kind: Kind, item: Item) -> None:
        """Route a call as if it had the listed name, which may be withheld, or gone."""
        name = item.exposed
        if self._catalogues[kind.name].find(name) is not None:
            self._send(client, message, name, item)
        elif self._dispatch.refuse_withheld(client, message, name):
            return
        elif kind is TOOLS:
            self._dispatch.refuse(client, message, tool_not_found(name))
        else:
            self._deny(client, message, f"{_unknown(kind)}: {name}")

    def named(self, kind: str, name: str) -> list[Item]:
        """Return the item that is listed under `name`, else those that servers have under it.

        Under `refuse` one that is withheld counts: its name must not lead to another server.
        """
        catalogue = self._catalogues[kind]
        listed = catalogue.find(name)
        if listed is not None:
            return [listed]
        guarded = self._options.is_guarded
        items = catalogue.recorded if guarded else catalogue.served
        return [i for server in self._children for i in items(server) if i.original == name]

    def _call_subtool(self, client: Client, message: Message, composite: Item) -> None:
        """Route a call of a composite tool as one of the subtool that it names."""
        from mcpagg_runtime.routing.composite import Subcall  # without such tools it is left out

        allowed = self._plan.subtools[composite.original]
        call = Subcall(message, composite.original, allowed)
        if call.fault:
            self._deny(client, message, call.fault)
            return
        # As it was compiled: what has changed since may be withheld, by the name that it had.
        recorded = self._catalogues["tools"].recorded(call.server)
        hidden = Item(call.server, call.tool, "", "", "")
        item = next((item for item in recorded if item.original == call.tool), hidden)
        self._send(client, call.message, item.exposed, item)

    def _call_unknown(self, client: Client, message: Message, name: str) -> None:
        """Refuse a name that the table lacks, unless its child may have got it since."""
        separator = self._options.separator
        server = prefix_of(name, self._children, separator)
        prefixed = self._options.names != "bare" and not self._plan.face
        if server is None and prefixed and separator not in name:
            self._dispatch.refuse(client, message, tool_of_nobody(name))
            return
        named = None if self._plan.face else server
        child = self._dispatch.serving(client, named) if named is not None else None
        live = self._options.on_drift == "live"
        if child is None or not live or child.lifecycle.is_down_for_good:
            self._dispatch.refuse(client, message, tool_not_found(name))
            return
        self._dispatch.send_unknown(Call(client, message, name, ("name",)), child)

    def server_of(self, message: Message) -> str:
        """Return the server that a call is for whose name is in a list, "" if that is not known."""
        kind = METHODS.get(message.method or "", OTHER).kind
        name = message.params.get("name")
        items = self.named(kind, name) if kind and type(name) is str else []
        return items[0].server if len(items) == 1 else ""

    def prompt(self, name: str) -> tuple[str, str, list[Child]]:
        """Return a prompt's exposed name, its child's own, and that child; none if it has none."""
        items = self.named("prompts", name)
        if not items and self._is_asked_as_itself(PROMPTS, name):
            return name, name, [self._children[self._plan.face]]
        if len(items) != 1:
            return name, name, []
        [item] = items
        return item.exposed, item.original, [self._children[item.server]]

    def _deny(self, client: Client, message: Message, text: str) -> None:
        self._dispatch.deny(client, message, INVALID_PARAMS, text)


def _unknown(kind: Kind) -> str:
    """Return how errors about a name that is in no list of a kind begin."""
    if kind is TOOLS:
        return "Tool name must be prefixed with server key"
    return f"{kind.name[:-1].capitalize()} not found"


class ExtensionCall(Call):
    """A request of an extension, for the first child that knows its method."""

    __slots__ = ()

    def is_settled_by(self, code: object) -> bool:
        """Whether a child that answers with this error knows the method."""
        return code != METHOD_NOT_FOUND


class Router:
    """Has the clients and the servers, and brings them together."""

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
        self._completions = Completions(self.plan.face, self.names, self.resources, self._dispatch)

    def instances(self) -> list[Child]:
        """Return all instances of all servers."""
        return [child for instances in self.servers.values() for child in instances]

    def admit(self) -> None:
        """Start queued children, a few at a time."""
        admit(self.instances())

    # Clients

    def connect(self, client: Client) -> None:
        """Take on a client, which may have shaken hands already."""
        self.clients.connect(client)
        if client.starter is not None:
            self.want_children(client.starter)

    def end_input(self, client: Client) -> None:
        """A client will send nothing more: no server waits for its answers any longer."""
        client.may_answer = False
        for child in self.instances():
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
        for child in self.instances():
            if calls:
                child.requests.refuse_for(client)
            else:
                child.requests.hand_over(client)
        for server, uri in watched:
            self.servers[server].of(client).unwatch(uri)
        for instances in self.servers.values():
            instances.left(client)

    def withdraw(self, client: Client, params: Json, key: object = None) -> None:
        """Take back the call of a client with this id, None for the only one.

        An id may be used again: the youngest call is meant. `params` are those of the cancellation.
        """
        calls = [pair for pair in self._calls_of(client) if key is None or pair[1].key == key]
        for child, call in calls[-1:]:
            self._dispatch.withdraw(call, child, lambda n: params.owned({"requestId": n}).text)

    def reply(self, client: Client, answer: Message) -> None:
        """Give a client's answer to the child that has asked, if one waits for it."""
        number = answer.number
        any(child.requests.open.answer(client, number, answer) for child in self.instances())

    # One request of a modern client is a client by itself

    def begin(self, asking: Client, message: Message) -> None:
        """Take a request, and forget who asks when it ends."""
        self.clients.connect(asking)
        if asking.level and "logging" in self.answers.declared:
            self._tell_level()
        self.request(asking, message)

    def end(self, asking: Client) -> None:
        """Forget a request that was answered."""
        self.clients.disconnect(asking)
        if asking.asked:
            for child in self.instances():
                child.requests.hand_over(asking)
        if asking.party is asking:
            for instances in self.servers.values():
                instances.left(asking)

    def _calls_of(self, client: Client) -> list[tuple[Child, Call]]:
        """Return (child, call) for each call of a client that is to be answered, oldest first."""
        found = [(child, call) for child in self.instances() for call in child.calls.of(client)]
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
        return any(child.calls.of(client) for child in self.instances())

    def want_children(self, client: Client) -> None:
        """A client has asked for something: from now on it may want its children."""
        if self.plan.options.start == "eager":
            for name, instances in self.servers.items():
                if name not in self.answers.outages:
                    instances.of(client).lifecycle.want(client)

    def request(self, client: Client, message: Message) -> None:
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
            fault = message.ambiguity
        else:
            fault = "params must be an object"
        if fault:
            self._dispatch.deny(client, message, INVALID_PARAMS, fault)
        elif member == "name":
            self.names.call(client, message)
        elif member == "uri":
            self.resources.request(client, message)
        elif member == "ref":
            self._completions.request(client, message)
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
            for child in self.instances():
                child.set_level()

    def _extension(self, client: Client, message: Message) -> None:
        """Ask the servers with extensions of their own in turn, until one knows the method."""
        method = message.method or ""
        children = [self.children[name] for name in self.answers.extenders(method)]
        if children and (fault := message.ambiguity):
            self._dispatch.deny(client, message, INVALID_PARAMS, fault)
        elif children:
            self._dispatch.send(ExtensionCall(client, message, method), children)
        else:
            fault = f"Method not found: {method}"
            self._dispatch.deny(client, message, METHOD_NOT_FOUND, fault)
