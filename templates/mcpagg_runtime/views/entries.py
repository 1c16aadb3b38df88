"""What is listed of an entry in place of its server's own text.

- An overlay, which the config has for a tool: the snapshot, and what is compared with it, keep the
  server's own words.
- Output schemas of modern tools, for older revisions: the output is an object there.
- URIs of skills, where several servers have some, are kept apart by a first segment:
  `skill://refunds/SKILL.md` of the server `shop` is listed as `skill://shop/refunds/SKILL.md`. The
  extension lets a path have such a prefix, relative references stay true, and nobody takes the one
  skill for the other. https://github.com/modelcontextprotocol/ext-skills
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import edited, elements, members
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from typing import Any

_SEGMENT = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def patches_of(table: str) -> dict[tuple[str, str], str]:
    """Return {(server, tool): patch} of a table.

    `table` {server: {own name of a tool: patch}} is JSON text in which a patch has no line end.
    """
    found = {}
    for server, (_, start, _) in members(table)[0].items():
        for tool, (_, begin, end) in members(table, start)[0].items():
            found[server, tool] = table[begin:end]
    return found


def overlaid(text: str, patch: str) -> str:
    """Apply a JSON Merge Patch (RFC 7396) to an object; both are JSON texts.

    What the patch does not name stays as it was written.
    """
    found, _ = members(text)
    changes, _ = members(patch)
    changed = {}
    for name, (value, start, end) in changes.items():
        if type(value) is dict:
            known, begin, behind = found.get(name, (None, 0, 0))
            old = text[begin:behind] if type(known) is dict else "{}"
            changed[name] = overlaid(old, patch[start:end])
        elif value is not None:
            changed[name] = patch[start:end]
    return edited(text, drop=changes, add=changed)


def legacy_item(text: str) -> str:
    """Return a tool as older revisions know it: its output is an object.

    One for which `wraps_output` is true is wrapped as {"result": …}, as the TypeScript SDK does.
    """
    schema = members(text)[0]["outputSchema"][0]
    try:
        return edited(text, add={"outputSchema": _wrapped_schema(schema)})
    except RecursionError:  # nobody validates by such a schema
        return edited(text, add={"outputSchema": '{"type":"object"}'})


def _wrapped_schema(schema: dict[str, Any]) -> str:
    import json

    inner = dict(schema)
    head = {"$schema": inner.pop("$schema")} if "$schema" in inner else {}
    outer = {**head, "type": "object", "properties": {"result": _moved_schema(inner)}}
    return json.dumps({**outer, "required": ["result"]}, separators=(",", ":"))


def _moved_schema(part: Any) -> Any:
    """Let the references within a schema be meant from its new place.

    Those within a schema of its own identity are meant from that.
    """
    if type(part) is list:
        return [_moved_schema(item) for item in part]
    if type(part) is not dict or type(part.get("$id")) is str:
        return part
    return {
        name: (
            "#/properties/result" + value[1:]
            if name == "$ref"
            and type(value) is str
            and value.startswith("#")
            and value[1:2] in ("", "/")
            else _moved_schema(value)
        )
        for name, value in part.items()
    }


def server_address(uri: str, server: str) -> str:
    """Return the URI of a server's skill, or of a file in it, with the server as first segment.

    A URI without an authority stays as it is.
    """
    scheme, mark, path = uri.partition("://")
    return f"{scheme}://{_encoded(server)}/{path}" if mark else uri


def own_address(uri: str, server: str) -> str | None:
    """Return what `server_address` made this URI of, None if it is not of this server."""
    scheme, _, path = uri.partition("://")
    first, mark, rest = path.partition("/")
    return f"{scheme}://{rest}" if mark and first == _encoded(server) else None


def moved_entry(text: str, server: str) -> str:
    """Return the JSON text of a skill's entry with all its URIs as they are listed."""
    return _moved_list(_moved_uri(text, server), "resources", server)


def moved_result(text: str, server: str) -> str:
    """Return the result of a request about skills with its URIs as they are listed.

    That is a skill's entry, the entries of a folder, or the contents of a file.
    """
    found, _ = members(text)
    value, start, end = found.get("skill", (None, 0, 0))
    if type(value) is dict:
        text = edited(text, add={"skill": moved_entry(text[start:end], server)})
    return _moved_list(_moved_list(text, "resources", server), "contents", server)


def _moved_list(text: str, member: str, server: str) -> str:
    found, _ = members(text)
    value, start, _ = found.get(member, (None, 0, 0))
    if type(value) is not list:
        return text
    parts = [
        _moved_uri(text[begin:end], server) if type(item) is dict else text[begin:end]
        for item, begin, end in elements(text, start)
    ]
    return edited(text, add={member: f"[{','.join(parts)}]"})


def _moved_uri(text: str, server: str) -> str:
    uri: Any = members(text)[0].get("uri", (None,))[0]
    return (
        edited(text, add={"uri": quote(server_address(uri, server))}) if type(uri) is str else text
    )


def _encoded(server: str) -> str:
    """Return the name of a server as one segment of a URI (RFC 3986)."""
    return "".join(
        [chr(byte) if byte in _SEGMENT else f"%{byte:02X}" for byte in server.encode("utf-8")]
    )
