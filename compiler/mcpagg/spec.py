"""The one shape that every config dialect compiles to.

Strings keep their references (`${TOKEN}`) as they were written: values of the environment never
enter a spec, so nothing built from one can leak them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from mcpagg_runtime.launch.launch import Launch, Launches, Location

Transport = Literal["stdio", "sse", "streamable-http"]
Values = Mapping[str, Mapping[str, str]]
"""{server: {variable: value}}; never part of a spec."""
NO_VALUES: Values = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """One of the coordinator's `envVars`: a variable that clients name and never see.

    `path` is the JSON path of its value, which is kept as it was written. `expand` replaces
    `${NAME}` in arguments, `unexpand` the value in what the server says.
    """

    name: str
    path: str
    value: str
    expand: bool = False
    unexpand: bool = False

    def row(self) -> dict[str, Any]:
        return {"value": self.value, "expand": self.expand, "unexpand": self.unexpand}


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """How `--login` identifies us to a remote server; no part of the launch table.

    Strings are as written. Without `client_id` the authorization server is asked for one, without
    `scopes` the server's metadata say them. `port` is that of the redirect, 0 for any.
    """

    client_id: str = ""
    client_secret: str = ""
    scopes: str = ""
    port: int = 0


class Pattern(NamedTuple):
    """A pattern of tools to withhold that is for all servers, as it was written, and where.

    `prefix` is what the names of one server's tools begin with in it.
    """

    text: str
    path: str
    prefix: str

    @property
    def names_server(self) -> bool:
        """Whether it names that server, so that it is meant for its tools."""
        return self.text.startswith((self.prefix, escape(self.prefix)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """One child as the config describes it.

    `path` is the entry's JSON path (`mcpServers.github`). `timeout` is in seconds per call, None
    for no limit. `cwd` is as written. `env_file` names a `.env` file read at every start.
    """

    name: str
    path: str
    transport: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    env_file: str | None = None
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    oauth: OAuth = OAuth()
    timeout: float | None = None
    nested: bool = False
    """Whether it may start another emitted proxy."""
    expose: tuple[str, ...] | None = None
    """Globs of the tools to offer, None for all (`includeTools`, `exposedTools`, …)."""
    hide: tuple[str, ...] = ()
    """Globs of the tools to withhold; wins over `expose`."""
    patterns: dict[str, Pattern] = field(default_factory=dict)
    """{glob of `hide`: what it is from, if not from the entry}."""
    rename: dict[str, str] = field(default_factory=dict)
    """Original tool name → the exposed name that replaces `server:tool` (`exposedTools`)."""
    masks: tuple[Mask, ...] = ()
    paths: dict[Location, str] = field(default_factory=dict, repr=False)
    """Where the strings of its row stand in the config, as JSON paths."""

    @classmethod
    def from_row(cls, name: str, row: Mapping[str, Any]) -> ServerSpec:
        """Return what a row of the launch table says of how a server is started or reached."""
        names = ("transport", "command", "env", "env_file", "cwd", "url", "headers")
        masks = (Mask(name=key, path=name, **mask) for key, mask in row.get("masks", {}).items())
        return cls(
            name=name,
            path=name,
            args=tuple(row.get("args", ())),
            masks=tuple(masks),
            **{key: row[key] for key in names if key in row},
        )

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"command": self.command, "args": [*self.args], "env": {**self.env}}
        if self.transport != "stdio":
            row = {"transport": self.transport, "url": self.url, "headers": {**self.headers}}
        more: dict[str, Any] = {"cwd": self.cwd, "env_file": self.env_file, "timeout": self.timeout}
        more |= {"hide": [*self.hide], "rename": {**self.rename}}
        row.update((key, value) for key, value in more.items() if value)
        if self.expose is not None:
            row["expose"] = [*self.expose]
        if self.masks:
            row["masks"] = {mask.name: mask.row() for mask in self.masks}
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtool:
    """A tool of one server that a composite tool can call; `path` is its JSON path."""

    server: str
    tool: str
    path: str
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """A tool that calls any of several tools of servers; `path` is its JSON path."""

    name: str
    path: str
    subtools: tuple[Subtool, ...]
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named subset of what the proxy offers; `path` is its JSON path.

    `expose` and `hide` are globs of SERVER:TOOL, as the options of these names; `expose` None is
    all. `clients` are beginnings of the names of clients that get it.
    """

    name: str
    path: str
    expose: tuple[str, ...] | None = None
    hide: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


def tool_glob(glob: str, server: str) -> str | None:
    """Return the part for tools of a SERVER:TOOL glob, None if it is not for this server."""
    ends = (index for index, char in enumerate(glob) if char == ":")
    return next((glob[end + 1 :] for end in ends if fnmatchcase(server, glob[:end])), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """What is listed of a tool in place of what its server says; `path` is its JSON path.

    `patch` is a JSON Merge Patch (RFC 7396) of the tool: a member that is None is left out.
    """

    server: str
    tool: str
    path: str
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """An entry that is not part of the proxy, and why; `path` is its JSON path."""

    name: str
    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySpec:
    """A config, in the shape that every dialect is read into.

    `source` is the config's name as the user wrote it (`-` for standard input); `folder` is where
    it lies, which relative paths are resolved against and which is never written to any output.
    """

    source: str
    folder: Path
    servers: tuple[ServerSpec, ...]
    client: str = ""
    """The client, as `--from` has it, that the config is written for, "" for any."""
    composites: tuple[Composite, ...] = ()
    profiles: tuple[Profile, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    http: dict[str, Any] | None = None
    """Where to serve over HTTP, of `host`, `port`, `path`, `type` and `token` what the config says.

    The token is a reference. None for a config that says nothing of it.
    """

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        return {server.name: server.row() for server in self.servers}

    @property
    def paths(self) -> dict[str, str]:
        return {server.name: server.path for server in self.servers}

    def launches(
        self,
        names: Collection[str],
        environ: Mapping[str, str],
        minimal: bool = False,
        values: Values = NO_VALUES,
    ) -> dict[str, Launch]:
        """Return what a start of each of these servers is made of, by its name.

        `minimal` and what is raised are as in `Launches`, `values` as in `Job`.
        """
        launches = Launches(self.rows, environ, str(self.folder), minimal)
        return {
            name: launches.replaced({**environ, **values.get(name, {})}).prepare(name)
            for name in launches.rows
            if name in names
        }
