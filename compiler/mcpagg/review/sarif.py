"""A review as SARIF 2.1.0, for code scanning: each class is a rule, each change a result.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

from mcpagg import __version__
from mcpagg.literal import json_text, literal
from mcpagg.review.changes import Change
from mcpagg.review.classes import CLASSES
from mcpagg.review.reviewing import Review
from mcpagg.review.wording import in_short, place_words, values, visible
from mcpagg_runtime.base.catalogue import KINDS

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {
    "error": ("hidden", "schema-breaking", "hint", "removed", "launch", "file"),
    "warning": ("failed", "text", "added", "capabilities"),
    "note": ("schema-compatible", "version", "other", "runtime"),
}
_LEVEL = {class_: level for level, classes in LEVELS.items() for class_ in classes}
_KEYS = {kind.name[:-1]: kind.key for kind in KINDS}


def as_sarif(review: Review) -> str:
    """Return a review as SARIF text."""
    driver = {
        "name": "mcpagg-compile",
        "version": __version__,
        "rules": [
            {
                "id": class_,
                "shortDescription": {"text": meaning},
                "defaultConfiguration": {"level": _LEVEL[class_]},
            }
            for class_, meaning in CLASSES.items()
        ],
    }
    results = [_result(change, review) for change in review.changes]
    run = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(change: Change, review: Review) -> dict[str, Any]:
    name = "/".join(filter(None, (change.server, change.name))) + change.place
    item = f"{change.kind} {in_short(change.name)}".rstrip()
    message = f"{change.server or review.file}: {item} {place_words(change)}"
    before, after = values(change)
    for word, value in (("before", before), ("now", after)):
        message += f"\n{word}: {value}" if value is not None else ""
    print_ = "\0".join((change.class_, change.server, change.kind, change.name, change.place))
    print_ += f"\0{change.what}\0{before}\0{after}"
    uri = quote(review.file.replace("\\", "/"))
    return {
        "ruleId": change.class_,
        "ruleIndex": [*CLASSES].index(change.class_),
        "level": _LEVEL[change.class_],
        "message": {"text": "\n".join(map(visible, message.split("\n")))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri},
                    "region": {"startLine": _line(change, review.text)},
                },
                "logicalLocations": [{"fullyQualifiedName": in_short(name or "proxy")}],
            }
        ],
        "partialFingerprints": {
            "change/v1": hashlib.sha256(print_.encode("utf-8", "surrogatepass")).hexdigest()
        },
    }


def _line(change: Change, text: str) -> int:
    """Return the line of the emitted text where what changed stands, 1 where it does not."""
    name, row = "SNAPSHOT", f"\n    {literal(change.server)}: {{"
    if change.class_ == "launch":
        name, row = "SERVERS", f"\n{json_text(change.server)}: {{"
    table = text.find(f"\n{name} = ")
    place = text.find(row, table) if table >= 0 else -1
    if place < 0:
        return 1
    place += 1
    if key := _KEYS.get(change.kind):
        item = json.dumps(change.name, ensure_ascii=False)
        place = max(place, text.find(f'"{key}": {item}', place))
    return text.count("\n", 0, place) + 1
