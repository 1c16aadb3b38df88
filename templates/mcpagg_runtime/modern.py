"""How results of the revision of 2026-07-28 differ from those of older ones.

Each says of what type it is, and one that may be cached says for how long and for whom.
https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.jsontext import edited, members
from mcpagg_runtime.protocol import SERVER_KEY
from mcpagg_runtime.reception import signature

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from mcpagg_runtime.plan import Plan

# The result of a call that has none, and of one that says nothing of its own.
UNCACHED = {"ttlMs": "0", "cacheScope": '"private"'}
# What only this revision's results have.
MODERN_MEMBERS = ("resultType", "ttlMs", "cacheScope")


def completed(text: str, plan: Plan, method: str) -> str:
    """Return the result of a child, whichever revision it speaks, as one of this revision.

    What is already there stays: a child of this revision says it all itself.
    """
    found, _ = members(text)
    if "resultType" in found and found["resultType"][0] != "complete":
        return signed(text, plan)
    add = {"resultType": '"complete"'}
    if method == "tools/call" and "content" not in found:
        add["content"] = "[]"
    if method in ("resources/read", "skills/get"):
        add.update({name: hint for name, hint in UNCACHED.items() if name not in found})
    return signed(edited(text, add=add), plan)


def signed(text: str, plan: Plan) -> str:
    """Return a result that says which server it is from, unless it says so already."""
    found, _ = members(text)
    if "_meta" not in found or type(found["_meta"][0]) is not dict:
        return edited(text, add={"_meta": signature(plan)})
    value, start, end = found["_meta"]
    if SERVER_KEY in value:
        return text
    return edited(text, add={"_meta": edited(text[start:end], add={SERVER_KEY: plan.info})})


def legacy_result(text: str, wraps: bool) -> str:
    """Return a result of this revision as one of an older one.

    `wraps` says that the tool's output schema was wrapped, see `legacy_item`; its structured
    content is then too, as is any that is no object.
    """
    found, _ = members(text)
    add = {}
    if "structuredContent" in found:
        value, start, end = found["structuredContent"]
        if wraps or type(value) is not dict:
            add["structuredContent"] = f'{{"result":{text[start:end]}}}'
    if add or any(name in found for name in MODERN_MEMBERS):
        return edited(text, drop=MODERN_MEMBERS, add=add)
    return text


def legacy_item(text: str) -> str:
    """Return a tool as older revisions know it: its output is an object.

    Any other is wrapped as {"result": …}, as the TypeScript SDK does.
    """
    if not wraps_output(text):
        return text
    schema = members(text)[0]["outputSchema"][0]
    try:
        return edited(text, add={"outputSchema": _wrapped(schema)})
    except RecursionError:  # nobody validates by such a schema
        return edited(text, add={"outputSchema": '{"type":"object"}'})


def wraps_output(text: str) -> bool:
    """Whether `legacy_item` wraps the output schema of a tool, and so its structured content."""
    schema = members(text)[0].get("outputSchema", (None,))[0]
    return type(schema) is dict and schema.get("type") != "object"


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


def without_meta(text: str, names: Collection[str]) -> str:
    """Return the JSON text of params without some members of `_meta`, and without an empty one."""
    value, start, end = members(text)[0].get("_meta", (None, 0, 0))
    if type(value) is not dict:
        return text
    meta = edited(text[start:end], drop=names)
    return edited(text, drop=("_meta",)) if meta == "{}" else edited(text, add={"_meta": meta})
