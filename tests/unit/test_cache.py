"""What servers said in a run that failed, and who may have it in the next one."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from mcpagg.jsontext import loads
from mcpagg.passes.discovery import cache
from mcpagg.passes.discovery.cache import Cache, cache_folder
from mcpagg.snapshot import ChildSnapshot, Refused
from mcpagg.spec import ProxySpec, ServerSpec

SAID = ChildSnapshot(
    "a",
    "2026-07-28",
    {"name": "A", "version": "1"},
    {"tools": {}},
    "Read me.",
    tools=({"name": "t", "inputSchema": loads('{"type": "object", "minimum": 1E5, "x": -0}')},),
    prompts=({"name": "p"},),
    conditional=frozenset({"t"}),
    hints={"ttlMs": 5},
    handshake={"protocolVersion": "2025-11-25", "capabilities": {}},
    seconds=1.5,
    ran="1.2.3",
    refused=(Refused("tool", "t", "/title", "null", "that is left out"),),
)


def of(folder: Path, *, config: str = "mcp.json", path: str = "/bin", **env: str) -> Cache:
    """Return what is kept of a config with a package `a` and a script `own`."""
    servers = (
        ServerSpec(name="a", path="", command="npx", args=("x",), env={"K": "${WORD}"}),
        ServerSpec(name="own", path="", command="python3", args=("own.py",)),
    )
    spec = ProxySpec(source=config, folder=folder, servers=servers)
    environ = {"XDG_CACHE_HOME": str(folder), "HOME": str(folder), "PATH": path, "WORD": "one"}
    return Cache(spec, environ | {"LOCALAPPDATA": str(folder)} | env, minimal=False)


@pytest.fixture(autouse=True)
def _linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")


def test_what_a_server_said_comes_back_as_it_was(tmp_path: Path) -> None:
    own = ChildSnapshot("own", "2025-11-25")
    assert of(tmp_path).store([SAID, own], {}) == 1
    [(name, known)] = of(tmp_path).load(["a", "own"]).items()
    assert name == "a"
    for field in fields(ChildSnapshot):
        assert repr(getattr(known.child, field.name)) == repr(getattr(SAID, field.name))
    of(tmp_path).clear()
    assert of(tmp_path).load(["a"]) == {}
    of(tmp_path).clear()


def test_what_is_started_in_another_way_is_another_server(tmp_path: Path) -> None:
    of(tmp_path).store([SAID], {})
    assert of(tmp_path).load(["a"])
    assert of(tmp_path, SHLVL="3").load(["a"])
    assert not of(tmp_path, OTHER="x").load(["a"])
    assert not of(tmp_path, WORD="two").load(["a"])
    assert not of(tmp_path, path="/usr/bin").load(["a"])
    assert not of(tmp_path, config="other.json").load(["a"])
    assert not of(tmp_path).load(["own"])


def test_it_holds_for_minutes_from_when_it_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    of(tmp_path).store([SAID], {})
    now[0] += cache.CACHE_SECONDS
    known = of(tmp_path).load(["a"])
    assert known["a"].seconds == cache.CACHE_SECONDS
    of(tmp_path).store([SAID], known)  # that is no fresher
    now[0] += 1
    assert of(tmp_path).load(["a"]) == {}
    now[0] = 0  # a clock that was put back
    assert of(tmp_path).load(["a"]) == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": 5, "servers": 7}', "\0"])
def test_what_is_no_record_is_nothing(tmp_path: Path, text: str) -> None:
    record = of(tmp_path)
    record.store([SAID], {})
    record.file.write_text(text)
    assert record.load(["a"]) == {}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows knows no such users")
def test_what_another_user_wrote_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of(tmp_path).store([SAID], {})
    monkeypatch.setattr("os.geteuid", lambda: -2)
    assert of(tmp_path).load(["a"]) == {}


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mcpagg").touch()
    assert of(tmp_path).store([SAID], {}) == 0
    assert of(tmp_path).load(["a"]) == {}
    of(tmp_path).clear()


@pytest.mark.parametrize(
    ("platform", "folder"),
    [
        ("linux", "/x/mcpagg"),
        ("darwin", "~/Library/Caches/mcpagg"),
        ("win32", "/local/mcpagg/cache"),
    ],
)
def test_it_lies_where_a_system_has_such_things(platform: str, folder: str) -> None:
    environ = {"XDG_CACHE_HOME": "/x", "LOCALAPPDATA": "/local"}
    assert cache_folder(environ, platform) == Path(folder).expanduser()
    if platform == "linux":
        assert (
            cache_folder({"XDG_CACHE_HOME": "x"}, platform) == Path("~/.cache/mcpagg").expanduser()
        )
