"""Whether a URI fits a template (RFC 6570), lies in another, or may be qualified."""

from __future__ import annotations

from mcpagg_runtime.messages.protocol import APART, SKILL_SCHEME

_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_%")
# The bounds of a URI that may be qualified: characters, segments.
LONGEST_QUALIFIED = 2_000
DEEPEST_QUALIFIED = 32


def percent_encoded(text: str, kept: str = "") -> str:
    """Return text percent-encoded, except the unreserved characters of URLs and `kept`."""
    unchanged = (_UNRESERVED + kept).encode("ascii")
    octets = text.encode("utf-8", "surrogateescape")
    return "".join([chr(byte) if byte in unchanged else f"%{byte:02X}" for byte in octets])


def fits(template: str, uri: str) -> bool:
    """Whether some values of its variables would expand `template` to `uri`.

    A plain `{name}` matches text without `/`, `?` and `#`; expressions with an operator (`{+path}`,
    `{/path*}`, `{?query}`) match anything, also nothing. Each literal is matched where it stands
    first, so there is one pass. That is good enough to choose which server to ask, which decides
    whether it has such a resource. Letters outside of ASCII match as they are and percent-encoded
    (RFC 6570, section 3.1).
    """
    uri = _ascii_uri(uri)
    first, *parts = _ascii_uri(template).split("{")
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


def _ascii_uri(text: str) -> str:
    """Return a URI with all characters outside of ASCII percent-encoded."""
    if text.isascii():
        return text
    octets = text.encode("utf-8", "surrogatepass")
    return "".join(chr(octet) if octet < 128 else f"%{octet:02X}" for octet in octets)


def _crosses(text: str) -> bool:
    return any(mark in text for mark in "/?#")


def is_within(uri: str, whole: str) -> bool:
    """Whether a URI is `whole`, or of something within that resource."""
    if not uri.startswith(whole):
        return False
    return len(uri) == len(whole) or whole.endswith("/") or uri[len(whole)] in "/?#"


def qualified_unit(uri: str) -> str:
    """Return what is qualified as a whole: for a URI within a skill its folder, else the URI."""
    inner = uri.startswith(SKILL_SCHEME) and "/" in uri[len(SKILL_SCHEME) :]
    return uri.rpartition("/")[0] if inner else uri


def is_qualifiable(uri: str) -> bool:
    """Whether a URI is one of a page or a skill, within the bounds."""
    bounded = len(uri) <= LONGEST_QUALIFIED and uri.count("/") <= DEEPEST_QUALIFIED
    return bounded and uri.startswith(APART)
