"""The standard streams of the emitted file."""

from __future__ import annotations

import os

from mcpagg_runtime.launch.secrecy import shown


def open_standard_files() -> None:
    """Open /dev/null for each of 0, 1 and 2 that is closed, so that no other file gets it."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return


def print_error(text: str) -> None:
    """Write a line on standard error, whatever the locale; ignore that it cannot be written.

    Text of servers goes through `Engine.say` instead, which redacts values of variables.
    """
    try:
        os.write(2, (shown(text) + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        return
