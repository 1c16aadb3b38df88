"""A config and its proxy may lie in different folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagg.relocation import relocated


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
