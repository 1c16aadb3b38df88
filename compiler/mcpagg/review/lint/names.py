"""Names of tools that a client refuses.

Each client sees the names that `--names` gives it. Those that rewrite names (VS Code, Codex, Gemini
CLI) have no row. Model APIs get names from agent frameworks, which cannot be distinguished: with
`--names auto` they are judged by the portable names that such a framework is to be given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mcpagg.review.lint.finding import Hit, Offer, Surface, rule
from mcpagg.review.lint.letters import odd_letters, skeleton


class Reader(NamedTuple):
    """Who reads names: what it takes, and whether `--names auto` gives it portable ones.

    A name must match `pattern`, and be no longer than `limit` characters with `prefix`, which the
    client puts in front of it.
    """

    client: str
    portable: bool
    pattern: re.Pattern[str]
    limit: int
    prefix: str = ""


_PORTABLE = re.compile("[a-zA-Z0-9_-]+")

READERS = (
    # https://github.com/barryw/ImmichMCP/issues/3,
    # https://github.com/mims-harvard/ToolUniverse/issues/3
    Reader("Claude Desktop", True, _PORTABLE, 64),
    # https://github.com/webstudio-is/webstudio/issues/5960,
    # https://github.com/bavix/gripmock/issues/875: server and name together
    Reader("Cursor", True, _PORTABLE, 59, "{proxy}"),
    # https://code.claude.com/docs/en/mcp: other characters are rewritten
    Reader("Claude Code", False, re.compile(".+", re.DOTALL), 128, "mcp__{proxy}__"),
    # https://github.com/openai/codex/issues/8174
    Reader("the OpenAI API", True, _PORTABLE, 64),
    # https://cloud.google.com/vertex-ai/generative-ai/docs/reference, FunctionDeclaration
    Reader("the Gemini API", True, re.compile("[a-zA-Z_][a-zA-Z0-9_.-]*"), 64),
)


@rule("tool-name", "refused", "is refused by {clients}")
def refused_name(offer: Offer, surface: Surface) -> Iterator[Hit]:
    """Yield a hit for each way in which clients refuse the name of a tool, with these clients."""
    if offer.kind != "tool":
        return
    refused: dict[str, list[str]] = {}
    for reader in READERS:
        is_portable = surface.names == "portable" or (surface.names == "auto" and reader.portable)
        name = offer.portable if is_portable else offer.exposed
        whole = reader.prefix.format(proxy=surface.proxy) + name
        if not reader.pattern.fullmatch(name):
            refused.setdefault(f"is listed as {name!r}", []).append(reader.client)
        elif len(whole) > reader.limit:
            what = f"is known as {whole!r}, {len(whole)} characters of at most {reader.limit}"
            refused.setdefault(what, []).append(reader.client)
    helps = surface.names in ("spec", "bare") and _PORTABLE.fullmatch(offer.portable)
    for what, clients in refused.items():
        yield Hit("", what, tuple(clients), "--names portable" if helps else "")


@rule("look-alike-name", "hidden", "a reader takes for that one", "all")
def look_alike_name(offer: Offer, surface: Surface) -> Iterator[Hit]:
    """Yield a hit for a tool whose name is written in other letters than one that it looks like."""
    if offer.kind == "tool" and not offer.name.isascii():
        other = surface.named[skeleton(offer.name)]
        if other.name != offer.name:
            yield Hit("/name", f"looks like '{other.target}', with {odd_letters(offer.name)}")
