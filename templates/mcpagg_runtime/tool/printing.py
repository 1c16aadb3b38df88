"""What the command line of the emitted file prints: lines for people, JSON for programs.

Neither raises, whatever the locale and whether or not standard output can be written.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.printable import printable
from mcpagg_runtime.stdio.standard import print_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# The exit status where standard output takes no more.
UNWRITABLE = 2


def print_lines(lines: Iterable[str]) -> int:
    """Print lines, control characters escaped; return the exit status."""
    _configure(errors="backslashreplace")
    return _written(printable(line) for line in lines)


def print_json(document: Any) -> int:
    """Print a JSON document in UTF-8, control characters escaped; return the exit status."""
    # Only lone surrogates cannot be encoded; their escapes are valid in JSON.
    _configure(encoding="utf-8", errors="backslashreplace", newline="\n")
    try:
        text = json.dumps(document, indent=2, ensure_ascii=False)
    except RecursionError:  # without indentation, C code prints it, which goes deeper
        text = json.dumps(document, ensure_ascii=False)
    lines = text.split("\n")
    return _written(
        "".join([c if c.isprintable() else json.dumps(c)[1:-1] for c in line]) for line in lines
    )


def print_texts(result: dict[str, Any]) -> int:
    """Print the texts of a tool's result, control characters escaped; return the exit status."""
    _configure(encoding="utf-8", errors="backslashreplace", newline="\n")
    texts = "\n".join([text.removesuffix("\n") for text in _texts(result.get("content"))])
    lines = texts.replace("\r\n", "\n").split("\n") if texts else []
    return _written("\t".join(map(printable, line.split("\t"))) for line in lines)


def _texts(content: Any) -> Iterator[str]:
    for block in content if type(content) is list else ():
        resource = block.get("resource") if type(block) is dict else None
        holder = resource if type(resource) is dict else block
        if type(holder) is dict and type(holder.get("text")) is str:
            yield holder["text"]


def flush_output() -> int:
    """Flush standard output; return the exit status."""
    if sys.stdout is None:  # closed by the caller
        return 0
    try:
        sys.stdout.flush()
    except OSError as problem:
        return _given_up(problem)
    return 0


def _configure(**how: str) -> None:
    if sys.stdout is not None:
        sys.stdout.reconfigure(**how)  # type: ignore[union-attr]


def _written(lines: Iterable[str]) -> int:
    if sys.stdout is None:
        return 0
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
    except OSError as problem:
        return _given_up(problem)
    return flush_output()


def _given_up(problem: OSError) -> int:
    """Give up standard output; return the exit status."""
    # So that what is left in its buffer can be flushed.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(problem, BrokenPipeError):  # the reader has enough
        return 0
    print_error(f"cannot write to standard output: {problem.strerror}")
    return UNWRITABLE
