"""What servers are told that a client can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.envelope.discover import ModernRequest
from mcpagg_runtime.start.jsontext import edited, obj, parse
from mcpagg_runtime.start.protocol import TASKS

if TYPE_CHECKING:
    from mcpagg_runtime.start.client import Client


def relayed(client: Client) -> str:
    """Return what servers are told that a client can do in a handshake, as JSON text."""
    able = dict(client.capabilities)
    if client.extensions:
        able["extensions"] = _passing_extensions(client)
    return obj(able)


def able(client: Client) -> str:
    """Return what a server is told that a client can do when it asks for something, as JSON text.

    That is all that a modern request declares, but for what does not pass a proxy.
    """
    if not isinstance(client, ModernRequest):
        return relayed(client)
    if not client.extensions:
        return client.declared
    return edited(client.declared, add={"extensions": _passing_extensions(client)})


def visits_urls(request: ModernRequest) -> bool:
    """Whether the client of a request can be asked to have a URL visited."""
    return "url" in parse(request.capabilities.get("elicitation", "{}"))


def _passing_extensions(client: Client) -> str:
    """Return the extensions that a client declared without the one that does not pass a proxy.

    Later requests about a task name no server, so they could not be routed.
    """
    if TASKS not in client.extensions:
        return client.extensions
    return edited(client.extensions, drop=(TASKS,))
