"""What the page shows of a review: each change, server by server and item by item.

Plain values again; the template escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from mcpagg.problems import count
from mcpagg.review.changes import Change, ServerSummary
from mcpagg.review.describing import (
    BAD,
    SIGNS,
    describe_compilers,
    describe_place,
    describe_renaming,
    describe_server,
    describe_values,
    is_whole_item,
    split_by_item,
    tone,
    values,
)
from mcpagg.review.reviewing import Review

Key = tuple[str, str, str]
"""The server, the kind and the server's own name of what is listed."""


class ShownChange(NamedTuple):
    """One change: its class, what became of which place, and its values; `short` if on one line."""

    class_: str
    tone: str
    text: str
    before: str | None
    after: str | None
    short: bool


class Subject(NamedTuple):
    """What changes are of: items {own name: anchor, "" for none}, or the server itself."""

    sign: str
    kind: str
    names: dict[str, str]
    changes: tuple[ShownChange, ...]


class Changed(NamedTuple):
    """A server of which something has changed, or the proxy, whose name is ""."""

    name: str
    anchor: str
    summary: str
    subjects: tuple[Subject, ...]


class Changes(NamedTuple):
    """All that has changed; `numbers` is {class: how many changes}, `tones` {class: its tone}."""

    headline: str
    numbers: Mapping[str, int]
    tones: Mapping[str, str]
    servers: tuple[Changed, ...]
    unchanged: int
    diff: str


def marks(review: Review | None) -> dict[Key, str]:
    """Return {what is listed: `new` or `changed`}."""
    by_item: dict[Key, str] = {}
    for change in review.changes if review else ():
        mark = "new" if change.class_ == "added" else "changed"
        by_item.setdefault((change.server, change.kind, change.name), mark)
    return by_item


def changes_of(review: Review, servers: Mapping[str, str], items: Mapping[Key, str]) -> Changes:
    """Return what a review has to show; `servers` and `items` are the anchors of what is listed."""
    tones = {change.class_: tone(change) for change in review.changes}
    tones |= {change.class_: BAD for change in review.changes if tone(change) == BAD}
    summaries = {summary.name: _without_name(summary) for summary in review.servers}
    return Changes(
        review.outcome(),
        review.numbers,
        tones,
        tuple(
            Changed(
                name, servers.get(name, ""), summaries.get(name, ""), (*_subjects(changes, items),)
            )
            for name, changes in groupby(review.by_server(), key=lambda change: change.server)
        ),
        review.unchanged,
        review.diff,
    )


def _without_name(summary: ServerSummary) -> str:
    return describe_server(replace(summary, name=""))


def _subjects(changes: Iterable[Change], items: Mapping[Key, str]) -> Iterator[Subject]:
    """Yield the changes of a server itself, then of items, those that are alike together."""
    own, others = split_by_item(changes)
    if own:
        yield Subject("", "", {}, tuple(map(_shown, own)))
    for key, group in groupby(others, key=_of):
        alike = [*group]
        kind, sign, names = key
        anchors = {name: items.get((alike[0][0].server, kind, name), "") for name in names}
        what = kind if len(names) == 1 else count(len(names), kind)
        yield Subject(sign, what, anchors, tuple(_shown(first) for first, *_ in alike))


def _of(alike: list[Change]) -> tuple[str, str, tuple[str, ...]]:
    sign = SIGNS.get(alike[0].class_, "~")
    return alike[0].kind, sign, tuple(change.name for change in alike)


def _shown(change: Change) -> ShownChange:
    if change.class_ == "runtime":
        return ShownChange(
            change.class_, tone(change), describe_compilers(change), None, None, False
        )
    text = describe_renaming(change) if is_whole_item(change) else describe_place(change)
    short = bool(describe_values(change))
    return ShownChange(change.class_, tone(change), text, *values(change), short)
