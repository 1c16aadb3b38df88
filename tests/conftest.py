"""What holds for the whole run.

How hard the property tests try: little by default, "full" in tests/run, and for as long as one has
time with `pytest tests/property --hypothesis-profile thorough`. With which signals the processes of
tests start. For how long discovery waits for news of stubs. What counts as a test of a Windows
Python. And the table of test_eras.py, at the end of the output: a row for each client, a column for
each child.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "full",
    deadline=None,  # of a single example: a busy machine is no fault
    derandomize=True,  # the same examples on every run, so that a red test is red for everybody
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("default", settings.get_profile("full"), max_examples=25)
settings.register_profile(
    "thorough", settings.get_profile("full"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# What `nohup` or a shell's `&` ignores, every process that a test starts would ignore too. A
# handler is not inherited, so here the signals are still ignored, and there they work.
for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"):
    number = getattr(signal, name, None)  # Windows has not all of them
    if number and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda number, frame: None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a test as skipped that was to run something with a Windows Python, and did not."""
    report = yield
    if os.environ.get("MCPAGG_WINDOWS_PYTHON") and "e2e" in item.path.parts and call.when == "call":
        from proxies import went_to_windows

        if report.passed and not went_to_windows:
            path, line, _ = item.location
            report.outcome = "skipped"
            report.longrepr = (path, line or 0, "Skipped: runs nothing with the Windows Python")
        went_to_windows.clear()
    return report


PATIENCE = {"HINT": 0.0, "QUIET": 0.1, "LONGEST": 0.5}
"""Seconds, see `probe`: a stub announces what it will change before it lists anything."""


@pytest.fixture(autouse=True)
def patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have discovery wait less, but for real servers; tests of late lists set their own bounds."""
    if "e2e" in request.path.parts and request.node.get_closest_marker("slow") is None:
        for module in ("inquiry", "probe"):
            for name, seconds in PATIENCE.items():
                monkeypatch.setattr(f"mcpagg.passes.discovery.{module}.{name}", seconds)


@pytest.fixture(scope="session")
def remote() -> Generator[Callable[..., str]]:
    """Return what starts a server of the SDK with some options, and returns its URL.

    See servers/remote.py: all of them are in one process, since importing the SDK takes a second.
    """
    command = [sys.executable, str(Path(__file__).parent / "servers" / "remote.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:

        def start(**options: Any) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{json.dumps(options)}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield start
        process.kill()


Cells = dict[tuple[str, str], dict[str, str]]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what passed between which client and which child."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    found = [value for one in reports for name, value in _properties(one) if name == "eras"]
    cells: Cells = {(client, child): outcomes for client, child, outcomes in found}
    if cells:
        terminalreporter.section("clients and children of every era")
        for line in eras_table(cells):
            terminalreporter.write_line(line)


def _properties(report: Any) -> list[tuple[str, Any]]:
    return list(getattr(report, "user_properties", ()))


def eras_table(cells: Cells) -> list[str]:
    """Return the outcomes as lines: an operation each a letter, and the exceptions by name."""
    clients = list(dict.fromkeys(client for client, _ in cells))
    children = list(dict.fromkeys(child for _, child in cells))
    operations = list(next(iter(cells.values())))
    letters = dict(zip(operations, "abcdefghijklmnopqrstuvwxyz", strict=False))
    wide = max(len(client) for client in clients) + 2
    column = max(len(operations), *(len(child) for child in children)) + 2
    lines = ["".join([" " * wide, *(child.ljust(column) for child in children)]).rstrip()]
    for client in clients:
        row = [_cell(cells.get((client, child)), letters).ljust(column) for child in children]
        lines.append("".join([client.ljust(wide), *row]).rstrip())
    named = [f"{letter} {operation}" for operation, letter in letters.items()]
    lines += ["", *(", ".join(named[at : at + 8]) for at in range(0, len(named), 8))]
    lines.append('"-": the protocol has no such thing for the two; a capital: see below')
    for operation, letter in letters.items():
        for special in sorted({outcomes[operation] for outcomes in cells.values()}):
            if special not in ("-", "passed"):
                pairs = [pair for pair, one in cells.items() if one[operation] == special]
                who = ", ".join(dict.fromkeys(client for client, _ in pairs))
                whom = ", ".join(dict.fromkeys(child for _, child in pairs))
                lines.append(f"{letter.upper()} {operation} {special}: {who} with {whom}")
    return lines


def _cell(outcomes: dict[str, str] | None, letters: dict[str, str]) -> str:
    if outcomes is None:
        return "(not run)"
    marks = {"passed": "{}", "-": "-"}
    shown = [marks.get(outcomes[name], letter.upper()) for name, letter in letters.items()]
    return "".join(one.format(letter) for one, letter in zip(shown, letters.values(), strict=True))
