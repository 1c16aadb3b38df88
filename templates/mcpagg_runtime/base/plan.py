"""What the compiler decided, as the emitted file holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import obj, parse
from mcpagg_runtime.base.protocol import SERVER_KEY
from mcpagg_runtime.start.greeting import version_of
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


class Options:
    """The compiler's options that a proxy heeds."""

    __slots__ = (
        "allow_failed",
        "connect_timeout",
        "env",
        "http",
        "idle_stop",
        "names",
        "on_drift",
        "restart",
        "separator",
        "start",
        "timeout",
    )

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.separator: str = given["separator"]
        self.names: str = given["names"]
        """auto, spec, portable or bare."""
        self.start: str = given["start"]
        """eager or lazy."""
        self.on_drift: str = given["on_drift"]
        """live, warn or refuse."""
        self.restart: str = given["restart"]
        """never or on-call."""
        self.env: str = given.get("env", "inherit")
        """inherit or minimal."""
        self.http: Mapping[str, Any] | None = given.get("http")
        """How many clients are served over HTTP: what the config's `serverTransport` says of it.

        None for a proxy that serves standard input and output alone.
        """
        self.timeout: float | None = given["timeout"]
        """Seconds for a call, None for no limit."""
        self.connect_timeout: float = given["connect_timeout"]
        """Seconds for a handshake, or for the answer to any other request of the proxy's own."""
        self.idle_stop: float | None = given.get("idle_stop")
        """After how many seconds without work a server is ended, None for never."""
        self.allow_failed: bool = given.get("allow_failed", False)
        """Whether servers may lack a variable that is not set."""


class Plan:
    """What the compiler decided."""

    def __init__(
        self,
        *,
        name: str,
        version: str,
        compiler: str,
        servers: Mapping[str, Mapping[str, Any]],
        routes: Mapping[str, tuple[str, ...]],
        snapshot: Mapping[str, Mapping[str, str]],
        children: Mapping[str, Mapping[str, Any]],
        instructions: str,
        options: Mapping[str, Any],
        prompts: Mapping[str, tuple[str, ...]] = {},
        skills: Mapping[str, tuple[str, ...]] = {},
        resources: Mapping[str, tuple[str, ...]] = {},
        templates: Mapping[str, tuple[str, ...]] = {},
        capabilities: str = '{"tools":{"listChanged":true}}',
        subtools: Mapping[str, Mapping[str, list[str]]] = {},
        needs: Iterable[str] = (),
        approval: Mapping[str, str] = {},
        config: str = "",
        profiles: str = "",
        overlays: str = "",
        tables: Mapping[str, Any] = {},
    ) -> None:
        self.name = name
        self.version = version
        self.compiler = compiler
        """The version of the compiler."""
        self.servers = servers
        """The launch table {server: row}."""
        self.routes = {
            "tools": routes,
            "prompts": prompts,
            "resources": resources,
            "templates": templates,
            "skills": skills,
        }
        """The routing tables, see Catalogue; `routes` is that of the tools."""
        self.snapshot = snapshot
        """{server: {kind: the compiler's indented JSON text of that list}}."""
        self.children = children
        """What else was learnt of each server.

        {server: {"protocol": the version it speaks, "conditional": [tools for clients with
        capabilities], "extensions": [those whose requests go to it], "hints": {"ttlMs",
        "cacheScope" of its lists, where it gave some}}}.
        """
        self.capabilities = capabilities
        """What the proxy declares, as JSON text."""
        self.instructions = instructions
        self.options = Options(options)
        self.subtools = subtools
        """{composite tool: {server: the tools that it may call}}.

        Composite tools are the snapshot of a server called "", which nobody starts.
        """
        self.config = config
        """Where the config lies from the file, "" where that is not recorded."""
        self.needs = needs
        """The variables that some server needs, unless its `env_file` has them."""
        self.approval = approval
        """{"data": the digest that was signed, "signature": of ssh-keygen}; {} for none."""
        self.profiles = profiles
        """The subsets to choose from, see `narrowing`: JSON text, "" for none."""
        self.whole = self
        """What this is a profile of: itself, unless it is narrowed."""
        self.overlays = overlays
        """What is listed of tools in place of their servers' words, see `overlays`: JSON text."""
        self.tables = tables
        """What all of this was read from."""

    @property
    def info(self) -> str:
        """How the proxy introduces itself, as JSON text."""
        return obj(name=quote(self.name), version=quote(self.version))

    @property
    def signature(self) -> str:
        """The `_meta` that says which server a modern result is from, as JSON text."""
        return obj({SERVER_KEY: self.info})

    def show_names(self, names: str) -> None:
        """Have the proxy show other names than it was compiled with."""
        self.options.names = names


def read_plan(tables: Mapping[str, Any]) -> Plan:
    """Return the plan that the tables of an emitted file hold.

    `tables` are JSON texts, but for `name`, `compiler` and `config`, which are strings, and
    `snapshot`. The routing tables have the form {server: {exposed name: [own name, portable
    name]}}, and an empty row for what is found by its URI.
    """
    children = parse(tables["children"])
    routes = {
        kind: {
            exposed: (server, *row)
            for server, rows in parse(tables[kind]).items()
            for exposed, row in rows.items()
        }
        for kind in ("tools", "prompts", "resources", "templates", "skills")
        if kind in tables
    }
    return Plan(
        name=tables["name"],
        version=version_of(children),
        compiler=tables["compiler"],
        servers=parse(tables["servers"]),
        routes=routes.pop("tools"),
        snapshot=tables["snapshot"],
        children=children,
        instructions="\n\n".join(parse(tables["instructions"])),
        options=parse(tables["options"]),
        capabilities=tables["capabilities"],
        subtools=parse(tables.get("subtools", "{}")),
        approval=parse(tables.get("approval", "{}")),
        config=tables.get("config", ""),
        profiles=tables.get("profiles", ""),
        overlays=tables.get("overlays", ""),
        tables=tables,
        needs=[name for facts in children.values() for name in facts.get("needs", ())],
        **routes,
    )
