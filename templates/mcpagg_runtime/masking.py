"""Masks variables: clients write `${NAME}` and never see the value, where the config asks for it.

A layer on the router that exists only where some server has masks. Works on the strings of the
JSON text: one that holds what is replaced is written anew, everything else stays as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.router import Router
from mcpagg_runtime.wire import members, quote, read_message, skip, value_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.client import Client
    from mcpagg_runtime.core import Action
    from mcpagg_runtime.desk import Desk
    from mcpagg_runtime.peers import Call, Child
    from mcpagg_runtime.wire import Message

    Table = list[tuple[str, str]]

_SAID = ("params", "result", "error")  # what a child says; the rest of a message is its envelope


class Masked(Router):
    """Replaces references in the arguments of calls, and values in what children say of them."""

    def __init__(self, desk: Desk, clock: Callable[[], float]) -> None:
        super().__init__(desk, clock)
        self.inward: dict[Child, Table] = {}
        self.outward: dict[Child, Table] = {}

    def child_up(self, child: Child) -> list[Action]:
        """A child's process runs, and the values of its variables are known."""
        rows = child.row.get("masks", {})
        values = [(name, child.masks[name]) for name in rows if child.masks.get(name)]
        self.inward[child] = [(f"${{{name}}}", v) for name, v in values if rows[name]["expand"]]
        self.outward[child] = _both_spellings(
            [(v, f"${{{name}}}") for name, v in values if rows[name]["unexpand"]]
        )
        return super().child_up(child)

    def _forward(self, child: Child, call: Call) -> None:
        if self.inward[child] and call.message.method == "tools/call":
            call.message = _expanded(call.message, self.inward[child])
        super()._forward(child, call)

    def _answered(self, call: Call, message: Message) -> None:
        super()._answered(call, _unexpanded(message, self.outward[call.child]))

    def _progress(self, child: Child, message: Message) -> None:
        super()._progress(child, _unexpanded(message, self.outward[child]))

    def _ask_client(self, client: Client | None, child: Child, message: Message) -> None:
        super()._ask_client(client, child, _unexpanded(message, self.outward[child]))

    def _pass_on(self, child: Child, message: Message) -> None:
        # A resource keeps its URI everywhere, or nobody could read it.
        if message.method != "notifications/resources/updated":
            message = _unexpanded(message, self.outward[child])
        super()._pass_on(child, message)


def _both_spellings(table: Table) -> Table:
    """Add each value as JSON within a string spells it, and put the longest first."""
    found = dict(table)
    for value, reference in table:
        found.setdefault(quote(value)[1:-1], reference)
    return sorted(found.items(), key=lambda pair: -len(pair[0]))


def _expanded(message: Message, table: Table) -> Message:
    """Return a call with the references in the strings of its arguments replaced."""
    params, _ = members(message.text, message.members["params"][1])
    if "arguments" not in params:
        return message
    _, start, end = params["arguments"]
    text = message.text
    new = swapped(text[start:end], table, names=False)
    return read_message(text[:start] + new + text[end:])


def _unexpanded(message: Message, table: Table) -> Message:
    """Return what a child says with the values in its strings replaced."""
    spans = sorted(message.members[name][1:] for name in _SAID if name in message.members)
    if not table or not spans:
        return message
    parts, index = [], 0
    for start, end in spans:
        parts += [message.text[index:start], swapped(message.text[start:end], table, names=True)]
        index = end
    return read_message("".join([*parts, message.text[index:]]))


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
