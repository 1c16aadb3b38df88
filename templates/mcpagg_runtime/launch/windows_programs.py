"""Which program Windows starts for a command, and how arguments get through its shell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

# What can be started; PATHEXT names more, which only the desktop opens.
PROGRAM_SUFFIXES = (".com", ".exe", ".bat", ".cmd")
BATCH_SUFFIXES = (".bat", ".cmd")
# What ends the command line of a batch file, whatever stands around it.
UNQUOTABLE = ("\0", "\r", "\n")
# What the shell takes in one line is 8,191 characters; `shell_command` needs some itself.
LONGEST_LINE = 8000
# The part of no length of a variable that always exists. Behind a percent sign, it keeps the shell
# from taking what follows for the name of a variable.
EMPTY_PART = "%cd:~,%"


def find_windows_program(
    command: str,
    env: Mapping[str, str],
    folder: str,
    is_file: Callable[[str], bool] = os.path.isfile,
    path: Any = os.path,
) -> str | None:
    """Return the path of what is started for a command, None if there is no such program.

    The system itself adds no suffix but `.exe`, searches the PATH of its caller, and before that
    the current folder, where anyone may have put something. So it is never asked: a bare name is
    looked up in the absolute folders of the PATH of `env`, with the suffixes of its PATHEXT.
    `path` is the module for paths.
    """
    if path.dirname(command) or path.splitdrive(command)[0]:
        places = [path.join(folder, command)]
    else:
        folders = [entry.strip().strip('"') for entry in env.get("PATH", "").split(";")]
        places = [path.join(place, command) for place in folders if path.isabs(place)]
    suffixes = _suffixes(env.get("PATHEXT", ""))
    found = (file for place in places for file in _files_meant(place, suffixes, path))
    return next((file for file in found if is_file(file)), None)


def _suffixes(variable: str) -> list[str]:
    """Return the suffixes to try, in the order of PATHEXT, or in the system's own."""
    named = [suffix.strip().lower() for suffix in variable.split(";")]
    return [suffix for suffix in named if suffix in PROGRAM_SUFFIXES] or [*PROGRAM_SUFFIXES]


def _files_meant(place: str, suffixes: list[str], path: Any) -> Iterator[str]:
    """Yield the files that a path may mean. One without a suffix is a program of other systems."""
    if path.splitext(place)[1].lower() in PROGRAM_SUFFIXES:
        yield place
    for suffix in suffixes:
        yield place + suffix


def is_batch_file(program: str) -> bool:
    """Whether it is the shell that runs a program."""
    return program.lower().endswith(BATCH_SUFFIXES)


def batch_line(argv: Sequence[str]) -> str:
    """Return the line with which the shell, cmd.exe, runs a batch file.

    Each argument stands in double quotes, within which the shell leaves all but two characters
    alone: a quote is doubled, which both the shell and the C runtime of the program read as one,
    and a percent sign gets EMPTY_PART behind it. Rust's standard library does the same.

    Raises:
        ValueError: an argument holds a line break or a NUL, or there is too much of them, for which
            there is no way.
    """
    for word in argv:
        if any(character in word for character in UNQUOTABLE):
            raise ValueError("an argument of a batch file holds a line break or a NUL")
    line = " ".join([_quoted(word) for word in argv])
    if len(line) > LONGEST_LINE:
        raise ValueError(f"a batch file takes no more than {LONGEST_LINE:,} characters")
    return line


def _quoted(word: str) -> str:
    parts = []
    backslashes = 0
    for character in word:
        if character == '"':  # the C runtime halves the backslashes before a quote
            parts.append("\\" * backslashes + '"')
        elif character == "%":
            parts.append("%" + EMPTY_PART[:-1])
        backslashes = backslashes + 1 if character == "\\" else 0
        parts.append(character)
    return '"' + "".join(parts) + "\\" * backslashes + '"'


def shell_command(line: str, environ: Mapping[str, str]) -> str:
    """Return the command line of a shell that runs a line of its language.

    Without what the registry has it run first (/d), with the extensions that EMPTY_PART needs
    (/e:ON), and without expanding `!` (/v:OFF). With /s it takes off the outermost quotes alone.
    """
    system = environ.get("SYSTEMROOT", "C:\\Windows")
    return f'"{system}\\System32\\cmd.exe" /e:ON /v:OFF /d /s /c "{line}"'
