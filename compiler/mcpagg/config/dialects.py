"""The dialects of MCP client configs, as tables: where servers sit, and what their keys are called.

A new dialect is a new row. Where its entries spell a key in a way of their own, that is a row too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mcpagg.config import readers
from mcpagg.config.readers import Reader
from mcpagg.spec import Transport

ANY = "*"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where a kind of config keeps its servers, and what it leaves unsaid about them.

    `container` are the keys that lead to the servers, `ANY` standing for every key. `files` are
    endings of the names of its files, none if the container says enough. `timeout` reads the
    entries' `timeout`; `url` is the transport of a server that gives nothing but a URL.
    """

    name: str
    container: tuple[str, ...] = ("mcpServers",)
    files: tuple[str, ...] = ()
    timeout: Reader = readers.duration
    url: Transport = "streamable-http"


# The first row whose file and container fit is taken.
DIALECTS = (
    Dialect(
        "Gemini CLI",
        files=(".gemini/settings.json", "gemini-extension.json"),
        timeout=readers.milliseconds,
        url="sse",
    ),
    Dialect(
        "Qwen Code",
        files=(".qwen/settings.json", "qwen-extension.json"),
        timeout=readers.milliseconds,
        url="sse",
    ),
    Dialect(
        "Cline",
        files=("cline_mcp_settings.json", ".cline/mcp.json"),
        timeout=readers.seconds,
        url="sse",
    ),
    Dialect(
        "Roo Code", files=(".roo/mcp.json", "settings/mcp_settings.json"), timeout=readers.seconds
    ),
    Dialect("MCPHub", files=("mcp_settings.json",), timeout=readers.milliseconds),
    Dialect("Kiro", files=(".kiro/settings/mcp.json",), timeout=readers.milliseconds),
    Dialect(
        "Amazon Q", files=("amazonq/mcp.json", ".amazonq/mcp.json"), timeout=readers.milliseconds
    ),
    Dialect("Claude and most others"),
    Dialect("VS Code, minimal clients", ("servers",)),
    Dialect("VS Code settings", ("mcp", "servers")),
    Dialect("Zed", ("context_servers",)),
    Dialect("OpenCode", ("mcp",), timeout=readers.milliseconds),
    Dialect("Codex as JSON", ("mcp_servers",)),
    Dialect("Amp settings", ("amp.mcpServers",)),
    Dialect("Claude Code, all projects", ("projects", ANY, "mcpServers")),
)
BARE_MAP = Dialect("a map of servers", ())
ONE_SERVER = Dialect("one server", ())

# Folders of a project that hold a client's config: its paths are meant from the project.
CLIENT_FOLDERS = (
    (".agents",),
    (".amazonq",),
    (".cline",),
    (".continue", "mcpServers"),
    (".cursor",),
    (".gemini",),
    (".github",),
    (".idx",),
    (".kiro", "settings"),
    (".lmstudio",),
    (".qwen",),
    (".roo",),
    (".vscode",),
    (".zed",),
)

# Files that hold no servers to start, by keys that give them away.
NOT_CONFIGS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"source", "environment"}), "a fastmcp.json: it describes one FastMCP server"),
    (frozenset({"packages", "$schema", "version"}), "a server.json of the MCP registry"),
    (frozenset({"manifest_version", "server"}), "the manifest of an MCP bundle (.mcpb)"),
    (frozenset({"dependencies", "scripts"}), "a package.json"),
)


class Key(NamedTuple):
    """Which field of an entry a key sets, and how its value is read."""

    field: str
    read: Reader


KEYS: dict[str, Key] = {
    "command": Key("command", readers.command),
    "args": Key("args", readers.scalars),
    "arguments": Key("args", readers.scalars),
    "env": Key("env", readers.variables),
    "environment": Key("env", readers.variables),
    "envVars": Key("env", readers.variables),
    "env_vars": Key("env", readers.variables),
    "envFile": Key("env_file", readers.text),
    "env_file": Key("env_file", readers.text),
    "cwd": Key("cwd", readers.text),
    "workingDirectory": Key("cwd", readers.text),
    "working_directory": Key("cwd", readers.text),
    "type": Key("transport", readers.text),
    "transport": Key("transport", readers.text),
    "transportType": Key("transport", readers.text),
    "url": Key("url", readers.text),
    "serverUrl": Key("url", readers.text),
    "httpUrl": Key("url", readers.text),
    "sseUrl": Key("url", readers.text),
    "sseEndpoint": Key("url", readers.text),
    "endpoint": Key("url", readers.text),
    "headers": Key("headers", readers.headers),
    "http_headers": Key("headers", readers.headers),
    "bearer_token_env_var": Key("bearer", readers.bearer),
    "bearerTokenEnv": Key("bearer", readers.bearer),
    "timeout": Key("timeout", readers.duration),  # the dialect's own reader takes its place
    "requestTimeout": Key("timeout", readers.milliseconds),
    "request_timeout_ms": Key("timeout", readers.milliseconds),
    "timeoutMs": Key("timeout", readers.milliseconds),
    "tool_timeout_sec": Key("timeout", readers.seconds),
    "includeTools": Key("filter", readers.allowed),
    "allowedTools": Key("filter", readers.allowed),
    "enabledTools": Key("filter", readers.allowed),
    "enabled_tools": Key("filter", readers.allowed),
    "exposedTools": Key("filter", readers.allowed),
    "excludeTools": Key("filter", readers.withheld),
    "blockedTools": Key("filter", readers.withheld),
    "disabledTools": Key("filter", readers.withheld),
    "disabled_tools": Key("filter", readers.withheld),
    "hiddenTools": Key("filter", readers.withheld),
    "tools": Key("filter", readers.tools),
    "toolFilter": Key("filter", readers.tool_filter),
}
STANDARD_KEYS = frozenset({"command", "args", "env", "type"})

NESTED = frozenset({"transport", "options", "requestOptions", "requestInit"})
"""Keys whose value, when it is an object, holds keys of the entry."""

SWITCHES = {"disabled": True, "enabled": False, "enable": False, "active": False, "isActive": False}
"""Keys that switch a server off, with the value that does."""

URL_SAYS: dict[str, Transport] = {
    "httpUrl": "streamable-http",
    "sseUrl": "sse",
    "sseEndpoint": "sse",
}
"""Spellings of `url` that say which transport it is."""

TRANSPORTS: dict[str, Transport | None] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "streamable-http",
    "streamable": "streamable-http",
    "streamablehttp": "streamable-http",
    "sse": "sse",
    "remote": None,  # by the URL
}
"""Transports, in lower case without `-` and `_`."""

QUIET = frozenset(
    "autoApprove alwaysAllow trust chat autoStart critical persistent alwaysLoad source gallery"  # noqa: SIM905 - a word a line
    " id name displayName title description note notes icon icons tags category useCases"
    " requiredFor requiredRoles provider author homepage repository documentation version"
    " installCommands installDirectory dev comment".split()
)
"""Keys that matter to a client, or to people."""

UNHONOURED = {
    "auth": "signing in is not supported yet: pass a token in `headers`",
    "oauth": "signing in is not supported yet: pass a token in `headers`",
    "headersHelper": "it would have to be run at every start: pass a variable in `headers`",
    "connectionTimeout": "use --connect-timeout",
    "startup_timeout_sec": "use --connect-timeout",
    "inheritParentEnv": "use --env",
    "installCommand": "install it before compiling",
}
"""Keys that are understood but not honoured, with what to do instead."""

ROOT_QUIET = frozenset({"$schema", "version", "name", "description", "inputs", "enabledTools"})
ROOT_QUIET |= {"tools", "envVars"}  # see coordinator.py
ROOT_UNHONOURED = {
    "serverTransport": "use --serve",
}


def is_quiet(key: str) -> bool:
    """Tell whether an entry's key needs no word: it is a client's, or a comment."""
    return key in QUIET or key.startswith(("_", "//", "$", "#"))
