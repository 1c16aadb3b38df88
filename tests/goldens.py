"""Emits the golden cases without a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compilations import of_snapshot

from mcpagg.options import Options
from mcpagg.passes.emission.approval import Approval
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.lists.catalogue import KINDS

GOLDEN = Path(__file__).parent / "golden"
LISTS: dict[str, Any] = {"conditional": frozenset, **{kind.name: tuple for kind in KINDS}}


def emitted(
    case: Path, approve: Callable[[str], Approval] = lambda digest: {}, **options: Any
) -> str:
    """Emit the config and snapshot of a golden case, and what is frozen in it."""
    recorded = json.loads((case / "snapshot.json").read_text("utf-8"))
    children = tuple(
        ChildSnapshot(**{key: LISTS.get(key, lambda value: value)(child[key]) for key in child})
        for child in recorded
    )
    rows = case / "frozen.json"
    return of_snapshot(
        (case / "config.json").read_bytes(),
        Snapshot(children),
        Options(name="golden", **options),
        approve,
        json.loads(rows.read_text("utf-8")) if rows.exists() else {},
    ).text


def cases() -> list[Path]:
    """Return the folders of the golden cases."""
    return sorted(GOLDEN.iterdir())
