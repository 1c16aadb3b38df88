"""What the emitted file does when it is run."""

from __future__ import annotations

import os
import sys

from mcpagg_runtime.start.plan import Plan
from mcpagg_runtime.start.standard import open_standard_files
from mcpagg_runtime.start.stdio import Stdio

# Where it is set, what becomes of the servers is logged in a file there, as with --log.
LOG_DIRECTORY = "MCP_PROXY_LOG_DIRECTORY_PATH"


def main(plan: Plan, file: str) -> None:
    """Serve `plan` on standard input and output, or do what the command line says instead.

    `file` is the emitted file. Does not return: threads may still wait for input that never comes.
    """
    folder = os.path.dirname(os.path.realpath(file))
    open_standard_files()
    if len(sys.argv) > 1 or LOG_DIRECTORY in os.environ:
        from mcpagg_runtime.tool.commands import run_command

        status = run_command(plan, folder, sys.argv[1:])
    else:
        status = Stdio(plan, folder).run()
    os._exit(status)
