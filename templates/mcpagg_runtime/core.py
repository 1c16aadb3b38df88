"""The ground that the router stands on: its state, and what is to be sent to whom.

Nothing here or in the rooms built on it (calls, drift, lifecycle, router) does I/O, reads a clock
of its own or starts anything. Each public method of the router takes one event and returns the
actions that follow, in order; a face and the child connections carry them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.origins import Origins
from mcpagg_runtime.peers import FOREVER, Call, Child, OwnRequest, Reading
from mcpagg_runtime.wire import INTERNAL_ERROR, error, failure, notification, quote, request

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.catalogue import Kind
    from mcpagg_runtime.client import Client
    from mcpagg_runtime.desk import Desk

    Action = tuple[str, Any, Any]

SEND = "send"  # a line to a client or a child: its text, or all of it in bytes
START = "start"  # a child's process
STOP = "stop"  # a child's process; the text says why, and `child_down` follows
SLEEP = "sleep"  # end a child's process without a word: it is wanted again
SAY = "say"  # a line on standard error
STATE = "state"  # a child has entered one; the text has the members `state` and `reason` for a log


class Core:
    """State and outbox of the router. `clock` gives seconds that never run backwards."""

    def __init__(self, desk: Desk, clock: Callable[[], float]) -> None:
        self.desk = desk
        self.plan = plan = desk.plan
        self.clock = clock
        self.catalogues = desk.catalogues
        self.clients: list[Client] = []
        self.origins = Origins()
        self.children = {
            name: Child(name, row, plan.children.get(name, {}))
            for name, row in plan.servers.items()
        }
        self.level = ""
        """The log level that children were asked for, "" for none."""
        self.alarm = FOREVER
        """No deadline is due before this time; `tick` wants to be called then."""
        self._actions: list[Action] = []

    def _taken(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def _send(self, peer: Client | Child, text: str | bytes) -> None:
        self._actions.append((SEND, peer, text))

    def _say(self, text: str) -> None:
        self._actions.append((SAY, None, text))

    def _enter(self, child: Child, state: str, reason: str = "") -> None:
        """Let a child be in another state from now on; `reason` completes "Server 'x' …"."""
        child.enter(state, reason)
        why = quote(reason) if reason else "null"
        self._actions.append((STATE, child, f'"state":{quote(state)},"reason":{why}'))

    def _arm(self, deadline: float) -> float:
        self.alarm = min(self.alarm, deadline)
        return deadline

    def _ask(self, child: Child, method: str, params: str, reading: Reading | None = None) -> None:
        """Send a child a request of the proxy's own."""
        child.next_id += 1
        deadline = self._arm(self.clock() + self.plan.options["connect_timeout"])
        child.own[child.next_id] = OwnRequest(method, reading, deadline)
        self._send(child, request(child.next_id, method, params))

    def _refuse(self, call: Call, refusal: str) -> None:
        """Answer a client's call with an error of the proxy's own, as JSON text."""
        self._forget(call)
        self._send(call.client, failure(call.identifier, refusal))

    def _fail(self, call: Call, reason: str) -> None:
        """Answer a call that its child will not answer, naming the child and the reason."""
        self._refuse(call, gone(call.child, reason))

    def _forget(self, call: Call) -> None:
        """Drop a call that needs no answer any more from those of its client."""
        if call in call.client.calls:
            call.client.calls.remove(call)

    def _lists_changed(self, kind: Kind, server: str, names: list[str]) -> None:
        """Tell the clients that see one of these items of a server that their list changed."""
        conditional = self.catalogues[kind.name].conditional[server]
        public = [name for name in names if name not in conditional]
        for client in self.clients:
            if client.initialized and (public or (names and client.capable)):
                self._send(client, notification(kind.announcement))


def gone(child: Child, reason: str) -> str:
    """Return the error for what a child will not answer, naming the child and the reason."""
    data = f'{{"server":{quote(child.name)}}}'
    return error(INTERNAL_ERROR, f"Server '{child.name}' {reason}", data)
