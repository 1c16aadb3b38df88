"""How the process of a server is started, and what it is given."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from proxies import posix

from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.processes.spawning import SpawnedProcess, spawn
from mcpagg_runtime.start import embedded
from mcpagg_runtime.stdio.supervisor import Supervisor


def descriptors() -> list[str]:
    """Return the descriptors of this process, where the system lists them."""
    return os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else []


def launch(*argv: str, **env: str) -> Launch:
    return Launch([*argv], {**os.environ, **env}, None, {})


def said(spawned: SpawnedProcess) -> str:
    """Return all that a process says on standard output, and let it go."""
    with os.fdopen(os.dup(spawned.pipes[1])) as output:
        text = output.read()
    spawned.discard()
    return text


def test_a_server_runs_and_can_be_spoken_to() -> None:
    spawned = spawn(launch(sys.executable, "-c", "print(input())"))
    stdin, stdout, _ = spawned.pipes
    os.write(stdin, b"hello\n")
    assert os.read(stdout, 100).strip() == b"hello"
    spawned.discard()


@posix("other words, no sessions")
@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (None, "[Errno 2] No such file or directory: '{}'"),
        ("", "[Errno 13] Permission denied: '{}'"),
        ("#!/nonexistent/interpreter\n", "[Errno 2] No such file or directory: '{}'"),
        ("no program\n", "[Errno 8] Exec format error: '{}'"),
    ],
)
def test_what_is_no_program_is_refused(made: str | None, problem: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    if made is not None:
        program.write_text(made)
        program.chmod(0o755 if made else 0o644)
    before = descriptors()
    with pytest.raises(OSError, match=r"^\[") as caught:
        spawn(launch(str(program)))
    assert str(caught.value) == problem.format(program)
    assert descriptors() == before


@posix("other words, no sessions")
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (launch("/bin/sh", "\0"), "embedded null byte"),
        (launch("/bin/sh", **{"A=B": ""}), "illegal environment variable name"),
        (launch("/bin/sh", "\ud900"), "surrogates not allowed"),
    ],
)
def test_what_cannot_be_given_to_a_program_is_refused(wrong: Launch, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        spawn(wrong)


@posix("other words, no sessions")
def test_a_server_leads_a_session_and_inherits_no_descriptor_of_ours() -> None:
    show = "import os; print(os.getsid(0) == os.getpid(), *os.listdir('/dev/fd'))"
    other = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(other, True)
    try:
        leads, *listed = said(spawn(launch(sys.executable, "-c", show))).split()
        assert (leads, len(listed)) == ("True", 4)  # the fourth is that of the list itself
        assert os.get_inheritable(other)
    finally:
        os.close(other)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="nobody else tells what is ignored")
def test_a_server_ignores_no_signal_that_python_does() -> None:
    status = said(spawn(launch("/bin/cat", "/proc/self/status")))
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert not ignored & 1 << signal.SIGPIPE - 1 | ignored & 1 << signal.SIGXFSZ - 1


@pytest.mark.parametrize(("code", "status"), [("exit(3)", 3), ("import os; os.kill(0, 9)", -9)])
@posix("other words, no sessions")
def test_how_a_process_ended_is_told(code: str, status: int) -> None:
    spawned = spawn(launch(sys.executable, "-c", code))
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
    supervisors = [Supervisor(Mock(), folder) for folder in ("a", "b")]
    [spare] = embedded.SPARE
    assert os.path.samestat(os.fstat(spare), os.stat(os.devnull)), supervisors


def test_a_start_that_fails_after_a_later_one_has_begun_does_not_end_that() -> None:
    host, child = Mock(**{"plan.whole.servers": {}}), Mock()
    supervisor = Supervisor(host, "/")
    latest = supervisor._starts[child] = object()
    supervisor._run(child, object())
    assert host.attempt.call_count == 0
    supervisor._run(child, latest)
    assert host.attempt.call_count == 1
