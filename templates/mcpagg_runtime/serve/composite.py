"""Composite tools: one tool that calls any of a few tools, named in its arguments.

{"server": "db", "tool": "query", "args": {"sql": "…"}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import place_of
from mcpagg_runtime.serve.editing import repeated, spliced
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.base.message import Message

    Subtools = Mapping[str, list[str]]


class Subcall:
    """The call of a subtool in a call of the composite tool `name`.

    `message` is the call as the client would have written it for the subtool itself: all of its
    params but `name` and `arguments` stay, and `args` stands as the text that it was written as.
    `fault` says why it is none, and what is allowed; "" if it is one.
    """

    __slots__ = ("fault", "message", "server", "tool")

    def __init__(self, message: Message, name: str, allowed: Subtools) -> None:
        self.message = message
        self.server = self.tool = ""
        arguments = message.params.get("arguments")
        given = arguments if type(arguments) is dict else {}
        twice = _twice(message)
        server, tool, args = given.get("server"), given.get("tool"), given.get("args")
        if type(server) is not str or type(tool) is not str or type(args) not in (dict, type(None)):
            shape = '{"server": SERVER, "tool": TOOL, "args": {…}}'
            self.fault = f"{name} needs the arguments {shape}; it may call {_listed(allowed)}"
        elif twice:
            self.fault = twice
        elif tool not in allowed.get(server, ()):
            self.fault = f"{name} may not call {server}/{tool}; it may call {_listed(allowed)}"
        else:
            self.fault = ""
            self.server, self.tool = server, tool
            self.message = _unwrapped(message, tool)


def _twice(message: Message) -> str:
    """Say which of the members stands twice that lead to the subtool, "" for none."""
    text = message.raw("params")
    fault = repeated(text, 0, ("arguments",))
    start, end = place_of(text, ("arguments",))
    return fault or (repeated(text, start, ("server", "tool", "args")) if end else "")


def _listed(allowed: Subtools) -> str:
    return ", ".join([f"{server}/{tool}" for server, tools in allowed.items() for tool in tools])


def _unwrapped(message: Message, tool: str) -> Message:
    """Return the call of the subtool itself."""
    text = message.raw("params")
    start, end = place_of(text, ("arguments", "args"))
    args = text[start:end]
    places = place_of(text, ("name",)), place_of(text, ("arguments",))
    new = quote(tool), args if args not in ("", "null") else "{}"
    return message.changed({"params": spliced(text, list(zip(places, new)))})  # noqa: B905
