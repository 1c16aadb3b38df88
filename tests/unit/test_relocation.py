"""A config and its proxy may lie in different folders."""

from __future__ import annotations

import ntpath
from pathlib import Path

import pytest

from mcpagg.problems import ConfigError
from mcpagg.relocation import relocated, way


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


def test_a_way_is_written_with_slashes_and_there_is_none_between_drives() -> None:
    assert way(r"C:\proj\out", r"C:\proj\cfg.json", ntpath) == "../cfg.json"
    for path in (r"Z:\cfg.json", r"\\host\share\cfg.json"):
        with pytest.raises(ConfigError, match="another drive"):
            way(r"C:\proj", path, ntpath)
