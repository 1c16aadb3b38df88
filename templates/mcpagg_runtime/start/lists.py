"""Cuts the lists of the snapshot into items, by the layout that the compiler gave them.

An item is kept as the text that its child gave, with a hole where the name stands, so that a list
costs a join and every field reaches the client unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import string_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


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
