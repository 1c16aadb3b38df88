"""The static answer to `initialize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


# Revisions with a handshake, newest first: a child or client that speaks one is called legacy.
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

# The capabilities of a client that requests of servers need, and that the proxy passes on.
RELAYED = ("roots", "sampling", "elicitation")

# Clients that refuse a colon in a name: the beginning of their clientInfo.name in lower case, and
# their rule. Claude Code, VS Code, Codex and Gemini CLI rewrite names, so they need no row.
REFUSE_COLON = {
    "claude-ai": "Claude Desktop and claude.ai: ^[a-zA-Z0-9_-]{1,64}$, or all tools are withheld",
    "cursor": "Cursor: letters, digits and _, server and tool together under 60 characters",
    "github-copilot": "Copilot CLI passes names on to a model API that answers 400",
    "copilot-cli": "the same, under its other name",
}
TASKS = "io.modelcontextprotocol/tasks"  # the extension for tasks, which are not relayed


def spelling_for(names: str, client: object) -> str:
    """Return which names a client gets: "exposed" or "portable".

    `names` is the option, `client` the name in its clientInfo, if it has one.
    """
    known = names == "auto" and isinstance(client, str)
    refuses = known and str(client).lower().startswith(tuple(REFUSE_COLON))
    return "portable" if refuses or names == "portable" else "exposed"


def is_capable(declared: object) -> bool:
    """Whether a client declared a capability on which the tools of a server may depend."""
    names = (*RELAYED, "extensions")
    return type(declared) is dict and any(type(declared.get(name)) is dict for name in names)


def negotiated_version(asked: object, newest: str = LEGACY_VERSIONS[0]) -> str:
    """Return the version that a client gets which asks for one; versions are dates.

    A version that we know is accepted, since some clients take another one for fatal; any other
    request is answered with the newest.
    """
    known = isinstance(asked, str) and asked in LEGACY_VERSIONS
    return str(asked) if known and str(asked) < newest else newest


def version_of(children: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the proxy's version, which changes with what any of its servers offers.

    `children` is {server: facts}. The version is not stored in the file, since any two branches
    would conflict there.
    """
    digests = [facts["digest"].partition(":")[2] for facts in children.values()]
    return f"{sum([int(digest, 16) for digest in digests]) & 0xFFFFFFFFFFFF:012x}"


def initialize_result(version: str, capabilities: str, info: str, instructions: str) -> str:
    """Return the result of `initialize`; it, `capabilities` and `info` are JSON texts."""
    words = f',"instructions":{quote(instructions)}' if instructions else ""
    head = f'{{"protocolVersion":{quote(version)},"capabilities":{capabilities}'
    return f'{head},"serverInfo":{info}{words}}}'
