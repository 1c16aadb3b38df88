"""What URIs tell: whether one is absolute, or fits a template (RFC 6570), and who named it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mcpagg_runtime.base.message import Message


_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_%")
MAXIMUM_URIS = 10_000
LONGEST_URI = 2_000
_IN_SCHEME = str.maketrans("", "", "+-.")
_WITH_HOST = ("http", "https", "ws", "wss", "ftp")
# What no host may hold (https://url.spec.whatwg.org/#forbidden-host-code-point).
_NO_HOST = frozenset("\0 #/:<>?@[\\]^|")
_NO_DOMAIN = _NO_HOST | frozenset(map(chr, range(32))) | {"%", "\x7f"}
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


def is_absolute(uri: str) -> bool:
    """Whether strict clients take `uri` for an absolute one (https://url.spec.whatwg.org).

    Of the domain names and numbers that they take, this knows those that servers write.
    """
    uri = uri.strip("".join(map(chr, range(33)))).translate({9: "", 10: "", 13: ""})
    scheme, colon, rest = uri.partition(":")
    scheme = scheme.lower()
    if not (colon and scheme.isascii() and scheme[:1].isalpha()):
        return False
    if not scheme.translate(_IN_SCHEME).isalnum():
        return False
    is_web = scheme in _WITH_HOST
    if not is_web and not rest.startswith("//"):
        return True
    authority = rest.lstrip("/\\") if is_web else rest[2:]
    for mark in "/?#\\" if is_web or scheme == "file" else "/?#":
        authority = authority.partition(mark)[0]
    if not authority:
        return not is_web
    if scheme == "file":
        drive = authority[0] if authority[1:] in (":", "|") else ""
        return (drive.isascii() and drive.isalpha()) or _is_domain(authority)
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        inner, end, port = host[1:].partition("]")
        return bool(end) and _is_number(inner, 6) and (port[:1] in ("", ":") and _is_port(port[1:]))
    name, _, port = host.partition(":")
    is_known = _is_domain(name) if is_web else _NO_HOST.isdisjoint(name)
    return bool(name) and _is_port(port) and is_known


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and int(text) < 1 << 16)


def _is_domain(name: str) -> bool:
    if not name.isascii() or "xn--" in name.lower():
        try:
            name.encode("idna").decode("idna")
        except UnicodeError:
            return False
    last = name.rstrip(".").rpartition(".")[2]
    if last.isdigit() or last.lower().startswith("0x"):
        return _is_number(name, 4)
    return _NO_DOMAIN.isdisjoint(name)


def _is_number(address: str, version: int) -> bool:
    """Whether it is an IP address of this version."""
    from ipaddress import ip_address

    try:
        return ip_address(address).version == version
    except ValueError:
        return False


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
        if result is not None and '"uri"' in result.text and type(result.value) is dict:
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
