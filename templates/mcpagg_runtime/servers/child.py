"""One instance of a server behind the proxy, over all its lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.protocol import (
    CANCELLED,
    LISTS_CHANGED,
    LOG_MESSAGE,
    MODERN,
    OF_CLIENTS,
    PROGRESS,
    RESOURCE_UPDATED,
)
from mcpagg_runtime.servers.calls import CallQueue
from mcpagg_runtime.servers.connection import Connection
from mcpagg_runtime.servers.lifecycle import CREATED, DOWN, STARTING, Lifecycle
from mcpagg_runtime.servers.lists import Lists
from mcpagg_runtime.servers.server_requests import ServerRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.clients.answers import Answers
    from mcpagg_runtime.clients.client import Client, Clients
    from mcpagg_runtime.lists.uris import UriOwners
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.servers.calls import Call
    from mcpagg_runtime.servers.connection import ChildPort
    from mcpagg_runtime.servers.effects import Effects
    from mcpagg_runtime.servers.instances import Instances

# How calls end of which one has asked something, and nobody knows which; behind "Server 'x'".
NOT_KNOWN = "asked a client something while calls of several were under way, and did not say which"
LOST_LOG = "logs while calls of several clients are under way: what may be of any reaches none"


class Child:
    """One instance: its parts, which own its state, and what an event means to them together."""

    def __init__(
        self,
        name: str,
        instances: Instances,
        answers: Answers,
        effects: Effects,
        clients: Clients,
        origins: UriOwners,
        *,
        era: str = "",
        audience: Client | None = None,
    ) -> None:
        """`era` is the one in which it is spoken to first, "" for that of its snapshot.

        `audience` is on whose behalf it is started, None for the client that wants it.
        """
        plan = answers.plan
        self.name = name
        self._instances = instances
        self.row = plan.servers[name]
        self._clients = clients
        self._catalogues = answers.catalogues
        self._outages = answers.outages
        self._exposed = origins.exposed_uri
        self.connection = Connection(self, self, self.row, plan.options, effects)
        self.lifecycle = Lifecycle(self.connection, plan, era, audience)
        self._loss_said = False
        self.requests = ServerRequests(
            self.connection, self.lifecycle, clients, instances, self._send_on
        )
        self.lists = Lists(self._catalogues, self.connection, self.lifecycle, clients, instances)
        self.calls = CallQueue(self, self._catalogues, origins, instances)

    @property
    def state(self) -> str:
        """Where it is in its life; see the lifecycle."""
        return self.lifecycle.state

    @property
    def era(self) -> str:
        """How it is spoken to: legacy or modern."""
        return self.lifecycle.era

    # Its life

    def up(self, port: ChildPort | None, masks: Mapping[str, str]) -> None:
        """Its process runs, see `Connection.open`; `masks` are {name: value}."""
        if self.state != STARTING:  # it died before it was noticed to live
            return
        masked = None
        if "masks" in self.row:
            from mcpagg_runtime.servers.masking import Masks  # else it may be left out

            masked = Masks(self.row["masks"], masks)
        self.connection.open(port, masked)
        self.connection.port.introduce(self.lifecycle.introduction(), self._shake_hands)

    def _shake_hands(self, answer: Message) -> None:
        """It has answered the handshake: send what waited, and read what it offers."""
        if self.lifecycle.refused(answer):
            return
        self.lifecycle.ready(answer)
        self._instances.succeeded()
        self.connection.port.begin()
        if self.name in self._outages:
            self._outages.remove(self.name)
            self._clients.all_changed(self._catalogues, self.name)
        self._inform()
        self.calls.flush()
        self.lists.read()
        self._sleep_if_idle(self.lifecycle.ready_at)

    def renewed(self) -> None:
        """It has forgotten what it was sent, and may offer something else by now."""
        if self.lifecycle.is_ready:
            self._inform()
            self.lists.read()

    def _inform(self) -> None:
        """Tell it what it is to know beside its requests."""
        self.set_level()
        for uri in self._clients.watched(self.name, self._serves):
            self.connection.port.watch(uri)

    def _serves(self, client: Client) -> bool:
        """Whether a client gets its notifications."""
        return self._instances.of(client) is self

    def is_watched(self, uri: str) -> bool:
        """Whether one of its clients wants news of a resource."""
        return uri in self._clients.watched(self.name, self._serves)

    def unwatch(self, uri: str) -> None:
        """A client wants no more news of a resource: neither does anybody, perhaps."""
        if self.lifecycle.is_ready and not self.is_watched(uri):
            self.connection.port.unwatch(uri)

    def set_level(self) -> None:
        """Tell it which log level clients want, if it logs."""
        level = self._clients.level
        if level and self.lifecycle.is_ready and "logging" in self.lifecycle.capabilities:
            self.connection.port.set_level(level)

    def down(self, reason: str, last_words: str) -> None:
        """The process has ended, or never started: fail pending calls, withdraw its entries.

        `reason` completes "Server 'x' …"; `last_words` is the end of its stderr, without secrets.
        """
        if not self.lifecycle.is_alive:
            return
        shaking = self.state == STARTING and bool(self.connection.own)
        if shaking and self.era == MODERN and self.lifecycle.switch_era():
            return
        if self.state == STARTING:
            self._instances.failed(self)
        self.calls.abandon(reason)
        self.requests.clear()
        self.lifecycle.fail(reason)
        self._forget()
        words = f"; the end of its stderr:\n{last_words.rstrip()}" if last_words.strip() else ""
        self.connection.say(reason + words)
        if self._instances.are_down and self.name not in self._outages:
            self._outages.add(self.name)
            self._clients.all_changed(self._catalogues, self.name)

    def retire(self) -> None:
        """End it: whose it was is gone."""
        if self.state not in (CREATED, DOWN):
            self.requests.clear()
            self.lifecycle.enter(CREATED, "its client is gone")
            self.connection.effects.sleep(self)
            self._forget()

    def _forget(self) -> None:
        """Reset the state of one run."""
        self.connection.clear()
        self.lists.clear()

    def tick(self, now: float) -> None:
        """Do what is due at this time."""
        self.lifecycle.tick(now)
        self.connection.port.tick(now)
        self.lists.tick(now)
        self.calls.time_out(now)
        self.connection.give_up(now)
        self.connection.ask_next()
        for call in self.requests.give_up(now, awaited=self.calls.any_waits):
            self.withdraw(call, lambda number: obj(requestId=number))
            self.calls.fail(call, NOT_KNOWN)
        self._send_on()
        self._sleep_if_idle(now)

    @property
    def is_busy(self) -> bool:
        """Whether it owes something, or is owed it."""
        return bool(self.connection.owed() or self.calls.any_waits or self.requests.are_open)

    def _sleep_if_idle(self, now: float) -> None:
        """End it if it has had nothing to do for long enough; the next call starts it again."""
        busy = self.is_busy or bool(self._clients.watched(self.name, self._serves))
        if self.lifecycle.sleep_if_idle(now, busy=busy):
            self._forget()

    # What it says

    def notifies(self, message: Message) -> None:
        """It says something that is no answer."""
        if message.method == CANCELLED:
            self.requests.withdraw(message)
        elif message.method in LISTS_CHANGED:
            self.lists.announced(message.method)
        elif message.method == PROGRESS:
            self.calls.progress(self.connection.unmasked(message))
        elif self.lifecycle.is_ready and message.method not in OF_CLIENTS:
            # A resource keeps its URI everywhere, or nobody could read it.
            if message.method != RESOURCE_UPDATED:
                message = self.connection.unmasked(message)
            self._pass_on(message)

    def _pass_on(self, message: Message) -> None:
        """Give a notification to the clients concerned; report, once, a log that reaches none.

        What it logs while calls of several clients are in flight may be about any of them.
        """
        callers = {call.client for call in self.connection.calls.values()}
        reached = self._clients.pass_on(self.name, message, callers, self._serves, self._exposed)
        is_lost = message.method == LOG_MESSAGE and not reached and len(callers) > 1
        if is_lost and not self._loss_said:
            self._loss_said = True
            self.connection.say(LOST_LOG)

    def asks(self, call: Call | None, message: Message) -> None:
        """It asks a client something in a call; None if it does not say in which."""
        message = self.connection.unmasked(message)
        if call is not None:
            self.requests.ask(call.client, message, call.identifier)
        else:
            self.requests.receive(message)
        self.calls.flush()

    def answered(self, number: int, message: Message) -> None:
        """Take an answer. One to nothing in flight is late, to a call that was cancelled."""
        connection = self.connection
        call = connection.calls.get(number)
        if call is not None:
            if connection.masks is not None:
                message = connection.unmasked(message)
            self.calls.answered(call, message)
        elif connection.answered(number, message):
            self._send_on()
        else:
            self.requests.late.ended(number)
            self.calls.flush()
        if connection.alone:
            connection.ask_next()

    # What clients want of it

    def submit_unknown(self, call: Call) -> None:
        """Take a call for a tool that it may have got since the snapshot."""
        self.calls.submit_unknown(call)
        self.lists["tools"].read_for_call()
        self._send_on()

    def withdraw(self, call: Call, params: Callable[[str], str]) -> None:
        """Take a call back; `params` makes those of the cancellation from its id."""
        self.calls.withdraw(call, params)
        self.calls.flush()

    def _send_on(self) -> None:
        """Let calls go that waited for a list, if it is known by now, and all others that may."""
        if self.lists["tools"].is_known:
            self.calls.settle_unknown()
        self.calls.flush()
