"""A child's life: created → queued → starting → ready → down, or created again when put to sleep.

Children start side by side in the background, a few at a time, one that a call waits for first.
A child that is down stays down, as the specification asks, and its items leave the lists; with
`--restart on-call` the next call starts it again, after a pause that grows with each failure. With
`--idle-stop` a child that has had nothing to do for that long is ended until the next call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.catalogue import KINDS, TOOLS
from mcpagg_runtime.client import LEGACY_VERSIONS, MODERN_VERSION
from mcpagg_runtime.core import SLEEP, START, STOP, gone
from mcpagg_runtime.drift import Drift
from mcpagg_runtime.faults import where
from mcpagg_runtime.peers import (
    CREATED,
    DOWN,
    FOREVER,
    LEGACY,
    MODERN,
    QUEUED,
    READY,
    STARTING,
    Child,
)
from mcpagg_runtime.questions import code_of, is_error
from mcpagg_runtime.wire import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Malformed,
    Message,
    members,
    notification,
    quote,
    read_message,
)

if TYPE_CHECKING:
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.core import Action
    from mcpagg_runtime.peers import Call, OwnRequest

# The extension by which a server may answer with a task. Later requests about the task name no
# server, so they could not be routed; the tasks of 2025-11-25 are not relayed either.
TASKS = "io.modelcontextprotocol/tasks"

MAXIMUM_STARTING = 8
# Of these, one is kept for a child that a call waits for: it need not wait for others to start.
MAXIMUM_IN_BACKGROUND = 7
# How long after its nth failure in a row a child may be started again, and how many are too many.
FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0
MAXIMUM_FAILURES = 10
# A child that lived so long has not failed to start.
SOUND_SECONDS = 60.0


class Lifecycle(Drift):
    """Starts children, shakes hands with them, and clears up after them."""

    def child_up(self, child: Child) -> list[Action]:
        """A child's process runs: shake hands in its recorded version, as the client it is for."""
        if child.state != STARTING:  # it died before it was noticed to live
            return self._taken()
        client = child.client
        recorded = self.plan.children.get(child.name, {}).get("protocol")
        version = recorded if recorded in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
        able, info = "{}", ""
        if client is not None:
            version = min(version, client.version)
            able, info = relayed(client), client.info
        self._ask(
            child,
            "initialize",
            f'{{"protocolVersion":{quote(version)},"capabilities":{able},'
            f'"clientInfo":{info or self.plan.info}}}',
        )
        return self._taken()

    def child_down(self, child: Child, reason: str, last_words: str = "") -> list[Action]:
        """A child's process is gone or never was: fail what it owes, withdraw its tools.

        `reason` completes "Server 'x' …"; `last_words` is the end of its stderr, without secrets.
        """
        if child.state not in (STARTING, READY):
            return self._taken()
        shaking = child.state == STARTING and bool(child.own)
        if shaking and child.era == MODERN and self._turn(child):
            return self._taken()
        self._abandon(child, reason)
        if child.turned:  # so it was not that
            child.era, child.turned = _other(child.era), False
        now = self.clock()
        child.failures = 1 if now - child.ready_at > SOUND_SECONDS else child.failures + 1
        pause = min(FIRST_RETRY_SECONDS * 2.0 ** (child.failures - 1), LONGEST_RETRY_SECONDS)
        child.retry_at = now + pause
        self._enter(child, DOWN, reason)
        words = f"; the end of its stderr:\n{last_words.rstrip()}" if last_words.strip() else ""
        self._say(f"server '{child.name}' {reason}{words}")
        if child.name not in self.desk.down:
            self.desk.down.add(child.name)
            self._all_changed(child)
        self._admit()
        return self._taken()

    def _all_changed(self, child: Child) -> None:
        """Everything that a child offers has left the lists, or is back in them."""
        said = set()
        for kind in KINDS:
            served = self.catalogues[kind.name].served(child.name)
            if served and kind.announcement not in said:
                said.add(kind.announcement)
                self._lists_changed(kind, child.name, [item.original for item in served])

    def tick(self) -> list[Action]:
        """Do what is due at this time, and set `alarm` anew."""
        now = self.clock()
        self.alarm = FOREVER
        for child in self.children.values():
            self._look_after(child, now)
        return self._taken()

    def _look_after(self, child: Child, now: float) -> None:
        """Do what is due for a child. A fault of ours ends it: nobody waits for it for ever."""
        try:
            if child.deadline <= now:
                limit = f"{self.plan.options['connect_timeout']:g} s"
                child.deadline = FOREVER
                reason = f"did not finish its handshake within {limit}"
                self._actions.append((STOP, child, reason))
            self._arm(child.deadline)
            self._read_what_is_due(child, now)
            self._time_out(child, now)
            self._sleep_if_idle(child, now)
        except Exception as fault:
            reason = f"was given up over an internal fault: {where(fault)}"
            self._actions.append((STOP, child, reason))

    def _read_what_is_due(self, child: Child, now: float) -> None:
        for reading in child.readings.values():
            if reading.deadline <= now:
                limit = f"{self.plan.options['connect_timeout']:g} s"
                self._unread(child, reading, f"no answer within {limit}")
            if reading.again_at <= now:
                self._read_list(child, reading)
            self._arm(reading.deadline)
            if not reading.under_way:
                self._arm(reading.again_at)
            if reading.give_up_at <= now:
                self._flush(child)
            else:
                self._arm(reading.give_up_at)

    def _sleep_if_idle(self, child: Child, now: float) -> None:
        """End a child that has had nothing to do for long enough; the next call starts it again."""
        limit = self.plan.options.get("idle_stop")
        if not limit or child.state != READY:
            return
        watched = any(child in client.subscriptions.values() for client in self.clients)
        due = (child.active_at if child.idle and not watched else now) + limit
        if due <= now:
            self._enter(child, CREATED, f"had nothing to do for {limit:g} s")
            self._actions.append((SLEEP, child, ""))
        else:
            self._arm(due)

    def wake(self, child: Child, client: Client) -> list[Action]:
        """Start a child although nobody calls it."""
        self._wake(child, client)
        return self._taken()

    def _wake(self, child: Child, client: Client) -> None:
        """See to it that a child is started, on behalf of `client`."""
        if child.state == CREATED or (child.state == DOWN and self._may_retry(child)):
            self._enter(child, QUEUED)
            child.client = client
        if child.state == QUEUED:
            self._admit()

    def _may_retry(self, child: Child) -> bool:
        if self.plan.options["restart"] != "on-call" or child.failures >= MAXIMUM_FAILURES:
            return False
        return child.retry_at <= self.clock()

    def _submit(self, call: Call) -> None:
        """Have a call reach its child, started or not; fail it if the child is down for good."""
        child = call.child
        if child.state == DOWN and not self._may_retry(child):
            self._refused_by_child(call, gone(child, child.reason))
            return
        child.waiting.append(call)
        self._wake(child, call.client)
        self._flush(child)

    def _admit(self) -> None:
        """Start queued children, those that a call waits for first, a few at a time."""
        children = list(self.children.values())
        starting = sum(child.state == STARTING for child in children)
        queued = [child for child in children if child.state == QUEUED]
        queued.sort(key=lambda child: not (child.waiting or child.unknown))
        for child in queued:
            called = bool(child.waiting or child.unknown)
            if starting >= (MAXIMUM_STARTING if called else MAXIMUM_IN_BACKGROUND):
                return
            starting += 1
            self._enter(child, STARTING)
            child.starting_at = self.clock()
            child.deadline = self._arm(child.starting_at + self.plan.options["connect_timeout"])
            self._actions.append((START, child, ""))

    def _own_answer(self, child: Child, own: OwnRequest, message: Message) -> None:
        """Take a child's answer to a request of the proxy's own."""
        if own.method == "initialize":
            if is_error(message):
                if not (self._is_of_the_other(child, message) and self._turn(child)):
                    detail = f"refused the handshake: {message.raw('error')}"
                    self._actions.append((STOP, child, detail))
            else:
                self._shaken(child, message)
        elif own.reading is not None:
            kind = own.reading.kind
            if kind is not TOOLS and code_of(message) == METHOD_NOT_FOUND:
                # Declared and not there is as good as empty; resources often have no templates.
                message = read_message(f'{{"result":{{"{kind.member}":[]}}}}')
            if is_error(message):
                self._unread(child, own.reading, message.raw("error"))
            else:
                self._page(child, own.reading, own, message)

    def _is_of_the_other(self, child: Child, message: Message) -> bool:
        """Whether the error that a child answers a handshake with may mean: not in this era.

        Any that answers a discovery may; one that answers `initialize` says so.
        """
        if child.era == MODERN or MODERN_VERSION in message.raw("error"):
            return True
        return code_of(message) in (METHOD_NOT_FOUND, UNSUPPORTED_VERSION)

    def _turn(self, child: Child) -> bool:
        """Start a child anew, to speak with it as in the other era; once, until it is up again.

        On a fresh process: what it was asked may have left it in any state.
        """
        if child.turned:
            return False
        child.turned = True
        child.era = _other(child.era)
        child.own = {}
        child.starting_at = self.clock()
        child.deadline = self._arm(self.clock() + self.plan.options["connect_timeout"])
        self._actions += [(SLEEP, child, ""), (START, child, "")]
        return True

    def _shaken(self, child: Child, message: Message) -> None:
        """The handshake is done: say so, send what waited, and read what the child offers."""
        try:
            answer, _ = members(message.raw("result"))
        except Malformed:
            answer = {}
        capabilities = answer["capabilities"][0] if "capabilities" in answer else {}
        child.protocol = str(answer["protocolVersion"][0]) if "protocolVersion" in answer else ""
        self._enter(child, READY)
        child.turned = False
        child.deadline = FOREVER
        child.ready_at = child.active_at = self.clock()
        child.capabilities = capabilities if type(capabilities) is dict else {}
        self._send(child, notification("notifications/initialized"))
        if child.name in self.desk.down:
            self.desk.down.discard(child.name)
            self._all_changed(child)
        self._resume(child)
        self._flush(child)
        self._read_lists(child)
        self._sleep_if_idle(child, child.ready_at)
        self._admit()

    def _resume(self, child: Child) -> None:
        """Tell a child that came up what clients have asked for meanwhile."""
        if self.level:
            self._ask_level(child)
        for uri in dict.fromkeys([uri for c in self.clients for uri in c.subscriptions]):
            if any(client.subscriptions.get(uri) is child for client in self.clients):
                self._ask(child, "resources/subscribe", f'{{"uri":{quote(uri)}}}')

    def _ask_level(self, child: Child) -> None:
        """Tell a child which log level clients want, if it logs."""
        if "logging" in child.capabilities:
            self._ask(child, "logging/setLevel", f'{{"level":{quote(self.level)}}}')


def relayed(client: Client) -> str:
    """Return what children are told that a client can do, as JSON text."""
    able = dict(client.capabilities)
    if client.extensions:
        able["extensions"] = without_tasks(client.extensions)
    return "{" + ",".join([f"{quote(name)}:{text}" for name, text in able.items()]) + "}"


def without_tasks(extensions: str) -> str:
    """Return the JSON text of declared extensions without the one that does not pass a proxy."""
    if TASKS not in extensions:
        return extensions
    from mcpagg_runtime.modern import edited

    return edited(extensions, drop=(TASKS,))


def _other(era: str) -> str:
    return LEGACY if era == MODERN else MODERN
