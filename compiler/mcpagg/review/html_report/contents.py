"""What the report shows of a compilation: plain values, each text as it came from its server.

Nothing here is escaped: the template does that. No value is a secret: the launch table has its
references as they were written, and literal credentials are hidden.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpagg.jsontext import members_of
from mcpagg.literal import json_line, json_text
from mcpagg.passes.freezing.trees import builder_name, builders_of
from mcpagg.passes.linking.linking import ListedItem, Subset, listed_items
from mcpagg.passes.linking.profiles import DEFAULT
from mcpagg.review.costs import listed_bytes
from mcpagg.review.dry_run import without_credentials
from mcpagg.review.html_report.changes import Changes, Key, changes_of, marks
from mcpagg_runtime.frozen.table import read_frozen
from mcpagg_runtime.lists.catalogue import KINDS, PROMPTS, TOOLS, Kind
from mcpagg_runtime.lists.hidden import HIDDEN
from mcpagg_runtime.lists.listing import is_offered
from mcpagg_runtime.lists.values import strings

if TYPE_CHECKING:
    from mcpagg.compilation import Compilation
    from mcpagg.review.reviewing import Review
    from mcpagg.snapshot import ChildSnapshot

COMPOSITES = "composite tools"
"""What the server "" is called: it has the composite tools."""

_FACT = re.compile(r"^#   (\w+): +(.*)$", re.MULTILINE)
_LINE_ENDS = re.compile(r"\r\n|[\n\t]")
_SHOWN_APART = {"name", "title", "description", "inputSchema", "outputSchema"}
_MANY = 8
_DEEP = 3


class Badge(NamedTuple):
    """A word about an entry; `tone` is `good`, `bad`, `odd`, `mark` or `plain`."""

    word: str
    tone: str
    meaning: str


class Argument(NamedTuple):
    """One argument of a tool or a prompt."""

    name: str
    type: str
    required: bool
    description: str


class Document(NamedTuple):
    """A JSON text with a heading."""

    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is listed. `own` is what its server calls it; `size` is in bytes."""

    anchor: str
    kind: str
    name: str
    own: str
    portable: str
    title: str
    description: str
    size: int
    badges: tuple[Badge, ...]
    profiles: tuple[str, ...]
    arguments: tuple[Argument, ...]
    documents: tuple[Document, ...]

    @property
    def is_moved(self) -> bool:
        """Whether it is new, or something of it has changed."""
        return any(badge.tone == "mark" for badge in self.badges)


@dataclass(frozen=True, slots=True)
class Server:
    """One server: how it is started, what it says of itself, and what is listed of it.

    `frozen` is the head of what is frozen of it, and the packages; "no" for a server that is not
    where others are, () where none is.
    """

    anchor: str
    name: str
    about: str
    protocol: str
    launch: dict[str, str]
    frozen: tuple[str, ...]
    instructions: str
    withheld: tuple[str, ...]
    tools: tuple[Entry, ...]
    others: tuple[Entry, ...]

    @property
    def size(self) -> int:
        return sum(tool.size for tool in self.tools)


class Profile(NamedTuple):
    """One profile: which clients are given it unasked, and what its tools cost."""

    name: str
    clients: str
    tools: int
    size: int


@dataclass(frozen=True, slots=True)
class Contents:
    """All that the page shows. `facts` are those of the header of the emitted file."""

    name: str
    servers: tuple[Server, ...]
    profiles: tuple[Profile, ...]
    facts: dict[str, str]
    options: dict[str, object]
    left_out: dict[str, str]
    kinds: dict[str, int]
    changes: Changes | None

    @property
    def size(self) -> int:
        return sum(server.size for server in self.servers)


def contents(result: Compilation, review: Review | None) -> Contents:
    """Return what there is to show of a compilation, and of a review of it."""
    data = result.data
    listed = listed_items(data.listed, data.linked)
    specs = {server.name: server for server in data.spec.servers}
    marked = marks(review)
    servers = []
    for number, child in enumerate(data.listed.children, 1):
        row = without_credentials(specs[child.name], data.rows[child.name])
        entries = _entries(f"s{number}", listed[child.name], child.conditional, marked, result)
        frozen = _frozen(data.frozen.get(child.name, ()))
        if child.name in data.not_frozen:
            frozen = ("no",)
        servers.append(_server(f"s{number}", child, row, frozen, entries))
    if "" in listed:
        anchor = f"s{len(servers) + 1}"
        tools = tuple(_entries(anchor, listed[""], (), marked, result))
        servers.append(Server(anchor, COMPOSITES, "", "", {}, (), "", (), tools, ()))
    header = result.text[: result.text.index("\n\n")]
    kinds = Counter(item.kind.name for items in listed.values() for item in items)
    return Contents(
        name=result.name,
        servers=tuple(servers),
        profiles=tuple(_profiles(result)),
        facts=dict(_FACT.findall(header)),
        options={name: value for name, value in result.options.runtime().items() if value},
        left_out=result.left_out,
        changes=changes_of(review, *_anchors(servers)) if review else None,
        kinds={kind.name: kinds[kind.name] for kind in KINDS if kinds[kind.name] or kind is TOOLS},
    )


def _anchors(servers: Iterable[Server]) -> tuple[dict[str, str], dict[Key, str]]:
    """Return the anchors of servers, and of what they list."""
    servers = [*servers]
    items = {
        (server.name, entry.kind[:-1], entry.own): entry.anchor
        for server in servers
        for entry in server.tools + server.others
    }
    return {server.name: server.anchor for server in servers}, items


def _profiles(result: Compilation) -> Iterator[Profile]:
    for name, costs in result.profiles.items():
        clients = result.data.linked.profiles[name].clients
        others = ("all others",) if name == DEFAULT else ()
        yield Profile(
            name,
            ", ".join((*clients, *others)),
            tools=sum(len(cost.tools) for cost in costs),
            size=sum(cost.bytes for cost in costs),
        )


def _server(
    anchor: str,
    child: ChildSnapshot,
    row: Mapping[str, Any],
    frozen: tuple[str, ...],
    entries: Iterable[Entry],
) -> Server:
    entries = tuple(entries)
    return Server(
        anchor=anchor,
        name=child.name,
        about=" ".join(_text(child.info.get(key)) for key in ("name", "version")).strip(),
        protocol=", ".join(child.protocols),
        launch=dict(_launch(row)),
        frozen=frozen,
        instructions=child.instructions or "",
        withheld=tuple(t["name"] for t in child.tools if not is_offered(t["name"], row)),
        tools=tuple(entry for entry in entries if entry.kind == TOOLS.name),
        others=tuple(entry for entry in entries if entry.kind != TOOLS.name),
    )


def _frozen(rows: Sequence[str]) -> tuple[str, ...]:
    """Return the head of a frozen server, and each package: its version, and who has built it."""
    builders = builders_of(read_frozen(rows)) if rows else {}
    packages = [
        f"{name} {version}{f', built by {builder_name(builder)}' if builder else ''}"
        for (name, version), builder in builders.items()
    ]
    return (*rows[:1], *packages)


def _entries(
    anchor: str,
    items: Iterable[ListedItem],
    conditional: Collection[str],
    marked: Mapping[Key, str],
    result: Compilation,
) -> Iterator[Entry]:
    """Yield what is listed of a server; `conditional` are the tools that not all clients see."""
    for number, item in enumerate(items, 1):
        badges = [*_badges(item)]
        if mark := marked.get((item.server, item.kind.name[:-1], item.own)):
            badges.insert(0, Badge(mark, "mark", "See what changes, above"))
        if item.kind is TOOLS and item.own in conditional:
            what = "Listed only to clients with certain capabilities"
            badges.append(Badge("conditional", "plain", what))
        profiles = result.data.linked.profiles
        is_in = [name for name, profile in profiles.items() if _is_in(item, profile)]
        yield _entry(f"{anchor}-{number}", item, badges, is_in, result.options.names)


def _launch(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a row as text, the command line first."""
    if row.get("url"):
        yield str(row["transport"]), row["url"]
    else:
        yield "command", shlex.join([row["command"], *row["args"]])
    for key, value in row.items():
        if key in ("command", "args", "url", "transport"):
            continue
        if key in ("env", "headers"):
            if value:
                yield key, "\n".join(f"{name}={text}" for name, text in value.items())
        elif isinstance(value, list):
            yield key, "\n".join(value) or "none"
        elif isinstance(value, dict):
            yield key, json_text(value)
        else:
            yield key, f"{value:g} s" if isinstance(value, float) else str(value)


def _is_in(item: ListedItem, profile: Subset) -> bool:
    tools = profile.tools.get(item.server)
    return tools is not None and (item.kind is not TOOLS or item.own in tools)


def _entry(
    anchor: str, item: ListedItem, badges: Iterable[Badge], profiles: Iterable[str], names: str
) -> Entry:
    value = item.value
    documents = {
        "Input schema": value.get("inputSchema"),
        "Output schema": value.get("outputSchema"),
        "All else that is listed": {k: v for k, v in value.items() if k not in _SHOWN_APART},
    }
    named = {"name": item.name(names)} if item.kind in (TOOLS, PROMPTS) else {}
    return Entry(
        anchor=anchor,
        kind=item.kind.name,
        name=item.exposed,
        own=item.own,
        portable=item.portable,
        title=_title(item.kind, value),
        description=_text(value.get("description")),
        size=listed_bytes(value, **named),
        badges=tuple(badges),
        profiles=tuple(profiles),
        arguments=tuple(_arguments(value)),
        documents=tuple(Document(name, json_text(v)) for name, v in documents.items() if v),
    )


def _title(kind: Kind, item: Mapping[str, Any]) -> str:
    title = _text(item.get("title")) or _text(members_of(item.get("annotations")).get("title"))
    return title or (_text(item.get("name")) if kind.key != "name" else "")


def _badges(item: ListedItem) -> Iterator[Badge]:
    if item.kind is TOOLS:
        yield from _hints(members_of(item.value.get("annotations")))
    if any(HIDDEN.search(_LINE_ENDS.sub(" ", text)) for _, text in strings(item.value)):
        yield Badge("hidden characters", "bad", "Holds characters that cannot be seen")


def _hints(hints: Mapping[str, Any]) -> Iterator[Badge]:
    """Yield what a server says about a tool; it says so itself, and may be wrong."""
    given = {key: value for key, value in hints.items() if isinstance(value, bool)}
    match given.get("readOnlyHint"), given.get("destructiveHint"):
        case True, _:
            yield Badge("read-only", "good", "readOnlyHint: true")
        case _, True:
            yield Badge("destructive", "bad", "destructiveHint: true")
        case _, False:
            yield Badge("not destructive", "plain", "destructiveHint: false")
        case _:
            yield Badge("no hint", "odd", "Clients take it for a tool that may destroy")
    if given.get("idempotentHint") and not given.get("readOnlyHint"):
        yield Badge("idempotent", "plain", "idempotentHint: true")
    if given.get("openWorldHint"):
        yield Badge("open world", "plain", "openWorldHint: true")


def _arguments(item: Mapping[str, Any]) -> Iterator[Argument]:
    if isinstance(listed := item.get("arguments"), list):  # of a prompt
        for argument in map(members_of, listed):
            must = argument.get("required") is True
            yield Argument(
                _text(argument.get("name")), "", must, _text(argument.get("description"))
            )
        return
    schema = members_of(item.get("inputSchema"))
    required = schema.get("required")
    for name, value in members_of(schema.get("properties")).items():
        must = isinstance(required, list) and name in required
        yield Argument(name, _type(value), must, _text(members_of(value).get("description")))


def _type(schema: Any, depth: int = 0) -> str:
    """Say in short what a schema takes; the whole of it is shown beside."""
    if not isinstance(schema, dict) or depth > _DEEP:
        return "any" if schema is True or not schema else "…"
    if isinstance(values := schema.get("enum"), list) and values:
        more = " | …" if len(values) > _MANY else ""
        return " | ".join(json_line(value) for value in values[:_MANY]) + more
    if "const" in schema:
        return json_line(schema["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(key), list) and options:
            return " | ".join(dict.fromkeys(_type(option, depth + 1) for option in options[:_MANY]))
    if isinstance(reference := schema.get("$ref"), str):
        return reference.rpartition("/")[2]
    types = schema.get("type")
    names = [_text(name) for name in (types if isinstance(types, list) else [types])]
    if names == ["array"] and "items" in schema:
        return f"array of {_type(schema['items'], depth + 1)}"
    return " | ".join(name for name in names if name) or "any"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
