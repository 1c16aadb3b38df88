"""Reads back what an emitted file holds: its snapshot, and the command that rebuilds it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpagg.approval import Approval
from mcpagg.jsontext import loads
from mcpagg.output import content
from mcpagg.problems import ConfigError, Problem
from mcpagg.readback import read_tables
from mcpagg.sections import cut
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.base.catalogue import KINDS

_CONFLICT = "\n<<<<<<< "
REBUILD = "#   rebuild:  "
TABLES = ("SERVERS", "CHILDREN", "FAILED", "KEPT", "APPROVAL")


@dataclass(frozen=True, slots=True)
class Contents:
    """What an emitted file says of its servers: its launch table {server: row}, its snapshot.

    `approval` is that of all that it holds.
    """

    rows: Mapping[str, Mapping[str, Any]]
    snapshot: Snapshot
    approval: Approval = field(default_factory=dict)

    def renamed(self, names: Mapping[str, str]) -> Contents:
        """Return the same with some servers under other names, {old name: new name}."""
        rows = {names.get(name, name): row for name, row in self.rows.items()}
        return Contents(rows, self.snapshot.renamed(names), self.approval)


NOTHING = Contents({}, Snapshot(()))
"""What a file says that does not exist."""


def read_contents(file: Path, rebuild: str = "") -> Contents:
    """Return what an emitted file says of its servers; the file is parsed, never run.

    `rebuild` is the command that writes the file anew, for the error.

    Raises:
        ConfigError: the file cannot be read, or is none that mcpagg-compile wrote.
    """
    text = _read(file)
    try:
        # Of the data alone: what a merge has left in the header or the runtime does not matter.
        sections = cut(text)
        found = read_tables(sections.data if sections else "", {*TABLES, "SNAPSHOT"})
        tables = {name: loads(found.get(name, "[]")) for name in TABLES}
        children = tuple(
            _child(name, tables["CHILDREN"][name], lists, tables["SERVERS"][name])
            for name, lists in found["SNAPSHOT"].items()
            if name  # what has none are the composite tools, which are built anew
        )
        failed, kept = (tuple(tables[name]) for name in ("FAILED", "KEPT"))
        approval = tables["APPROVAL"] or {}
        return Contents(tables["SERVERS"], Snapshot(children, failed, kept), approval)
    except (SyntaxError, ValueError, KeyError, AttributeError, TypeError) as problem:
        what = f"holds no snapshot that can be read ({type(problem).__name__})"
        if _CONFLICT in text:
            what = "holds a conflict of a merge in its tables: choose those of one side"
        raise ConfigError(str(file), [Problem("", what, f"compile it anew: {rebuild}")]) from None


def recorded_command(file: Path) -> list[str] | None:
    """Return the arguments that an emitted file was compiled with, None if it has none."""
    if not file.exists():
        return None
    for line in _read(file).splitlines()[:40]:
        if line.startswith(REBUILD):
            try:
                program, *words = shlex.split(line[len(REBUILD) :])
            except ValueError:
                return None
            return words if program == "mcpagg-compile" else None
    return None


def _read(file: Path) -> str:
    try:
        # A checkout may have turned line ends into others, which Python reads alike.
        return content(file).decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        what = f"cannot be read: {reason}"
        remedy = "compile it first" if isinstance(problem, FileNotFoundError) else ""
        raise ConfigError(str(file), [Problem("", what, remedy)]) from None


def _child(
    name: str, facts: dict[str, Any], lists: dict[str, str], row: dict[str, Any]
) -> ChildSnapshot:
    about = loads(lists["server"])
    items: dict[str, Any] = {kind.name: tuple(loads(lists.get(kind.name, "[]"))) for kind in KINDS}
    return ChildSnapshot(
        name=name,
        protocol=facts["protocol"],
        info=about["serverInfo"],
        capabilities=about["capabilities"],
        instructions=about.get("instructions"),
        **items,
        conditional=frozenset(facts.get("conditional", ())),
        hints=dict(facts.get("hints", {})),
        transport=row.get("transport", ""),
    )
