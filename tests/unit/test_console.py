"""What people are told while a compilation goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpagg.command import console
from mcpagg.command.console import NEWS_SECONDS, Console
from mcpagg.passes.discovery import inquiry
from mcpagg.passes.discovery.discovery import INSTALLING, Awaited, discover
from mcpagg.passes.discovery.probe_connection import ServerFault
from mcpagg.problems import ChildFault, ConfigError, Problem
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.processes.reasons import key_lines

AWAITED = [
    Awaited("new", 2.0),
    Awaited("old", 34.2, lambda: "Downloading pandas"),
    Awaited("next"),
    Awaited("last"),
]
LINE = "  waiting for 4: old (34 s; Downloading pandas), new (2 s), 2 more after them"


class Clock:
    """The seconds of a test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_told_now_and_then_who_is_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    told = Console("mcp.json", now=clock)

    def after(seconds: float) -> str:
        clock.now += seconds
        told.waiting(AWAITED)
        return capsys.readouterr().err

    assert after(NEWS_SECONDS - 1) == ""
    assert after(1) == f"{LINE}\n"
    assert after(NEWS_SECONDS - 1) == ""
    told.progress("quick", "1 tool, 0.3 s")
    assert capsys.readouterr().err == "  quick: 1 tool, 0.3 s\n"
    assert after(1) == ""  # that was news
    assert after(NEWS_SECONDS) == f"{LINE}\n"
    told.waiting([])
    assert capsys.readouterr().err == ""


def test_a_terminal_has_one_line_that_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console, "is_terminal", lambda stream: True)
    monkeypatch.setattr(console, "rewrite", lines.append)
    monkeypatch.setenv("COLUMNS", "40")
    told = Console("mcp.json")
    told.waiting(AWAITED)
    told.progress("old", "failed, 35.0 s")
    told.waiting([])
    assert lines == [LINE[:39], "", ""]
    assert capsys.readouterr().err == "  old: failed, 35.0 s\n"


def test_quiet_leaves_warnings_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    told = Console("mcp.json", quiet=True, now=clock)
    clock.now = 2 * NEWS_SECONDS
    told.waiting(AWAITED)
    told.progress("a", "1 tool, 0.3 s")
    told.warn([Problem("s.a", "is odd")])
    told.progress("", "ending 1 server…")
    told.failed([Problem("s.b", "server 'b' broke")], "0 servers of 1 came up")
    told.tell_failures()
    told.tell_failures()
    assert capsys.readouterr().err.splitlines() == [
        "mcp.json:",
        "  warning: s.a: is odd",
        "ending 1 server…",
        "1 server failed:",
        "  s.b: server 'b' broke",
        "  0 servers of 1 came up",
    ]


def test_the_config_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    told = Console("/a/long/way/mcp.json")
    told.warn([])
    told.warn([Problem("s.a.k", "x"), Problem("s.b.k", "x"), Problem("s.c", "y", "do z")], ["s.a"])
    told.tell_fault(ConfigError("/a/long/way/mcp.json", [Problem("s.d", "is bad")], "so"))
    assert capsys.readouterr().err.splitlines() == [
        "/a/long/way/mcp.json:",
        "  warning: s.a.k: x (2 places in 1 server, see -v)",
        "  warning: s.c: y; do z",
        "1 error:",
        "  s.d: is bad",
        "  so",
    ]
    Console("mcp.json").tell_fault(ConfigError("mcp.json", [Problem("s.d", "is bad")], "so"))
    assert capsys.readouterr().err == "mcp.json: s.d: is bad\nmcp.json: so\n"
    told.tell_fault(ChildFault("server.py", [Problem("", "a\n    b"), Problem("", "c")], "so"))
    assert capsys.readouterr().err == ("server.py:\n2 servers failed:\n  a\n      b\n  c\n  so\n")


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["only"], ["only"]),
        (
            ["Error: no context", *(f"  --flag-{n}  which error" for n in range(40)), "Use --help"],
            ["Error: no context", "Use --help"],
        ),
        (
            ["begin", *(f"line {n}" for n in range(30))],
            ["begin", "line 0", "…", "line 27", "line 28", "line 29"],
        ),
        (
            [*(f"line {n}" for n in range(9)), "fatal: it broke", *(f"at {n}" for n in range(9))],
            ["line 0", "line 1", "…", "fatal: it broke", "…", "at 7", "at 8"],
        ),
    ],
)
def test_of_many_lines_those_that_give_the_reason_are_shown(
    lines: list[str], shown: list[str]
) -> None:
    assert key_lines(lines, 5, is_whole=True) == shown


def test_the_first_lines_of_what_was_cut_are_no_beginning() -> None:
    lines = [f"line {number}" for number in range(30)]
    assert key_lines(lines, 3, is_whole=False) == lines[-3:]


class Crowd:
    """Counts who is being started; each waits until as many are as may be."""

    def __init__(self) -> None:
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._full = threading.Barrier(INSTALLING)

    def connect(self, *_: Any) -> None:
        """Take the place of a start."""
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._full.wait()
        with self._lock:
            self._now -= 1
        self._full.wait()
        raise ServerFault("is not wanted")


def test_package_managers_install_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd()
    monkeypatch.setattr(inquiry.Inquiry, "connect", crowd.connect)
    servers = tuple(
        ServerSpec(name=f"s{number}", path="s", command="npx", args=("-y", f"p{number}"))
        for number in range(3 * INSTALLING)
    )
    spec = ProxySpec(source="mcp.json", folder=Path("/"), servers=servers)
    told: list[Sequence[Awaited]] = []
    found = discover(spec, os.environ, waiting=told.append)
    assert crowd.most == INSTALLING
    assert len(found.failures) == 3 * INSTALLING
    assert told[-1] == []
