"""How clients are told which server speaks to them: in requests, in log messages.

A client knows the proxy alone, and must be able to say which server asks and speaks. One that is
served as itself is what the client knows, so nothing is added to its words.
https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation, the security notes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, members, obj
from mcpagg_runtime.messages.protocol import SERVER_MARK
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.messages.message import Message

# Of the params of a server's request, what is checked or written here.
_CHECKED = ("message", "mode", "tools")


class Speakers:
    """Names servers in what they say."""

    def __init__(self, *, named: bool, several: bool) -> None:
        """`named`: whether anything is added; `several`: whether there are several servers."""
        self._named = named
        self._several = several

    def log(self, message: Message, server: str) -> str:
        """Return the params of a log message, whose logger is `server`, or `server/logger`."""
        if not self._named:
            return message.raw("params")
        params = message.json("params")
        logger = params.value.get("logger")
        named = f"{server}/{logger}" if type(logger) is str and logger else server
        return params.owned({"logger": quote(named)}).text

    def request(self, message: Message, server: str, token: Mapping[str, str] = {}) -> str:
        """Return the params of a server's request to a client, see `asked`.

        `token` is the member of `_meta` with another progress token, if any.
        """
        if not (self._named or token):
            return message.raw("params")
        return self.asked(message.method or "", message.json("params"), server, token)

    def asked(self, method: str, params: Json, server: str, token: Mapping[str, str] = {}) -> str:
        """Return what a server asks a client with the server's name in `_meta`.

        Where the proxy has several servers, what a person reads of an elicitation begins with the
        name, as the names of resources do.
        """
        mark = {SERVER_MARK: quote(server)} if self._named else {}
        if not (mark or token):
            return params.text
        meta = Json(params.part("_meta") if type(params.value.get("_meta")) is dict else "{}")
        add = {"_meta": meta.owned({**token, **mark}).text}
        message = params.value.get("message")
        if self._several and method == "elicitation/create" and type(message) is str:
            add["message"] = quote(f"[{server}] {message}")
        return params.owned(add, _CHECKED).text

    def required_input(self, result: Json, server: str) -> Json:
        """Return a result that requires input with the requests for it attributed."""
        if not self._named or type(result.value.get("inputRequests")) is not dict:
            return result
        text = result.part("inputRequests")
        requests = {
            key: self._entry(entry, Json(text[begin:stop]), server)
            for key, (entry, begin, stop) in members(text)[0].items()
        }
        return result.owned({"inputRequests": obj(requests)})

    def _entry(self, value: Any, entry: Json, server: str) -> str:
        method = value.get("method") if type(value) is dict else None
        if type(method) is not str or type(value.get("params", {})) is not dict:
            return entry.text
        params = self.asked(method, Json(entry.part("params") or "{}"), server)
        return entry.owned({"params": params}, ("method",)).text
