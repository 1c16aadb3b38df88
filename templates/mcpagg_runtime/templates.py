"""Whether a URI may come from a URI template (RFC 6570), without expanding anything."""

from __future__ import annotations


def fits(template: str, uri: str) -> bool:
    """Whether some values of its variables would expand `template` to `uri`.

    A plain `{name}` takes what holds no `/`, `?` or `#`; expressions with an operator (`{+path}`,
    `{/path*}`, `{?query}`) take anything, their absence included. Good enough to choose whom to
    ask: the server itself decides whether it has such a resource.
    """
    import re

    pattern = []
    rest = template
    while rest:
        literal, brace, rest = rest.partition("{")
        pattern.append(re.escape(literal))
        if brace:
            expression, _, rest = rest.partition("}")
            plain = expression[:1].isalnum() or expression[:1] in ("_", "%")
            pattern.append("[^/?#]*" if plain and not expression.endswith("*") else ".*")
    return re.fullmatch("".join(pattern), uri, re.DOTALL) is not None
