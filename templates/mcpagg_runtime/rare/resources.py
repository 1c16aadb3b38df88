"""Routes what is about resources and skills: to the owner of a URI, or to those who may be it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import obj
from mcpagg_runtime.base.message import Message, result
from mcpagg_runtime.base.protocol import (
    INVALID_PARAMS,
    METHODS,
    RESOURCE_NOT_FOUND,
    SKILLS_EXTENSION,
)
from mcpagg_runtime.serve.connection import Call
from mcpagg_runtime.serve.lifecycle import DOWN
from mcpagg_runtime.serve.listing import hides_address
from mcpagg_runtime.serve.uris import fits
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.base.answers import Answers
    from mcpagg_runtime.base.client import Client
    from mcpagg_runtime.serve.child import Child
    from mcpagg_runtime.serve.clients import Clients
    from mcpagg_runtime.serve.routing import Dispatch
    from mcpagg_runtime.serve.uris import Origins

# Pages of tools, which their tools name: https://github.com/modelcontextprotocol/ext-apps
APP_SCHEME = "ui://"
# What is asked of the servers that have skills.
SKILL_METHODS = frozenset(m for m, row in METHODS.items() if row.capability == SKILLS_EXTENSION)
# What a URI that is listed for a skill is read by.
READING_METHODS = SKILL_METHODS | {"resources/read"}


class SubscriptionCall(Call):
    """A request to get updates of a resource, or no longer."""

    __slots__ = ("_origins",)

    def __init__(self, client: Client, message: Message, uri: str, origins: Origins) -> None:
        super().__init__(client, message, uri)
        self._origins = origins

    def succeeded(self, server: str, message: Message) -> Message:
        """From now on the server tells the client of the resource, or no longer."""
        if self.method == "resources/subscribe":
            self.client.watched[self.name] = server
            self._origins.add(self.name, server)
        else:
            self.client.watched.pop(self.name, None)
        return message

    def failed(self) -> None:
        """Nobody tells of the resource."""
        if self.method == "resources/subscribe":
            self.client.watched.pop(self.name, None)


class SkillCall(Call):
    """A request about skills of several servers, whose result has URIs as they are listed."""

    __slots__ = ()

    def succeeded(self, server: str, message: Message) -> Message:
        """Write the URIs in a result as they are listed."""
        if type(message.value("result")) is not dict:
            return message
        from mcpagg_runtime.views.entries import moved_result

        return result(message.id_text, moved_result(message.raw("result"), server))


class ResourceRouting:
    """Finds the children that a request with a URI is for."""

    def __init__(
        self,
        answers: Answers,
        children: Mapping[str, Child],
        clients: Clients,
        origins: Origins,
        dispatch: Dispatch,
    ) -> None:
        self._answers = answers
        self._catalogues = answers.catalogues
        self._children = children
        self._clients = clients
        self._origins = origins
        self._dispatch = dispatch

    def request(self, client: Client, message: Message) -> None:
        """Route what is about a resource."""
        uri = message.params.get("uri")
        if type(uri) is not str:
            text = f"{message.method} needs a uri in params"
            self._dispatch.deny(client, message, INVALID_PARAMS, text)
        elif self._dispatch.refuse_withheld(client, message, uri):
            return
        elif message.method == "resources/unsubscribe":
            self._unsubscribe(client, message, uri)
        else:
            self._find(client, message, uri)

    def _find(self, client: Client, message: Message, uri: str) -> None:
        """Ask those who may have a resource, the likeliest first."""
        owners, own = self._holders(message.method or "", uri)
        if owners:
            self._dispatch.send(self._call(client, message, uri, own), owners)
        elif message.method in SKILL_METHODS:
            text = f"No skill is served at {uri}"
            self._dispatch.deny(client, message, INVALID_PARAMS, text)
        else:
            text, data = f"Resource not found: {uri}", obj(uri=quote(uri))
            self._dispatch.deny(client, message, RESOURCE_NOT_FOUND, text, data)

    def _call(self, client: Client, message: Message, uri: str, own: str) -> Call:
        """Return the call for a request; `own` is its child's own URI."""
        if message.method in ("resources/subscribe", "resources/unsubscribe"):
            return SubscriptionCall(client, message, uri, self._origins)
        if own != uri:
            return SkillCall(client, message, uri, ("uri",), own)
        skilled = message.method in SKILL_METHODS and self._catalogues["skills"].apart
        return (SkillCall if skilled else Call)(client, message, uri)

    def _unsubscribe(self, client: Client, message: Message, uri: str) -> None:
        """End a subscription: at its child too, unless another client has it, or it is gone."""
        server = client.watched.pop(uri, None)
        if server is None:
            self._find(client, message, uri)
            return
        child = self._dispatch.serving(client, server)
        if not child.lifecycle.is_ready or child.is_watched(uri):
            client.deliver(result(message.id_text, "{}"))
        else:
            self._dispatch.send(self._call(client, message, uri, uri), [child])

    def complete(self, client: Client, message: Message, uri: str) -> None:
        """Ask the owner of a template for completions."""
        item = self._catalogues["templates"].find(uri)
        owners = [self._children[item.server]] if item is not None else self.owners(uri)
        able = [child for child in owners if "completions" in child.lifecycle.declared]
        if owners:
            self._dispatch.send(Call(client, message, uri), able or owners)
        else:
            self._dispatch.deny(client, message, INVALID_PARAMS, f"Nothing to complete: {uri}")

    def _holders(self, method: str, uri: str) -> tuple[list[Child], str]:
        """Return who may have what a URI is of, the likeliest first, and their own URI for it."""
        skilled = [self._children[name] for name in self._answers.plan.skilled]
        listed = self._catalogues["resources"].find(uri) is not None
        if self._catalogues["skills"].apart and method in READING_METHODS and not listed:
            from mcpagg_runtime.views.entries import own_address

            for child in skilled:
                own = own_address(uri, child.name)
                if own is not None:
                    return [child], own
        owners = self.owners(uri)
        if method in SKILL_METHODS:
            item = self._catalogues["skills"].find(uri)
            first = [self._children[item.server]] if item is not None else []
            owners = [*first, *(child for child in owners if child in skilled), *skilled]
            return list(dict.fromkeys(owners)), uri
        if method == "resources/subscribe":
            owners = [child for child in owners if _tells_of_resources(child)] or owners
        return owners, uri

    def owners(self, uri: str) -> list[Child]:
        """Return who may have a resource, the likeliest first.

        Whoever lists it is alone. Else it is those whose templates fit, whoever named the URI in a
        result or in the description of a tool, and then every other child that has resources.
        Those that are down come last: they can only say that they are. Under `refuse` nobody is
        asked for what does not fit: it may be another spelling of what is withheld.
        """
        item = self._catalogues["resources"].find(uri)
        if item is not None:
            return [self._children[item.server]]
        templates, tools = self._catalogues["templates"], self._catalogues["tools"]
        servers = [
            server
            for server in self._children
            if any(fits(item.original, uri) for item in templates.served(server))
        ]
        guarded = self._answers.plan.options.on_drift == "refuse"
        if not guarded:
            servers += [self._origins.of(uri) or ""]
        if uri.startswith(APP_SCHEME):
            servers += [s for s in self._children if any(i.names(uri) for i in tools.served(s))]
        if not guarded:
            servers += [s for s, c in self._children.items() if "resources" in c.lifecycle.declared]
        owners = [self._children[name] for name in dict.fromkeys(servers) if name]
        shown = [child for child in owners if not hides_address(uri, child.row)]
        return sorted(shown, key=lambda child: child.state == DOWN)


def _tells_of_resources(child: Child) -> bool:
    declared = child.lifecycle.declared.get("resources")
    return type(declared) is dict and declared.get("subscribe") is True
