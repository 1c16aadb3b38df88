"""The command line of a file with frozen servers: what of them is on this machine, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.prefetch import Prefetch
from mcpagg_runtime.servers.lifecycle import DOWN
from mcpagg_runtime.tool.commands import CommandLine as PlainCommandLine
from mcpagg_runtime.tool.inspection import check_servers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.start.handover import Handover

_NOT_STARTED: dict[str, Any] = {"state": DOWN, "protocol": None, "drift": {}, "started_in": None}


def run_command(plan: Plan, folder: str, arguments: list[str], handover: Handover) -> int:
    """Run the command line; return the exit status. See `tool.commands`."""
    return CommandLine(plan, folder).run(arguments, handover)


class CommandLine(PlainCommandLine):
    """The command line of a file that has frozen servers."""

    commands = (*PlainCommandLine.commands, "prefetch")

    def _add_commands(self, add: Callable[..., object]) -> None:
        super()._add_commands(add)
        about = "install what servers start, all or these; nothing is started"
        add("--prefetch", nargs="*", metavar="NAME", help=about)

    def _add_options(self, add: Callable[..., object]) -> None:
        about = "prefetch: fetch nothing, name the missing"
        add("--offline", action="store_true", help=about)
        add("--deep", action="store_true", help="check: read every file of installed trees")
        super()._add_options(add)

    def _rules(self, chosen: argparse.Namespace) -> list[tuple[bool, str]]:
        command = self.command(chosen)
        return [
            (chosen.offline and command != "prefetch", "--offline goes with --prefetch"),
            (chosen.deep and command != "check", "--deep goes with --check"),
            *super()._rules(chosen),
        ]

    def _do(self, command: str, chosen: argparse.Namespace) -> int:
        if command == "prefetch":
            return self._prefetch().run(chosen.prefetch, offline=chosen.offline)
        return super()._do(command, chosen)

    def _checked(self, chosen: argparse.Namespace) -> dict[str, dict[str, Any]]:
        """Return {server: its health}; what is not as it was installed is not started."""
        known = self._prefetch()
        damages = known.damages(deep=chosen.deep)
        sound = [name for name in self.plan.servers if name not in damages]
        found = check_servers(self.plan, self.folder, sound)
        return {
            name: {
                **(found.get(name) or {**_NOT_STARTED, "reason": damages[name]}),
                "frozen": name in known.names,
            }
            for name in self.plan.servers
        }

    def _health_line(self, name: str, health: dict[str, Any]) -> str:
        return super()._health_line(name, health) + ("" if health["frozen"] else "; not frozen")

    def _environment(self) -> tuple[dict[str, Any], list[str]]:
        return self._with_states(*super()._environment())

    def _listing(self) -> tuple[dict[str, Any], list[str]]:
        return self._with_states(*super()._listing())

    def _with_states(
        self, document: dict[str, Any], lines: list[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return what is said of a file, and whether what is frozen of it is installed."""
        known = self._prefetch().states()
        states = {name: known.get(name) for name in self.plan.servers}
        shown = [
            f"{name}: frozen: {state}" if state else f"{name}: not frozen"
            for name, state in states.items()
        ]
        return {**document, "frozen": states}, [*lines, *shown]

    def _prefetch(self) -> Prefetch:
        return Prefetch(self.plan, self.folder)
