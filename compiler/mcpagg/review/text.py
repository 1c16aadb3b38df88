"""A review as lines to read in a terminal: a summary in words, then each change with its class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from mcpagg.printing import Line
from mcpagg.problems import count
from mcpagg.review.changes import Change
from mcpagg.review.reviewing import Review
from mcpagg.review.wording import (
    APART,
    SIGNS,
    grouped,
    in_short,
    item_words,
    place_words,
    server_words,
    short_values,
    values,
    visible,
)

GRAVE = ("hidden", "schema-breaking", "hint")
_WIDTH = len("schema-compatible")


def as_lines(review: Review) -> Iterator[Line]:
    """Yield the whole review."""
    yield Line(review.headline(), "heading")
    yield from as_summary(review)
    for server, changes in groupby(_sorted(review), key=lambda change: change.server):
        yield Line("")
        yield Line(visible(server) if server else "the proxy", "heading")
        yield from _items([*changes])
    for line in review.diff.splitlines():
        yield Line(f"  {line}", {"+": "added", "-": "removed"}.get(line[:1], ""))


def as_summary(review: Review) -> Iterator[Line]:
    """Yield a line for each server of which something has changed, and for what is no server's."""
    for summary in review.servers:
        yield Line(f"  {server_words(summary)}")
    for change in review.changes:
        if change.class_ == "runtime":
            yield Line(f"  runtime: {change.before} → {change.after}")
        elif not change.server:
            yield Line(f"  the proxy {change.what}")
    if review.changes and review.unchanged:
        yield Line(f"  {count(review.unchanged, 'server')} unchanged")


def _sorted(review: Review) -> Sequence[Change]:
    """Return what is to be told in full, the changes of a server together, the proxy's last."""
    order = {summary.name: number for number, summary in enumerate(review.servers)}
    told = [change for change in review.changes if change.class_ != "runtime"]
    return sorted(told, key=lambda change: order.get(change.server, len(order)))


def _items(changes: Sequence[Change]) -> Iterator[Line]:
    """Yield the changes of a server under the names of what they are of."""
    own = [change for change in changes if change.kind in APART]
    for change in own:
        yield from _change(change)
    others = grouped([change for change in changes if change.kind not in APART])
    for words, group in groupby(others, key=item_words):
        alike = [*group]
        class_ = alike[0][0].class_
        name = (": " if len(alike[0]) > 1 else " ").join(words)
        style = class_ if class_ in SIGNS else ""
        yield Line(f"  {SIGNS.get(class_, '~')} {name}", style)
        for first, *_ in alike:
            yield from _change(first)


def _change(change: Change) -> Iterator[Line]:
    if change.class_ in SIGNS and change.kind not in APART:
        if ";" in change.what:
            yield Line(f"      {in_short(change.what.partition('; ')[2])}")
        return
    short = short_values(change)
    words = f"{place_words(change)}{': ' if short else ''}{short}"
    style = "grave" if change.class_ in GRAVE else SIGNS.get(change.class_, "") and change.class_
    yield Line(f"    {change.class_:<{_WIDTH}}  {words}", style)
    if not short:
        before, after = values(change)
        indent = " " * (_WIDTH + 6)
        if before is not None:
            yield Line(f"{indent}- {before}", "removed")
        if after is not None:
            yield Line(f"{indent}+ {after}", "added")
