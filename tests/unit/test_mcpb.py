"""An emitted file as an extension of Claude Desktop."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from compilations import compilation, tool

from mcpagg.command.cli import main
from mcpagg.command.mcpb import MANIFEST, pack
from mcpagg.passes.emission.output import SERVER

ENV = {"TOKEN": "${GITHUB_TOKEN}", "REGION": "${AREA:-eu}"}


def manifest(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        read: dict[str, Any] = json.loads(archive.read(MANIFEST))
    return read


def test_each_variable_is_a_field_and_secrets_are_marked() -> None:
    entry = {"env": ENV, "args": ["--place=${AREA:-eu}"]}
    said = manifest(pack(compilation({"gh": entry}, tool())))
    assert said["user_config"].pop("PATH")
    assert said["user_config"] == {
        "GITHUB_TOKEN": {
            "type": "string",
            "title": "GITHUB_TOKEN",
            "description": "For gh (env.TOKEN)",
            "sensitive": True,
            "required": True,
        },
        "AREA": {
            "type": "string",
            "title": "AREA",
            "description": "For gh (args[0]), gh (env.REGION)",
            "sensitive": False,
            "required": False,
            "default": "eu",
        },
    }
    assert said["server"]["mcp_config"]["env"] == {
        "GITHUB_TOKEN": "${user_config.GITHUB_TOKEN}",
        "AREA": "${user_config.AREA}",
        "MCPAGG_PATH": "${user_config.PATH}",
    }


def test_folders_of_programs_are_asked_for_and_may_be_left_out() -> None:
    entry = {"env": {"PATH": "/own:${PATH}"}}
    said = manifest(pack(compilation({"a": entry}, tool())))
    [(name, field)] = said["user_config"].items()
    assert (name, field["required"], field["default"]) == ("PATH", False, "")
    assert said["server"]["mcp_config"]["env"] == {"MCPAGG_PATH": "${user_config.PATH}"}


def test_what_is_optional_always_has_a_value() -> None:
    env = {"A": "${X:-one}", "B": "${X:-two}"}
    field = manifest(pack(compilation({"a": {"env": env}}, tool())))["user_config"]["X"]
    assert (field["required"], field["default"]) == (False, "")


def test_a_value_under_the_name_of_a_secret_is_one_whatever_the_variable_is_called() -> None:
    said = manifest(pack(compilation({"a": {"env": {"API_KEY": "${MINE}"}}}, tool())))
    assert said["user_config"]["MINE"]["sensitive"]


@pytest.mark.parametrize(
    ("names", "listed"), [("auto", "gh_query"), ("portable", "gh_query"), ("spec", "gh:query")]
)
def test_tools_have_the_names_that_claude_desktop_is_given(names: str, listed: str) -> None:
    said = manifest(pack(compilation({"gh": {}}, tool(description="Asks."), names=names)))
    assert said["tools"] == [{"name": listed, "description": "Asks."}]


def test_a_proxy_that_needs_nothing_asks_for_nothing() -> None:
    remote = {"url": "https://example.com/mcp", "command": None}
    said = manifest(pack(compilation({"a": remote}, tool(), on_drift="refuse")))
    assert "user_config" not in said
    assert "env" not in said["server"]["mcp_config"]
    assert not said["tools_generated"]


def test_an_extension_is_the_same_bytes_each_time_and_holds_the_file() -> None:
    result = compilation({"a": {}}, tool())
    assert pack(result) == pack(result)
    with zipfile.ZipFile(io.BytesIO(pack(result))) as archive:
        assert archive.namelist() == [MANIFEST, SERVER]
        assert archive.read(SERVER).decode() == result.text
        assert {one.date_time[0] for one in archive.infolist()} == {1980}
        assert {one.compress_type for one in archive.infolist()} == {zipfile.ZIP_DEFLATED}
        assert len(pack(result)) < len(result.text) / 3


def test_another_file_is_another_version() -> None:
    versions = {manifest(pack(compilation({"a": {}}, tool(name))))["version"] for name in "xyx"}
    assert len(versions) == 2


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """Return an extension whose config lies beside it."""
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "python3"}}}')
    file = tmp_path / "proxy.mcpb"
    file.write_bytes(pack(compilation({"a": {}}, tool())))
    return file


def test_an_extension_is_rebuilt_and_checked_from_what_is_in_it(extension: Path) -> None:
    words = ["--offline", "-o", str(extension), "-q"]
    assert main(words) == 0
    first = extension.read_bytes()
    assert main([*words, "--check"]) == 0
    with zipfile.ZipFile(extension) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(extension, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert main([*words, "--check"]) == 0  # however it was compressed
    with zipfile.ZipFile(extension) as archive:
        assert b"mcpagg-compile mcp.json -o proxy.mcpb" in archive.read(SERVER)
    assert main(words) == 0
    assert extension.read_bytes() == first


def test_a_changed_manifest_is_found(extension: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--offline", "-o", str(extension), "-q"]
    assert main(words) == 0
    with zipfile.ZipFile(extension) as archive:
        said, text = (archive.read(name).decode() for name in (MANIFEST, SERVER))
    with zipfile.ZipFile(extension, "w") as archive:
        archive.writestr(MANIFEST, said.replace('"python3"', '"sh"'))
        archive.writestr(SERVER, text)
    assert main([*words, "--check"]) == 1
    assert "has another manifest" in capsys.readouterr().out


def test_what_is_no_extension_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "python3"}}}')
    other = tmp_path / "other.mcpb"
    other.write_bytes(b"PK")
    assert main([str(tmp_path / "mcp.json"), "-o", str(other)]) == 2
    assert "is no file that mcpagg-compile wrote" in capsys.readouterr().err


def test_what_lies_beside_the_config_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "serve.py").touch()
    entry = {"command": "python3", "args": ["serve.py"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    assert main([str(tmp_path / "mcp.json"), "-o", str(tmp_path / "proxy.mcpb")]) == 2
    assert "mcpServers.a.cwd: needs a folder beside the config" in capsys.readouterr().err
