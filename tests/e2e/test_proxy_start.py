"""What serving needs before it starts, and what a start may take in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, delayed, posix, running, served
from wire import (
    Wire,
    call,
    enveloped,
    initialize,
    start_call,
    stub_entry,
    text,
    tool_names,
    wait_until,
)

from mcpagg_runtime.start.handover import LOG_DIRECTORY

TOKENS = {"FIRST_TOKEN": "sentinel-one", "SECOND_TOKEN": "sentinel-two"}


def entry(log: Path, **options: Any) -> dict[str, Any]:
    """Return the entry of a server that needs two variables and writes `log` once it runs."""
    env = {"A": "${FIRST_TOKEN}", "B": "x-${SECOND_TOKEN}", "C": "${THIRD:-c}"}
    return {**stub_entry(log=str(log), **options), "env": env}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the variables; return where a server that needs them writes what it does."""
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "log"


@pytest.mark.parametrize("arguments", [[], ["--log", "states"]])
def test_a_variable_that_is_not_set_fails_the_start_and_nothing_is_started(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    others = {"x": {**stub_entry(), "args": [*stub_entry()["args"], "${SECOND_TOKEN}"]}}
    file = compiled(tmp_path, {"odd": entry(log), **others})
    log.unlink()
    for name in TOKENS:
        monkeypatch.delenv(name)
    with running(file, *arguments, cwd=tmp_path) as wire:
        assert wire.wait() == 3
        assert wire.stderr.splitlines() == [
            "mcp: server 'odd' cannot be started: not set in the environment: "
            "FIRST_TOKEN (in env.A), SECOND_TOKEN (in env.B)",
            "mcp: server 'x' cannot be started: not set in the environment: "
            "SECOND_TOKEN (in args[4])",
            "mcp: nothing was started; set it in the environment, or in the client's `env` for "
            "this program",
        ]
    assert not log.exists()


def test_what_was_compiled_to_allow_failures_goes_on_without_the_server(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = compiled(tmp_path, {"odd": entry(log), "good": stub_entry()}, "--allow-failed")
    log.unlink()
    monkeypatch.delenv("SECOND_TOKEN")
    with served(file) as wire:
        wire.wait_stderr("server 'odd' cannot be started: .*SECOND_TOKEN")
        assert tool_names(wire) == ["good:echo"]
        assert text(call(wire, "good:echo")) == "{}"
        assert wire.stderr.count("\n") == 1
        assert "SECOND_TOKEN (in env.B)" in call(wire, "odd:echo")["error"]["message"]
    assert not log.exists()


def test_a_variable_of_an_env_file_is_set(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = tmp_path / "variables"
    variables.write_text("FIRST_TOKEN=from-file\n")
    needing = {**entry(log, tools=["env"]), "envFile": str(variables)}
    file = compiled(tmp_path, {"odd": needing})
    monkeypatch.delenv("FIRST_TOKEN")
    with served(file) as wire:
        assert text(call(wire, "odd:env", name="A")) == "from-file"
    variables.write_text("")
    with running(file) as wire:
        assert wire.wait() == 3
        assert "FIRST_TOKEN (in env.A)" in wire.stderr


def test_no_file_beside_it_is_imported(tmp_path: Path) -> None:
    file = compiled(tmp_path, {"good": stub_entry()})
    names = sorted(
        name for name in sys.stdlib_module_names if name not in ("__main__", "__future__")
    )
    for name in names:
        (tmp_path / f"{name}.py").write_text("raise SystemExit(f'{__file__} was imported')\n")
    with Wire([sys.executable, file], cwd=tmp_path) as wire:
        initialize(wire)
        assert text(call(wire, "good:echo")) == "{}"
    for arguments in (["--list"], ["--env", "--json"], ["--check"], ["--call", "good:echo", "{}"]):
        command = [sys.executable, str(file), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("flags", [[], ["-I"], ["-P"]])
def test_what_may_be_imported_is_what_python_was_told(tmp_path: Path, flags: list[str]) -> None:
    file = compiled(tmp_path, {"good": stub_entry()})
    show = "\nimport sys; print(sys.path, file=sys.stderr)\n"
    file.write_text(file.read_text().replace("import sys\n\nif", f"{show}\nif", 1))
    file.write_text(file.read_text().replace("PLAN = {", f"{show}\nPLAN = {{", 1))
    command = [sys.executable, *flags, str(file), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = map(eval, done.stderr.splitlines())
    assert before[:1] == [str(tmp_path)] if not flags else str(tmp_path) not in before
    assert after == [path for path in before if path != str(tmp_path)]


def test_importing_it_leaves_the_path_alone(tmp_path: Path) -> None:
    compiled(tmp_path, {"good": stub_entry()})
    code = "import sys; before = [*sys.path]; import server; assert sys.path == before"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ)


def test_a_variable_with_a_default_in_one_place_alone_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "sentinel-value")
    env = {"A": "${SOME_TOKEN:-none}", "B": "${SOME_TOKEN}", "C": "${OTHER:-none}"}
    file = compiled(tmp_path, {"odd": {**stub_entry(), "env": env}})
    assert '\n "needs": ["SOME_TOKEN"],\n' in file.read_text()
    monkeypatch.delenv("SOME_TOKEN")
    with running(file) as wire:
        assert wire.wait() == 3
        assert "environment: SOME_TOKEN (in env.B)\n" in wire.stderr


@pytest.mark.parametrize("logs", [False, True])
def test_prepared_answers_need_no_other_part_on_any_system_and_with_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: bool
) -> None:
    if logs:
        monkeypatch.setenv(LOG_DIRECTORY, str(tmp_path))
    file = compiled(tmp_path, {"a": stub_entry()}, "--start", "lazy")
    delayed(file, "stdio.stdio", "import os\nos._exit(7)\n")
    with running(file) as wire:
        initialize(wire)
        assert tool_names(wire) == ["a:echo"]
        assert wire.request("ping")["result"] == {}
        wire.end_input()
        assert wire.wait() == 0


@pytest.mark.parametrize("start", ["lazy", "eager"])
def test_what_comes_after_prepared_answers_is_logged_where_a_directory_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setenv(LOG_DIRECTORY, str(tmp_path))
    file = compiled(tmp_path, {"a": stub_entry()}, "--start", start, "--name", "team/a: x?")
    with served(file) as wire:
        assert tool_names(wire) == ["a:echo"]
        assert text(call(wire, "a:echo")) == "{}"
        wire.end_input()
        assert wire.wait() == 0
    lines = (tmp_path / "team_a_ x_.log").read_bytes().splitlines(keepends=True)
    states = [json.loads(line)["state"] for line in lines]
    assert states[:3] == ["queued", "starting", "ready"]
    assert not any(b"\r" in line for line in lines)


def test_a_log_that_cannot_be_written_ends_the_proxy_before_any_server_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    file = compiled(tmp_path, {"a": stub_entry(log=str(log))}, "--start", "lazy")
    log.unlink()
    monkeypatch.setenv(LOG_DIRECTORY, str(tmp_path / "none"))
    with served(file) as wire:
        start_call(wire, "a:echo")
        assert wire.wait() == 2
        assert "cannot write the log" in wire.stderr
    assert not log.exists()


@posix("there no process can send itself a signal")
@pytest.mark.parametrize("module", ["stdio.stdio", "stdio.engine"])
def test_a_signal_while_the_rest_is_compiled_ends_the_proxy(tmp_path: Path, module: str) -> None:
    file = compiled(tmp_path, {"one": stub_entry()}, "--start", "lazy")
    delayed(file, module, "import os\nos.kill(os.getpid(), 15)\n")
    with served(file) as wire:
        start_call(wire, "one:echo")
        assert wire.wait() == 0
        assert wire.family() == set()


@pytest.mark.parametrize("is_modern", [False, True])
def test_a_client_that_never_stops_asking_keeps_no_server_from_starting(
    tmp_path: Path, is_modern: bool
) -> None:
    log = tmp_path / "log"
    file = compiled(tmp_path, {"one": stub_entry(log=str(log))})
    log.unlink()
    with running(file) as wire:
        if not is_modern:
            initialize(wire)
        params = enveloped() if is_modern else None
        wait_until(lambda: wire.request("tools/list", params)["result"] and log.exists())
