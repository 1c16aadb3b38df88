"""A child's life: created → queued → starting → ready → down, or created again when put to sleep.

A child that is down stays down, as the specification asks; with `--restart on-call` the next call
starts it again, after a pause that grows with each failure. With `--idle-stop` a child that has had
nothing to do for that long is ended until the next call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import obj, parse
from mcpagg_runtime.messages.protocol import (
    LEGACY,
    METHOD_NOT_FOUND,
    MODERN,
    MODERN_CODES,
    MODERN_VERSION,
)
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.servers.connection import Connection

CREATED = "created"  # never asked for, or sent to sleep
QUEUED = "queued"  # to be started as soon as fewer are starting
STARTING = "starting"  # process asked for, handshake not finished
READY = "ready"
DOWN = "down"  # failed to start, or died; `reason` says how

# Which states may follow which.
TRANSITIONS = {
    CREATED: (QUEUED,),
    QUEUED: (STARTING, CREATED),
    STARTING: (READY, DOWN, CREATED),
    READY: (CREATED, DOWN),
    DOWN: (QUEUED,),
}

# How long after its nth failure in a row a child may be started again, and how many are too many.
FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0
MAXIMUM_FAILURES = 10
# A child that lived so long has not failed to start.
SOUND_SECONDS = 60.0


# What an older server has no reason to name in an error: the version, a method, the prefix of the
# envelope's keys.
MODERN_SIGNS = (MODERN_VERSION, "server/discover", "io.modelcontextprotocol/")


class IllegalTransition(Exception):
    """Raised when a child is to enter a state that cannot follow the one it is in: our fault."""


class Lifecycle:
    """The state of one child over all its runs, its handshake, and when it may be restarted."""

    def __init__(
        self, connection: Connection, plan: Plan, era: str, audience: Client | None
    ) -> None:
        """See `Child`."""
        self._audience = audience
        self._connection = connection
        self._effects = connection.effects
        self._plan = plan
        facts = plan.children.get(connection.name, {})
        recorded = facts.get("protocol")
        self._handshake = facts.get("handshake", recorded)
        """The version that it shook hands in when compiled, if it did."""
        self.state = CREATED
        self.is_ready = False
        """Whether it has shaken hands."""
        self.is_alive = False
        """Whether it has a process, or will have one presently."""
        self.reason = ""
        """Why it is in this state; completes "Server 'x' …"."""
        self.era = era or (MODERN if recorded == MODERN_VERSION else LEGACY)
        """How it is spoken to."""
        self._era_switched = False
        """Whether it was started anew in the other era since it was last ready."""
        self._failures = 0
        self._retry_at = -FOREVER
        self._forget()

    def _forget(self) -> None:
        """Reset the state of one run."""
        self.client: Client | None = None
        """The one whose message started it: it is initialised with that client's capabilities."""
        self.protocol = ""
        """The version that it answered its handshake with."""
        self.capabilities: dict[str, Any] = {}
        """What it declared."""
        self.starting_at = self.ready_at = FOREVER
        self.active_at = FOREVER
        """When it last had work."""
        self._deadline = FOREVER
        """When its handshake has taken too long."""

    def enter(self, state: str, reason: str = "") -> None:
        """Be in another state from now on; one life ends with it, or none.

        Raises:
            IllegalTransition: it cannot follow the state that the child is in.
        """
        if state not in TRANSITIONS[self.state]:
            name = self._connection.name
            raise IllegalTransition(f"{name}: from {self.state} to {state}")
        if state in (CREATED, DOWN):
            self._forget()
        self.state, self.reason = state, reason
        self.is_ready = state == READY
        self.is_alive = state in (STARTING, READY)
        self._effects.entered(self._connection.child, state, reason)

    @property
    def is_down_for_good(self) -> bool:
        """Whether it is down, and not to be started again now."""
        return self.state == DOWN and not self._may_retry()

    def _may_retry(self) -> bool:
        if self._connection.options.restart != "on-call" or self._failures >= MAXIMUM_FAILURES:
            return False
        return self._retry_at <= self._effects.clock()

    @property
    def declared(self) -> dict[str, Any]:
        """What it declares; as long as it is not ready, what it did when compiled."""
        if self.is_ready:
            return self.capabilities
        about = parse(self._plan.snapshot[self._connection.name].get("server", "{}"))
        declared: dict[str, Any] = about.get("capabilities", {})
        if self.era == LEGACY:  # one that speaks both eras may declare something else in this one
            declared = about.get("handshakeCapabilities", declared)
        return declared

    def touch(self) -> None:
        """Note that it has work."""
        self.active_at = self._effects.clock()

    # Starting

    def want(self, client: Client) -> None:
        """See to it that it is started, on behalf of a client."""
        if self.state == CREATED or (self.state == DOWN and self._may_retry()):
            self.enter(QUEUED)
            self.client = self._audience or client.connection.audience or client

    def start(self) -> None:
        """Start it: it is its turn."""
        self.enter(STARTING)
        self._launch()

    def _launch(self) -> None:
        self.await_handshake(self._connection.options.connect_timeout)
        self._effects.start(self._connection.child)

    def await_handshake(self, seconds: float) -> None:
        """Give it so many seconds for its handshake, from now on."""
        self.starting_at = self._effects.clock()
        self._deadline = self._effects.arm(self.starting_at + seconds)

    @property
    def is_timed(self) -> bool:
        """Whether it has a limit of time for its handshake now."""
        return self._deadline < FOREVER

    def introduction(self) -> str:
        """Return the params of `initialize`: in its recorded version, as the client it is for."""
        known = self._handshake in LEGACY_VERSIONS
        version = str(self._handshake) if known else LEGACY_VERSIONS[0]
        able, info = "{}", ""
        if self.client is not None:
            version = min(version, self.client.version)
            able, info = self.client.relayed(), self.client.info
        return handshake(version, able, info or self._plan.whole.info)

    def ready(self, answer: Message) -> None:
        """It has answered the handshake."""
        said = answer.value("result")
        self.enter(READY)
        self.protocol = said["protocolVersion"]
        capabilities = said.get("capabilities")
        self.capabilities = capabilities if type(capabilities) is dict else {}
        self._era_switched = False
        self._deadline = FOREVER
        self.ready_at = self.active_at = self._effects.clock()

    def refused(self, answer: Message) -> bool:
        """Whether it has refused the handshake: it is spoken to in the other era then, or given up.

        What introduces no server is as good as a refusal.
        """
        fault = introduction_fault(answer.value("result"))
        if answer.is_error:
            fault = f"refused the handshake: {answer.raw('error')}"
        if fault and not (self._means_other_era(answer) and self.switch_era()):
            self.give_up(fault)
        return bool(fault)

    def give_up(self, reason: str) -> None:
        """End it: its handshake is of no use; `reason` completes "Server 'x' …"."""
        self._effects.stop(self._connection.child, reason)

    def _means_other_era(self, answer: Message) -> bool:
        """Whether what it answers a handshake with may mean: not in this era.

        Whatever answers a discovery may; an error that answers `initialize` says so.
        """
        if self.era == MODERN or MODERN_VERSION in answer.raw("error"):
            return True
        return knows_no_handshake(answer)

    def switch_era(self) -> bool:
        """Start it anew, to speak with it as in the other era; once, until it is ready again.

        On a fresh process: what it was asked may have left it in any state.
        """
        if self._era_switched:
            return False
        self._era_switched = True
        self.era = _other(self.era)
        self._connection.own = {}
        self._effects.sleep(self._connection.child)
        self._launch()
        return True

    # Ending

    def fail(self, reason: str) -> None:
        """Its process is gone, or never was."""
        if self._era_switched:  # so it was not that
            self.era, self._era_switched = _other(self.era), False
        now = self._effects.clock()
        sound = now - self.ready_at > SOUND_SECONDS
        self._failures = 1 if sound else self._failures + 1
        self._retry_at = now + retry_pause(self._failures)
        self.enter(DOWN, reason)

    def tick(self, now: float) -> None:
        """Give it up if its handshake takes too long."""
        if self._deadline <= now:
            limit = f"{self._connection.options.connect_timeout:g} s"
            self._deadline = FOREVER
            reason = f"did not finish its handshake within {limit}"
            self.give_up(reason)
        self._effects.arm(self._deadline)

    def sleep_if_idle(self, now: float, *, busy: bool) -> bool:
        """End it if it has had nothing to do for long enough; return whether it was ended."""
        limit = self._connection.options.idle_stop
        if not limit or self.state != READY:
            return False
        due = (now if busy else self.active_at) + limit
        if due > now:
            self._effects.arm(due)
            return False
        self.enter(CREATED, f"had nothing to do for {limit:g} s")
        self._effects.sleep(self._connection.child)
        return True


def retry_pause(failures: int) -> float:
    """Return how many seconds after so many failures in a row another start is tried."""
    return min(FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_RETRY_SECONDS)


def handshake(version: str, able: str, info: str) -> str:
    """Return the params of `initialize`; `able` are capabilities, `info` says who asks, in JSON."""
    return obj(protocolVersion=quote(version), capabilities=able, clientInfo=info)


def introduction_fault(said: object) -> str:
    """Return why the result of a handshake introduces no server, "" if it does.

    Completes "Server 'x' …". Compiling and starting refuse the same servers by this rule.
    """
    if type(said) is not dict:
        return "answered initialize with a result that is no JSON object"
    named = type(said.get("protocolVersion")) is str
    return "" if named else "names no protocol version that it speaks"


def knows_no_handshake(refusal: Message) -> bool:
    """Whether a refused `initialize` says that no handshake in any version would do.

    A modern server does not know the method (specification, the removed methods); a legacy one
    must, so it may refuse its version, but not the method.
    """
    return refusal.code == METHOD_NOT_FOUND or speaks_modern(refusal)


def speaks_modern(refusal: Message) -> bool:
    """Whether a refused request comes from a server that speaks modern versions alone.

    One that also supports a handshake says so, and gets one in that version.
    """
    error = refusal.value("error")
    data = error.get("data") if type(error) is dict else None
    supported = data.get("supported") if type(data) is dict else None
    if type(supported) is list and any(version in supported for version in LEGACY_VERSIONS):
        return False
    text = refusal.raw("error")
    return refusal.code in MODERN_CODES or any(sign in text for sign in MODERN_SIGNS)


def _other(era: str) -> str:
    return LEGACY if era == MODERN else MODERN
