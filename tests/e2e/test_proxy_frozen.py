"""Frozen servers: they start what the file lists, byte for byte, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from compilations import of_snapshot, tool
from proxies import posix
from registries import BAD, GOOD, Registries, registries
from wire import TIMEOUT, Wire, alive, call, initialize, start_call, stub_entry, text, wait_until

from mcpagg.options import Options
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.frozen.local import files_digest, program_digest
from mcpagg_runtime.frozen.table import (
    DockerImage,
    LocalFiles,
    NpmTree,
    Program,
    PypiTree,
)

if TYPE_CHECKING:
    from mcpagg_runtime.frozen.table import Frozen

pytestmark = posix("paths and programs of these tests are those of POSIX")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
KINDS = [pytest.param("npm", marks=needs_npm), "pypi"]
ENTRIES: Mapping[str, dict[str, Any]] = {
    "npm": {"command": "npx", "args": ["-y", "toy-server", "own"]},
    "pypi": {"command": "uvx", "args": ["toy-server", "own"]},
}
INFO = {"name": "toy", "version": "1"}


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Registries]:
    with registries(tmp_path / "machines") as both:
        yield both


def emitted(folder: Path, servers: Mapping[str, tuple[dict[str, Any], Frozen]]) -> Path:
    """Write the proxy of servers {name: (entry, what is frozen of it)}, which have the tool `t`."""
    config = {"mcpServers": {name: entry for name, (entry, _) in servers.items()}}
    children = [ChildSnapshot(name, "2025-11-25", INFO, tools=(tool("t"),)) for name in servers]
    frozen = {name: what.rows() for name, (_, what) in servers.items()}
    snapshot = Snapshot(tuple(children))
    made = of_snapshot(json.dumps(config).encode(), snapshot, Options(), frozen=frozen)
    file = folder / "server.py"
    file.write_text(made.text, encoding="utf-8")
    return file


def toy(folder: Path, both: Registries, kind: str) -> Path:
    """Write the proxy of the server of one registry, frozen as it is now."""
    tree = both.npm_tree(1) if kind == "npm" else both.pypi_tree(1)
    return emitted(folder, {"toy": (ENTRIES[kind], tree)})


def started(file: Path, env: Mapping[str, str], *arguments: str, hands: bool = True) -> Wire:
    wire = Wire([sys.executable, "-I", "-S", file, *arguments], env=env)
    if hands:
        initialize(wire)
    return wire


def said(file: Path, env: Mapping[str, str]) -> str:
    """Start a proxy, and return what its server answers, or why it does not."""
    with started(file, env) as wire:
        response = call(wire, "toy:t")
        return response["error"]["message"] if "error" in response else text(response)


def ran(file: Path, env: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Run a command of a proxy; return its exit status and what it prints."""
    with started(file, env, *arguments, hands=False) as wire:
        wire.end_input()
        status = wire.wait()
        return status, "".join(f"{line.text}\n" for line in wire.take(lambda line: True))


def left(env: Mapping[str, str]) -> list[str]:
    """Return what is in the folder of installed trees."""
    folder = Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees"
    return sorted(os.listdir(folder)) if folder.is_dir() else []


# The replay: a good tree is frozen, then the registry turns bad


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_bad_version_below_the_top_is_never_started(
    tmp_path: Path, both: Registries, kind: str
) -> None:
    file = toy(tmp_path, both, kind)
    both.publish("deep-dep", "1.0.1", BAD)
    fresh = both.environment()
    assert said(file, fresh) == f"{GOOD} own"
    both.npm.is_off = both.pypi.is_off = True
    asked = len(both.npm.requests) + len(both.pypi.requests)
    assert said(file, {**fresh, "PATH": only_node(tmp_path)}) == f"{GOOD} own"
    assert len(both.npm.requests) + len(both.pypi.requests) == asked
    assert len(left(fresh)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_other_bytes_under_the_same_version_are_refused_by_name(
    tmp_path: Path, both: Registries, kind: str
) -> None:
    file = toy(tmp_path, both, kind)
    both.publish("deep-dep", "1.0.0", BAD)
    fresh = both.environment()
    why = said(file, fresh)
    assert "deep-dep 1.0.0 from the" in why and "is not what was reviewed" in why
    assert left(fresh) == []
    # Once the right bytes are back, whatever the caches hold by now.
    both.publish("deep-dep", "1.0.0", GOOD)
    assert said(file, fresh) == f"{GOOD} own"


def only_node(folder: Path) -> str:
    """Return a PATH with no installer on it."""
    place = folder / "node-alone"
    place.mkdir(exist_ok=True)
    node = shutil.which("node")
    if node is not None and not (place / "node").exists():
        (place / "node").symlink_to(node)
    return str(place)
