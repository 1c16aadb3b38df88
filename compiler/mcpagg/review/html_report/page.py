"""Renders the report: one page that needs nothing else, loads nothing, and runs only its own code.

Every text in it comes from a config or a server and may be hostile: the template escapes all that
it is given, characters that cannot be seen are shown by their code points, and the page's policy
names its own style and script by their digests and allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from difflib import SequenceMatcher
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup, escape

from mcpagg import __version__
from mcpagg.review.costs import tokens
from mcpagg.review.html_report.contents import Contents, Server, contents
from mcpagg_runtime.launch.variables import dollars
from mcpagg_runtime.lists.hidden import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpagg.compilation import Compilation
    from mcpagg.review.html_report.changes import ShownChange
    from mcpagg.review.reviewing import Review

PACKAGE = "mcpagg.review.html_report"
LAYOUT = "\n\t"
"""Characters that HIDDEN has and that a page shows by its layout."""

BAR_LENGTH = 1000
SNIPPET = 240
_GAP = 1.5
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.7  # where the shorter text has less in common, both are read as a whole


def render(result: Compilation, review: Review | None = None) -> str:
    """Return the page of a compilation: the same bytes for the same compilation.

    `review` says what it changes, None where there was nothing before.
    """
    page = contents(result, review)
    style, script = (
        resources.files(PACKAGE).joinpath(f"page.{kind}").read_text("utf-8")
        for kind in ("css", "js")
    )
    return _template().render(
        page=page,
        version=__version__,
        badges=dict.fromkeys(
            badge.word
            for server in page.servers
            for entry in server.tools + server.others
            for badge in entry.badges
        ),
        bars={server.anchor: [*_bar(server, page)] for server in page.servers},
        style=Markup(style),  # noqa: S704 - package data
        script=Markup(script),  # noqa: S704 - package data
        policy=f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
    )


def visible(text: object) -> str:
    """Return a text in which nothing is unseen: U+202E, say, stands for what cannot be seen."""
    plain = str(text).replace("\r\n", "\n")
    return HIDDEN.sub(lambda match: match[0] if match[0] in LAYOUT else _point(match[0]), plain)


def marked(text: object) -> Markup:
    """Return a text for the body of the page; what is unseen in it is a mark with its name."""
    plain = str(text).replace("\r\n", "\n")
    parts, start = [], 0
    for match in HIDDEN.finditer(plain):
        parts.append(escape(plain[start : match.start()]))
        parts.append(_mark(match[0]))
        start = match.end()
    return Markup().join([*parts, escape(plain[start:])])


def referring(text: str) -> Markup:
    """Return a text of the launch table for the body, its references to variables marked."""
    parts, start = [], 0
    for index, end, name, _ in dollars(text):
        if name:
            parts += [marked(text[start:index]), Markup('<b class="ref">')]
            parts += [marked(text[index:end]), Markup("</b>")]
            start = end
    return Markup().join([*parts, marked(text[start:])])


def compared(change: ShownChange) -> tuple[Markup | None, Markup | None]:
    """Return the values before and after for the body; words that one alone has are marked."""
    before, after = change.before, change.after
    if before is None or after is None or change.short:
        return _whole(before), _whole(after)
    old, new = _WORD.findall(before), _WORD.findall(after)
    match = SequenceMatcher(None, old, new, autojunk=False)
    if sum(block.size for block in match.get_matching_blocks()) < _ALIKE * min(len(old), len(new)):
        return marked(before), marked(after)
    steps = match.get_opcodes()
    return (
        Markup().join(_part(step, old[start:end]) for step, start, end, _, _ in steps),
        Markup().join(_part(step, new[start:end]) for step, _, _, start, end in steps),
    )


def _whole(text: str | None) -> Markup | None:
    return None if text is None else marked(text)


def _part(step: str, words: list[str]) -> Markup:
    text = marked("".join(words))
    return text if step == "equal" or not text else Markup("<mark>{}</mark>").format(text)


def _mark(char: str) -> Markup:
    if char in LAYOUT:
        return Markup(char)  # noqa: S704 - a line end or a tabulator
    name = unicodedata.name(char, "no name")
    return Markup('<span class="unseen" title="{}">{}</span>').format(name, _point(char))


def _point(char: str) -> str:
    return f"U+{ord(char):04X}"


def grouped(number: int) -> str:
    """Return a number with commas between its thousands."""
    return f"{number:,}"


def snippet(text: str) -> str:
    head = text[:SNIPPET]
    return text if head == text else (head.rsplit(maxsplit=1) or [head])[0] + "…"


def _bar(server: Server, page: Contents) -> Iterator[dict[str, object]]:
    """Yield the segments of a server's bar; the longest bar of all fills the width."""
    longest = max((other.size for other in page.servers), default=0) or 1
    start = 0.0
    for tool in server.tools:
        width = BAR_LENGTH * tool.size / longest
        yield {"tool": tool, "x": round(start, 2), "width": round(max(width - _GAP, 0.4), 2)}
        start += width


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(PACKAGE, ""),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (marked, compared, referring, grouped, snippet, tokens)
    environment.filters |= {function.__name__: function for function in filters}
    return environment.get_template("page.html.j2")
