"""The command line of the emitted file."""

from __future__ import annotations

import argparse
import os
import signal
from typing import TYPE_CHECKING

from mcpagg_runtime.clients.profiles import narrowed, profile_names
from mcpagg_runtime.launch.approval import NotApproved, signer_of
from mcpagg_runtime.plan.face import UnknownServer, served
from mcpagg_runtime.start.digest import DIGEST, LEAST_DIGITS, for_entry, is_digest
from mcpagg_runtime.start.handover import ENDING, LOG_DIRECTORY, LOG_LEVEL
from mcpagg_runtime.stdio.log_file import is_debug, open_log_at, path_in
from mcpagg_runtime.stdio.standard import print_error
from mcpagg_runtime.stdio.stdio import MISSING_VARIABLE, Stdio
from mcpagg_runtime.tool.calling import call_tool
from mcpagg_runtime.tool.inspection import (
    check_servers,
    desktop_lines,
    desktop_needs,
    health_line,
    is_sound,
    listing,
    listing_lines,
    variable_line,
    variables,
)
from mcpagg_runtime.tool.printing import flush_output, print_json, print_lines, print_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.start.handover import Handover

OTHER_DIGEST = (
    "nothing was started: what was reviewed is {named}, and this file is {own} now; see what has"
    " changed: mcpagg-compile --check --offline --against OLD -o FILE, or git log -p FILE"
)
NOT_MEANT = (
    "This is about the data, not the code below it: for that see mcpagg-compile --check --offline"
)
STATUSES = (
    "exit status: 0 done; 1 the call failed, --check found a difference, or --verify no approval; "
    "2 the command line, or a file, cannot be used; 3 a variable is not set; 70 a fault of its own,"
    " or a table that was edited cannot be read"
)


def run_command(plan: Plan, folder: str, arguments: list[str], handover: Handover) -> int:
    """Run the command line; return the exit status.

    `handover`: see `running.run`.
    """
    return CommandLine(plan, folder).run(arguments, handover)


class CommandLine:
    """The command line of an emitted file: what it takes, and what is done then."""

    commands: tuple[str, ...] = ("list", "env", "digest", "verify", "check", "call")
    """What it does beside serving."""

    def __init__(self, plan: Plan, folder: str) -> None:
        """`folder` is where the file lies."""
        self.plan = plan
        self.folder = folder

    def run(self, arguments: list[str], handover: Handover) -> int:
        """Do what the arguments say; return the exit status."""
        try:
            chosen = self._read(self._checked_digests(arguments))
            self.plan = self._asked(chosen.servers)
            status = self._carry_out(chosen, handover)
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 1
        return flush_output() or status

    # What it takes

    def _checked_digests(self, arguments: list[str]) -> list[str]:
        """Return the arguments without digests, wherever they stand, if the file has them.

        Raises:
            SystemExit: one is none, or is that of other tables: nothing is started then.
        """
        named = [word for word in arguments if word.startswith(DIGEST)]
        own = self.plan.digest if named else ""
        for word in named:
            problem = ""
            if not is_digest(word):
                problem = f"{word!r} is no digest: write {LEAST_DIGITS} or more of its digits"
            elif not own.startswith(word):
                problem = OTHER_DIGEST.format(named=word, own=for_entry(own))
            if problem:
                print_error(f"{self.plan.name}: {problem}")
                raise SystemExit(2)
        return [word for word in arguments if word not in named]

    def _asked(self, servers: list[str]) -> Plan:
        """Return the plan of the servers that are asked for.

        Raises:
            SystemExit: there is no such server.
        """
        try:
            return served(self.plan, servers)
        except UnknownServer as problem:
            print_error(f"{self.plan.name}: {problem}")
            raise SystemExit(2) from None

    def _read(self, arguments: list[str]) -> argparse.Namespace:
        """Read the command line.

        Raises:
            SystemExit: it is not valid, or asks for help or the version.
        """
        print_lines([])  # sets the encoding for the help
        parser = self.parser()
        chosen = parser.parse_args(arguments)
        if problem := next((why for is_broken, why in self._rules(chosen) if is_broken), ""):
            parser.error(problem)
        return chosen

    def parser(self) -> argparse.ArgumentParser:
        """Return what reads the command line; that of a file without profiles hides `--profile`."""
        parser = argparse.ArgumentParser(
            description=f"{self.plan.name}: an MCP server over standard input and output. Without "
            "arguments, or with --as, --names, --profile or --log alone, it serves. Any command"
            f" may have a DIGEST behind it, {DIGEST}…: if the tables of the file have another one,"
            " nothing is done.",
            epilog=STATUSES,
        )
        self._add_commands(parser.add_mutually_exclusive_group().add_argument)
        self._add_options(parser.add_argument)
        return parser

    def _add_commands(self, add: Callable[..., object]) -> None:
        """Add what excludes each other."""
        add("--list", action="store_true", help="list what it offers")
        add("--env", action="store_true", help="list the variables that it needs")
        about = "print the digest that an entry may name: see DIGEST"
        add("--digest", action="store_true", help=about)
        add("--verify", metavar="SIGNERS", help="has one of these allowed signers approved it?")
        about = "start all servers; are they as when compiled?"
        add("--check", action="store_true", help=about)
        about = "call one tool; arguments: a JSON object, or key=value as its schema types them"
        add("--call", nargs="+", metavar=("NAME", "ARGUMENT"), help=about)
        add("--log", metavar="FILE", help="serve, and log what becomes of servers")

    def _add_options(self, add: Callable[..., object]) -> None:
        about = "this server alone, as itself; repeated: these alone, as one proxy"
        add("--as", dest="servers", metavar="NAME", action="append", default=[], help=about)
        add("--http", action="store_true", help="serve many clients over HTTP")
        add("--host", help="http: the address to listen on; default 127.0.0.1")
        add("--port", help="http: its port, 0 for any that is free; default 3006")
        add("--path", help="http: the path of the endpoint; default /mcp")
        about = "log: a line a call, too, without arguments"
        add("--log-calls", action="store_true", help=about)
        about = "list (with schemas), env, check: print JSON"
        add("--json", action="store_true", help=about)
        about = "call: write images, sounds and blobs of the result to DIR"
        add("--save", metavar="DIR", help=about)
        add("--text", action="store_true", help="call: print the texts of the result alone")
        spellings = ("portable", "spec")
        about = "serve, list: the names that every client is shown"
        add("--names", choices=spellings, help=about)
        plan = self.plan
        about = "as if all else did not exist" if plan.profiles else argparse.SUPPRESS
        add("--profile", choices=profile_names(plan) or None, help=about)
        version = f"{plan.name} {plan.version}, compiled by mcpagg {plan.compiler}"
        add("--version", action="version", version=version)

    def command(self, chosen: argparse.Namespace) -> str:
        """Return which of the commands is asked for, "" for serving."""
        given = (name for name in self.commands if getattr(chosen, name) not in (None, False))
        return next(given, "")

    def _rules(self, chosen: argparse.Namespace) -> list[tuple[bool, str]]:
        """Return what excludes each other: whether it is asked for, and what is said of it."""
        command = self.command(chosen)
        addressed = chosen.host or chosen.port or chosen.path
        logs = chosen.log or os.environ.get(LOG_DIRECTORY)
        no_http = "--http: this file was compiled without --serve stdio,http"
        unknown = chosen.profile is not None and not self.plan.profiles
        prints_json = command in ("list", "env", "check")
        calls = command == "call"
        return [
            (unknown, "--profile: this file was compiled without profiles"),
            (chosen.json and not prints_json, "--json goes with --list, --env or --check"),
            (chosen.save is not None and not calls, "--save goes with --call"),
            (chosen.text and not calls, "--text goes with --call"),
            (chosen.http and self.plan.options.http is None, no_http),
            (chosen.http and bool(command), "--http serves, and does nothing else"),
            (addressed and not chosen.http, "--host, --port and --path go with --http"),
            (chosen.log_calls and not logs, "--log-calls goes with --log"),
            (chosen.names and command not in ("", "list"), "--names goes with serving and --list"),
        ]

    # What is done then

    def _carry_out(self, chosen: argparse.Namespace, handover: Handover) -> int:
        command = self.command(chosen)
        if command == "digest":
            return print_lines([for_entry(self.plan.digest)])
        if command == "verify":
            return verify_approval(self.plan, chosen.verify)
        if chosen.names:
            self.plan.use_names(chosen.names)
        if chosen.profile or command:
            self.plan = narrowed(self.plan, chosen.profile)
        if not command:
            return self._serve(chosen, handover)
        for number in ENDING:
            signal.signal(number, _stop)
        return self._do(command, chosen)

    def _do(self, command: str, chosen: argparse.Namespace) -> int:
        """Carry out a command that needs servers, or says something of them."""
        if command == "call":
            name, *given = chosen.call
            show = print_texts if chosen.text else print_json
            return call_tool(self.plan, self.folder, name, given, chosen.save, show)
        if command == "check":
            servers = self._checked(chosen)
            lines = (self._health_line(name, health) for name, health in servers.items())
            status = _print({"servers": servers}, lines, chosen.json)
            return status or (0 if all(map(is_sound, servers.values())) else 1)
        document, output = self._environment() if command == "env" else self._listing()
        status = _print(document, output, chosen.json)
        uses = document.get("variables", ())
        is_missing = any(not use["set"] and not use["has_default"] for use in uses)
        return status or (MISSING_VARIABLE if is_missing else 0)

    def _health_line(self, name: str, health: dict[str, Any]) -> str:
        return health_line(name, health)

    def _checked(self, _: argparse.Namespace) -> dict[str, dict[str, Any]]:
        """Return {server: its health}."""
        return check_servers(self.plan, self.folder, self.plan.servers)

    def _environment(self) -> tuple[dict[str, Any], list[str]]:
        """Return what it needs around it, for programs and as lines for people."""
        uses, desktop = variables(self.plan, self.folder), desktop_needs(self.plan, self.folder)
        lines = [*map(variable_line, uses), *desktop_lines(desktop), *_without_log()]
        return {"variables": uses, "desktop": desktop}, lines

    def _listing(self) -> tuple[dict[str, Any], list[str]]:
        """Return what it offers, for programs and as lines for people."""
        return listing(self.plan), [*listing_lines(self.plan)]

    def _serve(self, chosen: argparse.Namespace, handover: Handover) -> int:
        """Serve; if there is a path for the log, log states of servers, and calls if asked for."""
        plan = self.plan
        path = chosen.log or path_in(os.environ.get(LOG_DIRECTORY, ""), plan.name)
        try:
            protocol = () if chosen.http else (0, 1)
            calls = chosen.log_calls or is_debug()
            log = open_log_at(plan, path, protocol, calls) if path else None
        except (OSError, ValueError) as problem:
            print_error(f"cannot write the log {path}: {problem}")
            return 2
        if not chosen.http:
            return Stdio(plan, self.folder, log).run(handover)
        from mcpagg_runtime.http.serving import serve_http

        given = {"host": chosen.host, "port": chosen.port, "path": chosen.path}
        asked = {name: value for name, value in given.items() if value is not None}
        return serve_http(plan, self.folder, asked, log)


def _print(document: Any, lines: Iterable[str], as_json: bool) -> int:
    """Print a document for programs, or lines for people; return the exit status."""
    return print_json(document) if as_json else print_lines(lines)


def _without_log() -> list[str]:
    """Say that the log level has no effect where there is no log."""
    if not is_debug() or os.environ.get(LOG_DIRECTORY):
        return []
    return [f"{LOG_LEVEL}  debug, without effect unless --log or {LOG_DIRECTORY} names a log"]


def verify_approval(plan: Plan, allowed: str) -> int:
    """Print which signer has approved the data of this file; return the exit status."""
    try:
        who = signer_of(plan, allowed)
    except NotApproved as problem:
        print_error(f"{plan.name}: {problem}")
        return 1
    is_pattern = any(char in who for char in "*?")
    signer = f"the key of '{who}'" if is_pattern else who
    return print_lines([f"{signer} has approved {plan.approval['data']}", NOT_MEANT])


def _stop(*_: object) -> None:
    """End as at the end of input, so that every server is closed."""
    raise SystemExit(1)
