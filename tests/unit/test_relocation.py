"""A config and its proxy may lie in different folders."""

from __future__ import annotations

import ntpath
import os
from pathlib import Path

import pytest

from mcpagg.options import Source, commands
from mcpagg.passes.environment.relocation import relative_path, relocated
from mcpagg.problems import ConfigError


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("${workspaceFolder}/a", "${workspaceFolder}/../a"),
        ("$${workspaceFolder}/a", "$${workspaceFolder}/a"),
        ("$$$workspaceFolder $A $", "$$$workspaceFolder/.. $A $"),
    ],
)
def test_only_references_to_the_folder_are_rebased(text: str, moved: str) -> None:
    row = {"args": [text], "env": {"K": text}}
    rebased = {"args": [moved], "env": {"K": moved}}
    assert relocated(row, Path("/a"), Path("/a/b")) == rebased
    assert relocated(row, Path("/a"), Path("/a")) == row


@pytest.mark.parametrize(
    ("cwd", "moved"),
    [("tools", "../tools"), (".", ".."), ("../x", "../../x"), ("/abs", "/abs"), ("~/x", "~/x")],
)
def test_a_relative_folder_is_meant_from_where_the_proxy_lies(cwd: str, moved: str) -> None:
    row = {"command": "c", "cwd": cwd}
    assert relocated(row, Path("/a"), Path("/a/b")) == {"command": "c", "cwd": moved}
    assert row["cwd"] == cwd


def test_a_row_that_needs_nothing_beside_the_config_needs_no_way_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def another_drive(*_: object) -> str:
        raise ValueError

    monkeypatch.setattr(os.path, "relpath", another_drive)
    row = {"command": "npx", "args": ["-y", "x"], "cwd": "/abs", "env": {"A": "$$workspaceFolder"}}
    assert relocated(row, Path("/a"), Path("/b")) == row
    with pytest.raises(ConfigError, match="another drive"):
        relocated({**row, "cwd": "tools"}, Path("/a"), Path("/b"))


@pytest.mark.parametrize("client", ["", "claude-desktop"])
def test_a_clients_config_on_another_drive_is_recorded_by_its_name(
    monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    def another_drive(*_: object) -> str:
        raise ValueError

    monkeypatch.setattr(os.path, "relpath", another_drive)
    source = Source(b"", "C:/x/config.json", Path("C:/x"), client=client)
    if not client:
        with pytest.raises(ConfigError, match="another drive"):
            commands(source, "Z:/out.py")
        return
    found = commands(source, "Z:/out.py")
    assert found.rebuild == "mcpagg-compile --from claude-desktop -o out.py"
    assert found.check == "mcpagg-compile --from claude-desktop --check -o out.py"
    assert found.config == ""


def test_a_path_that_may_be_long_is_on_the_drive_that_it_names() -> None:
    assert relative_path(r"\\?\C:\cc", r"C:\cc\cfg.json", ntpath) == "cfg.json"
    assert relative_path(r"\\?\UNC\host\share", r"\\host\share\x\cfg.json", ntpath) == "x/cfg.json"


def test_a_way_is_written_with_slashes_and_there_is_none_between_drives() -> None:
    assert relative_path(r"C:\proj\out", r"C:\proj\cfg.json", ntpath) == "../cfg.json"
    for path in (r"Z:\cfg.json", r"\\host\share\cfg.json"):
        with pytest.raises(ConfigError, match="another drive"):
            relative_path(r"C:\proj", path, ntpath)
