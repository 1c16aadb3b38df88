"""Where systems differ, asked for each of them on whatever system the tests run."""

from __future__ import annotations

import ntpath
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shells import runs
from wire import TIMEOUT

from mcpagg_runtime.launch import launch
from mcpagg_runtime.launch.launch import Launches
from mcpagg_runtime.launch.platforms import (
    find_program,
    own_folder,
    variable_key,
)
from mcpagg_runtime.launch.windows_programs import (
    LONGEST_LINE,
    batch_line,
    find_windows_program,
    is_batch_file,
    shell_command,
)
from mcpagg_runtime.processes import threads, writer
from mcpagg_runtime.processes.polling import Stopped
from mcpagg_runtime.processes.reasons import (
    exit_reason,
    has_crashed,
    not_found,
    status_text,
    where_to_find,
)
from mcpagg_runtime.processes.writer import Writer
from mcpagg_runtime.stdio import stdio, windows_input
from mcpagg_runtime.stdio.log_file import log_name, open_to_append

FILES = {
    "c:\\node\\npx",  # what node lays beside it, for a shell of another system
    "c:\\node\\npx.cmd",
    "c:\\node\\node.exe",
    "c:\\scripts\\node.cmd",
    "c:\\tools\\tool.exe",
    "c:\\tools\\tool.bat",
    "c:\\tools\\page.html",
    "c:\\tools\\python3.11.exe",
    "c:\\project\\srv\\run.cmd",
    "c:\\project\\planted.exe",
}
ENV = {"PATH": 'C:\\node; "C:\\scripts" ;.;;bin;C:\\tools'}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("npx", "C:\\node\\npx.cmd"),
        ("NPX.CMD", "C:\\node\\NPX.CMD"),
        ("node", "C:\\node\\node.exe"),
        ("node.cmd", "C:\\scripts\\node.cmd"),
        ("tool", "C:\\tools\\tool.exe"),
        ("python3.11", "C:\\tools\\python3.11.exe"),
        ("page.html", None),
        ("planted", None),
        ("srv\\run", "C:\\project\\srv\\run.cmd"),
        (".\\srv\\run.cmd", "C:\\project\\.\\srv\\run.cmd"),
        ("srv/run", "C:\\project\\srv/run.cmd"),
        ("C:\\node\\node", "C:\\node\\node.exe"),
        ("C:\\node\\none", None),
    ],
)
def test_windows_programs_are_looked_up_with_their_suffixes(
    command: str, found: str | None
) -> None:
    def is_file(path: str) -> bool:
        return ntpath.normpath(path).lower() in FILES

    assert find_windows_program(command, ENV, "C:\\project", is_file, ntpath) == found


def test_the_order_of_suffixes_is_that_of_the_childs_own_variable() -> None:
    env = {**ENV, "PATHEXT": ".JS;.BAT;.EXE"}
    found = find_windows_program("tool", env, "C:\\", lambda path: path.lower() in FILES, ntpath)
    assert found == "C:\\tools\\tool.bat"


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("", '""'),
        ("plain", '"plain"'),
        ("a b", '"a b"'),
        ("https://x/?a=1&b=2", '"https://x/?a=1&b=2"'),
        ("^ < > | ( ) !", '"^ < > | ( ) !"'),
        ('say "x"', '"say ""x"""'),
        ("C:\\dir\\", '"C:\\dir\\\\"'),
        ('\\"', '"\\\\"""'),
        ("%PATH%", '"%%cd:~,%PATH%%cd:~,%"'),
        ("100%", '"100%%cd:~,%"'),
        ("日本", '"日本"'),
    ],
)
def test_an_argument_of_a_batch_file_arrives_as_it_is(word: str, line: str) -> None:
    assert batch_line(["C:\\x y\\run.cmd", word]) == f'"C:\\x y\\run.cmd" {line}'
    assert runs(batch_line(["C:\\x y\\run.cmd", word])) == ["C:\\x y\\run.cmd", word]


@pytest.mark.parametrize("character", ["\0", "\r", "\n"])
def test_what_a_batch_file_cannot_be_given_is_refused(character: str) -> None:
    with pytest.raises(ValueError, match="line break or a NUL"):
        batch_line(["C:\\run.cmd", f"a{character}b"])


def test_the_shell_is_the_systems_own_and_runs_nothing_before() -> None:
    assert shell_command('"C:\\x.cmd" "a"', {"SYSTEMROOT": "D:\\Win"}) == (
        '"D:\\Win\\System32\\cmd.exe" /e:ON /v:OFF /d /s /c ""C:\\x.cmd" "a""'
    )


def test_only_batch_files_need_the_shell() -> None:
    programs = ["c:\\x.CMD", "c:\\x.bat", "c:\\cmd.exe", "c:\\x.com"]
    assert [is_batch_file(program) for program in programs] == [True, True, False, False]


@pytest.mark.skipif(sys.platform == "win32", reason="finds programs as POSIX does")
def test_a_program_is_found_on_the_childs_own_path(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.touch()
    env = {"PATH": f"/nowhere:{tool.parent}"}
    assert find_program("tool", env, "/") is None
    tool.chmod(0o755)
    assert find_program("tool", env, "/") == str(tool)
    assert find_program("tool", {"PATH": "bin"}, str(tmp_path)) == str(tool)
    assert find_program("bin/tool", {}, str(tmp_path)) == str(tool)
    assert find_program("bin", {"PATH": str(tmp_path)}, "/") is None


@pytest.mark.skipif(sys.platform == "win32", reason="the folders are those of other systems")
def test_a_program_that_only_shells_find_is_said_to_be_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    searched = "some-tool is not on the PATH: searched /usr/bin:/bin:/usr/sbin:/sbin; "
    assert not_found("some-tool", path) == searched + "install it, or write its absolute path"
    older, tool = (
        tmp_path / ".nvm/versions/node" / version / "bin/some-tool"
        for version in ("v20.1.0", "v22.3.0")
    )
    for each in (older, tool):
        each.parent.mkdir(parents=True)
        each.touch(0o755)
    assert not_found("some-tool", path) == (
        f"{searched}write {tool} as `command`, or add its folder to PATH in `env`"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the folders are those of other systems")
def test_what_a_desktop_lacks_is_advised_as_the_path_of_the_clients_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name, line in {"my-tool": "#!/usr/bin/env my-node", "my-node": "#!/bin/sh"}.items():
        place = tmp_path / ".volta/bin" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(line)
        place.chmod(0o755)
    path = f"{tmp_path}/.volta/bin:/usr/bin:/bin"
    advice = f'write "env": {{"PATH": "{path}"}} in the entry of this proxy in your client'
    env = {"PATH": "/usr/bin:/bin"}
    assert not_found("my-tool", env) == (
        "my-tool is not on the PATH: searched /usr/bin:/bin; "
        f"{advice}, or {tmp_path}/.volta/bin/my-tool as `command`, and compile again"
    )
    launch = Launches({"a": {"command": str(tmp_path / ".volta/bin/my-tool")}}, env, "/").prepare(
        "a"
    )
    assert exit_reason(127, launch).startswith(
        f"exited with status 127: my-node is not on the PATH: searched /usr/bin:/bin; {advice}"
    )
    assert exit_reason(1, launch) == "exited with status 1"
    (tmp_path / ".volta/bin/my-node").rename(tmp_path / "my-node")
    (tmp_path / ".bun/bin").mkdir(parents=True)
    (tmp_path / "my-node").rename(tmp_path / ".bun/bin/my-node")
    folders = f"{tmp_path}/.volta/bin:{tmp_path}/.bun/bin"
    assert f'{{"PATH": "{folders}:/usr/bin:/bin"}}' in not_found("my-tool", env)
    monkeypatch.setenv("MCPAGG_PATH", "")
    assert not_found("my-tool", env).endswith(
        f"; write {folders} in the field PATH of the extension"
    )
    assert "as `command`" in not_found("my-tool", {"PATH": "/of/the/config"})


@pytest.mark.skipif(sys.platform == "win32", reason="the folders are those of other systems")
def test_of_several_versions_the_newest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for version in ("v9.9.0", "v22.3.0", "v22.10.0"):
        tool = tmp_path / f".nvm/versions/node/{version}/bin/some-tool"
        tool.parent.mkdir(parents=True)
        tool.touch(0o755)
    assert "/v22.10.0/bin/some-tool as `command`" in where_to_find("some-tool")
    assert "nvm which current" in where_to_find("nvm")


@pytest.mark.parametrize(("windows", "key"), [(True, "PATH"), (False, "Path")])
def test_windows_ignores_the_case_of_variables(
    windows: bool, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpagg_runtime.launch.platforms.WINDOWS", windows)
    assert variable_key("Path") == key


@pytest.fixture
def windows_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have environments ignore the case of names."""
    monkeypatch.setattr(launch, "variable_key", str.upper)


@pytest.mark.usefixtures("windows_names")
def test_a_variable_in_another_case_is_hidden_from_other_servers() -> None:
    rows: dict[str, dict[str, Any]] = {
        "a": {"command": "x", "env": {"K": "${MySecret}"}},
        "b": {"command": "x"},
    }
    environ = {"MYSECRET": "s3cret", "HTTP_PROXY": "http://p"}
    assert launch.Launches(rows, environ, "/").prepare("a").env["K"] == "s3cret"
    assert launch.Launches(rows, environ, "/").prepare("b").env == {"HTTP_PROXY": "http://p"}


@pytest.mark.usefixtures("windows_names")
def test_a_child_gets_one_spelling_of_a_variable(tmp_path: Path) -> None:
    (tmp_path / "vars").write_text("mode=file\n")
    row = {
        "command": "${tool}",
        "args": ["${PATH}", "${Mode}"],
        "env": {"Path": "C:\\own;${PATH}", "Tool": "x"},
        "env_file": "vars",
    }
    environ = {"PATH": "C:\\bin", "MODE": "outer"}
    ready = launch.Launches({"a": row}, environ, str(tmp_path)).prepare("a")
    assert ready.env == {"PATH": "C:\\own;C:\\bin", "MODE": "file", "TOOL": "x"}
    assert ready.argv == ["x", "C:\\own;C:\\bin", "file"]


@pytest.mark.parametrize(
    ("status", "words", "by_itself"),
    [
        (0, "exited with status 0", True),
        (3, "exited with status 3", True),
        (259, "exited with status 259", True),
        (-9, "was killed by SIGKILL", False),
        (-99, "was killed by signal 99", False),
        (0xC0000005, "crashed with 0xC0000005 (access violation)", False),
        (0xC0000BAD, "crashed with 0xC0000BAD", False),
        (0xC000013A, "was interrupted", False),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="names a signal of other systems")
def test_how_a_process_ended_is_said_in_words(status: int, words: str, by_itself: bool) -> None:
    assert status_text(status) == words
    assert has_crashed(status) is not by_itself


def test_a_pipe_stays_blocking_where_nothing_can_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = []
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        sizes.append(len(data))
        return real(descriptor, data)

    monkeypatch.setattr(writer, "POLLS", False)
    monkeypatch.setattr(os, "write", write)
    read_end, write_end = os.pipe()
    out = Writer(write_end, private=True)
    assert os.get_blocking(write_end)
    out.send(b"x" * (1 << 21) + b"\n")
    with open(read_end, "rb") as pipe:
        assert len(pipe.readline()) == (1 << 21) + 1
    assert out.flush(TIMEOUT)
    out.close()
    assert max(sizes) == writer.PIECE  # so that a slow reader is seen to read


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A pipe that is read in the place of standard input; the end to write to."""
    read_end, write_end = os.pipe()
    real = os.read
    monkeypatch.setattr(
        os,
        "read",
        lambda number, size: real(read_end if number == 0 else number, size),
    )
    yield write_end
    os.close(read_end)


def test_a_thread_reads_standard_input_one_piece_ahead(standard_input: int) -> None:
    read_end, write_end = os.pipe()
    source = windows_input.ThreadedInput(Writer(write_end, private=False))
    assert not source.ready(0)
    os.write(standard_input, b"one\n")
    assert source.ready(TIMEOUT)
    os.write(standard_input, b"two\n")
    assert source.read() == b"one\n"
    assert source.read() == b"two\n"
    os.close(standard_input)
    assert source.ready(TIMEOUT)
    assert source.read() == b""
    os.close(read_end)
    os.close(write_end)


def test_input_that_cannot_be_read_is_a_fault_of_whoever_reads(
    standard_input: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int, size: int) -> bytes:
        raise IsADirectoryError(21, "Is a directory")

    monkeypatch.setattr(os, "read", fail)
    source = windows_input.ThreadedInput(Writer(os.dup(standard_input), private=False))
    with pytest.raises(IsADirectoryError):
        source.read()
    source.output.close()
    os.close(standard_input)


def test_a_client_that_is_gone_ends_the_waiting_for_its_input(standard_input: int) -> None:
    output = Writer(os.dup(standard_input), private=False)
    source = windows_input.ThreadedInput(output)
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(Stopped):
            source.read()
        ended.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    output.broken = True
    assert ended.wait(TIMEOUT)
    waiter.join(TIMEOUT)
    output.close()
    os.close(standard_input)


def test_standard_input_is_waited_for_as_the_system_can(
    monkeypatch: pytest.MonkeyPatch, standard_input: int
) -> None:
    monkeypatch.setattr(stdio, "POLLS", False)
    output = Writer(os.dup(standard_input), private=False)
    assert isinstance(stdio._new_input(output), windows_input.ThreadedInput)
    output.close()
    os.close(standard_input)


def test_a_batch_file_gets_no_line_that_is_longer_than_its_shell_takes() -> None:
    assert batch_line(["t.cmd", "y" * (LONGEST_LINE - 10)])
    for word in ("y" * LONGEST_LINE, '"' * (LONGEST_LINE // 2)):
        with pytest.raises(ValueError, match="takes no more than 8,000 characters"):
            batch_line(["t.cmd", word])


def test_a_log_is_opened_so_that_windows_itself_puts_each_line_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Any, ...]] = []

    def answer(given: tuple[Any, ...], found: int) -> int:
        asked.append(given)
        return found

    system, library = ModuleType("_winapi"), ModuleType("msvcrt")
    system.CreateFile = lambda *given: answer(given, 7)  # type: ignore[attr-defined]
    library.open_osfhandle = lambda *given: answer(given, 3)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "_winapi", system)
    monkeypatch.setitem(sys.modules, "msvcrt", library)
    assert open_to_append("C:\\log") == 3
    (path, access, *_), (handle, flags) = asked
    writes, appends, is_appended = 2, 4, 8  # FILE_WRITE_DATA, FILE_APPEND_DATA; O_APPEND
    assert (path, access & (writes | appends), handle, flags & is_appended) == (
        "C:\\log",
        appends,
        7,
        0,
    )


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_windows_keeps_the_drive_that_leads_to_the_file_unless_it_is_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    share, drive = tmp_path / "share", tmp_path / "drive"
    share.mkdir()
    drive.symlink_to(share)
    (share / "server.py").touch()
    (tmp_path / "link.py").symlink_to(share / "server.py")
    monkeypatch.setattr(sys, "platform", platform)
    kept = drive if platform == "win32" else share
    assert own_folder(str(drive / "server.py")) == str(kept)
    assert own_folder(str(tmp_path / "link.py")) == str(share)
    monkeypatch.chdir(share)
    assert own_folder("server.py") == str(share)


def test_a_thread_is_waited_for_in_steps_between_which_a_signal_is_heard() -> None:
    waits: list[float] = []

    class Thread(threading.Thread):
        def is_alive(self) -> bool:
            return len(waits) < 3

        def join(self, timeout: float | None = None) -> None:
            assert timeout is not None
            waits.append(timeout)

    threads.join(Thread())
    assert waits == [threads.SIGNAL_SECONDS] * 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("team/tools: x?", "team_tools_ x_.log"),
        ("a\\b", "a_b.log"),
        ("日本\n", "日本_.log"),
        ("Con", "_Con.log"),
        ("com1.old", "_com1.old.log"),
        ("console", "console.log"),
    ],
)
def test_a_log_has_the_same_name_on_every_system(name: str, expected: str) -> None:
    assert log_name(name) == expected
