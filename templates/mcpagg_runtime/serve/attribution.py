"""Says which server speaks: a client knows the proxy alone, and must be able to say who asks.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation, the security notes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.serve.editing import edited_object, place_of
from mcpagg_runtime.start.jsontext import edited, members, obj
from mcpagg_runtime.start.message import Json
from mcpagg_runtime.start.protocol import SERVER_MARK
from mcpagg_runtime.start.scanner import quote

if TYPE_CHECKING:
    from typing import Any


def attributed_log(params: Json, server: str) -> str:
    """Return the params of a log message whose logger is `server`, or `server/logger`."""
    logger = params.value.get("logger")
    named = f"{server}/{logger}" if type(logger) is str and logger else server
    return edited_object(params, add={"logger": quote(named)})


def attributed(method: str, params: Json, server: str, several: bool) -> str:
    """Return the params of a server's request to a client with the server's name in `_meta`.

    Where the proxy has `several`, what a person reads of an elicitation begins with the name, as
    the names of resources do.
    """
    meta = params.value.get("_meta")
    old = params.part("_meta") if type(meta) is dict else "{}"
    add = {"_meta": edited(old, add={SERVER_MARK: quote(server)})}
    message = params.value.get("message")
    if several and method == "elicitation/create" and type(message) is str:
        add["message"] = quote(f"[{server}] {message}")
    return edited_object(params, add=add)


def attributed_input(result: Json, server: str, several: bool) -> str:
    """Return a result that requires input with the requests for it attributed."""
    if type(result.value.get("inputRequests")) is not dict:
        return result.text
    text = result.part("inputRequests")
    requests = {
        key: _attributed_entry(entry, text[begin:stop], server, several)
        for key, (entry, begin, stop) in members(text)[0].items()
    }
    return edited_object(result, add={"inputRequests": edited(text, add=requests)})


def _attributed_entry(entry: Any, text: str, server: str, several: bool) -> str:
    method = entry.get("method") if type(entry) is dict else None
    params = entry.get("params", {}) if type(entry) is dict else None
    if type(method) is not str or type(params) is not dict:
        return text
    asked = Json(text).part("params") or "{}"
    return edited(text, add={"params": attributed(method, Json(asked), server, several)})


def mark_of(params: str) -> str:
    """Return the `_meta` of params that says which server asks, and nothing else; "" for none."""
    mark = place_of(params, ("_meta", SERVER_MARK))
    return obj({SERVER_MARK: params[slice(*mark)]}) if mark[1] else ""
