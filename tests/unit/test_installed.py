"""Which version of a package runs, as processes and the files beside their programs tell."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcpagg.passes.discovery import installed
from mcpagg.passes.discovery.installed import (
    LOOK_SECONDS,
    TICKS,
    Installation,
    find_run,
    version_that_runs,
)
from mcpagg.passes.environment.programs import Package, find_package
from mcpagg_runtime.launch.launch import Launch

LEADER = 4711

pytestmark = pytest.mark.skipif(os.name == "nt", reason="it looks like a POSIX system's processes")


class Machine:
    """A machine of files that are a test's: its processes, and what is installed on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = root / "proc"
        (self.proc / "self").mkdir(parents=True)
        self.count = LEADER

    def run(self, *line: str, session: int = LEADER, age: float = 3.0) -> Path:
        """Start a process; return its folder."""
        folder = self.proc / str(self.count)
        self.count += 1
        folder.mkdir()
        (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in line) + b"\0")
        (self.proc / "uptime").write_text("1000.00 1.00\n")
        ticks = int((1000 - age) * TICKS)
        facts = ["S", "1", str(session), str(session), *["0"] * 15, str(ticks), "0"]
        (folder / "stat").write_text(f"{folder.name} (a) b) {' '.join(facts)}\n")
        (folder / "io").write_text("rchar: 1\n")
        return folder

    def npm(self, place: str, name: str, version: str) -> str:
        """Install an npm package; return its program."""
        folder = self.root / place / "node_modules" / name
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(json.dumps({"name": name, "version": version}))
        (folder / "index.js").touch()
        links = self.root / place / "node_modules/.bin"
        links.mkdir(exist_ok=True)
        link = links / name.rpartition("/")[2]
        link.symlink_to(folder / "index.js")
        return str(link)

    def pypi(self, place: str, record: str, origin: object = None) -> str:
        """Install a Python package; return its program."""
        library = self.root / place / "lib/python3.11/site-packages" / f"{record}.dist-info"
        library.mkdir(parents=True)
        if origin:
            (library / "direct_url.json").write_text(json.dumps(origin))
        programs = self.root / place / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "tool").touch()
        return str(programs / "tool")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setattr(installed, "_PROC", str(found.proc))
    return found


def package(line: str) -> Package:
    """Return the package of a command line."""
    command, *args = line.split()
    found = find_package(command, args)
    assert found
    return found


def version(line: str, **env: str) -> str:
    """Return the version that runs for a command line."""
    return version_that_runs(package(line), Launch(line.split(), env, None, {}), LEADER)


@pytest.mark.parametrize("line", ["npx -y @a/b", "npm exec -- @a/b@latest", "bunx @a/b", "npx b"])
def test_the_version_is_that_of_the_package_whose_program_runs(machine: Machine, line: str) -> None:
    name = package(line).plain_name
    machine.npm("mine", name, "0.1.0")
    program = machine.npm("cache/_npx/1", name, "2026.8.31")
    machine.run("npm exec @a/b", "", "")
    machine.run("sh", "-c", "'b'")
    machine.run("node", program, "--root", f"{machine.root}/mine/node_modules/x")
    machine.run("node", f"{machine.root}/mine/node_modules/.bin/b", session=1)
    assert version(line) == "2026.8.31"


def test_what_the_launcher_lies_among_is_not_what_it_fetches(machine: Machine) -> None:
    machine.npm("tools", "pnpm", "9.0.0")
    machine.npm("tools", "b", "0.1.0")
    machine.run("node", f"{machine.root}/tools/node_modules/.bin/pnpm", "dlx", "b")
    assert version("pnpm dlx b") == ""
    store = machine.npm("store", "b", "3.0.0")
    machine.run("node", store.replace(".bin/b", ".bin/../b/index.js"))
    assert version("pnpm dlx b") == "3.0.0"


@pytest.mark.parametrize(
    "line", ["uvx Some_Server[cli]", "pipx run some-server", "uv tool run some.server"]
)
def test_a_python_package_is_known_by_its_record(machine: Machine, line: str) -> None:
    machine.pypi("venv", "uv-0.13.0")
    machine.run(f"{machine.root}/venv/bin/uv", "tool", "uvx", "some-server")
    assert version(line) == ""
    tool = machine.pypi("archive/x", "some_server-2025.4.25")
    machine.run(f"{machine.root}/archive/x/bin/python", tool)
    assert version(line) == "2025.4.25"


def test_a_package_from_a_repository_is_known_by_its_commit(machine: Machine) -> None:
    origin = {"url": "https://h/r", "vcs_info": {"vcs": "git", "commit_id": "1" * 40}}
    tool = machine.pypi("archive/x", "some_server-2025.4.25", origin)
    machine.run(f"{machine.root}/archive/x/bin/python", tool)
    assert version("uvx --from git+https://h/r tool") == "1" * 40


def test_where_no_process_tells_the_cache_of_npx_does(machine: Machine) -> None:
    asked = "15b07286cbcc3329"  # for this name
    machine.npm(f"npm/_npx/{asked}", "@modelcontextprotocol/server-memory", "1.2.3")
    line = "npx -y @modelcontextprotocol/server-memory"
    assert version(line, NPM_CONFIG_CACHE=str(machine.root / "npm")) == "1.2.3"
    assert version(line, HOME=str(machine.root)) == version(line) == ""


def test_a_system_without_such_files_is_asked_for_its_processes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = machine.npm("Application Support/x", "b", "1.2.3")
    listing = f"    1 node {machine.root}/mine/node_modules/.bin/b\n {LEADER} node {program}\n"

    class Listed:
        stdout = listing.encode()

    monkeypatch.setattr(installed, "_PROC", str(machine.root / "none"))
    monkeypatch.setattr("subprocess.run", lambda *_, **__: Listed)
    assert version("npx b") == "1.2.3"


def test_an_image_is_known_by_what_its_program_tells(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    digest = f"o/s@sha256:{'a' * 64}"
    docker.write_text(
        f"#!/bin/sh\n[ \"$1 $2 $5\" = 'image inspect o/s' ] && echo '[\"{digest}\"]'\n"
    )
    docker.chmod(0o755)
    assert version(f"{docker} run -i o/s") == f"sha256:{'a' * 64}"
    assert version(f"{docker} run -i o/other") == ""
    assert version(f"{tmp_path}/podman run -i o/s") == ""


def test_an_installation_is_waited_for_as_long_as_it_does_something(machine: Machine) -> None:
    launcher = machine.run("npm exec b")
    said = [""]
    installation = Installation(package("npx b"), LEADER, lambda: said[0])
    assert installation.more(45) == LOOK_SECONDS
    assert installation.more(45) == 0  # nothing has happened since
    (launcher / "io").write_text("rchar: 2\n")
    assert installation.more(45) == LOOK_SECONDS
    said[0] = "npm warn deprecated"
    assert installation.more(45) == LOOK_SECONDS
    assert installation.is_under_way()
    program = machine.npm("cache", "b", "1.0.0")
    machine.run("node", program, age=5)
    assert find_run(installation.package, LEADER) is not None
    assert installation.more(45) == 40  # what it has had since then counts
    assert installation.more(45) == 0
    assert not installation.is_under_way()
