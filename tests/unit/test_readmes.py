"""What the READMEs of the folders name is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "templates" / "mcpagg_runtime"
READMES = ["compiler/README.md", "templates/README.md", "tests/README.md"]

TEST = re.compile(
    r"`(?:tests/[a-z0-9]+/)?(?:test_)?([a-z0-9_]+?)(?:\.py)?::(?:test_)?([a-z0-9_]+)`"
)
"""A test, as pytest has it or in short: `tests/unit/test_a.py::test_b` or `a::b`."""

MEMBER = re.compile(r"`(\w+)\.(\w+)(?:\([^`]*\))?`")
"""What a module or a class defines: `a.b`, `A.b` or `A.b(…)`."""

PART = re.compile(r"^\*\*(\w+)/\*\*(.*?)(?=^\*\*\w+/\*\*|\Z)", re.MULTILINE | re.DOTALL)
"""What the map says of a part."""

FILES = ("md", "py")


@cache
def known_tests() -> set[tuple[str, str]]:
    found = set()
    for path in ROOT.glob("tests/*/test_*.py"):
        name = path.stem.removeprefix("test_")
        found |= {(name, test) for test in re.findall(r"def test_(\w+)", path.read_text("utf-8"))}
    return found


def definitions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (module or class, name) for all that a module and its classes name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef):
            owner = node.name if isinstance(node, ast.ClassDef) else path.stem
            for inner in ast.walk(node):
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    yield owner, inner.name
                elif isinstance(getattr(inner, "ctx", None), ast.Store):
                    yield owner, getattr(inner, "id", "") or getattr(inner, "attr", "")


@cache
def members() -> set[tuple[str, str]]:
    paths = [*RUNTIME.rglob("*.py"), *ROOT.glob("compiler/**/*.py")]
    return {pair for path in paths for pair in definitions(path)}


@pytest.mark.parametrize("readme", READMES)
def test_every_test_that_is_named_is_there(readme: str) -> None:
    named = set(TEST.findall((ROOT / readme).read_text("utf-8")))
    assert named - known_tests() == set()


def test_every_function_that_the_walks_name_is_there() -> None:
    named = set(MEMBER.findall((ROOT / "templates/README.md").read_text("utf-8")))
    assert {pair for pair in named if pair[1] not in FILES} - members() == set()


def test_the_map_of_the_runtime_has_every_module_in_its_part() -> None:
    text = (ROOT / "templates/README.md").read_text("utf-8")
    _, _, rest = text.partition("\n## The map\n")
    shown = {
        part: set(re.findall(r"`(\w+)`", about))
        for part, about in PART.findall(rest.partition("\n## ")[0])
    }
    there = {
        folder.name: {path.stem for path in folder.glob("*.py")} - {"__init__"}
        for folder in RUNTIME.iterdir()
        if folder.is_dir() and not folder.name.startswith("_")
    }
    assert shown == there
