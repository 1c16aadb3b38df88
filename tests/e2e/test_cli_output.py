"""What the command line writes, whatever becomes of it: streams, names, line ends, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, write_config
from wire import stub_entry

from mcpagg import compiling
from mcpagg.command.cli import INTERNAL_FAULT, main
from mcpagg.passes.emission.output import check_target, write
from mcpagg.problems import ConfigError
from mcpagg_runtime.launch import platforms

COMMAND = [sys.executable, "-m", "mcpagg"]
FULL = Path("/dev/full")


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command in a process of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    done = subprocess.run([*COMMAND, *map(str, arguments)], check=False, **options)
    assert b"Traceback" not in (done.stderr or b"")
    return done


def closing(descriptor: int, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command with one of its standard streams closed."""
    script = f'exec "$@" {descriptor}>&-'
    return run_shell(script, *arguments)


def run_shell(script: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command by a shell, which has it as its arguments."""
    command = ["sh", "-c", script, "sh", *COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False)


def drifted(folder: Path) -> Path:
    """Return an emitted file that is not what compiling now would write."""
    file = compiled(folder, {"one": stub_entry(tools=["a"])})
    write_config(folder, {"one": stub_entry(tools=["b"])})
    return file


# --- Locales ----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_a_locale_that_lacks_a_character_ends_nothing(tmp_path: Path, encoding: str) -> None:
    config = write_config(tmp_path, {"one": stub_entry(tools=["日本"])})
    environ = {**os.environ, "PYTHONIOENCODING": encoding}
    done = run(config, "-o", tmp_path / "server.py", env=environ)
    assert done.returncode == 0, done.stderr
    shown = "one:日本" if encoding == "utf-8" else r"one:\u65e5\u672c"
    assert f"one: {shown}".encode(encoding) in done.stdout
    assert run("--help", env=environ).returncode == 0
    # What programs read is UTF-8 all the same.
    written = run(config, "-o", "-", env=environ, cwd=tmp_path).stdout
    assert '"one:日本"'.encode() in written
    report = run(config, "--dry-run", "--report", "json", env=environ).stdout
    assert json.loads(report.decode("utf-8"))["servers"][0]["name"] == "one"


# --- Streams that are full, closed, or read by nobody -------------------------------------------


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is full")
@pytest.mark.parametrize(
    ("flags", "status"),
    [
        (["mcp.json", "-o", "-"], 2),
        (["mcp.json", "--dry-run", "--report", "json"], 2),
        (["mcp.json", "--dry-run"], 0),
        (["mcp.json", "-o", "server.py"], 0),
        (["--check", "-o", "server.py"], 1),
        (["--help"], 0),
        (["--version"], 0),
    ],
)
def test_a_full_standard_output_is_no_drift(tmp_path: Path, flags: list[str], status: int) -> None:
    file = drifted(tmp_path)
    before = file.read_bytes()
    with FULL.open("wb") as full:
        done = run(*flags, stdout=full, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert (b"standard output: cannot be written: No space" in done.stderr) == (status == 2)
    assert (file.read_bytes() != before) == ("server.py" in flags and "--check" not in flags)


def test_a_closed_standard_output_is_said(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"one": stub_entry()})
    done = closing(1, config, "-q", "-o", "-")
    assert (done.returncode, done.stderr) == (
        2,
        b"standard output: cannot be written: it is closed\n",
    )
    assert closing(1, config, "-o", tmp_path / "server.py").returncode == 0
    assert (tmp_path / "server.py").exists()


def test_a_closed_standard_error_costs_the_messages_alone(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"one": {**stub_entry(), "odd": 1}})
    done = closing(2, config, "-o", "-")
    assert done.returncode == 0
    assert done.stdout.startswith(b"#!/usr/bin/env python3\n")
    assert b"mcp.json: warning" not in done.stdout
    assert (closing(2, tmp_path / "none.json").returncode, closing(2, "--no").returncode) == (2, 2)


@pytest.mark.parametrize(("script", "reason"), [('exec "$@" <&-', b"it is closed")])
def test_a_closed_standard_input_is_said(script: str, reason: bytes) -> None:
    done = run_shell(script, "-")
    assert (done.returncode, done.stderr) == (
        2,
        b"standard input: cannot be read: " + reason + b"\n",
    )


@pytest.mark.parametrize(("flags", "status"), [(["--check"], 1), (["--offline"], 0)])
def test_a_reader_that_has_enough_changes_no_status(
    tmp_path: Path, flags: list[str], status: int
) -> None:
    file = drifted(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert run(*flags, "-o", file, stdout=writing).returncode == status
    finally:
        os.close(writing)


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo terminal")
def test_a_terminal_is_not_filled_with_the_proxy(tmp_path: Path) -> None:
    write_config(tmp_path, {"one": stub_entry(log=str(tmp_path / "log"))})
    reading, writing = os.openpty()
    try:
        done = run("mcp.json", stdout=writing, cwd=tmp_path)
        assert run("mcp.json", "--dry-run", stdout=writing, cwd=tmp_path).returncode == 0
    finally:
        os.close(writing)
        os.close(reading)
    assert done.returncode == 2
    assert b"give -o FILE, or -o - for standard output\n" in done.stderr
    assert not (tmp_path / "log").exists()


# --- Files --------------------------------------------------------------------------------------


def test_a_name_may_be_as_long_as_the_system_lets_it(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"one": stub_entry()})
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    name = "x" * (longest - 3) + ".py"
    assert main([str(config), "-q", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).exists()
    assert main([str(config), "-q", "-o", str(tmp_path / f"x{name}")]) == 2
    assert main(["--check", "-o", str(tmp_path / f"x{name}")]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mcp.json", name]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("none/server.py", "none does not exist; create it, or choose another FILE"),
        ("folder", "is a folder; choose another FILE"),
        ("mcp.json", "is no file that mcpagg-compile wrote"),
    ],
)
def test_a_file_that_cannot_be_written_is_found_before_a_server_is_started(
    tmp_path: Path, target: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    config = write_config(tmp_path, {"one": stub_entry(log=str(log))})
    (tmp_path / "folder").mkdir()
    assert main([str(config), "-o", str(tmp_path / target)]) == 2
    assert says in capsys.readouterr().err
    assert not log.exists()


def test_two_files_cannot_have_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, {"one": stub_entry()})
    page = str(tmp_path / "x.html")
    (tmp_path / "link.html").symlink_to(page)
    link = str(tmp_path / "link.html")
    for flags in (["-o", page, "--report", page], ["-o", "-", "--report", page, "--sbom", link]):
        assert main([str(config), *flags]) == 2
        assert "two files would have one name; give -o" in capsys.readouterr().err
        assert not Path(page).exists()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device without an end")
def test_nothing_is_read_of_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, {"one": stub_entry()})
    assert main([str(config), "-q", "-o", "/dev/zero"]) == 0
    assert main([str(config), "-q", "-o", "/dev/zero", "--check"]) == 1
    assert "is missing, or empty" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_found_as_early(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o555)
    with pytest.raises(ConfigError, match="cannot be written to"):
        check_target(folder / "server.py")


def test_line_ends_of_a_checkout_are_no_drift(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = compiled(tmp_path, {"one": stub_entry()})
    text = file.read_bytes()
    file.write_bytes(text.replace(b"\n", b"\r\n"))
    assert main(["--check", "-o", str(file)]) == 0
    assert "`server.py text eol=lf` in .gitattributes" in capsys.readouterr().err
    file.write_bytes(text.replace(b"\nSERVERS", b"\n#\rSERVERS"))  # Python ends a line there
    assert main(["--check", "-o", str(file)]) == 1
    file.write_bytes(text.replace(b"\n", b"\r\n"))
    assert main(["--offline", "-q", "-o", str(file)]) == 0
    assert file.read_bytes() == text


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_leaves_no_temporary_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the text stands under its temporary name, and is handled when it is gone."""
    number, seen = signal.Signals[name], []
    before = signal.signal(number, lambda *_: seen.append(os.listdir(tmp_path)))
    monkeypatch.setattr(os, "fsync", lambda _: signal.raise_signal(number))
    try:
        write(tmp_path / "server.py", b"text")
    finally:
        signal.signal(number, before)
    assert seen == [["server.py"]]
    assert (tmp_path / "server.py").read_text() == "text"


def test_a_full_disk_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "server.py"
    file.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        write(file, b"text")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


# --- Faults of our own --------------------------------------------------------------------------


def test_a_fault_of_our_own_is_no_drift_and_shows_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BaseExceptionGroup("", [KeyError("sentinel-value")])

    config = write_config(tmp_path, {"one": stub_entry()})
    monkeypatch.setattr(compiling, "compile_proxy", broken)
    assert main([str(config), "-o", str(tmp_path / "server.py")]) == INTERNAL_FAULT
    said = capsys.readouterr().err
    assert said.startswith("internal fault: KeyError in ")
    assert "sentinel" not in said


@pytest.mark.parametrize("windows", [True, False])
def test_who_can_read_credentials_is_said_where_the_mode_does_not_decide(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    windows: bool,
) -> None:
    file = compiled(tmp_path, {"a": stub_entry()}, "--allow-secrets")
    monkeypatch.setattr(platforms, "WINDOWS", windows)
    arguments = ["--offline", "--allow-secrets", "-o", str(file)]
    assert main([str(tmp_path / "mcp.json"), *arguments]) == 0
    said = "the permissions of its folder decide who can read it"
    assert (said in "".join(capsys.readouterr())) is windows
