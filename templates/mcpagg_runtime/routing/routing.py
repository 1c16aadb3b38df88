"""Routes calls of tools and prompts: by the table, by what is listed now, by servers' own names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import PROMPTS, TOOLS, Item, Kind
from mcpagg_runtime.lists.listing import is_hidden
from mcpagg_runtime.messages.message import error, failure, result
from mcpagg_runtime.messages.protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    METHODS,
)
from mcpagg_runtime.plan.names import prefix_of
from mcpagg_runtime.servers.call import Call
from mcpagg_runtime.servers.calls import tool_not_found, tool_of_nobody

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.lists.catalogue import Catalogue
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.instances import Instances

    Dispatching = Callable[[Mapping[str, Instances]], "Dispatch"]


class CompletionCall(Call):
    """A request for completions: a child that knows none has none.

    Clients ask for none at all after the first METHOD_NOT_FOUND, and other servers have some.
    """

    __slots__ = ()

    def __init__(
        self, client: Client, message: Message, name: str, path: tuple[str, ...], original: str
    ) -> None:
        super().__init__(client, message, name, path, original)
        deliver = self.answer
        self.answer = lambda answer: deliver(_completed(answer))


def completion_of(plan: Plan) -> type[Call]:
    """Return what a request for completions is: a server as itself answers as it likes."""
    return Call if plan.face else CompletionCall


def _completed(answer: Message) -> Message:
    if answer.is_error and answer.code == METHOD_NOT_FOUND:
        return result(answer.id_text, '{"completion":{"values":[]}}')
    return answer


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
            call = Call(client, message, name, ("name",), item.original)
            self._dispatch.send(call, [self._children[item.server]])
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
        elif self._asks_as_itself(kind, name):
            call = Call(client, message, name, ("name",), name)
            self._dispatch.send(call, [self._children[self._plan.face]])
        elif kind is TOOLS:
            self._call_unknown(client, message, name)
        else:
            self._deny(client, message, f"{_unknown(kind)}: {name}")

    def _asks_as_itself(self, kind: Kind, name: str) -> bool:
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

    def complete(self, client: Client, message: Message, name: str) -> None:
        """Ask the owner of a prompt for completions."""
        items = self.named("prompts", name)
        if len(items) == 1:
            [item] = items
            completing = completion_of(self._plan)
            call = completing(client, message, item.exposed, ("ref", "name"), item.original)
            self._dispatch.send(call, [self._children[item.server]])
        elif not items and self._asks_as_itself(PROMPTS, name):
            call = Call(client, message, name, ("ref", "name"), name)
            self._dispatch.send(call, [self._children[self._plan.face]])
        else:
            self._deny(client, message, f"Nothing to complete: {name}")

    def _deny(self, client: Client, message: Message, text: str) -> None:
        self._dispatch.deny(client, message, INVALID_PARAMS, text)


def _unknown(kind: Kind) -> str:
    """Return how errors about a name that is in no list of a kind begin."""
    if kind is TOOLS:
        return "Tool name must be prefixed with server key"
    return f"{kind.name[:-1].capitalize()} not found"
