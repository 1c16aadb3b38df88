"""The JSON scanner: reads one value of a text at once, and says where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.ready.values import scan

if TYPE_CHECKING:
    from typing import Any

BLANK = " \t\r\n"


class Malformed(ValueError):
    """Raised for a text that is not the JSON that is looked for in it; says why."""


class NotAnObject(Malformed):
    """Raised for a text that is JSON, but no object."""


def scanned(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value that starts at text[index]; return it and the index behind it.

    Raises:
        Malformed: there is no JSON value there.
        RecursionError: it nests deeper than the scanner goes.
    """
    try:
        try:
            return scan(text, index)
        except (ValueError, SystemError):
            from mcpagg_runtime.serve.deep import scanned_again

            return scanned_again(text, index)
    except StopIteration as problem:
        raise Malformed(f"no JSON value at character {problem.value}") from None
    except ValueError as problem:
        raise Malformed(str(problem)) from None


def skip(text: str, index: int) -> int:
    """Return the index of the first character at or behind `index` that is no white space."""
    end = len(text)
    while index < end and text[index] in BLANK:
        index += 1
    return index
