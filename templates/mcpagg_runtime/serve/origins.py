"""Which server a URI came from: what a result names need not be in any list to be read.

A result is parsed once, where it comes in. Only the members that the protocol has for URIs are
looked at here, and only so many URIs are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAXIMUM_URIS = 10_000
LONGEST_URI = 2_000
# How many items of one result are looked at.
MAXIMUM_ITEMS = 1_000


class Origins:
    """Which server each URI came from last; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}

    def add(self, uri: str, server: str) -> None:
        """Note that a URI is of a server."""
        if len(uri) > LONGEST_URI:
            return
        self._servers.pop(uri, None)
        self._servers[uri] = server
        if len(self._servers) > MAXIMUM_URIS:
            del self._servers[next(iter(self._servers))]

    def learn(self, result: Any, server: str) -> None:
        """Note the URIs that the result of a server names."""
        if type(result) is dict:
            for uri in _uris_in(result):
                self.add(uri, server)

    def of(self, uri: str) -> str | None:
        """Return the server that a URI came from, None if it is not known."""
        return self._servers.get(uri)


def _uris_in(result: dict[str, Any]) -> Iterator[str]:
    """Yield the URIs in a result: links, embedded resources, contents, entries of a folder."""
    parts: list[Any] = [message.get("content") for message in _items(result, "messages")]
    for member in ("content", "contents", "resources"):
        parts += _items(result, member)
    for part in parts:
        if type(part) is dict:
            embedded = part.get("resource")
            uri = embedded.get("uri") if type(embedded) is dict else part.get("uri")
            if type(uri) is str:
                yield uri


def _items(result: dict[str, Any], member: str) -> list[dict[str, Any]]:
    """Return the objects in a list of a result."""
    value = result.get(member)
    some = value[:MAXIMUM_ITEMS] if type(value) is list else ()
    return [item for item in some if type(item) is dict]
