"""Runs the tools that resolve: npm, uv, docker."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.launch.platforms import command_line, find_program
from mcpagg_runtime.processes.spawning import KILL, group_of, start_options

SECONDS, REPORT_SECONDS = 600.0, 60.0
"""How long a tool may take to resolve, and to report on what is frozen."""
_SHOWN_LINES = 6
_NPM_LINES = 3
_NOISE = re.compile(r"^npm (?:error|ERR!) (?:A complete log|\s*$|.*_logs/)|^npm (?:warn|WARN)")
_PREFIX = re.compile(r"^npm (?:error|ERR!) ")


_running: set[Callable[[], object]] = set()
"""What ends each tool that runs, and other work that waits for a registry."""


class Unresolved(Exception):
    """Raised when a tool could not say what to freeze; the text is its reason, on one line."""


class Tool:
    """A program that is asked, with the environment of a server."""

    def __init__(
        self, name: str, launch: Launch, needed: str, defaults: Mapping[str, str] | None = None
    ) -> None:
        """It lies beside the server's own command, or on the PATH; `needed` says how to get it.

        `defaults` are variables for where the server has no such ones.

        Raises:
            Unresolved: it is not installed.
        """
        beside = {**launch.env, "PATH": os.path.dirname(launch.argv[0])}
        path = find_program(name, beside, "") or find_program(name, launch.env, "")
        if path is None:
            raise Unresolved(f"{name} is not on the PATH: {needed}")
        self._name = name
        self._path = path
        self.env = {**(defaults or {}), **launch.env}

    def run(self, args: Sequence[str], folder: Path) -> str:
        """Return what it prints when run in a folder.

        Raises:
            Unresolved: it fails, or takes too long.
        """
        done = self._done(args, folder, SECONDS)
        if done.returncode:
            raise Unresolved(self._reason(done.stderr))
        return done.stdout

    def report(self, args: Sequence[str], folder: Path, member: str) -> Any:
        """Return a member of what it reports as JSON: with exit 1, where there is something.

        Raises:
            Unresolved: it fails, or takes too long.
        """
        done = self._done(args, folder, REPORT_SECONDS)
        try:
            return json.loads(done.stdout)[member]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Unresolved(self._reason(done.stderr)) from None

    def _done(
        self, args: Sequence[str], folder: Path, seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Return what came of it.

        Raises:
            Unresolved: it cannot be run, or takes too long.
        """
        try:
            return _run([self._path, *args], folder, self.env, seconds)
        except (OSError, ValueError) as problem:
            raise Unresolved(f"{self._name} cannot be run: {problem}") from None
        except subprocess.TimeoutExpired:
            raise Unresolved(f"{self._name} took more than {seconds:g} seconds") from None

    def _reason(self, words: str) -> str:
        """Return what it says of its failure: of npm without its notes, of the rest the end."""
        lines = [line for line in words.splitlines() if line.strip() and not _NOISE.match(line)]
        is_npm = any(_PREFIX.match(line) for line in lines)
        shown = [
            _PREFIX.sub("", line).strip() for line in lines if not is_npm or _PREFIX.match(line)
        ]
        chosen = shown[:_NPM_LINES] if is_npm else shown[-_SHOWN_LINES:]
        return f"{self._name} says: {' '.join(chosen) or 'nothing'}"


def _run(
    command: list[str], folder: Path, env: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end, and end with it, or with its time, what it has started."""
    with subprocess.Popen(  # noqa: S603 - a tool that the server's command names
        command_line(command),
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        **start_options(),
    ) as popen:
        kill = partial(group_of(popen).signal, KILL)
        with ended_with_tools(kill):
            try:
                output, errors = popen.communicate(timeout=seconds)
            finally:
                kill()
    return subprocess.CompletedProcess(command, popen.returncode, output, errors)


@contextmanager
def ended_with_tools(end: Callable[[], object]) -> Iterator[None]:
    """Have `end_tools` call `end` meanwhile; it must wait for nothing."""
    _running.add(end)
    try:
        yield
    finally:
        _running.discard(end)


def end_tools() -> None:
    """End the tools that run now, and what waits for a registry; waits for nothing."""
    for end in list(_running):
        end()
