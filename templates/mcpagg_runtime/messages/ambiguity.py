"""Requests that name more than once what they are for: it is not defined which one counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, rivals
from mcpagg_runtime.messages.protocol import ENVELOPE, METHODS, OTHER

if TYPE_CHECKING:
    from mcpagg_runtime.messages.message import Message

_OF_META = ("progressToken", *ENVELOPE)
_OF_REFERENCE = ("type", "name", "uri")


def ambiguity(message: Message) -> str:
    """Say what a request names more than once of what it is for, "" for nothing.

    What an object means that has a name twice is not defined (RFC 8259, section 4): a server may
    read another one of the two than the proxy has checked and replaced. Some ignore case, too: they
    would take the progress token, or the envelope, of somebody else's call from a second spelling.
    """
    member = METHODS.get(message.method or "", OTHER).member
    meta = message.params.get("_meta")
    twice = rivals(message.params, ("_meta",))
    twice += rivals(meta, _OF_META) if type(meta) is dict else []
    if twice:
        return f"{twice[0]} in params is another member's name, but for its case"
    if not member or not message.params:
        return ""
    params = message.members["params"]
    if params.stands_twice(member):
        return f"{member} stands more than once in params"
    if member == "ref" and type(message.params.get("ref")) is dict:
        reference = Json(params.part("ref"))
        twice = [name for name in _OF_REFERENCE if reference.stands_twice(name)]
        return f"{twice[0]} stands more than once in params" if twice else ""
    return ""
