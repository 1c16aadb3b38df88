"""`--freeze` against registries of the tests: what FILE holds, and what a check tells of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proxies import Typed, posix
from registries import (
    BAD,
    GOOD,
    NODE_SERVER,
    PYTHON_SERVER,
    REPOSITORY,
    Osv,
    Registries,
    registries,
)
from wire import STUB, TIMEOUT, Wire, alive, call, initialize, text

from mcpagg.command.cli import main
from mcpagg.passes.emission.recorded import read_contents
from mcpagg.passes.freezing.checking import NOT_LEARNT
from mcpagg_runtime.frozen.pypi import hash_text

pytestmark = posix("paths and programs of these tests are those of POSIX")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
KINDS = [pytest.param("npm", marks=needs_npm), "pypi"]
ENTRIES = {
    "npm": {"command": "npx", "args": ["-y", "toy-server@^1", "own"]},
    "pypi": {"command": "uvx", "args": ["--from", "toy-server>=1", "toy-server", "own"]},
}
MOVED = "~deep-dep 1.0.0 → 1.0.1"
SPOILT = "!deep-dep 1.0.0: same version, other bytes"


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registries]:
    """Serve both registries, to a machine that knows of nothing else."""
    with registries(tmp_path / "machines") as both:
        use_machine(both, monkeypatch, "first")
        yield both


def use_machine(both: Registries, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Go on where nothing is installed, or cached."""
    env = both.environment(name)
    for variable in {*os.environ} - {*env}:
        monkeypatch.delenv(variable)
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)


def frozen(folder: Path, entry: dict[str, Any], *flags: str) -> Path:
    """Compile a config with one server to a file beside it."""
    config, file = folder / "mcp.json", folder / "server.py"
    config.write_text(json.dumps({"mcpServers": {"toy": entry}}))
    assert main([str(config), "-o", str(file), "--freeze", *flags]) == 0
    return file


def versions(file: Path) -> list[str]:
    return [" ".join(line.split(" ")[:2]) for line in read_contents(file).frozen["toy"][1:]]


def which(name: str) -> str:
    return shutil.which(name) or name


def said(file: Path) -> str:
    """Return what the server of a proxy answers."""
    with Wire([which("python3"), "-I", str(file)], env=dict(os.environ)) as wire:
        initialize(wire)
        return text(call(wire, "toy:t"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_stays_until_it_is_refreshed(
    tmp_path: Path,
    both: Registries,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = frozen(tmp_path, ENTRIES[kind])
    first = file.read_bytes()
    assert versions(file) == ["deep-dep 1.0.0", "helper-dep 1.0.0", "toy-server 1.0.0"]
    assert both.npm.url.encode() not in first
    assert both.pypi.url.encode() not in first
    assert b"server.py --freeze\n" in first

    both.publish("deep-dep", "1.0.1", BAD)
    use_machine(both, monkeypatch, "second")
    frozen(tmp_path, ENTRIES[kind])
    assert file.read_bytes() == first
    assert said(file) == f"{GOOD} own"
    capsys.readouterr()

    assert main(["--check", "-o", str(file), "--report", "json"]) == 0
    out = capsys.readouterr()
    report = json.loads(out.out)
    assert [change["what"] for change in report["changes"]] == [MOVED]
    assert report["frozen"]["toy"][1].startswith("deep-dep 1.0.0 ")
    assert "nothing has changed that counts" in out.err

    asked = len(both.npm.requests) + len(both.pypi.requests)
    assert main(["--offline", "-o", str(file)]) == 0
    assert len(both.npm.requests) + len(both.pypi.requests) == asked
    assert file.read_bytes() == first
    capsys.readouterr()

    assert main(["--refresh", "toy", "-o", str(file)]) == 0
    assert "toy 1: packages\n" in capsys.readouterr().out
    assert versions(file)[0] == "deep-dep 1.0.1"
    assert said(file) == f"{BAD} own"

    # What registries offer does not count, but what this FILE starts otherwise than an older one.
    (tmp_path / "old.py").write_bytes(first)
    check = ["--check", "--offline", "-o", str(file), "--against", str(tmp_path / "old.py")]
    capsys.readouterr()
    assert main(check) == 1
    assert MOVED in capsys.readouterr().out
    assert main([*check, "--fail-on", "launch"]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_check_names_rows_that_were_edited_by_hand(
    tmp_path: Path, both: Registries, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = frozen(tmp_path, ENTRIES[kind])
    assert main(["--check", "--offline", "-o", str(file)]) == 0
    file.write_text(file.read_text().replace("deep-dep 1.0.0 ", "deep-dep 0.9.9 ", 1))
    capsys.readouterr()
    assert main(["--check", "--offline", "-o", str(file)]) == 1
    assert "edited by hand" in capsys.readouterr().out


def test_an_installed_tree_that_was_edited_is_neither_started_nor_fetched(
    tmp_path: Path, both: Registries, capsys: pytest.CaptureFixture[str]
) -> None:
    file = frozen(tmp_path, ENTRIES["pypi"])
    (module,) = Path(os.environ["XDG_CACHE_HOME"]).glob("mcpagg/trees/*/env/lib/*/*/deep_dep.py")
    module.write_text(module.read_text().replace(GOOD, BAD))
    capsys.readouterr()
    assert main(["--check", "-o", str(file)]) == 4
    told = capsys.readouterr().err
    assert "what is installed is not as it was" in told
    assert "deep_dep.py has changed; remove " in told
    for flags in (["--prefetch"], ["--prefetch", "--offline"]):
        command = [which("python3"), "-I", str(file), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "deep_dep.py has changed" in done.stdout) == (1, True)


@pytest.mark.parametrize("kind", KINDS)
def test_other_bytes_and_versions_that_are_gone_always_count_and_a_registry_that_is_away_never(
    tmp_path: Path, both: Registries, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = frozen(tmp_path, ENTRIES[kind])
    both.publish("deep-dep", "1.0.0", BAD)
    both.publish("deep-dep", "1.0.1", GOOD)  # which does not hide what became of the older one
    assert main(["--check", "-o", str(file), "--fail-on", "launch"]) == 1
    told = capsys.readouterr()
    assert SPOILT in told.out
    assert MOVED in told.out
    assert "--refresh NAME takes those there are" in told.err
    both.withdraw("deep-dep", "1.0.0")
    both.withdraw("toy-server", "1.0.0")
    assert main(["--check", "-o", str(file), "--fail-on", "launch"]) == 1
    gone = capsys.readouterr().out
    assert "!deep-dep 1.0.0: gone from the registry" in gone
    assert "!toy-server 1.0.0: gone from the registry" in gone
    # A registry that is away tells nothing.
    both.npm.is_off = both.pypi.is_off = True
    assert main(["--check", "-o", str(file)]) == 0
    assert "'toy': its packages were not compared with what there is" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_without_freezing_the_bad_version_is_started(
    tmp_path: Path, both: Registries, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, file = tmp_path / "mcp.json", tmp_path / "server.py"
    pinned = json.loads(
        json.dumps(ENTRIES[kind]).replace("@^1", "@1.0.0").replace(">=1", "==1.0.0")
    )
    config.write_text(json.dumps({"mcpServers": {"toy": pinned}}))
    assert main([str(config), "-o", str(file), "-q"]) == 0
    both.publish("deep-dep", "1.0.1", BAD)
    use_machine(both, monkeypatch, "second")
    assert main(["--check", "-o", str(file), "-q"]) == 0
    assert said(file) == f"{BAD} own"


@needs_npm
def test_another_version_in_the_config_is_resolved_anew_and_a_server_stays_frozen(
    tmp_path: Path, both: Registries, capsys: pytest.CaptureFixture[str]
) -> None:
    file = frozen(tmp_path, ENTRIES["npm"])
    both.publish("deep-dep", "1.0.1", BAD)
    # Other words for the server: the same tree, and its head has how many they are.
    entry = {"command": "npx", "args": ["-y", "toy-server@^1", "own", "more"]}
    frozen(tmp_path, entry)
    assert versions(file)[0] == "deep-dep 1.0.0"
    assert said(file) == f"{GOOD} own more"
    # Another package to start
    entry["args"] = ["-y", "toy-server@1", "own"]
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"toy": entry}}))
    before = file.read_bytes()
    assert main(["--offline", "-o", str(file)]) == 2
    told = capsys.readouterr().err
    assert "mcpServers.toy: is not frozen in" in told
    assert "--refresh toy resolves it" in told
    assert file.read_bytes() == before
    frozen(tmp_path, entry)
    assert versions(file)[0] == "deep-dep 1.0.1"
    # What needs a script now is not frozen any more, and that is no way out.
    both.npm.publish(
        "toy-server",
        "1.0.1",
        {
            "server.js": NODE_SERVER.replace("helper-dep", "./built"),
            "make.js": "require('fs').writeFileSync('built.js', 'module.exports = \"built\"')",
        },
        bin={"toy-server": "server.js"},
        scripts={"install": "node make.js"},
        hasInstallScript=True,
    )
    assert main(["--refresh", "toy", "-o", str(file)]) == 2
    told = capsys.readouterr().err
    assert "'toy' is not frozen: it runs install scripts: toy-server" in told
    assert "--freeze-scripts toy-server lets them run" in told
    scripts = ["--freeze-scripts", "toy-server"]
    assert main(["--refresh", "toy", "-o", str(file), "--freeze", *scripts]) == 0
    assert said(file) == "built own"


def test_a_package_without_wheels_is_built_where_it_is_named(
    tmp_path: Path,
    both: Registries,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = {"deep_dep.py": "SAYS = 'built'\n"}
    both.pypi.withdraw("deep-dep", "1.0.0")
    both.pypi.publish_source("deep-dep", "1.0.0", source)
    file = frozen(tmp_path, ENTRIES["pypi"], "--allow-failed")
    assert "'toy' is not frozen: it needs deep-dep, of which the index" in capsys.readouterr().err
    scripts = ["--freeze-scripts", "Deep_Dep"]
    frozen(tmp_path, ENTRIES["pypi"], *scripts)
    line = read_contents(file).frozen["toy"][1]
    digest = hash_text(both.pypi.digest("deep-dep", "1.0.0", ".tar.gz"))
    assert line == f"deep-dep 1.0.0 {digest} source"
    assert "runs code of it" not in capsys.readouterr().err

    both.pypi.publish_source("deep-dep", "1.0.1", {"deep_dep.py": f"SAYS = {BAD!r}\n"})
    use_machine(both, monkeypatch, "second")
    assert said(file) == "built own"
    assert main(["--check", "-o", str(file)]) == 0
    assert MOVED in capsys.readouterr().out
    # A line that lets a package be built is none that is kept once it is no longer named.
    assert main([str(tmp_path / "mcp.json"), "-o", str(file), "--freeze"]) == 2
    assert "--freeze-scripts deep-dep lets it be built" in capsys.readouterr().err


def test_no_older_version_is_frozen_because_the_newest_would_have_to_be_built(
    tmp_path: Path, both: Registries, capsys: pytest.CaptureFixture[str]
) -> None:
    def publish_newest(needs: str) -> None:
        both.pypi.publish(
            "toy-server",
            "1.1.0",
            {"toy_server.py": PYTHON_SERVER},
            requires=["helper-dep>=1,<2", needs],
            scripts={"toy-server": "toy_server:main"},
        )

    publish_newest("new-dep")
    both.pypi.publish_source("new-dep", "1.0.0", {})
    frozen(tmp_path, ENTRIES["pypi"])
    assert "--freeze-scripts new-dep lets it be built" in capsys.readouterr().err
    file = frozen(tmp_path, ENTRIES["pypi"], "--freeze-scripts", "new-dep")
    assert "toy-server 1.1.0" in versions(file)
    # A version that fits no other package is none that uvx would take.
    publish_newest("new-dep<2")
    both.pypi.publish("new-dep", "2", {})
    file = frozen(tmp_path, {"command": "uvx", "args": ["--with", "new-dep==2", "toy-server"]})
    assert "toy-server 1.0.0" in versions(file)


LAUNCHERS = (
    "npx -y -p toy-server toy-server own",
    "npm exec -y -- toy-server own",
    "bunx toy-server own",
    "pnpm dlx toy-server own",
    "yarn dlx -q toy-server own",
    "uv tool run toy-server own",
    "uv run --no-project --with toy-server toy-server own",
    "pipx run toy-server own",
)


@needs_npm
def test_servers_of_all_launchers_are_frozen_and_started_without_them(
    tmp_path: Path, both: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    for name in ("bunx", "npx", "pipx", "pnpm", "yarn"):
        (others / name).write_text("#!/bin/sh\nexit 1\n")
        (others / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{others}:{os.environ['PATH']}")
    config, file = tmp_path / "mcp.json", tmp_path / "server.py"
    lines = [line.split() for line in LAUNCHERS]
    servers = {f"s{i}": {"command": line[0], "args": line[1:]} for i, line in enumerate(lines)}
    config.write_text(json.dumps({"mcpServers": servers}))
    assert main([str(config), "-o", str(file), "--freeze", "--strict"]) == 0
    with Wire([which("python3"), "-I", str(file)], env=dict(os.environ)) as wire:
        initialize(wire)
        assert {text(call(wire, f"{name}:t")) for name in servers} == {f"{GOOD} own"}


@needs_npm
def test_what_npx_would_take_from_a_project_is_not_frozen_from_the_registry(
    tmp_path: Path, both: Registries, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "project/below"
    (folder.parent / "node_modules/toy-server").mkdir(parents=True)
    folder.mkdir()
    entry = {**ENTRIES["npm"], "cwd": str(folder)}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"toy": entry}}))
    assert main([str(config), "--freeze", "--strict", "-o", str(tmp_path / "server.py")]) == 2
    assert "it is run in a project that has toy-server" in capsys.readouterr().err
    (folder / "package.json").write_text("{}")  # where npx looks no further up
    assert "toy-server 1.0.0" in versions(frozen(tmp_path, entry))


def test_what_cannot_be_frozen_is_said_and_strict_refuses(
    tmp_path: Path, both: Registries, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mcp.json"
    servers = {"a": {"command": "sh", "args": ["-c", "exit 1"]}, "b": {"url": "https://h.example"}}
    config.write_text(json.dumps({"mcpServers": servers}))
    assert main([str(config), "--freeze", "--dry-run"]) == 0
    told = capsys.readouterr().err
    assert "mcpServers.a: server 'a' is not frozen: it is started by `sh`" in told
    assert "mcpServers.b: server 'b' is not frozen: it is reached at a URL" in told
    assert main([str(config), "--freeze=a", "--strict", "-o", str(tmp_path / "server.py")]) == 2
    told = capsys.readouterr().err
    assert "server 'a' is not frozen" in told
    assert "server 'b'" not in told
    assert main([str(config), "--freeze=aa", "-o", str(tmp_path / "server.py")]) == 2
    assert "--freeze=aa is no server of the config; there are: a, b" in capsys.readouterr().err


@needs_npm
def test_a_registry_that_is_away_fails_by_name(
    tmp_path: Path, both: Registries, capsys: pytest.CaptureFixture[str]
) -> None:
    config, file = tmp_path / "mcp.json", tmp_path / "server.py"
    config.write_text(json.dumps({"mcpServers": {"toy": ENTRIES["npm"]}}))
    both.npm.is_off = True
    assert main([str(config), "--freeze", "-o", str(file)]) == 4
    assert "server 'toy' could not be frozen: npm says: code E503" in capsys.readouterr().err
    assert not file.exists()


@needs_npm
def test_settings_of_npm_change_nothing_of_what_is_resolved(
    tmp_path: Path, both: Registries
) -> None:
    settings = "save=false\npackage-lock=false\nusage=true\nversion=true\njson=true\n"
    Path(both.environment("first")["npm_config_userconfig"]).write_text(settings)
    file = frozen(tmp_path, ENTRIES["npm"])
    assert versions(file) == ["deep-dep 1.0.0", "helper-dep 1.0.0", "toy-server 1.0.0"]
    assert said(file) == f"{GOOD} own"


def local_server(folder: Path) -> dict[str, Any]:
    """Write the script of a server, and return the entry that starts it from there."""
    script = folder / "servers" / "server.py"
    script.parent.mkdir()
    script.write_text(f"import runpy\nrunpy.run_path({STUB[-1]!r}, run_name='__main__')\n")
    return {"command": STUB[0], "args": ["servers/server.py", json.dumps({"tools": ["t"]})]}


def test_a_local_script_is_frozen_as_it_is_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = local_server(tmp_path)
    file = frozen(tmp_path, entry)
    head = read_contents(file).frozen["toy"]
    assert head[0].startswith("files python sha256:")
    assert head[0].endswith(" 1 args=1")
    (tmp_path / "servers/helper.py").write_text("")
    capsys.readouterr()
    assert main(["--check", "-o", str(file)]) == 1
    told = capsys.readouterr()
    assert "launch             is frozen otherwise" in told.out
    assert "compile it again" in told.err
    assert main(["--check", "--offline", "-o", str(file)]) == 1
    assert "launch             is frozen otherwise" in capsys.readouterr().out
    frozen(tmp_path, entry)
    assert read_contents(file).frozen["toy"][0].endswith(" 2 args=1")
    (tmp_path / "servers/server.py").unlink()
    capsys.readouterr()
    main(["--check", "--offline", "-o", str(file)])
    assert "server 'toy': what it starts here was not compared: it" in capsys.readouterr().err


def test_what_is_not_frozen_beside_what_is_stays_visible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, file = tmp_path / "mcp.json", tmp_path / "server.py"
    stub = [STUB[0], STUB[-1], json.dumps({"tools": ["t"]})]
    loose = {"command": "sh", "args": ["-c", f"exec {shlex.join(stub)}"]}
    servers = {"toy": {"command": stub[0], "args": stub[1:]}, "loose": loose}
    config.write_text(json.dumps({"mcpServers": servers}))
    assert main([str(config), "-o", str(file), "--freeze"]) == 0
    assert "  not frozen: loose\n" in capsys.readouterr().out
    assert main(["--check", "-o", str(file), "--report", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["frozen"]["loose"] == []
    for flag in ("--list", "--env", "--check"):
        command = [which("python3"), "-I", str(file), flag]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        line = "loose: not frozen" if flag != "--check" else "as it was compiled; not frozen"
        assert line in done.stdout
        assert "toy: not frozen" not in done.stdout


def test_what_is_installed_is_frozen_with_the_values_of_its_entry(
    both: Registries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / ".mcp.json"
    entry: dict[str, Any] = {**ENTRIES["pypi"], "env": {"API_TOKEN": "tok-5f3d9a7b2c"}}
    before = json.dumps({"mcpServers": {"toy": entry}})
    config.write_text(before)
    flags = ["--yes", "--freeze", "--env", "inherit"]  # which names the registries
    assert main([".mcp.json", "--install", *flags, "-o", "toys.py"]) == 0
    installed = json.loads(config.read_text())["mcpServers"]["toy"]
    assert installed["env"].items() >= entry["env"].items()
    assert "deep-dep 1.0.0" in read_contents(tmp_path / "toys.py").frozen["toy"][1]
    assert "tok-5f3d9a7b2c" not in (tmp_path / "toys.py").read_text()
    monkeypatch.setenv("HOME", str(tmp_path))
    both.publish("deep-dep", "1.0.1", GOOD)
    assert main(["--from", "claude-code", "--refresh", "toy"]) == 0
    assert "deep-dep 1.0.1" in read_contents(tmp_path / "toys.py").frozen["toy"][1]
    assert main([".mcp.json", "--install", *flags, "-o", "toys.py"]) == 0
    assert main([".mcp.json", "--uninstall", "--yes"]) == 0
    assert config.read_text() == before


def test_an_installation_is_frozen_at_its_question_and_stays_so(
    both: Registries,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    config, file = tmp_path / ".mcp.json", tmp_path / "toys.py"
    config.write_text(json.dumps({"mcpServers": {"toy": ENTRIES["pypi"]}}))
    install = [".mcp.json", "--install", "--env", "inherit", "-o", "toys.py"]

    def answered(*lines: str) -> int:
        monkeypatch.setattr(sys, "stdin", Typed("".join(lines)))
        return main(install)

    assert answered("f\n", "n\n") == 1
    assert not file.exists()
    printed = capsys.readouterr()
    assert "toy: may start with other dependencies each time" in printed.out
    assert "Install? [y]es / [f]reeze first / [N]o " in printed.err
    assert printed.err.endswith("Install? [y/N] ")
    assert answered("f\n", "y\n") == 0
    frozen_rows = read_contents(file).frozen["toy"]
    assert "deep-dep 1.0.0" in frozen_rows[1]
    both.publish("deep-dep", "1.0.1", BAD)
    assert main([*install, "--yes"]) == 0
    assert read_contents(file).frozen["toy"] == frozen_rows
    servers = json.loads(config.read_text())["mcpServers"]
    servers["local"] = local_server(tmp_path)
    config.write_text(json.dumps({"mcpServers": servers}))
    assert main([*install, "--yes", "--freeze=local"]) == 0
    assert {*read_contents(file).frozen} == {"toy", "local"}
    assert read_contents(file).frozen["toy"] == frozen_rows


def test_an_installation_does_not_advise_again_to_freeze_what_was_refused(
    both: Registries,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = {"command": "uvx", "args": ["--reinstall-package=a", *ENTRIES["pypi"]["args"]]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"toy": entry}}))
    monkeypatch.setattr(sys, "stdin", Typed("f\nn\n"))
    assert main([".mcp.json", "--install", "--env", "inherit", "-o", "toys.py"]) == 1
    printed = capsys.readouterr()
    assert "toy: may start with other dependencies each time" in printed.out
    assert "server 'toy' is not frozen: it gives uvx the option --reinstall-package" in printed.err
    assert "toy: not frozen: the warning about it says why" in printed.out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_what_looks_up_packages(
    tmp_path: Path, both: Registries, kind: str, number: signal.Signals
) -> None:
    registry = both.npm if kind == "npm" else both.pypi
    registry.held = "/deep-dep" if kind == "npm" else "/simple/deep-dep/"
    config, temporary = tmp_path / "mcp.json", tmp_path / "temporary"
    config.write_text(json.dumps({"mcpServers": {"toy": ENTRIES[kind]}}))
    temporary.mkdir()
    command = [sys.executable, "-m", "mcpagg", str(config), "-o", str(tmp_path / "f.py")]
    env = {**os.environ, "TMPDIR": str(temporary)}
    with Wire([*command, "--freeze"], env=env) as wire:
        assert registry.asked_for_held.wait(TIMEOUT)
        tools = wire.family() - {wire.process.pid}
        assert tools
        wire.signal(number)
        assert wire.wait() == (130 if number == signal.SIGINT else -number)
        assert not any(map(alive, tools))
    assert not [path for path in temporary.iterdir() if path.name.startswith("mcpagg-")]


@needs_npm
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_at_once_what_waits_for_a_registry(
    tmp_path: Path, both: Registries, number: signal.Signals
) -> None:
    both.npm.held = "/-/npm/v1/keys"  # asked by the compiler itself
    config, temporary = tmp_path / "mcp.json", tmp_path / "temporary"
    config.write_text(json.dumps({"mcpServers": {"toy": ENTRIES["npm"]}}))
    temporary.mkdir()
    # As if requests had all the time there is.
    patch = (
        "from mcpagg.passes.freezing import provenance as p; p.SECONDS = p.REQUEST_SECONDS = 9e3"
    )
    run = f"import sys; {patch}; from mcpagg.command.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", run, str(config), "-o", str(tmp_path / "f.py"), "--freeze"]
    with Wire(command, env={**os.environ, "TMPDIR": str(temporary)}) as wire:
        assert both.npm.asked_for_held.wait(TIMEOUT)
        wire.signal(number)
        assert wire.wait() == (130 if number == signal.SIGINT else -number)
    assert not [path for path in temporary.iterdir() if path.name.startswith("mcpagg-")]


# What registries say of packages: who has built them, and what is wrong with them


def builders(file: Path) -> list[str]:
    """Return the last field of each line of the server."""
    return [line.split(" ")[-1] for line in read_contents(file).frozen["toy"][1:]]


def changes(out: str) -> list[list[str]]:
    return [[change["class"], change["what"]] for change in json.loads(out)["changes"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_version_that_nobody_has_attested_is_named(
    tmp_path: Path,
    both: Registries,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    registry: Any = both.npm if kind == "npm" else both.pypi
    registry.attest("deep-dep", "1.0.0")
    file = frozen(tmp_path, ENTRIES[kind])
    assert builders(file) == [f"from={REPOSITORY}", "from=none", "from=none"]
    assert said(file) == f"{GOOD} own"
    first = file.read_bytes()
    file.unlink()
    use_machine(both, monkeypatch, "second")
    frozen(tmp_path, ENTRIES[kind])
    assert file.read_bytes() == first

    both.publish("deep-dep", "1.0.1", GOOD)
    capsys.readouterr()
    assert main(["--check", "-o", str(file), "--report", "json"]) == 0
    lost = f"deep-dep 1.0.1: was built by {REPOSITORY}, now by an unknown builder"
    found = changes(capsys.readouterr().out)
    assert found == [["provenance", f"!{lost}"], ["packages", MOVED]]
    assert main(["--check", "-o", str(file), "--fail-on", "provenance"]) == 1
    assert lost in capsys.readouterr().out
    assert file.read_bytes() == first

    assert main(["--refresh", "toy", "-o", str(file)]) == 0
    out = capsys.readouterr()
    assert f"server 'toy': {lost}" in out.err
    assert "toy 1: provenance, packages" in out.out
    assert builders(file) == ["from=none", "from=none", "from=none"]

    registry.attest("deep-dep", "1.0.1")
    registry.broken = "/-/npm/v1/attestations/" if kind == "npm" else "/integrity/"
    assert main(["--refresh", "toy", "-o", str(file)]) == 0
    assert "server 'toy': who has built " in capsys.readouterr().err


NPM_ADVISORY = {
    "id": 1,
    "url": "https://github.com/advisories/GHSA-aaaa-bbbb-cccc",
    "title": "Reads files",
    "severity": "high",
    "vulnerable_versions": "<1.0.1",
    "cwe": [],
    "cvss": {"score": 0, "vectorString": None},
}
OSV_ADVISORY = {
    "id": "GHSA-aaaa-bbbb-cccc",
    "modified": "2026-01-01T00:00:00Z",
    "summary": "Reads files",
    "affected": [
        {
            "package": {"name": "deep-dep", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.0.1"}]}],
        }
    ],
}
ADVISORIES = {
    "npm": "!deep-dep 1.0.0: high: Reads files (GHSA-aaaa-bbbb-cccc); affects <1.0.1",
    "pypi": "!deep-dep 1.0.0: Reads files (GHSA-aaaa-bbbb-cccc); mended in 1.0.1",
}


@pytest.fixture
def osv() -> Iterator[Osv]:
    service = Osv()
    yield service
    service.close()


def use_osv(osv: Osv, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `uv audit` ask a service of ours: uv has an option for that, and no variable."""
    folder.mkdir()
    tools = Path(sys.executable).parent
    uv, uvx = folder / "uv", folder / "uvx"
    uv.write_text(
        f'#!/bin/sh\n[ "$1" = audit ] && set -- "$@" --service-url {osv.url}\n'
        f'exec {tools / "uv"} "$@"\n'
    )
    uvx.write_text(f'#!/bin/sh\nexec {tools / "uvx"} "$@"\n')
    uv.chmod(0o755)
    uvx.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize("kind", KINDS)
def test_a_check_names_advisories_of_what_is_frozen(
    tmp_path: Path,
    both: Registries,
    osv: Osv,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_osv(osv, tmp_path / "tools", monkeypatch)
    file = frozen(tmp_path, ENTRIES[kind])
    both.npm.advisories = {"other-dep": [NPM_ADVISORY]}
    capsys.readouterr()
    assert main(["--check", "-o", str(file)]) == 0
    assert "up to date" in (err := capsys.readouterr().err)
    assert NOT_LEARNT not in err

    both.npm.advisories = {"deep-dep": [NPM_ADVISORY]}
    osv.advisories = {"deep-dep": OSV_ADVISORY}
    assert main(["--check", "-o", str(file), "--report", "json"]) == 0
    assert changes(capsys.readouterr().out) == [["advisories", ADVISORIES[kind]]]
    assert main(["--check", "-o", str(file), "--fail-on", "advisories"]) == 1
    assert ADVISORIES[kind] in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_without_advisories_to_be_had_a_check_says_so_once_and_passes(
    tmp_path: Path, both: Registries, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = frozen(tmp_path, ENTRIES[kind])
    capsys.readouterr()
    for flags in ([], ["-q"]):
        assert main(["--check", *flags, "-o", str(file)]) == 0
        assert capsys.readouterr().err.count(f"{NOT_LEARNT} toy: ") == 1
    asked = len(both.npm.requests) + len(both.pypi.requests)
    assert main(["--check", "--offline", "-o", str(file)]) == 0
    assert NOT_LEARNT not in capsys.readouterr().err
    assert len(both.npm.requests) + len(both.pypi.requests) == asked


def test_a_uv_without_audit_is_not_asked(
    tmp_path: Path,
    both: Registries,
    osv: Osv,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_osv(osv, tmp_path / "tools", monkeypatch)
    uv = tmp_path / "tools" / "uv"
    uv.write_text(uv.read_text().replace("audit ] && set -- ", "audit ] && shift && set -- old-"))
    file = frozen(tmp_path, ENTRIES["pypi"])
    capsys.readouterr()
    assert main(["--check", "-o", str(file)]) == 0
    assert "up to date" in (err := capsys.readouterr().err)
    assert NOT_LEARNT not in err
