"""Emits files without a process: for the golden cases, and for any snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcpagg.approval import Approval
from mcpagg.config import read_config
from mcpagg.emission import emit
from mcpagg.linking import link
from mcpagg.options import Commands, Options
from mcpagg.relocation import launch_rows
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.base.catalogue import KINDS

GOLDEN = Path(__file__).parent / "golden"
LISTS: dict[str, Any] = {"conditional": frozenset, **{kind.name: tuple for kind in KINDS}}


def emitted(
    case: Path, approve: Callable[[str], Approval] = lambda digest: {}, **options: Any
) -> str:
    """Emit the config and snapshot of a golden case."""
    recorded = json.loads((case / "snapshot.json").read_text("utf-8"))
    children = tuple(
        ChildSnapshot(**{key: LISTS.get(key, lambda value: value)(child[key]) for key in child})
        for child in recorded
    )
    return of_snapshot(
        (case / "config.json").read_bytes(),
        Snapshot(children),
        Options(name="golden", **options),
        approve,
    )


def of_snapshot(
    config: bytes,
    snapshot: Snapshot,
    options: Options,
    approve: Callable[[str], Approval] = lambda digest: {},
) -> str:
    """Emit a config whose servers have this snapshot."""
    spec, _ = read_config(config, source="mcp.json", folder=Path("/project"))
    rows = launch_rows(spec, spec.folder)
    linked, _ = link(spec, rows, snapshot, options)
    return emit(
        name=options.name or "mcp",
        source="mcp.json",
        commands=Commands(
            "mcpagg-compile mcp.json -o server.py", "mcpagg-compile --check -o server.py"
        ),
        rows=rows,
        snapshot=snapshot,
        linked=linked,
        options=options,
        http=options.http(spec),
        approve=approve,
    )


def cases() -> list[Path]:
    """Return the folders of the golden cases."""
    return sorted(GOLDEN.iterdir())
