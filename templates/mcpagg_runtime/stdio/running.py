"""Runs the proxy beyond its static answers: it serves, or does what the command line says."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.platforms import own_folder
from mcpagg_runtime.messages.printable import where
from mcpagg_runtime.plan.face import served
from mcpagg_runtime.plan.plan import PLAIN, Plan, unreadable
from mcpagg_runtime.start.handover import LOG_DIRECTORY
from mcpagg_runtime.stdio.standard import open_standard_files, print_error
from mcpagg_runtime.stdio.stdio import INPUT_UNREADABLE, Stdio

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.start.handover import Handover

INTERNAL_FAULT = 70  # an exit status, the same as the compiler's


def run(tables: Mapping[str, Any], file: str, handover: Handover) -> None:
    """Serve on standard input and output, or do what the command line says instead.

    `handover` is what `main` has read and written there. Does not return: threads may still wait
    for input that never comes.
    """
    folder = own_folder(file)
    open_standard_files()
    try:
        plan = Plan(tables, handover.digest)
        face = handover.face
        is_plain = not face or face in plan.servers
        if face is None or not is_plain or os.environ.get(LOG_DIRECTORY):
            from mcpagg_runtime.tool.commands import run_command

            status = run_command(plan, folder, sys.argv[1:], handover)
        else:
            status = Stdio(served(plan, [face] if face else []), folder).run(handover)
    except OSError as problem:  # there are too many open files, perhaps
        print_error(f"{file}: {problem.strerror or type(problem).__name__}")
        status = INPUT_UNREADABLE
    except Exception as fault:
        texts = {name: text for name, text in tables.items() if name not in PLAIN}
        what = unreadable("PLAN", texts) or f"internal fault: {where(fault)}"
        print_error(f"{file}: {what}; if the file was edited, compile it anew")
        status = INTERNAL_FAULT
    os._exit(status)
