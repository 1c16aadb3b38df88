"""How results of the revision of 2026-07-28 differ from those of older ones.

Each says of what type it is, and one that may be cached says for how long and for whom.
https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, edited, obj
from mcpagg_runtime.messages.protocol import METHODS, OTHER, SERVER_KEY

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcpagg_runtime.plan.plan import Plan

# The result of a call that has none, and of one that says nothing of its own.
UNCACHED = {"ttlMs": "0", "cacheScope": '"private"'}
# What is ours to say, or to see, in a result: whether it asks something, and how long it keeps.
_OURS = ("resultType", "inputRequests", "requestState", "_meta", *UNCACHED)
_FOLDED = frozenset(map(str.casefold, _OURS))
# What only this revision's results have.
MODERN_MEMBERS = ("resultType", "ttlMs", "cacheScope")


def completed(said: Json, plan: Plan, method: str) -> Json:
    """Return the result of a child, whichever revision it speaks, as one of this revision.

    What is already there stays: a child of this revision says it all itself.
    """
    value = said.value
    add: dict[str, str] = {}
    if value.get("resultType", "complete") == "complete":
        if "resultType" not in value:
            add["resultType"] = '"complete"'
        if method == "tools/call" and "content" not in value:
            add["content"] = "[]"
        if METHODS.get(method, OTHER).cached:
            add.update({name: hint for name, hint in UNCACHED.items() if name not in value})
    meta = value.get("_meta")
    if type(meta) is not dict:
        add["_meta"] = plan.signature
    elif SERVER_KEY not in meta:
        add["_meta"] = Json(said.part("_meta")).owned({SERVER_KEY: plan.info}).text
    others = [name for name in value if name not in _OURS and name.casefold() in _FOLDED]
    return said.owned(add, _OURS) if add or others else said


def legacy_result(said: Json, wraps: bool) -> Json:
    """Return a result of this revision as one of an older one.

    `wraps` says that the tool's output schema was wrapped, see `legacy_item`; its structured
    content is then too, as is any that is no object.
    """
    value = said.value
    add = {}
    if "structuredContent" in value and (wraps or type(value["structuredContent"]) is not dict):
        add["structuredContent"] = obj(result=said.part("structuredContent"))
    return said.edited(MODERN_MEMBERS, add)


def without_meta(params: Json, drop: Collection[str]) -> str:
    """Return params without these members of their `_meta`, and without that if none is left."""
    meta = edited(params.part("_meta"), drop=drop)
    if meta == "{}":
        return params.edited(drop=("_meta",)).text
    return params.edited(add={"_meta": meta}).text
