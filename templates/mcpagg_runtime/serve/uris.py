"""What URIs tell: whether one fits a template (RFC 6570), and which server named it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mcpagg_runtime.base.message import Message


_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_%")
MAXIMUM_URIS = 10_000
LONGEST_URI = 2_000
# How many items of one result are looked at.
MAXIMUM_ITEMS = 1_000


def fits(template: str, uri: str) -> bool:
    """Whether some values of its variables would expand `template` to `uri`.

    A plain `{name}` takes what holds no `/`, `?` or `#`; expressions with an operator (`{+path}`,
    `{/path*}`, `{?query}`) take anything, their absence included. Each literal is taken where it
    stands first: one pass, whatever a template is made of. Good enough to choose whom to ask: the
    server itself decides whether it has such a resource.
    """
    first, *parts = template.split("{")
    if not uri.startswith(first):
        return False
    index = len(first)
    plain, pending = True, False
    for part in parts:
        expression, _, literal = part.partition("}")
        plain = plain and expression[:1] in _PLAIN and not expression.endswith("*")
        pending = True
        if not literal:
            continue
        found = uri.find(literal, index) if part is not parts[-1] else uri.rfind(literal, index)
        if found < 0 or (plain and _crosses(uri[index:found])):
            return False
        index, plain, pending = found + len(literal), True, False
    rest = uri[index:]
    return not (plain and _crosses(rest)) if pending else not rest


def _crosses(text: str) -> bool:
    return any(mark in text for mark in "/?#")


class Origins:
    """Which server each URI came from last; the oldest is forgotten first."""

    def __init__(self, are_asked_for: bool = True) -> None:
        """`are_asked_for` says whether anyone is to know; else nothing need be learned."""
        self.are_asked_for = are_asked_for
        self._servers: dict[str, str] = {}

    def add(self, uri: str, server: str) -> None:
        """Note that a URI is of a server."""
        if len(uri) > LONGEST_URI:
            return
        self._servers.pop(uri, None)
        self._servers[uri] = server
        if len(self._servers) > MAXIMUM_URIS:
            del self._servers[next(iter(self._servers))]

    def learn(self, answer: Message, server: str) -> None:
        """Note the URIs that the result of a server names."""
        result = answer.members.get("result")
        if result is not None and result.mentions('"uri"') and type(result.value) is dict:
            for uri in _uris_in(result.value):
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
