"""URIs: whether one is absolute, which server named it, and as what it is exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import result
from mcpagg_runtime.messages.protocol import APART
from mcpagg_runtime.plan.addresses import pages_of, rewritten_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.addresses import Addresses


MAXIMUM_URIS = 10_000
LONGEST_URI = 2_000
_IN_SCHEME = str.maketrans("", "", "+-.")
_WITH_HOST = ("http", "https", "ws", "wss", "ftp")
# Characters that no host may hold (https://url.spec.whatwg.org/#forbidden-host-code-point).
_NO_HOST = frozenset("\0 #/:<>?@[\\]^|")
_NO_DOMAIN = _NO_HOST | frozenset(map(chr, range(32))) | {"%", "\x7f"}
# A result that names such a URI, escaped or not, holds one of these.
_MARKS = (*(scheme[:-2] for scheme in APART), "\\u003a", "\\u003A", "\\u006", "\\u007")


def is_absolute(uri: str) -> bool:
    """Whether strict clients accept `uri` as an absolute URL (https://url.spec.whatwg.org).

    Of domain names and numbers, this knows the forms that servers use.
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


class UriOwners:
    """Which server each URI came from last; the oldest is forgotten first.

    Also gives the exposed URIs of those that several servers have, see `Addresses`.
    """

    def __init__(self, are_asked_for: bool, addresses: Callable[[], Addresses]) -> None:
        """`are_asked_for`: whether a client can ask for a URI at all; else none is noted.

        `addresses` returns the URIs that are in the lists now.
        """
        self.are_asked_for = are_asked_for
        self._addresses = addresses
        self._servers: dict[str, str] = {}

    def add(self, uri: str, server: str) -> None:
        """Note that a URI came from a server."""
        if len(uri) > LONGEST_URI:
            return
        self._servers.pop(uri, None)
        self._servers[uri] = server
        if len(self._servers) > MAXIMUM_URIS:
            del self._servers[next(iter(self._servers))]

    def exposed_uri(self, uri: str, server: str) -> str:
        """Return the exposed URI of a server's own, which most often is the same."""
        if not uri.startswith(APART):
            return uri
        return self._addresses().exposed_uri(uri, server, self.of(uri))

    def note_result(self, answer: Message, server: str) -> Message:
        """Note the URIs in a server's result; return the result with exposed URIs."""
        payload = answer.members.get("result")
        if payload is None:
            return answer
        may_differ = any(mark in payload.text for mark in _MARKS)
        if not (may_differ or '"uri"' in payload.text) or type(payload.value) is not dict:
            return answer
        if not may_differ:
            self._note_all([*_uris_in(payload.value)], server)
            return answer
        if self._note_all([*_uris_in(payload.value), *pages_of(payload.value)], server):
            return answer
        text = rewritten_result(payload.text, lambda uri: self.exposed_uri(uri, server))
        return answer if text == payload.text else result(answer.id_text, text)

    def _note_all(self, uris: list[str], server: str) -> bool:
        """Note the URIs that are exposed as they are; return whether all are."""
        same = [uri for uri in uris if self.exposed_uri(uri, server) == uri]
        for uri in same[:MAXIMUM_URIS]:
            self.add(uri, server)
        return len(same) == len(uris)

    def of(self, uri: str) -> str | None:
        """Return the server that a URI came from last, None if it is not known."""
        return self._servers.get(uri)


def _uris_in(result: dict[str, Any]) -> Iterator[str]:
    """Yield the URIs in a result: links, embedded resources, contents, a skill, a folder."""
    skill = result.get("skill")
    holders = [result, skill] if type(skill) is dict else [result]
    parts: list[Any] = [message.get("content") for message in _items(result, "messages")]
    for holder in holders:
        for member in ("content", "contents", "resources"):
            parts += _items(holder, member)
    for part in [skill, *parts]:
        if type(part) is dict:
            for block in (part, part.get("resource")):
                uri = block.get("uri") if type(block) is dict else None
                if type(uri) is str:
                    yield uri


def _items(result: dict[str, Any], member: str) -> list[dict[str, Any]]:
    """Return the objects in a list of a result."""
    value = result.get(member)
    return [item for item in value if type(item) is dict] if type(value) is list else []
