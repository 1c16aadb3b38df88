"""A child's life: created → queued → starting → ready → down.

Children start side by side in the background, a few at a time, one that a call waits for first.
A child that is down stays down, as the specification asks, and its tools leave the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.calls import is_error
from mcpagg_runtime.client import LEGACY_VERSIONS
from mcpagg_runtime.core import START, STOP
from mcpagg_runtime.drift import Drift
from mcpagg_runtime.peers import CREATED, DOWN, FOREVER, QUEUED, READY, STARTING, Child
from mcpagg_runtime.wire import Malformed, Message, members, notification, quote

if TYPE_CHECKING:
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.core import Action

MAXIMUM_STARTING = 8


class Lifecycle(Drift):
    """Starts children, shakes hands with them, and clears up after them."""

    def child_up(self, child: Child) -> list[Action]:
        """A child's process runs: shake hands in its recorded version, as the client it is for."""
        if child.state != STARTING:  # it died before it was noticed to live
            return self._taken()
        client = child.client
        version = self.plan.children.get(child.name, {}).get("protocol", LEGACY_VERSIONS[0])
        if client is not None:
            version = min(version, client.version)
        declared = client.capabilities if client is not None else {}
        capabilities = ",".join([f"{quote(name)}:{text}" for name, text in declared.items()])
        info = client.info if client is not None else ""
        self._ask(
            child,
            "initialize",
            f'{{"protocolVersion":{quote(version)},"capabilities":{{{capabilities}}},'
            f'"clientInfo":{info or self.plan.info}}}',
        )
        return self._taken()

    def child_down(self, child: Child, reason: str, last_words: str = "") -> list[Action]:
        """A child's process is gone or never was: fail what it owes, withdraw its tools.

        `reason` completes "Server 'x' …"; `last_words` is the end of its stderr, without secrets.
        """
        if child.state == DOWN:
            return self._taken()
        self._abandon(child, reason)
        child.reset(DOWN, reason)
        words = f"; the end of its stderr:\n{last_words.rstrip()}" if last_words.strip() else ""
        self._say(f"server '{child.name}' {reason}{words}")
        if child.name not in self.catalogue.down:
            self.catalogue.down.add(child.name)
            served = self.catalogue.served(child.name)
            self._lists_changed(child.name, [tool.original for tool in served])
        self._admit()
        return self._taken()

    def tick(self) -> list[Action]:
        """Do what is due at this time, and set `alarm` anew."""
        now = self.clock()
        self.alarm = FOREVER
        for child in self.children.values():
            if child.deadline <= now:
                self._too_late(child)
            if child.relist_at <= now:
                self._read_list(child)
            self._time_out(child, now)
            self._arm(child.deadline)
            if not child.listing:
                self._arm(child.relist_at)
        return self._taken()

    def _too_late(self, child: Child) -> None:
        """A child's handshake, or the reading of its list, takes too long."""
        child.deadline = FOREVER
        limit = f"within {self.plan.options['connect_timeout']:g} s"
        if child.state == READY:
            self._unread(child, f"no answer {limit}")
        else:
            self._actions.append((STOP, child, f"did not finish its handshake {limit}"))

    def _wake(self, child: Child, client: Client) -> None:
        """See to it that a child is started, on behalf of `client`."""
        if child.state == CREATED:
            child.state = QUEUED
            child.client = client
            self._admit()

    def _admit(self) -> None:
        """Start queued children, those that a call waits for first, a few at a time."""
        children = list(self.children.values())
        room = MAXIMUM_STARTING - sum(child.state == STARTING for child in children)
        queued = [child for child in children if child.state == QUEUED]
        queued.sort(key=lambda child: not (child.waiting or child.unknown))
        for child in queued[: max(room, 0)]:
            child.state = STARTING
            child.deadline = self._arm(self.clock() + self.plan.options["connect_timeout"])
            self._actions.append((START, child, ""))

    def _own_answer(self, child: Child, method: str, message: Message) -> None:
        """Take a child's answer to a request of the proxy's own."""
        failed = is_error(message)
        if method == "initialize":
            if failed:
                detail = f"refused the handshake: {message.raw('error')}"
                self._actions.append((STOP, child, detail))
            else:
                self._shaken(child, message)
        elif failed:
            self._unread(child, message.raw("error"))
        else:
            self._page(child, message)

    def _shaken(self, child: Child, message: Message) -> None:
        """The handshake is done: say so, send what waited, and read what the child offers."""
        try:
            answer, _ = members(message.raw("result"))
            capabilities = answer["capabilities"][0]
        except (Malformed, KeyError):
            capabilities = {}
        child.state = READY
        child.deadline = FOREVER
        child.ready_at = self.clock()
        child.lists_tools = type(capabilities) is dict and "tools" in capabilities
        self._send(child, notification("notifications/initialized"))
        self._flush(child)
        self._read_list(child)
        self._admit()
