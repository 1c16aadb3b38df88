"""Entries of lists with one wrong shape each: every member, nested ones too, with every value.

What comes of an entry that some client refuses is a rule of `mcpagg_runtime.lists.mending`; what
clients refuse is asked of the models of their libraries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from mcpagg_runtime.lists.catalogue import PROMPTS, RESOURCES, TEMPLATES, TOOLS, Kind

ICONS = [{"src": "data:,", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}]
COMMON = {"title": "T", "description": "d", "icons": ICONS, "_meta": {"k": 1}}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"a": {"type": "string", "default": None, "enum": ["x", None]}},
    "required": ["a"],
}
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
ABOUT = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-02T03:04:05Z"}
ARGUMENT = {"name": "a", "title": "A", "description": "d", "required": True}

RIGHT: dict[Kind, dict[str, Any]] = {
    TOOLS: {
        "name": "x",
        **COMMON,
        "inputSchema": SCHEMA,
        "outputSchema": SCHEMA,
        "annotations": {"title": "T", **dict.fromkeys(HINTS, True)},
        "execution": {"taskSupport": "optional"},
    },
    PROMPTS: {"name": "x", **COMMON, "arguments": [ARGUMENT]},
    RESOURCES: {
        "name": "x",
        "uri": "res://x",
        **COMMON,
        "mimeType": "text/plain",
        "size": 5,
        "annotations": ABOUT,
    },
    TEMPLATES: {
        "name": "x",
        "uriTemplate": "res://{x}",
        **COMMON,
        "mimeType": "text/plain",
        "annotations": ABOUT,
    },
}
"""An entry of each kind with all members that clients know."""

ABSENT: Any = ...
VALUES: tuple[Any, ...] = (
    *(ABSENT, None, True, False, 0, 5, -1, 0.5, 1.5, 5.0, 1e300, 2**70, "", "x", "true", "5"),
    *([], {}, [None], [1], ["x"], ["object", "null"], [{}], {"a": None}, {"a": 1}, {"a": True}),
    *({"a": False}, {"a": []}, {"a": "x"}, {"type": None}, {"type": ["object", "null"]}),
    *({"type": "array", "items": {}}, {"properties": None}, {"$ref": "#"}, "array", "required"),
    *("2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04:05+01:00", "2026-02-30T03:04:05Z"),
    *("note://My note", "note://a:b", "a/b", "http://", "urn:a:b", "file:///a b", "assistant"),
)
"""What stands in the place of each value: what is wrong for one is right for another."""


class Shaped(NamedTuple):
    """An entry in which one value is another one."""

    kind: Kind
    pointer: str
    value: Any
    entry: dict[str, Any]

    @property
    def about(self) -> str:
        """Which one it is."""
        value = "absent" if self.value is ABSENT else json.dumps(self.value)
        return f"{self.kind.name} {self.pointer}: {value}"


def shaped() -> Iterator[Shaped]:
    """Yield every right entry, and every entry with another value at one place."""
    for kind, right in RIGHT.items():
        yield Shaped(kind, "", right, right)
        for path in _paths(right):
            for value in VALUES:
                entry = json.loads(json.dumps(right))
                _replace(entry, path, value)
                yield Shaped(kind, "".join(f"/{step}" for step in path), value, entry)


def _paths(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to each value within a value that clients look at."""
    inner_values = dict(enumerate(value)) if isinstance(value, list) else value
    for step, inner in inner_values.items() if isinstance(inner_values, dict) else ():
        yield (step,)
        # What is in the schema of an argument, or in `_meta`, nobody looks at.
        if step not in ("a", "_meta"):
            yield from ((step, *rest) for rest in _paths(inner))


def _replace(entry: Any, path: tuple[str | int, ...], value: Any) -> None:
    for step in path[:-1]:
        entry = entry[step]
    if value is ABSENT:
        del entry[path[-1]]
    else:
        entry[path[-1]] = value
