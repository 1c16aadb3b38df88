"""What the report shows of a compilation: plain values, each text as it came from its server.

Nothing here is escaped: the template does that. No value is a secret: the launch table has its
references as they were written, and literal credentials are hidden.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpagg.costs import listed_bytes, tokens
from mcpagg.dry_run import without_credentials
from mcpagg.literal import HIDDEN, json_text
from mcpagg_runtime.base.catalogue import KINDS, PROMPTS, TOOLS, Kind
from mcpagg_runtime.serve.names import offered

if TYPE_CHECKING:
    from mcpagg.compilation import Compilation
    from mcpagg.snapshot import ChildSnapshot

COMPOSITES = "composite tools"
"""What the server "" is called: it has the composite tools."""

_FACT = re.compile(r"^#   (\w+): +(.*)$", re.MULTILINE)
_LINE_ENDS = re.compile(r"\r\n|[\n\t]")
_SHOWN_APART = {"name", "title", "description", "inputSchema", "outputSchema"}
_MANY = 8
_DEEP = 3


class Badge(NamedTuple):
    """A word about an entry; `tone` is `good`, `bad`, `odd` or `plain`."""

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
    arguments: tuple[Argument, ...]
    documents: tuple[Document, ...]

    @property
    def tokens(self) -> int:
        """About how many tokens it costs."""
        return tokens(self.size)


@dataclass(frozen=True, slots=True)
class Server:
    """One server: how it is started, what it says of itself, and what is listed of it."""

    anchor: str
    name: str
    says: str
    protocol: str
    launch: dict[str, str]
    instructions: str
    withheld: tuple[str, ...]
    tools: tuple[Entry, ...]
    others: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """The bytes of its tools."""
        return sum(tool.size for tool in self.tools)

    @property
    def tokens(self) -> int:
        """About how many tokens its tools cost."""
        return tokens(self.size)


@dataclass(frozen=True, slots=True)
class Contents:
    """All that the page shows. `facts` are those of the header of the emitted file."""

    name: str
    servers: tuple[Server, ...]
    facts: dict[str, str]
    options: dict[str, object]
    left_out: dict[str, str]
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The bytes of the list of tools."""
        return sum(server.size for server in self.servers)

    @property
    def tokens(self) -> int:
        """About how many tokens the list of tools costs."""
        return tokens(self.size)


def contents(result: Compilation) -> Contents:
    """Return what there is to show of a compilation."""
    made_of = result.made_of
    specs = {one.name: one for one in made_of.spec.servers}
    servers = []
    for number, child in enumerate(made_of.listed.children, 1):
        row = without_credentials(specs[child.name], made_of.rows[child.name])
        servers.append(_server(f"s{number}", child, row, result))
    if made_of.linked.composed.tools:
        servers.append(_composites(f"s{len(servers) + 1}", result))
    header = result.text[: result.text.index("\n\n")]
    entries = [entry for server in servers for entry in (*server.tools, *server.others)]
    kinds = dict.fromkeys((kind.name for kind in KINDS), 0)
    for entry in entries:
        kinds[entry.kind] += 1
    return Contents(
        name=result.name,
        servers=tuple(servers),
        facts=dict(_FACT.findall(header)),
        options={name: value for name, value in result.options.runtime().items() if value},
        left_out=result.left_out,
        kinds={kind: number for kind, number in kinds.items() if number or kind == TOOLS.name},
    )


def _server(
    anchor: str, child: ChildSnapshot, row: Mapping[str, Any], result: Compilation
) -> Server:
    info, entries = child.info, [*_entries(anchor, child, result)]
    return Server(
        anchor=anchor,
        name=child.name,
        says=" ".join(_text(info.get(key)) for key in ("name", "version")).strip(),
        protocol=child.protocol,
        launch=dict(_launch(row)),
        instructions=child.instructions or "",
        withheld=tuple(t["name"] for t in child.tools if not offered(t["name"], row)),
        tools=tuple(entry for entry in entries if entry.kind == TOOLS.name),
        others=tuple(entry for entry in entries if entry.kind != TOOLS.name),
    )


def _composites(anchor: str, result: Compilation) -> Server:
    composed = result.made_of.linked.composed
    tools = [
        _entry(f"{anchor}-tools-{number}", TOOLS, tool, tool["name"], "", ())
        for number, tool in enumerate(composed.tools, 1)
    ]
    return Server(anchor, COMPOSITES, "", "", {}, "", (), tuple(tools), ())


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


def _entries(anchor: str, child: ChildSnapshot, result: Compilation) -> Iterator[Entry]:
    """Yield what is listed of a server, once each, in its order."""
    routes = result.made_of.linked.routes
    for kind in KINDS:
        listed = {
            route[1]: (n, route[2])
            for n, route in routes[kind.name].items()
            if route[0] == child.name and len(route) > 2
        }
        listed |= {n: (n, "") for n, route in routes[kind.name].items() if route == (child.name,)}
        for number, item in enumerate(child.items(kind), 1):
            names = listed.pop(item[kind.key], None)
            if names is not None:
                place = f"{anchor}-{kind.name}-{number}"
                yield _entry(place, kind, item, *names, child.conditional)


def _entry(
    anchor: str,
    kind: Kind,
    item: dict[str, Any],
    exposed: str,
    portable: str,
    conditional: frozenset[str] | tuple[()],
) -> Entry:
    rest = {key: value for key, value in item.items() if key not in _SHOWN_APART}
    documents = {
        "Input schema": item.get("inputSchema"),
        "Output schema": item.get("outputSchema"),
        "All else that is listed": rest,
    }
    named = {kind.label: exposed} if kind in (TOOLS, PROMPTS) else {}
    return Entry(
        anchor=anchor,
        kind=kind.name,
        name=exposed,
        own=item[kind.key],
        portable=portable,
        title=_title(kind, item),
        description=_text(item.get("description")),
        size=listed_bytes(item, **named),
        badges=tuple(_badges(kind, item, conditional)),
        arguments=tuple(_arguments(item)),
        documents=tuple(Document(name, json_text(v)) for name, v in documents.items() if v),
    )


def _title(kind: Kind, item: Mapping[str, Any]) -> str:
    title = _text(item.get("title")) or _text(_object(item.get("annotations")).get("title"))
    return title or (_text(item.get("name")) if kind.key != "name" else "")


def _badges(
    kind: Kind, item: dict[str, Any], conditional: frozenset[str] | tuple[()]
) -> Iterator[Badge]:
    if kind is TOOLS:
        yield from _hints(_object(item.get("annotations")))
        if item["name"] in conditional:
            yield Badge("conditional", "plain", "Listed only to clients with certain capabilities")
    if any(HIDDEN.search(_LINE_ENDS.sub(" ", text)) for text in _strings(item)):
        yield Badge("hidden characters", "bad", "Holds characters that cannot be seen")


def _hints(hints: Mapping[str, Any]) -> Iterator[Badge]:
    """Yield what a server says about a tool; it says so itself, and may be wrong."""
    said = {key: hints[key] for key in hints if isinstance(hints[key], bool)}
    match said.get("readOnlyHint"), said.get("destructiveHint"):
        case True, _:
            yield Badge("read-only", "good", "readOnlyHint: true")
        case _, True:
            yield Badge("destructive", "bad", "destructiveHint: true")
        case _, False:
            yield Badge("not destructive", "plain", "destructiveHint: false")
        case _:
            yield Badge("no hint", "odd", "Clients take it for a tool that may destroy")
    if said.get("idempotentHint") and not said.get("readOnlyHint"):
        yield Badge("idempotent", "plain", "idempotentHint: true")
    if said.get("openWorldHint"):
        yield Badge("open world", "plain", "openWorldHint: true")


def _arguments(item: Mapping[str, Any]) -> Iterator[Argument]:
    if isinstance(listed := item.get("arguments"), list):  # of a prompt
        for one in map(_object, listed):
            must = one.get("required") is True
            yield Argument(_text(one.get("name")), "", must, _text(one.get("description")))
        return
    schema = _object(item.get("inputSchema"))
    required = schema.get("required")
    for name, value in _object(schema.get("properties")).items():
        must = isinstance(required, list) and name in required
        yield Argument(name, _type(value), must, _text(_object(value).get("description")))


def _type(schema: Any, depth: int = 0) -> str:
    """Say in short what a schema takes; the whole of it is shown beside."""
    if not isinstance(schema, dict) or depth > _DEEP:
        return "any" if schema is True or not schema else "…"
    if isinstance(values := schema.get("enum"), list) and values:
        more = " | …" if len(values) > _MANY else ""
        return " | ".join(json_text(value) for value in values[:_MANY]) + more
    if "const" in schema:
        return json_text(schema["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(key), list) and options:
            return " | ".join(dict.fromkeys(_type(one, depth + 1) for one in options[:_MANY]))
    if isinstance(reference := schema.get("$ref"), str):
        return reference.rpartition("/")[2]
    types = schema.get("type")
    words = [_text(one) for one in (types if isinstance(types, list) else [types])]
    if words == ["array"] and "items" in schema:
        return f"array of {_type(schema['items'], depth + 1)}"
    return " | ".join(word for word in words if word) or "any"


def _strings(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, keys included; however deep it nests."""
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                yield text
            case dict() as members:
                yield from members
                todo += members.values()
            case list() | tuple() as items:
                todo += items


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
