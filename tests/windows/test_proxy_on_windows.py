"""What only Windows asks of the emitted file, run by the Windows Python that README.md tells of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from proxies import WINDOWS_PYTHON, compiled, for_windows, running, windows_executable
from wire import STUB, Wire, call, initialize, stub_entry, text, wait_until

pytestmark = pytest.mark.skipif(
    not WINDOWS_PYTHON, reason="MCPAGG_WINDOWS_PYTHON names no Windows Python"
)

AWKWARD = [
    "a b",
    "",
    "https://x/?a=1&b=2",
    "^ < > | ( ) !",
    'say "x"',
    "C:\\dir\\",
    "日本",
]
"""Arguments that the shell of Windows, or the C runtime, takes apart unless they are quoted."""


RESULT = '{"content":[{"type":"text","text":"日本"}]}'


def there(path: Path) -> str:
    """Return a path of this system as Windows has it."""
    return "Z:" + str(path).replace("/", "\\")


def serve(file: Path, **environ: str) -> Wire:
    """Run an emitted file with some variables, and shake hands with it."""
    wire = running(file, env={**os.environ, **environ}, cwd=file.parent)
    try:
        initialize(wire)
    except BaseException:
        wire.kill()
        raise
    return wire


def script(path: Path, text: str) -> None:
    """Write an executable script, as it is."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o755)


def launcher(folder: Path) -> None:
    """Write a launcher as npm writes it: a script of this system, and beside it one of Windows."""
    command = " ".join(f'"{word}"' for word in STUB)
    options = folder / "options.json"
    options.write_text(json.dumps({"tools": ["where"]}))
    script(folder / "launch", f'#!/bin/sh\nexec {command} "@{options}" "$@"\n')
    words = " ".join(f'"{word}"' for word in [windows_executable(), *STUB[1:], f"@{options}"])
    script(folder / "launch.cmd", f"@echo off\r\n{words} %*\r\n")


@pytest.mark.parametrize("command", ["launch", "${BIN_FOLDER}/launch"])
def test_a_batch_file_gets_its_arguments_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    folder = tmp_path / "my tools"
    folder.mkdir()
    launcher(folder)
    path = {"PATH": "${BIN_PATH}"}
    entry = {"command": command, "args": AWKWARD, "env": path}
    monkeypatch.setenv("BIN_FOLDER", str(folder))
    monkeypatch.setenv("BIN_PATH", f"{folder}:/usr/bin:/bin")
    file = compiled(tmp_path, {"a": entry})
    where = there(folder)
    with serve(file, BIN_FOLDER=where, BIN_PATH=f"{where};C:\\windows\\system32") as wire:
        assert json.loads(text(call(wire, "a:where")))["argv"][1:] == AWKWARD


def test_nothing_is_started_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher(tmp_path)
    (tmp_path / "launch.exe").write_bytes(b"MZ planted")
    monkeypatch.setenv("BIN_PATH", f"{tmp_path}:/usr/bin:/bin")
    file = compiled(tmp_path, {"a": {"command": "launch", "env": {"PATH": "${BIN_PATH}"}}})
    with serve(file, BIN_PATH=".;C:\\windows") as wire:
        answer = call(wire, "a:where")
    assert "launch is not on the PATH: searched ${BIN_PATH}" in answer["error"]["message"]


def test_a_variable_of_one_server_is_no_others_in_whatever_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MySecret", "s3cret-value")
    monkeypatch.setenv("MySetting", "outer")
    servers = {
        "a": {**stub_entry(tools=["env"]), "env": {"K": "${MySecret}", "mysetting": "own"}},
        "b": stub_entry(tools=["env"]),
    }
    with serve(compiled(tmp_path, servers)) as wire:
        own, other = (json.loads(text(call(wire, f"{name}:env"))) for name in "ab")
    assert (own["K"], own["MYSETTING"]) == ("s3cret-value", "own")
    assert not {"MYSECRET", "MYSETTING"} & {*other}


@pytest.fixture
def spawning(tmp_path: Path) -> Path:
    """The emitted file of a server that does not heed the end of its input, with a descendant."""
    options = {"tools": ["echo", "die"], "at": {"start": [{"spawn": 1}], "eof": [{"hang": 1}]}}
    return compiled(tmp_path, {"a": stub_entry(**options, log=str(tmp_path / "log"))})


def descendants(folder: Path) -> list[str]:
    """Return the command lines of what runs with something of a folder, the proxy excepted."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(os.fsencode(folder / "log") in word for word in words):
            found.append(os.fsdecode(b" ".join(words)))
    return found


@pytest.mark.parametrize("how", ["end of input", "killed", "the server dies"])
def test_nothing_of_a_server_is_left(spawning: Path, tmp_path: Path, how: str) -> None:
    with serve(spawning) as wire:
        call(wire, "a:echo")
        assert len(descendants(tmp_path)) == 2
        if how == "end of input":
            wire.end_input()
            assert wire.wait() == 0
        elif how == "killed":
            wire.process.kill()
            wire.process.wait()
        else:
            call(wire, "a:die", exit=3)
        wait_until(lambda: not descendants(tmp_path))


def test_a_crash_is_named_as_windows_numbers_it(tmp_path: Path) -> None:
    with serve(compiled(tmp_path, {"a": stub_entry(tools=["die"])})) as wire:
        answer = call(wire, "a:die", exit=0xC0000005 - (1 << 32))
    assert "crashed with 0xC0000005 (access violation)" in answer["error"]["message"]


@pytest.mark.parametrize("size", [1, 1 << 22])
def test_lines_of_any_length_pass_in_both_directions(tmp_path: Path, size: int) -> None:
    with serve(compiled(tmp_path, {"a": stub_entry(tools=["echo"])})) as wire:
        assert text(call(wire, "a:echo", x="é" * size)) == json.dumps(
            {"x": "é" * size}, separators=(",", ":")
        )


def test_what_programs_read_is_utf_8_whatever_the_code_page(tmp_path: Path) -> None:
    file = compiled(
        tmp_path,
        {"a": stub_entry(tools=["big"], does={"big": {"do": "raw_result", "json": RESULT}})},
    )
    with running(file, "--call", "a:big", "{}") as wire:
        wire.end_input()
        assert wire.wait() == 0
    assert "日本" in b"\n".join(line.raw for line in wire.unread).decode()


@pytest.mark.parametrize("moment", ["before any server", "with a server", "in a call"])
def test_ctrl_c_is_heard_whatever_is_waited_for(tmp_path: Path, moment: str) -> None:
    log, pressed = tmp_path / "log", tmp_path / "pressed"
    stuck = {"call stuck": [{"hang": 1}]}
    entry = stub_entry(tools=["echo", "stuck"], at=stuck, log=str(log))
    file = for_windows(compiled(tmp_path, {"a": entry}))
    log.unlink()
    arguments = ["--call", "a:stuck", "{}"] if moment == "in a call" else []
    console = Path(__file__).with_name("console.py")
    with Wire([WINDOWS_PYTHON, "-I", console, pressed, file, *arguments]) as wire:
        if moment == "in a call":
            wait_until(lambda: log.exists() and "tools/call" in log.read_text())
        elif moment == "with a server":
            initialize(wire)
            assert text(call(wire, "a:echo")) == "{}"
        else:
            wire.request("initialize", {})
        pressed.touch()
        assert wire.wait() == 0
    wait_until(lambda: not descendants(tmp_path))
