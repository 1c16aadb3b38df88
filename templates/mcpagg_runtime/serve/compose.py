"""Composes the proxy's own requests and notifications, and reads the ids of answers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.message import Json, Message
from mcpagg_runtime.start.scanner import quote

if TYPE_CHECKING:
    from mcpagg_runtime.start.message import Id


def minted(identifier: object) -> int:
    """Return the id of ours that a peer answers to, 0 for none; some write 7 as "7" or 7.0."""
    if type(identifier) is str and len(identifier) < 19 and identifier.isascii():
        return int(identifier) if identifier.isdigit() else 0
    if type(identifier) is float and identifier.is_integer():
        return int(identifier)
    return identifier if type(identifier) is int else 0


def id_text(identifier: Id) -> str:
    """Return the JSON text of a request id."""
    return quote(identifier) if type(identifier) is str else str(identifier)


def request(identifier: int | str, method: str, params: str = "") -> Message:
    """Return a request; `params` is JSON text, "" for none."""
    return _composed({"id": Json(id_text(identifier), value=identifier)}, method, params)


def notification(method: str, params: str = "") -> Message:
    """Return a notification; `params` is JSON text, "" for none."""
    return _composed({}, method, params)


def _composed(head: dict[str, Json], method: str, params: str) -> Message:
    head["method"] = Json(quote(method), value=method)
    if params:
        head["params"] = Json(params)
    return Message(head)
