"""Two branches that change different servers: Git merges what was compiled for them."""

from __future__ import annotations

import json
import os
import subprocess
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from compilations import of_snapshot
from core import Json, tool

from mcpagg.options import Options
from mcpagg.passes.emission.recorded import read_contents, recorded_command
from mcpagg.problems import ConfigError
from mcpagg.snapshot import ChildSnapshot, Snapshot

CONFIG: dict[str, Json] = {
    name: {"command": "python3", "args": ["-m", name], "env": {"LEVEL": "1"}} for name in "abcd"
}
CHILDREN = {
    name: ChildSnapshot(
        name,
        "2025-11-25",
        info={"name": name, "version": "1"},
        capabilities={"tools": {}, "prompts": {}, "resources": {}},
        instructions=f"How {name} is used.",
        tools=tuple(tool(f"t{n}", description="Does it.") for n in range(3)),
        prompts=({"name": "ask"},),
        resources=({"uri": f"file:///{name}", "name": "r"},),
    )
    for name in CONFIG
}


def emitted(config: dict[str, Json], children: dict[str, ChildSnapshot]) -> str:
    """Return what is compiled for servers."""
    snapshot = Snapshot(tuple(children.values()))
    return of_snapshot(json.dumps({"mcpServers": config}).encode(), snapshot, Options()).text


def updated(name: str) -> tuple[dict[str, Json], dict[str, ChildSnapshot]]:
    """Return one server's entry and answers, nearly all of which have changed."""
    config, child = deepcopy(CONFIG[name]), CHILDREN[name]
    config["args"].append("--new")
    config["env"][f"{name.upper()}_TOKEN"] = f"${{{name.upper()}_TOKEN}}"
    first, *_, last = child.tools
    changed = replace(
        child,
        info={"name": name, "version": "2"},
        tools=(
            {**first, "description": "Does more."},
            last,
            tool("added", description="Is new."),
        ),
        prompts=({"name": "ask", "title": "Ask"}, {"name": "tell"}),
        resources=(*child.resources, {"uri": f"file:///{name}/2", "name": "r"}),
    )
    return {name: config}, {name: changed}


def git(folder: Path, *arguments: str) -> int:
    """Run a Git command that reads no configuration of this machine; return its status."""
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    command = ["git", *who, *arguments]
    environ = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environ, "PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
    )
    return done.returncode


def merged(folder: Path, base: str, ours: str, theirs: str) -> tuple[int, str]:
    """Merge two branches of a file; return Git's status and the text that it leaves."""
    file = folder / "server.py"
    assert git(folder, "init") == 0
    for branch, text in (("main", base), ("theirs", theirs), ("ours", ours)):
        assert (
            git(folder, "checkout", *(["-b", branch] if branch != "main" else ["--orphan", "x"]))
            == 0
        )
        file.write_text(text, encoding="utf-8")
        assert git(folder, "add", ".") == 0
        assert git(folder, "commit", "-m", branch) == 0
        if branch == "theirs":
            assert git(folder, "checkout", "x") == 0
    return git(folder, "merge", "theirs"), file.read_text("utf-8")


@pytest.mark.parametrize(("one", "other"), ["ab", "ba", "cd", "ad"])
def test_changes_of_two_servers_merge_into_what_is_compiled_for_both(
    one: str, other: str, tmp_path: Path
) -> None:
    texts = []
    for names in ("", one, other, one + other):
        config, children = dict(CONFIG), dict(CHILDREN)
        for name in names:
            rows, answers = updated(name)
            config |= rows
            children |= answers
        texts.append(emitted(config, children))
    base, ours, theirs, both = texts
    assert merged(tmp_path, base, ours, theirs) == (0, both)


def test_a_file_that_is_missing_is_to_be_compiled_first(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; compile it first"):
        read_contents(tmp_path / "server.py")


def test_a_conflict_in_the_tables_is_said_to_be_one(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    text = emitted(CONFIG, CHILDREN)
    file.write_text(text.replace("\nSNAPSHOT = {", "\n<<<<<<< ours\nSNAPSHOT = {"))
    with pytest.raises(ConfigError, match="holds a conflict of a merge in its tables"):
        read_contents(file)


def test_of_a_file_in_conflict_the_snapshot_can_be_read_all_the_same(tmp_path: Path) -> None:
    base = emitted(CONFIG, CHILDREN)
    ours, theirs = (base.replace("mcpagg-compile 0", f"mcpagg-compile {n}", 1) for n in (1, 2))
    status, text = merged(tmp_path, base, ours, theirs)
    assert status == 1
    assert "<<<<<<<" in text
    contents = read_contents(tmp_path / "server.py")
    assert {child.name: child for child in contents.snapshot.children} == CHILDREN
    assert recorded_command(tmp_path / "server.py") == ["mcp.json", "-o", "server.py"]
