"""The servers above a process, which must not be started again below themselves.

A server may start a proxy, which starts servers. Each server gets, in its environment, the
identities of itself and of the servers above it; an identity is a digest of its proxy's tables and
of its name. So a proxy notices that it would start itself without end, whatever shells and
launchers are between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.digest import data_digest, sha256_of
from mcpagg_runtime.start.handover import ABOVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

_IDENTITY_DIGITS = 32


def identity(digest: str, server: str) -> str:
    """Return the identity of a server of the proxy whose tables have this digest."""
    return sha256_of(f"{digest} {server}")[:_IDENTITY_DIGITS]


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
