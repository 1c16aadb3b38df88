"""Unpacks bodies of answers that come compressed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

ACCEPTED_ENCODINGS = "gzip, deflate"
"""What the standard library of every Python that we run on unpacks: not br, not zstd."""
GZIP_NAMES = ("gzip", "x-gzip")
# No more than this is made at once of what has come, however well it was compressed.
UNPACKED_PIECE = 1 << 16
# What zlib takes for the three forms: of RFC 1952, of RFC 1950, and of RFC 1951 alone.
GZIP_FORM, ZLIB_FORM, PLAIN_FORM = 31, 15, -15


class CannotUnpack(Exception):
    """Raised for a body that is of no use; the text completes "server 'x' …"."""


def unpacked(encoding: str, packed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what a body holds, as far as each piece that comes says.

    `encoding` is the value of Content-Encoding.

    Raises:
        CannotUnpack: it is of another kind, or not what it says.
        EOFError: it ends too early.
    """
    names = [name.strip().lower() for name in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names:
        return iter(packed)
    if len(names) > 1 or names[0] not in (*GZIP_NAMES, "deflate"):
        asked = ACCEPTED_ENCODINGS.replace(",", " and")
        what = f"answered with content that is encoded as {encoding[:40]!r}"
        raise CannotUnpack(f"{what}, and only {asked} are accepted")
    return _inflated(names[0], packed)


def _inflated(name: str, packed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what is packed by deflate, or by gzip, which may be several packets in a row."""
    reader: Any = None
    ended = False
    for piece in packed:
        data = piece.lstrip(b"\0") if ended else piece  # padding
        while data:
            if ended and name not in GZIP_NAMES:
                break
            try:
                reader = reader or zlib.decompressobj(_form(name, data))
                yield from _pieces(reader, data)
            except zlib.error:
                raise CannotUnpack(f"answered with content that is no {name}") from None
            ended, data = reader.eof, b""
            if ended:
                data, reader = reader.unused_data.lstrip(b"\0"), None
    if reader is not None:
        raise EOFError


def _pieces(reader: Any, data: bytes) -> Iterator[bytes]:
    """Yield all that can be said so far; a full piece may have left something behind."""
    found = reader.decompress(data, UNPACKED_PIECE)
    while found:
        yield found
        is_full = len(found) == UNPACKED_PIECE and not reader.eof
        found = reader.decompress(reader.unconsumed_tail, UNPACKED_PIECE) if is_full else b""


def _form(name: str, beginning: bytes) -> int:
    """Return the form of what begins so; "deflate" is said of two."""
    if name in GZIP_NAMES:
        return GZIP_FORM
    # RFC 1950: the method in the lower four bits is 8, that of the window at most 7.
    return ZLIB_FORM if beginning[0] & 0x8F == 0x08 else PLAIN_FORM
