"""Starts the server that a first call waits for while what serves calls is still to be compiled.

That takes longer than most servers take to start, which they do on another core. The engine then
takes the process over as the first life of that server.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcpagg_runtime.spawn.launch import prepare
from mcpagg_runtime.spawn.spawning import spawn
from mcpagg_runtime.start.values import scan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.spawn.spawning import Spawned

# Where it is set, it names a file: who in it must have signed what this proxy holds.
ALLOWED_SIGNERS = "MCPAGG_ALLOWED_SIGNERS"


def spawn_early(tables: Mapping[str, Any], file: str, server: str) -> Spawned | None:
    """Start a server of the emitted file, from its tables.

    None where that takes more than its row: something was signed, or it is elsewhere. So it is
    where the process cannot be started: the engine tries that again, and says why.
    """
    if "approval" in tables or ALLOWED_SIGNERS in os.environ:
        return None
    rows, _ = scan(tables["servers"], 0)
    options, _ = scan(tables["options"], 0)
    if "command" not in rows.get(server, ()):
        return None
    folder = os.path.dirname(os.path.realpath(file))
    minimal = options.get("env") == "minimal"
    try:
        for number in range(3):
            os.fstat(number)  # one that the caller closed would be the number of a pipe
        return spawn(prepare(server, rows, os.environ, folder, minimal))
    except Exception:
        return None
