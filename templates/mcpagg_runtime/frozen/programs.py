"""Runs the programs that install a tree, one after the other, as a group that can be ended."""

from __future__ import annotations

import os
import subprocess
import tempfile
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.environment import of_installers
from mcpagg_runtime.frozen.table import FrozenError
from mcpagg_runtime.launch.platforms import WINDOWS, command_line, find_program
from mcpagg_runtime.processes.reasons import where_to_find
from mcpagg_runtime.processes.spawning import KILL, lead_group, start_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import IO

    from mcpagg_runtime.processes.spawning import Group

LIMIT_SECONDS = 600.0
POLL_SECONDS = 0.05
REPORT_SECONDS = 2.0
OUTPUT_BYTES = 1 << 16


class Programs:
    """Runs the programs of one installation, until it is ended, or its time is up."""

    def __init__(
        self,
        env: Mapping[str, str],
        folder: str,
        beside: str,
        report: Callable[[], None],
    ) -> None:
        """`env` is that of the server, `folder` what relative paths of its PATH are meant from.

        `beside` is the folder of the config's own command, "" if that is not known. `report` is
        called now and then while they run.
        """
        self.env = of_installers(env, beside)
        self.held: Iterable[int] = ()
        """Descriptors that they keep open, and what is locked by them locked."""
        self._folder = folder
        self._report = report
        self._reported = monotonic()
        self._deadline = monotonic() + LIMIT_SECONDS
        self._group: Group | None = None
        self._is_ended = False

    def find(self, name: str) -> str | None:
        """Return the path of a program, None if there is none."""
        return find_program(name, self.env, self._folder)

    def needed(self, name: str, why: str) -> str:
        """Return the path of a program; `why` says what for, and when.

        Raises:
            FrozenError: there is none.
        """
        found = self.find(name)
        if found is None:
            searched, remedy = self.env.get("PATH", ""), where_to_find(name)
            raise FrozenError(
                f"{name} is needed {why}, and is not on the PATH: searched {searched}; {remedy}"
            )
        return found

    def hold_nothing(self) -> None:
        """Let what is started from now on keep nothing locked.

        For what runs code of packages: something that this leaves behind for ever would lock the
        tree for as long, though the proxy was killed.
        """
        self.held = ()

    def run(self, command: list[str], folder: str) -> tuple[int, str]:
        """Run a program in a folder; return its exit status, and the end of what it has written.

        Raises:
            FrozenError: it cannot be started, or was ended, or its time is up.
            OSError: nothing can be written any more.
        """
        with tempfile.TemporaryFile() as output:
            popen = self._started(command, folder, output)
            try:
                self._group = lead_group(popen.pid)
                while popen.poll() is None:
                    self._wait(popen)
            finally:
                self.kill()  # and what it has started and left behind
                if popen.returncode is None:
                    popen.kill()
                    popen.wait()
                self._group = None
            output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_BYTES))
            written = output.read().decode("utf-8", "replace")
        return popen.returncode, written

    def _started(
        self, command: list[str], folder: str, output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                command_line(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=folder,
                pass_fds=() if WINDOWS else tuple(self.held),
                **start_options(),
            )
        except (OSError, ValueError) as problem:
            raise FrozenError(f"{command[0]} cannot be started: {problem}") from problem

    def _wait(self, popen: subprocess.Popen[bytes]) -> None:
        self.check()
        try:
            popen.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            return

    def check(self, why: str = "") -> None:
        """Report that it takes long, now and then; `why` is said of it where that is known.

        Raises:
            FrozenError: it is to end.
        """
        now = monotonic()
        if self._is_ended:
            raise FrozenError("it was being installed when the proxy ended")
        if now > self._deadline:
            raise FrozenError(f"it was not installed within {LIMIT_SECONDS:g} s{why}")
        if now > self._reported + REPORT_SECONDS:
            self._reported = now
            self._report()

    def end(self) -> None:
        """End what runs, and let nothing start any more; waits for nothing."""
        self._is_ended = True
        self.kill()

    def kill(self) -> None:
        """Kill what runs."""
        group = self._group
        if group is not None:
            group.signal(KILL)
