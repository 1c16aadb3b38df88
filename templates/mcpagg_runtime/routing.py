"""Finds the child that a request is for: by the table, by what children say now, by URI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.calls import RESOURCE_NOT_FOUND, tool_not_found, tool_of_nobody
from mcpagg_runtime.catalogue import PROMPTS, SKILLS, TOOLS, Item, Kind
from mcpagg_runtime.lifecycle import Lifecycle
from mcpagg_runtime.names import hides_address, own_address, prefix_of
from mcpagg_runtime.peers import DOWN, READY, Call, Child
from mcpagg_runtime.templates import fits
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    error,
    failure,
    parse,
    quote,
    result,
)

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.client import Client
    from mcpagg_runtime.wire import Message

# Pages of tools, which their tools name: https://github.com/modelcontextprotocol/ext-apps
APP_SCHEME = "ui://"
# What is asked of the servers that have skills, and what a URI that is listed for one is read by.
SKILL_METHODS = frozenset({"skills/get", "resources/directory/read"})
READING_METHODS = SKILL_METHODS | {"resources/read"}
# How errors about names that are in no list begin.
_UNKNOWN = {TOOLS: "Tool name must be prefixed with server key", PROMPTS: "Prompt not found"}


class Routing(Lifecycle):
    """Sends requests on to the children that they are for, or refuses them."""

    def _deny(self, client: Client, message: Message, code: int, text: str, data: str = "") -> None:
        """Answer a request with an error of the proxy's own, without asking a child."""
        self._send(client, failure(message.raw("id"), error(code, text, data)))

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
        elif not self._refused(client, message, name):
            self._call_by_own_name(client, message, kind, name)

    def _call_by_own_name(self, client: Client, message: Message, kind: Kind, name: str) -> None:
        """Route a call by a name that is in no list, if it is one server's own name for an item.

        Pages and prompts of a server call its tools as it named them itself.
        """
        items = self.named(kind, name)
        if len(items) == 1:
            self._call_listed(client, message, kind, items[0])
        elif items:
            meant = " or ".join([getattr(item, client.spelling) for item in items])
            self._deny(client, message, INVALID_PARAMS, f"{_UNKNOWN[kind]}: {name}; say {meant}")
        elif kind is TOOLS:
            self._unknown(client, message, name)
        else:
            self._deny(client, message, INVALID_PARAMS, f"{_UNKNOWN[kind]}: {name}")

    def _call_listed(self, client: Client, message: Message, kind: Kind, item: Item) -> None:
        """Route a call as if it had the listed name, which may be withheld, or gone."""
        name = item.exposed
        if self.catalogues[kind.name].find(name) is not None:
            self._route(client, message, self.children[item.server], name, ("name",), item)
        elif self._refused(client, message, name):
            return
        elif kind is TOOLS:
            self._send(client, failure(message.raw("id"), tool_not_found(name)))
        else:
            self._deny(client, message, INVALID_PARAMS, f"{_UNKNOWN[kind]}: {name}")

    def named(self, kind: Kind, name: str) -> list[Item]:
        """Return the item that is listed under `name`, else those that servers have under it.

        Under `refuse` one that is withheld counts: its name must not lead to another server.
        """
        catalogue = self.catalogues[kind.name]
        listed = catalogue.find(name)
        if listed is not None:
            return [listed]
        guarded = self.plan.options["on_drift"] == "refuse"
        items = catalogue.recorded if guarded else catalogue.served
        return [item for server in self.children for item in items(server) if item.original == name]

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
    ) -> None:
        """Send a request on to a child; `path` leads to the member that becomes the item's own."""
        call = Call(client, message, child, name)
        if item is not None:
            call.path, call.original = path, item.original
        self._accept(call)
        self._submit(call)

    def _route_in_turn(
        self, client: Client, message: Message, children: list[Child], name: str
    ) -> None:
        """Send a request on to the first child that knows `name`, one after the other."""
        call = Call(client, message, children[0], name)
        call.others = children[1:]
        self._accept(call)
        self._submit(call)

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
        separator = self.plan.options["separator"]
        server = prefix_of(name, self.children, separator)
        if server is None and self.plan.options["names"] != "bare" and separator not in name:
            self._send(client, failure(message.raw("id"), tool_of_nobody(name)))
            return
        asked = self.children[server] if server is not None else None
        live = self.plan.options["on_drift"] == "live"
        if asked is None or not live or (asked.state == DOWN and not self._may_retry(asked)):
            self._send(client, failure(message.raw("id"), tool_not_found(name)))
            return
        call = Call(client, message, asked, name)
        call.path = ("name",)
        self._accept(call)
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
            self._complete_prompt(client, message, name)
        elif type(uri) is str and of.get("type") == "ref/resource":
            self._complete_resource(client, message, uri)
        else:
            self._deny(client, message, INVALID_PARAMS, "completion/complete needs a ref")

    def _complete_prompt(self, client: Client, message: Message, name: str) -> None:
        items = self.named(PROMPTS, name)
        if len(items) == 1:
            child = self.children[items[0].server]
            self._route(client, message, child, items[0].exposed, ("ref", "name"), items[0])
        else:
            self._deny(client, message, INVALID_PARAMS, f"Nothing to complete: {name}")

    def _complete_resource(self, client: Client, message: Message, uri: str) -> None:
        item = self.catalogues["templates"].find(uri)
        owners = [self.children[item.server]] if item is not None else self.owners(uri)
        able = [child for child in owners if "completions" in self._capabilities(child)]
        if owners:
            self._route_in_turn(client, message, able or owners, uri)
        else:
            self._deny(client, message, INVALID_PARAMS, f"Nothing to complete: {uri}")

    def _resource(self, client: Client, message: Message) -> None:
        """Route what is about a resource to its owner, or to those who may be it."""
        uri = message.params.get("uri")
        if type(uri) is not str:
            self._deny(client, message, INVALID_PARAMS, f"{message.method} needs a uri in params")
        elif self._refused(client, message, uri):
            return
        elif message.method == "resources/unsubscribe" and uri in client.subscriptions:
            self._unsubscribe(client, message, uri)
        else:
            self._find_resource(client, message, uri)

    def _find_resource(self, client: Client, message: Message, uri: str) -> None:
        """Ask those who may have a resource, the likeliest first."""
        owners, own = self._holders(message.method or "", uri)
        if not owners and message.method in SKILL_METHODS:
            self._deny(client, message, INVALID_PARAMS, f"No skill is served at {uri}")
        elif not owners:
            data = f'{{"uri":{quote(uri)}}}'
            self._deny(client, message, RESOURCE_NOT_FOUND, f"Resource not found: {uri}", data)
        else:
            call = Call(client, message, owners[0], uri)
            call.others = owners[1:]
            if own != uri:
                call.path, call.original = ("uri",), own
            skilled = message.method in SKILL_METHODS and self.catalogues["skills"].apart
            call.moved = own != uri or skilled
            self._accept(call)
            self._submit(call)

    def _holders(self, method: str, uri: str) -> tuple[list[Child], str]:
        """Return who may have what a URI is of, the likeliest first, and their own URI for it."""
        skilled = [c for c in self.children.values() if self._answers(c, SKILLS.capability)]
        listed = self.catalogues["resources"].find(uri) is not None
        if self.catalogues["skills"].apart and method in READING_METHODS and not listed:
            for child in skilled:
                own = own_address(uri, child.name)
                if own is not None:
                    return [child], own
        owners = self.owners(uri)
        if method in SKILL_METHODS:
            item = self.catalogues["skills"].find(uri)
            first = [self.children[item.server]] if item is not None else []
            return (
                list(dict.fromkeys([*first, *(c for c in owners if c in skilled), *skilled])),
                uri,
            )
        if method == "resources/subscribe":
            owners = [child for child in owners if self._tells_of_resources(child)] or owners
        return owners, uri

    def _answers(self, child: Child, extension: str) -> bool:
        """Whether the requests of an extension go to a child."""
        return extension in self.desk.extended.get(child.name, ())

    def _extension(self, client: Client, message: Message) -> None:
        """Ask the servers with extensions of their own in turn, until one knows the method."""
        method = message.method or ""
        servers = self.desk.extenders(method)
        if servers:
            self._route_in_turn(client, message, [self.children[one] for one in servers], method)
        else:
            self._deny(client, message, METHOD_NOT_FOUND, f"Method not found: {method}")

    def _unsubscribe(self, client: Client, message: Message, uri: str) -> None:
        """End a subscription: at its child too, unless another client has it, or it is gone."""
        child = client.subscriptions.pop(uri)
        if child.state != READY or self._is_watched(uri, child):
            self._send(client, result(message.raw("id"), "{}"))
        else:
            self._route_in_turn(client, message, [child], uri)

    def _is_watched(self, uri: str, child: Child) -> bool:
        """Whether a child tells any client of a resource."""
        return any(client.subscriptions.get(uri) is child for client in self.clients)

    def owners(self, uri: str) -> list[Child]:
        """Return who may have a resource, the likeliest first.

        Whoever lists it is alone. Else it is those whose templates fit, whoever named the URI in a
        result or in the description of a tool, and then every other child that has resources.
        Those that are down come last: they can only say that they are. Under `refuse` nobody is
        asked for what does not fit: it may be another spelling of what is withheld.
        """
        item = self.catalogues["resources"].find(uri)
        if item is not None:
            return [self.children[item.server]]
        templates, tools = self.catalogues["templates"], self.catalogues["tools"]
        servers = [
            server
            for server in self.children
            if any(fits(item.original, uri) for item in templates.served(server))
        ]
        guarded = self.plan.options["on_drift"] == "refuse"
        if not guarded:
            servers += [self.origins.of(uri) or ""]
        if uri.startswith(APP_SCHEME):
            servers += [s for s in self.children if any(i.names(uri) for i in tools.served(s))]
        has = [
            s for s, child in self.children.items() if not guarded and self._has_resources(child)
        ]
        owners = [self.children[name] for name in dict.fromkeys([*servers, *has]) if name]
        shown = [child for child in owners if not hides_address(uri, child.row)]
        return sorted(shown, key=lambda child: child.state == DOWN)

    def _has_resources(self, child: Child) -> bool:
        return "resources" in self._capabilities(child)

    def _tells_of_resources(self, child: Child) -> bool:
        declared = self._capabilities(child).get("resources")
        return type(declared) is dict and declared.get("subscribe") is True

    def _capabilities(self, child: Child) -> dict[str, Any]:
        """Return what a child declares; as long as it is not up, what it did when compiled."""
        if child.state == READY:
            return child.capabilities
        about = parse(self.plan.snapshot[child.name].get("server", "{}"))
        declared: dict[str, Any] = about.get("capabilities", {})
        return declared
