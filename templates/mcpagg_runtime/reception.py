"""Answers from the file what a client without a handshake asks: discovery and lists.

https://modelcontextprotocol.io/specification/2026-07-28/server/discover
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.jsontext import quote
from mcpagg_runtime.message import error, failure, result
from mcpagg_runtime.protocol import (
    INVALID_PARAMS,
    LISTEN,
    MAY_ASK,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    SERVER_KEY,
)
from mcpagg_runtime.session import Session

if TYPE_CHECKING:
    from mcpagg_runtime.answers import Answers
    from mcpagg_runtime.catalogue import Catalogue
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.message import Message
    from mcpagg_runtime.plan import Plan

FORWARDED_METHODS = MAY_ASK | {"completion/complete", "skills/get", "resources/directory/read"}
LIST_MILLISECONDS = 3_600_000


def receive(answers: Answers, client: Client, message: Message) -> tuple[Session, Message | None]:
    """Take an enveloped request; return it as a session, and its answer if the desk has one.

    Any request but a discovery may mean that children will be wanted.
    """
    session = Session(client, message, answers.plan.options.names)
    method = message.method or ""
    identifier = message.raw("id")
    if session.fault:
        return session, failure(identifier, session.fault)
    if method == "server/discover":
        return session, result(identifier, _discovery(answers.plan))
    if method in answers.lists:
        client.starter = session
        if message.params.get("cursor") is not None:
            refusal = error(INVALID_PARAMS, "Unknown cursor: the list has one page")
            return session, failure(identifier, refusal)
        listing = _list_of(answers, answers.catalogues[answers.lists[method].name], session)
        return session, result(identifier, listing)
    if method == LISTEN or method in FORWARDED_METHODS or answers.extenders(method):
        client.starter = session
        return session, None
    refusal = error(METHOD_NOT_FOUND, f"Method not found: {method}")
    return session, failure(identifier, refusal)


def _discovery(plan: Plan) -> str:
    words = plan.instructions
    return (
        f'{{"resultType":"complete","supportedVersions":["{MODERN_VERSION}"],'
        f'"capabilities":{plan.capabilities},'
        + (f'"instructions":{quote(words)},' if words else "")
        + f'"ttlMs":{LIST_MILLISECONDS},"cacheScope":"public","_meta":{signature(plan)}}}'
    )


def signature(plan: Plan) -> str:
    """Return the `_meta` that says which server a result is from, as JSON text."""
    return f'{{"{SERVER_KEY}":{plan.info}}}'


def _list_of(answers: Answers, catalogue: Catalogue, session: Session) -> str:
    """Return the result of a list request."""
    texts = [text for _, text in catalogue.texts(session.spelling, session.capable)]
    ttl, scope = _hints(answers.plan, catalogue)
    return (
        f'{{"resultType":"complete","{catalogue.kind.member}":['
        + ",".join([_modern_item(text) for text in texts])
        + f'],"ttlMs":{ttl},"cacheScope":"{scope}","_meta":{signature(answers.plan)}}}'
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
    from mcpagg_runtime.jsontext import edited

    return edited(text, drop=("execution",))
