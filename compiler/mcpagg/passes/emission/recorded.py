"""What FILE records of an earlier compilation, and which servers are asked again.

All are asked, or those that `--refresh` names, or none (`--offline`); of the others the snapshot
has what FILE has.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcpagg.jsontext import loads
from mcpagg.options import PROGRAM
from mcpagg.passes.config.places import Place
from mcpagg.passes.config.validation import validated
from mcpagg.passes.emission.approval import Approval
from mcpagg.passes.emission.output import CRLF, content
from mcpagg.passes.emission.readback import cut, read_tables
from mcpagg.passes.emission.tables import RECORDED
from mcpagg.problems import ConfigError, Problem, suggest
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.lists.catalogue import KINDS

_CONFLICT = "\n<<<<<<< "
REBUILD = "#   rebuild:  "
_REMEDY = {FileNotFoundError: "compile it first", UnicodeDecodeError: "compile it anew"}

# What a row of the launch table says of starting or reaching a server.
LAUNCH = ("command", "args", "env", "env_file", "cwd", "url", "headers")

Rows = Mapping[str, Mapping[str, Any]]
"""A launch table: {server: row}."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What an emitted file says of its servers: its launch table {server: row}, its snapshot.

    `approval` is that of all that it holds; `frozen` {server: rows} what frozen servers start.
    """

    rows: Rows
    snapshot: Snapshot
    approval: Approval = field(default_factory=dict)
    frozen: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def renamed(self, names: Mapping[str, str]) -> Contents:
        """Return the same with some servers under other names, {old name: new name}."""
        rows = {names.get(name, name): row for name, row in self.rows.items()}
        frozen = {names.get(name, name): lines for name, lines in self.frozen.items()}
        return Contents(rows, self.snapshot.renamed(names), self.approval, frozen)


NO_CONTENTS = Contents({}, Snapshot(()))
"""What a file says that does not exist."""


def read_contents(file: Path, rebuild: str = "") -> Contents:
    """Return what an emitted file says of its servers; the file is parsed, never run.

    `rebuild` is the command that writes the file anew, for the error.

    Raises:
        ConfigError: the file cannot be read, or is none that mcpagg-compile wrote.
    """
    from mcpagg.passes.emission.recorded_models import File

    root = Place()
    tables = _tables(_read(file), file.name, root)
    if root.errors or validated(File, tables, root) is None:
        remedy = f"compile it anew: {rebuild}"
        raise ConfigError(str(file), [replace(error, remedy=remedy) for error in root.errors])
    children = tuple(
        _child(name, tables["CHILDREN"][name], lists, tables["SERVERS"][name])
        for name, lists in tables["SNAPSHOT"].items()
        if name  # what has none are the composite tools, which are built anew
    )
    failed, kept = (tuple(tables.get(name, ())) for name in ("FAILED", "KEPT"))
    snapshot = Snapshot(children, failed, kept)
    approval, frozen = (tables.get(name, {}) for name in ("APPROVAL", "FROZEN"))
    return Contents(tables["SERVERS"], snapshot, approval, frozen)


def _tables(text: str, name: str, root: Place) -> dict[str, Any]:
    """Return the tables of a text as JSON-like values; `name` is what its file is called."""
    # Of the data alone: what a merge has left in the header or the runtime does not matter.
    sections = cut(text)
    with suppress(ValueError):
        if sections:
            tables: dict[str, Any] = _values(read_tables(sections.data, RECORDED))
            return tables
    what = "holds no snapshot that can be read"
    if _CONFLICT in text:
        what = (
            "holds a conflict of a merge in its tables: take the file of one side "
            f"(git checkout --ours {name}), and give --refresh NAME for each server of the other"
        )
    root.error(what)
    return {}


def _values(texts: Any) -> Any:
    """Return tables as JSON-like values: each string of them is a JSON text."""
    if isinstance(texts, dict):
        return {key: _values(text) for key, text in texts.items()}
    return loads(texts) if isinstance(texts, str) else texts


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
            return words if program == PROGRAM else None
    return None


def _read(file: Path) -> str:
    try:
        # A checkout may have turned line ends into others, which Python reads alike.
        return content(file).decode("utf-8").replace(CRLF, "\n")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        what = f"cannot be read: {reason}"
        raise ConfigError(str(file), [Problem("", what, _REMEDY.get(type(problem), ""))]) from None


def _child(
    name: str, facts: dict[str, Any], lists: dict[str, Any], row: dict[str, Any]
) -> ChildSnapshot:
    about = lists["server"]
    handshake = {}
    if "handshake" in facts:
        declared = about["handshakeCapabilities"]
        handshake = {"protocolVersion": facts["handshake"], "capabilities": declared}
    items: dict[str, Any] = {kind.name: tuple(lists.get(kind.name, ())) for kind in KINDS}
    return ChildSnapshot(
        name=name,
        protocol=facts["protocol"],
        info=about["serverInfo"],
        capabilities=about["capabilities"],
        instructions=about.get("instructions"),
        **items,
        conditional=frozenset(facts.get("conditional", ())),
        hints=dict(facts.get("hints", {})),
        handshake=handshake,
        transport=row.get("transport", ""),
    )


def asked_servers(spec: ProxySpec, refresh: Collection[str] | None) -> frozenset[str]:
    """Return the names of the servers to ask: those of `refresh`, or all where it is None.

    Raises:
        ConfigError: one is no server of the config.
    """
    names = [server.name for server in spec.servers]
    if refresh is None:
        return frozenset(names)
    there = f"there are: {', '.join(names)}"
    if problems := [
        Problem("", f"--refresh {name} is no server of the config", suggest(name, names) or there)
        for name in refresh
        if name not in names
    ]:
        raise ConfigError(spec.source, problems)
    return frozenset(refresh)


def renamed_servers(before: Rows, now: Rows) -> dict[str, str]:
    """Return {old name: new name} of the servers that only have another name now.

    Such a one is started as before, and no other that came or went is.
    """
    gone = [name for name in before if name not in now]
    come = [name for name in now if name not in before]
    names = {}
    for old in gone:
        alike = [new for new in come if _start_alike(before[old], now[new])]
        twins = [other for other in gone if _start_alike(before[old], before[other])]
        if len(alike) == len(twins) == 1:
            names[old] = alike[0]
    return names


def _start_alike(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(row.get(key) == other.get(key) for key in LAUNCH)


def combined(
    spec: ProxySpec, asked: Collection[str], asked_now: Snapshot, before: Snapshot
) -> Snapshot:
    """Return the snapshot of a config: of each server what was found, else what was there before.

    `asked` are those that were to be found.
    """
    new = asked_now.by_name
    old = before.by_name
    children = old | new
    names = [server.name for server in spec.servers]
    stale = [name for name in names if name in old and name not in new]
    return Snapshot(
        children=tuple(children[name] for name in names if name in children),
        failed=tuple(name for name in names if name not in children),
        kept=tuple(name for name in stale if name in asked or name in before.kept),
    )


def check_recorded(
    spec: ProxySpec, asked: Collection[str], before: Snapshot, file: str, rebuild: str
) -> None:
    """Refuse a server that is neither asked nor recorded in `file`; `rebuild` writes that anew.

    Raises:
        ConfigError: naming each.
    """
    recorded = {*before.names, *before.failed}
    if problems := [
        Problem(
            server.path,
            f"is not in the snapshot of {file}",
            f"ask it with --refresh {server.name}, or compile anew: {rebuild}",
        )
        for server in spec.servers
        if server.name not in recorded and server.name not in asked
    ]:
        raise ConfigError(spec.source, problems)
