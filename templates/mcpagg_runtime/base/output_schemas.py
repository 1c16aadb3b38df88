"""Output schemas of modern tools as older revisions know them: the output is an object there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import edited, members

if TYPE_CHECKING:
    from typing import Any


def legacy_item(text: str) -> str:
    """Return a tool as older revisions know it: its output is an object.

    One for which `wraps_output` is true is wrapped as {"result": …}, as the TypeScript SDK does.
    """
    schema = members(text)[0]["outputSchema"][0]
    try:
        return edited(text, add={"outputSchema": _wrapped(schema)})
    except RecursionError:  # nobody validates by such a schema
        return edited(text, add={"outputSchema": '{"type":"object"}'})


def _wrapped(schema: dict[str, Any]) -> str:
    import json

    inner = dict(schema)
    head = {"$schema": inner.pop("$schema")} if "$schema" in inner else {}
    outer = {**head, "type": "object", "properties": {"result": _moved(inner)}}
    return json.dumps({**outer, "required": ["result"]}, separators=(",", ":"))


def _moved(part: Any) -> Any:
    """Let the references within a schema be meant from its new place.

    Those within a schema of its own identity are meant from that.
    """
    if type(part) is list:
        return [_moved(item) for item in part]
    if type(part) is not dict or type(part.get("$id")) is str:
        return part
    return {
        name: (
            "#/properties/result" + value[1:]
            if name == "$ref"
            and type(value) is str
            and value.startswith("#")
            and value[1:2] in ("", "/")
            else _moved(value)
        )
        for name, value in part.items()
    }
