"""Changes as texts for people: one line each, with characters that cannot be seen escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mcpagg.jsontext import dumps, members_of
from mcpagg.literal import visible
from mcpagg.problems import count, name_list
from mcpagg.review.changes import Change, ServerSummary
from mcpagg.snapshot import Json
from mcpagg_runtime.lists.values import ABSENT

LONGEST = 600  # characters of a value
LONGEST_LAUNCH = 4000  # of what is run, all is to be read
CONTEXT = 40  # characters around what changed of a text
SHORT = 60  # characters of a value that stands in the line of its change

MANY = 3  # items with the same change are described together
SHOWN_NAMES = 5

SIGNS = {"added": "+", "removed": "-"}
APART = ("server", "package", "proxy")
"""Kinds of changes that are of no item."""

GOOD, BAD, ODD, PLAIN = "good", "bad", "odd", "plain"
"""How grave a change looks at first sight."""
_TONES = {
    **dict.fromkeys(("hidden", "schema-breaking", "removed", "registry", "provenance"), BAD),
    **dict.fromkeys(("launch", "file", "failed", "runtime", "advisories"), ODD),
    "added": GOOD,
}
# What a tool says if it is harmless, and has to say: clients take it for the opposite otherwise.
_HARMLESS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_GRAVEST_HINTS = ("readOnlyHint", "destructiveHint")


def tone(change: Change) -> str:
    """Return how grave a change looks; a hint by what the tool says of itself now."""
    hint = change.place.rpartition("/")[2]
    if change.class_ != "hint":
        return _TONES.get(change.class_, PLAIN)
    if hint not in _HARMLESS:
        return ODD
    was, is_ = (value is _HARMLESS[hint] for value in (change.before, change.after))
    if was == is_:
        return PLAIN
    worse = BAD if hint in _GRAVEST_HINTS else ODD
    return GOOD if is_ else worse


def in_short(text: str, longest: int = LONGEST) -> str:
    """Return `visible` text, cut where it is too long: names may be of any length."""
    line = visible(text)
    return line if len(line) <= longest else f"{line[:longest]}… ({len(line):,} characters)"


def describe_server(summary: ServerSummary) -> str:
    """Say what became of a server: `files 1.0 → 1.1: launch, tools +1 -2 ~3`."""
    before, after = summary.versions
    versions = (in_short(number) for number in (before, after) if number)
    version = " → ".join(dict.fromkeys(versions))
    counts = [f"{kind} {' '.join(_signed(numbers))}" for kind, numbers in summary.counts.items()]
    own = [class_ for class_ in summary.own if class_ != "version" or before == after]
    state = [summary.state] if summary.state != "changed" else own
    name = " ".join(filter(None, (summary.name, version)))
    return visible(": ".join(filter(None, (name, ", ".join([*state, *counts])))))


def _signed(numbers: tuple[int, int, int]) -> Iterator[str]:
    return (f"{sign}{number}" for sign, number in zip("+-~", numbers, strict=True) if number)


def grouped(changes: Iterable[Change]) -> list[list[Change]]:
    """Return the changes of one server, those that are the same in many items together and first.

    A release of a server often changes one thing in all of its tools.
    """
    groups: dict[object, list[Change]] = {}
    for number, change in enumerate(changes):
        is_own = change.kind in APART or change.class_ in SIGNS
        look = change.class_, change.kind, change.place, change.what, values(change)
        groups.setdefault(number if is_own else look, []).append(change)
    many = [alike for alike in groups.values() if len(alike) >= MANY]
    shared = {id(change) for alike in many for change in alike}
    return many + [[change] for change in changes if id(change) not in shared]


def split_by_item(changes: Iterable[Change]) -> tuple[list[Change], list[list[Change]]]:
    """Return the changes of a server itself, and those of its items as `grouped` has them."""
    changes = [*changes]
    own = [change for change in changes if change.kind in APART]
    return own, grouped([change for change in changes if change.kind not in APART])


def is_whole_item(change: Change) -> bool:
    return change.class_ in SIGNS and change.kind not in APART


def describe_renaming(change: Change) -> str:
    """Say what an item that came or went may be called elsewhere, "" for nothing."""
    return in_short(change.what.partition("; ")[2])


def describe_items(changes: Sequence[Change]) -> tuple[str, str]:
    """Say what changes are of: its kind and name (`tool`, `read_file`), or `3 tools`, `a, b, c`."""
    kind = changes[0].kind if len(changes) == 1 else count(len(changes), changes[0].kind)
    return kind, name_list([in_short(change.name) for change in changes], SHOWN_NAMES)


def describe_place(change: Change) -> str:
    """Say where and what a change is: `inputSchema/properties/path is required now`."""
    return f"{in_short(change.place[1:])} {in_short(change.what)}".lstrip()


def describe_compilers(change: Change) -> str:
    """Say which compilers wrote two files whose code was not compared."""
    return f"runtime: {in_short(change.before)} → {in_short(change.after)}; {change.what}"


def values(change: Change) -> tuple[str | None, str | None]:
    """Return the values before and after on a line each, None for none.

    Of two texts that is what differs, with some context; of an item that was added, what it does.
    """
    before, after = change.before, change.after
    longest = LONGEST_LAUNCH if change.class_ == "launch" else LONGEST
    if change.class_ == "added" and isinstance(after, dict):
        after = _in_a_line(change.kind, after)
    elif isinstance(before, str) and isinstance(after, str):
        before, after = excerpts(before, after)
    return _value(before, longest), _value(after, longest)


def _in_a_line(kind: str, item: Json) -> str:
    """Return the hints of a tool, and the first line of what an item says that it does."""
    hints = members_of(item.get("annotations"))
    members = [f"{name}: {dumps(hint)}" for name, hint in hints.items() if name != "title"]
    head = f"[{', '.join(members) or 'no hints'}] " if kind == "tool" else ""
    text = item.get("description")
    lines = text.strip().splitlines() if isinstance(text, str) else []
    more = f" (and {count(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
    return f"{head}{in_short(lines[0]) if lines else 'no description'}{more}"


def describe_values(change: Change) -> str:
    """Return short values as `before → after`, "" where they need lines of their own."""
    texts = [value for value in values(change) if value is not None]
    is_short = all(len(text) <= SHORT for text in texts)
    return " → ".join(texts) if texts and is_short else ""


def _value(value: Any, longest: int) -> str | None:
    if value is ABSENT:
        return None
    is_text = isinstance(value, str) and value != ""  # of which nothing could be seen
    return in_short(value if is_text else dumps(value, quote=_quoted), longest)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def excerpts(before: str, after: str) -> tuple[str, str]:
    """Return what differs between two texts, with the words around it."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    most = min(len(before), len(after)) - start
    while end < most and before[-1 - end] == after[-1 - end]:
        end += 1
    # From the first whole word, and to the last one.
    first = 1 + before.rfind(" ", 0, start - CONTEXT) if start > CONTEXT else 0
    space = before[len(before) - end :].find(" ", CONTEXT)
    last = end - space if space >= 0 else 0

    def cut(text: str) -> str:
        return f"{'…' if first else ''}{text[first : len(text) - last]}{'…' if last else ''}"

    return cut(before), cut(after)
