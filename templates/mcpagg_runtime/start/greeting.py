"""Static answers: the result of `initialize`, and lists cut out of the snapshot.

An item is kept as the text that its child gave, with a hole where the name stands, so that a list
costs a join and every field reaches the client unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import quote, string_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def cut_list(
    text: str, key: str, label: str, server: str, rows: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, tuple[str, str], str, str]]:
    """Yield (own name, (exposed, portable), text before and behind the name) of a server's items.

    `key` is the member by which an item is requested, `label` that of its name. `server` is "" for
    one that is served as itself. `rows` are those of
    the routing table: {exposed name: (own name, portable name)}; for what is found by its URI
    {URI: ()}, or {exposed URI: (own URI,)} where these differ. In the compiler's text
    (`literal.list_text`) an item begins a line without a space, a member of it a line with one;
    deeper lines are indented more, and strings hold no line ends.
    """
    mark, address = f'\n "{label}": ', f'\n "{key}": '
    found = {}
    for item in text[3:-2].split(",\n{") if text != "[]" else ():
        head, _, rest = f"\n {item}".partition(mark)
        name, end = string_at(rest, 0)
        own = name if key == label else string_at(f"\n {item}".partition(address)[2], 0)[0]
        found[own] = name, f'{{{_joined(head)}"{label}":', _joined(rest[end:])
    for exposed, row in rows.items():
        own = row[0] if row else exposed
        name, head, tail = found[own]
        shown = labelled(server, name)
        yield own, (exposed, row[1]) if len(row) > 1 else (shown, shown), head, tail


def _joined(text: str) -> str:
    return "".join([line.lstrip(" ") for line in text.split("\n")])


def labelled(server: str, name: str) -> str:
    """Return the name under which a resource or a template is listed; its own for no server."""
    return f"[{server}] {name}" if server else name


def list_result(member: str, items: Iterable[str]) -> str:
    """Return the result of a list request as JSON text."""
    return f'{{"{member}":[{",".join(items)}]}}'
