"""The tables of an emitted file: what the compiler decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import obj, parse
from mcpagg_runtime.messages.protocol import SERVER_KEY, SKILLS_EXTENSION
from mcpagg_runtime.start.digest import data_digest
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS, version_of
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

# What a file has of itself that is a string, and no JSON text.
PLAIN = ("name", "compiler", "config")


class Options:
    """The options of the compiler that a proxy follows: the table `OPTIONS`."""

    separator: str
    names: str
    """auto, spec, portable or bare."""
    start: str
    """eager or lazy."""
    on_drift: str
    """live, warn or refuse."""
    accept: Collection[str] = ()
    """The classes of changes that are served under refuse, see `changes`."""
    restart: str
    """never or on-call."""
    env: str
    """inherit or minimal."""
    timeout: float | None
    """Seconds for a call, None for no limit."""
    connect_timeout: float
    """Seconds for a handshake, or for the answer to any other request of the proxy's own."""
    idle_stop: float | None
    """After how many seconds without work a server is ended, None for never."""
    allow_failed: bool
    """Whether servers may lack a variable that is not set."""
    http: Mapping[str, Any] | None = None
    """The settings of HTTP, from the config's `serverTransport`; None for stdio alone."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.__dict__.update(given)

    @property
    def is_guarded(self) -> bool:
        """Whether what differs from the snapshot is withheld."""
        return self.on_drift == "refuse"


class Plan:
    """What the compiler decided."""

    asked: tuple[str, ...] = ()
    """The servers that the command line has served (`--as`), () for all."""
    face = ""
    """The server that is served as itself, "" for a proxy; see `face`."""
    identity = ""
    """Its `serverInfo` as JSON text, "" for that of a proxy."""
    newest = LEGACY_VERSIONS[0]
    """The newest version that it speaks with a handshake."""

    def __init__(self, tables: Mapping[str, Any], digest: str = "") -> None:
        """Read it from the tables of an emitted file; `digest` is theirs, if that is known.

        They are JSON texts, but for those of `PLAIN`, which are strings, and `snapshot`. One of
        routes has the form {server: {exposed name: [own name, portable name]}}, with an empty row
        for what is found by its URI.
        """
        self.tables = tables
        self._digest = digest
        self.name: str = tables["name"]
        self.compiler: str = tables["compiler"]
        """The version of the compiler."""
        self.config: str = tables.get("config", "")
        """The path of the config from the file's folder, "" where that is not recorded."""
        self.servers: Mapping[str, Mapping[str, Any]] = parse(tables["servers"])
        """The launch table {server: row}."""
        kinds = ("tools", "prompts", "resources", "templates", "skills")
        self.routes = {kind: _routes(tables.get(kind, "{}")) for kind in kinds}
        """The routing tables by kind of list, see Catalogue."""
        self.snapshot: Mapping[str, Mapping[str, str]] = tables["snapshot"]
        """{server: {kind: the compiler's indented JSON text of that list}}."""
        self.children: Mapping[str, Mapping[str, Any]] = parse(tables["children"])
        """The facts of each server, beside its lists.

        {server: {"protocol": the version it speaks, "handshake": the one that it also speaks, by a
        handshake, "conditional": [tools for clients with capabilities], "extensions": [those whose
        requests go to it], "hints": {"ttlMs", "cacheScope" of its lists, where it gave some},
        "needs": [variables]}}.
        """
        self.version = version_of(self.children)
        self.capabilities: str = tables["capabilities"]
        """The capabilities that it declares to clients with a handshake, as JSON text."""
        self.modern_capabilities: str = tables.get("modern_capabilities", self.capabilities)
        """The capabilities that it declares to clients without one."""
        self.instructions = "\n\n".join(parse(tables["instructions"]))
        self.options = Options(parse(tables["options"]))
        self.subtools: Mapping[str, Mapping[str, list[str]]] = parse(tables.get("subtools", "{}"))
        """{composite tool: {server: the tools that it may call}}.

        Composite tools are the snapshot of a server called "", which is never started.
        """
        self.failed: list[str] = parse(tables.get("failed", "[]"))
        """The servers that were left out because they failed when this was compiled."""
        self.approval: Mapping[str, str] = parse(tables.get("approval", "{}"))
        """{"data": the digest that was signed, "signature": of ssh-keygen}; {} for none."""
        self.profiles: str = tables.get("profiles", "")
        """The profiles to choose from, see `profiles`: JSON text, "" for none."""
        self.whole = self
        """The plan that this is a part of: itself, unless it is narrowed."""
        self.own_uris: Mapping[str, Mapping[str, list[str]]] = parse(tables.get("own_uris", "{}"))
        """{server: {kind: all its URIs}}, where another server is asked for some of them."""
        self.overlays: str = tables.get("overlays", "")
        """Patches of tools, see `lists.entries`: JSON text, "" for none."""

    @property
    def digest(self) -> str:
        """The digest of the tables, which is computed once, however often the plan is narrowed."""
        whole = self.whole
        whole._digest = whole._digest or data_digest(self.tables)
        return whole._digest

    @property
    def needs(self) -> list[str]:
        """The variables that servers need, unless an `env_file` has them."""
        return [name for facts in self.children.values() for name in facts.get("needs", ())]

    @property
    def servers_with_skills(self) -> list[str]:
        extended = self.children.items()
        return [name for name, facts in extended if SKILLS_EXTENSION in facts.get("extensions", ())]

    @property
    def info(self) -> str:
        """The `serverInfo`, as JSON text."""
        return self.identity or obj(name=quote(self.name), version=quote(self.version))

    @property
    def signature(self) -> str:
        """The `_meta` of a modern result, which names who serves, as JSON text."""
        return obj({SERVER_KEY: self.info})

    def use_names(self, names: str) -> None:
        """Have the proxy list other names than it was compiled with."""
        self.options.names = names

    def narrowed(self, **changes: Any) -> Plan:
        """Return a copy of this plan in which these attributes are others."""
        part = object.__new__(Plan)
        part.__dict__.update(self.__dict__, **changes)
        return part


def _routes(table: str) -> dict[str, tuple[str, ...]]:
    return {
        exposed: (server, *row)
        for server, rows in parse(table).items()
        for exposed, row in rows.items()
    }


def unreadable(place: str, table: Any) -> str:
    """Return the place of the first table that is no JSON text, and why it is none; "" if all are.

    Tables stand in tables; `place` is that of the one that is looked into.
    """
    if isinstance(table, dict):
        found = (unreadable(f'{place}["{name}"]', one) for name, one in table.items())
        return next(filter(None, found), "")
    try:
        parse(table)
    except Exception as problem:
        return f"{place} cannot be read: {problem}"
    return ""
