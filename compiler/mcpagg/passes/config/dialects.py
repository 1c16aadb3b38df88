"""The dialects of MCP client configs, as tables: where servers sit, and what their keys mean.

A new dialect is a new row. Where it reads a key in a way of its own (another unit, another
purpose), its row says so; all else is in the tables that the rows share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcpagg.passes.config import patterns, readers
from mcpagg.passes.config.keys import CALL_MS, CALL_S, LISTING_MS, START_MS, START_S, Key
from mcpagg.passes.config.patterns import Naming, PatternReader
from mcpagg.spec import Transport

ANY = "*"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The config of one client, or of several alike: where its servers are, what its keys mean."""

    name: str
    container: tuple[str, ...] = ("mcpServers",)
    """The keys that lead to the servers; `ANY` stands for every key."""
    others: tuple[tuple[str, ...], ...] = ()
    """Further containers of the same files, beside the first."""
    files: tuple[str, ...] = ()
    """Globs for the ends of its files' paths; none if the container is distinctive enough."""
    client: str = ""
    """The client, as `--from` has it, if a file of any name is one of its."""
    schema: str = ""
    """A part of the `$schema` of its files, as good as a path."""
    signs: frozenset[str] = frozenset()
    """Keys at the root that its files have, as good as a path."""
    keys: Mapping[str, Key] = field(default_factory=dict)
    """Keys of an entry that it reads in its own way; `a.b` is key b of the object a."""
    switches: Mapping[str, bool] = field(default_factory=dict)
    """Its own keys that switch a server off, with the value that does; see also `SWITCHES`."""
    url: Transport = "streamable-http"
    """The transport of a server of which the entry gives nothing but a URL."""
    provided: Callable[[Mapping[str, Any]], bool] = lambda entry: False
    """Whether only the client itself can start the server of an entry; see also `PROVIDED`."""
    splits: bool = False
    """Whether it takes a `command` without arguments apart, as a shell does."""
    prefix: str = ""
    """What the keys of an entry's `tools` have before the names of its tools; {} is the server."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Its own references in strings: regular expression → one of `variables.KINDS`."""
    tool_patterns: Mapping[str, PatternReader] = field(default_factory=dict)
    """Paths from the root of what switches tools of all servers on or off."""
    naming: tuple[Naming, ...] = (patterns.DOUBLE,)
    """What it calls the tools of a server where it speaks of those of all servers."""
    bare: bool = False
    """Whether a name there may be that of a server's tool without anything before it."""
    server_globs: bool = False
    """Whether its lists of servers are of globs."""
    restricting: Mapping[str, str] = field(default_factory=dict)
    """Paths from the root of what restricts in a way that we cannot honour → what it does."""
    harmless: tuple[str, ...] = ()
    """Globs over paths from the root of what restricts by its name, and no server."""
    hosts: str = ""
    """Path from the root of a list of the only hosts that remote servers may have."""

    @property
    def is_standard(self) -> bool:
        """Whether its servers are in `mcpServers`, beside which the coordinator has its keys."""
        return self.container == ("mcpServers",)


def _zed_extension(entry: Mapping[str, Any]) -> bool:
    return not entry.keys() - {"settings", "enabled", "remote", "source"}


_GEMINI: dict[str, Any] = {
    "keys": {"timeout": CALL_MS},
    "url": "sse",
    "tool_patterns": {
        "tools.exclude": patterns.withheld,
        "excludeTools": patterns.withheld,
        "permissions.deny": patterns.withheld,
    },
    "naming": (Naming("mcp_{}_"), patterns.DOUBLE, Naming("{}__")),
    "bare": True,
    "restricting": {
        "sandbox": "runs the servers in a sandbox",
        "tools.sandbox": "runs the servers in a sandbox",
    },
    "harmless": ("allowedTools", "tools.allowed", "tools.disableLLMCorrection"),
}
"""What Gemini CLI and its forks share."""

_GOOSE: dict[str, Any] = {
    "keys": {
        "cmd": Key("command", readers.command),
        "envs": Key("env", readers.variables),
        "env_keys": Key("env", readers.variables),
        "uri": Key("url", readers.text),
        "timeout": CALL_S,
        "available_tools": Key("filter", readers.allowed_or_all),
    },
}
_OPENCODE: dict[str, Any] = {
    "client": "opencode",
    "keys": {"timeout": LISTING_MS, "timeout.startup": START_MS, "timeout.request": CALL_MS},
    "references": {r"\{file:(?P<rest>[^{}]+)\}": "file"},
    "tool_patterns": {
        "tools": patterns.switches,
        "permission": patterns.permissions,
        "permissions": patterns.rules("action", "effect", first=False),
    },
    "naming": (patterns.SINGLE,),
}

# The first row whose file and container fit is taken.
DIALECTS = (
    Dialect(
        "Gemini CLI",
        files=(".gemini/settings.json", "gemini-extension.json"),
        **_GEMINI,
    ),
    Dialect(
        "Qwen Code",
        files=(".qwen/settings.json", "qwen-extension.json"),
        server_globs=True,
        **_GEMINI,
    ),
    Dialect(
        "Cline",
        client="cline",
        files=("cline_mcp_settings.json", ".cline/mcp.json"),
        keys={"timeout": CALL_S},
        url="sse",
    ),
    Dialect(
        "Roo Code",
        files=(".roo/mcp.json", "settings/mcp_settings.json", ".kilocode/mcp.json"),
        keys={"timeout": Key("timeout", readers.seconds_or_milliseconds)},
    ),
    Dialect(
        "Continue",
        files=(".continue/*.yaml", ".continue/*.yml", ".continue/*.json"),
        signs=frozenset({"name", "version", "schema"}),
        keys={"apiKey": Key("token", readers.written)},
    ),
    Dialect(
        "MCPHub",
        files=("mcp_settings.json",),
        keys={"timeout": CALL_MS},
        prefix="{}-",
        harmless=("systemConfig",),
    ),
    Dialect(
        "mcphub.nvim",
        files=("mcphub/servers.json",),
        references={r"^\$: *(?P<rest>.+)": "cmd"},
    ),
    Dialect(
        "mcporter",
        files=("mcporter.json", "mcporter.jsonc"),
        keys={"executable": Key("command", readers.command)},
        splits=True,
        references={r"\$env:(?P<rest>[A-Za-z_]\w*)": "env"},
    ),
    Dialect(
        "agents of Kiro and Amazon Q",
        files=(".kiro/agents/*.json", "amazonq/cli-agents/*.json", "amazonq/agents/*.json"),
        keys={"timeout": CALL_MS},
        tool_patterns={"tools": patterns.offered},
        naming=(Naming("@{}/", "@{}", exact=True),),
        harmless=("allowedTools",),
    ),
    Dialect("Kiro", files=(".kiro/settings/mcp.json",), keys={"timeout": CALL_MS}),
    Dialect("Amazon Q", files=("amazonq/mcp.json", ".amazonq/mcp.json"), keys={"timeout": CALL_MS}),
    Dialect(
        "LibreChat",
        client="librechat",
        files=("librechat*.yaml", "librechat*.yml"),
        keys={"timeout": CALL_MS, "initTimeout": START_MS},
        switches={"startup": False},
        references={r"\{\{(?P<rest>[A-Za-z_]\w*)\}\}": "user"},
        hosts="mcpSettings.allowedDomains",
    ),
    Dialect(
        "Claude and most others",
        tool_patterns={
            "permissions.deny": patterns.withheld,
            "permissions.ask": patterns.asked,
        },
        restricting={"docker_isolation": "runs the servers in containers"},
        harmless=("projects", "cached*", "tipsHistory"),
    ),
    Dialect("VS Code, minimal clients", ("servers",), client="vscode"),
    Dialect(
        "OpenCode, newer layout",
        ("mcp", "servers"),
        files=("opencode.json", "opencode.jsonc", "opencode/*.json", "opencode/*.jsonc"),
        schema="opencode.ai",
        **_OPENCODE,
    ),
    Dialect(
        "VS Code settings, mcp-agent, OpenClaw",
        ("mcp", "servers"),
        client="vscode",
        others=(("mcp", "targets"),),
        harmless=("chat.mcp.serverSampling",),
    ),
    Dialect("VS Code workspaces", ("settings", "mcp", "servers"), client="vscode"),
    Dialect("devcontainer.json", ("customizations", "vscode", "mcp", "servers"), client="vscode"),
    Dialect(
        "devcontainer.json, settings", ("customizations", "vscode", "settings", "mcp", "servers")
    ),
    Dialect(
        "Zed",
        ("context_servers",),
        client="zed",
        keys={
            "command.path": Key("command", readers.command),
            "command.args": Key("args", readers.scalars),
            "command.env": Key("env", readers.variables),
            "settings": Key("nothing", readers.unread),
        },
        provided=_zed_extension,
        tool_patterns={"agent": patterns.zed},
        naming=(Naming("mcp:{}:", exact=True),),
    ),
    Dialect(
        "Crush",
        ("mcp",),
        client="crush",
        files=("crush.json",),
        schema="charm.land/crush",
        keys={"timeout": START_S},
        references={r"\$\((?P<rest>(?:[^()]|\([^()]*\))+)\)": "cmd"},
        harmless=("options.disabled_tools",),
    ),
    Dialect("OpenCode", ("mcp",), **_OPENCODE),
    Dialect(
        "Hermes",
        ("mcp_servers",),
        client="hermes",
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
        client="vibe",
        files=("vibe/config.toml",),
        keys={
            "command": Key("command", readers.command_line),
            "auth.type": Key("nothing", readers.unread),
            **{
                within + key: meaning
                for within in ("", "auth.")
                for key, meaning in {
                    "api_key_env": Key("token", readers.variable),
                    "api_key_header": Key("token header", readers.text),
                    "api_key_format": Key("token format", readers.token_format),
                }.items()
            },
        },
        tool_patterns={"enabled_tools": patterns.offered, "disabled_tools": patterns.withheld},
        naming=(patterns.SINGLE,),
    ),
    Dialect(
        "LiteLLM",
        ("mcp_servers",),
        signs=frozenset({"model_list"}),
        keys={
            "auth_type": Key("token scheme", readers.litellm_scheme),
            "auth_value": Key("token", readers.written),
            "authentication_token": Key("token", readers.written),
            "static_headers": Key("headers", readers.headers),
        },
    ),
    Dialect("Codex, the Messages API", ("mcp_servers",), client="codex"),
    Dialect(
        "Goose",
        ("extensions",),
        client="goose",
        files=("goose/config.yaml", "goose/config/config.yaml"),
        **_GOOSE,
    ),
    Dialect(
        "recipes of Goose", ("extensions",), signs=frozenset({"title", "description"}), **_GOOSE
    ),
    Dialect(
        "Amp settings",
        ("amp", "mcpServers"),
        client="amp",
        tool_patterns={
            "amp.tools.disable": patterns.withheld,
            "amp.permissions": patterns.rules("tool", "action", first=True),
        },
        bare=True,
        restricting={"amp.mcpPermissions": "says which servers may be started"},
    ),
    Dialect("Augment settings", ("augment.advanced", "mcpServers")),
    Dialect("Continue, old settings", ("experimental", "modelContextProtocolServers")),
    Dialect(
        "Claude Code, all projects",
        ("projects", ANY, "mcpServers"),
        harmless=("projects.*.allowedTools", "cached*", "tipsHistory"),
    ),
    Dialect("Zencoder settings", ("zencoder", "mcpServers")),
    Dialect(
        "nanobot",
        ("tools", "mcpServers"),
        others=(("tools", "mcp_servers"),),
        keys={"toolTimeout": CALL_S, "tool_timeout": CALL_S},
        harmless=("tools.[!m]*",),
    ),
    Dialect("PicoClaw", ("tools", "mcp", "servers"), harmless=("tools.[!m]*",)),
    Dialect(
        "OpenHands",
        ("mcp", "stdio_servers"),
        others=(("mcp", "sse_servers"), ("mcp", "shttp_servers")),
        keys={"api_key": Key("token", readers.written)},
    ),
)
CONTAINERS = tuple(keys for row in DIALECTS for keys in (row.container, *row.others))
COMMON_WORDS = frozenset({("mcp",), ("servers",), ("extensions",)})
"""Containers whose name stands for other things as well."""

BARE_MAP = Dialect("a map of servers", ())
ONE_SERVER = Dialect("one server", ())

OF_CATALOGUES = frozenset({"server", "packages", "remotes", "repository", "qualifiedName"})
"""Keys of what describes a server to install."""

API_DOCUMENTS = frozenset({"openapi", "swagger", "asyncapi"})
"""Keys of documents whose `servers` are those of an HTTP API."""

# Files that hold no servers to start, by keys that give them away.
_OF_CLAUDE = "a settings.json of Claude Code, which has its servers in .mcp.json and .claude.json"
_OF_REGISTRY = "a server.json of the MCP registry"
NOT_CONFIGS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"openapi"}), "an OpenAPI document"),
    (frozenset({"swagger"}), "an OpenAPI document"),
    (frozenset({"asyncapi"}), "an AsyncAPI document"),
    (frozenset({"services"}), "a compose file: its services are started in containers"),
    (frozenset({"startCommand"}), "a smithery.yaml: it says how Smithery starts one server"),
    (frozenset({"source", "environment"}), "a fastmcp.json: it describes one FastMCP server"),
    (frozenset({"source", "$schema"}), "a fastmcp.json: it describes one FastMCP server"),
    (frozenset({"packages", "$schema", "version"}), _OF_REGISTRY),
    (frozenset({"remotes", "$schema", "version"}), _OF_REGISTRY),
    (frozenset({"remotes", "name", "version"}), _OF_REGISTRY),
    (frozenset({"packages", "name", "version"}), _OF_REGISTRY),
    (frozenset({"manifest_version", "server"}), "the manifest of an MCP bundle (.mcpb)"),
    (frozenset({"dxt_version", "server"}), "the manifest of an MCP bundle (.mcpb)"),
    (frozenset({"dependencies", "scripts"}), "a package.json"),
    (frozenset({"enabledMcpjsonServers"}), _OF_CLAUDE),
    (frozenset({"enableAllProjectMcpServers"}), _OF_CLAUDE),
    (frozenset({"enabledPlugins"}), _OF_CLAUDE),
    (frozenset({"permissions", "hooks"}), _OF_CLAUDE),
    (
        frozenset({"schema_version", "image", "transport"}),
        "a run config of ToolHive, which starts its server in a container",
    ),
)

DEFAULTS = ("serverDefaults", "mcpProxy.options")
"""Paths from the root of what is meant for every entry that does not say otherwise."""

ROOT_QUIET = frozenset(
    {"$schema", "schema", "version", "name", "description", "inputs", "enabledTools", "mcpagg"}
)
ROOT_UNHONOURED = {
    "mcpServerCommand": "write the server that it starts into `mcpServers`",
    "mcp.serverCommand": "write the server that it starts into `mcpServers`",
    "mcp.timeout": "see --timeout and --connect-timeout",
}
"""Paths from the root of what is understood but not honoured, with what to do instead."""

ROOT_SWITCHES = (
    "admin.mcp.enabled",
    "chat.mcp.access",
    "chat.mcp.enabled",
    "customizations.vscode.settings.chat.mcp.access",
    "mcp.enabled",
    "mcpEnabled",
    "tools.mcp.enabled",
)
"""Paths from the root of what switches all servers on (true, "all") or off (false, "none")."""

SERVER_LISTS = {
    "mcp.allowed": True,
    "mcp.excluded": False,
    "allowMCPServers": True,
    "excludeMCPServers": False,
    "allowedMcpServers": True,
    "deniedMcpServers": False,
    "disabledMcpServers": False,
    "disabledMcpjsonServers": False,
}
"""Lists of servers' names beside the servers: True for those that run, False for the others."""
