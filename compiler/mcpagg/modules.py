"""Takes the modules of the runtime apart: what each needs, defines and imports, and its code.

Code is kept as text, less what only its authors need (`stripping`) and what has no meaning in one
file: imports of one another, blocks for type checkers. Source that cannot be joined safely is
refused with module and line, so this file is also the style guide of the runtime.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NoReturn

from mcpagg import stripping
from mcpagg.problems import InternalFault
from mcpagg.stripping import Source, statements

PACKAGE = "mcpagg_runtime"
PARTS = (
    "start",
    "spawn",
    "base",
    "serve",
    "modern",
    "remote",
    "tool",
    "http",
    "windows",
    "rare",
    "views",
)
"""The parts, in the order in which one may import another."""

QUOTES = "'''"
_IMPORT = f"write `from {PACKAGE}.part.module import name`"
_KEPT = "mcpagg.json"
_Text = tuple[str, str, str]


class BundleError(InternalFault):
    """Raised for runtime source that cannot be joined: a fault of ours, not of the user's."""


@dataclass(slots=True)
class Module:
    """One module: its part and name, the heading and the code that the emitted file has of it.

    `needs` are the modules that it imports at its top, as [part, module]; `imports` and `guarded`
    its other imports, those in `try` apart; `defines` what it defines, `binds` {name: meaning} what
    its other imports define.
    """

    part: str
    name: str
    heading: str = ""
    code: str = ""
    needs: list[list[str]] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    guarded: list[str] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    binds: dict[str, str] = field(default_factory=dict)


def runtime_modules() -> tuple[Module, ...]:
    """Return the modules of the runtime, part by part, in the order of their names.

    Raises:
        BundleError: one cannot be joined.
    """
    sources = tuple(source for part in PARTS for source in _sources(part))
    return all_taken_apart(sources, bytecode_folder())


@cache
def all_taken_apart(sources: tuple[_Text, ...], folder: Path | None) -> tuple[Module, ...]:
    """Take modules apart, once for all compilations: it costs as much as all else of one.

    They are kept in `folder`, if there is one, for as long as they would be made of the same.
    """
    if folder is None:
        return tuple(taken_apart(*source) for source in sources)
    makers = [Path(file).read_text("utf-8") for file in (__file__, stripping.__file__)]
    made_of = "\0".join([*makers, *("\0".join(source) for source in sources)])
    file = folder / _KEPT
    with suppress(OSError):
        digest, _, text = file.read_bytes().partition(b"\n")
        if digest == _digest(made_of, text):  # else it is of other sources, or damaged
            return tuple(Module(**module) for module in json.loads(text))
    modules = tuple(taken_apart(*source) for source in sources)
    text = json.dumps([*map(asdict, modules)]).encode()
    with suppress(OSError):
        with NamedTemporaryFile(dir=folder, delete=False) as stream:
            stream.write(_digest(made_of, text) + b"\n" + text)
        os.replace(stream.name, file)
    return modules


def _digest(made_of: str, text: bytes) -> bytes:
    return hashlib.sha256(b"\0".join([made_of.encode(), text])).hexdigest().encode()


def bytecode_folder() -> Path | None:
    """Return the folder in which Python keeps the bytecode of the runtime, None if it keeps none.

    Whoever can write there can put other code in place of the compiler's, so it is as safe a place
    for what else is made of the runtime.
    """
    package = resources.files(PACKAGE)
    if sys.dont_write_bytecode or not (sys.implementation.cache_tag and isinstance(package, Path)):
        return None
    folder = Path(cache_from_source(str(package / "__init__.py"))).parent
    return folder if os.access(folder, os.W_OK) else None


def _sources(part: str) -> Iterator[_Text]:
    """Yield the part, the name and the source of each module in the folder of a part."""
    files = [*resources.files(PACKAGE).joinpath(part).iterdir()]
    for file in sorted(files, key=lambda file: file.name):
        name, dot, kind = file.name.partition(".")
        if f"{dot}{kind}" == ".py" and name != "__init__":
            yield part, name, file.read_text("utf-8")


def taken_apart(part: str, name: str, text: str) -> Module:
    """Take the source of a module apart.

    Raises:
        BundleError: it cannot be joined with others.
    """
    if QUOTES in text:
        raise BundleError(f"{name}: three single quotes, which end a deferred part")
    module, source = Module(part, name), Source(text)
    for statement in source.tree.body:
        _take(statement, source, module)
    for definition in source.tree.body:
        if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for statement in statements(definition):
                if _is_own(statement):
                    _defer(statement, source, module)
    source.strip()
    title = (ast.get_docstring(source.tree) or "").splitlines()[0]
    module.heading = f"{part}/{name}.py: {title}"
    module.code = source.rest()
    return module


def _take(node: ast.stmt, source: Source, module: Module) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        module.defines.append(node.name)
        return
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name for target in targets for name in ast.walk(target)]
        module.defines += [name.id for name in names if isinstance(name, ast.Name)]
        return
    source.cut(node)
    if _is_own(node):
        needed = _imported(node, module)
        if PARTS.index(needed[0]) > PARTS.index(module.part):
            _refuse(node, module, f"import what is in the later part {needed[0]} in a function")
        module.needs.append(needed)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        if not (isinstance(node, ast.ImportFrom) and node.module in ("__future__", "typing")):
            module.imports.append(Source(source.of(node)).rest().rstrip())
            module.binds.update(_bound(node))
    elif isinstance(node, ast.Try):
        module.guarded.append(Source(source.of(node)).rest().rstrip())
        # A name means what the first of the alternatives gives it.
        for block in (*(handler.body for handler in node.handlers), node.body):
            for statement in block:
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    module.binds.update(_bound(statement))
    elif not (_is_docstring(node) or _is_for_checkers(node)):
        _refuse(node, module, "only definitions stand in a module")


def _defer(node: ast.stmt, source: Source, module: Module) -> None:
    """Turn an import of a later part within a function into a call that loads it."""
    part, _ = _imported(node, module)
    if PARTS.index(part) <= PARTS.index(module.part):
        _refuse(node, module, f"an import of {part} stands at the top of a module in {module.part}")
    source.cut(node, load(part))


def _imported(node: ast.stmt, module: Module) -> list[str]:
    """Return the part and the module of an import of the runtime's own."""
    words: list[str] = []
    renamed: list[str] = []
    if isinstance(node, ast.ImportFrom):
        words = node.module.split(".") if node.module else []
        renamed = [alias.name for alias in node.names if alias.asname or alias.name == "*"]
    if len(words) != 3 or words[1] not in PARTS or renamed:
        _refuse(node, module, _IMPORT)
    return words[1:]


def _refuse(node: ast.stmt, module: Module, why: str) -> NoReturn:
    raise BundleError(f"{module.name}:{node.lineno}: {why}")


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


def load(part: str) -> str:
    """Return the statement that loads a part."""
    return f'load_part("{part}")'
