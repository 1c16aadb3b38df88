"""The lists of one child: read once it is ready, held against the snapshot, served or withheld.

Same: nothing happens. Different: one line on standard error, and the policy decides: `live`
serves what the child says now, `warn` keeps the snapshot, `refuse` keeps what is unchanged and
withdraws the rest, the guard against a tool that turns malicious after review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.catalogue import KINDS, TEMPLATES, TOOLS
from mcpagg_runtime.base.jsontext import Malformed, obj
from mcpagg_runtime.base.message import Message, result
from mcpagg_runtime.base.protocol import METHOD_NOT_FOUND, PAGES
from mcpagg_runtime.serve.differences import Difference, classes, drift, renewed
from mcpagg_runtime.serve.effects import FOREVER
from mcpagg_runtime.serve.listing import Listing
from mcpagg_runtime.serve.names import name_items
from mcpagg_runtime.serve.uris import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpagg_runtime.base.catalogue import Catalogue, Item, Kind
    from mcpagg_runtime.serve.clients import Clients
    from mcpagg_runtime.serve.connection import Connection
    from mcpagg_runtime.serve.lifecycle import Lifecycle

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


class Page:
    """One page of a list, of which a child is asked; read once, by whoever comes first."""

    __slots__ = ("_catalogue", "_listing", "_read", "_server", "fault")

    def __init__(self, listing: Listing, catalogue: Catalogue, server: str) -> None:
        self._listing = listing
        self._catalogue = catalogue
        self._server = server
        self._read = False
        self.fault = ""
        """Why there is no list in the answer, "" if there is."""

    def read(self, answer: Message) -> None:
        """Take the child's answer into the listing."""
        if self._read:
            return
        self._read = True
        try:
            self._listing.take(answer.raw("result"))
        except Malformed as problem:
            self.fault = str(problem)

    def prepare(self, answer: Message) -> None:
        """Read the page, and compare what is on it.

        That may take long, and changes nothing but the page: it is done before the lock is taken,
        by the thread that reads the child.
        """
        if answer.is_error:
            return
        self.read(answer)
        if self._listing.wanted is None:
            recorded = self._catalogue.recorded(self._server)
            known = {item.original: item for item in recorded}
            for item in self._listing.items:
                if item.original in known:
                    classes(known[item.original], item)


class Reports:
    """What was said of a child's lists, in whatever life: nothing is said twice in a row."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._said: dict[str, str] = {}

    def say(self, about: str, text: str) -> None:
        """Say something about a list, unless it is what was said of that last."""
        if self._said.get(about) != text:
            self._said[about] = text
            self._connection.say(text)

    def say_first(self, about: str, faults: list[str]) -> None:
        """Say what is wrong with a list: the first fault, and how many more there are."""
        if faults:
            more = f" (the first of {len(faults)} faults of this list)" if faults[1:] else ""
            self.say(about, faults[0] + more)
        else:
            self.forget(about)

    def forget(self, about: str) -> None:
        """All is well: what comes next is said, whatever it is."""
        self._said.pop(about, None)


class Listed:
    """A child whose lists are read, as far as they concern it."""

    __slots__ = ("clients", "connection", "is_awaited", "lifecycle", "settled")

    def __init__(
        self,
        connection: Connection,
        lifecycle: Lifecycle,
        clients: Clients,
        settled: Callable[[], None],
        is_awaited: Callable[[], bool],
    ) -> None:
        self.connection = connection
        self.lifecycle = lifecycle
        self.clients = clients
        self.settled = settled
        """Is called whenever the reading of a list has ended."""
        self.is_awaited = is_awaited
        """Says whether a call waits for a list, so that it is compared at once."""


class ListReader:
    """One list of one child: when it is read, what came of that, and what is served for it."""

    def __init__(self, catalogue: Catalogue, child: Listed) -> None:
        self.kind = catalogue.kind
        self._catalogue = catalogue
        self._connection = child.connection
        self._effects = child.connection.effects
        self._options = child.connection.options
        self._lifecycle = child.lifecycle
        self._clients = child.clients
        self._settled = child.settled
        self._is_awaited = child.is_awaited
        self._guarded = child.connection.options.on_drift == "refuse"
        self._reports = Reports(child.connection)
        self.clear()

    def clear(self) -> None:
        """Forget one life of the child."""
        self.compared = False
        """Whether it was held against the snapshot, and no change announced since that matters."""
        self.drift = ""
        """How it differs from the snapshot."""
        self.refused: dict[str, str] = {}
        """{name that a client may use: why that is withheld}."""
        self.give_up_at = FOREVER
        """Until when calls wait for it to be compared."""
        self._asked = 0
        """The id of the request for the page that is under way, 0 for none."""
        self._listing = Listing(self.kind, self._connection.name)
        """What came so far of the reading under way."""
        self._deadline = FOREVER
        """When the reading under way has taken too long."""
        self._again_at = FOREVER
        """When the next one is due."""
        self._pause = 0.0
        """How long after an announcement it is read."""
        self._served_at = -FOREVER
        self._drift_at_start: str | None = None
        """The difference that its first comparison found, None before that."""

    @property
    def is_known(self) -> bool:
        """Whether it was compared, and is not being read again."""
        return self.compared and not self._asked

    @property
    def is_at_rest(self) -> bool:
        """Whether no reading is under way or due."""
        return not self._asked and self._again_at == FOREVER

    def read_first(self) -> None:
        """Read the list of a child that is ready, if there may be one, or the snapshot has one."""
        declared = self.kind.is_declared(self._lifecycle.capabilities)
        if declared or self._catalogue.recorded(self._connection.name):
            self.read()
        else:
            self.compared = True

    def read(self) -> None:
        """Read the list, unless that is under way."""
        if self._asked:
            return
        self._again_at = FOREVER
        if not self.kind.is_declared(self._lifecycle.capabilities):
            self._compare([])
            self._settled()
            return
        self._listing = Listing(self.kind, self._connection.name)
        self._ask_page("{}")

    def _ask_page(self, wanted: str) -> None:
        limit = self._options.connect_timeout
        self._deadline = self._effects.arm(self._effects.clock() + limit)
        page = Page(self._listing, self._catalogue, self._connection.name)
        self._asked = self._connection.ask(
            self.kind.method,
            wanted,
            lambda answer: self._take(page, answer),
            prepare=page.prepare,
            deadline=FOREVER,
        )

    def _take(self, page: Page, answer: Message) -> None:
        """Take one page of the list; ask for the next, or compare."""
        if self.kind is not TOOLS and answer.code == METHOD_NOT_FOUND:
            # Declared and not there is as good as empty; resources often have no templates.
            answer = result(answer.id_text, obj({self.kind.member: "[]"}))
        if answer.is_error:
            self._unread(answer.raw("error"))
            return
        page.read(answer)
        if page.fault:
            self._unread(page.fault)
        elif self._listing.wanted is not None:
            self._ask_page(self._listing.wanted)
        else:
            self._complete()

    def _complete(self) -> None:
        """Every page has come: compare."""
        self._end_reading()
        self._reports.say_first(self.kind.method, self._listing.faults)
        connection, items = self._connection, self._listing.items
        items = name_items(self._catalogue, connection.name, connection.row, items, self._options)
        self._listing = Listing(self.kind, connection.name)
        self._compare(items)
        self._settled()

    def _unread(self, problem: str) -> None:
        """Go on without a list that the child does not give: it costs that list alone."""
        self._end_reading()
        self.drift = f"not given ({problem})"
        what = f"gave no list of {self.kind.name}"
        if self._guarded:
            # What cannot be compared may have changed.
            what += f" to compare ({problem})"
            recorded = self._catalogue.recorded(self._connection.name)
            self.refused = {name: what for item in recorded for name in self._names_of(item)}
            self._serve([])
            self._reports.say(self.kind.name, f"{what}; its snapshot is withheld")
        else:
            self._reports.say(self.kind.name, f"{what} ({problem}); its snapshot stays")
        self.compared = True
        self._settled()

    def _end_reading(self) -> None:
        # One that took too long may be answered yet.
        self._connection.own.pop(self._asked, None)
        self._asked = 0
        self._deadline = FOREVER
        self._lifecycle.touch()
        self._effects.arm(self._again_at)

    def tick(self, now: float) -> None:
        """Give up a reading that takes too long, and begin one that is due."""
        if self._deadline <= now:
            self._unread(f"no answer within {self._options.connect_timeout:g} s")
        if self._again_at <= now:
            self.read()
        self._effects.arm(self._deadline)
        if not self._asked:
            self._effects.arm(self._again_at)
        if self.give_up_at > now:
            self._effects.arm(self.give_up_at)

    def announced(self) -> None:
        """The child says that the list changed: read it, but not at every word."""
        if self._again_at < FOREVER or not self._lifecycle.is_ready:
            return
        pause, longest = self._pause, LONGEST_PAUSE_SECONDS
        if self._guarded:
            # What may have changed is not called before it has been compared.
            self.compared = False
            longest = LONGEST_HOLD_SECONDS
        self._pause = min(pause * 2 or FIRST_PAUSE_SECONDS, longest)
        self._again_at = self._effects.arm(self._effects.clock() + pause)

    # Comparing

    def _compare(self, items: list[Item]) -> None:
        client, now = self._lifecycle.client, self._effects.clock()
        shows_pages = client is not None and PAGES in client.extensions
        difference = drift(self._catalogue, self._connection.name, items, shows_pages)
        # A change that was announced meanwhile may have come behind the page that it is about.
        overtaken = self._again_at < FOREVER and self._guarded
        settled_at = self._lifecycle.ready_at + SETTLE_SECONDS
        if difference and now < settled_at and not self._is_awaited():
            self._again_at = self._effects.arm(settled_at)
            return
        self._apply(items, difference)
        self.drift = str(difference)
        if self._drift_at_start is None:
            self._drift_at_start = self.drift
        self._report(difference)
        self.compared = not overtaken
        if not overtaken:
            self.give_up_at = FOREVER
        elif self.give_up_at == FOREVER:
            self.give_up_at = self._effects.arm(now + PATIENCE_SECONDS)

    def _apply(self, items: list[Item], difference: Difference) -> None:
        """Do with a list what the policy says."""
        if self._options.on_drift == "live":
            # What is no drift may differ all the same: the client cannot do what a tool needs.
            recorded = self._catalogue.recorded(self._connection.name)
            differs = difference or Difference(recorded, items)
            if differs or self._connection.name in self._catalogue.live:
                self._serve(items)
        elif self._guarded:
            self._refuse_changed(items, difference)

    def _refuse_changed(self, items: list[Item], difference: Difference) -> None:
        self.refused = {}
        for item in items:
            how = "changed" if item.original in difference.changed else "is new"
            if item.original in difference.changed or item.original in difference.added:
                what = f"a {self.kind.name[:-1]} '{item.original}'"
                reason = f"has {what} that {how} since this proxy was compiled"
                for name in self._names_of(item):
                    self.refused[name] = reason
        gone = {*difference.changed, *difference.removed}
        recorded = self._catalogue.recorded(self._connection.name)
        self._serve([item for item in recorded if item.original not in gone])

    def _names_of(self, item: Item) -> tuple[str, ...]:
        """Return the names that clients may use for an item."""
        named = self.kind.key == self.kind.label
        return (item.exposed, item.portable) if named else (item.original,)

    def _serve(self, items: list[Item]) -> None:
        """Serve a list from now on, and tell clients if theirs is another one than before."""
        server = self._connection.name
        names = renewed(self._catalogue.served(server), items)
        if names:
            self._catalogue.serve(server, items)
            self._clients.list_changed(self._catalogue, server, names)
            now = self._effects.clock()
            if now >= self._served_at + CALM_SECONDS:
                self._pause = 0.0
            self._served_at = now

    def _report(self, difference: Difference) -> None:
        """Say how the list differs; advise to recompile only where that would record it.

        A compile sees what a fresh start shows, not what changes while the server runs.
        """
        if not difference:
            self._reports.forget(self.kind.name)
            return
        what = "" if self.kind is TOOLS else f" {self.kind.name}"
        how = f"differs from its snapshot:{what} {self.drift}"
        does = _DOES[self._options.on_drift]
        advice = ", recompile to review it" if self.drift == self._drift_at_start else ""
        self._reports.say(self.kind.name, f"{how}; {does}{advice}")


class Lists:
    """All lists of one child."""

    def __init__(self, catalogues: Mapping[str, Catalogue], child: Listed) -> None:
        self._readers = {kind.name: ListReader(catalogues[kind.name], child) for kind in KINDS}

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
        """Forget one life of the child."""
        for reader in self:
            reader.clear()

    def read(self) -> None:
        """Read every list of a child that is ready."""
        for reader in self:
            reader.read_first()

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
        for reader in [one for one in self if one.refused]:
            kind = reader.kind
            # A prompt may be called like a tool; what is completed is a prompt or a template.
            meant = method.startswith((kind.name, kind.capability)) or (
                method == "completion/complete" and kind is not TOOLS
            )
            for refused, reason in reader.refused.items():
                if meant and (name == refused or (kind is TEMPLATES and fits(refused, name))):
                    return reason
        return None
