"""Entries that start one server of an emitted file, and the server that each stands for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mcpagg.passes.config import read_config
from mcpagg.passes.environment.faces import Face, face_of, original, source_of
from mcpagg.problems import ConfigError
from mcpagg.spec import ServerSpec

DEMO = Path(__file__).resolve().parents[2] / "generated" / "demo"
FILE = DEMO / "server.py"


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["-I", str(FILE), "--as", "notes", "sha256:00ff"], ("notes", "sha256:00ff")),
        ([str(FILE), "--as", "notes"], ("notes", "")),
        (["-I", "${workspaceFolder}/server.py", "--as", "notes"], ("notes", "")),
        (["-I", "server.py", "--as", "notes"], ("notes", "")),
        (["-I", str(FILE)], None),
        (["-I", str(FILE), "--as", "notes", "--as", "units"], None),
        (["-I", str(FILE), "--as"], None),
        (["--as", "notes"], None),
        (["-I", "${OTHER}/server.py", "--as", "notes"], None),
        ([str(DEMO / "mcp.json"), "--as", "notes"], None),
    ],
)
def test_a_face_is_known_by_its_command_line(
    args: list[str], found: tuple[str, str] | None
) -> None:
    assert face_of(args, DEMO) == (Face(FILE, *found) if found else None)


def face(name: str, file: Path = FILE) -> ServerSpec:
    args = ("-I", str(file), "--as", name, "sha256:00")
    return ServerSpec(name="mine", path="mcpServers.mine", command="x", args=args, hide=("t",))


def test_a_face_stands_for_the_server_of_its_source(tmp_path: Path) -> None:
    found = original(face("notes"), tmp_path)
    assert (found.name, found.path, found.hide) == ("mine", "mcpServers.mine", ("t",))
    assert (found.command, found.args) == ("python3", ("servers/notes.py",))
    assert found.cwd is not None
    assert os.path.normpath(tmp_path / found.cwd) == str(DEMO)
    other = ServerSpec(name="a", path="a", command="npx", args=("x",))
    assert original(other, tmp_path) is other


def test_a_face_whose_source_does_not_have_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="whose source has no such server"):
        original(face("gone"), tmp_path)
    alone = tmp_path / "alone.py"
    shutil.copy(FILE, alone)
    assert source_of(alone) == tmp_path / "mcp.json"
    with pytest.raises(ConfigError, match="was compiled from it, which entries start"):
        original(face("notes", alone), tmp_path)


def test_what_is_read_in_the_place_of_a_face_is_judged_instead_of_it(tmp_path: Path) -> None:
    text = (
        b'{"mcpServers": {"a": {"command": "x", "env": {"API_TOKEN": "q8Zr7Kx2mN5vB1cD4fG6hJ9k"}}}}'
    )
    with pytest.raises(ConfigError, match="API_TOKEN"):
        read_config(text, source="m.json", folder=tmp_path)
    spec, _ = read_config(
        text,
        source="m.json",
        folder=tmp_path,
        original=lambda server: ServerSpec(name="a", path=server.path, command="y"),
    )
    assert spec.servers[0].command == "y"
