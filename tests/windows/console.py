"""Runs a program in a console of its own, and presses Ctrl-C in it once a file appears.

    python console.py FILE PROGRAM ARGUMENT…

Its standard streams are the program's. The exit status is 0 if the program ends then, else 1.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

SECONDS = 20.0
"""How long it may take to end, with a server that is given its two seconds."""

CTRL_C_EVENT = 0


def main() -> int:
    """Run the program; return the exit status."""
    library: Any = ctypes  # that of other systems has none of this
    kernel = library.WinDLL("kernel32")
    kernel.FreeConsole()
    kernel.AllocConsole()
    kernel.SetConsoleCtrlHandler(None, False)  # a parent may have had it ignored
    signal.signal(signal.SIGINT, lambda *_: None)  # it is for the program alone
    file, *command = sys.argv[1:]
    with subprocess.Popen([sys.executable, "-I", *command], stdin=0, stdout=1, stderr=2) as program:
        while not os.path.exists(file):
            time.sleep(0.01)
        kernel.GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0)
        try:
            program.wait(SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
