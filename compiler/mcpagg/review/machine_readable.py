"""A review for programs: as JSON, and as SARIF for code scanning."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from mcpagg import __version__
from mcpagg.literal import json_text, literal, visible
from mcpagg.options import PROGRAM
from mcpagg.review import CLASSES
from mcpagg.review.changes import Change, ServerSummary
from mcpagg.review.costs import Cost
from mcpagg.review.describing import describe_place, in_short, values
from mcpagg.review.lint import Finding
from mcpagg.review.reviewing import Review
from mcpagg_runtime.lists.catalogue import KINDS
from mcpagg_runtime.lists.values import ABSENT

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {
    "error": (
        "hidden",
        "schema-breaking",
        "hint",
        "removed",
        "launch",
        "file",
        "registry",
        "runtime",
    ),
    "warning": ("failed", "text", "added", "capabilities", "advisories", "provenance"),
    "note": ("schema-compatible", "version", "other", "packages"),
}
_LEVEL = {class_: level for level, classes in LEVELS.items() for class_ in classes}
_ESCAPED = {"\\": r"\\", "[": r"\[", "]": r"\]", "{": "{{", "}": "}}"}
_MARKUP = re.compile(r"[\\\[\]{}]")
_KEYS = {kind.name[:-1]: kind.key for kind in KINDS}
_NAMED = re.compile(rf'"(?:{"|".join({*_KEYS.values()})})": "(?:[^"\\]|\\.)*"')


def as_json(review: Review) -> str:
    """Return a review as JSON text, with characters that cannot be seen escaped.

    {file, up_to_date, fails, servers: [{name, state, version: {before, after}, tools: {added,
    removed, changed}, …}], changes: [{class, counts, server, kind, name, place, what, before,
    after}], diff, findings: [{rule, level, clients, server, kind, name, place, what, remedy}],
    lists: [{profile, servers: [{name, tools, bytes, tokens, seconds}]}], frozen: {server: rows},
    errors: [{where, what, remedy}]}.
    `counts` says whether a change fails the check; `place` is a JSON pointer; values that are not
    there are left out. `diff` is a unified diff of what no table of FILE explains. `findings` are
    those of lint; `lists` are what the lists of tools cost: of all (profile null) and of each
    profile, tokens as estimated (`costs`). `frozen` is the table of that name in FILE, with []
    for a server that is not frozen where others are. Where there are errors, at most what servers
    say was compared.
    """
    report = {
        "file": review.file,
        "up_to_date": not (review.changes or review.errors),
        "fails": review.fails,
        "servers": [_server(summary) for summary in review.servers],
        "changes": [_change(change, review) for change in review.changes],
        "diff": review.diff,
        "findings": [_finding(finding) for finding in review.findings],
        "lists": [
            {"profile": profile, "servers": [_cost(cost) for cost in costs]}
            for profile, costs in review.costs
        ],
        "frozen": {server: [*rows] for server, rows in review.frozen.items()},
        "errors": [asdict(problem) for problem in review.errors],
    }
    return json_text(report)


def _server(summary: ServerSummary) -> dict[str, Any]:
    before, after = summary.versions
    numbers = {
        kind: dict(zip(("added", "removed", "changed"), counts, strict=True))
        for kind, counts in summary.counts.items()
    }
    version = {"before": before, "after": after}
    return {"name": summary.name, "state": summary.state, "version": version, **numbers}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule.name,
        "level": finding.rule.level,
        "clients": [*finding.clients],
        "server": finding.offer.server,
        "kind": finding.offer.kind,
        "name": finding.offer.name,
        "place": finding.hit.pointer,
        "what": finding.hit.what,
        "remedy": finding.remedy,
    }


def _cost(cost: Cost) -> dict[str, Any]:
    numbers = {"tools": len(cost.tools), "bytes": cost.bytes, "tokens": cost.tokens}
    seconds = {} if cost.seconds is None else {"seconds": round(cost.seconds, 1)}
    return {"name": cost.server, **numbers, **seconds}


def _change(change: Change, review: Review) -> dict[str, Any]:
    values = {"before": change.before, "after": change.after}
    return {
        "class": change.class_,
        "counts": review.counts(change),
        "server": change.server,
        "kind": change.kind,
        "name": change.name,
        "place": change.place,
        "what": change.what,
        **{name: value for name, value in values.items() if value is not ABSENT},
    }


def as_sarif(review: Review) -> str:
    """Return a review as SARIF text: each class is a rule, each change a result.

    https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    rules = [
        {
            "id": class_,
            "shortDescription": {"text": meaning},
            "defaultConfiguration": {"level": _LEVEL[class_]},
        }
        for class_, meaning in CLASSES.items()
    ]
    driver = {"name": PROGRAM, "version": __version__, "rules": rules}
    lines = _Lines(review.text)
    results = [_result(change, review.file, lines) for change in review.changes]
    run = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(change: Change, file: str, lines: _Lines) -> dict[str, Any]:
    name = "/".join(filter(None, (change.server, change.name))) + change.place
    item = f"{change.kind} {in_short(change.name)}".rstrip()
    message = f"{change.server or file}: {item} {describe_place(change)}"
    before, after = values(change)
    for word, value in (("before", before), ("now", after)):
        message += f"\n{word}: {value}" if value is not None else ""
    identity = (change.class_, change.server, change.kind, change.name, change.place, change.what)
    fingerprint = "\0".join((*identity, str(before), str(after))).encode("utf-8", "surrogatepass")
    return {
        "ruleId": change.class_,
        "ruleIndex": [*CLASSES].index(change.class_),
        "level": _LEVEL[change.class_],
        "message": {"text": "\n".join(map(_plain, message.split("\n")))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(file.replace("\\", "/"))},
                    "region": {"startLine": lines.of(change)},
                },
                "logicalLocations": [{"fullyQualifiedName": in_short(name or "proxy")}],
            }
        ],
        "partialFingerprints": {"change/v1": hashlib.sha256(fingerprint).hexdigest()},
    }


def _plain(text: str) -> str:
    """Return a line of a message, in which nothing is a link or a placeholder.

    SARIF 2.1.0, 3.11.5 (placeholders) and 3.11.6 (embedded links).
    """
    return _MARKUP.sub(lambda match: _ESCAPED[match[0]], visible(text))


class _Lines:
    """The lines of FILE where things stand; the text is searched once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._rows: dict[tuple[str, str], int] = {}
        self._names: dict[str, list[int]] = {}
        for match in _NAMED.finditer(text):
            self._names.setdefault(match[0], []).append(match.start())

    def of(self, change: Change) -> int:
        """Return the line, from 1, where what changed stands; 1 where it does not."""
        place = self._row(change)
        if place < 0:
            return 1
        if change.kind == "package":  # one that lies below another has its name behind that
            place = max(self._text.find(f'\n "{change.name} ', place) + 1, place)
        if key := _KEYS.get(change.kind):
            starts = self._names.get(f'"{key}": {json_text(change.name)}', [])
            index = bisect_left(starts, place)
            place = starts[index] if index < len(starts) else place
        return bisect_left(self._ends, place) + 1

    def _row(self, change: Change) -> int:
        """Return where the row of a server begins in its table, -1 for nowhere."""
        table, row = "SNAPSHOT", f"\n    {literal(change.server)}: {{"
        if change.class_ == "launch":
            table, row = "SERVERS", f"\n{json_text(change.server)}: {{"
        elif change.kind == "package":
            table, row = "FROZEN", f"\n{json_text(change.server)}: ["
        if (table, row) not in self._rows:
            start = self._text.find(f"\n{table} = ")
            index = self._text.find(row, start) if start >= 0 else -1
            self._rows[table, row] = index + 1 if index >= 0 else -1
        return self._rows[table, row]
