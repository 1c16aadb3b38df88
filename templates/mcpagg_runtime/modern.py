"""What a client without a handshake is answered from the file, and how results differ.

Each result says of what type it is, and one that may be cached says for how long and for whom.
https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.client import MODERN_VERSION
from mcpagg_runtime.session import Session
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    error,
    failure,
    members,
    quote,
    result,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from mcpagg_runtime.catalogue import Catalogue
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.desk import Desk, Plan
    from mcpagg_runtime.wire import Message

SERVER_KEY = "io.modelcontextprotocol/serverInfo"
LISTEN = "subscriptions/listen"
# For these, and no other request, may the client be asked something before it gets its result.
MAY_ASK = frozenset({"tools/call", "prompts/get", "resources/read"})
FORWARDED_METHODS = MAY_ASK | {"completion/complete"}

LIST_MILLISECONDS = 3_600_000
# The result of a call that has none, and of one that says nothing of its own.
UNCACHED = {"ttlMs": "0", "cacheScope": '"private"'}
# What only this revision's results have.
MODERN_MEMBERS = ("resultType", "ttlMs", "cacheScope")


def receive(desk: Desk, client: Client, message: Message) -> tuple[Session, str | None]:
    """Take an enveloped request; return it as a session, and its answer if the desk has one.

    Any request but a discovery may mean that children will be wanted.
    """
    session = Session(client, message, desk.plan.options["names"])
    method = message.method or ""
    identifier = message.raw("id")
    if session.fault:
        return session, failure(identifier, session.fault)
    if method == "server/discover":
        return session, result(identifier, _discovery(desk.plan))
    if method in desk.lists:
        client.modern = session
        if message.params.get("cursor") is not None:
            refusal = error(INVALID_PARAMS, "Unknown cursor: the list has one page")
            return session, failure(identifier, refusal)
        listing = _listing(desk, desk.catalogues[desk.lists[method].name], session)
        return session, result(identifier, listing)
    if method == LISTEN or method in FORWARDED_METHODS:
        client.modern = session
        return session, None
    refusal = error(METHOD_NOT_FOUND, f"Method not found: {method}")
    return session, failure(identifier, refusal)


def _discovery(plan: Plan) -> str:
    words = plan.instructions
    return (
        f'{{"resultType":"complete","supportedVersions":["{MODERN_VERSION}"],'
        f'"capabilities":{plan.capabilities},'
        + (f'"instructions":{quote(words)},' if words else "")
        + f'"ttlMs":{LIST_MILLISECONDS},"cacheScope":"public","_meta":{_signature(plan)}}}'
    )


def _signature(plan: Plan) -> str:
    """Return the `_meta` that says which server a result is from, as JSON text."""
    return f'{{"{SERVER_KEY}":{plan.info}}}'


def _listing(desk: Desk, catalogue: Catalogue, session: Session) -> str:
    """Return the result of a list request."""
    shown = catalogue.shown(bool(session.capabilities))
    texts = [item.listed(getattr(item, session.spelling)) for item in shown]
    ttl, scope = _hints(desk.plan, catalogue)
    return (
        f'{{"resultType":"complete","{catalogue.kind.member}":['
        + ",".join([_modern_item(text) for text in texts])
        + f'],"ttlMs":{ttl},"cacheScope":"{scope}","_meta":{_signature(desk.plan)}}}'
    )


def _hints(plan: Plan, catalogue: Catalogue) -> tuple[int, str]:
    """Return for how many milliseconds a list may be kept, and for whom.

    No longer and for no more than any child said of its own. What depends on who asks (how names
    are spelled, tools for clients with capabilities) is for that client alone.
    """
    hints = [facts["hints"] for facts in plan.children.values() if "hints" in facts]
    ttl = min([LIST_MILLISECONDS, *(hint["ttlMs"] for hint in hints if "ttlMs" in hint)])
    private = any(hint.get("cacheScope") == "private" for hint in hints)
    spelled = catalogue.kind.key == "name" and plan.options["names"] == "auto"
    if private or spelled or any(catalogue.conditional.values()):
        return ttl, "private"
    return ttl, "public"


def _modern_item(text: str) -> str:
    """Return an item without what this revision's items lack: tasks are not relayed."""
    return edited(text, drop=("execution",)) if '"execution"' in text else text


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
    if method == "resources/read":
        add.update({name: hint for name, hint in UNCACHED.items() if name not in found})
    return signed(edited(text, add=add), plan)


def signed(text: str, plan: Plan) -> str:
    """Return a result that says which server it is from, unless it says so already."""
    found, _ = members(text)
    if "_meta" not in found or type(found["_meta"][0]) is not dict:
        return edited(text, add={"_meta": _signature(plan)})
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


def edited(text: str, drop: Collection[str] = (), add: Mapping[str, str] = {}) -> str:
    """Return the JSON text of an object without some members, and with others {name: JSON text}."""
    if not drop and not add:
        return text
    found, _ = members(text)
    kept = {n: text[start:end] for n, (_, start, end) in found.items() if n not in drop}
    return "{" + ",".join([f"{quote(n)}:{value}" for n, value in {**kept, **add}.items()]) + "}"
