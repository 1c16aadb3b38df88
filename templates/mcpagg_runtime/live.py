"""Reads a list that a child gives while it runs, and says how it differs from another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.catalogue import Tool
from mcpagg_runtime.names import exposed_name, offered, portable_names
from mcpagg_runtime.wire import Malformed, elements, members, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from mcpagg_runtime.catalogue import Catalogue

    Row = Mapping[str, Any]


class Difference:
    """How a list of a child differs from another one, by value and whatever the order.

    `added`, `removed` and `changed` are the tools' own names.
    """

    __slots__ = ("added", "changed", "removed")

    def __init__(self, old: Iterable[Tool], new: Iterable[Tool]) -> None:
        before, now = _values(old), _values(new)
        self.added = [name for name in now if name not in before]
        self.removed = [name for name in before if name not in now]
        both = [name for name in now if name in before]
        self.changed = [name for name in both if not _same(before[name], now[name])]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        """`+added -removed ~changed`, each name with its sign."""
        marks = (("+", self.added), ("-", self.removed), ("~", self.changed))
        return " ".join(mark + name for mark, names in marks for name in names)


def drift(catalogue: Catalogue, server: str, tools: list[Tool]) -> Difference:
    """Return how what a child says now differs from its snapshot.

    A tool that depends on the client's capabilities may be missing.
    """
    absent = catalogue.conditional[server] - {tool.original for tool in tools}
    return Difference([t for t in catalogue.recorded(server) if t.original not in absent], tools)


def read_tools(server: str, row: Row, text: str) -> list[Tool]:
    """Return the offered tools in the JSON text of a `tools/list` result, for `name_tools` to name.

    Tools without a name are passed over: nobody could call them.

    Raises:
        Malformed: the text has no list of tools.
    """
    found, _ = members(text)
    if "tools" not in found:
        raise Malformed("no tools member")
    tools = []
    for value, start, _ in elements(text, found["tools"][1]):
        name = value.get("name") if type(value) is dict else None
        if type(name) is str and name and offered(name, row):
            parts, end = members(text, start)
            _, begin, stop = parts["name"]
            tools.append(Tool(server, name, text[start:begin], text[stop:end]))
    return tools


def name_tools(
    catalogue: Catalogue, server: str, row: Row, tools: list[Tool], options: Mapping[str, Any]
) -> list[Tool]:
    """Give a child's tools their names; return them, less those whose name is taken.

    A tool keeps the names that it had. One that is listed twice is taken once.
    """
    recorded, live = catalogue.recorded(server), catalogue.live
    known = {tool.original: tool for tool in [*live.get(server, ()), *recorded]}
    taken = {t.exposed: (t.server, t.original) for others in live.values() for t in others}
    taken.update({exposed: route[:2] for exposed, route in catalogue.routes.items()})
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.original in known:
            tool.exposed = known[tool.original].exposed
        elif options["names"] != "bare":
            tool.exposed = exposed_name(server, tool.original, row, options["separator"])
        owner = server, tool.original
        if tool.original not in named and taken.setdefault(tool.exposed, owner) == owner:
            named[tool.original] = tool
    portable = portable_names(taken)
    for tool in named.values():
        same = known.get(tool.original)
        tool.portable = same.portable if same else portable[tool.exposed]
    return list(named.values())


def _values(tools: Iterable[Tool]) -> dict[str, Any]:
    return {tool.original: parse(tool.listed(tool.original)) for tool in tools}


def _same(one: Any, other: Any) -> bool:
    """JSON equality: Python's own holds true and 1 for equal, and NaN for unlike itself."""
    pairs = [(one, other)]
    while pairs:
        one, other = pairs.pop()
        if type(one) is dict and type(other) is dict:
            if one.keys() != other.keys():
                return False
            pairs += [(one[key], other[key]) for key in one]
        elif type(one) is list and type(other) is list:
            if len(one) != len(other):
                return False
            pairs += [(one[index], other[index]) for index in range(len(one))]
        elif type(one) is bool or type(other) is bool:
            if one is not other:
                return False
        elif one != other and not (type(one) is type(other) is float and repr(one) == repr(other)):
            return False
    return True
