"""How the process of a server is started, with and without `subprocess`, and how early."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from proxies import posix

from mcpagg_runtime.serve.lives import Lives
from mcpagg_runtime.spawn import spawning
from mcpagg_runtime.spawn.launch import Launch
from mcpagg_runtime.spawn.spawning import ALLOWED_SIGNERS, Spawned, spawn, spawn_early
from mcpagg_runtime.start import embedded

RUNS = {"command": sys.executable, "args": ["-c", "print(input())"]}


def tables(row: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the tables of a file with one server."""
    return {"servers": json.dumps({"one": row}), "options": "{}", **more}


def test_a_server_runs_and_can_be_spoken_to() -> None:
    spawned = spawn_early(tables(RUNS), __file__, "one")
    assert isinstance(spawned, Spawned)
    stdin, stdout, _ = spawned.pipes
    os.write(stdin, b"hello\n")
    assert os.read(stdout, 100).strip() == b"hello"
    spawned.discard()
    assert spawned.launch.name == "one"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"command": "/nonexistent/program"}, "No such file or directory: '/nonexistent/program'"),
        ({**RUNS, "args": ["${NOT_SET_ANYWHERE}"]}, "NOT_SET_ANYWHERE"),
        ({**RUNS, "args": ["\0"]}, "embedded null byte"),
        ({**RUNS, "env_file": "/nonexistent/file"}, "No such file or directory"),
    ],
)
def test_why_there_is_no_process_is_handed_on(row: Mapping[str, Any], problem: str) -> None:
    before = descriptors()
    found = spawn_early(tables(row), __file__, "one")
    assert isinstance(found, Exception)
    assert problem in str(found)
    assert descriptors() == before


def descriptors() -> list[str]:
    """Return the descriptors of this process, where the system lists them."""
    return os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else []


def test_a_server_elsewhere_is_left_to_the_engine() -> None:
    row = {"url": "http://127.0.0.1:1/mcp", "transport": "http"}
    assert spawn_early(tables(row), __file__, "one") is None


def test_what_is_signed_or_must_be_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spawn_early(tables(RUNS, approval="{}"), __file__, "one") is None
    assert spawn_early(tables(RUNS), __file__, "two") is None
    monkeypatch.setenv(ALLOWED_SIGNERS, "signers")
    assert spawn_early(tables(RUNS), __file__, "one") is None


def launch(*argv: str, cwd: str | None = None, **env: str) -> Launch:
    return Launch([*argv], {**os.environ, **env}, cwd, {})


def said(spawned: Spawned) -> str:
    """Return all that a process says on standard output, and let it go."""
    with os.fdopen(os.dup(spawned.pipes[1])) as output:
        text = output.read()
    spawned.discard()
    return text


WAYS = pytest.mark.parametrize("cwd", [None, "."], ids=["directly", "by subprocess"])


@posix("there is one way to start a process")
@WAYS
@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (None, "[Errno 2] No such file or directory: '{}'"),
        ("", "[Errno 13] Permission denied: '{}'"),
        ("#!/nonexistent/interpreter\n", "[Errno 2] No such file or directory: '{}'"),
        ("no program\n", "[Errno 8] Exec format error: '{}'"),
    ],
)
def test_what_is_no_program_is_refused_in_the_same_words_either_way(
    made: str | None, problem: str, cwd: str | None, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    if made is not None:
        program.write_text(made)
        program.chmod(0o755 if made else 0o644)
    before = descriptors()
    with pytest.raises(OSError, match=r"^\[") as caught:
        spawn(launch(str(program), cwd=cwd))
    assert str(caught.value) == problem.format(program)
    assert descriptors() == before


@posix("there is one way to start a process")
@WAYS
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (launch("/bin/sh", "\0"), "embedded null byte"),
        (launch("/bin/sh", **{"A=B": ""}), "illegal environment variable name"),
        (launch("/bin/sh", "\ud900"), "surrogates not allowed"),
    ],
)
def test_what_cannot_be_given_to_a_program_is_refused_in_the_same_words_either_way(
    wrong: Launch, problem: str, cwd: str | None
) -> None:
    wrong.cwd = cwd
    with pytest.raises(ValueError, match=problem):
        spawn(wrong)


@posix("there is one way to start a process")
@WAYS
def test_a_server_leads_a_session_and_inherits_no_descriptor_of_ours(cwd: str | None) -> None:
    show = "import os; print(os.getsid(0) == os.getpid(), *os.listdir('/dev/fd'))"
    other = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(other, True)
    try:
        leads, *listed = said(spawn(launch(sys.executable, "-c", show, cwd=cwd))).split()
        assert (leads, len(listed)) == ("True", 4)  # the fourth is that of the list itself
        assert os.get_inheritable(other)
    finally:
        os.close(other)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="nobody else tells what is ignored")
@WAYS
def test_a_server_ignores_no_signal_that_python_does(cwd: str | None) -> None:
    status = said(spawn(launch("/bin/cat", "/proc/self/status", cwd=cwd)))
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert not ignored & 1 << signal.SIGPIPE - 1 | ignored & 1 << signal.SIGXFSZ - 1


@posix("there is one way to start a process")
@pytest.mark.parametrize("odd", ["no list", "no sessions", "a name of no length", "beyond"])
def test_where_the_direct_way_lacks_something_the_other_one_is_taken(
    odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(*_: object, **__: object) -> int:
        raise NotImplementedError

    named = launch("/bin/echo", "hello", **({"": "x"} if odd == "a name of no length" else {}))
    if odd == "no list":
        monkeypatch.setitem(spawning.DESCRIPTORS, sys.platform, "/nonexistent")
    elif odd == "no sessions":
        monkeypatch.setattr(os, "posix_spawn", lacks)
    elif odd == "beyond":  # a descriptor that the system's limit does not allow
        monkeypatch.setattr(spawning, "_inheritable", lambda place: [1 << 30])
    assert said(spawn(named)) == "hello\n"


@WAYS
@pytest.mark.parametrize(("code", "status"), [("exit(3)", 3), ("import os; os.kill(0, 9)", -9)])
@posix("there is one way to start a process")
def test_how_a_process_ended_is_told_either_way(cwd: str | None, code: str, status: int) -> None:
    spawned = spawn(launch(sys.executable, "-c", code, cwd=cwd))
    assert (spawned.handle.wait(), spawned.handle.returncode) == (status, status)
    spawned.discard()


def test_a_process_that_nobody_looks_after_is_ended_and_its_pipes_are_closed() -> None:
    forever = ["-c", "import time; print(flush=True); time.sleep(3600)"]
    spawned = spawn(launch(sys.executable, *forever))
    os.read(spawned.pipes[1], 1)
    spawned.discard()
    assert spawned.handle.returncode not in (0, None)
    for descriptor in spawned.pipes:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_descriptor_is_kept_for_what_reports_that_there_are_too_many() -> None:
    lives: list[Any] = [Lives(cast("Any", None), folder) for folder in ("a", "b")]
    [spare] = embedded.SPARE
    assert os.path.samestat(os.fstat(spare), os.stat(os.devnull)), lives
