"""What a URI tells: whether it fits a template (RFC 6570), and what it lies in."""

from __future__ import annotations

from mcpagg_runtime.messages.protocol import APART, SKILL_SCHEME

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_%")
# Of a URI that may be told apart: characters, segments.
LONGEST_APART = 2_000
DEEPEST_APART = 32


def fits(template: str, uri: str) -> bool:
    """Whether some values of its variables would expand `template` to `uri`.

    A plain `{name}` takes what holds no `/`, `?` or `#`; expressions with an operator (`{+path}`,
    `{/path*}`, `{?query}`) take anything, their absence included. Each literal is taken where it
    stands first: one pass, whatever a template is made of. Good enough to choose whom to ask: the
    server itself decides whether it has such a resource. Letters outside of ASCII fit as they are
    and percent-encoded (RFC 6570, section 3.1).
    """
    uri = _percent_encoded(uri)
    first, *parts = _percent_encoded(template).split("{")
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


def _percent_encoded(text: str) -> str:
    """Return a text with all letters outside of ASCII percent-encoded."""
    if text.isascii():
        return text
    octets = text.encode("utf-8", "surrogatepass")
    return "".join(chr(octet) if octet < 128 else f"%{octet:02X}" for octet in octets)


def _crosses(text: str) -> bool:
    return any(mark in text for mark in "/?#")


def lies_in(uri: str, whole: str) -> bool:
    """Whether a URI is the one given, or of something within that resource."""
    if not uri.startswith(whole):
        return False
    return len(uri) == len(whole) or whole.endswith("/") or uri[len(whole)] in "/?#"


def folder_of(uri: str) -> str:
    """Return what is told apart as a whole with a URI: of a skill its folder, else itself."""
    inner = uri.startswith(SKILL_SCHEME) and "/" in uri[len(SKILL_SCHEME) :]
    return uri.rpartition("/")[0] if inner else uri


def is_told_apart(uri: str) -> bool:
    """Whether a URI is one of those that are; beyond these bounds, none is."""
    bounded = len(uri) <= LONGEST_APART and uri.count("/") <= DEEPEST_APART
    return bounded and uri.startswith(APART)
