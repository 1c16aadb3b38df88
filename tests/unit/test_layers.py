"""The layers: who may import whom, and what a start may cost."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import mcpagg
import mcpagg_runtime
from mcpagg.passes.emission.bundle import EXTENDED
from mcpagg_runtime.start.embedded import START

COMPILER, RUNTIME = (Path(str(package.__file__)).parent for package in (mcpagg, mcpagg_runtime))
COMPILER_MODULES = sorted(path.stem for path in COMPILER.glob("*.py"))
MODULES = {
    f"{path.parent.name}.{path.stem}": path
    for path in sorted(RUNTIME.glob("*/*.py"))
    if path.stem != "__init__"
}
"""The modules of the runtime, each with its folder in front."""

WITH_IO = {
    "start.main",
    "start.embedded",
    "start.waiting",
    "launch.approval",
    "launch.launch",
    "launch.needs",
    "launch.platforms",
    "launch.windows_programs",
    *(
        name
        for name in MODULES
        if name.startswith(("frozen.", "http.", "processes.", "remote.", "stdio.", "tool."))
    ),
}
"""Modules that do I/O. All others are the core: they read no clock and start nothing."""

DOORS = {
    "_thread",
    "asyncio",
    "os",
    "select",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
}
"""What brings I/O, time or threads into a module."""

OPTIONAL = {"http.serving": "uvicorn", "stdio.call_log": "opentelemetry"}
"""What is somebody else's, and imported within functions alone, where it is there and asked for."""

OTHER_VERSIONS = {"_sha2", "_sha256"}
"""Modules of the standard library that this version of Python may not have."""

SLOW = {"argparse", "asyncio", "dataclasses", "enum", "json", "os", "re", "subprocess", "threading"}
"""Standard modules that take longer to import than all else that a start does."""

LARGE = {"argparse", "asyncio", "hashlib", "http", "shutil", "ssl", "tempfile", "urllib"}
"""Standard modules that take more memory than the proxy of local servers has to spare."""


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@cache
def imports(path: Path, *, top: bool = False) -> list[tuple[int, str]]:
    """Return the line and the module of each import that is run; with `top`, at import time."""
    return list(_imports(_parsed(path).body, top))


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _imports(nodes: list[ast.AST] | list[ast.stmt], top: bool) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        elif isinstance(node, ast.Try) and top:
            # The handlers are for interpreters without the fast module.
            yield from _imports(list(node.body), top)
        elif not (top and isinstance(node, _FUNCTIONS)):
            yield from _imports(list(ast.iter_child_nodes(node)), top)


def own(module: str) -> str:
    """Return the name of a module of the runtime as MODULES has it, "" for any other."""
    package, _, name = module.partition(".")
    return name if package == "mcpagg_runtime" else ""


OF_A_START = [name for name in MODULES if name.startswith(f"{START}.")]
"""The modules that are code of the emitted file itself, some only when they are asked for."""


def test_every_module_is_in_a_folder() -> None:
    assert sorted(path.name for path in RUNTIME.glob("*.py")) == ["__init__.py"]


@pytest.mark.parametrize("name", MODULES)
def test_the_runtime_imports_nothing_of_the_compiler(name: str) -> None:
    assert [found for found in imports(MODULES[name]) if "mcpagg." in found[1] + "."] == []


@pytest.mark.parametrize("name", MODULES)
def test_the_runtime_imports_only_the_standard_library(name: str) -> None:
    allowed = {"mcpagg_runtime", OPTIONAL.get(name), *sys.stdlib_module_names, *OTHER_VERSIONS}
    foreign = [
        (line, module)
        for line, module in imports(MODULES[name])
        if module.split(".")[0] not in allowed
    ]
    assert foreign == []


def reached(*, top: bool, first: str = "start.main") -> set[str]:
    """Return what the first module brings along, with `top` before anything is asked of it."""
    found, todo = {first}, [first]
    while todo:
        for _, module in imports(MODULES[todo.pop()], top=top):
            name = own(module)
            if name and name not in found:
                found.add(name)
                todo.append(name)
    return found


def test_the_emitted_file_holds_no_module_that_nobody_imports() -> None:
    found = reached(top=False) | {"start.embedded", "tool.aggregator"}  # of the template
    for module in EXTENDED.values():  # in the place of others
        found |= reached(top=False, first=module)
    assert found == set(MODULES)


def test_a_start_compiles_only_what_its_first_answer_needs() -> None:
    needed = {f"start.{name}" for name in ("main", "greeting", "handover", "values")}
    assert reached(top=True) == needed < set(OF_A_START)


def test_a_list_needs_no_server_however_its_entries_are_rewritten() -> None:
    for module in ("lists.entries", "plan.addresses"):
        needed = {own(found[1]) for found in imports(MODULES[module], top=True)}
        assert {name.partition(".")[0] for name in needed if name} <= {"start", "messages", "plan"}


@pytest.mark.parametrize("name", sorted(set(MODULES) - WITH_IO))
def test_a_module_of_the_core_does_no_io(name: str) -> None:
    for line, module in imports(MODULES[name]):
        assert module.split(".")[0] not in DOORS, f"{name}:{line} imports {module}"
        assert own(module) not in WITH_IO, f"{name}:{line} imports {module}"


@pytest.mark.parametrize("name", sorted(reached(top=True, first="stdio.engine")))
def test_a_module_that_serves_local_servers_imports_nothing_large(name: str) -> None:
    found = {module.split(".")[0] for _, module in imports(MODULES[name], top=True)}
    assert not found & LARGE


@pytest.mark.parametrize("name", OF_A_START)
def test_a_module_that_a_start_needs_imports_nothing_slow(name: str) -> None:
    slow = [found for found in imports(MODULES[name], top=True) if found[1] in SLOW]
    assert slow == []


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Have no module of the project imported, so that no cycle hides behind what was."""

    def forget() -> dict[str, ModuleType]:
        roots = {mcpagg.__name__, mcpagg_runtime.__name__}
        return {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name.partition(".")[0] in roots
        }

    before = forget()
    yield
    forget()
    sys.modules.update(before)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    "module",
    [
        *(f"mcpagg.{name}" for name in COMPILER_MODULES if name != "__main__"),
        *(f"mcpagg_runtime.{name}" for name in MODULES),
    ],
)
def test_a_module_imports_alone(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(module.removesuffix(".__init__"))
    assert capsys.readouterr() == ("", "")
