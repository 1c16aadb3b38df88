"""Answers from the file what modern clients ask before they need a child.

Such a client shakes no hands: each request carries an envelope that says who asks.
https://modelcontextprotocol.io/specification/2026-07-28/basic, and server/discover
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.jsontext import edited, members, obj
from mcpagg_runtime.base.message import error, failure, result
from mcpagg_runtime.base.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    INVALID_PARAMS,
    LEVEL_KEY,
    LEVELS,
    LISTEN,
    MAY_ASK,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    SKILL_METHODS,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.base.answers import Answers
    from mcpagg_runtime.base.catalogue import Catalogue
    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.base.plan import Plan

FORWARDED_METHODS = MAY_ASK | SKILL_METHODS | {"completion/complete"}
LIST_MILLISECONDS = 3_600_000


class ModernRequest(Client):
    """One request of a modern client, which the router knows as a client of its own."""

    __slots__ = ("declared", "fault", "identifier", "message", "token")

    is_modern = True

    def __init__(self, client: Client, message: Message, names: str) -> None:
        """`names` is the option of that name."""
        super().__init__(names)
        self.connection = client
        self.version = MODERN_VERSION
        self.resume(message)

    def resume(self, message: Message) -> None:
        """Let `message`, which has an envelope, be the request that is to be answered."""
        text = message.json("params").part("_meta")
        meta, _ = members(text)
        self.message = message
        self.identifier = message.raw("id")
        """The JSON text of its id."""
        self.token = _text(text, meta, "progressToken")
        """The JSON text of its progress token, "" for none."""
        self._present(text, meta.get(INFO_KEY), meta.get(CAPABILITIES_KEY))
        self.declared = _text(text, meta, CAPABILITIES_KEY)
        """All that the client can do, as JSON text."""
        level = meta[LEVEL_KEY][0] if LEVEL_KEY in meta else ""
        self.level = level if type(level) is str else ""
        self.fault = _fault({name: value for name, (value, _, _) in meta.items()})
        """The error that a bad envelope is answered with, as JSON text, "" for none."""


def _text(text: str, found: Mapping[str, tuple[Any, int, int]], name: str) -> str:
    return text[slice(*found[name][1:])] if name in found and found[name][0] is not None else ""


def _fault(meta: Mapping[str, Any]) -> str:
    """Return the error that an envelope is refused with; the version comes first.

    Whoever speaks another one may well have another envelope.
    """
    version = meta.get(VERSION_KEY)
    if type(version) is not str:
        return error(INVALID_PARAMS, f"params._meta needs {VERSION_KEY}, a string")
    if version != MODERN_VERSION:
        data = obj(supported=f"[{quote(MODERN_VERSION)}]", requested=quote(version))
        return error(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if type(meta.get(CAPABILITIES_KEY)) is not dict:
        return error(INVALID_PARAMS, f"params._meta needs {CAPABILITIES_KEY}, an object")
    if LEVEL_KEY in meta and meta[LEVEL_KEY] not in LEVELS:
        return error(INVALID_PARAMS, "Unknown log level")
    return ""


def discover(
    answers: Answers, client: Client, message: Message
) -> tuple[ModernRequest, Message | None]:
    """Take an enveloped request; return it, and its answer if the file has one.

    Any request but a discovery may mean that children will be wanted.
    """
    request = ModernRequest(client, message, answers.plan.options.names)
    method = message.method or ""
    identifier = request.identifier
    if request.fault:
        return request, failure(identifier, request.fault)
    if method == "server/discover":
        return request, result(identifier, _discovery(answers.plan))
    if method in answers.lists:
        client.want_servers(request)
        if message.params.get("cursor") is not None:
            refusal = error(INVALID_PARAMS, "Unknown cursor: the list has one page")
            return request, failure(identifier, refusal)
        listing = _list_of(answers, answers.catalogues[answers.lists[method].name], request)
        return request, result(identifier, listing)
    if method == LISTEN or method in FORWARDED_METHODS or answers.extenders(method):
        client.want_servers(request)
        return request, None
    refusal = error(METHOD_NOT_FOUND, f"Method not found: {method}")
    return request, failure(identifier, refusal)


def _discovery(plan: Plan) -> str:
    words = {"instructions": quote(plan.instructions)} if plan.instructions else {}
    return obj(
        {
            "resultType": '"complete"',
            "supportedVersions": f"[{quote(MODERN_VERSION)}]",
            "capabilities": plan.capabilities,
            **words,
            "ttlMs": str(LIST_MILLISECONDS),
            "cacheScope": '"public"',
            "_meta": plan.signature,
        }
    )


def _list_of(answers: Answers, catalogue: Catalogue, request: ModernRequest) -> str:
    """Return the result of a list request."""
    texts = [text for _, text in catalogue.texts(request.spelling, request.capable)]
    ttl, scope = _hints(answers.plan, catalogue)
    return obj(
        {
            "resultType": '"complete"',
            catalogue.kind.member: "[" + ",".join([_modern_item(text) for text in texts]) + "]",
            "ttlMs": str(ttl),
            "cacheScope": quote(scope),
            "_meta": answers.plan.signature,
        }
    )


def _hints(plan: Plan, catalogue: Catalogue) -> tuple[int, str]:
    """Return for how many milliseconds a list may be kept, and for whom.

    No longer and for no more than any child said of its own. What depends on who asks (how names
    are spelled, tools for clients with capabilities) is for that client alone.
    """
    hints = [facts["hints"] for facts in plan.children.values() if "hints" in facts]
    ttl = min([LIST_MILLISECONDS, *(hint["ttlMs"] for hint in hints if "ttlMs" in hint)])
    private = any(hint.get("cacheScope") == "private" for hint in hints)
    spelled = catalogue.kind.key == "name" and plan.options.names == "auto"
    if private or spelled or any(catalogue.conditional.values()):
        return ttl, "private"
    return ttl, "public"


def _modern_item(text: str) -> str:
    """Return an item without what this revision's items lack: tasks are not relayed."""
    if '"execution"' not in text:
        return text
    return edited(text, drop=("execution",))
