"""Reads back what an emitted file holds: its snapshot, and the command that rebuilds it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from mcpagg.jsontext import loads
from mcpagg.problems import ConfigError, Problem
from mcpagg.readback import read_tables
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.start.catalogue import KINDS

REBUILD = "#   rebuild:  "


def recorded_snapshot(file: Path, rebuild: str = "") -> Snapshot:
    """Return the snapshot in an emitted file; the file is parsed, never run.

    `rebuild` is the command that writes the file anew, for the error.

    Raises:
        ConfigError: the file cannot be read, or is none that mcpagg-compile wrote.
    """
    try:
        tables = read_tables(_read(file), ("SNAPSHOT", "CHILDREN", "FAILED"))
        children = tuple(
            _child(name, tables["CHILDREN"][name], lists)
            for name, lists in tables["SNAPSHOT"].items()
            if name  # what has none are the composite tools, which are built anew
        )
        failed = tuple(tables.get("FAILED", ()))
    except (SyntaxError, ValueError, KeyError, AttributeError, TypeError) as problem:
        what = f"holds no snapshot that can be read ({type(problem).__name__})"
        raise ConfigError(
            str(file), [Problem("", what, f"compile it without --offline: {rebuild}")]
        ) from None
    return Snapshot(children, failed)


def recorded_command(file: Path) -> list[str] | None:
    """Return the arguments that an emitted file was compiled with, None if it has none."""
    if not file.exists():
        return None
    for line in _read(file).splitlines()[:20]:
        if line.startswith(REBUILD):
            try:
                program, *words = shlex.split(line[len(REBUILD) :])
            except ValueError:
                return None
            return words if program == "mcpagg-compile" else None
    return None


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        what = f"cannot be read: {reason}"
        raise ConfigError(str(file), [Problem("", what)]) from None


def _child(name: str, facts: dict[str, Any], lists: dict[str, str]) -> ChildSnapshot:
    about = loads(lists["server"])
    return ChildSnapshot(
        name=name,
        protocol=facts["protocol"],
        info=about["serverInfo"],
        capabilities=about["capabilities"],
        instructions=about.get("instructions"),
        **{kind.name: tuple(loads(lists.get(kind.name, "[]"))) for kind in KINDS},
        conditional=frozenset(facts.get("conditional", ())),
        hints=dict(facts.get("hints", {})),
    )
