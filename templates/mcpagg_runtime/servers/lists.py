"""The lists of one child: read once it is ready, held against the snapshot, served or withheld.

Same: nothing happens. Different: one line on standard error, and the policy decides: `live`
serves what the child says now, `warn` keeps the snapshot, `refuse` keeps what is unchanged and
withdraws the rest, the guard against a tool that turns malicious after review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import KINDS, TOOLS
from mcpagg_runtime.lists.differences import Difference, classes, differs, drift, drift_text
from mcpagg_runtime.lists.listing import Listing, listed
from mcpagg_runtime.messages.jsontext import Malformed
from mcpagg_runtime.messages.protocol import METHOD_NOT_FOUND, MODERN, PAGES
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.servers.withheld import Withheld, accepted_items, refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpagg_runtime.clients.client import Clients
    from mcpagg_runtime.lists.catalogue import Catalogue, Item, Kind
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.servers.connection import Connection
    from mcpagg_runtime.servers.instances import Instances
    from mcpagg_runtime.servers.lifecycle import Lifecycle

# Servers register tools after the handshake and say so: a first difference may pass by itself.
SETTLE_SECONDS = 0.5
# A child that announces a change at every reading is read ever more rarely.
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 60.0
LONGEST_HOLD_SECONDS = 1.0
# How long calls wait under `refuse` for a stable list before they fail.
PATIENCE_SECONDS = 10.0
# A list unchanged for this long resets the polling back-off.
CALM_SECONDS = 10.0

# What the policy does with a list that differs.
_DOES = {
    "live": "its live list is served",
    "warn": "the snapshot is served",
    "refuse": "what differs is withheld",
}


class Reading:
    """One reading of a list, page by page."""

    def __init__(self, listing: Listing, catalogue: Catalogue) -> None:
        self.listing = listing
        """What has come so far."""
        self._catalogue = catalogue
        self._is_taken = False
        self.is_repeated = False
        """Whether a page was asked for again, since nobody knew whose answer ended it."""
        self.fault = ""
        """Why there is no list in an answer, "" if there is."""
        self.number = 0
        """The id of the request for the page that is under way."""
        self.deadline = FOREVER
        """When that has taken too long."""

    def ask(self, connection: Connection, finish: Callable[[Reading, Message], None]) -> None:
        """Ask the child for the page that is wanted; `finish` takes the answer."""
        limit = connection.options.connect_timeout
        self.deadline = connection.effects.arm(connection.effects.clock() + limit)
        self._is_taken = False
        self.number = connection.ask(
            self.listing.kind.method,
            self.listing.next_params or "",
            lambda answer: finish(self, answer),
            prepare=self.prepare,
            deadline=FOREVER,
        )

    def take(self, answer: Message) -> None:
        """Take the page that an answer has, once."""
        if self._is_taken:
            return
        self._is_taken = True
        try:
            self.listing.add_page(answer.raw("result"))
        except Malformed as problem:
            self.fault = str(problem)

    def prepare(self, answer: Message) -> None:
        """Take the page, and compare what has come with the snapshot.

        That may take long, and changes nothing but the reading: it is done before the lock is
        taken, by the thread that reads the child.
        """
        self.take(answer)
        if self.listing.next_params is None:
            known = self._catalogue.recorded(self.listing.server)
            recorded = {item.original: item for item in known}
            for item in self.listing.items:
                old = recorded.get(item.original)
                if old is not None:
                    item.compared = old, differs(old, item)
                if item.compared is None or item.compared[1]:
                    item.classes = classes(old, item)


class ListReader:
    """One list of one child: when it is read, what came of that, and what is served for it.

    In each life it is read once the child is ready, and again after the child has announced a
    change, or settled. It is at rest, due to be read, or being read; and it is compared, or calls
    wait for that under `refuse`, until they give up.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        connection: Connection,
        lifecycle: Lifecycle,
        clients: Clients,
        instances: Instances,
    ) -> None:
        self.kind = catalogue.kind
        self._catalogue = catalogue
        self._connection = connection
        self._server = connection.name
        self._effects = connection.effects
        self._policy = connection.options.on_drift
        self._guarded = connection.options.is_guarded
        self._accepted = frozenset(connection.options.accept)
        self._lifecycle = lifecycle
        self._clients = clients
        self._instances = instances
        self._said = instances.said
        """What was said last of its faults and of how it differs, in whatever life or instance."""
        self.clear()

    def clear(self) -> None:
        """Reset the state of one run of the child."""
        self.compared = False
        """Whether it was held against the snapshot, and no change announced since that matters."""
        self.drift = ""
        """How it differs from the snapshot."""
        self.changes: Mapping[str, list[str]] = {}
        """{own name of an item: the classes of what became of it}."""
        self.withheld = Withheld(self._catalogue, self._server, {})
        """What is withheld of it."""
        self.give_up_at = FOREVER
        """Until when calls wait for it to be compared."""
        self._reading: Reading | None = None
        self._again_at = FOREVER
        """When the next reading is due."""
        self._pause = 0.0
        """How long after an announcement it is read."""
        self.is_awaited = False
        """Whether a call waits for what is on it: it is compared at once then."""
        self._served_at = -FOREVER
        self._drift_at_start: str | None = None
        """The difference that its first comparison found, None before that."""

    @property
    def is_known(self) -> bool:
        """Whether it was compared, and is not being read again."""
        return self.compared and self._reading is None

    @property
    def is_at_rest(self) -> bool:
        """Whether no reading is under way or due."""
        return self._reading is None and self._again_at == FOREVER

    # When it is read

    def read(self) -> None:
        """Read the list of a child that is ready, unless that is under way."""
        if self._reading is not None:
            return
        self._again_at = FOREVER
        if self.kind.is_declared(self._lifecycle.capabilities):
            row, is_modern = self._connection.row, self._lifecycle.era == MODERN
            over_http = "url" in row and row.get("transport") != "sse"
            listing = Listing(
                self.kind,
                self._server,
                is_modern=is_modern,
                over_http=over_http,
                without=self._catalogue.left_out(self._server),
            )
            self._reading = Reading(listing, self._catalogue)
            self._reading.ask(self._connection, self._answered)
        else:
            self._compare([])

    def read_for_call(self) -> None:
        """A call waits for what is on the list by now: read it as soon as the child is ready."""
        self.is_awaited = True
        if self._lifecycle.is_ready:
            self.read()

    def announced(self) -> None:
        """The child has announced a change of the list: schedule a reading, at a limited rate."""
        if self._again_at < FOREVER or not self._lifecycle.is_ready:
            return
        pause, longest = self._pause, LONGEST_PAUSE_SECONDS
        if self._guarded:
            # What may have changed is not called before it has been compared.
            self.compared = False
            longest = LONGEST_HOLD_SECONDS
        self._pause = min(pause * 2 or FIRST_PAUSE_SECONDS, longest)
        self._again_at = self._effects.arm(self._effects.clock() + pause)

    def tick(self, now: float) -> None:
        """Give up a reading that takes too long, and begin one that is due."""
        if self._reading is not None and self._reading.deadline <= now:
            # The next one begins at the next tick: calls that waited for this one go first.
            self._unread(f"no answer within {self._connection.options.connect_timeout:g} s")
        elif self._again_at <= now:
            self.read()
        self._effects.arm(self._again_at if self._reading is None else self._reading.deadline)
        if self.give_up_at > now:
            self._effects.arm(self.give_up_at)

    # What came of it

    def _answered(self, reading: Reading, answer: Message) -> None:
        """Take one page of the list; ask for the next, or compare."""
        if answer.number in self._connection.unclear and not reading.is_repeated:
            reading.is_repeated = True
            self._connection.alone.append(lambda: self._ask_again(reading))
            return
        if answer.is_error:
            # Declared and not there is as good as empty; resources often have no templates.
            if self.kind is TOOLS or answer.code != METHOD_NOT_FOUND:
                self._unread(answer.raw("error"))
                return
        else:
            reading.take(answer)
            if reading.fault:
                self._unread(reading.fault)
                return
            if reading.listing.next_params is not None:
                reading.ask(self._connection, self._answered)
                return
        self._end_reading()
        faults = reading.listing.warnings(self._connection.row)
        more = f" (the first of {len(faults)} faults of this list)" if faults[1:] else ""
        self._say(self.kind.method, faults[0] + more if faults else "")
        self._compare(listed(reading.listing.items, self._catalogue, self._connection))

    def _ask_again(self, reading: Reading) -> None:
        """Ask for the same page once more, unless nobody waits for it by now."""
        if reading is self._reading:
            reading.ask(self._connection, self._answered)

    def _unread(self, problem: str) -> None:
        """Go on without a list that the child does not give: it costs that list alone."""
        self._end_reading()
        self.drift = f"not given ({problem})"
        what = f"gave no list of {self.kind.name}"
        if self._guarded:
            # What cannot be compared may have changed.
            what += f" to compare ({problem})"
            reasons = dict.fromkeys(self._catalogue.recorded(self._server), what)
            self.withheld = Withheld(self._catalogue, self._server, reasons)
            self._serve([])
            self._say(self.kind.name, f"{what}; its snapshot is withheld")
        else:
            self._say(self.kind.name, f"{what} ({problem}); its snapshot stays")
        self._catalogue.checked.add(self._server)
        self.compared, self.is_awaited = True, False

    def _end_reading(self) -> None:
        if self._reading is not None:
            # One that took too long may be answered yet.
            self._connection.own.pop(self._reading.number, None)
            self._reading = None
        self._lifecycle.touch()
        self._effects.arm(self._again_at)

    def _compare(self, items: list[Item]) -> None:
        client, now = self._lifecycle.client, self._effects.clock()
        shows_pages = client is not None and PAGES in client.extensions
        difference = drift(self._catalogue, self._server, items, shows_pages)
        settled_at = self._lifecycle.ready_at + SETTLE_SECONDS
        if difference and now < settled_at and not self.is_awaited:
            self._again_at = self._effects.arm(settled_at)
            return
        if self._guarded or self._instances.shares(self._connection.child):
            self._apply(items, difference)
            self._report(difference)
        self._catalogue.checked.add(self._server)
        # A change that was announced meanwhile may have come behind the page that it is about.
        overtaken = self._guarded and self._again_at < FOREVER
        self.compared, self.is_awaited = not overtaken, False
        if not overtaken:
            self.give_up_at = FOREVER
        elif self.give_up_at == FOREVER:
            self.give_up_at = self._effects.arm(now + PATIENCE_SECONDS)

    def _apply(self, items: list[Item], difference: Difference) -> None:
        """Do with a list what the policy says."""
        if self._policy == "live":
            self._serve(items)
        elif self._guarded:
            refused = difference.refused(self._accepted)
            reasons = refusals(self.kind, difference, refused, self._effects.redact)
            self.withheld = Withheld(self._catalogue, self._server, reasons)
            recorded = self._catalogue.recorded(self._server)
            self._serve(accepted_items(recorded, difference, refused))

    def _serve(self, items: list[Item]) -> None:
        """Serve a list from now on, and tell clients if theirs is another one than before.

        What one client's own instance lists is nothing that the others have.
        """
        if not self._instances.shares(self._connection.child):
            return
        changes = Difference(self._catalogue.served(self._server), items)
        if changes:
            self._catalogue.serve(self._server, items)
            names = [*changes.added, *changes.removed, *changes.changed]
            self._clients.list_changed(self._catalogue, self._server, names)
            now = self._effects.clock()
            if now >= self._served_at + CALM_SECONDS:
                self._pause = 0.0
            self._served_at = now

    # What is reported

    def _report(self, difference: Difference) -> None:
        """Note and say how the list differs; advise to recompile only where that would record it.

        A compile sees what a fresh start shows, not what changes while the server runs. Clients
        that take log messages are told, too.
        """
        self.drift, self.changes = "", difference.all_classes()
        if difference:
            self.drift = drift_text(difference, self._effects.redact)
        if self._drift_at_start is None:
            self._drift_at_start = self.drift
        if not difference:
            self._say(self.kind.name, "")
            return
        what = "" if self.kind is TOOLS else f" {self.kind.name}"
        how = f"differs from its snapshot:{what} {self.drift}"
        advice = ", recompile to review it" if self.drift == self._drift_at_start else ""
        text = f"{how}; {self._does(difference)}{advice}"
        if text != self._said.get(self.kind.name):
            self._clients.warn(self._server, f"server '{self._server}' {text}")
        self._say(self.kind.name, text)

    def _does(self, difference: Difference) -> str:
        """Say what is done with a list that differs."""
        if not (self._guarded and self._accepted):
            return _DOES[self._policy]
        refused = difference.refused(self._accepted)
        accepted = ", ".join(sorted(self._accepted))
        if not refused:
            return f"it is served, as {accepted} is accepted"
        return f"what differs is withheld, but for what is {accepted} alone"

    def _say(self, about: str, text: str) -> None:
        """Say something about the list, "" for all is well, unless it is what was said last."""
        if text and text != self._said.get(about):
            self._connection.say(text)
        self._said[about] = text


class Lists:
    """All lists of one child."""

    def __init__(
        self,
        catalogues: Mapping[str, Catalogue],
        connection: Connection,
        lifecycle: Lifecycle,
        clients: Clients,
        instances: Instances,
    ) -> None:
        self._readers = {
            kind.name: ListReader(catalogues[kind.name], connection, lifecycle, clients, instances)
            for kind in KINDS
        }

    def __iter__(self) -> Iterator[ListReader]:
        return iter(self._readers.values())

    def __getitem__(self, kind: str) -> ListReader:
        return self._readers[kind]

    @property
    def compared(self) -> bool:
        """Whether every list was compared."""
        return all(reader.compared for reader in self)

    def given_up(self, now: float) -> list[Kind]:
        """Return the kinds of the lists that nobody waits for any more to be compared."""
        return [one.kind for one in self if not one.compared and one.give_up_at <= now]

    def clear(self) -> None:
        """Reset the state of one run of the child."""
        for reader in self:
            reader.clear()

    def read(self) -> None:
        """Read every list of a child that is ready."""
        for reader in self:
            reader.read()

    def tick(self, now: float) -> None:
        """Do what is due at this time."""
        for reader in self:
            reader.tick(now)

    def announced(self, method: str) -> None:
        """The child says that a list of its changed."""
        for reader in self:
            if method == reader.kind.announcement:
                reader.announced()

    def withheld(self, method: str, name: str) -> str | None:
        """Return why what a client asks for by `name` is withheld, None if it is not."""
        held = [reader.withheld for reader in self if reader.withheld.reasons]
        reasons = [withheld.reason(method, name) for withheld in held]
        return next((reason for reason in reasons if reason is not None), None)
