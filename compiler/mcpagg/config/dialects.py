"""The dialects of MCP client configs, as tables: where servers sit, and what their keys mean.

A new dialect is a new row. Where it reads a key in a way of its own (another unit, another
purpose), its row says so; all else is in the tables that the rows share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mcpagg.config import patterns, readers
from mcpagg.config.patterns import PatternReader
from mcpagg.config.readers import Reader
from mcpagg.spec import Transport

ANY = "*"


class Key(NamedTuple):
    """Which field of an entry a key sets, and how its value is read."""

    field: str
    read: Reader


# What a limit is for, and its unit. A limit for a start or a listing is named, not kept.
CALL_S, CALL_MS = Key("timeout", readers.seconds), Key("timeout", readers.milliseconds)
START_S, START_MS = Key("start limit", readers.seconds), Key("start limit", readers.milliseconds)
LISTING_MS = Key("listing limit", readers.milliseconds)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The config of one client, or of several alike: where its servers are, what its keys mean."""

    name: str
    container: tuple[str, ...] = ("mcpServers",)
    """The keys that lead to the servers; `ANY` stands for every key."""
    files: tuple[str, ...] = ()
    """Globs for the ends of its files' paths; none if the container is distinctive enough."""
    schema: str = ""
    """A part of the `$schema` of its files, as good as a path."""
    keys: Mapping[str, Key] = field(default_factory=dict)
    """Keys of an entry that it reads in its own way; `a.b` is key b of the object a."""
    switches: Mapping[str, bool] = field(default_factory=dict)
    """Its own keys that switch a server off, with the value that does; see also `SWITCHES`."""
    url: Transport = "streamable-http"
    """The transport of a server of which the entry gives nothing but a URL."""
    provided: Callable[[Mapping[str, Any]], bool] = lambda entry: False
    """Whether only the client itself can start the server of an entry."""
    tool_patterns: Mapping[str, PatternReader] = field(default_factory=dict)
    """Keys at the root that switch tools of all servers on or off."""
    restricting: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """Keys from the root that restrict servers in a way that we cannot honour → what they do."""
    hosts: tuple[str, ...] = ()
    """Keys from the root that lead to a list of the only hosts that remote servers may have."""


def _zed_extension(entry: Mapping[str, Any]) -> bool:
    settings_alone = "settings" in entry and not entry.keys() - {"settings", "enabled"}
    return entry.get("source") == "extension" or settings_alone


def _goose_builtin(entry: Mapping[str, Any]) -> bool:
    return entry.get("type") in ("builtin", "platform", "frontend", "inline_python")


_GEMINI_SANDBOX = {
    ("sandbox",): "runs the servers in a sandbox",
    ("tools", "sandbox"): "runs the servers in a sandbox",
}

# The first row whose file and container fit is taken.
DIALECTS = (
    Dialect(
        "Gemini CLI",
        files=(".gemini/settings.json", "gemini-extension.json"),
        keys={"timeout": CALL_MS},
        url="sse",
        restricting=_GEMINI_SANDBOX,
    ),
    Dialect(
        "Qwen Code",
        files=(".qwen/settings.json", "qwen-extension.json"),
        keys={"timeout": CALL_MS},
        url="sse",
        restricting=_GEMINI_SANDBOX,
    ),
    Dialect(
        "Cline",
        files=("cline_mcp_settings.json", ".cline/mcp.json"),
        keys={"timeout": CALL_S},
        url="sse",
    ),
    Dialect(
        "Roo Code",
        files=(".roo/mcp.json", "settings/mcp_settings.json"),
        keys={"timeout": CALL_S},
    ),
    Dialect("MCPHub", files=("mcp_settings.json",), keys={"timeout": CALL_MS}),
    Dialect("Kiro", files=(".kiro/settings/mcp.json",), keys={"timeout": CALL_MS}),
    Dialect("Amazon Q", files=("amazonq/mcp.json", ".amazonq/mcp.json"), keys={"timeout": CALL_MS}),
    Dialect(
        "LibreChat",
        files=("librechat*.yaml", "librechat*.yml"),
        keys={"timeout": CALL_MS, "initTimeout": START_MS},
        switches={"startup": False},
        hosts=("mcpSettings", "allowedDomains"),
    ),
    Dialect("Claude and most others"),
    Dialect("VS Code, minimal clients", ("servers",)),
    Dialect("VS Code settings, mcp-agent", ("mcp", "servers")),
    Dialect("devcontainer.json", ("customizations", "vscode", "mcp", "servers")),
    Dialect(
        "Zed",
        ("context_servers",),
        keys={
            "command.path": Key("command", readers.command),
            "command.args": Key("args", readers.scalars),
            "command.env": Key("env", readers.variables),
            "settings": Key("nothing", readers.unread),
        },
        provided=_zed_extension,
    ),
    Dialect(
        "Crush",
        ("mcp",),
        files=("crush.json",),
        schema="charm.land/crush",
        keys={"timeout": START_S},
    ),
    Dialect(
        "OpenCode",
        ("mcp",),
        keys={"timeout": LISTING_MS, "timeout.startup": START_MS, "timeout.request": CALL_MS},
        tool_patterns={"tools": patterns.switches, "permission": patterns.permissions},
    ),
    Dialect(
        "Hermes",
        ("mcp_servers",),
        files=("hermes/config.yaml",),
        keys={
            "timeout": CALL_S,
            "connect_timeout": START_S,
            "tools.include": Key("filter", readers.one_or_more(readers.allowed)),
            "tools.exclude": Key("filter", readers.one_or_more(readers.withheld)),
            "tools.resources": Key("nothing", readers.not_withheld),
            "tools.prompts": Key("nothing", readers.not_withheld),
        },
    ),
    Dialect(
        "Vibe",
        ("mcp_servers",),
        files=("vibe/config.toml",),
        keys={
            "command": Key("command", readers.command_line),
            "api_key_env": Key("bearer", readers.bearer),
        },
        tool_patterns={"enabled_tools": patterns.offered, "disabled_tools": patterns.withheld},
    ),
    Dialect("Codex", ("mcp_servers",)),
    Dialect(
        "Goose",
        ("extensions",),
        files=("goose/config.yaml", "goose/config/config.yaml"),
        keys={
            "cmd": Key("command", readers.command),
            "envs": Key("env", readers.variables),
            "env_keys": Key("env", readers.variables),
            "uri": Key("url", readers.text),
            "timeout": CALL_S,
            "available_tools": Key("filter", readers.allowed_or_all),
        },
        provided=_goose_builtin,
    ),
    Dialect(
        "Amp settings",
        ("amp.mcpServers",),
        restricting={("amp.mcpPermissions",): "says which servers may be started"},
    ),
    Dialect("Augment settings", ("augment.advanced", "mcpServers")),
    Dialect("Continue, old settings", ("experimental", "modelContextProtocolServers")),
    Dialect("Claude Code, all projects", ("projects", ANY, "mcpServers")),
)
COMMON_WORDS = frozenset({("mcp",), ("servers",), ("extensions",)})
"""Containers whose name stands for other things as well."""

BARE_MAP = Dialect("a map of servers", ())
ONE_SERVER = Dialect("one server", ())

# Files that hold no servers to start, by keys that give them away.
NOT_CONFIGS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"source", "environment"}), "a fastmcp.json: it describes one FastMCP server"),
    (frozenset({"packages", "$schema", "version"}), "a server.json of the MCP registry"),
    (frozenset({"manifest_version", "server"}), "the manifest of an MCP bundle (.mcpb)"),
    (frozenset({"dependencies", "scripts"}), "a package.json"),
    (
        frozenset({"schema_version", "image", "transport"}),
        "a run config of ToolHive, which starts its server in a container",
    ),
)

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
    "baseUrl": Key("url", readers.text),
    "endpoint": Key("url", readers.endpoint),
    "headers": Key("headers", readers.headers),
    "http_headers": Key("headers", readers.headers),
    "env_http_headers": Key("headers", readers.headers_of_variables),
    "bearer_token_env_var": Key("bearer", readers.bearer),
    "bearerTokenEnv": Key("bearer", readers.bearer),
    "auth": Key("oauth", readers.oauth),
    "oauth": Key("oauth", readers.oauth),
    "timeout": Key("timeout", readers.duration),
    "requestTimeout": CALL_MS,
    "request_timeout_ms": CALL_MS,
    "timeoutMs": CALL_MS,
    "tool_timeout_sec": CALL_S,
    "read_timeout_seconds": CALL_S,
    "startup_timeout_sec": START_S,
    "startup_timeout_ms": START_MS,
    "connectionTimeout": START_MS,
    "includeTools": Key("filter", readers.allowed),
    "allowedTools": Key("filter", readers.allowed),
    "enabledTools": Key("filter", readers.allowed),
    "enabled_tools": Key("filter", readers.allowed),
    "allowed_tools": Key("filter", readers.allowed),
    "include_tools": Key("filter", readers.allowed),
    "exposedTools": Key("filter", readers.allowed),
    "excludeTools": Key("filter", readers.withheld),
    "blockedTools": Key("filter", readers.withheld),
    "disabledTools": Key("filter", readers.withheld),
    "disabled_tools": Key("filter", readers.withheld),
    "deniedTools": Key("filter", readers.withheld),
    "denied_tools": Key("filter", readers.withheld),
    "exclude_tools": Key("filter", readers.withheld),
    "hiddenTools": Key("filter", readers.withheld),
    "tools": Key("filter", readers.tools),
    "toolFilter": Key("filter", readers.tool_filter),
}
STANDARD_KEYS = frozenset({"command", "args", "env", "type"})

NESTED = frozenset({"transport", "options", "requestOptions", "requestInit"})
"""Keys whose value, when it is an object, holds keys of the entry."""

SWITCHES = {"disabled": True, "enabled": False, "enable": False, "active": False, "isActive": False}
"""Keys that switch a server off in every dialect, with the value that does."""

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
    "trust chat autoStart critical persistent alwaysLoad source gallery"  # noqa: SIM905 - a word a line
    " id name displayName title description note notes icon icons tags category useCases"
    " requiredFor requiredRoles provider author homepage repository documentation version"
    " installCommands installDirectory dev comment display_name bundled iconPath startup"
    " serverInstructions start_on_launch lifecycle directTools anythingllm protocol quarantined"
    " required".split()
)
"""Keys that matter to a client, or to people."""

APPROVALS = frozenset(
    "autoApprove alwaysAllow autoApproveTools autoAllowedTools allowedWithoutApproval"  # noqa: SIM905 - a word a line
    " default_tools_approval_mode require_approval requireApproval".split()
)
"""Keys that say for which tools the client asks before it calls them."""

RESTRICTING = frozenset(
    {
        "sandbox",
        "sandboxEnabled",
        "sandboxed",
        "isolation",
        "seccomp",
        "permission_profile",
        "permissionProfile",
    }
)
"""Keys that restrict what a server may do."""

UNHONOURED = {
    "headersHelper": "it would have to be run at every start: pass a variable in `headers`",
    "api_key_header": "write the header into `headers`",
    "api_key_format": "write the header into `headers`",
    "sseReadTimeout": "use --timeout",
    "http_timeout_seconds": "use --connect-timeout",
    "inheritParentEnv": "use --env",
    "installCommand": "install it before compiling",
}
"""Keys that are understood but not honoured, with what to do instead."""

ROOT_QUIET = frozenset(
    {"$schema", "schema", "version", "name", "description", "inputs", "enabledTools", "mcpagg"}
)
ROOT_UNHONOURED: Mapping[tuple[str, ...], str] = {
    ("mcpServerCommand",): "write the server that it starts into `mcpServers`",
    ("mcp", "serverCommand"): "write the server that it starts into `mcpServers`",
}
"""What is understood but not honoured, by its keys from the root, with what to do instead."""

SERVER_LISTS: Mapping[tuple[str, ...], bool] = {
    ("mcp", "allowed"): True,
    ("mcp", "excluded"): False,
    ("allowMCPServers",): True,
    ("excludeMCPServers",): False,
    ("disabledMcpServers",): False,
    ("disabledMcpjsonServers",): False,
}
"""Lists of servers' names beside the servers: True for those that run, False for the others."""


def is_quiet(key: str) -> bool:
    """Whether an entry's key needs no warning: it only matters to the client, or is a comment."""
    return key in QUIET or key in APPROVALS or key.startswith(("_", "//", "$", "#"))
