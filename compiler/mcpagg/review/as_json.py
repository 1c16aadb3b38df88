"""A review for programs, as JSON.

{file, up_to_date, fails, servers: [{name, state, version: {before, after}, tools: {added, removed,
changed}, …}], changes: [{class, counts, server, kind, name, place, what, before, after}], findings:
[{rule, level, clients, server, kind, name, place, what, remedy}], lists: [{profile, servers:
[{name, tools, bytes, tokens, seconds}]}], errors: [{where, what, remedy}]}. `counts` says whether a
change fails the check; `place` is a JSON pointer; values that are not there are left out.
`findings` are those of lint; `lists` are what the lists of tools cost: of all (profile null) and of
each profile, tokens as estimated (`costs`). Where there are errors, nothing was compared.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mcpagg.costs import Cost
from mcpagg.lint import Finding
from mcpagg.literal import json_text
from mcpagg.problems import CompileError
from mcpagg.review.changes import Change, ServerSummary
from mcpagg.review.reviewing import Review
from mcpagg.review.schemas import ABSENT


def as_json(review: Review) -> str:
    """Return a review as JSON text, what nobody would see escaped."""
    report = {
        "file": review.file,
        "up_to_date": not review.changes,
        "fails": review.fails,
        "servers": [_server(summary) for summary in review.servers],
        "changes": [_change(change, review) for change in review.changes],
        "findings": [_finding(finding) for finding in review.findings],
        "lists": [
            {"profile": profile, "servers": [_cost(cost) for cost in costs]}
            for profile, costs in review.costs
        ],
        "errors": [],
    }
    return json_text(report)


def fault_as_json(file: str, fault: CompileError) -> str:
    """Return why there is nothing to compare FILE with, in the same shape."""
    errors = [asdict(problem) for problem in fault.problems]
    report = {"file": file, "up_to_date": False, "fails": True}
    nothing: dict[str, Any] = {"servers": [], "changes": [], "findings": [], "lists": []}
    return json_text({**report, **nothing, "errors": errors})


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
        "counts": change.class_ in review.counting,
        "server": change.server,
        "kind": change.kind,
        "name": change.name,
        "place": change.place,
        "what": change.what,
        **{name: value for name, value in values.items() if value is not ABSENT},
    }
