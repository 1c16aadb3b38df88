"""The digest of what was decided when the file was compiled: of its tables, not of the runtime.

A client's entry may name it behind the file, as `sha256:` and hexadecimal digits. A file whose
tables are others does not start then, so that what is served is what was reviewed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DIGEST = "sha256:"
# So many digits of it an entry must have at least, and so many are printed for one.
LEAST_DIGITS = 16
ENTRY_DIGITS = 32
_NOT_SIGNED = ("approval", "compiler")


def data_digest(tables: Mapping[str, Any]) -> str:
    """Return the digest of all tables of a plan, as they stand in the file.

    Options of a run (names, a profile) do not change it.
    """
    signed = {name: table for name, table in tables.items() if name not in _NOT_SIGNED}
    return DIGEST + sha256_of(_sorted_text(signed))


def for_entry(digest: str) -> str:
    """Return as much of a digest as an entry has."""
    return digest[: len(DIGEST) + ENTRY_DIGITS]


def is_digest(word: str) -> bool:
    """Whether a word of a command line names a digest: enough hexadecimal digits of one."""
    digits = word[len(DIGEST) :]
    return (
        word.startswith(DIGEST)
        and len(digits) >= LEAST_DIGITS
        and not digits.strip("0123456789abcdef")
    )


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits.

    Lone surrogates count as they are.
    """
    try:
        # hashlib has the same, but loads OpenSSL, which takes 7 ms.
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    digest: str = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest


def _sorted_text(value: Any) -> str:
    """Return a string, or objects of strings, as the json module writes them with sorted keys."""
    if type(value) is str:
        return quote(value)
    return "{" + ", ".join([f"{quote(k)}: {_sorted_text(value[k])}" for k in sorted(value)]) + "}"
