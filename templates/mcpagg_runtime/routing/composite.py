"""Composite tools: one tool that calls any of a few tools, named in its arguments.

{"server": "db", "tool": "query", "args": {"sql": "…"}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.messages.message import Message

    Subtools = Mapping[str, list[str]]

_ARGS = (dict, type(None))


class Subcall:
    """The call of a subtool in a call of the composite tool `name`.

    `message` is the call as the client would have written it for the subtool itself: all of its
    params but `name` and `arguments` stay, and `args` stands as the text that it was written as.
    `fault` says why it is none, and what is allowed; "" if it is one.
    """

    __slots__ = ("fault", "message", "server", "tool")

    def __init__(self, message: Message, name: str, allowed: Subtools) -> None:
        params = message.json("params")
        given = message.params.get("arguments")
        arguments = Json(params.part("arguments")) if type(given) is dict else Json("{}")
        self.server, self.tool = arguments.value.get("server"), arguments.value.get("tool")
        args = arguments.value.get("args")
        twice = [one for one in ("server", "tool", "args") if arguments.stands_twice(one)]
        if params.stands_twice("arguments"):
            twice = ["arguments"]
        legal = f"it may call {_listed(allowed)}"
        if type(self.server) is not str or type(self.tool) is not str or type(args) not in _ARGS:
            shape = '{"server": SERVER, "tool": TOOL, "args": {…}}'
            self.fault = f"{name} needs the arguments {shape}; {legal}"
        elif twice:
            self.fault = f"{twice[0]} stands more than once in params"
        elif self.tool not in allowed.get(self.server, ()):
            self.fault = f"{name} may not call {self.server}/{self.tool}; {legal}"
        else:
            self.fault = ""
            inner = "{}" if args is None else arguments.part("args")
            changed = params.edited(add={"name": quote(self.tool), "arguments": inner})
            message = message.changed({"params": changed.text})
        self.message = message


def _listed(allowed: Subtools) -> str:
    return ", ".join([f"{server}/{tool}" for server, tools in allowed.items() for tool in tools])
