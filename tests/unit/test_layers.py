"""Who may import whom, and what a start may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcpagg
import mcpagg_runtime

COMPILER, RUNTIME = (Path(str(package.__file__)).parent for package in (mcpagg, mcpagg_runtime))
COMPILER_MODULES = sorted(path.stem for path in COMPILER.glob("*.py"))
MODULES = sorted(path.stem for path in RUNTIME.glob("*.py") if path.stem != "__init__")

CORE = {
    "answers",
    "attribution",
    "call",
    "calls",
    "catalogue",
    "child",
    "client",
    "clients",
    "composite",
    "connection",
    "core",
    "deep",
    "discover",
    "dispatch",
    "effects",
    "extensions",
    "faults",
    "jsontext",
    "lenient",
    "lifecycle",
    "listing",
    "lists",
    "live",
    "masking",
    "message",
    "modern_child",
    "modern_client",
    "names",
    "origins",
    "output_schemas",
    "plan",
    "ports",
    "protocol",
    "resources",
    "results",
    "routed",
    "router",
    "secrecy",
    "server_requests",
    "scanner",
    "skills",
    "streams",
    "subscriptions",
    "templates",
    "terminal",
    "tools",
}
"""Modules that do no I/O, read no clock and start nothing."""

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

SLOW = {"argparse", "asyncio", "dataclasses", "enum", "json", "re", "subprocess", "threading"}
"""Standard modules that take longer to import than all else that a start does."""


def modules_at_start() -> list[str]:
    """Return the modules of the runtime that `main` brings along before anything is asked of it."""
    found, todo = {"main"}, ["main"]
    while todo:
        for _, module in imports(RUNTIME / f"{todo.pop()}.py", top=True):
            package, _, name = module.partition(".")
            if package == "mcpagg_runtime" and name not in found:
                found.add(name)
                todo.append(name)
    return sorted(found)


def imports(path: Path, *, top: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the line and the module of each import that is run; with `top`, at import time only."""
    yield from _imports(ast.parse(path.read_text("utf-8")).body, top)


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
        elif not (top and isinstance(node, ast.FunctionDef | ast.Lambda)):
            yield from _imports(list(ast.iter_child_nodes(node)), top)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_nothing_of_the_compiler(name: str) -> None:
    assert [found for found in imports(RUNTIME / f"{name}.py") if "mcpagg." in found[1] + "."] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_the_standard_library(name: str) -> None:
    allowed = {"mcpagg_runtime", *sys.stdlib_module_names}
    foreign = [
        (line, module)
        for line, module in imports(RUNTIME / f"{name}.py")
        if module.split(".")[0] not in allowed
    ]
    assert foreign == []


@pytest.mark.parametrize("name", sorted(CORE))
def test_a_module_of_the_core_does_no_io(name: str) -> None:
    assert name in MODULES
    for line, module in imports(RUNTIME / f"{name}.py"):
        top, _, rest = module.partition(".")
        assert top not in DOORS, f"{name}.py:{line} imports {module}"
        assert top != "mcpagg_runtime" or rest in CORE, f"{name}.py:{line} imports {module}"


@pytest.mark.parametrize("name", modules_at_start())
def test_a_module_that_a_start_needs_imports_nothing_slow(name: str) -> None:
    slow = [found for found in imports(RUNTIME / f"{name}.py", top=True) if found[1] in SLOW]
    assert slow == []


def test_a_discovery_brings_nothing_that_only_calls_need() -> None:
    needed = {module for _, module in imports(RUNTIME / "discover.py", top=True)}
    names = {module.partition(".")[2] for module in needed if module.startswith("mcpagg_runtime.")}
    assert names <= set(modules_at_start())


def test_a_start_reaches_the_answers_and_nothing_that_needs_a_child() -> None:
    found = modules_at_start()
    assert {"main", "stdio", "answers", "message"} <= set(found)
    assert not {"router", "relay", "process", "launch", "commands", "live"} & set(found)


@pytest.mark.parametrize(
    "module",
    [
        *(f"mcpagg.{name}" for name in COMPILER_MODULES if name != "__main__"),
        *(f"mcpagg_runtime.{name}" for name in MODULES),
    ],
)
def test_a_module_imports_alone(module: str) -> None:
    """In a fresh interpreter, so that no cycle hides behind what was imported before."""
    name = module.removesuffix(".__init__")
    command = [sys.executable, "-W", "error", "-c", f"import {name}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
