"""Inlines the runtime's modules into one text, as they were written.

Code is kept as text, comments included. What has no meaning in one file is removed: imports of one
another, blocks for type checkers, module docstrings (the first line of each becomes the heading of
its module). Imports of the standard library are gathered at the top.

Python compiles a script at every start. So a module that others import only within functions is
deferred: it stays text in the emitted file until one of these functions runs.

Source that cannot be joined safely is refused with module and line, so this file is also the style
guide of the runtime.
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
    """The runtime as text; modules stand in an order in which each follows all that it imports."""

    imports: str
    """Of the standard library, for the modules that a start needs."""
    modules: str
    """The modules that a start needs."""
    deferred: dict[str, str]
    """{name: source} of the other modules, each with its own imports."""


def bundle(entry: str, taken: Iterable[str] = (), without: Iterable[str] = ()) -> Bundle:
    """Join the runtime module `entry` and all that it imports.

    `taken` are names that the text around the modules defines, so no module may. `without` are
    deferred modules to leave out: this proxy never loads them.

    Raises:
        BundleError: a module breaks a rule of joining.
    """
    needed: dict[str, _Module] = {}
    _collect(entry, needed, ())
    everything = dict(needed)
    seen = 0
    while seen < len(everything):  # a deferred module may bring others along
        module = list(everything.values())[seen]
        seen += 1
        for late in module.later:
            if late not in without:
                _collect(late, everything, ())
    _refuse_doubles(everything.values(), taken)
    plain = sorted({line for module in needed.values() for line in module.imports})
    guarded = [block for module in needed.values() for block in module.guarded]
    deferred = {
        name: "\n".join([*sorted(module.imports), *module.guarded, "", module.code])
        for name, module in everything.items()
        if name not in needed
    }
    modules = "\n\n".join(f"{_RULE}\n# {r.heading}\n{_RULE}\n\n\n{r.code}" for r in needed.values())
    return Bundle("\n".join([*plain, *guarded]), modules, deferred)


def _collect(name: str, modules: dict[str, _Module], above: tuple[str, ...]) -> None:
    if name in above:
        raise BundleError(f"{name}: imported in a circle by {' -> '.join(above)}")
    if name in modules:
        return
    source = resources.files(PACKAGE).joinpath(f"{name}.py").read_text("utf-8")
    module = _taken_apart(name, source)
    for needed in module.needs:
        _collect(needed, modules, (*above, name))
    modules[name] = module


def _refuse_doubles(modules: Iterable[_Module], taken: Iterable[str]) -> None:
    owners = dict.fromkeys(taken, "the emitted file itself")
    for module in modules:
        for defined in module.defines:
            if defined in owners:
                raise BundleError(f"{module.name}: {defined} is also defined in {owners[defined]}")
            owners[defined] = module.name


class _Module:
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
            raise BundleError(f"{name}: three single quotes, which end a deferred module")
        tree = ast.parse(source)
        for statement in tree.body:
            self._take(statement)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.lineno not in self.dropped:
                self._defer(node)
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
            raise BundleError(
                f"{self.name}:{node.lineno}: write `from {PACKAGE}.module import name`"
            )
        if isinstance(node, ast.ImportFrom) and _is_own(node):
            self.needs.append(self._module_of(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if not (isinstance(node, ast.ImportFrom) and node.module in ("__future__", "typing")):
                self.imports.append(self._source(node))
        elif isinstance(node, ast.Try):
            self.guarded.append(self._source(node))
        elif not (_is_docstring(node) or _is_for_checkers(node)):
            raise BundleError(f"{self.name}:{node.lineno}: only definitions stand in a module")

    def _defer(self, node: ast.ImportFrom) -> None:
        """Turn an import of an own module within a function into a call that loads it."""
        if not _is_own(node):
            return
        module = self._module_of(node)
        if node.lineno != node.end_lineno:
            raise BundleError(f"{self.name}:{node.lineno}: a deferred import stands on one line")
        self.later.append(module)
        self.lines[node.lineno - 1] = f'{" " * node.col_offset}unfold(FOLDED, "{module}")'
        if "folding" not in self.needs:
            self.needs.append("folding")

    def _module_of(self, node: ast.ImportFrom) -> str:
        package, _, module = (node.module or "").partition(".")
        renamed = [alias.name for alias in node.names if alias.asname or alias.name == "*"]
        if node.level or package != PACKAGE or not module or renamed:
            raise BundleError(
                f"{self.name}:{node.lineno}: write `from {PACKAGE}.module import name`"
            )
        return module

    def _source(self, node: ast.stmt) -> str:
        return "\n".join(self.lines[node.lineno - 1 : node.end_lineno])


@cache
def _taken_apart(name: str, source: str) -> _Module:
    """Take a module apart, once in a process, however often it compiles."""
    return _Module(name, source)


def _is_own(node: ast.ImportFrom) -> bool:
    return bool(node.level) or _is_package(node.module or "")


def _is_package(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == PACKAGE


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
