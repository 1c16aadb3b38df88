"""The emitted file as a tool: look at what it offers, what it needs, and call one tool."""

from __future__ import annotations

import _thread
import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.catalogue import KINDS
from mcpagg_runtime.client import RELAYED, Client
from mcpagg_runtime.desk import Desk
from mcpagg_runtime.drift import PATIENCE_SECONDS
from mcpagg_runtime.launch import strings
from mcpagg_runtime.outbox import Outbox
from mcpagg_runtime.peers import DOWN, FOREVER, READY
from mcpagg_runtime.process import seen
from mcpagg_runtime.references import references
from mcpagg_runtime.relay import Relay
from mcpagg_runtime.standard import complain
from mcpagg_runtime.stdio import ENDING, Stdio

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mcpagg_runtime.desk import Plan
    from mcpagg_runtime.peers import Child


def run_command(plan: Plan, folder: str, arguments: list[str]) -> int:
    """Carry out what the command line asks for; return the exit status."""
    import argparse
    from signal import signal

    parser = argparse.ArgumentParser(
        description=f"{plan.name}: an MCP server over standard input and output."
    )
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--list", action="store_true", help="list what it offers")
    asked.add_argument("--env", action="store_true", help="list the variables that it needs")
    asked.add_argument("--check", action="store_true", help="start all; does it still hold?")
    asked.add_argument("--call", nargs=2, metavar=("NAME", "JSON"), help="call one tool")
    asked.add_argument("--log", metavar="FILE", help="serve, and log what becomes of servers")
    parser.add_argument("--json", action="store_true", help="list, env, check: print JSON")
    chosen = parser.parse_args(arguments)
    if chosen.json and (chosen.call or chosen.log is not None):
        parser.error("--json goes with --list, --env or --check")
    if chosen.log is not None:
        return _serve(plan, folder, chosen.log)
    for number in ENDING:
        signal(number, _stop)
    if chosen.call:
        return _call(plan, folder, *chosen.call)
    if chosen.check:
        return _check(plan, folder, chosen.json)
    if chosen.json:
        return _print_json(_listing(plan) if chosen.list else {"variables": _variables(plan)})
    return _print(_offers(plan) if chosen.list else _needs(plan))


def _serve(plan: Plan, folder: str, path: str) -> int:
    """Serve as ever, with a log of what becomes of the servers."""
    face = Stdio(plan, folder)
    try:
        # Not waiting: a named pipe may have no reader.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags, 0o666)
    except (OSError, ValueError) as problem:
        print(f"cannot write the log {path}: {problem}", file=sys.stderr)  # noqa: T201
        return 2
    broke = f"{plan.name}: cannot write the log {path} any more"
    face.log = Outbox(
        descriptor,
        private=False,
        broke=lambda: _complain_apart(broke),
        overflowed=lambda waiting: None,
    )
    return face.run()


def _complain_apart(text: str) -> None:
    """Write a line on standard error, whose reader may not read, in a thread of its own."""
    _thread.start_new_thread(complain, (text,))


def _stop(*_: object) -> None:
    """Leave as at the end of input: every server is closed on the way out."""
    raise SystemExit(1)


def _print(lines: Iterator[str]) -> int:
    """Print lines, without what a terminal would act upon."""
    try:
        for line in lines:
            print(seen(line))  # noqa: T201
        sys.stdout.flush()
    except OSError:  # whoever reads has enough, or has no room
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _print_json(document: Any) -> int:
    import json

    return _print(iter(json.dumps(document, indent=2).split("\n")))


def _offers(plan: Plan) -> Iterator[str]:
    import json

    for server in plan.servers:
        counts, lines = [], []
        for kind in KINDS:
            items = json.loads(plan.snapshot[server].get(kind.name, "[]"))
            known = {item[kind.key]: item for item in items}
            routes = {name: r for name, r in plan.routes[kind.name].items() if r[0] == server}
            if routes:
                counts.append(f"{len(routes)} {kind.name}")
            for exposed, route in routes.items():
                item = known[route[1] if len(route) > 1 else exposed]
                portable = plan.options["names"] == "portable" and len(route) > 1
                text = str(item.get("description") or "").strip()
                first = text.splitlines()[0] if text else ""
                lines.append(f"  {route[2] if portable else exposed}  {first}".rstrip())
        yield f"{server}: {', '.join(counts) or 'nothing'}"
        yield from lines
    for name, allowed in plan.subtools.items():
        calls = [f"{server}/{tool}" for server, tools in allowed.items() for tool in tools]
        yield f"{name}: a composite tool: {', '.join(calls)}"


def _listing(plan: Plan) -> dict[str, Any]:
    """Return what it offers, server by server: each item, and the names that it is called by."""
    return {
        "name": plan.name,
        "version": plan.version,
        "servers": {server: _offered_by(plan, server) for server in plan.servers},
        "composites": {name: dict(allowed) for name, allowed in plan.subtools.items()},
    }


def _offered_by(plan: Plan, server: str) -> dict[str, Any]:
    import json

    found: dict[str, Any] = {}
    for kind in KINDS:
        items = json.loads(plan.snapshot[server].get(kind.name, "[]"))
        described = {item[kind.key]: item.get("description") for item in items}
        for exposed, (owner, *names) in plan.routes[kind.name].items():
            if owner == server:
                entry = {kind.key: exposed, "description": described[(names or [exposed])[0]]}
                if names:
                    entry.update(original=names[0], portable=names[1])
                found.setdefault(kind.name, []).append(entry)
    return found


def _variables(plan: Plan) -> list[dict[str, Any]]:
    """Return each use of a variable: by whom, where, whether it is set or need not be."""
    return [
        {
            "name": name,
            "set": name in os.environ,
            "has_default": default is not None,
            "server": server,
            "place": place,
        }
        for server, row in plan.servers.items()
        for place, text in strings(row)
        for name, default in references(text)
    ]


def _needs(plan: Plan) -> Iterator[str]:
    for use in _variables(plan):
        state = "set" if use["set"] else "not set"
        if use["has_default"] and not use["set"]:
            state = "not set, has a default"
        yield f"{use['name']}  {state}  ({use['server']}: {use['place']})"


def _check(plan: Plan, folder: str, as_json: bool) -> int:
    """Start every server and say how it is; return 1 if one is down, or not as it was compiled."""
    from time import sleep

    relay = Relay(Desk(plan), folder)
    client = Client("spec")
    client.capabilities = dict.fromkeys(RELAYED, "{}")
    client.initialized = True
    relay.connect(client, _Answers())
    children = relay.router.children.values()
    try:
        for child in children:
            relay.wake(child, client)
        while not all(child.state == DOWN or _looked_at(child, relay) for child in children):
            sleep(0.01)
    finally:
        relay.close()
    servers = {child.name: _health(child, relay) for child in children}
    if as_json:
        _print_json({"servers": servers})
    else:
        _print(_said(name, health) for name, health in servers.items())
    return 1 if any(h["state"] == DOWN or h["drift"] for h in servers.values()) else 0


def _looked_at(child: Child, relay: Relay) -> bool:
    """Whether a child's lists were compared and are at rest, or will never be at rest."""
    readings = child.readings.values()
    if child.state != READY or not all(reading.compared for reading in readings):
        now = relay.router.clock()
        return any(reading.give_up_at <= now for reading in readings)
    if relay.router.clock() > child.ready_at + PATIENCE_SECONDS:
        return True
    return not any(reading.under_way or reading.again_at < FOREVER for reading in readings)


def _health(child: Child, relay: Relay) -> dict[str, Any]:
    """Return how a child is, for programs; without values of variables."""
    drift = {name: relay.redact(reading.drift) for name, reading in child.readings.items()}
    for name, reading in child.readings.items():
        if child.state == READY and not reading.compared:
            drift[name] = "changes too often to be compared"
    started = child.ready_at < FOREVER
    return {
        "state": child.state,
        "reason": relay.redact(child.reason) or None,
        "protocol": relay.redact(child.protocol) or None,
        "drift": {name: text for name, text in drift.items() if text},
        "started_in": round(child.ready_at - child.starting_at, 3) if started else None,
    }


def _said(name: str, health: dict[str, Any]) -> str:
    """Return how a child is, for people."""
    if health["state"] == DOWN:
        return f"{name}: down: {health['reason']}"
    drifts = [f"{kind} {text}" for kind, text in health["drift"].items()]
    return f"{name}: {health['state']}, {'; '.join(drifts) or 'as it was compiled'}"


class _Answers:
    """A client's sink that keeps the answer to one request."""

    def __init__(self) -> None:
        import threading

        self.come = threading.Event()
        self.answer: dict[str, Any] = {}

    def send(self, line: bytes) -> None:
        """Take one line for the client."""
        import json

        message = json.loads(line)
        if message.get("id") == "call":
            self.answer = message
            self.come.set()

    def gate(self) -> None:
        """Nothing ever waits here."""


def _call(plan: Plan, folder: str, name: str, arguments: str) -> int:
    """Print the result of one call as JSON; return 1 if it is an error."""
    import json

    try:
        given = json.loads(arguments)
    except ValueError:
        given = None
    if type(given) is not dict:
        print(f"not a JSON object: {arguments}", file=sys.stderr)  # noqa: T201
        return 2
    params = {"name": name, "arguments": given}
    answers = _Answers()
    relay = Relay(Desk(plan), folder)
    client = Client("spec")
    relay.connect(client, answers)
    call = {"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params}
    relay.hear(client, json.dumps(call).encode())
    try:
        answers.come.wait()
    finally:
        relay.close()
    answer = answers.answer
    outcome = answer.get("result", answer.get("error"))
    _print(iter(json.dumps(outcome, indent=2, ensure_ascii=False).split("\n")))
    return 0 if "result" in answer and not answer["result"].get("isError") else 1
