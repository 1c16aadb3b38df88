"""The keys that the coordinator (mcp-proxy-hub) adds to a config.

Composite tools, variables to mask, and how the proxy itself is served:

- `tools`: {NAME: {"description", "subtools": {SERVER: {"tools": [{"name", "description"}]}}}}
- `envVars`, of one server or beside all: [{"name", "value", "expand": true, "unexpand": true}]
- `serverTransport`: see `read_transport`
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcpagg.jsontext import members_of
from mcpagg.passes.config import readers
from mcpagg.passes.config.credentials import Credential
from mcpagg.passes.config.places import IS_SUBTOOLS, Place, quoted
from mcpagg.passes.config.validation import place_of, validated
from mcpagg.spec import Composite, Mask, ServerSpec, Subtool
from mcpagg_runtime.launch.launch import Location
from mcpagg_runtime.launch.variables import references

if TYPE_CHECKING:
    from mcpagg.passes.config import models


def has_composites(document: Any) -> bool:
    """Tell the coordinator's `tools` from those of a client, if `subtools` is misspelt too."""
    members = members_of(document.get("tools")).values()
    return any(
        isinstance(member, dict) and any(map(IS_SUBTOOLS.search, member)) for member in members
    )


def read_composites(document: Any, servers: list[str], root: Place) -> list[Composite]:
    """Read `tools` beside the servers; `servers` are the names of all, those switched off too."""
    if not has_composites(document):
        return []
    written, at = document["tools"], root.at("tools")
    read: models.Composites | None = validated("Composites", written, at, servers)
    return [
        Composite(
            name=name,
            path=at.at(name).path,
            description=composite.description or None,
            subtools=tuple(
                Subtool(
                    server=server,
                    tool=tool.name,
                    path=place_of(at, written, (name, "subtools", server, "tools", index)).path,
                    description=tool.description or None,
                )
                for server, listed in composite.subtools.items()
                for index, tool in enumerate(listed.tools)
            ),
        )
        for name, composite in (read or {}).items()
    ]


def read_transport(document: Any, root: Place, allow_secrets: bool) -> dict[str, Any] | None:
    """Read `serverTransport`: how the proxy itself is served, None for standard input and output.

    {"type": "stdio" | "sse" | "streamable-http", "host", "port", "path",
    "auth": {"type": "bearer", "token"}}
    """
    written, at = document.get("serverTransport"), root.at("serverTransport")
    if written is None:
        return None
    read: models.Transport | None = validated("Transport", written, at)
    if read is None or read.type == "stdio":
        return None
    token = read.auth.token if read.auth else None
    if token is not None and not references(token):
        remedy = 'write "${MCP_PROXY_AUTH_TOKEN}" and export that, or pass --allow-secrets'
        place = at.at("auth").at("token")
        report = place.warn if allow_secrets else place.error
        report("is a token that is written out", remedy)
    members = {"type": read.type, "host": read.host, "path": read.path, "port": read.port}
    return {key: value for key, value in (members | {"token": token}).items() if value is not None}


def has_masks(value: Any) -> bool:
    """Tell the coordinator's `envVars` from those that set variables of a server."""
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def read_masks(written: Any, at: Place) -> tuple[Mask, ...]:
    """Read `envVars`: a list of `{name, value, expand, unexpand}`, each name once."""
    masks: dict[str, Mask] = {}
    read: models.Masks | None = validated("Masks", written, at)
    for index, mask in enumerate(read or ()):
        place = at.at(index)
        if not (mask.expand or mask.unexpand):
            place.warn("neither `expand` nor `unexpand` is true, so it does nothing")
            continue
        if mask.name in masks:
            place.error(f"the variable {quoted(mask.name)} is listed twice", "remove one")
        value = written[index].get("value", f"${{{mask.name}}}")
        masks[mask.name] = Mask(
            name=mask.name,
            path=place.at("value").path,
            value=readers.scalar(value, place.at("value")) or "",
            expand=mask.expand,
            unexpand=mask.unexpand,
        )
    return tuple(masks.values())


def masked(document: Any, servers: list[ServerSpec], root: Place) -> list[ServerSpec]:
    """Give every server the variables to mask that stand beside them; its own come first."""
    value, at = document.get("envVars"), root.at("envVars")
    if value is None:
        return servers
    common = read_masks(value, at)
    merged = []
    for server in servers:
        own = {mask.name for mask in server.masks}
        masks = (*(mask for mask in common if mask.name not in own), *server.masks)
        merged.append(replace(server, masks=masks))
    return merged


def hidden_literals(server: ServerSpec) -> list[Credential]:
    """Return the values that are to be masked in results, and stand in the config all the same."""
    return [
        Credential(
            Location("masks", mask.name),
            "a value that clients must not see",
            f'set {mask.name} in the environment and write "${{{mask.name}}}"',
        )
        for mask in server.masks
        if mask.unexpand and not references(mask.value)
    ]
