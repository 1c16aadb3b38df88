"""Reads and writes JSON values, without the json module."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    # The C scanner behind the json module; importing json itself costs a start 6 ms (it needs re).
    from _json import encode_basestring_ascii, make_scanner, scanstring
except ImportError:  # an interpreter without the accelerator: slower, the same
    from json.decoder import scanstring  # type: ignore[attr-defined,no-redef]
    from json.encoder import encode_basestring_ascii
    from json.scanner import make_scanner

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Scanner = Callable[[str, int], tuple[Any, int]]


class ScannerOptions:
    """The attributes that the C scanner reads, with the values of json.JSONDecoder."""

    strict = True
    object_hook = None
    object_pairs_hook: type | None = None
    parse_float = float
    parse_int: Callable[[str], Any] = int
    parse_constant = float


def new_scanner(options: ScannerOptions) -> Scanner:
    """Return a function that reads the JSON value at an index; it returns it and where it ends."""
    scanner: Scanner = make_scanner(options)  # type: ignore[arg-type]
    return scanner


scan = new_scanner(ScannerOptions())

quote: Callable[[str], str] = encode_basestring_ascii
"""Returns a string as JSON text, in ASCII."""

string_behind: Callable[[str, int, bool], tuple[str, int]] = scanstring
"""Reads the JSON string whose quote stands before an index; True: it may hold no control character.

Returns it and the index behind it. Raises ValueError if it is none.
"""


def string_at(text: str, index: int) -> tuple[str, int]:
    """Read the JSON string that starts at text[index]; return it and the index behind it.

    Raises:
        ValueError: it is none.
    """
    return string_behind(text, index + 1, True)
