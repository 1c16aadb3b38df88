"""Inlines the runtime's modules into one text, as they were written.

Code is kept as text, comments included. What joining modules makes meaningless goes: their own
imports of one another, blocks for type checkers, module docstrings (the first line of each becomes
the heading of its room). Imports of the standard library are gathered at the top.

A script is compiled at every start. So a room that another one imports only within a function is
folded: it stays text in the emitted file until that function runs.

What cannot be joined safely is refused with module and line, so this file is also the style guide
of the runtime.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from mcpagg.problems import InternalFault

PACKAGE = "mcpagg_runtime"
QUOTES = "'''"
_RULE = "# " + "-" * 98


class BundleError(InternalFault):
    """Raised for runtime source that cannot be joined: a fault of ours, not of the user's."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The imports of the rooms that a start needs, those rooms, and {name: source} of the folded.

    Each in an order in which a room stands behind all that it needs.
    """

    imports: str
    rooms: str
    folded: dict[str, str]


def bundle(entry: str, taken: Iterable[str] = (), without: Iterable[str] = ()) -> Bundle:
    """Join the runtime module `entry` and all that it imports.

    `taken` are names that what surrounds the rooms defines, and no room may. `without` are rooms to
    fold that are left out: this proxy will not ask for them.

    Raises:
        BundleError: a module breaks a rule of joining.
    """
    needed: dict[str, _Room] = {}
    _collect(entry, needed, ())
    everything = dict(needed)
    seen = 0
    while seen < len(everything):  # a folded room may bring others along
        room = list(everything.values())[seen]
        seen += 1
        for late in room.later:
            if late not in without:
                _collect(late, everything, ())
    _refuse_doubles(everything.values(), taken)
    plain = sorted({line for room in needed.values() for line in room.imports})
    guarded = [block for room in needed.values() for block in room.guarded]
    folded = {
        name: "\n".join([*sorted(room.imports), *room.guarded, "", room.code])
        for name, room in everything.items()
        if name not in needed
    }
    rooms = "\n\n".join(f"{_RULE}\n# {r.heading}\n{_RULE}\n\n\n{r.code}" for r in needed.values())
    return Bundle("\n".join([*plain, *guarded]), rooms, folded)


def _collect(name: str, rooms: dict[str, _Room], above: tuple[str, ...]) -> None:
    if name in above:
        raise BundleError(f"{name}: imported in a circle by {' -> '.join(above)}")
    if name in rooms:
        return
    source = resources.files(PACKAGE).joinpath(f"{name}.py").read_text("utf-8")
    room = _taken_apart(name, source)
    for needed in room.needs:
        _collect(needed, rooms, (*above, name))
    rooms[name] = room


def _refuse_doubles(rooms: Iterable[_Room], taken: Iterable[str]) -> None:
    owners = dict.fromkeys(taken, "the emitted file itself")
    for room in rooms:
        for defined in room.defines:
            if defined in owners:
                raise BundleError(f"{room.name}: {defined} is also defined in {owners[defined]}")
            owners[defined] = room.name


class _Room:
    """One module, taken apart."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.lines = source.splitlines()
        self.needs: list[str] = []
        self.later: list[str] = []
        self.imports: list[str] = []
        self.guarded: list[str] = []
        self.defines: list[str] = []
        self.dropped: set[int] = set()
        if QUOTES in source:
            raise BundleError(f"{name}: three single quotes, which end a folded room")
        tree = ast.parse(source)
        for statement in tree.body:
            self._take(statement)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.lineno not in self.dropped:
                self._fold(node)
        self.heading = f"{name}: {(ast.get_docstring(tree) or '').splitlines()[0]}"
        kept = [line for number, line in enumerate(self.lines, 1) if number not in self.dropped]
        self.code = "\n".join(kept).strip() + "\n"

    def _take(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.defines.append(node.name)
            return
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self.defines += [target.id for target in targets if isinstance(target, ast.Name)]
            return
        self.dropped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Import) and any(_is_package(a.name) for a in node.names):
            raise BundleError(f"{self.name}:{node.lineno}: write `from {PACKAGE}.room import name`")
        if isinstance(node, ast.ImportFrom) and _is_own(node):
            self.needs.append(self._room_of(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if not (isinstance(node, ast.ImportFrom) and node.module in ("__future__", "typing")):
                self.imports.append(self._source(node))
        elif isinstance(node, ast.Try):
            self.guarded.append(self._source(node))
        elif not (_is_docstring(node) or _is_for_checkers(node)):
            raise BundleError(f"{self.name}:{node.lineno}: only definitions stand in a module")

    def _fold(self, node: ast.ImportFrom) -> None:
        """Turn an import of an own room within a function into its unfolding."""
        if not _is_own(node):
            return
        room = self._room_of(node)
        if node.lineno != node.end_lineno:
            raise BundleError(f"{self.name}:{node.lineno}: an import to fold stands on one line")
        self.later.append(room)
        self.lines[node.lineno - 1] = f'{" " * node.col_offset}unfold(FOLDED, "{room}")'
        if "folding" not in self.needs:
            self.needs.append("folding")

    def _room_of(self, node: ast.ImportFrom) -> str:
        package, _, room = (node.module or "").partition(".")
        renamed = [alias.name for alias in node.names if alias.asname or alias.name == "*"]
        if node.level or package != PACKAGE or not room or renamed:
            raise BundleError(f"{self.name}:{node.lineno}: write `from {PACKAGE}.room import name`")
        return room

    def _source(self, node: ast.stmt) -> str:
        return "\n".join(self.lines[node.lineno - 1 : node.end_lineno])


@cache
def _taken_apart(name: str, source: str) -> _Room:
    """Take a module apart, once in a process, however often it compiles."""
    return _Room(name, source)


def _is_own(node: ast.ImportFrom) -> bool:
    return bool(node.level) or _is_package(node.module or "")


def _is_package(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == PACKAGE


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
