"""Servers that a package manager starts: which version ran, and what a second run asks again."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from clock import LIMIT, skipping
from wire import STUB, TIMEOUT, events, started, stub_entry

from mcpagg.command.cli import main
from mcpagg.passes.discovery import cache

pytestmark = pytest.mark.skipif(
    not os.path.isdir("/proc/self"), reason="needs Linux's /proc, to see what was started"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a program `npx` that fetches packages whose servers are stubs."""
    npx = tmp_path / "bin/npx"
    npx.parent.mkdir()
    program = f"{tmp_path}/cache/node_modules/.bin/${{1%@*}}"
    npx.write_text(f'#!/bin/sh\nexec {sys.executable} "{program}" "$2"\n')
    npx.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npx.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path


def package(folder: Path, name: str, version: str = "1.2.3", **options: Any) -> dict[str, Any]:
    """Publish a package; return the entry of its server, which says another version of itself."""
    modules = folder / "cache/node_modules"
    (modules / name).mkdir(parents=True)
    (modules / name / "package.json").write_text(json.dumps({"version": version}))
    (modules / ".bin").mkdir(exist_ok=True)
    script = modules / name / "index.py"
    script.write_text(f"import runpy\nrunpy.run_path({STUB[-1]!r}, run_name='__main__')\n")
    (modules / ".bin" / name).symlink_to(script)
    behaviour = folder / f"{name}.json"
    behaviour.write_text(json.dumps(options))
    return {"command": "npx", "args": [name, f"@{behaviour}"]}


def config(folder: Path, servers: dict[str, Any]) -> str:
    """Write a config; return its path."""
    file = folder / "mcp.json"
    file.write_text("// mine\n" + json.dumps({"mcpServers": servers}, indent=1))
    return str(file)


def test_the_version_to_write_is_the_one_that_ran(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {"a": package(folder, "pa"), "b": package(folder, "pb", "0.9.1"), "c": stub_entry()}
    file = config(folder, servers)
    os.chmod(file, 0o664)  # wider than the umask
    assert main([file, "-o", str(folder / "server.py")]) == 0
    assert "2 servers without an exact version, so that" in capsys.readouterr().err
    assert main([file, "-o", str(folder / "server.py"), "-v"]) == 0
    told = capsys.readouterr().err
    assert "a.args[0]: pa has no exact version: a start may run another one; write pa@1.2.3" in told

    before = Path(file).read_text()
    assert main([file, "--pin"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        '  mcpServers.a.args[0]: write "pa@1.2.3" instead of "pa"',
        '  mcpServers.b.args[0]: write "pb@0.9.1" instead of "pb"',
    ]
    assert "  c: " not in said.err  # it was not started
    assert Path(file).read_text() == before

    assert main([file, "--pin", "--yes"]) == 0
    after = before.replace('"pa"', '"pa@1.2.3"').replace('"pb"', '"pb@0.9.1"')
    assert Path(file).read_text() == after
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o664
    capsys.readouterr()
    assert main([file, "--pin", "--yes"]) == 0
    assert (
        capsys.readouterr().out
        == f"{file}: 0 versions written\nevery package has an exact version\n"
    )


def test_a_server_that_fails_has_no_version_to_write(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {"a": package(folder, "pa"), "b": package(folder, "pb", at={"start": [{"exit": 3}]})}
    file = config(folder, servers)
    assert main([file, "--pin", "--yes"]) == 4
    said = capsys.readouterr()
    assert '"pa@1.2.3"' in Path(file).read_text()
    assert "  mcpServers.b.args[0]: what ran is not known; `npm view pb version` says" in said.out
    assert "1 server failed:\n  mcpServers.b: server 'b' exited with status 3" in said.err


@pytest.mark.parametrize(
    "words", [["--pin", "-o", "x.py"], ["--pin", "--check"], ["--yes"], ["--pin", "--dry-run"]]
)
def test_what_pin_does_not_go_with_is_refused(folder: Path, words: list[str]) -> None:
    assert main([config(folder, {"a": stub_entry()}), *words]) == 2


def test_a_second_run_asks_only_what_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = folder / "log"
    slow = package(folder, "slow", tools=["a", "b"], log=str(log))
    slow["env"] = {"K": "${SOME_WORD}"}
    monkeypatch.setenv("SOME_WORD", "sentinel-value")
    own = folder / "own"
    bad = package(folder, "bad", at={"start": [{"exit": 3}]})
    file = config(folder, {"slow": slow, "bad": bad, "own": stub_entry(log=str(own))})
    command = [file, "-o", str(folder / "server.py")]

    def starts() -> tuple[int, int]:
        return len(events(log, "start")), len(events(own, "start"))

    assert main(command) == 4
    assert capsys.readouterr().err.endswith("the next run does not ask 1 server again\n")
    first = starts()
    [record] = (folder / "xdg/mcpagg").iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    assert "sentinel-value" not in record.read_text()

    assert main(command) == 4
    said = capsys.readouterr().err
    assert "1 server not asked again, from the run that failed 0 s ago: slow" in said
    second = starts()
    assert second[0] == first[0]
    assert second[1] > first[1]  # somebody may be at work on it

    # Another value of a variable, or too long ago: another server.
    monkeypatch.setenv("SOME_WORD", "another-value")
    assert main(command) == 4
    assert starts()[0] == 2 * first[0]
    monkeypatch.setattr(cache, "CACHE_SECONDS", -1.0)
    assert main(command) == 4
    assert starts()[0] == 3 * first[0]
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SOME_WORD", "another-value")

    (folder / "bad.json").write_text("{}")
    record.write_text("no JSON")
    assert main(command) == 0
    assert starts()[0] == 4 * first[0]
    assert not record.exists()


def test_what_is_compared_is_asked_each_time(folder: Path) -> None:
    log = folder / "log"
    slow = package(folder, "slow", log=str(log))
    file = str(folder / "server.py")
    assert main([config(folder, {"slow": slow}), "-o", file, "-q"]) == 0
    bad = package(folder, "bad", at={"start": [{"exit": 3}]})
    command = [config(folder, {"slow": slow, "bad": bad}), "-o", file, "-q"]
    assert main(command) == 4
    before = len(events(log, "start"))
    assert main([*command, "--check"]) == 4
    assert len(events(log, "start")) > before


def test_more_time_is_advised_to_those_that_were_late(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = folder / "log"
    servers = {
        "late": stub_entry(answers={"tools/list": None}, log=str(log)),
        "dead": {"command": "false"},
    }
    command = [config(folder, servers), "-o", str(folder / "server.py")]
    with skipping(log, ("tools/list", LIMIT)):
        assert main([*command, "--connect-timeout", f"{LIMIT:g}"]) == 4
    said = capsys.readouterr().err
    assert f"; --connect-timeout S gives late more than {LIMIT:g} seconds; --skip NAME" in said


def test_an_interruption_says_at_once_what_it_does(folder: Path) -> None:
    log = folder / "log"
    os.mkfifo(log)
    servers = {"a": stub_entry(answers={"initialize": None}, log=str(log))}
    command = [sys.executable, "-m", "mcpagg", config(folder, servers), "-o", str(folder / "s.py")]
    pipe = subprocess.PIPE
    with (
        os.fdopen(os.open(log, os.O_RDWR), encoding="utf-8") as news,
        started(command, stderr=pipe, stdout=pipe, text=True) as process,
    ):
        while json.loads(news.readline())["event"] != "line":
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)
    assert said.splitlines() == ["ending 1 server… (again: at once)", "interrupted"]
    assert process.returncode == 130
