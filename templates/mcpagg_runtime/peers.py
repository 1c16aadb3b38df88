"""The state that the router keeps of each child, and of what is under way between peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.catalogue import KINDS, TEMPLATES, TOOLS
from mcpagg_runtime.client import MODERN_VERSION
from mcpagg_runtime.listing import Listing
from mcpagg_runtime.templates import fits
from mcpagg_runtime.wire import Malformed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from mcpagg_runtime.catalogue import Kind
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.wire import Message

CREATED = "created"  # never asked for
QUEUED = "queued"  # to be started as soon as fewer are starting
STARTING = "starting"  # process asked for, handshake not finished
READY = "ready"
DOWN = "down"  # failed to start, or died; `reason` says how

LEGACY = "legacy"  # shakes hands, and asks the client by requests of its own
MODERN = "modern"  # the revision of 2026-07-28, which does neither

# Which states may follow which. A child that was sent to sleep is as one never asked for.
TRANSITIONS = {
    CREATED: (QUEUED,),
    QUEUED: (STARTING,),
    STARTING: (READY, DOWN),
    READY: (CREATED, DOWN),
    DOWN: (QUEUED,),
}

# Which list a call asks for an item of by name.
ASKS_FOR = {"tools/call": "tools", "prompts/get": "prompts"}

FOREVER = float("inf")
# Of a child that loses more answers than that, nothing that is in flight is waited for.
MAXIMUM_LOST = 16


class IllegalTransition(Exception):
    """Raised when a child is to enter a state that cannot follow the one it is in: our fault."""


class Reading:
    """One list of a child: how it is read, and what came of it.

    `listing` is what came so far of the reading under way, which has taken too long at `deadline`;
    the next one is due at `again_at`, `pause` seconds after the last at least. `compared` says
    whether it was held against the snapshot, and no change of it was announced since that matters;
    calls that wait for this wait until `give_up_at`. `drift` is how it differs, `refused` why {name
    that a client may use} is withheld.
    """

    __slots__ = (
        "again_at",
        "compared",
        "deadline",
        "drift",
        "give_up_at",
        "kind",
        "listing",
        "pause",
        "refused",
        "served_at",
        "under_way",
    )

    def __init__(self, kind: Kind, server: str) -> None:
        self.kind = kind
        self.under_way = False
        self.listing = Listing(kind, server)
        self.deadline = FOREVER
        self.again_at = FOREVER
        self.pause = 0.0
        self.served_at = -FOREVER
        self.compared = False
        self.give_up_at = FOREVER
        self.drift = ""
        self.refused: dict[str, str] = {}


class OwnRequest:
    """One request of the proxy itself to a child: its handshake, a page of a list, a level.

    Nobody waits for the answer to one of the last kind; at `deadline` it is given up. The answer to
    one for a page goes into `listing`, once; `cursor` is that of the next page, None for none, and
    `fault` says why there is no list in the answer.
    """

    __slots__ = ("cursor", "deadline", "fault", "listing", "method", "reading", "taken")

    def __init__(self, method: str, reading: Reading | None, deadline: float) -> None:
        self.method = method
        self.reading = reading
        self.deadline = deadline
        self.listing = reading.listing if reading is not None else None
        self.taken = False
        self.cursor: str | None = None
        self.fault = ""

    def take(self, result: str) -> None:
        """Take the page that answers this request, the JSON text of a result, if nobody has."""
        if self.listing is None or self.taken:
            return
        self.taken = True
        try:
            self.cursor = self.listing.take(result)
        except Malformed as problem:
            self.fault = str(problem)


class LostAnswers:
    """Answers of a child that came without an id that can be read.

    Each answers one of the requests that were in flight when it came. As soon as the others of
    these have ended, it is known which: so that none waits for ever, and none fails for another.
    """

    __slots__ = ("_lost",)

    def __init__(self) -> None:
        self._lost: list[tuple[set[int], str]] = []

    def add(self, in_flight: Collection[int], error: str) -> None:
        """Note one; `error` is the JSON text that its request will be answered with."""
        if in_flight:
            self._lost.append((set(in_flight), error))

    def settled(self, in_flight: Collection[int]) -> dict[int, str]:
        """Return {request: error} for those that must be the ones answered; forget these.

        As many lost answers as there are requests that they may be for answer them all; so do
        more than MAXIMUM_LOST, whatever they may be for.
        """
        left = [(ids.intersection(in_flight), error) for ids, error in self._lost]
        self._lost = [(ids, error) for ids, error in left if ids]
        if len(self._lost) > MAXIMUM_LOST:
            lost, self._lost = self._lost, []
            return {number: error for ids, error in lost for number in ids}
        for ids, _ in self._lost:
            within = [lost for lost in self._lost if lost[0] <= ids]
            if len(within) >= len(ids):
                self._lost = [lost for lost in self._lost if lost not in within]
                return dict(zip(sorted(ids), [error for _, error in within]))  # noqa: B905
        return {}

    def __len__(self) -> int:
        return len(self._lost)


class Call:
    """One request of a client on its way to a child.

    `name` is what it asks for as the client named it. `path` leads within params to the member that
    becomes `original`, the child's own name for it; () where nothing is replaced. `others` are
    children to ask next if this one answers with an error, and `refusal` the error, as JSON text,
    that says most of those that came so far. `moved` says that URIs in the result are written as
    those of skills are listed. `identifier` is the client's id as JSON
    text, `key` the same id as a value; `token` is the JSON text of its progress token, "" for none.
    `deadline` is a time of the router's clock, which progress may move by `limit` seconds from the
    time that it comes, up to `latest`.
    """

    __slots__ = (
        "child",
        "child_id",
        "client",
        "deadline",
        "identifier",
        "key",
        "latest",
        "limit",
        "message",
        "method",
        "moved",
        "name",
        "original",
        "others",
        "path",
        "refusal",
        "token",
    )

    def __init__(self, client: Client, message: Message, child: Child, name: str) -> None:
        self.client = client
        self.message = message
        self.method = message.method or ""
        self.child = child
        self.name = name
        self.original = ""
        self.path: tuple[str, ...] = ()
        self.others: list[Child] = []
        self.refusal = ""
        self.moved = False
        self.identifier = message.raw("id")
        self.key = message.id
        self.token = ""
        self.child_id = 0
        self.deadline = self.latest = FOREVER
        self.limit = 0.0


class Question:
    """One request of a child on its way to a client, with the child's id as text and value.

    `reply` is what the client answers, None as long as it does not; `token` the JSON text of the
    child's progress token, "" for none.
    """

    __slots__ = ("child", "client", "client_id", "identifier", "key", "reply", "token")

    def __init__(self, child: Child, client: Client, message: Message, client_id: int) -> None:
        self.child = child
        self.client = client
        self.identifier = message.raw("id")
        self.key = message.id
        self.client_id = client_id
        self.reply: Message | None = None
        self.token = ""


class Child:
    """One server behind the proxy, over all its lives.

    `waiting` are calls that came before it was ready, `unknown` those for a tool that it may have
    got since the snapshot; `calls` are clients' requests in flight by the id that the proxy minted,
    and `own` the proxy's own, `lost` the answers to nobody knows which of them; `questions` are its
    own requests to clients, oldest first, and `kept` those that wait for a call. `client` is the
    one whose message started it: it is initialised with that client's capabilities.
    `protocol` is the version that it answered, `capabilities` are what it declared, `readings` its
    lists by kind. `era` is how it is spoken to, and `turned` says that it was found to be the other
    one since it was last up. `asks` says that it may ask clients something in the middle of a call.
    `starting_at` and `ready_at` are when it was started and when it had shaken
    hands, `deadline` when that has taken too long, `active_at` when it last had work. `failures`
    counts its deaths in a row, and it is not started again before `retry_at`. `reported` {kind:
    text} is what was said of its lists last. `masks` {name: value} are the variables that clients
    name and never see.
    """

    __slots__ = (
        "active_at",
        "asks",
        "calls",
        "capabilities",
        "client",
        "deadline",
        "era",
        "failures",
        "kept",
        "lost",
        "masks",
        "name",
        "next_id",
        "own",
        "protocol",
        "questions",
        "readings",
        "ready_at",
        "reason",
        "reported",
        "retry_at",
        "row",
        "starting_at",
        "state",
        "turned",
        "unknown",
        "waiting",
        "warned",
    )

    def __init__(self, name: str, row: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """`row` is of the launch table, `facts` what else the compiler learnt of it."""
        self.name = name
        self.row = row
        self.era = MODERN if facts.get("protocol") == MODERN_VERSION else LEGACY
        self.turned = False
        # Who has tools for clients with capabilities has them to ask such clients something.
        self.asks = bool(facts.get("conditional"))
        self.next_id = 0
        self.warned = False
        self.failures = 0
        self.retry_at = -FOREVER
        self.reported: dict[str, str] = {}
        self.masks: Mapping[str, str] = {}
        self.state = CREATED
        self.reason = ""
        self._forget()

    def enter(self, state: str, reason: str = "") -> None:
        """Be in another state from now on; one life ends with it, or none.

        Raises:
            IllegalTransition: it cannot follow the state that the child is in.
        """
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransition(f"{self.name}: from {self.state} to {state}")
        if state in (CREATED, DOWN):
            self._forget()
        self.state = state
        self.reason = reason

    def _forget(self) -> None:
        """Forget one life; ids go on, so that nothing of it can be taken for the next one's."""
        self.client: Client | None = None
        self.protocol = ""
        self.capabilities: dict[str, Any] = {}
        self.calls: dict[int, Call] = {}
        self.own: dict[int, OwnRequest] = {}
        self.lost = LostAnswers()
        self.waiting: list[Call] = []
        self.unknown: list[Call] = []
        self.questions: list[Question] = []
        self.kept: list[Message] = []
        self.readings = {kind.name: Reading(kind, self.name) for kind in KINDS}
        self.deadline = FOREVER
        self.starting_at = FOREVER
        self.ready_at = FOREVER
        self.active_at = FOREVER

    def withheld(self, method: str, name: str) -> str | None:
        """Return why what a client asks for by `name` is withheld, None if it is not."""
        for reading in self.readings.values():
            kind = reading.kind
            # A prompt may be called like a tool; what is completed is a prompt or a template.
            meant = method.startswith((kind.name, kind.capability)) or (
                method == "completion/complete" and kind is not TOOLS
            )
            for refused, reason in reading.refused.items():
                if meant and (name == refused or (kind is TEMPLATES and fits(refused, name))):
                    return reason
        return None

    @property
    def takes_turns(self) -> bool:
        """Whether it is given the calls of one client at a time: it asks, and says not for which.

        A child without a handshake says so.
        """
        return self.asks and self.era == LEGACY

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do, and nobody waits for news of it."""
        busy = self.calls or self.own or self.waiting or self.unknown or self.questions
        return self.state == READY and not busy
