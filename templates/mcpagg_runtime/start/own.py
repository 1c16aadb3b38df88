"""A server as itself: with its own names, in its own words; a start needs this, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.greeting import LEGACY_VERSIONS, TASKS
from mcpagg_runtime.start.values import quote, scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# What such clients take in a name, and how many characters of it.
PORTABLE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
OWN_LIMIT = 64


def newest_version(facts: Mapping[str, Any]) -> str:
    """Return the newest version with a handshake of a server as itself; `facts` are what it has.

    One that has none is spoken to as the client likes.
    """
    spoken = facts.get("handshake", facts["protocol"])
    return spoken if spoken in LEGACY_VERSIONS else LEGACY_VERSIONS[0]


class OwnWords:
    """What a server says of itself, as far as it passes a proxy; JSON texts, but `instructions`.

    Tasks are not relayed, so they are not declared.
    """

    def __init__(self, said: str) -> None:
        """`said` is what the snapshot has of the server under "server"."""
        value, _ = scan(said, 0)
        self.info = text_of(value["serverInfo"])
        self.modern_capabilities = text_of(_relayed_capabilities(value["capabilities"]))
        """The capabilities that it declares to clients without a handshake."""
        shaken = value.get("handshakeCapabilities", value["capabilities"])
        self.declared = _relayed_capabilities(shaken)
        """Those that it declares to clients with a handshake."""
        self.capabilities = text_of(self.declared)
        self.instructions: str = value.get("instructions", "")


def _relayed_capabilities(declared: Mapping[str, Any]) -> dict[str, Any]:
    passed = {name: value for name, value in declared.items() if name != "tasks"}
    extensions = passed.get("extensions")
    if type(extensions) is dict:
        known = {name: value for name, value in extensions.items() if name != TASKS}
        passed["extensions"] = {n: v if type(v) is dict else {} for n, v in known.items()}
    return passed


def own_rows(
    server: str, separator: str, rows: Mapping[str, Sequence[str]], uris: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """Return the rows of a routing table for a server as itself, see `cut_list`.

    A tool that the config has renamed keeps that name. `uris` are all its URIs, where another
    server is asked for some of them beside it; None for no such case. A name that is not portable
    has "" for its portable name.
    """
    if uris is not None:
        return dict.fromkeys(uris, ())
    found: dict[str, tuple[str, ...]] = {}
    for exposed, row in rows.items():
        own = row[0] if row else exposed
        if len(row) < 2:
            found[own] = ()
        else:
            name = own if exposed == server + separator + own else exposed
            found[name] = own, name if is_portable(name) else ""
    return found


def is_portable(name: str) -> bool:
    """Whether clients that refuse a colon take a name as it is."""
    return 0 < len(name) <= OWN_LIMIT and PORTABLE.issuperset(name)


def text_of(value: Any) -> str:
    """Return a JSON value as text, without spaces."""
    if type(value) is dict:
        return (
            "{" + ",".join([f"{quote(key)}:{text_of(part)}" for key, part in value.items()]) + "}"
        )
    if type(value) is list:
        return "[" + ",".join([text_of(part) for part in value]) + "]"
    if type(value) is str:
        return quote(value)
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or type(value) is bool else repr(value)
