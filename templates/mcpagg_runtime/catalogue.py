"""What the proxy lists: the snapshot of each child, or what it says now where that is served.

A tool is kept as the text that its child gave, with a hole where the name stands, so that a list
costs a join and every field reaches the client unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.wire import parse, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Route = tuple[str, str, str]

_NAME = '  "name": '  # how the compiler indents the one name that is the tool's own


class Tool:
    """One tool of one child: its names, and its JSON text before and behind the name."""

    __slots__ = ("exposed", "head", "original", "portable", "server", "tail")

    def __init__(self, server: str, original: str, head: str, tail: str) -> None:
        self.server = server
        self.original = original
        self.exposed = original
        self.portable = original
        self.head = head
        self.tail = tail

    def listed(self, name: str) -> str:
        """Return the JSON text of the tool under `name`."""
        return self.head + quote(name) + self.tail


class Catalogue:
    """The lists of all children as they are served now.

    `routes` is the routing table {exposed name: (server, the server's own name, portable name)},
    `snapshot` {server: {"tools": the compiler's indented JSON text}}, and `conditional` {server:
    the tools it offers only to a client with capabilities}. `live` holds the lists that are served
    instead of the snapshot, `down` the servers whose tools left the list.
    """

    def __init__(
        self,
        servers: tuple[str, ...],
        routes: Mapping[str, Route],
        snapshot: Mapping[str, Mapping[str, str]],
        conditional: Mapping[str, Iterable[str]],
    ) -> None:
        self.servers = servers
        self.routes = routes
        self.snapshot = snapshot
        self.conditional = {server: frozenset(conditional.get(server, ())) for server in servers}
        self.live: dict[str, list[Tool]] = {}
        self.down: set[str] = set()
        self._recorded: dict[str, list[Tool]] = {}
        self._names: dict[str, Tool] = {}

    def listing(self, spelling: str, capable: bool) -> str:
        """Return the `tools/list` result as JSON text.

        `spelling` is an attribute of Tool (exposed, portable); `capable` says whether
        the client declared capabilities, without which conditional tools are left out.
        """
        texts = [
            tool.listed(getattr(tool, spelling))
            for server in self.servers
            if server not in self.down
            for tool in self.served(server)
            if capable or tool.original not in self.conditional[server]
        ]
        return '{"tools":[' + ",".join(texts) + "]}"

    def served(self, server: str) -> list[Tool]:
        """Return the tools of a child as they are served now, down or not."""
        return self.live[server] if server in self.live else self.recorded(server)

    def recorded(self, server: str) -> list[Tool]:
        """Return the tools of a child as the snapshot and the routing table have them."""
        if server not in self._recorded:
            tools = {tool.original: tool for tool in _cut(server, self.snapshot[server]["tools"])}
            self._recorded[server] = []
            for exposed, (owner, original, portable) in self.routes.items():
                if owner == server:
                    tool = tools[original]
                    tool.exposed, tool.portable = exposed, portable
                    self._recorded[server].append(tool)
        return self._recorded[server]

    def serve(self, server: str, tools: list[Tool]) -> None:
        """Serve `tools` for a child from now on."""
        self.live[server] = tools
        self._names = {}

    def find(self, name: str) -> Tool | None:
        """Return the tool that a client means by `name`, in any spelling, served or down."""
        if not self._names:
            tools = [tool for server in self.servers for tool in self.served(server)]
            self._names = {tool.portable: tool for tool in tools}
            self._names.update({tool.exposed: tool for tool in tools})
        return self._names.get(name)


def _cut(server: str, text: str) -> list[Tool]:
    """Cut the compiler's text of a list of tools apart without parsing it.

    The text is json.dumps(tools, indent=1): strings hold no raw newline, so line starts alone tell
    where a tool ends (one space in) and which "name" is its own (two spaces in).
    """
    tools = []
    for chunk in text[len("[\n {") : -len("\n }\n]")].split("\n },\n {"):
        lines = chunk.split("\n")
        for index, line in enumerate(lines):
            if line.startswith(_NAME):
                comma = "," if line.endswith(",") else ""
                original = parse(line[len(_NAME) :].rstrip(","))
                head = "{" + "".join([part.strip() for part in lines[:index]]) + '"name":'
                tail = comma + "".join([part.strip() for part in lines[index + 1 :]]) + "}"
                tools.append(Tool(server, original, head, tail))
                break
    return tools
