"""What is installed: two import packages, their types and templates, and one command."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from mcpagg.command.arguments import argument_parser

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "-q",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    (file,) = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def test_the_wheel_holds_the_two_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"mcpagg", "mcpagg_runtime"}
    compiler = _files(ROOT / "compiler/mcpagg")
    source = {p.relative_to(ROOT / "compiler").as_posix() for p in compiler}
    runtime = _files(ROOT / "templates/mcpagg_runtime")
    source |= {p.relative_to(ROOT / "templates").as_posix() for p in runtime}
    assert {name for name in names if ".dist-info" not in name} == source


def test_types_and_templates_are_installed_too(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"mcpagg/py.typed", "mcpagg_runtime/py.typed", "mcpagg_runtime/server.py.j2"} <= names


def test_the_command_runs_from_the_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mcpagg.command.cli as c; "
    code += "from mcpagg.passes.emission.bundle import bundle as b; "
    code += "print(c.__file__); print(len(b().code))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith(str(tmp_path))


def test_the_hook_of_pre_commit_has_options_that_there_are() -> None:
    hooks: list[Any] = YAML(typ="safe", pure=True).load(ROOT / ".pre-commit-hooks.yaml")
    [hook] = hooks
    words: list[str] = hook["entry"].split() + hook["args"]
    given = argument_parser().given(words[1:])
    assert words[0] == "mcpagg-compile"
    assert given == {"check": True, "offline": True, "quiet": True, "output": "server.py"}


def test_generated_files_are_not_hidden_from_reviews() -> None:
    command = ["git", "check-attr", "linguist-generated", "generated/demo/server.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip().endswith("unspecified")


def _files(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
