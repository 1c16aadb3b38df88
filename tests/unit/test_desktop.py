"""What a start from a desktop lacks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagg_runtime.launch.launch import Launches
from mcpagg_runtime.tool.desktop import (
    POSIX_FOLDERS,
    entry_path,
    folders_of,
    lookups,
    shim_lines,
    shim_manager,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes programs of POSIX")


def program(path: Path, line: str = "#!/bin/sh") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n")
    path.chmod(0o755)
    return path


def shell(tmp_path: Path, *folders: str, **more: str) -> dict[str, str]:
    """Return the environment of a shell that adds these folders to the PATH."""
    added = [str(tmp_path / folder) for folder in folders]
    return {"PATH": os.pathsep.join([*added, "/usr/bin", "/bin"]), "HOME": "/home/u", **more}


def needed(tmp_path: Path, environ: dict[str, str], **row: Any) -> list[str]:
    found = lookups({"a": row}, environ, str(tmp_path))
    return [str(Path(one).relative_to(tmp_path)) for one in folders_of(found, environ)]


def test_a_program_that_only_a_shell_finds_is_added_to_the_path(tmp_path: Path) -> None:
    program(tmp_path / "brew/some-tool")
    environ = shell(tmp_path, "brew")
    found = lookups({"a": {"command": "some-tool"}}, environ, "/")
    assert entry_path(found, environ) == f"{tmp_path}/brew:{POSIX_FOLDERS}"


@pytest.mark.parametrize(
    "row",
    [{"command": "sh"}, {"command": "no-such-tool"}, {"command": "env", "args": ["sh"]}, {}],
)
def test_what_a_desktop_finds_needs_nothing(tmp_path: Path, row: dict[str, Any]) -> None:
    program(tmp_path / "brew/other")
    assert entry_path(lookups({"a": row}, shell(tmp_path, "brew"), "/"), {}) == ""


@pytest.mark.parametrize(
    ("command", "folders"), [("tool", ["node", "brew"]), ("{}/brew/tool", ["node"])]
)
def test_the_interpreter_in_the_first_line_is_needed_too(
    tmp_path: Path, command: str, folders: list[str]
) -> None:
    """The order is that of the shell, in which a name may mean two programs."""
    program(tmp_path / "brew/tool", "#!/usr/bin/env -S my-node --quiet")
    program(tmp_path / "node/my-node")
    environ = shell(tmp_path, "node", "brew")
    assert needed(tmp_path, environ, command=command.format(tmp_path)) == folders


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("sh", ["-c", "cd /x; exec some-tool --stdio"]),
        ("env", ["A=1", "some-tool"]),
        ("bash", ["-lc", "'some-tool'"]),
    ],
)
def test_what_a_shell_starts_by_name_is_needed(
    tmp_path: Path, command: str, args: list[str]
) -> None:
    program(tmp_path / "brew/some-tool")
    assert needed(tmp_path, shell(tmp_path, "brew"), command=command, args=args) == ["brew"]


@pytest.mark.parametrize(("own", "folders"), [("{}/brew:/bin", []), ("/x:${{PATH}}", ["brew"])])
def test_a_path_that_the_config_sets_counts(tmp_path: Path, own: str, folders: list[str]) -> None:
    program(tmp_path / "brew/some-tool")
    env = {"PATH": own.format(tmp_path), "KEY": "${NOT_SET}"}
    assert needed(tmp_path, shell(tmp_path, "brew"), command="some-tool", env=env) == folders


def test_a_program_that_a_desktop_finds_elsewhere_is_another_one(tmp_path: Path) -> None:
    program(tmp_path / "brew/sh")
    assert needed(tmp_path, shell(tmp_path, "brew"), command="sh") == ["brew"]


def test_the_folder_that_fnm_makes_for_one_shell_is_not_relied_on(tmp_path: Path) -> None:
    program(tmp_path / "node-versions/v22/bin/some-tool")
    (tmp_path / "fnm_multishells").mkdir()
    (tmp_path / "fnm_multishells/7_1").symlink_to(tmp_path / "node-versions/v22")
    environ = shell(tmp_path, "fnm_multishells/7_1/bin")
    assert needed(tmp_path, environ, command="some-tool") == ["node-versions/v22/bin"]


def test_folders_that_a_form_was_given_come_first(tmp_path: Path) -> None:
    tool = program(tmp_path / "brew/some-tool")
    environ = {"PATH": "/usr/bin:/bin", "MCPAGG_PATH": str(tmp_path / "brew")}
    launch = Launches({"a": {"command": "some-tool"}}, environ, "/").prepare("a")
    assert launch.argv == [str(tool)]
    assert launch.env == {"PATH": f"{tmp_path}/brew:/usr/bin:/bin"}
    launch = Launches({"a": {"command": "sh"}}, {"PATH": "/bin", "MCPAGG_PATH": ""}, "/").prepare(
        "a"
    )
    assert launch.env == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("place", "manager"),
    [
        (".asdf/shims/npx", "asdf"),
        (".local/share/mise/shims/node", "mise"),
        (".pyenv/shims/python3", "pyenv"),
        (".rbenv/shims/ruby", "rbenv"),
        (".volta/bin/npx", "volta"),
        ("scoop/shims/npx", ""),
        (".nvm/versions/node/v22.1.0/bin/npx", ""),
        (".local/bin/uvx", ""),
    ],
)
def test_a_shim_is_known_by_its_folder(tmp_path: Path, place: str, manager: str) -> None:
    assert shim_manager(str(program(tmp_path / place))) == manager


def test_a_shim_is_known_by_what_it_links_to(tmp_path: Path) -> None:
    mise = program(tmp_path / "bin/mise")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/npx").symlink_to(mise)
    assert shim_manager(str(tmp_path / "tools/npx")) == "mise"
    assert shim_manager(str(mise)) == ""


def test_a_shim_is_told_with_what_it_goes_by_and_its_manager_is_found(tmp_path: Path) -> None:
    program(tmp_path / ".asdf/shims/some-npx")
    program(tmp_path / "brew/asdf")
    environ = shell(tmp_path, ".asdf/shims", "brew", ASDF_NODEJS_VERSION="22.1.0")
    assert needed(tmp_path, environ, command="some-npx") == [".asdf/shims", "brew"]
    found = lookups({"gh": {"command": "some-npx"}}, environ, "/")
    [line] = shim_lines(found, environ)
    assert line.startswith(
        "some-npx (of gh) is a shim of asdf, which goes by the current folder and"
    )
    assert "ASDF_NODEJS_VERSION" in line
    assert "`asdf which some-npx`" in line
