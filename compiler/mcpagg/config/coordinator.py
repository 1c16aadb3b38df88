"""What the coordinator's config (mcp-proxy-hub) adds.

Composite tools, variables to mask, and how the proxy itself is served:

- `tools`: {NAME: {"description", "subtools": {SERVER: {"tools": [{"name", "description"}]}}}}
- `envVars`, of one server or beside all: [{"name", "value", "expand": true, "unexpand": true}]
- `serverTransport`: see `read_transport`
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcpagg.config import readers
from mcpagg.config.credentials import Credential
from mcpagg.config.findings import Place, kind, quoted
from mcpagg.literal import is_visible
from mcpagg.problems import meant
from mcpagg.spec import Composite, Mask, ServerSpec, Subtool
from mcpagg_runtime.spawn.launch import Location
from mcpagg_runtime.spawn.variables import references

_SHAPE = 'write {SERVER: {"tools": [{"name": TOOL}]}}'


def has_composites(document: Any) -> bool:
    """Tell the coordinator's `tools` from those of a client."""
    value = document.get("tools")
    members = value.values() if isinstance(value, dict) else ()
    return any(isinstance(member, dict) and "subtools" in member for member in members)


def read_composites(document: Any, servers: list[str], root: Place) -> list[Composite]:
    """Read `tools` beside the servers; `servers` are the names of all, those switched off too."""
    if not has_composites(document):
        return []
    at, members = root.at("tools"), document["tools"].items()
    found = [_composite(name, member, servers, at.at(name)) for name, member in members]
    return [composite for composite in found if composite is not None]


def _composite(name: str, value: Any, servers: list[str], at: Place) -> Composite | None:
    if not is_visible(name):
        at.error("a tool's name must be one line of visible text", "rename it")
    if not isinstance(value, dict) or not isinstance(value.get("subtools"), dict):
        at.error("expected an object with `subtools`", _SHAPE)
        return None
    readers.ignore_others(value, ("description", "subtools"), at)
    subtools: list[Subtool] = []
    for server, listed in value["subtools"].items():
        place = at.at("subtools").at(server)
        if server not in servers:
            remedy = meant(server, servers) or f"it has {', '.join(servers)}"
            place.error(f"there is no server {quoted(server)}", remedy)
        items = listed.get("tools") if isinstance(listed, dict) else listed
        if not isinstance(items, list):
            place.error(f"expected an object with a list called `tools`, found {kind(listed)}")
            continue
        place = place.at("tools") if isinstance(listed, dict) else place
        read = [_subtool(server, item, place.at(index)) for index, item in enumerate(items)]
        subtools += [one for one in read if one is not None]
    if not subtools:
        at.error("names no tool that it could call", _SHAPE)
    return Composite(
        name=name, path=at.path, subtools=tuple(subtools), description=_description(value, at)
    )


def _subtool(server: str, value: Any, at: Place) -> Subtool | None:
    if not isinstance(value, dict):
        value = {"name": value}
    readers.ignore_others(value, ("name", "description"), at)
    name = readers.text(value.get("name"), at.at("name"))
    text = _description(value, at)
    return Subtool(server=server, tool=name, path=at.path, description=text) if name else None


def _description(value: dict[str, Any], at: Place) -> str | None:
    text = value.get("description")
    if text is None or isinstance(text, str):
        return text or None
    at.at("description").error(f"expected a string, found {kind(text)}")
    return None


def read_transport(document: Any, root: Place, allow_secrets: bool) -> dict[str, Any] | None:
    """Read `serverTransport`: how the proxy itself is served, None for standard input and output.

    {"type": "stdio" | "sse" | "streamable-http", "host", "port", "path",
    "auth": {"type": "bearer", "token"}}
    """
    value, at = document.get("serverTransport"), root.at("serverTransport")
    if value is None:
        return None
    if not isinstance(value, dict):
        at.error(f"expected an object, found {kind(value)}")
        return None
    readers.ignore_others(value, ("type", "host", "port", "path", "auth"), at)
    if value.get("type") not in ("stdio", "sse", "streamable-http"):
        at.at("type").error("is none of stdio, sse and streamable-http")
    if value.get("type") == "stdio":
        return None
    found: dict[str, Any] = {"type": value.get("type")}
    for key in ("host", "path"):
        if value.get(key) is not None:
            found[key] = readers.text(value[key], at.at(key))
    if value.get("port") is not None:
        port = readers.scalar(value["port"], Place()) or ""
        if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
            at.at("port").error("expected a number from 0 to 65535")
        else:
            found["port"] = int(port)
    if value.get("auth") is not None:
        found["token"] = _token(value["auth"], at.at("auth"), allow_secrets)
    return found


def _token(value: Any, at: Place, allow_secrets: bool) -> str | None:
    """Read `auth` of `serverTransport`; return its token, which is a reference."""
    if not isinstance(value, dict) or value.get("type", "bearer") != "bearer":
        at.error("expected an object with the type bearer", 'write {"type": "bearer", "token": …}')
        return None
    readers.ignore_others(value, ("type", "token"), at)
    token = readers.text(value.get("token"), at.at("token"))
    if token is not None and not references(token):
        remedy = 'write "${MCP_PROXY_AUTH_TOKEN}" and export that, or pass --allow-secrets'
        report = at.at("token").warn if allow_secrets else at.at("token").error
        report("is a token that is written out", remedy)
    return token


def has_masks(value: Any) -> bool:
    """Tell the coordinator's `envVars` from those that set variables of a server."""
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def read_masks(value: Any, at: Place) -> tuple[Mask, ...]:
    """Read `envVars`: a list of `{name, value, expand, unexpand}`, each name once."""
    found: dict[str, Mask] = {}
    for index, item in enumerate(value):
        place = at.at(index)
        mask = _mask(item, place)
        if mask is not None and found.setdefault(mask.name, mask) is not mask:
            place.error(f"the variable {quoted(mask.name)} is listed twice", "remove one")
    return tuple(found.values())


def _mask(value: Any, at: Place) -> Mask | None:
    if not isinstance(value, dict):
        at.error(f"expected an object, found {kind(value)}", 'write {"name": NAME, "expand": true}')
        return None
    readers.ignore_others(value, ("name", "value", "expand", "unexpand"), at)
    name = readers.text(value.get("name"), at.at("name"))
    if name is None:
        return None
    if "}" in name or any(character <= " " for character in name):
        at.at("name").error("is no name of a variable")
    written = readers.scalar(value.get("value", f"${{{name}}}"), at.at("value"))
    chosen = {
        key: readers.switch(value.get(key, False), at.at(key)) or False
        for key in ("expand", "unexpand")
    }
    if not any(chosen.values()):
        at.warn("neither `expand` nor `unexpand` is true, so it does nothing")
        return None
    return Mask(name=name, path=at.at("value").path, value=written or "", **chosen)


def masked(document: Any, servers: list[ServerSpec], root: Place) -> list[ServerSpec]:
    """Give every server the variables to mask that stand beside them; its own come first."""
    value, at = document.get("envVars"), root.at("envVars")
    if value is None:
        return servers
    if not has_masks(value):
        at.warn("is not understood and ignored", "variables of a server go into its `env`")
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
