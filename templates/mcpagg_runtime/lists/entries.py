"""Changes to an entry's text when it is listed.

- The overlay of a tool, from the config; the snapshot, and what is compared with it, keep the
  server's own text.
- The output schema of a modern tool, for older revisions, where the output is an object.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import edited, members

if TYPE_CHECKING:
    from typing import Any


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
    """Return a tool in the form of older revisions, with an object as its output.

    For a tool of which `wraps_output` is true. Its output is wrapped as {"result": …}, as in the
    TypeScript SDK.
    """
    schema = members(text)[0]["outputSchema"][0]
    return edited(text, add={"outputSchema": _wrapped_schema(schema)})


def _wrapped_schema(schema: dict[str, Any]) -> str:
    inner = dict(schema)
    head = {"$schema": inner.pop("$schema")} if "$schema" in inner else {}
    outer = {**head, "type": "object", "properties": {"result": _moved_schema(inner)}}
    return json.dumps({**outer, "required": ["result"]}, separators=(",", ":"))


def _moved_schema(part: Any) -> Any:
    """Adapt the references within a schema to its new place.

    A schema with an `$id` stays as it is: its references are relative to that.
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
