"""The emitted file as a tool: look at what it offers, what it needs, and call one tool."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.catalogue import KINDS
from mcpagg_runtime.client import RELAYED, Client
from mcpagg_runtime.desk import Desk
from mcpagg_runtime.launch import strings
from mcpagg_runtime.peers import DOWN, FOREVER, READY
from mcpagg_runtime.process import seen
from mcpagg_runtime.references import references
from mcpagg_runtime.relay import Relay
from mcpagg_runtime.stdio import ENDING

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
    chosen = parser.parse_args(arguments)
    for number in ENDING:
        signal(number, _stop)
    if chosen.list:
        return _print(_offers(plan))
    if chosen.env:
        return _print(_variables(plan))
    if chosen.check:
        return _check(plan, folder)
    return _call(plan, folder, *chosen.call)


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


def _variables(plan: Plan) -> Iterator[str]:
    for server, row in plan.servers.items():
        for place, text in strings(row):
            for name, default in references(text):
                state = "set" if name in os.environ else "not set"
                if default is not None and name not in os.environ:
                    state = "not set, has a default"
                yield f"{name}  {state}  ({server}: {place})"


def _check(plan: Plan, folder: str) -> int:
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
        while not all(child.state == DOWN or _compared(child) for child in children):
            sleep(0.01)
    finally:
        relay.close()
    _print(line for child in children for line in _health(child))
    drifts = [reading.drift for child in children for reading in child.readings.values()]
    down = [child for child in children if child.state == DOWN]
    return 1 if down or any(drifts) else 0


def _compared(child: Child) -> bool:
    readings = child.readings.values()
    return child.state == READY and all(
        reading.compared and not reading.under_way and reading.again_at == FOREVER
        for reading in readings
    )


def _health(child: Child) -> Iterator[str]:
    if child.state == DOWN:
        yield f"{child.name}: {child.state}: {child.reason}"
        return
    drifts = [f"{name} {r.drift}" for name, r in child.readings.items() if r.drift]
    yield f"{child.name}: {child.state}, {'; '.join(drifts) or 'as it was compiled'}"


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
