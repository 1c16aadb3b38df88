"""The supervisor of a file with frozen servers: they are installed before they are started.

To the core that means that such a server takes longer to start, and that calls wait for it.
"""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.servers import FrozenServers, frozen_table
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import notification
from mcpagg_runtime.messages.protocol import PROGRESS
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.servers.lifecycle import STARTING
from mcpagg_runtime.start.values import quote
from mcpagg_runtime.stdio.supervisor import Supervisor as PlainSupervisor

if TYPE_CHECKING:
    from mcpagg_runtime.launch.launch import Launch
    from mcpagg_runtime.routing.core import Core
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.effects import Action
    from mcpagg_runtime.stdio.supervisor import Host

INSTALLING = "installing"
"""What is logged of a child that is starting while it is being installed."""


class Supervisor(PlainSupervisor):
    """Starts what was frozen of a child, in the place of what its entry names."""

    def __init__(self, host: Host, folder: str) -> None:
        """See `stdio.supervisor`."""
        super().__init__(host, folder)
        self._frozen = FrozenServers(frozen_table(host.plan), folder, os.environ)
        self._steps = count(1)

    def close(self) -> None:
        """End all runs and installations; returns when all have ended. Takes no lock."""
        self._frozen.kill()
        super().close()
        self._frozen.end()

    def kill(self) -> None:
        """Kill all runs and installations; takes no lock, since a signal handler calls it."""
        self._frozen.kill()
        super().kill()

    def _prepared(self, child: Child) -> Launch:
        """Return how a child is started, once all that it starts is installed.

        Raises:
            Exception: it cannot be started as it was frozen.
        """
        launch = super()._prepared(child)
        attempt, steps = self._host.attempt, self._steps

        def report(what: str) -> None:
            attempt(lambda core: installing(core, child, what, next(steps)))

        self._frozen.prepare(launch, report)
        attempt(lambda core: installed(core, child))
        return launch


def installing(core: Core, child: Child, what: str, step: int) -> list[Action]:
    """Take the event that what a child starts is still being installed, which may take its time.

    `what` completes "Server 'x' …"; `step` is more each time. The clients of calls that wait get
    that as progress, if they want to know of any. A server's own progress of a call counts on from
    there: what it begins with is more.
    """
    if child.state == STARTING:
        if child.lifecycle.is_timed:
            child.lifecycle.await_handshake(FOREVER)
            core.effects.entered(child, INSTALLING, what)
        message = quote(f"Server '{child.name}' {what}")
        for call in child.calls.all():
            if call.progress_token:
                call.progressed(core.effects.clock())
                progress = f"{step}e-6"
                params = obj(progressToken=call.progress_token, progress=progress, message=message)
                call.client.deliver(notification(PROGRESS, params))
    return core.taken()


def installed(core: Core, child: Child) -> list[Action]:
    """Take the event that what a child starts is installed: its time for the handshake begins."""
    if child.state == STARTING and not child.lifecycle.is_timed:
        child.lifecycle.await_handshake(child.connection.options.connect_timeout)
    return core.taken()
