"""Which servers stand above a process: none of them is started again from there.

A server may start a proxy, and that proxy servers. Each server is given the identities of itself
and of those above it; an identity is a digest of its proxy's tables and of its name. So a proxy
finds out that it would start itself without end, through whatever shells and launchers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.handover import ABOVE
from mcpagg_runtime.start.values import quote

try:
    # What hashlib has without OpenSSL, which takes 7 ms to load.
    from _sha2 import sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

_NOT_SIGNED = ("approval", "compiler")
_IDENTITY_DIGITS = 32


def data_digest(tables: Mapping[str, Any]) -> str:
    """Return the digest of all tables of a plan, as they stand in the file.

    Whatever was chosen when it was run (names, a profile) makes no difference.
    """
    signed = {name: table for name, table in tables.items() if name not in _NOT_SIGNED}
    digest: str = sha256(_sorted_text(signed).encode("ascii")).hexdigest()
    return f"sha256:{digest}"


def _sorted_text(value: Any) -> str:
    """Return a string, or objects of strings, as the json module writes them with sorted keys."""
    if type(value) is str:
        return quote(value)
    return "{" + ", ".join([f"{quote(k)}: {_sorted_text(value[k])}" for k in sorted(value)]) + "}"


def identity(digest: str, server: str) -> str:
    """Return the identity of a server of the proxy whose tables have this digest."""
    text: str = sha256(f"{digest} {server}".encode("utf-8", "surrogatepass")).hexdigest()
    return text[:_IDENTITY_DIGITS]


def standing_above(
    tables: Mapping[str, Any], servers: Iterable[str], environ: Mapping[str, str]
) -> list[str]:
    """Return those servers of a proxy that stand above this process."""
    above = environ.get(ABOVE, "").split()
    digest = data_digest(tables) if above else ""
    return [name for name in servers if above and identity(digest, name) in above]


def with_identity(
    env: Mapping[str, str], digest: str, server: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a server with what it is to pass on, whatever its entry says.

    Raises:
        ValueError: it stands above this process.
    """
    above = environ.get(ABOVE, "").split()
    own = identity(digest, server)
    if own in above:
        raise ValueError(
            f"it has started this proxy, which would start itself without end ({ABOVE})"
        )
    return {**env, ABOVE: " ".join([*above, own])}
