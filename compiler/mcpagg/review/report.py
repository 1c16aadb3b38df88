"""Prints a review in the form that is asked for.

Its text, for a terminal and the HTML page, is a summary and then each change with its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from mcpagg.command.printing import Line, give_text, show_lines
from mcpagg.literal import visible
from mcpagg.problems import count
from mcpagg.review.changes import Change
from mcpagg.review.describing import (
    BAD,
    SIGNS,
    describe_compilers,
    describe_items,
    describe_place,
    describe_renaming,
    describe_server,
    describe_values,
    is_whole_item,
    split_by_item,
    tone,
    values,
)
from mcpagg.review.machine_readable import as_json, as_sarif
from mcpagg.review.markdown import as_markdown
from mcpagg.review.reviewing import Review

FORMS = {"json": as_json, "markdown": as_markdown, "sarif": as_sarif}

_WIDTH = len("schema-compatible")


def print_review(review: Review, form: str, *, in_full: bool = True) -> None:
    """Print what has changed; as text, the summary alone unless `in_full`.

    Raises:
        ConfigError: it is for a program, and standard output cannot be written to.
    """
    if form == "sarif" and review.errors:
        return  # without results, code scanning would take all that it knows for mended
    if form in FORMS:
        give_text(FORMS[form](review))
    elif review.changes or not review.errors:
        show_lines(as_lines(review) if in_full else as_summary(review))


def as_lines(review: Review) -> Iterator[Line]:
    """Yield the whole review."""
    yield Line(review.headline(), "heading")
    yield from as_summary(review)
    listed = [change for change in review.by_server() if change.class_ != "runtime"]
    for server, changes in groupby(listed, key=lambda change: change.server):
        yield Line("")
        yield Line(visible(server) if server else "the proxy", "heading")
        yield from _items(changes)
    for line in review.diff.split("\n")[:-1]:
        yield Line(f"  {line}", {"+": "added", "-": "removed"}.get(line[:1], ""))


def as_summary(review: Review) -> Iterator[Line]:
    """Yield a line for each server of which something has changed, and for what is no server's."""
    for summary in review.servers:
        yield Line(f"  {describe_server(summary)}")
    for change in review.changes:
        if change.class_ == "runtime":
            yield Line(f"  {describe_compilers(change)}", "grave")
        elif not change.server:
            yield Line(f"  the proxy {change.what}")
    if review.changes and review.unchanged:
        yield Line(f"  {count(review.unchanged, 'server')} unchanged")


def _items(changes: Iterable[Change]) -> Iterator[Line]:
    """Yield the changes of a server under the names of what they are of."""
    own, others = split_by_item(changes)
    for change in own:
        yield from _change(change)
    for names, group in groupby(others, key=describe_items):
        alike = [*group]
        class_ = alike[0][0].class_
        name = (": " if len(alike[0]) > 1 else " ").join(names)
        style = class_ if class_ in SIGNS else ""
        yield Line(f"  {SIGNS.get(class_, '~')} {name}", style)
        for first, *_ in alike:
            yield from _change(first)


def _change(change: Change) -> Iterator[Line]:
    if is_whole_item(change):
        for line in filter(None, (describe_renaming(change), values(change)[1])):
            yield Line(f"      {line}")
        return
    short = describe_values(change)
    text = f"{describe_place(change)}{': ' if short else ''}{short}"
    style = change.class_ if change.class_ in SIGNS else "grave" if tone(change) == BAD else ""
    yield Line(f"    {change.class_:<{_WIDTH}}  {text}", style)
    if not short:
        before, after = values(change)
        indent = " " * (_WIDTH + 6)
        if before is not None:
            yield Line(f"{indent}- {before}", "removed")
        if after is not None:
            yield Line(f"{indent}+ {after}", "added")
