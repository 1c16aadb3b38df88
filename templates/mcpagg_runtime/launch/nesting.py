"""The servers above a process, which must not be started again below themselves.

A server may start a proxy, which starts servers. Each server gets, in its environment, the
identities of itself and of the servers above it; an identity is a digest of its proxy's tables and
of its name. So a proxy notices that it would start itself without end, whatever shells and
launchers are between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.handover import ABOVE
from mcpagg_runtime.start.values import quote

try:
    # hashlib has the same, but loads OpenSSL, which takes 7 ms.
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

    Options of a run (names, a profile) do not change it.
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


def servers_above(
    tables: Mapping[str, Any], servers: Iterable[str], environ: Mapping[str, str]
) -> list[str]:
    """Return the servers of a proxy that are above this process."""
    above = environ.get(ABOVE, "").split()
    digest = data_digest(tables) if above else ""
    return [name for name in servers if above and identity(digest, name) in above]


def with_identity(
    env: Mapping[str, str], digest: str, server: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a server with the identities of it and of those above it.

    Raises:
        ValueError: the server is above this process.
    """
    above = environ.get(ABOVE, "").split()
    own = identity(digest, server)
    if own in above:
        raise ValueError(
            f"it has started this proxy, which would start itself without end ({ABOVE})"
        )
    return {**env, ABOVE: " ".join([*above, own])}
