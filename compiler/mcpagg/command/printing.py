"""Writes to the standard streams, which may be closed, full, or unable to hold a character.

What people read never raises: what their encoding lacks is escaped, and so is what a terminal
would act upon or nobody could see. What programs read is UTF-8, whatever the locale.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import NamedTuple, TextIO

from mcpagg.literal import visible
from mcpagg.problems import ConfigError, Problem


def say(text: str) -> None:
    """Write lines for people to standard error, if it can be written to."""
    _write(sys.stderr, _shown(text, sys.stderr))


def show(text: str) -> None:
    """Write lines for people to standard output, if it can be written to."""
    _write(sys.stdout, _shown(text, sys.stdout))


class Line(NamedTuple):
    """A line for people; `style` is one of STYLES, "" for none."""

    text: str
    style: str = ""


STYLES = {"heading": "1", "added": "32", "removed": "31", "grave": "1;31"}
"""The code of an ANSI terminal for each style."""


def show_lines(lines: Iterable[Line]) -> None:
    """Write lines for people to standard output, with colours where it is a terminal."""
    _write_lines(sys.stdout, lines)


def say_lines(lines: Iterable[Line]) -> None:
    """Write lines for people to standard error, with colours where it is a terminal."""
    _write_lines(sys.stderr, lines)


def ask(question: str) -> str:
    """Ask on a terminal; return the line that is typed, "" at its end."""
    _write(sys.stderr, _shown(question, sys.stderr).removesuffix(b"\n"))
    return sys.stdin.readline() if sys.stdin is not None else ""


def rewrite(text: str) -> None:
    """Put a text in the place of the last line of a terminal, which standard error is."""
    blank = b"\r" + b" " * (shutil.get_terminal_size().columns - 1) + b"\r"
    _write(sys.stderr, blank + _shown(text, sys.stderr).removesuffix(b"\n"))


def _write_lines(stream: TextIO | None, lines: Iterable[Line]) -> None:
    """Write lines, with colours where that is a terminal.

    Not where NO_COLOR is set (https://no-color.org), and not on Windows, whose older consoles would
    show the codes.
    """
    coloured = is_terminal(stream) and not os.environ.get("NO_COLOR") and os.name != "nt"
    for line in lines:
        data = _shown(line.text, stream)
        if coloured and line.style:
            data = b"\x1b[%sm%s\x1b[0m\n" % (STYLES[line.style].encode(), data.removesuffix(b"\n"))
        _write(stream, data)


def give_text(text: str) -> None:
    """Write a text for programs to standard output, with one line end after it.

    Raises:
        ConfigError: as `give` does.
    """
    give((text.removesuffix("\n") + "\n").encode("utf-8"))


def give(data: bytes) -> None:
    """Write what was asked for to standard output.

    Raises:
        ConfigError: it cannot be written to; a reader that has enough is no fault.
    """
    if reason := _write(sys.stdout, data):
        raise ConfigError("standard output", [Problem("", f"cannot be written: {reason}")])


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream, None where it is closed, is a terminal."""
    return stream is not None and stream.isatty()


def _shown(text: str, stream: TextIO | None) -> bytes:
    lines = [visible(line) for line in text.removesuffix("\n").split("\n")]
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return ("\n".join(lines) + "\n").encode(encoding, "backslashreplace")


def _write(stream: TextIO | None, data: bytes) -> str:
    """Write bytes to a stream; return why that cannot be done, "" if it can."""
    if stream is None:
        return "it is closed"
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    except BrokenPipeError:
        _abandon(stream)
    except OSError as problem:
        _abandon(stream)
        return problem.strerror or str(problem)
    return ""


def _abandon(stream: TextIO) -> None:
    """Discard what is left in a stream's buffers, which Python would write when it closes it."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, stream.fileno())
    os.close(descriptor)
