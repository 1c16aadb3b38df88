"""Runs the proxy beyond the answers that the compiler prepared."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.base.plan import Plan
from mcpagg_runtime.base.standard import open_standard_files
from mcpagg_runtime.base.stdio import Stdio
from mcpagg_runtime.spawn.platforms import own_folder
from mcpagg_runtime.start.opening import LOG_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.start.opening import Opening


def run(tables: Mapping[str, Any], file: str, opening: Opening) -> None:
    """Serve on standard input and output, or do what the command line says instead.

    `opening` is what has been said there. Does not return: threads may still wait for input that
    never comes.
    """
    folder = own_folder(file)
    open_standard_files()
    plan = Plan(tables)
    if len(sys.argv) > 1 or os.environ.get(LOG_DIRECTORY):
        from mcpagg_runtime.tool.commands import run_command

        status = run_command(plan, folder, sys.argv[1:], opening)
    else:
        status = Stdio(plan, folder).run(opening)
    os._exit(status)
