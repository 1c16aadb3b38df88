"""Texts that a model reads: what is hidden in them, and whether they describe a tool well.

Tool poisoning: https://invariantlabs.ai/blog/mcp-security-notification-tool-poisoning-attacks. Any
string of a tool reaches the model, not only descriptions:
https://www.cyberark.com/resources/threat-research-blog/poison-everywhere-no-output-from-your-mcp-server-is-safe
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from mcpagg.problems import count, name_list
from mcpagg.review.lint.finding import DESCRIBED, Hit, Offer, Surface, rule
from mcpagg.review.lint.letters import disguised, odd_letters, skeleton
from mcpagg_runtime.lists.hidden import hidden_characters

# Claude Code cuts a description there: https://github.com/anthropics/claude-code/issues/87650
CUT = 2048
# Chat Completions answers 400 for some models, Azure's among them:
# https://github.com/modelcontextprotocol/servers/issues/799
LONGEST = 1024

QUOTED = 40  # characters

_SHOWN_NAMES = 3

_TAGS = {chr(0xE0000 + code): chr(code) for code in range(0x20, 0x7F)}
# Text far off, where nobody scrolls to, is behind so many blanks of any kind.
_BLANKS = re.compile(r"(?<!\s)\s{15,}+(?=\S)")
_AWAY_LINES = 25
_AWAY_COLUMNS = 120
_WIDTHS = {"\t": 8, "\u2003": 2, "\u2001": 2, "\u3000": 2}

_SECRETS = (
    r"(?:~|\$HOME|/root|/home/\w+)/\.(?:ssh|aws|gnupg|netrc|config/gcloud)\b"
    r"|\bid_(?:rsa|ed25519|ecdsa)\b|/etc/(?:passwd|shadow)\b|\.cursor/mcp\.json"
)
_INSTRUCTIONS = (
    (
        re.compile(
            r"<\s*/?\s*(?:important|hidden|secret|system(?:[-_ ](?:prompt|message|reminder))?)\s*>"
            r"|<\|(?:im_start|im_end|system|user|assistant)\|>|\[/?INST\]|<</?SYS>>",
            re.IGNORECASE,
        ),
        "speaks to the model as its operator would",
    ),
    (
        re.compile(
            r"\b(?:ignore|disregard|forget|override)\s+(?:(?:all|any|every|the|your|of)\s+)*"
            r"(?:previous|prior|above|earlier|preceding|other|existing|system)\s+"
            r"(?:\w+\s+)?(?:instruction|rule|prompt|message|directive|guideline|command)s?\b",
            re.IGNORECASE,
        ),
        "asks the model to disregard its instructions",
    ),
    (
        re.compile(
            r"\b(?:do\s+not|don\W?t|never|must\s+not|without|avoid)\s+(?:\w+\s+){0,2}?"
            r"(?:(?:tell|inform|notify|alert)(?:ing)?\s+"
            r"|(?:mention|reveal|disclose)(?:ing)?\s+(?:\w+\s+){0,5}?to\s+)"
            r"(?:the\s+|any\s+)?users?\b",
            re.IGNORECASE,
        ),
        "asks the model to keep something from the user",
    ),
    (
        re.compile(
            r"\b(?<!not )(?<!never )(?<!cannot )(?<!n't )"
            r"(?:read|open|cat|load|include|send|attach|paste|copy|upload|pass)\b"
            rf"[^.\n]{{0,80}}?(?:{_SECRETS})",
            re.IGNORECASE,
        ),
        "asks the model for a file of credentials",
    ),
    (
        re.compile(r"<!--(?:(?!-->).)*?(?:\w+\W+){4,}?(?:(?!-->).)*?-->", re.DOTALL),
        "hides a sentence in a comment",
    ),
)


@rule("hidden-text", "hidden", "a model reads and nobody sees", "all")
def hidden_text(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each string with characters that a reader cannot see, or text out of sight.

    What a language or an emoji needs is none: joiners between letters beyond ASCII, marks of
    direction in a text that has one, flags of regions, one selector behind an ideograph.
    """
    for pointer, text in offer.strings:
        if characters := hidden_characters(text):
            yield Hit(pointer, f"has {described(characters)}")
        elif away := [run[0] for run in _BLANKS.finditer(text) if _is_away(run[0])]:
            yield Hit(pointer, f"has text out of sight behind {len(away[0])} blanks")


def _is_away(blanks: str) -> bool:
    lines = f"{blanks}.".splitlines()
    widths = (sum(_WIDTHS.get(char, 1) for char in line) for line in lines)
    return len(lines) > _AWAY_LINES or max(widths) > _AWAY_COLUMNS


def described(characters: list[str]) -> str:
    """Say how many hidden characters there are, which ones, and what they spell as tags."""
    spelled = "".join(_TAGS.get(char, "") for char in characters)
    reading = f", which spell {_short(spelled)}" if spelled else ""
    names = dict.fromkeys(_character(char) for char in characters)
    shown = name_list([*names], _SHOWN_NAMES)
    return f"{count(len(characters), 'hidden character')}{reading} ({shown})"


@rule("look-alike", "hidden", "a reader takes for other letters", "all")
def look_alike(offer: Offer, _: Surface) -> Iterator[Hit]:
    for pointer, text in offer.strings:
        if words := [*disguised(text)]:
            word = words[0]
            what = f"has {_short(skeleton(word))} with {odd_letters(word)}"
            more = f", and {count(len(words) - 1, 'more such word')}" if len(words) > 1 else ""
            yield Hit(pointer, what + more)


@rule("instructions", "hidden", "a model may obey before anything is called", "all")
def instructions(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each string that gives a model orders which no tool has a reason to give."""
    for pointer, text in offer.strings:
        if text.isidentifier():  # all of them need more than a word
            continue
        read = skeleton(text)
        for pattern, what in _INSTRUCTIONS:
            if match := pattern.search(read):
                yield Hit(pointer, f"{what} ({_short(' '.join(match[0].split()))})")


@rule("long-description", "refused", "is too much for {clients}")
def long_description(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for a description of a tool that some client refuses, or cuts too."""
    text = offer.value.get("description")
    if offer.kind != "tool" or not isinstance(text, str) or len(text) <= LONGEST:
        return
    clients = ["some OpenAI models (more than 1,024: refused)"]
    if len(text) > CUT:
        clients.append("Claude Code (more than 2,048: cut)")
    yield Hit(DESCRIBED, f"has {len(text):,} characters", tuple(clients), "write an overlay")


@rule("no-description", "advice", "is what models choose tools by", "all")
def no_description(offer: Offer, _: Surface) -> Iterator[Hit]:
    text = offer.value.get("description")
    if offer.kind == "tool" and not (isinstance(text, str) and text.strip()):
        yield Hit(DESCRIBED, "has no description")


@rule("same-description", "advice", "does not tell a model which of the two it wants", "all")
def same_description(offer: Offer, surface: Surface) -> Iterator[Hit]:
    """Yield a hit for a tool that another one describes itself as.

    Two servers that have one tool differ by their names.
    """
    text = offer.value.get("description")
    if offer.kind != "tool" or not isinstance(text, str) or not text.strip():
        return
    first = surface.described[text]
    if first is not offer and first.name != offer.name:
        yield Hit(DESCRIBED, f"has the description of '{first.target}'")


def _character(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, 'without a name')}"


def _short(text: str) -> str:
    return repr(text if len(text) <= QUOTED else f"{text[:QUOTED]}…")
