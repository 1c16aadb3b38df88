"""Entries that start FILE, or another file that the compiler wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compilations import compilation, tool
from configs import entry_refusal, read

from mcpagg.compiling import dry_run
from mcpagg.options import Options, Source
from mcpagg.passes.environment.nesting import check_nesting
from mcpagg.problems import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two emitted files, `other.py` and `server.py`, and a link to each."""
    for name in ("server", "other"):
        text = compilation({"db": {}}, tool()).text.replace("mcp.json", f"{name}.json", 1)
        (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / f"{name}-link").symlink_to(tmp_path / f"{name}.py")
    (tmp_path / "sub").mkdir()
    return tmp_path


def refusal(folder: Path, file: Path | None = None, **entry: Any) -> str:
    """Return why an entry is refused, "" if it is not."""
    spec, _ = read({"mcpServers": {"a": {"command": "python3", **entry}}}, folder=folder)
    try:
        check_nesting(spec, file, {"HERE": str(folder), "PATH": str(folder)})
    except ConfigError as problem:
        return str(problem)
    return ""


WAYS: list[dict[str, Any]] = [
    {"args": ["NAME.py"]},
    {"args": ["-I", "./sub/../NAME.py"]},
    {"args": ["NAME-link"]},
    {"args": ["${HERE}/NAME.py"]},
    {"args": ["-m", "NAME"]},
    {"command": "./NAME.py"},
    {"command": "uv", "args": ["run", "--script", "NAME.py"]},
    {"command": "uv", "args": ["--directory=.", "run", "NAME.py"], "cwd": "sub/.."},
    {"command": "uv", "args": ["run", "--directory", "..", "NAME.py"], "cwd": "sub"},
    {"command": "sh", "args": ["-c", "cd sub && exec python3 '../NAME.py';"]},
    {"command": "env", "args": ["A=1", "bash", "-lc", "cd ..;exec python3 NAME.py"], "cwd": "sub"},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(map(str, way.values())))
def test_an_entry_that_starts_the_file_is_refused(folder: Path, way: dict[str, Any]) -> None:
    named = json.loads(json.dumps(way).replace("NAME", "server"))
    file = folder / "server.py"
    expected = "starts server.py, which is compiled from this config, and so would start itself"
    assert expected in refusal(folder, file, **named)
    assert expected in refusal(folder, file, **named, mcpagg={"nested": True})
    file.unlink()  # it need not be there yet
    if named["args" if "args" in named else "command"] != "./server.py":
        assert expected in refusal(folder, file, **named)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(map(str, way.values())))
def test_another_proxy_is_refused_unless_the_entry_says_that_it_is_meant(
    folder: Path, way: dict[str, Any]
) -> None:
    named = json.loads(json.dumps(way).replace("NAME", "other"))
    assert (
        "starts a proxy that mcpagg-compile wrote from other.json; take over the entries of"
        ' other.json, or write "mcpagg": {"nested": true} into this one, or pass --skip a'
    ) in refusal(folder, folder / "server.py", **named)
    assert refusal(folder, folder / "server.py", **named, mcpagg={"nested": True}) == ""
    assert refusal(folder, None, **named) != ""


def test_a_proxy_that_starts_the_file_is_refused_however_far_away(folder: Path) -> None:
    for name, next_ in (("other.py", "third.py"), ("third.py", "sub/../server.py")):
        made = compilation({"db": {"args": [next_]}, "self": {"args": [name]}}, tool())
        (folder / name).write_text(made.text)
    found = refusal(folder, folder / "server.py", args=["./other.py"], mcpagg={"nested": True})
    assert "which starts server.py, and so itself without end" in found
    assert refusal(folder, folder / "new.py", args=["other.py"], mcpagg={"nested": True}) == ""


@pytest.mark.parametrize(
    "entry",
    [
        {"args": ["elsewhere/server.py"]},
        {"command": "docker", "args": ["run", "-i", "image", "python", "server.py"]},
        {"command": "/usr/bin/ssh", "args": ["host", "python3 server.py"]},
        {"args": ["${NOT_SET}/server.py"]},
        {"args": ["server.py " + "x" * 10_000]},
        {"args": ["~", "my-server.py", "text"]},
        {"url": "https://example.com/server.py", "command": None},
    ],
)
def test_other_entries_are_none_of_it(folder: Path, entry: dict[str, Any]) -> None:
    (folder / "text").write_text("from mcp.json. DO NOT EDIT.")
    assert refusal(folder, folder / "server.py", **entry) == ""


def test_a_dry_run_refuses_it_as_well(folder: Path) -> None:
    config = json.dumps({"mcpServers": {"a": {"command": "python3", "args": ["server.py"]}}})
    source = Source(config.encode(), "mcp.json", folder, Options())
    with pytest.raises(ConfigError, match=r"mcpServers\.a\.args\[0\]: starts server\.py"):
        dry_run(source, {}, folder / "server.py")


@pytest.mark.parametrize("value", [True, {"nest": True}, {"nested": 1}])
def test_the_key_of_our_own_is_read_strictly(value: object) -> None:
    assert "mcpServers.a.mcpagg" in entry_refusal(command="x", mcpagg=value)
