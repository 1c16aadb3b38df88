"""The process of a server that is started before the part that serves calls is compiled."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from mcpagg_runtime.spawn.early import ALLOWED_SIGNERS, spawn_early
from mcpagg_runtime.spawn.launch import Launch
from mcpagg_runtime.spawn.spawning import spawn

RUNS = {"command": sys.executable, "args": ["-c", "print(input())"]}


def tables(row: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the tables of a file with one server."""
    return {"servers": json.dumps({"one": row}), "options": "{}", **more}


def test_a_server_runs_and_can_be_spoken_to() -> None:
    spawned = spawn_early(tables(RUNS), __file__, "one")
    assert spawned is not None
    stdin, stdout, _ = spawned.pipes
    os.write(stdin, b"hello\n")
    assert os.read(stdout, 100).strip() == b"hello"
    spawned.discard()
    assert spawned.launch.name == "one"


@pytest.mark.parametrize(
    "row",
    [
        {"url": "http://127.0.0.1:1/mcp", "transport": "http"},
        {"command": "/nonexistent/program"},
        {**RUNS, "args": ["${NOT_SET_ANYWHERE}"]},
        {**RUNS, "args": ["\0"]},
        {**RUNS, "env_file": "/nonexistent/file"},
    ],
)
def test_what_cannot_be_started_is_left_to_the_engine(row: Mapping[str, Any]) -> None:
    before = os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else []
    assert spawn_early(tables(row), __file__, "one") is None
    assert (os.listdir("/dev/fd") if before else []) == before


def test_what_is_signed_or_must_be_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spawn_early(tables(RUNS, approval="{}"), __file__, "one") is None
    assert spawn_early(tables(RUNS), __file__, "two") is None
    monkeypatch.setenv(ALLOWED_SIGNERS, "signers")
    assert spawn_early(tables(RUNS), __file__, "one") is None


def test_a_process_that_nobody_looks_after_is_ended_and_its_pipes_are_closed() -> None:
    forever = ["-c", "import time; print(flush=True); time.sleep(3600)"]
    spawned = spawn(Launch([sys.executable, *forever], dict(os.environ), None, {}))
    os.read(spawned.pipes[1], 1)
    spawned.discard()
    assert spawned.popen.returncode not in (0, None)
    for descriptor in spawned.pipes:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
