"""Routes what is about resources and skills: to the owner of a URI, or to those who may be it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.lists.listing import hides_address
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import Message, result
from mcpagg_runtime.messages.protocol import (
    APART,
    INVALID_PARAMS,
    METHODS,
    PAGE_SCHEME,
    RESOURCE_NOT_FOUND,
    SKILLS_EXTENSION,
)
from mcpagg_runtime.plan.uri_templates import fits, is_within, qualified_unit
from mcpagg_runtime.servers.calls import Call
from mcpagg_runtime.servers.lifecycle import DOWN
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.clients.answers import Answers
    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.lists.uris import UriOwners
    from mcpagg_runtime.routing.router import Dispatch
    from mcpagg_runtime.servers.child import Child

# What is asked of the servers that have skills.
SKILL_METHODS = frozenset(m for m, row in METHODS.items() if row.capability == SKILLS_EXTENSION)


class SubscriptionCall(Call):
    """A request to get updates of a resource, or no longer."""

    __slots__ = ("_origins",)

    def __init__(
        self, client: Client, message: Message, uri: str, own: str, origins: UriOwners
    ) -> None:
        """`own` is its child's own URI."""
        super().__init__(client, message, uri, _replaced(uri, own), own)
        self._origins = origins

    def succeeded(self, server: str) -> None:
        """From now on the server tells the client of the resource, or no longer."""
        if self.method == "resources/subscribe":
            self.client.watched[self.name] = server, self.original
            if self.original == self.name:
                self._origins.add(self.name, server)
        else:
            self.client.watched.pop(self.name, None)

    def failed(self) -> None:
        """Nobody tells of the resource."""
        if self.method == "resources/subscribe":
            self.client.watched.pop(self.name, None)


class ResourceRouting:
    """Finds the children that a request with a URI is for."""

    def __init__(
        self,
        answers: Answers,
        children: Mapping[str, Child],
        origins: UriOwners,
        dispatch: Dispatch,
    ) -> None:
        self._answers = answers
        self._catalogues = answers.catalogues
        self._children = children
        self._origins = origins
        self._dispatch = dispatch
        self._guarded = answers.plan.options.is_guarded

    def request(self, client: Client, message: Message) -> None:
        """Route what is about a resource."""
        uri = message.params.get("uri")
        if type(uri) is not str:
            text = f"{message.method} needs a uri in params"
            self._dispatch.deny(client, message, INVALID_PARAMS, text)
        elif message.method == "resources/unsubscribe":
            self._unsubscribe(client, message, uri)
        else:
            self._find(client, message, uri)

    def _find(self, client: Client, message: Message, uri: str) -> None:
        """Ask those who may have a resource, the likeliest first."""
        method = message.method or ""
        owners, own = self._meant(uri) or (self._listers(method, uri), uri)
        if not owners and self._dispatch.refuse_withheld(client, message, own):
            return
        several = [] if owners else self._qualified(uri)
        owners = owners or ([] if several else self._holders(method, uri))
        if owners:
            self._dispatch.send(self._call(client, message, uri, own), owners)
        elif method in SKILL_METHODS and not several:
            text = f"No skill is served at {uri}"
            self._dispatch.deny(client, message, INVALID_PARAMS, text)
        else:
            say = f"; say {' or '.join(several)}" if several else ""
            text, data = f"Resource not found: {uri}{say}", obj(uri=quote(uri))
            self._dispatch.deny(client, message, RESOURCE_NOT_FOUND, text, data)

    def _meant(self, uri: str) -> tuple[list[Child], str] | None:
        """Return the child whose URI clients know as this one, and that; None for any other URI."""
        if not (self._answers.has_addresses and uri.startswith(APART)):
            return None
        meant = self._answers.addresses().own_uri(uri, self._origins.of)
        if meant is None:
            return None
        child, own = self._children[meant[0]], meant[1]
        return ([] if hides_address(own, child.row) else [child]), own

    def _qualified(self, uri: str) -> list[str]:
        """Return what clients know a URI as that several servers hand out, [] for any other."""
        if not (self._answers.has_addresses and uri.startswith(APART)):
            return []
        addresses = self._answers.addresses()
        qualified = [
            addresses.exposed_uri(uri, server) for server in sorted(addresses.owners(uri)) if server
        ]
        return [other for other in qualified if other != uri]

    def _listers(self, method: str, uri: str) -> list[Child]:
        """Return who lists a URI, and is alone then."""
        kinds = ("skills", "resources") if method in SKILL_METHODS else ("resources",)
        items = [self._catalogues[kind].find(uri) for kind in kinds]
        found = [self._children[item.server] for item in items if item is not None]
        return found[:1] if found and not self._qualified(uri) else []

    def _call(self, client: Client, message: Message, uri: str, own: str) -> Call:
        """Return the call for a request; `own` is its child's own URI."""
        if message.method in ("resources/subscribe", "resources/unsubscribe"):
            return SubscriptionCall(client, message, uri, own, self._origins)
        return Call(client, message, uri, _replaced(uri, own), own)

    def _unsubscribe(self, client: Client, message: Message, uri: str) -> None:
        """End a subscription: at its child too, unless another client has it, or it is gone."""
        server, own = client.watched.pop(uri, ("", uri))
        if not server:
            self._find(client, message, uri)
            return
        child = self._dispatch.serving(client, server)
        if not child.lifecycle.is_ready or child.is_watched(own):
            client.deliver(result(message.id_text, "{}"))
        else:
            self._dispatch.send(self._call(client, message, uri, own), [child])

    def completing(self, uri: str) -> tuple[str, list[Child]]:
        """Return the children's own URI for a template, and who may have completions for it."""
        owners, own = self._meant(uri) or ([], uri)
        if not owners:
            item = self._catalogues["templates"].find(uri)
            owners = [self._children[item.server]] if item is not None else self.owners(uri)
        able = [child for child in owners if "completions" in child.lifecycle.declared]
        return own, able or owners

    def _holders(self, method: str, uri: str) -> list[Child]:
        """Return who may have what nobody lists, the likeliest first."""
        owners = self.owners(uri)
        if method in SKILL_METHODS:
            skilled = [self._children[name] for name in self._answers.plan.servers_with_skills]
            likely = [child for child in owners if child in skilled]
            return likely if self._guarded else list(dict.fromkeys([*likely, *skilled]))
        if method == "resources/subscribe":
            return [child for child in owners if _tells_of_resources(child)] or owners
        return owners

    def owners(self, uri: str) -> list[Child]:
        """Return who may have a resource, the likeliest first.

        Whoever lists it is alone. Else it is those whose templates fit, or in whose skills it lies,
        whoever named the URI in a result or in the description of a tool, and then every other
        child that has resources. Those that are down come last: they can only say that they are.
        Under `refuse` nobody is asked for what does not fit: it may be another spelling of what is
        withheld.
        """
        item = self._catalogues["resources"].find(uri)
        if item is not None:
            return [self._children[item.server]]
        servers = [server for server in self._children if self._fits(server, uri)]
        if not self._guarded:
            servers += [self._origins.of(uri) or ""]
        if uri.startswith(PAGE_SCHEME):
            tools = self._catalogues["tools"]
            servers += [s for s in self._children if any(i.names(uri) for i in tools.served(s))]
        if not self._guarded:
            servers += [s for s, c in self._children.items() if "resources" in c.lifecycle.declared]
        owners = [self._children[name] for name in dict.fromkeys(servers) if name]
        shown = [child for child in owners if not hides_address(uri, child.row)]
        return sorted(shown, key=lambda child: child.state == DOWN)

    def _fits(self, server: str, uri: str) -> bool:
        """Whether a template of a server fits a URI, or a skill has it: its folder, or its list."""
        templates, skills = self._catalogues["templates"], self._catalogues["skills"]
        return any(fits(item.original, uri) for item in templates.served(server)) or any(
            is_within(uri, qualified_unit(item.original)) or item.names(uri)
            for item in skills.served(server)
        )


def _replaced(uri: str, own: str) -> tuple[str, ...]:
    """Return what leads to a URI in params that a child has another one for, () if it has not."""
    return ("uri",) if own != uri else ()


def _tells_of_resources(child: Child) -> bool:
    declared = child.lifecycle.declared.get("resources")
    return type(declared) is dict and declared.get("subscribe") is True
