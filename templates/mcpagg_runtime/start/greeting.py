"""What is answered from the tables alone: the handshake, and lists cut out of the snapshot.

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


def cut_list(
    text: str, key: str, label: str, server: str, rows: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, tuple[str, str], str, str]]:
    """Yield (own name, (exposed, portable), text before and behind the name) of a server's items.

    `key` is the member that an item is asked for by, `label` that of its name; `rows` {exposed
    name: (own name, portable name)} are those of the routing table, {URI: ()} of what is found by
    that, {URI as it is told: (own URI,)} where that is another one. In the compiler's text
    (`literal.list_text`) an item begins a line without a space, each of its own members a line with
    one; what is deeper is indented more, and strings hold no line ends.
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
    """Return the name that a resource or a template is listed under: its URI stays as it is."""
    return f"[{server}] {name}"


def list_result(member: str, items: Iterable[str]) -> str:
    """Return the result of a list request as JSON text."""
    return f'{{"{member}":[{",".join(items)}]}}'
