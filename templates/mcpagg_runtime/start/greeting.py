"""The handshake: what the proxy says of itself, and what that depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Revisions with a handshake, newest first: a child or client that speaks one is called legacy.
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

# What a client may declare that the proxy can pass on to a server: what servers' requests need.
RELAYED = ("roots", "sampling", "elicitation")

# Clients that refuse a colon in a name, by the start of their clientInfo.name in lower case, and
# the rule that they apply. Claude Code, VS Code, Codex and Gemini CLI rewrite names: no row needed.
REFUSE_COLON = {
    "claude-ai": "Claude Desktop and claude.ai: ^[a-zA-Z0-9_-]{1,64}$, or all tools are withheld",
    "cursor": "Cursor: letters, digits and _, server and tool together under 60 characters",
    "github-copilot": "Copilot CLI passes names on to a model API that answers 400",
    "copilot-cli": "the same, under its other name",
}


def spelling_for(names: str, client: object) -> str:
    """Return the names that a client is shown: "exposed" or "portable".

    `names` is the option of that name, `client` the name in its clientInfo, if it has one.
    """
    known = names == "auto" and isinstance(client, str)
    refuses = known and str(client).lower().startswith(tuple(REFUSE_COLON))
    return "portable" if refuses or names == "portable" else "exposed"


def is_capable(declared: object) -> bool:
    """Whether a client declared anything on which the tools of a server may depend."""
    names = (*RELAYED, "extensions")
    return type(declared) is dict and any(type(declared.get(name)) is dict for name in names)


def spoken(asked: object) -> str:
    """Return the revision that a client is answered in, which asked for one.

    Any that we know is spoken, anything else answered with the newest: some clients take another
    version than their own for fatal.
    """
    return asked if isinstance(asked, str) and asked in LEGACY_VERSIONS else LEGACY_VERSIONS[0]


def version_of(children: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the proxy's version, which changes with what any of its servers offers.

    `children` {server: what was learnt of it}. The digest of all of them stands nowhere in the
    file: two changes of different servers would always meet there.
    """
    digests = [facts["digest"].partition(":")[2] for facts in children.values()]
    return f"{sum([int(digest, 16) for digest in digests]) & 0xFFFFFFFFFFFF:012x}"


def introduction(version: str, capabilities: str, info: str, instructions: str) -> str:
    """Return the result of `initialize` as JSON text; `capabilities` and `info` are such, too."""
    words = f',"instructions":{quote(instructions)}' if instructions else ""
    head = f'{{"protocolVersion":{quote(version)},"capabilities":{capabilities}'
    return f'{head},"serverInfo":{info}{words}}}'
