"""Reads what a child lists once it is up, and holds it against the snapshot.

Same: nothing happens. Different: one line on standard error, and the policy decides: `live`
serves what the child says now, `warn` keeps the snapshot, `refuse` keeps what is unchanged and
withdraws the rest, the guard against a tool that turns malicious after review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.calls import Calls
from mcpagg_runtime.core import STOP
from mcpagg_runtime.live import Difference, drift, name_tools, read_tools
from mcpagg_runtime.peers import FOREVER, READY, Child
from mcpagg_runtime.wire import METHOD_NOT_FOUND, Malformed, Message, members, quote

if TYPE_CHECKING:
    from mcpagg_runtime.catalogue import Tool

# Servers register tools after the handshake and say so: a first difference may pass by itself.
SETTLE_SECONDS = 0.5
# A child that announces a change at every reading is read ever more rarely.
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 60.0
# Unless each reading finds a change; but not one that changes its list all the time.
CALM_SECONDS = 10.0
MAXIMUM_PAGES = 1000


class Drift(Calls):
    """Compares children's lists with the snapshot and applies the policy."""

    def _read_list(self, child: Child) -> None:
        """Ask a child for its list of tools, unless that is under way."""
        if child.listing:
            return
        child.relist_at = FOREVER
        if not child.lists_tools:
            self._compared(child, [])
            return
        child.listing = True
        child.listed = []
        child.pages = set()
        self._ask_page(child, "{}")

    def _ask_page(self, child: Child, params: str) -> None:
        child.deadline = self._arm(self.clock() + self.plan.options["connect_timeout"])
        self._ask(child, "tools/list", params)

    def _page(self, child: Child, message: Message) -> None:
        """Take one page of a list; ask for the next, or compare."""
        try:
            child.listed += read_tools(child.name, child.row, message.raw("result"))
            found, _ = members(message.raw("result"))
        except Malformed as problem:
            self._unread(child, str(problem))
            return
        cursor = found["nextCursor"][0] if "nextCursor" in found else None
        if type(cursor) is str and cursor not in child.pages and len(child.pages) < MAXIMUM_PAGES:
            child.pages.add(cursor)
            self._ask_page(child, f'{{"cursor":{quote(cursor)}}}')
            return
        self._end_reading(child)
        options = self.plan.options
        tools = name_tools(self.catalogue, child.name, child.row, child.listed, options)
        child.listed = []
        self._compared(child, tools)

    def _unread(self, child: Child, problem: str) -> None:
        self._end_reading(child)
        if self.plan.options["on_drift"] == "refuse":
            # What cannot be compared may have changed.
            self._actions.append((STOP, child, f"gave no list of tools to compare ({problem})"))
            return
        self._say(f"server '{child.name}' gave no list of tools ({problem}); its snapshot stays")
        self._settle_calls(child)

    def _end_reading(self, child: Child) -> None:
        child.listing = False
        child.own.clear()  # a reading that took too long may be answered yet
        child.deadline = FOREVER
        self._arm(child.relist_at)

    def _compared(self, child: Child, tools: list[Tool]) -> None:
        difference = drift(self.catalogue, child.name, tools)
        settled = self.clock() >= child.ready_at + SETTLE_SECONDS
        if difference and not settled and not child.unknown:
            child.relist_at = self._arm(child.ready_at + SETTLE_SECONDS)
            return
        policy = self.plan.options["on_drift"]
        if policy == "live":
            self._go_live(child, tools, difference)
        elif policy == "refuse":
            self._refuse_changed(child, tools, difference)
        if str(difference) != child.drift:
            child.drift = str(difference)
            if difference:
                self._report(child, policy)
        self._settle_calls(child)

    def _go_live(self, child: Child, tools: list[Tool], difference: Difference) -> None:
        absent = self.catalogue.conditional[child.name] - {tool.original for tool in tools}
        if difference or absent or child.name in self.catalogue.live:
            self._serve(child, tools)

    def _refuse_changed(self, child: Child, tools: list[Tool], difference: Difference) -> None:
        child.refused = {}
        for tool in tools:
            for names, what in ((difference.added, "is new"), (difference.changed, "changed")):
                if tool.original in names:
                    reason = (
                        f"has a tool '{tool.original}' that {what} since this proxy was compiled"
                    )
                    child.refused[tool.portable] = child.refused[tool.exposed] = reason
        gone = {*difference.changed, *difference.removed}
        kept = [t for t in self.catalogue.recorded(child.name) if t.original not in gone]
        self._serve(child, kept)

    def _serve(self, child: Child, tools: list[Tool]) -> None:
        """Serve a list from now on, and tell clients if theirs is another one than before."""
        change = Difference(self.catalogue.served(child.name), tools)
        if change:
            self.catalogue.serve(child.name, tools)
            self._lists_changed(child.name, [*change.added, *change.removed, *change.changed])
            if self.clock() >= child.served_at + CALM_SECONDS:
                child.relist_pause = 0.0
            child.served_at = self.clock()

    def _report(self, child: Child, policy: str) -> None:
        does = {
            "live": "its live list is served",
            "warn": "the snapshot is served",
            "refuse": "what differs is withheld",
        }
        self._say(
            f"server '{child.name}' differs from its snapshot: {child.drift}; "
            f"{does[policy]}, recompile to review it"
        )

    def _settle_calls(self, child: Child) -> None:
        """Send on, or refuse, the calls that waited for the list."""
        child.compared = True
        unknown, child.unknown = child.unknown, []
        for call in unknown:
            tool = self.catalogue.find(call.name)
            if tool is not None and tool.server == child.name:
                call.original = tool.original
                self._forward(child, call)
            else:
                self._refuse(call, METHOD_NOT_FOUND, f"Tool not found: {call.name}")
        self._flush(child)

    def _flush(self, child: Child) -> None:
        """Send a child the calls that waited; under `refuse`, not before its list is known."""
        unknown = self.plan.options["on_drift"] == "refuse" and not child.compared
        if child.state != READY or unknown:
            return
        waiting, child.waiting = child.waiting, []
        for call in waiting:
            if call.name in child.refused:
                self._fail(call, child.refused[call.name])
            else:
                self._forward(child, call)

    def _list_announced(self, child: Child) -> None:
        """A child says that its list changed: read it, but not at every word."""
        if child.relist_at < FOREVER or child.state != READY:
            return
        pause = child.relist_pause
        child.relist_pause = min(pause * 2 or FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        child.relist_at = self._arm(self.clock() + pause)
