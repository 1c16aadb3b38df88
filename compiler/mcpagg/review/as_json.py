"""A review for programs, as JSON.

{file, up_to_date, fails, servers: [{name, state, version: {before, after}, tools: {added, removed,
changed}, …}], changes: [{class, counts, server, kind, name, place, what, before, after}], errors:
[{where, what, remedy}]}. `counts` says whether a change fails the check; `place` is a JSON pointer;
values that are not there are left out. Where there are errors, nothing was compared.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

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
        "errors": [],
    }
    return json_text(report)


def fault_as_json(file: str, fault: CompileError) -> str:
    """Return why there is nothing to compare FILE with, in the same shape."""
    errors = [asdict(problem) for problem in fault.problems]
    report = {"file": file, "up_to_date": False, "fails": True, "servers": [], "changes": []}
    return json_text({**report, "errors": errors})


def _server(summary: ServerSummary) -> dict[str, Any]:
    before, after = summary.versions
    numbers = {
        kind: dict(zip(("added", "removed", "changed"), counts, strict=True))
        for kind, counts in summary.counts.items()
    }
    version = {"before": before, "after": after}
    return {"name": summary.name, "state": summary.state, "version": version, **numbers}


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
