"""Says which server speaks: a client knows the proxy alone, and must be able to say who asks.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation, the security notes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.jsontext import edited, members, obj
from mcpagg_runtime.protocol import SERVER_MARK
from mcpagg_runtime.scanner import quote

if TYPE_CHECKING:
    from typing import Any


def attributed_log(params: str, server: str) -> str:
    """Return the params of a log message whose logger is `server`, or `server/logger`."""
    logger = members(params)[0].get("logger", ("",))[0]
    named = f"{server}/{logger}" if type(logger) is str and logger else server
    return edited(params, add={"logger": quote(named)})


def attributed(method: str, params: str, server: str, several: bool) -> str:
    """Return the params of a server's request to a client with the server's name in `_meta`.

    Where the proxy has `several`, what a person reads of an elicitation begins with the name, as
    the names of resources do.
    """
    found, _ = members(params)
    value, start, end = found.get("_meta", (None, 0, 0))
    meta = params[start:end] if type(value) is dict else "{}"
    add = {"_meta": edited(meta, add={SERVER_MARK: quote(server)})}
    message = found.get("message", (None,))[0]
    if several and method == "elicitation/create" and type(message) is str:
        add["message"] = quote(f"[{server}] {message}")
    return edited(params, add=add)


def attributed_input(result: str, server: str, several: bool) -> str:
    """Return a result with the requests for input in it attributed, if it requires some."""
    found, _ = members(result)
    value, start, end = found.get("inputRequests", (None, 0, 0))
    if found.get("resultType", ("",))[0] != "input_required" or type(value) is not dict:
        return result
    text = result[start:end]
    requests = {
        key: _attributed_entry(entry, text[begin:stop], server, several)
        for key, (entry, begin, stop) in members(text)[0].items()
    }
    return edited(result, add={"inputRequests": edited(text, add=requests)})


def _attributed_entry(entry: Any, text: str, server: str, several: bool) -> str:
    method = entry.get("method") if type(entry) is dict else None
    params = entry.get("params", {}) if type(entry) is dict else None
    if type(method) is not str or type(params) is not dict:
        return text
    _, start, end = members(text)[0].get("params", ({}, 0, 0))
    asked = attributed(method, text[start:end] or "{}", server, several)
    return edited(text, add={"params": asked})


def mark_of(params: str) -> str:
    """Return the `_meta` of params that says which server asks, and nothing else; "" for none."""
    value = members(params)[0].get("_meta", (None,))[0]
    server = value.get(SERVER_MARK) if type(value) is dict else None
    return obj({SERVER_MARK: quote(server)}) if type(server) is str else ""
