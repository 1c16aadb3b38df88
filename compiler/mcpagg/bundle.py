"""Joins the runtime's modules into the parts of the emitted file.

The folders of the runtime are the parts of the emitted file. `start` stands in it as code. The
others stand in it as strings, because a script is compiled at every start: each is compiled as a
whole when it is first needed. A module may import its own part and earlier ones at its top, and
later ones only within functions, where the import becomes a call that loads the part.

Code is kept as text, less what only its authors need (`stripping`) and what has no meaning in one
file: imports of one another, blocks for type checkers. The path of a module and the first line of
its docstring become its heading. Imports of the standard library are gathered at the top of a part.

Source that cannot be joined safely is refused with module and line, so this file is also the style
guide of the runtime.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NoReturn

from mcpagg.problems import InternalFault
from mcpagg.stripping import Source, statements

PACKAGE = "mcpagg_runtime"
FIRST, *DEFERRED = PARTS = (
    "start",
    "spawn",
    "base",
    "envelope",
    "serve",
    "windows",
    "modern",
    "remote",
    "tool",
    "http",
    "profiles",
)
"""The parts, in the order in which one may import another."""

QUOTES = "'''"
_IMPORT = f"write `from {PACKAGE}.part.module import name`"


class BundleError(InternalFault):
    """Raised for runtime source that cannot be joined: a fault of ours, not of the user's."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The imports of the first part, its modules, and {name: source} of the deferred parts."""

    imports: str
    first: str
    deferred: dict[str, str]


def bundle(taken: Iterable[str] = (), without: Collection[str] = ()) -> Bundle:
    """Join the modules of the runtime, part by part.

    `taken` are names that the rest of the emitted file defines, and no module may. `without` are
    modules and whole parts to leave out: this proxy never calls what they define.

    Raises:
        BundleError: a module breaks a rule of joining.
    """
    parts = {part: _ordered(_modules_of(part)) for part in PARTS}
    _refuse_doubles([module for modules in parts.values() for module in modules], taken)
    known = {*DEFERRED, *(one.name for modules in parts.values() for one in modules)}
    if unknown := set(without) - known:
        raise BundleError(f"no module to leave out: {', '.join(sorted(unknown))}")
    kept = {
        part: [module for module in modules if not {part, module.name} & {*without}]
        for part, modules in parts.items()
    }
    deferred = {part: _deferred(part, kept[part]) for part in DEFERRED if kept[part]}
    return Bundle(_imports(kept[FIRST]), _joined(kept[FIRST]), deferred)


def runtime_digest() -> str:
    """Return the digest of the whole runtime and of the templates around it.

    It is the same for every proxy of one compiler, whatever modules the proxy leaves out.
    """
    joined = bundle()
    files = sorted(resources.files(PACKAGE).iterdir(), key=lambda file: file.name)
    templates = [file.read_text("utf-8") for file in files if file.name.endswith(".j2")]
    text = "\0".join([joined.imports, joined.first, *joined.deferred.values(), *templates])
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def _modules_of(part: str) -> dict[str, _Module]:
    """Return the modules in the folder of a part, by name."""
    modules = {}
    files = [*resources.files(PACKAGE).joinpath(part).iterdir()]
    for file in sorted(files, key=lambda file: file.name):
        name, dot, kind = file.name.partition(".")
        if f"{dot}{kind}" == ".py" and name != "__init__":
            modules[name] = _module(part, name, file.read_text("utf-8"))
    return modules


def _ordered(modules: Mapping[str, _Module]) -> list[_Module]:
    """Return the modules of a part, each behind those that it imports.

    Raises:
        BundleError: they import one another in a circle, or one that does not exist.
    """
    ordered: dict[str, _Module] = {}

    def take(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise BundleError(f"{name}: imported in a circle by {' -> '.join(above)}")
        if name in ordered:
            return
        if name not in modules:
            raise BundleError(f"{above[-1]}: imports {name}, and there is no such module")
        for part, needed in modules[name].needs:
            if part == modules[name].part:
                take(needed, (*above, name))
        ordered[name] = modules[name]

    for name in modules:
        take(name, ())
    return [*ordered.values()]


def _refuse_doubles(modules: Iterable[_Module], taken: Iterable[str]) -> None:
    """Refuse a name that has two meanings: all parts share the names of one file."""
    owners = dict.fromkeys(taken, "the emitted file itself")
    for module in modules:
        meanings = dict.fromkeys(module.defines, f"{module.part}/{module.name}") | module.binds
        for name, meaning in meanings.items():
            if owners.setdefault(name, meaning) != meaning:
                raise BundleError(f"{module.name}: {name} is also defined in {owners[name]}")


def _imports(modules: Iterable[_Module]) -> str:
    plain = sorted({line for module in modules for line in module.imports})
    return "\n".join([*plain, *(block for module in modules for block in module.guarded)])


def _joined(modules: Iterable[_Module]) -> str:
    return "\n".join(f"# {m.heading}\n{m.code}" for m in modules)


def _deferred(part: str, modules: Iterable[_Module]) -> str:
    """Return the source of a deferred part, which first loads what its modules import."""
    needed = {other for module in modules for other, _ in module.needs}
    loads = [_load(other) for other in DEFERRED if other in needed and other != part]
    head = "\n".join([_imports(modules), *loads]).strip("\n")
    return f"{head}\n\n{_joined(modules)}" if head else _joined(modules)


def _load(part: str) -> str:
    return f'load_part("{part}")'


class _Module:
    """One module, taken apart."""

    def __init__(self, part: str, name: str, text: str) -> None:
        self.part = part
        self.name = name
        self.needs: list[tuple[str, str]] = []  # what it imports at its top: (part, module)
        self.imports: list[str] = []
        self.guarded: list[str] = []
        self.defines: list[str] = []
        self.binds: dict[str, str] = {}  # what its other imports define: {name: source}
        if QUOTES in text:
            raise BundleError(f"{name}: three single quotes, which end a deferred part")
        source = Source(text)
        for statement in source.tree.body:
            self._take(statement, source)
        for definition in source.tree.body:
            if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for statement in statements(definition):
                    if _is_own(statement):
                        self._defer(statement, source)
        source.strip()
        title = (ast.get_docstring(source.tree) or "").splitlines()[0]
        self.heading = f"{part}/{name}.py: {title}"
        self.code = source.rest()

    def _take(self, node: ast.stmt, source: Source) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.defines.append(node.name)
            return
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in ast.walk(target)]
            self.defines += [name.id for name in names if isinstance(name, ast.Name)]
            return
        source.cut(node)
        if _is_own(node):
            needed = self._imported(node)
            if PARTS.index(needed[0]) > PARTS.index(self.part):
                self._refuse(node, f"import what is in the later part {needed[0]} in a function")
            self.needs.append(needed)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if not (isinstance(node, ast.ImportFrom) and node.module in ("__future__", "typing")):
                self.imports.append(Source(source.of(node)).rest().rstrip())
                self.binds.update(_bound(node))
        elif isinstance(node, ast.Try):
            self.guarded.append(Source(source.of(node)).rest().rstrip())
            # A name means what the first of the alternatives gives it.
            for block in (*(handler.body for handler in node.handlers), node.body):
                for statement in block:
                    if isinstance(statement, ast.Import | ast.ImportFrom):
                        self.binds.update(_bound(statement))
        elif not (_is_docstring(node) or _is_for_checkers(node)):
            self._refuse(node, "only definitions stand in a module")

    def _defer(self, node: ast.stmt, source: Source) -> None:
        """Turn an import of a later part within a function into a call that loads it."""
        part, _ = self._imported(node)
        if PARTS.index(part) <= PARTS.index(self.part):
            self._refuse(node, f"an import of {part} stands at the top of a module in {self.part}")
        source.cut(node, _load(part))

    def _imported(self, node: ast.stmt) -> tuple[str, str]:
        """Return the part and the module of an import of the runtime's own."""
        words: list[str] = []
        renamed: list[str] = []
        if isinstance(node, ast.ImportFrom):
            words = node.module.split(".") if node.module else []
            renamed = [alias.name for alias in node.names if alias.asname or alias.name == "*"]
        if len(words) != 3 or words[1] not in PARTS or renamed:
            self._refuse(node, _IMPORT)
        return words[1], words[2]

    def _refuse(self, node: ast.stmt, why: str) -> NoReturn:
        raise BundleError(f"{self.name}:{node.lineno}: {why}")


@cache
def _module(part: str, name: str, source: str) -> _Module:
    """Take a module apart, once in a process, however often it compiles."""
    return _Module(part, name, source)


def _bound(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Return the names that an import defines, and what each means."""
    origin = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return {
        alias.asname or alias.name.partition(".")[0]: f"the import of {origin}{alias.name}"
        for alias in node.names
    }


def _is_own(node: ast.stmt) -> bool:
    """Whether a statement imports something of the runtime."""
    if isinstance(node, ast.Import):
        return any(_is_package(alias.name) for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.level > 0 or _is_package(node.module or ""))


def _is_package(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == PACKAGE


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
