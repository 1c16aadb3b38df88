"""The standard streams of the emitted file: open whatever the caller closed, written to safely."""

from __future__ import annotations

import os

from mcpagg_runtime.launch.secrecy import shown


def open_standard_files() -> None:
    """Have something behind 0, 1 and 2, or the next file that is opened would be one of them."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return


def complain(text: str) -> None:
    """Write a line on standard error, whatever the locale; nobody may be there to read it.

    What servers say is for `Engine.say`, which knows what their variables hold.
    """
    try:
        os.write(2, (shown(text) + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        return
