"""For `--prefetch`, `--check`, `--list` and `--env`: what of frozen servers is on this machine."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.servers import FrozenServers, frozen_table
from mcpagg_runtime.frozen.table import FrozenError
from mcpagg_runtime.launch.launch import Launch, Launches, MissingVariables
from mcpagg_runtime.launch.secrecy import shown
from mcpagg_runtime.processes.threads import join, start_thread
from mcpagg_runtime.stdio.standard import print_error
from mcpagg_runtime.tool.printing import print_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcpagg_runtime.plan.plan import Plan


class Prefetch:
    """The frozen servers of a file on this machine, none of which is started."""

    def __init__(self, plan: Plan, folder: str) -> None:
        table = frozen_table(plan)
        self.names = [name for name in table if name in plan.servers]
        """The frozen servers."""
        self._frozen = FrozenServers(table, folder, os.environ)
        self._launches = Launches(
            plan.whole.servers, os.environ, folder, plan.options.env == "minimal"
        )

    def states(self) -> dict[str, str]:
        """Return {server: what is frozen of it, and whether that is installed}."""
        return {name: self._said(self._frozen.state, name) for name in self.names}

    def damages(self, *, deep: bool) -> dict[str, str]:
        """Return {server: what of its tree is not as it was installed}."""
        damage = partial(self._frozen.damage, deep=deep)
        found = {name: self._said(damage, name) for name in self.names}
        return {name: damage for name, damage in found.items() if damage}

    def run(self, names: list[str], *, offline: bool) -> int:
        """Install what servers start, or say what is not there; return the exit status."""
        if unknown := [name for name in names if name not in self.names]:
            frozen = ", ".join(self.names)
            print_error(f"--prefetch: {', '.join(unknown)} is not frozen; frozen are: {frozen}")
            return 2
        done = self.fetch(names or self.names, offline=offline)
        lines = [
            f"{name}: {'' if ok else 'not there: '}{what}" for name, (ok, what) in done.items()
        ]
        return print_lines(lines) or (0 if all(ok for ok, _ in done.values()) else 1)

    def fetch(self, names: Iterable[str], *, offline: bool) -> dict[str, tuple[bool, str]]:
        """Have all on this machine that servers start, or look whether it is there.

        Returns {server: (whether it is, what that is, or why not)}.
        """
        done: dict[str, tuple[bool, str]] = {}

        known = self._frozen

        def look(launch: Launch) -> str:
            return known.require(launch) if offline else known.fetch(launch, lambda what: None)

        def fetch(name: str) -> None:
            done[name] = self._found(look, name)

        threads = [(name, start_thread(fetch, name)) for name in names]
        try:
            for name, thread in threads:
                if thread is None:
                    fetch(name)
                else:
                    join(thread)
        finally:
            self._frozen.end()
        return {name: done[name] for name, _ in threads}

    def _launch(self, name: str) -> Launch:
        """Return how a server is started; what no server is started with may lack variables."""
        try:
            return self._launches.prepare(name)
        except (MissingVariables, OSError, ValueError):
            command = self._launches.rows[name].get("command", "")
            return Launch([command], dict(os.environ), None, {}, name=name)

    def _said(self, look: Callable[[Launch], str], name: str) -> str:
        """Return what is known of a server, or why nothing is."""
        return self._found(look, name)[1]

    def _found(self, look: Callable[[Launch], str], name: str) -> tuple[bool, str]:
        """Return whether something is known of a server, and that, or why nothing is.

        Installers name what they were given: values of variables are redacted.
        """
        launch = self._launch(name)
        try:
            return True, look(launch)
        except (FrozenError, OSError) as problem:
            return False, shown(str(problem), launch.redact)
