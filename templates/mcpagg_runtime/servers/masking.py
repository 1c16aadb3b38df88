"""Masks variables: clients write `${NAME}` and never see the value, where the config asks for it.

Works on the strings of the JSON text: one that holds what is replaced is written anew, everything
else stays as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import skip, value_at
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.messages.message import Message

    Table = list[tuple[str, str]]


class Masks:
    """Replaces references in the arguments of calls, and values in what one child says of them."""

    def __init__(self, rows: Mapping[str, Any], values: Mapping[str, str]) -> None:
        """`rows` are those of the launch table, `values` {name: value} what is masked."""
        known = [(name, values[name]) for name in rows if values.get(name)]
        self._inward = [(f"${{{name}}}", v) for name, v in known if rows[name]["expand"]]
        self._outward = _both_spellings(
            [(v, f"${{{name}}}") for name, v in known if rows[name]["unexpand"]]
        )

    def to_child(self, message: Message) -> Message:
        """Return a message to the child with the references in a call's arguments replaced."""
        if not self._inward or message.method != "tools/call":
            return message
        params = message.json("params")
        old = params.part("arguments")
        new = swapped(old, self._inward, names=False)
        if new == old:
            return message
        return message.changed({"params": params.edited(add={"arguments": new}).text})

    def from_child(self, message: Message) -> Message:
        """Return what the child says with the values in its strings replaced."""
        if not self._outward:
            return message
        new = {
            name: swapped(part.text, self._outward, names=True)
            for name, part in message.members.items()
        }
        changed = {name: text for name, text in new.items() if text != message.raw(name)}
        return message.changed(changed) if changed else message


def _both_spellings(table: Table) -> Table:
    """Add each value as JSON within a string spells it, and put the longest first."""
    found = dict(table)
    for value, reference in table:
        found.setdefault(quote(value)[1:-1], reference)
    return sorted(found.items(), key=lambda pair: -len(pair[0]))


def swapped(text: str, table: Table, *, names: bool) -> str:
    """Return JSON text with {old: new} of `table` replaced in its strings, all in one go.

    `names` says whether the names of members are meant too. A string is compared by what it says:
    a slash or a letter may be escaped, or not.
    """
    if "\\" not in text and not any(old in text for old, _ in table):
        return text
    parts, done, index = [], 0, text.find('"')
    while index >= 0:
        value, end = value_at(text, index)
        behind = skip(text, end)
        if names or text[behind : behind + 1] != ":":
            new = _replace_all(value, table)
            if new != value:
                parts += [text[done:index], quote(new)]
                done = end
        index = text.find('"', end)
    return "".join([*parts, text[done:]])


def _replace_all(value: str, table: Table) -> str:
    """Replace in one go: what was put in is not looked at again."""
    parts: list[str] = []
    index = 0
    while True:
        found = [(value.find(old, index), number) for number, (old, _) in enumerate(table)]
        hits = [hit for hit in found if hit[0] >= 0]
        if not hits:
            return "".join([*parts, value[index:]])
        at, number = min(hits)
        old, new = table[number]
        parts += [value[index:at], new]
        index = at + len(old)
