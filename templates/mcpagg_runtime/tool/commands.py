"""The command line of the emitted file."""

from __future__ import annotations

import argparse
import os
import signal
from typing import TYPE_CHECKING

from mcpagg_runtime.clients.profiles import narrowed, profile_names
from mcpagg_runtime.launch.approval import NotApproved, signer_of
from mcpagg_runtime.plan.digest import (
    DIGEST,
    LEAST_DIGITS,
    data_digest,
    entry_digest,
    is_digest,
)
from mcpagg_runtime.plan.face import UnknownServer, served
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
    from collections.abc import Iterable
    from typing import Any

    from mcpagg_runtime.plan.plan import Plan
    from mcpagg_runtime.start.handover import Handover
    from mcpagg_runtime.tool.prefetch import Prefetch

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
    try:
        words = _checked_digests(plan, arguments)
        chosen = _read(plan, words)
        status = _carry_out(_asked(plan, chosen), folder, chosen, handover)
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
    return flush_output() or status


def _checked_digests(plan: Plan, arguments: list[str]) -> list[str]:
    """Return the command line without digests, wherever they stand, if the file has them.

    Raises:
        SystemExit: one is none, or is that of other tables: nothing is started then.
    """
    named = [word for word in arguments if word.startswith(DIGEST)]
    for word in named:
        problem = ""
        if not is_digest(word):
            problem = f"{word!r} is no digest: write {LEAST_DIGITS} or more of its digits"
        elif not data_digest(plan.tables).startswith(word):
            problem = OTHER_DIGEST.format(named=word, own=entry_digest(plan.tables))
        if problem:
            print_error(f"{plan.name}: {problem}")
            raise SystemExit(2)
    return [word for word in arguments if word not in named]


def _asked(plan: Plan, chosen: argparse.Namespace) -> Plan:
    """Return the plan of the servers that are asked for.

    Raises:
        SystemExit: there is no such server.
    """
    try:
        return served(plan, chosen.servers)
    except UnknownServer as problem:
        print_error(f"{plan.name}: {problem}")
        raise SystemExit(2) from None


def _read(plan: Plan, arguments: list[str]) -> argparse.Namespace:
    """Read the command line.

    Raises:
        SystemExit: it is not valid, or asks for help or the version.
    """
    print_lines([])  # sets the encoding for the help
    parser = argument_parser(plan)
    chosen = parser.parse_args(arguments)
    if problem := _contradiction(plan, chosen):
        parser.error(problem)
    return chosen


def argument_parser(plan: Plan) -> argparse.ArgumentParser:
    """Return what reads the command line of a file; one without profiles hides `--profile`."""
    parser = argparse.ArgumentParser(
        description=f"{plan.name}: an MCP server over standard input and output. "
        "Without arguments, or with --as, --names, --profile or --log alone, it serves. Any command"
        f" may have a DIGEST behind it, {DIGEST}…: a file whose data are others does nothing then.",
        epilog=STATUSES,
    )
    asked = parser.add_mutually_exclusive_group()
    add = asked.add_argument
    add("--list", action="store_true", help="list what it offers")
    add("--env", action="store_true", help="list the variables that it needs")
    add("--digest", action="store_true", help="print the digest that an entry may name: see DIGEST")
    add("--verify", metavar="SIGNERS", help="has one of these allowed signers approved it?")
    add("--check", action="store_true", help="start all servers; are they as when compiled?")
    add(
        "--call",
        nargs="+",
        metavar=("NAME", "ARGUMENT"),
        help="call one tool; arguments: a JSON object, or key=value as its schema types them",
    )
    fetch = "install what servers start, all or these; nothing is started"
    fetch = fetch if plan.frozen else argparse.SUPPRESS
    add("--prefetch", nargs="*", metavar="NAME", help=fetch)
    add("--log", metavar="FILE", help="serve, and log what becomes of servers")
    add = parser.add_argument
    about = "this server alone, as itself; repeated: these alone, as one proxy"
    add("--as", dest="servers", metavar="NAME", action="append", default=[], help=about)
    add("--http", action="store_true", help="serve many clients over HTTP")
    add("--host", help="http: the address to listen on; default 127.0.0.1")
    add("--port", help="http: its port, 0 for any that is free; default 3006")
    add("--path", help="http: the path of the endpoint; default /mcp")
    add("--log-calls", action="store_true", help="log: a line a call, too, without arguments")
    add("--json", action="store_true", help="list (with schemas), env, check: print JSON")
    add("--save", metavar="DIR", help="call: write images, sounds and blobs of the result to DIR")
    add("--text", action="store_true", help="call: print the texts of the result alone")
    hidden = None if plan.frozen else argparse.SUPPRESS
    add("--offline", action="store_true", help=hidden or "prefetch: only look what is not there")
    add("--deep", action="store_true", help=hidden or "check: read every file of installed trees")
    spellings = ("portable", "spec")
    add("--names", choices=spellings, help="serve, list: the names that every client is shown")
    about = "as if all else did not exist" if plan.profiles else argparse.SUPPRESS
    add("--profile", choices=profile_names(plan) or None, help=about)
    version = f"{plan.name} {plan.version}, compiled by mcpagg {plan.compiler}"
    add("--version", action="version", version=version)
    return parser


def _contradiction(plan: Plan, chosen: argparse.Namespace) -> str:
    """Say which options exclude each other, "" if none do."""
    fetches = chosen.prefetch is not None
    shows = bool(chosen.env or chosen.check or chosen.verify or chosen.call or chosen.digest)
    looks = shows or fetches
    freezes = fetches or chosen.offline or chosen.deep
    prints_json = chosen.list or chosen.env or chosen.check
    logs = chosen.log or os.environ.get(LOG_DIRECTORY)
    addressed = chosen.host or chosen.port or chosen.path
    http = plan.options.http
    unknown = chosen.profile is not None and not plan.profiles
    rules = (
        (unknown, "--profile: this file was compiled without profiles"),
        (freezes and not plan.frozen, "--prefetch: this file was compiled without --freeze"),
        (chosen.offline and not fetches, "--offline goes with --prefetch"),
        (chosen.deep and not chosen.check, "--deep goes with --check"),
        (chosen.json and not prints_json, "--json goes with --list, --env or --check"),
        (chosen.save is not None and not chosen.call, "--save goes with --call"),
        (chosen.text and not chosen.call, "--text goes with --call"),
        (chosen.http and http is None, "--http: this file was compiled without --serve stdio,http"),
        (chosen.http and (looks or chosen.list), "--http serves, and does nothing else"),
        (addressed and not chosen.http, "--host, --port and --path go with --http"),
        (chosen.log_calls and not logs, "--log-calls goes with --log"),
        (chosen.names and looks, "--names goes with serving and --list"),
    )
    return next((problem for is_broken, problem in rules if is_broken), "")


def _carry_out(plan: Plan, folder: str, chosen: argparse.Namespace, handover: Handover) -> int:
    if chosen.digest:
        return print_lines([entry_digest(plan.tables)])
    if chosen.verify:
        return verify_approval(plan, chosen.verify)
    if chosen.names:
        plan.use_names(chosen.names)
    fetches = chosen.prefetch is not None
    serves = not (chosen.list or chosen.env or chosen.check or chosen.call or fetches)
    if chosen.profile or not serves:
        plan = narrowed(plan, chosen.profile)
    if serves:
        return _serve(plan, folder, chosen, handover)
    for number in ENDING:
        signal.signal(number, _stop)
    if chosen.call:
        name, *given = chosen.call
        show = print_texts if chosen.text else print_json
        return call_tool(plan, folder, name, given, chosen.save, show)
    installed = _installed(plan, folder)
    if fetches and installed is not None:
        return installed.run(chosen.prefetch, offline=chosen.offline)
    if chosen.check:
        damages = installed.damages(deep=chosen.deep) if installed is not None else {}
        servers = check_servers(plan, folder, damages)
        lines = (health_line(name, health) for name, health in servers.items())
        status = _print({"servers": servers}, lines, chosen.json)
        return status or (0 if all(map(is_sound, servers.values())) else 1)
    frozen = installed.states() if installed is not None else {}
    states = [f"{name}: frozen: {state}" for name, state in frozen.items()]
    if chosen.env:
        uses, desktop = variables(plan, folder), desktop_needs(plan, folder)
        output = [*map(variable_line, uses), *desktop_lines(desktop), *_without_log(), *states]
        document = {"variables": uses, "desktop": desktop, **({"frozen": frozen} if frozen else {})}
        status = _print(document, output, chosen.json)
        is_missing = any(not use["set"] and not use["has_default"] for use in uses)
        return status or (MISSING_VARIABLE if is_missing else 0)
    document = {**listing(plan), **({"frozen": frozen} if frozen else {})}
    return _print(document, [*listing_lines(plan), *states], chosen.json)


def _installed(plan: Plan, folder: str) -> Prefetch | None:
    """Return the frozen servers of a file on this machine, None for a file that freezes nothing."""
    if not plan.frozen:
        return None
    from mcpagg_runtime.tool.prefetch import Prefetch  # else it is left out

    return Prefetch(plan, folder)


def _print(document: Any, lines: Iterable[str], as_json: bool) -> int:
    """Print a document for programs, or lines for people; return the exit status."""
    return print_json(document) if as_json else print_lines(lines)


def _serve(plan: Plan, folder: str, chosen: argparse.Namespace, handover: Handover) -> int:
    """Serve; if there is a path for the log, log states of servers, and calls if asked for."""
    path = chosen.log or path_in(os.environ.get(LOG_DIRECTORY, ""), plan.name)
    try:
        protocol = () if chosen.http else (0, 1)
        log = open_log_at(plan, path, protocol, chosen.log_calls or is_debug()) if path else None
    except (OSError, ValueError) as problem:
        print_error(f"cannot write the log {path}: {problem}")
        return 2
    if not chosen.http:
        return Stdio(plan, folder, log).run(handover)
    from mcpagg_runtime.http.serving import serve_http

    given = {"host": chosen.host, "port": chosen.port, "path": chosen.path}
    asked = {name: value for name, value in given.items() if value is not None}
    return serve_http(plan, folder, asked, log)


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
