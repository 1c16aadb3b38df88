"""Requests of extensions that the proxy does not know: which servers one may be for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.catalogue import SKILLS

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the protocol itself defines, in any revision, is no extension's: whoever asks for what is not
# answered asks in vain. https://modelcontextprotocol.io/specification, the schemas
PROTOCOL_METHODS = frozenset(
    {
        *("initialize", "ping", "server/discover", "subscriptions/listen", "logging/setLevel"),
        *("tools/list", "tools/call", "prompts/list", "prompts/get", "completion/complete"),
        *("resources/list", "resources/read", "resources/templates/list"),
        *("resources/subscribe", "resources/unsubscribe", "roots/list"),
        *("sampling/createMessage", "elicitation/create"),
        *("tasks/get", "tasks/list", "tasks/cancel", "tasks/result", "tasks/update"),
        *("skills/list", "skills/get", "resources/directory/read"),
    }
)


def likely(method: str, extended: Mapping[str, list[str]]) -> list[str]:
    """Return the servers in the order in which they are to be asked.

    `extended` {server: its extensions}. Those come first whose extension the method begins with.
    """
    if method in PROTOCOL_METHODS:
        return []
    able = {
        server: [name for name in names if name != SKILLS.capability]
        for server, names in extended.items()
    }
    found = [server for server, names in able.items() if names]
    return sorted(found, key=lambda server: not any(_is_of(method, name) for name in able[server]))


def _is_of(method: str, extension: str) -> bool:
    return method.startswith((f"{extension}/", f"{extension.rpartition('/')[2]}/"))
