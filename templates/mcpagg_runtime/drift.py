"""Reads what a child lists once it is up, and holds it against the snapshot.

Same: nothing happens. Different: one line on standard error, and the policy decides: `live`
serves what the child says now, `warn` keeps the snapshot, `refuse` keeps what is unchanged and
withdraws the rest, the guard against a tool that turns malicious after review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.calls import Calls, tool_not_found
from mcpagg_runtime.catalogue import KINDS, TOOLS
from mcpagg_runtime.client import PAGES
from mcpagg_runtime.listing import Listing
from mcpagg_runtime.live import Difference, drift, name_items, nature, renewed
from mcpagg_runtime.peers import ASKS_FOR, FOREVER, READY, Call, Child, OwnRequest, Reading
from mcpagg_runtime.wire import Message, quote

if TYPE_CHECKING:
    from mcpagg_runtime.catalogue import Item

# Servers register tools after the handshake and say so: a first difference may pass by itself.
SETTLE_SECONDS = 0.5
# A child that announces a change at every reading is read ever more rarely.
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 60.0
LONGEST_HOLD_SECONDS = 1.0
# Under `refuse` calls wait for a list that can be compared. A child that announces a change during
# each of its readings has none: so long is it waited for, and no longer.
PATIENCE_SECONDS = 10.0
# Unless each reading finds a change; but not one that changes its list all the time.
CALM_SECONDS = 10.0


class Drift(Calls):
    """Compares children's lists with the snapshot and applies the policy."""

    def _read_lists(self, child: Child) -> None:
        """Ask a child for every list that it may have, or that the snapshot has of it."""
        for kind in KINDS:
            reading = child.readings[kind.name]
            recorded = self.catalogues[kind.name].recorded(child.name)
            if recorded or kind.is_declared(child.capabilities):
                self._read_list(child, reading)
            else:
                reading.compared = True
        self._settle_calls(child)

    def _read_list(self, child: Child, reading: Reading) -> None:
        """Ask a child for one of its lists, unless that is under way."""
        if reading.under_way:
            return
        reading.again_at = FOREVER
        if not reading.kind.is_declared(child.capabilities):
            self._compared(child, reading, [])
            self._settle_calls(child)
            return
        reading.under_way = True
        reading.listing = Listing(reading.kind, child.name)
        self._ask_page(child, reading, "{}")

    def _ask_page(self, child: Child, reading: Reading, params: str) -> None:
        reading.deadline = self._arm(self.clock() + self.plan.options["connect_timeout"])
        self._ask(child, reading.kind.method, params, reading)

    def read_ahead(self, child: Child, own: OwnRequest, message: Message) -> None:
        """Read a page of a list that a child answers, and compare what is on it.

        That may take long, and changes nothing but the page: it is done before the lock is taken,
        by the thread that reads the child.
        """
        own.take(message.raw("result"))
        if own.listing is not None and own.cursor is None:
            recorded = self.catalogues[own.listing.kind.name].recorded(child.name)
            known = {item.original: item for item in recorded}
            for item in own.listing.items:
                if item.original in known:
                    nature(known[item.original], item)

    def _page(self, child: Child, reading: Reading, own: OwnRequest, message: Message) -> None:
        """Take one page of a list; ask for the next, or compare."""
        own.take(message.raw("result"))
        if own.fault:
            self._unread(child, reading, own.fault)
            return
        if own.cursor is not None:
            self._ask_page(child, reading, f'{{"cursor":{quote(own.cursor)}}}')
            return
        self._end_reading(child, reading)
        self._report_faults(child, reading)
        catalogue, items = self.catalogues[reading.kind.name], reading.listing.items
        items = name_items(catalogue, child.name, child.row, items, self.plan.options)
        reading.listing = Listing(reading.kind, child.name)
        self._compared(child, reading, items)
        self._settle_calls(child)

    def _unread(self, child: Child, reading: Reading, problem: str) -> None:
        """Go on without a list that a child does not give: it costs that list alone."""
        self._end_reading(child, reading)
        reading.drift = f"not given ({problem})"
        what = f"gave no list of {reading.kind.name}"
        if self.plan.options["on_drift"] == "refuse":
            # What cannot be compared may have changed.
            what += f" to compare ({problem})"
            recorded = self.catalogues[reading.kind.name].recorded(child.name)
            reading.refused = {name: what for item in recorded for name in _meant_by(item, reading)}
            self._serve(child, reading, [])
            self._say_once(child, reading.kind.name, f"{what}; its snapshot is withheld")
        else:
            what += f" ({problem})"
            self._say_once(child, reading.kind.name, f"{what}; its snapshot stays")
        reading.compared = True
        self._settle_calls(child)

    def _end_reading(self, child: Child, reading: Reading) -> None:
        reading.under_way = False
        # A reading that took too long may be answered yet.
        child.own = {key: own for key, own in child.own.items() if own.reading is not reading}
        reading.deadline = FOREVER
        child.active_at = self.clock()
        self._arm(reading.again_at)

    def _compared(self, child: Child, reading: Reading, items: list[Item]) -> None:
        shows_pages = child.client is not None and PAGES in child.client.extensions
        difference = drift(self.catalogues[reading.kind.name], child.name, items, shows_pages)
        # A change that was announced meanwhile may have come behind the page that it is about.
        overtaken = reading.again_at < FOREVER and self.plan.options["on_drift"] == "refuse"
        settled = self.clock() >= child.ready_at + SETTLE_SECONDS
        if difference and not settled and not child.unknown:
            reading.again_at = self._arm(child.ready_at + SETTLE_SECONDS)
            return
        policy = self.plan.options["on_drift"]
        if policy == "live":
            self._go_live(child, reading, items, difference)
        elif policy == "refuse":
            self._refuse_changed(child, reading, items, difference)
        reading.drift = str(difference)
        if difference:
            self._report(child, reading, policy)
        else:
            child.reported.pop(reading.kind.name, None)
        reading.compared = not overtaken
        if not overtaken:
            reading.give_up_at = FOREVER
        elif reading.give_up_at == FOREVER:
            reading.give_up_at = self._arm(self.clock() + PATIENCE_SECONDS)

    def _go_live(
        self, child: Child, reading: Reading, items: list[Item], difference: Difference
    ) -> None:
        catalogue = self.catalogues[reading.kind.name]
        # What is no drift may differ all the same: the client cannot do what a tool needs.
        differs = difference or Difference(catalogue.recorded(child.name), items)
        if differs or child.name in catalogue.live:
            self._serve(child, reading, items)

    def _refuse_changed(
        self, child: Child, reading: Reading, items: list[Item], difference: Difference
    ) -> None:
        reading.refused = {}
        for item in items:
            how = "changed" if item.original in difference.changed else "is new"
            if item.original in difference.changed or item.original in difference.added:
                what = f"a {reading.kind.name[:-1]} '{item.original}'"
                reason = f"has {what} that {how} since this proxy was compiled"
                for name in _meant_by(item, reading):
                    reading.refused[name] = reason
        gone = {*difference.changed, *difference.removed}
        recorded = self.catalogues[reading.kind.name].recorded(child.name)
        self._serve(child, reading, [item for item in recorded if item.original not in gone])

    def _serve(self, child: Child, reading: Reading, items: list[Item]) -> None:
        """Serve a list from now on, and tell clients if theirs is another one than before."""
        catalogue = self.catalogues[reading.kind.name]
        names = renewed(catalogue.served(child.name), items)
        if names:
            catalogue.serve(child.name, items)
            self._lists_changed(reading.kind, child.name, names)
            if self.clock() >= reading.served_at + CALM_SECONDS:
                reading.pause = 0.0
            reading.served_at = self.clock()

    def _report(self, child: Child, reading: Reading, policy: str) -> None:
        does = {
            "live": "its live list is served",
            "warn": "the snapshot is served",
            "refuse": "what differs is withheld",
        }
        what = "" if reading.kind is TOOLS else f" {reading.kind.name}"
        how = f"differs from its snapshot:{what} {reading.drift}"
        self._say_once(child, reading.kind.name, f"{how}; {does[policy]}, recompile to review it")

    def _report_faults(self, child: Child, reading: Reading) -> None:
        """Say what is wrong with a list: the first fault, and how many more there are."""
        about, faults = reading.kind.method, reading.listing.faults
        if faults:
            more = f" (the first of {len(faults)} faults of this list)" if faults[1:] else ""
            self._say_once(child, about, faults[0] + more)
        else:
            child.reported.pop(about, None)

    def _say_once(self, child: Child, about: str, text: str) -> None:
        """Say something about a list, unless it is what was said of it last, in whatever life."""
        if child.reported.get(about) != text:
            child.reported[about] = text
            self._say(f"server '{child.name}' {text}")

    def _settle_calls(self, child: Child) -> None:
        """Send on, or refuse, the calls that waited for the lists."""
        if child.readings["tools"].compared and not child.readings["tools"].under_way:
            unknown, child.unknown = child.unknown, []
            for call in unknown:
                tool = self.catalogues["tools"].find(call.name)
                if tool is not None and tool.server == child.name:
                    call.original = tool.original
                    child.waiting.append(call)
                else:
                    self._refuse(call, tool_not_found(call.name))
        self._flush(child)

    def _flush(self, child: Child) -> None:
        """Send a child what waited, calls under `refuse` not before its lists are known."""
        if child.state != READY:
            return
        self._flush_replies(child)
        guarded = self.plan.options["on_drift"] == "refuse"
        unknown = [reading for reading in child.readings.values() if not reading.compared]
        if guarded and unknown:
            self._give_up(child, unknown)
            return
        waiting, child.waiting = child.waiting, []
        full = False
        for call in waiting:
            # Nobody overtakes who waits for a turn, or that might never come.
            full = full or self._must_wait(child, call.client)
            reason = child.withheld(call.message.method or "", call.name)
            if reason is not None:
                self._fail(call, reason)
            elif guarded and call.path == ("name",) and not self._is_served(call):
                self._refuse(call, tool_not_found(call.name))
            elif full:
                child.waiting.append(call)
            else:
                self._forward(child, call)

    def _give_up(self, child: Child, unknown: list[Reading]) -> None:
        """Fail the calls that waited long enough for lists that cannot be compared."""
        for reading in unknown:
            if reading.give_up_at <= self.clock():
                waiting, child.waiting = child.waiting, []
                for call in waiting:
                    what = f"its list of {reading.kind.name}"
                    self._fail(call, f"changes {what} too often to compare it with the snapshot")

    def _is_served(self, call: Call) -> bool:
        """Whether what a call asks for is still served by its child: it may have waited."""
        item = self.catalogues[ASKS_FOR[call.message.method or ""]].find(call.name)
        return item is not None and item.server == call.child.name

    def _list_announced(self, child: Child, method: str) -> None:
        """A child says that a list of its changed: read it, but not at every word."""
        for reading in child.readings.values():
            if method != reading.kind.announcement:
                continue
            if reading.again_at < FOREVER or child.state != READY:
                continue
            pause = reading.pause
            longest = LONGEST_PAUSE_SECONDS
            if self.plan.options["on_drift"] == "refuse":
                # What may have changed is not called before it has been compared.
                reading.compared = False
                longest = LONGEST_HOLD_SECONDS
            reading.pause = min(pause * 2 or FIRST_PAUSE_SECONDS, longest)
            reading.again_at = self._arm(self.clock() + pause)


def _meant_by(item: Item, reading: Reading) -> tuple[str, ...]:
    """Return the names that clients may use for an item."""
    named = reading.kind.key == reading.kind.label
    return (item.exposed, item.portable) if named else (item.original,)
