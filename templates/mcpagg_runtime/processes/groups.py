"""The group of processes that a child and its descendants are, so that all of them can be ended."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    from mcpagg_runtime.processes.windows_jobs import START_FLAGS, Job

if TYPE_CHECKING:
    from typing import Any, Protocol

    class Group(Protocol):
        """The processes of one child, its descendants included."""

        def signal(self, number: int) -> bool:
            """Send a signal (0: none, only ask); return whether the group has members."""


def start_options() -> dict[str, Any]:
    """Return how a process is started that is to lead a group: options of `subprocess.Popen`."""
    if sys.platform == "win32":
        return {"creationflags": START_FLAGS}
    else:
        return {"start_new_session": True}


def lead_group(pid: int) -> Group:
    """Return the group of a process that was just started with `start_options`.

    On Windows this is what lets it run.

    Raises:
        OSError: on Windows, that cannot be done.
    """
    if sys.platform == "win32":
        return Job(pid)
    else:
        return SessionGroup(pid)


class SessionGroup:
    """The process group of the leader of a session."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    def signal(self, number: int) -> bool:
        """Send a signal (0: none, only ask); return whether the group has members."""
        if sys.platform != "win32":
            try:
                os.killpg(self.leader, number)
            except ProcessLookupError:
                return False
            except PermissionError:  # macOS: the group has only zombies left
                return False
        return True
