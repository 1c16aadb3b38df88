"""Frozen servers: they start what the file lists, byte for byte, or not at all."""

from __future__ import annotations

import json
import os
import py_compile
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from compilations import of_snapshot, tool
from proxies import lowered, posix
from registries import BAD, GOOD, PYTHON_SERVER, Registries, registries
from wire import TIMEOUT, Wire, alive, call, initialize, start_call, stub, text, wait_until

from mcpagg.options import Options
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.frozen.local import files_digest, program_digest
from mcpagg_runtime.frozen.pypi import hash_text
from mcpagg_runtime.frozen.table import (
    DockerImage,
    LocalFiles,
    NpmPackage,
    Program,
    PypiPackage,
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


def started(file: Path, env: Mapping[str, str], *arguments: str) -> Wire:
    """Start a proxy, and shake hands with it."""
    wire = Wire([sys.executable, "-I", "-S", file, *arguments], env=env)
    initialize(wire)
    return wire


def said(file: Path, env: Mapping[str, str]) -> str:
    """Start a proxy, and return what its server answers, or why it does not."""
    with started(file, env) as wire:
        response = call(wire, "toy:t")
        return response["error"]["message"] if "error" in response else text(response)


def ran(file: Path, env: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Run a command of a proxy; return its exit status and what it prints."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(file), *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


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
    assert re.search("deep-dep 1.0.0 from the .* is not what was reviewed", said(file, fresh))
    assert left(fresh) == []
    # Once the right bytes are back, whatever the caches hold by now.
    both.publish("deep-dep", "1.0.0", GOOD)
    assert said(file, fresh) == f"{GOOD} own"


@needs_npm
def test_an_optional_package_that_fits_is_installed_or_the_server_is_not(
    tmp_path: Path, both: Registries
) -> None:
    """A tree without it is whole for npm, and so it would stay for ever."""
    both.npm.publish("extra", "1.0.0", {"index.js": ""}, os=["!plan9"], engines={"node": "1"})
    both.npm.publish("other", "1.0.0", {"index.js": ""}, os=["plan9"])
    tree = both.npm_tree(1)
    for name, systems in (("extra", ["!plan9"]), ("other", ["plan9"])):
        integrity = both.npm.integrity(name, "1.0.0")
        listed = {"os": systems}
        tree.packages.append(
            NpmPackage([name], "1.0.0", integrity, listed=listed, marks=["optional"])
        )
    file, env = emitted(tmp_path, {"toy": (ENTRIES["npm"], tree)}), both.environment()
    both.npm.broken = "/extra/"
    assert "npm: code E503" in said(file, env)
    both.npm.broken = ""
    both.npm.publish("extra", "1.0.0", {"index.js": "bad"}, os=["!plan9"])
    assert "extra 1.0.0 from the registry is not what was reviewed" in said(file, env)
    assert left(env) == []
    both.npm.publish("extra", "1.0.0", {"index.js": ""}, os=["!plan9"], engines={"node": "1"})
    assert said(file, env) == f"{GOOD} own"
    (installed,) = (Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees").iterdir()
    assert (installed / "node_modules/extra").is_dir()
    assert not (installed / "node_modules/other").exists()


def test_a_server_as_itself_starts_what_was_frozen(tmp_path: Path, both: Registries) -> None:
    file = toy(tmp_path, both, "pypi")
    both.publish("deep-dep", "1.0.1", BAD)
    with started(file, both.environment(), "--as", "toy") as wire:
        assert text(call(wire, "t")) == f"{GOOD} own"


# Several at once, and ends in the middle


@pytest.mark.parametrize("kind", KINDS)
def test_many_starts_at_once_install_one_tree(tmp_path: Path, both: Registries, kind: str) -> None:
    file, fresh = toy(tmp_path, both, kind), both.environment()
    wires = [started(file, fresh) for _ in range(8)]
    try:
        calls = [(wire, start_call(wire, "toy:t")) for wire in wires]
        assert {text(wire.response(id)) for wire, id in calls} == {f"{GOOD} own"}
    finally:
        for wire in wires:
            wire.close()
    assert len(left(fresh)) == 1


def test_a_kill_in_the_middle_leaves_nothing_that_a_start_takes_for_whole(
    tmp_path: Path, both: Registries
) -> None:
    file, fresh = toy(tmp_path, both, "pypi"), both.environment()
    both.pypi.held = "/files/deep_dep-1.0.0-py3-none-any.whl"
    with started(file, fresh) as wire:
        assert both.pypi.asked_for_held.wait(TIMEOUT)
        wire.signal(signal.SIGKILL)
        wire.wait()
        assert len(left(fresh)) == 2  # what its installer, which still runs, is at, and the lock
        both.pypi.release.set()
        assert said(file, fresh) == f"{GOOD} own"
    assert len(left(fresh)) == 1


@pytest.mark.parametrize("end", ["input", "SIGTERM"])
def test_an_installation_ends_with_the_proxy(tmp_path: Path, both: Registries, end: str) -> None:
    file, fresh = toy(tmp_path, both, "pypi"), both.environment()
    both.pypi.held = "/files/deep_dep-1.0.0-py3-none-any.whl"
    with started(file, fresh) as wire:
        assert both.pypi.asked_for_held.wait(TIMEOUT)
        installers = wire.family() - {wire.process.pid}
        assert installers
        if end == "input":
            wire.end_input()
        else:
            wire.signal(signal.SIGTERM)
        wire.wait()
    assert not any(map(alive, installers))
    assert left(fresh) == []


def test_what_a_killed_installation_has_left_goes_with_the_next_of_any_tree(
    tmp_path: Path, both: Registries
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    both.pypi.held = "/files/deep_dep-1.0.0-py3-none-any.whl"
    with started(file, env) as wire:
        assert both.pypi.asked_for_held.wait(TIMEOUT)
        installers = wire.family() - {wire.process.pid}
        wire.signal(signal.SIGKILL)
        wire.wait()
        both.pypi.release.set()
        wait_until(lambda: not any(map(alive, installers)))
    killed = left(env)
    other = both.pypi_tree(1)
    other.python = ">=3.8"
    assert said(emitted(tmp_path, {"toy": (ENTRIES["pypi"], other)}), env) == f"{GOOD} own"
    assert len(left(env)) == 1
    assert not {*killed} & {*left(env)}


def test_an_installer_that_ends_is_an_error_and_leaves_nothing(
    tmp_path: Path, both: Registries
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    both.pypi.held = "/files/deep_dep-1.0.0-py3-none-any.whl"
    with started(file, env) as wire:
        identifier = start_call(wire, "toy:t")
        assert both.pypi.asked_for_held.wait(TIMEOUT)
        for pid in wire.family() - {wire.process.pid}:
            os.kill(pid, signal.SIGKILL)
        why = wire.response(identifier)["error"]["message"]
    assert "uv pip sync was killed by SIGKILL" in why
    assert left(env) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_is_full_in_the_middle_leaves_no_part_of_a_tree(
    tmp_path: Path, both: Registries, kind: str
) -> None:
    file, env = toy(tmp_path, both, kind), both.environment()
    limited = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-I", "-S", str(file)]
    with Wire(limited, env=env) as wire:
        initialize(wire)
        assert "could not be started" in call(wire, "toy:t")["error"]["message"]
    assert left(env) == []
    assert said(file, env) == f"{GOOD} own"


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_without_what_is_written_last_is_no_tree(
    tmp_path: Path, both: Registries, kind: str
) -> None:
    file, env = toy(tmp_path, both, kind), both.environment()
    assert ran(file, env, "--prefetch")[0] == 0
    (tree,) = (Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees").iterdir()
    shutil.rmtree(tree)
    tree.mkdir(0o700)
    assert "not yet installed" in ran(file, env, "--list")[1]
    assert said(file, env) == f"{GOOD} own"
    assert left(env) == [tree.name]


@pytest.mark.parametrize("now", ["gone", "another version"])
def test_an_environment_without_its_python_is_installed_anew(
    tmp_path: Path, both: Registries, now: str
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    assert ran(file, env, "--prefetch")[0] == 0
    (tree,) = (Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees").iterdir()
    if now == "gone":
        (tree / "env/bin/python").unlink()
        (tree / "env/bin/python").symlink_to(tmp_path / "python")
    else:
        (packages,) = (tree / "env/lib").iterdir()
        packages.rename(packages.with_name("python2.7"))
    assert said(file, env) == f"{GOOD} own"
    assert left(env) == [tree.name]


def test_a_call_waits_and_is_told_why_however_short_a_handshake_may_take(
    tmp_path: Path, both: Registries
) -> None:
    file = lowered(toy(tmp_path, both, "pypi"), REPORT_SECONDS=0.05)
    file.write_text(
        file.read_text("utf-8").replace('"connect_timeout": 60.0', '"connect_timeout": 9')
    )
    both.pypi.held = "/files/deep_dep-1.0.0-py3-none-any.whl"
    log = tmp_path / "log"
    with started(file, both.environment(), "--log", str(log)) as wire:
        token = {"_meta": {"progressToken": "p"}}
        identifier = wire.start_request("tools/call", {"name": "toy:t", "arguments": {}, **token})
        told = [wire.next_notification("notifications/progress")["params"] for _ in range(3)]
        assert told[0]["message"] == "Server 'toy' is being installed: pypi, 3 packages"
        assert {params["progressToken"] for params in told} == {"p"}
        assert told[0]["progress"] < told[1]["progress"] < told[2]["progress"] < 1
        both.pypi.release.set()
        assert text(wire.response(identifier)) == f"{GOOD} own"
    states = [json.loads(line).get("state") for line in log.read_text().splitlines()]
    assert [state for state in states if state][:4] == ["queued", "starting", "installing", "ready"]


def test_an_installation_that_hangs_has_an_end(tmp_path: Path, both: Registries) -> None:
    file = lowered(toy(tmp_path, both, "pypi"), LIMIT_SECONDS=1)
    both.pypi.held = "/files/deep_dep-1.0.0-py3-none-any.whl"
    env = both.environment()
    assert "it was not installed within 1 s" in said(file, env)
    assert left(env) == []


def test_a_start_that_waits_for_another_process_says_so(tmp_path: Path, both: Registries) -> None:
    file = toy(tmp_path, both, "pypi")
    both.pypi.held = "/files/deep_dep-1.0.0-py3-none-any.whl"
    env = both.environment()
    with started(file, env):
        assert both.pypi.asked_for_held.wait(TIMEOUT)
        why = said(lowered(file, LIMIT_SECONDS=1), env)
    (name,) = (name for name in re.findall(r"\w+\.lock", why))
    assert f"{name}, is installing it" in why
    assert left(env) == []


# What is around a proxy


@pytest.mark.parametrize("kind", KINDS)
def test_variables_around_it_change_neither_what_is_installed_nor_what_is_loaded(
    tmp_path: Path, both: Registries, kind: str
) -> None:
    file, fresh = toy(tmp_path, both, kind), both.environment()
    around = tmp_path / "around"
    around.mkdir()
    (around / "evil.js").write_text("process.exit(1)\n")
    (around / "deep_dep.py").write_text(f"SAYS = {BAD!r}\n")
    hostile = {
        "npm_config_global": "true",
        "npm_config_install_strategy": "linked",
        "npm_config_location": "global",
        "npm_config_package_lock_only": "true",
        "npm_config_workspace": "x",
        "npm_config_workspaces": "true",
        "NODE_OPTIONS": f"--require {around}/evil.js --max-old-space-size=512",
        "NODE_PATH": str(around),
        "PYTHONPATH": str(around),
        "PYTHONPYCACHEPREFIX": str(around / "pyc"),
        "UV_PROJECT": str(around / "no"),
        "UV_VENV_SEED": "1",
        "UV_WORKING_DIR": str(around),
    }
    assert said(file, {**fresh, **hostile}) == f"{GOOD} own"
    assert sorted(path.name for path in around.iterdir()) == ["deep_dep.py", "evil.js"]
    assert len(left(fresh)) == 1


@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.slow)])
def test_settings_of_the_installer_lead_it_to_no_other_folder(
    tmp_path: Path, both: Registries, installer: str
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    precious = tmp_path / "other/deep_dep.py"
    precious.parent.mkdir()
    precious.write_text("precious")
    del env["UV_NO_CONFIG"]
    name = "uv.toml" if installer == "uv" else "pip.conf"
    variable = "UV_CONFIG_FILE" if installer == "uv" else "PIP_CONFIG_FILE"
    settings = tmp_path / name
    if installer == "uv":
        settings.write_text(f'[pip]\ntarget = "{precious.parent}"\n')
        assert f"{settings} says `target`" in said(file, {**env, variable: str(settings)})
    else:
        lines = [f"{key} = {precious.parent}\n" for key in ("target", "root", "prefix")]
        settings.write_text("".join(["[install]\nuser = true\n", *lines]))
        without = {**env, "PATH": "/usr/bin:/bin", variable: str(settings)}
        assert said(file, without) == f"{GOOD} own"
    assert precious.read_text() == "precious"
    assert list(precious.parent.iterdir()) == [precious]


@needs_npm
def test_a_tree_with_install_scripts_is_built_once_for_each_node(
    tmp_path: Path, both: Registries
) -> None:
    both.npm.publish(
        "deep-dep",
        "1.0.0",
        {"make.js": "require('fs').writeFileSync('index.js', 'module.exports = process.version')"},
        scripts={"install": "node make.js"},
        hasInstallScript=True,
    )
    tree = both.npm_tree(1)
    (built,) = (package for package in tree.packages if package.name == "deep-dep")
    built.marks = frozenset(["scripts"])
    file, env = emitted(tmp_path, {"toy": (ENTRIES["npm"], tree)}), both.environment()
    assert re.fullmatch(r"v\d+\.\d+\.\d+ own", said(file, env))
    (first,) = left(env)
    assert said(file, {**env, "PATH": only_node(tmp_path)}).startswith("v")
    assert left(env) == [first]
    newer = tmp_path / "newer"
    program(newer / "node", f'[ "$1" = --version ] && echo v99.0.0 || exec {which("node")} "$@"')
    program(newer / "npx", "exit 1")
    program(newer / "npm", f'exec {which("npm")} "$@"')
    assert said(file, {**env, "PATH": f"{newer}:{env['PATH']}"}).startswith("v")
    assert first in left(env)
    assert len(left(env)) == 2


def test_programs_of_an_environment_come_first_on_the_path_of_its_server(
    tmp_path: Path, both: Registries
) -> None:
    starts = "import os, sys\ndef main(): os.execvp('toy-tool', ['toy-tool', *sys.argv[1:]])\n"
    both.pypi.publish(
        "toy-server",
        "1.0.0",
        {"toy_start.py": starts, "toy_server.py": PYTHON_SERVER},
        requires=["helper-dep>=1,<2"],
        scripts={"toy-server": "toy_start:main", "toy-tool": "toy_server:main"},
    )
    tree = both.pypi_tree(1)
    tree.entry = "toy-server=toy_start:main"
    file, env = emitted(tmp_path, {"toy": (ENTRIES["pypi"], tree)}), both.environment()
    program(tmp_path / "other/toy-tool", "exit 1")
    assert said(file, {**env, "PATH": f"{tmp_path}/other:{env['PATH']}"}) == f"{GOOD} own"


@needs_npm
def test_what_an_install_script_leaves_behind_ends_with_it(
    tmp_path: Path, both: Registries
) -> None:
    script = "sleep 1000 > /dev/null 2>&1 & echo $! > pid"
    files = {"index.js": f"module.exports = {GOOD!r}"}
    both.npm.publish("deep-dep", "1.0.0", files, scripts={"install": script}, hasInstallScript=True)
    tree = both.npm_tree(1)
    (built,) = (package for package in tree.packages if package.name == "deep-dep")
    built.marks = frozenset(["scripts"])
    file, env = emitted(tmp_path, {"toy": (ENTRIES["npm"], tree)}), both.environment()
    assert said(file, env) == f"{GOOD} own"
    (installed,) = (Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees").iterdir()
    assert not alive(int((installed / "node_modules/deep-dep/pid").read_text()))


@needs_npm
def test_the_script_of_an_alias_runs(tmp_path: Path, both: Registries) -> None:
    files = {"make.js": "require('fs').writeFileSync('index.js', 'module.exports = \"built\"')"}
    script = {"install": "node make.js"}
    both.npm.publish("real", "1.0.0", files, scripts=script, hasInstallScript=True)
    integrity = both.npm.integrity("real", "1.0.0")
    tree = both.npm_tree(1)
    (index,) = (i for i, package in enumerate(tree.packages) if package.name == "deep-dep")
    tree.packages[index] = NpmPackage(
        ["helper-dep", "deep-dep"], "1.0.0", integrity, name="real", marks=["scripts"]
    )
    file = emitted(tmp_path, {"toy": (ENTRIES["npm"], tree)})
    assert said(file, both.environment()) == "built own"


@pytest.mark.parametrize("mask", [0o002, 0o000])
def test_the_folders_of_the_cache_are_this_users_alone_whatever_the_umask(
    tmp_path: Path, both: Registries, mask: int
) -> None:
    script = tmp_path / "own/server.py"
    script.parent.mkdir()
    script.write_text(PYTHON_SERVER.replace("helper_dep", "more") + "main()\n")
    (script.parent / "more.py").write_text("SAYS = 'good'\n")
    digest, count = files_digest(str(script), "python")
    local = {"command": sys.executable, "args": [str(script)]}, LocalFiles(
        "python", digest, count, 0
    )
    file, env = emitted(tmp_path, {"toy": local}), both.environment()
    before = os.umask(mask)
    try:
        assert said(file, env) == GOOD
        assert said(toy(tmp_path, both, "pypi"), env) == f"{GOOD} own"
    finally:
        os.umask(before)


# What keeps a tree from being installed


def refused(folder: Path, env: Mapping[str, str], frozen: Frozen, kind: str = "pypi") -> str:
    """Return why a server that is frozen so cannot be started."""
    return said(emitted(folder, {"toy": (ENTRIES[kind], frozen)}), env)


def test_a_cache_folder_that_others_could_fill_is_refused_by_name(
    tmp_path: Path, both: Registries
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    own = Path(env["XDG_CACHE_HOME"]) / "mcpagg"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    own.symlink_to(elsewhere)
    assert f"{own} is a link" in said(file, env)
    own.unlink()
    own.mkdir()
    own.chmod(0o777)
    assert f"{own} can be written by others" in said(file, env)
    own.rmdir()
    own.write_text("")
    assert f"{own} is no folder" in said(file, env)


def test_a_cache_folder_that_cannot_be_written_is_named(tmp_path: Path, both: Registries) -> None:
    file = toy(tmp_path, both, "pypi")
    place = tmp_path / "file"
    place.write_text("")
    env = both.environment()
    why = said(file, {**env, "XDG_CACHE_HOME": str(place)})
    assert f"to install it, {place}" in why
    assert "must be written, which fails: File exists" in why
    assert "XDG_CACHE_HOME" in why
    assert ran(file, env, "--prefetch")[0] == 0
    (tree,) = (Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees").iterdir()
    shutil.rmtree(tree)
    tree.with_suffix(".lock").mkdir()
    assert f"{tree}.lock must be written, which fails: Is a directory" in said(file, env)


@needs_npm
def test_an_installer_that_is_missing_or_too_old_is_named(tmp_path: Path, both: Registries) -> None:
    env = both.environment()
    node = only_node(tmp_path)
    tree = both.npm_tree(1)
    why = refused(tmp_path, {**env, "PATH": node}, tree, "npm")
    assert "npm is needed once, to install what this file lists, and is not on the PATH" in why
    old = tmp_path / "old"
    for name in ("npx", "uvx"):  # what is beside them is looked at first
        program(old / name, "exit 1")
    program(old / "npm", "echo 6.14.18")
    program(old / "uv", "echo uv 0.1.45")
    old_path = {**env, "PATH": f"{old}:{env['PATH']}"}
    why = refused(tmp_path, old_path, tree, "npm")
    assert f"npm 7 or newer is needed to install it, and {old}/npm is 6.14.18" in why
    why = refused(tmp_path, old_path, both.pypi_tree(1))
    assert f"uv 0.4.30 or newer is needed to install it, and {old}/uv is 0.1.45" in why


def test_a_platform_that_is_not_covered_is_named_before_anything_is_installed(
    tmp_path: Path, both: Registries
) -> None:
    tree = both.pypi_tree(1)
    tree.on = ("plan9-mips",)
    assert "it is frozen for plan9-mips, and this is" in refused(tmp_path, both.environment(), tree)
    assert both.pypi.requests == []


def test_an_environment_has_the_python_of_the_proxy_if_the_lines_cover_that(
    tmp_path: Path, both: Registries
) -> None:
    """So uv looks for none, which takes time, and there need not be one on the PATH."""
    env = both.environment()
    program(tmp_path / "uv-alone/uv", f'exec {which("uv", env)} "$@"')
    alone = {**env, "PATH": str(tmp_path / "uv-alone")}
    assert said(toy(tmp_path, both, "pypi"), alone) == f"{GOOD} own"
    tree = both.pypi_tree(1)
    tree.python = ">=3.99"
    assert "uv: No interpreter found for Python >=3.99" in refused(tmp_path, alone, tree)


@pytest.mark.slow
def test_without_uv_pip_installs_the_same(tmp_path: Path, both: Registries) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    without = {**env, "PATH": "/usr/bin:/bin"}
    if shutil.which("uv", path=without["PATH"]):
        pytest.skip("uv is where the system has its programs")
    assert said(file, without) == f"{GOOD} own"
    installed = Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees" / left(env)[0]
    assert sorted(path.name for path in installed.iterdir()) == sorted(
        ["contents.txt", "env", "requirements.txt"]
    )
    names = {path.name for path in installed.glob("env/lib/python*/site-packages/*.dist-info")}
    assert names == {f"{name}-1.0.0.dist-info" for name in ("deep_dep", "helper_dep", "toy_server")}


@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.slow)])
def test_only_the_source_that_was_reviewed_is_built(
    tmp_path: Path, both: Registries, installer: str
) -> None:
    both.pypi.withdraw("deep-dep", "1.0.0")
    both.pypi.publish_source("deep-dep", "1.0.0", {"deep_dep.py": "SAYS = 'built'\n"})
    digest = both.pypi.digest("deep-dep", "1.0.0", ".tar.gz")
    both.pypi.publish("deep-dep", "1.0.0", {"deep_dep.py": f"SAYS = {BAD!r}\n"})
    tree = both.pypi_tree(1)
    tree.packages[0] = PypiPackage("deep-dep", "1.0.0", [hash_text(digest)], marks=["source"])
    file, env = emitted(tmp_path, {"toy": (ENTRIES["pypi"], tree)}), both.environment()
    if installer == "pip":
        env["PATH"] = "/usr/bin:/bin"
    assert said(file, env) == "built own"
    both.pypi.publish_source("deep-dep", "1.0.0", {"deep_dep.py": f"SAYS = {BAD!r}\n"})
    fresh = {**both.environment("fresh"), "PATH": env["PATH"]}
    assert "deep-dep 1.0.0 from the index is not what was reviewed" in said(file, fresh)


# What is not installed


def test_a_script_is_started_as_long_as_nothing_that_it_can_load_has_changed(
    tmp_path: Path,
) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    own = tmp_path / "own"
    own.mkdir()
    (own / "more.py").write_text("SAYS = 'good'\n")
    script = own / "server.py"
    script.write_text(PYTHON_SERVER.replace("helper_dep", "more") + "main()\n")
    digest, count = files_digest(str(script), "python")
    entry = {"command": sys.executable, "args": [str(script), "own"]}
    file = emitted(tmp_path, {"toy": (entry, LocalFiles("python", digest, count, 1))})
    assert said(file, env) == f"{GOOD} own"
    (own / "data.json").write_text("{}")
    assert said(file, env) == f"{GOOD} own"
    assert sorted(path.name for path in own.iterdir()) == ["data.json", "more.py", "server.py"]
    (own / "json.py").write_text("raise SystemExit('bad')\n")
    assert f"{script} is not what was reviewed" in said(file, env)


@pytest.mark.parametrize("options", [[], ["-E"], ["-I"]])
def test_what_was_compiled_beside_a_script_is_not_run(tmp_path: Path, options: list[str]) -> None:
    own, evil = tmp_path / "own", tmp_path / "evil.py"
    own.mkdir()
    evil.write_text("raise SystemExit('bad')\n")
    (own / "more.py").write_text("SAYS = 'good'\n")
    script = own / "server.py"
    path = "import os, sys; sys.path.insert(0, os.path.dirname(__file__))\n"  # -I leaves it out
    script.write_text(path + PYTHON_SERVER.replace("helper_dep", "more") + "main()\n")
    compiled = cache_from_source(str(own / "more.py"))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(evil), compiled, invalidation_mode=unchecked)
    digest, count = files_digest(str(script), "python")
    entry = {"command": sys.executable, "args": [*options, str(script), "own"]}
    file = emitted(tmp_path, {"toy": (entry, LocalFiles("python", digest, count, 1))})
    assert said(file, {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "xdg")}) == f"{GOOD} own"


def test_a_program_is_started_only_with_the_bytes_that_were_frozen(tmp_path: Path) -> None:
    place = tmp_path / "server"
    program(place, f"exec {shlex.join(stub(tools=['t']))}")
    entry = {"command": str(place), "args": []}
    file = emitted(tmp_path, {"toy": (entry, Program(program_digest(str(place))))})
    assert said(file, os.environ) == "{}"
    place.write_text(place.read_text() + "\n")
    assert "is not what was reviewed" in said(file, os.environ)


def test_docker_runs_the_digest_in_place_of_the_tag(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program(tmp_path / "docker", f'echo "$@" > {log}; exec {shlex.join(stub(tools=["t"]))}')
    args = ["run", "-i", "--rm", "mcp/time:1", "own"]
    image = DockerImage("mcp/time", f"sha256:{'0' * 64}", 1, "1")
    entry = {"command": str(tmp_path / "docker"), "args": args}
    assert said(emitted(tmp_path, {"toy": (entry, image)}), os.environ) == "{}"
    assert log.read_text() == f"run -i --rm mcp/time@{image.digest} own\n"


# The command line


def test_prefetch_installs_all_that_is_frozen_and_starts_none(
    tmp_path: Path, both: Registries
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    lacking = "toy: not there: it is not installed\n"
    assert ran(file, env, "--prefetch", "--offline") == (1, lacking)
    assert "toy: frozen: pypi, 3 packages, not yet installed\n" in ran(file, env, "--list")[1]
    assert ran(file, env, "--prefetch", "no")[0] == 2
    installed = "toy: pypi, 3 packages, installed\n"
    assert ran(file, env, "--prefetch", "toy") == (0, installed)
    both.pypi.is_off = True
    assert ran(file, env, "--prefetch", "--offline") == (0, installed)
    assert "toy: frozen: pypi, 3 packages, installed\n" in ran(file, env, "--list")[1]
    assert ran(file, env, "--check", "--deep") == (0, "toy: ready, as it was compiled\n")


@needs_npm
def test_prefetch_names_a_variable_in_place_of_its_value(tmp_path: Path, both: Registries) -> None:
    registry = {"npm_config_registry": f"{both.npm.url}/${{SECRET_TOKEN}}/"}
    file = emitted(tmp_path, {"toy": ({**ENTRIES["npm"], "env": registry}, both.npm_tree(1))})
    env = {**both.environment(), "SECRET_TOKEN": "s3cret-of-mine"}
    status, printed = ran(file, env, "--prefetch")
    assert status == 1
    assert "404 Not Found" in printed
    assert "${SECRET_TOKEN}" in printed
    assert env["SECRET_TOKEN"] not in printed


def test_check_names_what_of_an_installed_tree_has_changed(
    tmp_path: Path, both: Registries
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    assert ran(file, env, "--prefetch")[0] == 0
    (tree,) = (Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees").iterdir()
    (module,) = tree.glob("env/lib/*/site-packages/deep_dep.py")
    before = module.stat()
    module.write_text(module.read_text().replace(GOOD, "evil"))
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ran(file, env, "--check")[0] == 0  # size and time are as they were
    status, printed = ran(file, env, "--check", "--deep")
    assert status == 1
    assert "site-packages/deep_dep.py has changed" in printed
    assert f"remove {tree}" in printed


def test_a_deep_check_leaves_nothing_that_python_has_compiled_to_be_loaded(
    tmp_path: Path, both: Registries
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    assert said(file, env) == f"{GOOD} own"
    (tree,) = (Path(env["XDG_CACHE_HOME"]) / "mcpagg/trees").iterdir()
    (compiled,) = tree.glob("env/lib/*/site-packages/__pycache__/deep_dep.*.pyc")
    compiled.write_bytes(compiled.read_bytes().replace(GOOD.encode(), b"evil"))
    assert said(file, env) == "evil own"
    assert ran(file, env, "--check", "--deep") == (0, "toy: ready, as it was compiled\n")
    assert said(file, env) == f"{GOOD} own"


@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("path", "owner"),
    [("helper_dep.py", "helper-dep"), ("{}.data/data/pyvenv.cfg", "the environment itself")],
)
def test_a_package_replaces_no_file_of_another_one(
    tmp_path: Path, both: Registries, installer: str, path: str, owner: str
) -> None:
    """What is installed later would have it, and nobody knows what that is."""
    own = {"deep_dep.py": "SAYS = 'deep'\n", path.format("deep_dep-1.0.0"): "SAYS = 'other'\n"}
    both.pypi.publish("deep-dep", "1.0.0", own)
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    if installer == "pip":
        env["PATH"] = "/usr/bin:/bin"
    why = said(file, env)
    assert "both have a file" in why
    assert owner in why
    assert "deep-dep" in why
    assert left(env) == []


def test_an_environment_has_the_packages_of_its_lines_and_no_other(
    tmp_path: Path, both: Registries
) -> None:
    file, env = toy(tmp_path, both, "pypi"), both.environment()
    uv = which("uv", env)
    for line, why in (
        ('[ "$1 $2" = "pip sync" ] && exit 0', "the installer has left out deep-dep"),
        (
            '[ "$1 $2" = "pip sync" ] && mkdir -p env/lib/python3.9/site-packages/evil-1.dist-info',
            "the installer has installed evil, which is not in the file",
        ),
    ):
        program(tmp_path / "odd/uv", f'{line}; exec {uv} "$@"')
        program(tmp_path / "odd/uvx", "exit 1")
        assert why in said(file, {**env, "PATH": f"{tmp_path}/odd:{env['PATH']}"})
        assert left(env) == []


def program(place: Path, line: str) -> None:
    """Write a program for the shell."""
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{line}\n")
    place.chmod(0o755)


def which(name: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the path of a program that is there."""
    path = shutil.which(name, path=env["PATH"])
    assert path is not None
    return path


def only_node(folder: Path) -> str:
    """Return a PATH with no installer on it."""
    place = folder / "node-alone"
    place.mkdir(exist_ok=True)
    node = shutil.which("node")
    if node is not None and not (place / "node").exists():
        (place / "node").symlink_to(node)
    return str(place)
