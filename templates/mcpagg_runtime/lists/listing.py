"""Reads the list of a server: which of its entries are listed, and why the others are not.

The compiler and the emitted file both read lists with this module, so that a running server is
compared with what is in its snapshot. Left out is what the config hides (`listed`), what cannot be
requested, and an entry for which strict clients refuse the whole result, which holds the lists of
all servers (`Listing`):

- a member that is not of its type, where that cannot be mended: see `mending`;
- a number that no double holds, such as NaN, Infinity and 1e400 (RFC 8259, section 6);
- a lone surrogate (section 8.2), which parsers in Rust and that of the official Python SDK refuse;
- a member of its own that stands twice (section 4), which typed parsers in Rust refuse;
- values nested deeper than such parsers go: 128 levels in Rust, 200 in the Python SDK.

Left out, too, is an entry whose name, or URI, some clients read from another member: parsers that
ignore case, such as Go's, take the last of `name` and `Name`.

So is a tool that cannot be called as its server demands: over HTTP, one whose arguments are to be
repeated in headers by a mark that is not valid (specification 2026-07-28, transports,
`x-mcp-header`).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import RESOURCES, TEMPLATES, TOOLS, Item
from mcpagg_runtime.lists.mending import WRONG, Unmendable, apply_mends, described, find_mends
from mcpagg_runtime.messages.jsontext import (
    Malformed,
    edited,
    elements,
    members,
    obj,
    read_members,
    rivals,
)
from mcpagg_runtime.plan.names import name_new
from mcpagg_runtime.plan.uri_templates import is_qualifiable
from mcpagg_runtime.start.lists import labelled
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mcpagg_runtime.lists.catalogue import Catalogue, Kind
    from mcpagg_runtime.servers.connection import Connection

    Row = Mapping[str, Any]
    Refusal = tuple[str, str, str, str]
    """(entry, JSON pointer to what strict clients refuse in it, what that is, what was done)."""

MAXIMUM_PAGES = 1000
# Levels; the message around an entry takes four more.
MAXIMUM_ENTRY_DEPTH = 100

# Bounds of a list, far beyond what real servers have.
MAXIMUM_ENTRIES = 10_000
MAXIMUM_ENTRY_CHARACTERS = 1 << 22

LEFT_OUT = "it is left out"
TOO_DEEP = f"values nested more than {MAXIMUM_ENTRY_DEPTH} deep"
TOO_LARGE = f"more than {MAXIMUM_ENTRY_CHARACTERS >> 20} MiB of text"
_LARGEST_DOUBLE = 1.7976931348623157e308


class Listing:
    """One list of a server, as far as its pages have come.

    Of several entries with one name, or URI, the first counts.
    """

    def __init__(
        self,
        kind: Kind,
        server: str,
        *,
        is_modern: bool = False,
        over_http: bool = False,
        without: Sequence[str] = (),
    ) -> None:
        """`is_modern` and `over_http` say how the server is connected: see the module.

        `without` are members that are dropped from each entry.
        """
        self.kind = kind
        self._without = without
        self._is_modern = is_modern
        self._repeats = kind is TOOLS and is_modern and over_http
        self.next_params: str | None = "{}"
        """The params of the request for the next page, as JSON text; None once all have come."""
        self.faults: list[str] = []
        """What is wrong with the list; each one completes "server 'x' …"."""
        self.left_out: list[Refusal] = []
        """The entries that are not listed, since strict clients refuse them."""
        self.mended: list[Refusal] = []
        """What is mended in entries that strict clients would refuse."""
        self.server = server
        self._first: dict[str, Item] = {}
        self._followed: set[str] = set()

    def warnings(self, row: Row) -> list[str]:
        """Return all warnings about the list, what is left out first; see `faults`.

        There are none about entries that `row`, of the launch table, hides.
        """
        kind = self.kind
        refusals = [*self.left_out, *self.mended]
        visible = [refusal for refusal in refusals if not is_hidden(kind, refusal[0], row)]
        return [*self.faults, *[_warning(kind, *refusal) for refusal in visible]]

    @property
    def items(self) -> list[Item]:
        """What is listed, in the server's order."""
        return list(self._first.values())

    def add_page(self, result: str) -> None:
        """Read the next page, the JSON text of a result.

        Raises:
            Malformed: the text has no such list.
        """
        self.next_params = None
        found, _ = members(result)
        if self.kind.member not in found or type(found[self.kind.member][0]) is not list:
            raise Malformed(f"no list of {self.kind.member}")
        cursor = found["nextCursor"][0] if "nextCursor" in found else None
        # An empty cursor is one like any other (specification, server/utilities/pagination).
        in_circle = type(cursor) is str and cursor in self._followed
        for value, start, end in elements(result, found[self.kind.member][1]):
            if len(self._first) == MAXIMUM_ENTRIES:
                what = f"lists more than {MAXIMUM_ENTRIES} {self.kind.name}"
                self.faults.append(f"{what}; the list ends there")
                return
            item = self._item(value, result, start, end)
            if item is None:
                continue
            key = item.original
            if self._first.setdefault(key, item) is not item and not in_circle:
                what = f"lists the {self.kind.name[:-1]} {key!r} more than once"
                self.faults.append(f"{what}; the first one counts")
        if type(cursor) is not str:
            return
        if in_circle or len(self._followed) == MAXIMUM_PAGES:
            what = f"repeats the cursor {cursor!r}" if in_circle else f"lists {MAXIMUM_PAGES} pages"
            self.faults.append(f"{what} in {self.kind.method}; the list ends there")
            return
        self._followed.add(cursor)
        self.next_params = obj(cursor=quote(cursor))

    def _item(self, value: Any, text: str, start: int, end: int) -> Item | None:
        """Return an entry as it is listed, None if it is left out; note the warnings about it."""
        kind = self.kind
        entry = value if type(value) is dict else {}
        name, key = entry.get(kind.label), entry.get(kind.key)
        if type(name) is not str or type(key) is not str or not key:
            other = f" or {kind.key}" if kind.key != kind.label else ""
            self.faults.append(
                f"lists a {kind.name[:-1]} without a {kind.label}{other}; {LEFT_OUT}"
            )
            return None
        if fault := self._fault(entry, text[start:end]):
            self.faults.append(f"lists the {kind.name[:-1]} {key!r} with {fault}; {LEFT_OUT}")
            return None
        if odd := _refused_by_parsers(entry, text, start):
            self.left_out.append((key, "", odd, LEFT_OUT))
            return None
        if any(member in entry for member in self._without):
            entry = {member: entry[member] for member in entry if member not in self._without}
            text = edited(text[start:end], drop=self._without)
            start, end = 0, len(text)
        try:
            mends = find_mends(kind, entry, self._is_modern)
        except Unmendable as problem:
            self.left_out.append((key, str(problem), WRONG, LEFT_OUT))
            return None
        if mends:
            self.mended += [(key, *mend) for mend in described(entry, mends)]
            text = apply_mends(text[start:end], mends)
            start, end = 0, len(text)
        _, begin, stop = members(text, start)[0][kind.label]
        return Item(self.server, key, name, text[start:begin], text[stop:end])

    def _fault(self, entry: dict[str, Any], text: str) -> str:
        """Say why an entry is left out although strict clients can read it, "" if it is not."""
        if len(text) > MAXIMUM_ENTRY_CHARACTERS:
            return TOO_LARGE
        if rival := rivals(entry, {self.kind.label, self.kind.key}):
            return f"a member {rival[0]!r}, which some clients take for ours"
        if not self._repeats:
            return ""
        from mcpagg_runtime.messages.param_headers import (  # no HTTP, no such module
            MARK,
            mark_fault,
        )

        if MARK not in text:
            return ""
        fault = mark_fault(entry.get("inputSchema"))
        return f"an {MARK} {fault}, which clients of HTTP refuse" if fault else ""


def _warning(kind: Kind, name: str, pointer: str, what: str, done: str) -> str:
    where = f" at {pointer}" if pointer else ""
    about = f"lists the {kind.name[:-1]} {name!r} with {what}{where}"
    return f"{about}, which strict clients refuse; {done}"


def _refused_by_parsers(value: dict[str, Any], text: str, start: int) -> str:
    """Say what strict parsers refuse in an entry at text[start], "" for nothing."""
    if odd := strict_fault(value):
        return odd
    names: list[str] = []
    read_members(text, start, {}, names)
    return "a member that stands twice" if len({*names}) < len(names) else ""


def listed(items: list[Item], catalogue: Catalogue, connection: Connection) -> list[Item]:
    """Return those of a child's items that the proxy lists, each under its names.

    The config filters tools and resources. As in the compiler, an item with the name or the URI of
    another child's is left out; pages and skills are qualified instead, see `Addresses`.
    """
    kind, server, row = catalogue.kind, connection.name, connection.row
    items = [item for item in items if not is_hidden(kind, item.original, row)]
    if kind.key == "name":
        return _named(items, catalogue, connection)
    if kind.label == "name":
        routes, own = catalogue.routes, (server,)
        items = [
            item
            for item in items
            if routes.get(item.original, own)[0] == server or is_qualifiable(item.original)
        ]
        for item in items:
            item.exposed = item.portable = labelled(catalogue.shown(server), item.exposed)
    return items


def _named(items: list[Item], catalogue: Catalogue, connection: Connection) -> list[Item]:
    """Give tools or prompts the names that they had, or new ones; return those that have one."""
    server = connection.name
    had = [*catalogue.live.get(server, ()), *catalogue.recorded(server)]
    known = {item.original: item for item in had}
    for item in items:
        if item.original in known:
            same = known[item.original]
            item.exposed, item.portable = same.exposed, same.portable
    new = [item for item in items if item.original not in known]
    if not new:
        return items
    named = {*name_new(new, catalogue, server, connection.row, connection.options)}
    return [item for item in items if item.original in known or item in named]


def is_hidden(kind: Kind, own: str, row: Row) -> bool:
    """Whether a server's row hides a tool, a resource or a template, by its own name or URI."""
    if kind is TOOLS:
        return not is_offered(own, row)
    return kind in (RESOURCES, TEMPLATES) and hides_address(own, row)


def is_offered(tool: str, row: Row) -> bool:
    """Whether a server's row exposes `tool`, an own name: `hide` has precedence over `expose`."""
    expose, hide = row.get("expose"), row.get("hide", ())
    if expose is None and not hide:
        return True
    if any(fnmatchcase(tool, glob) for glob in hide):
        return False
    return expose is None or any(fnmatchcase(tool, glob) for glob in expose)


def hides_address(uri: str, row: Row) -> bool:
    """Whether a server's row hides the resource or template `uri`.

    Only a glob with a colon is for URIs, which all have one: `*` hides all tools.
    """
    return any(fnmatchcase(uri, glob) for glob in row.get("hide", ()) if ":" in glob)


def strict_fault(value: Any) -> str:
    """Say what strict parsers refuse in a value, "" for nothing."""
    todo = [(value, 1)]
    while todo:
        item, depth = todo.pop()
        if type(item) is dict or type(item) is list:
            if depth > MAXIMUM_ENTRY_DEPTH:
                return TOO_DEEP
            if type(item) is dict:
                if not all(_has_utf8(key) for key in item):
                    return "a lone surrogate"
                item = list(item.values())
            todo += [(inner, depth + 1) for inner in item]
        elif type(item) is str:
            if not _has_utf8(item):
                return "a lone surrogate"
        elif not (item is None or type(item) is bool) and not _is_finite(item):
            return "a number that no double holds"
    return ""


def _has_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_finite(number: Any) -> bool:
    # A number with too many digits for Python is kept as text; NaN compares false with everything.
    return not isinstance(number, str) and -_LARGEST_DOUBLE <= number <= _LARGEST_DOUBLE
