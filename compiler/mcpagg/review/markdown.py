"""A review as Markdown, for the comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mcpagg.literal import visible
from mcpagg.problems import count
from mcpagg.review import CLASSES
from mcpagg.review.changes import Change
from mcpagg.review.describing import (
    describe_compilers,
    describe_items,
    describe_server,
    describe_values,
    grouped,
    in_short,
    values,
)
from mcpagg.review.reviewing import Review

# GitHub takes comments of 65,536 characters.
LONGEST = 60_000
_OURS = re.compile("[A-Za-z,;' ]+")
MORE = "\n*… and more than a comment can hold: `mcpagg-compile --check` shows all.*"
FOLDED, OPEN, CLOSE = "\n<details>", "\n<details open>", "\n</details>"
# What no reviewer is to overlook.
_SHOWN = ("hidden", "schema-breaking", "launch", "file", "registry", "provenance", "advisories")


def as_markdown(review: Review) -> str:
    """Return a review as Markdown, as much of it as a comment holds."""
    blocks: list[str] = []
    size = 0
    for block in _blocks(review):
        size += len(block) + 1
        if size > LONGEST:
            opened = blocks.count(OPEN) + blocks.count(FOLDED)
            blocks += [CLOSE] if opened > blocks.count(CLOSE) else []
            blocks.append(MORE)
            break
        blocks.append(block)
    return "\n".join(blocks) + "\n"


def _blocks(review: Review) -> Iterator[str]:
    """Yield the lines, a fence as a whole: none but OPEN and FOLDED leaves anything open."""
    yield f"### {_code(review.file)}{review.headline().removeprefix(review.file)}"
    for problem in review.errors:
        yield f"- {_code(str(problem))}"
    for summary in review.servers:
        yield f"- {_code(describe_server(summary))}"
    for change in review.changes:
        if change.class_ == "runtime":
            yield f"- **{_own_text(describe_compilers(change))}**"
    if review.changes and review.unchanged:
        yield f"- {count(review.unchanged, 'server')} unchanged"
    for class_, meaning in CLASSES.items():
        changes = [change for change in review.changes if change.class_ == class_]
        if changes and class_ != "runtime":
            mark = "" if any(map(review.counts, changes)) else " (does not count)"
            yield OPEN if class_ in _SHOWN else FOLDED
            yield f"<summary><b>{class_}</b>{mark}: {len(changes)}, {meaning}</summary>\n"
            for server in dict.fromkeys(change.server for change in changes):
                mine = [change for change in changes if change.server == server]
                for alike in grouped(mine):
                    yield from _change(alike)
            yield CLOSE
    if review.diff:
        yield ""
        yield _fenced(review.diff.rstrip("\n"), "diff")


def _change(alike: Sequence[Change]) -> Iterator[str]:
    change = alike[0]
    server = _code(change.server) if change.server else ""
    kind, names = describe_items(alike)
    of = f"{server} {kind} {_code(names) if names else ''}".strip()
    place = f"{_code(in_short(change.place[1:]))} " if change.place else ""
    short = describe_values(change)
    what = _own_text(in_short(change.what))
    yield f"- {of}: {place}{what}{': ' if short else ''}{short and _code(short)}"
    before, after = (None, None) if short else values(change)
    lines = [
        f"{sign} {value}" for sign, value in (("-", before), ("+", after)) if value is not None
    ]
    if lines:
        yield ""
        yield _fenced("\n".join(lines), "diff", indent="  ")
        yield ""


def _fenced(text: str, language: str, indent: str = "") -> str:
    fence = _fence(text, 3)
    lines = [f"{fence}{language}", *map(visible, text.split("\n")), fence]
    return "\n".join(indent + line for line in lines)


def _code(text: str) -> str:
    """Return a text as a code span, within which nothing is markup, a link or a mention.

    https://spec.commonmark.org/0.31.2/#code-spans
    """
    line = visible(text)
    fence = _fence(line, 1)
    space = " " if line.startswith(("`", " ")) or line.endswith(("`", " ")) else ""
    return f"{fence}{space}{line}{space}{fence}"


def _own_text(text: str) -> str:
    """Return our own text as it is; what may hold text of a server, as a code span."""
    return text if _OURS.fullmatch(text) else _code(text)


def _fence(text: str, least: int) -> str:
    """Return a run of backticks that a text does not hold."""
    return "`" * max(least, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
