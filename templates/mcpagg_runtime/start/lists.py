"""Cuts the lists of the snapshot into items, by the layout that the compiler gave them.

An item is kept as the text that its child gave, with a hole where the name stands, so that a list
costs a join and every field reaches the client unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import string_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def cut_list(text: str, key: str, label: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield of each item the members `key` and `label`, and its text before and behind the latter.

    In the compiler's text (`literal.list_text`) an item begins a line without a space, each of its
    own members a line with one; what is deeper is indented more, and strings hold no line ends.
    """
    mark, address = f'\n "{label}": ', f'\n "{key}": '
    for item in text[3:-2].split(",\n{") if text != "[]" else ():
        head, _, rest = f"\n {item}".partition(mark)
        name, end = string_at(rest, 0)
        own = name if key == label else string_at(f"\n {item}".partition(address)[2], 0)[0]
        yield own, name, f'{{{_joined(head)}"{label}":', _joined(rest[end:])


def _joined(text: str) -> str:
    return "".join([line.lstrip(" ") for line in text.split("\n")])


def labelled(server: str, name: str) -> str:
    """Return the name that a resource or a template is listed under: its URI stays as it is."""
    return f"[{server}] {name}"


def list_result(member: str, items: Iterable[str]) -> str:
    """Return the result of a list request as JSON text."""
    return f'{{"{member}":[{",".join(items)}]}}'
