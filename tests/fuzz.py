#!/usr/bin/env python3
"""A fuzz of both sides: mutated lines from the client and from a child, and still right answers.

    python tests/fuzz.py --lines 100000 --seed 7

The core first, within this process and with a clock that stands still: no line may raise, and what
is sent must be JSON. Then a proxy with real pipes: after each batch of lines, a ping and a call of
each child must be answered right. A failure is shown with the line, narrowed down, as its repr.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from core import (
    INITIALIZED,
    ROOTS,
    TOOLS_CHANGED,
    Json,
    World,
    call,
    enveloped,
    notification,
    request,
    result,
    tool,
)
from mutation import mutated
from proxies import compiled, served
from wire import Wire, start_call

from mcpagg_runtime.clients.answers import Answers, answer_line
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.lists.catalogue import KINDS
from mcpagg_runtime.messages.jsontext import members
from mcpagg_runtime.messages.message import Fragment, read_line
from mcpagg_runtime.messages.protocol import LEVEL_KEY, MODERN_VERSION, SUBSCRIPTION_KEY
from mcpagg_runtime.servers.child import Child
from mcpagg_runtime.servers.effects import SEND, SLEEP, START, STOP
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS

if TYPE_CHECKING:
    from mcpagg_runtime.servers.effects import Action

SERVERS = {"odd": ["echo", "more"], "good": ["echo"]}
CHATTER = [sys.executable, "-I", "-S", str(Path(__file__).with_name("servers") / "chatter.py")]
BATCH = 500
SCENE = 250  # lines from each side to one router
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
HELLOS = ("initialize", "server/discover")
FAR = 10**12  # above every id that a proxy mints
NEAR = re.compile(rb'(id"\s*:\s*"?)0*\d{1,9}(?!\d)')
CAPABLE: Json = {**ROOTS, "sampling": {}, "elicitation": {}}
OFFERED: Json = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}}
HELLO: Json = {"protocolVersion": "2025-11-25", "capabilities": OFFERED, "serverInfo": {}}
CHECK: Json = {"check": 1}
PROMPT: Json = {"type": "ref/prompt", "name": "odd:hello"}
QUESTION: Json = {"method": "elicitation/create", "params": {"message": "?", "mode": "url"}}
VISITS: Json = {"elicitations": [QUESTION["params"]]}
TEMPLATE: Json = {"type": "ref/resource", "uri": "file:///odd/{a}"}


def client_lines(number: int) -> list[Json]:
    """Return what a client may say, about the request or question of a number."""
    arguments = {"text": "a", "deep": [{"b": [1.5, None]}], "c": True}
    info = {"name": "claude-ai", "version": "1"}
    hello = {"protocolVersion": "2025-03-26", "capabilities": CAPABLE, "clientInfo": info}
    return [
        request(number, "initialize", hello),
        INITIALIZED,
        request(number, "ping"),
        request(number, "tools/list", {"cursor": None}),
        call(number, "odd:echo", arguments, token=number),
        call(str(number), "odd_more", arguments, token=str(number)),
        call(number, "good:echo", arguments),
        call(number, "odd:new"),
        notification("notifications/cancelled", {"requestId": number, "reason": "enough"}),
        notification("notifications/roots/list_changed"),
        result(number, {"roots": [{"uri": "file:///a"}]}),
        {"jsonrpc": "2.0", "id": number, "error": {"code": -1, "message": "no"}},
        request(number, "server/discover", {}),
        *modern_lines(number),
        request(number, "prompts/list"),
        request(number, "prompts/get", {"name": "odd:hello", "arguments": {"a": "b"}}),
        request(number, "resources/list", {}),
        request(number, "resources/templates/list"),
        request(number, "resources/read", {"uri": "file:///odd/1"}),
        request(number, "resources/subscribe", {"uri": "file:///odd"}),
        request(number, "resources/unsubscribe", {"uri": "file:///odd"}),
        request(number, "logging/setLevel", {"level": "debug"}),
        request(number, "completion/complete", {"ref": PROMPT, "argument": {"name": "a"}}),
        request(number, "completion/complete", {"ref": TEMPLATE, "argument": {"name": "a"}}),
    ]


def modern_lines(number: int) -> list[Json]:
    """Return what a client without a handshake may say."""
    again = call(number, "odd:echo")
    again["params"] |= {"requestState": f"mcpagg:h{number}", "inputResponses": {"1": {}, "q": {}}}
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["file:///odd"]}
    requests = [
        request(number, "server/discover"),
        request(number, "tools/list"),
        call(number, "odd:echo", {"a": [1]}, token=number),
        again,
        request(number, "resources/read", {"uri": "file:///odd"}),
        request(number, "completion/complete", {"ref": PROMPT, "argument": {"name": "a"}}),
        request(number, "subscriptions/listen", {"notifications": wanted}),
    ]
    return [enveloped(line, CAPABLE, {LEVEL_KEY: "info"}) for line in requests]


def child_lines(number: int) -> list[Json]:
    """Return what a child may say, about the request or question of a number."""
    tools = [tool("echo"), tool("new", title="New", annotations={"readOnlyHint": True})]
    progress = {"progressToken": number, "progress": 1, "total": 2, "message": "half"}
    return [
        result(number, {"content": [{"type": "text", "text": "a"}], "isError": False}),
        result(number, {"tools": tools, "nextCursor": "2"}),
        result(number, {"tools": tools}),
        result(number, HELLO),
        {"jsonrpc": "2.0", "id": number, "error": {"code": -1, "message": "no", "data": [1]}},
        notification("notifications/progress", progress),
        notification("notifications/cancelled", {"requestId": number}),
        notification("notifications/message", {"level": "info", "data": {"a": 1}}),
        TOOLS_CHANGED,
        request(number, "sampling/createMessage", {"messages": [], "maxTokens": 1}),
        request(str(number), "roots/list"),
        request(number, "ping"),
        result(number, {"prompts": [{"name": "hello", "arguments": [{"name": "a"}]}]}),
        result(number, {"resources": [{"name": "r", "uri": "file:///odd", "size": 5}]}),
        result(number, {"resourceTemplates": [{"name": "t", "uriTemplate": "file:///odd/{a}"}]}),
        result(number, {**HELLO, "resultType": "complete", "supportedVersions": [MODERN_VERSION]}),
        result(number, {"resultType": "complete", "structuredContent": [1], "ttlMs": 1}),
        result(number, {"resultType": "input_required", "requestState": "s"}),
        result(number, {"resultType": "input_required", "inputRequests": {"q": QUESTION}}),
        notification(
            "notifications/subscriptions/acknowledged", {"_meta": {SUBSCRIPTION_KEY: number}}
        ),
        request(number, QUESTION["method"], QUESTION["params"]),
        {"jsonrpc": "2.0", "id": number, "error": {"code": -32042, "data": VISITS}},
        notification("notifications/prompts/list_changed"),
        notification("notifications/resources/list_changed"),
        notification("notifications/resources/updated", {"uri": "file:///odd"}),
    ]


class Scene(World):
    """A core with its ports, a client that says anything, a child that does, and a good one."""

    def __init__(self, rng: Random) -> None:
        super().__init__(
            SERVERS,
            prompts={"odd": ["hello"]},
            resources={"odd": ["file:///odd"]},
            facts={"odd": {"protocol": rng.choice([LEGACY_VERSIONS[0], MODERN_VERSION])}},
            capabilities=OFFERED,
            on_drift=rng.choice(["live", "warn", "refuse"]),
            names=rng.choice(["auto", "spec", "portable"]),
            timeout=rng.choice([None, 20.0]),
            start=rng.choice(["eager", "eager", "lazy"]),
            restart=rng.choice(["never", "on-call"]),
            idle_stop=rng.choice([None, 1.0]),
        )
        self.rng = rng
        self.pending: dict[str, list[Json]] = {name: [] for name in SERVERS}
        self.answers = Answers(self.plan)
        self.somebody = Client("auto")
        self.me = self.client(rng.choice([{}, CAPABLE]))

    def do(self, actions: list[Action]) -> None:
        """Play the children's processes, and check what is sent."""
        super().do(actions)
        for kind, peer, what in actions:
            if kind == START:
                self.do(self.core.child_up(peer))
            elif kind == STOP:
                self.down(peer.name, what)
            if kind in (STOP, SLEEP):
                self.pending[peer.name].clear()
            elif kind == SEND:
                sent = checked(what.line().decode())
                if isinstance(peer, Child) and "id" in sent and "method" in sent:
                    self.pending[peer.name].append(sent)
        if any(kind == START for kind, _, _ in actions):
            self.behave()

    def behave(self) -> None:
        """Let the good child answer all that it was asked, and the odd one shake hands at times."""
        while self.pending["good"]:
            asked = self.pending["good"].pop(0)
            self.say(self["good"], result(asked["id"], self.answer_to(asked)))
        hellos = [asked for asked in self.pending["odd"] if asked["method"] in HELLOS]
        if hellos and self.rng.random() < 0.9:
            self.pending["odd"].clear()
            self.say(self["odd"], result(hellos[-1]["id"], HELLO))

    def answer_to(self, asked: Json) -> Json:
        """Return the good child's result."""
        if asked["method"] == "initialize":
            return HELLO
        for kind in KINDS:
            if asked["method"] == kind.method:
                return {kind.member: json.loads(self.plan.snapshot["good"].get(kind.name, "[]"))}
        given = asked["params"].get("arguments")
        return {"of": given if given == CHECK else None}

    def hear(self, from_client: bool) -> bytes:
        """Return the next mutated line."""
        rng = self.rng
        number = rng.randint(0, 9)
        if not from_client and self.pending["odd"] and rng.random() < 0.7:
            number = self.pending["odd"].pop(rng.randrange(len(self.pending["odd"])))["id"]
        seeds = (client_lines if from_client else child_lines)(number)
        one, other = (json.dumps(rng.choice(seeds)).encode() for _ in range(2))
        return mutated(rng, one, other)

    def step(self, line: bytes, from_client: bool) -> None:
        """Let a line come in, and time pass."""
        if from_client:
            answer_line(self.answers, self.somebody, line)
        self.say(self.me if from_client else self["odd"], line)
        self.behave()
        if self.rng.random() < 0.05:
            self.wait(self.rng.choice([0.01, 0.6, 30.0]))
        for peer in (self.me, self["odd"], self["good"]):
            self.lines(peer)

    def check(self) -> None:
        """Check that a ping and a call of the good child are answered right."""
        assert self.ask(self.me, request("check", "ping")) == result("check", {})
        self.say(self.me, call("check", "good:echo", CHECK))
        self.behave()
        assert self.received(self.me) == [result("check", {"of": CHECK})]


def checked(line: str) -> Json:
    """Return what a line says; it must be JSON."""
    line.encode()
    try:
        message: Json = json.loads(line, parse_int=short)
    except RecursionError:  # a client's info may nest deep, and is passed on to children
        return {name: value for name, (value, _, _) in members(line)[0].items()}
    return message


def short(digits: str) -> int | str:
    """Return a number, or its digits if there are more than Python converts by default."""
    return int(digits) if len(digits) < 4000 else digits


def fuzz_core(count: int, seed: int) -> list[str]:
    """Send `count` lines from each side to routers; return what went wrong."""
    problems: dict[str, str] = {}
    for number in range(-(-count // SCENE)):
        scene, line = Scene(Random(f"core/{seed}/{number}")), b""  # noqa: S311
        try:
            for turn in range(2 * min(SCENE, count - number * SCENE)):
                line = scene.hear(turn % 2 == 0)
                scene.step(line, turn % 2 == 0)
            scene.check()
        except Exception as problem:
            *_, frame = traceback.extract_tb(problem.__traceback__)
            where = f"{type(problem).__name__} in {frame.name}, {Path(frame.filename).name}"
            story = "".join(traceback.format_exception(problem, limit=-6))
            problems.setdefault(where, f"scene {number}: {shown(line)}\n{story}")
    return [f"core: {where}: {story}" for where, story in problems.items()]


# Real pipes


def prepared(count: int, seed: int, side: str) -> list[bytes]:
    """Return mutated lines of a side."""
    rng = Random(f"{side}/{seed}")  # noqa: S311
    if side == "client":
        seeds = [json.dumps(line).encode() for number in range(5) for line in client_lines(number)]
        return [mutated(rng, rng.choice(seeds), rng.choice(seeds)) for _ in range(count)]
    seeds = [json.dumps(line).encode() for number in range(5) for line in child_lines(FAR + number)]
    lines = [mutated(rng, rng.choice(seeds), rng.choice(seeds)) for _ in range(count)]
    # What answers a call in flight is an answer, however strange, and without an id of it as well.
    lines = [NEAR.sub(rb"\g<1>%d" % FAR, line) for line in lines]
    return [line for line in lines if not any(map(answers_anything, line.split(b"\n")))]


def answers_anything(line: bytes) -> bool:
    """Whether a line of a child holds an answer that may be to any request in flight."""
    parts = [part for part in read_line(line)[0] if part.number < 1 and not part.method]
    return any(isinstance(part, Fragment) or part.is_response for part in parts)


def fuzz_client(lines: list[bytes]) -> Iterator[int]:
    """Send a proxy lines as its client; yield how many it has survived."""
    with tempfile.TemporaryDirectory() as folder, proxy(Path(folder), [], []) as wire:
        for start in range(0, len(lines), BATCH):
            wire.write(b"".join(line + b"\n" for line in lines[start : start + BATCH]))
            check(wire, start)
            yield start + BATCH
        finish(wire)


def fuzz_child(lines: list[bytes]) -> Iterator[int]:
    """Send a proxy lines as one of its children, between its answers; yield as above."""
    with tempfile.TemporaryDirectory() as folder, proxy(Path(folder), lines, [b""]) as wire:
        for start in range(0, len(lines), BATCH):
            start_call(wire, "odd:echo", lines=BATCH)
            check(wire, start)
            yield start + BATCH
        finish(wire)


def proxy(folder: Path, *chatter: list[bytes]) -> Wire:
    """Run a proxy of two children that have these lines to say."""
    servers = {}
    for name, lines in zip(SERVERS, chatter, strict=True):
        file = folder / name
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        servers[name] = {"command": CHATTER[0], "args": [*CHATTER[1:], str(file)]}
    return served(compiled(folder, servers), **CAPABLE)


def check(wire: Wire, number: int) -> None:
    """Check that a ping and a call of each child are answered right."""
    identifier = f"ping {number}"
    wire.start_request("ping", id=identifier)
    expect(wire, result(identifier, {}))
    for server in SERVERS:
        identifier = f"{server} {number}"
        wire.send(call(identifier, f"{server}:echo", {"check": number}))
        content = [{"type": "text", "text": json.dumps({"check": number})}]
        expect(wire, result(identifier, {"content": content}))
    del wire.unread[:]


def expect(wire: Wire, answer: Json) -> None:
    """Check that this is the answer to a request; others may be such that json cannot read them."""
    mark = f'"id":"{answer["id"]}"'.encode()
    line = wire.take(lambda line: mark in line.raw[:60], what=answer["id"])
    assert line.json == answer, line


def finish(wire: Wire) -> None:
    """Check that the proxy ends as if nothing had been."""
    wire.end_input()
    status = wire.wait(30)
    assert status == 0, status
    assert "Traceback" not in wire.stderr, wire.stderr[:5000]


def fuzz_pipes(side: str, count: int, seed: int) -> list[str]:
    """Fuzz one side of a real proxy; return what went wrong, with the line to blame."""
    fuzz = fuzz_client if side == "client" else fuzz_child
    lines = prepared(count, seed, side)
    problem, survived = failure(fuzz, lines)
    if not problem:
        return []
    suspects = [lines[survived : survived + BATCH], lines]  # it may take more than the last batch
    blamed = lines
    while lines := next((some for some in suspects if failure(fuzz, some)[0]), []):
        blamed, half = lines, len(lines) // 2
        suspects = [lines[:half], lines[half:]] if half else []
    return [f"{side}: {problem}\nof {len(blamed)} lines to blame: {shown(blamed[0])}"]


def failure(fuzz: Callable[[list[bytes]], Iterator[int]], lines: list[bytes]) -> tuple[str, int]:
    """Return what goes wrong with these lines, "" for nothing, and how many were survived."""
    survived = 0
    try:
        for survived in fuzz(lines):  # noqa: B007
            pass
    except (AssertionError, OSError) as problem:
        return f"{type(problem).__name__}: {problem}", survived
    return "", survived


def shown(line: bytes) -> str:
    """Return a line as its repr, shortened if it is very long."""
    return repr(line) if len(line) < 5000 else f"{line[:2000]!r} … {line[-1000:]!r}"


def fuzz(count: int, seed: int) -> list[str]:
    """Fuzz everything with `count` lines from each side; return what went wrong."""
    problems = []
    for place in ("core", "client", "child"):
        began = time.monotonic()
        found = fuzz_core(count, seed) if place == "core" else fuzz_pipes(place, count, seed)
        took = time.monotonic() - began
        print(f"{place}: {count} lines, {took:.0f} s, {len(found)} problems", flush=True)
        problems += found
    return problems


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Send a proxy mutated lines from both sides.")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    problems = fuzz(chosen.lines, chosen.seed)
    print(*problems, sep="\n\n")
    print(f"seed {chosen.seed}: {chosen.lines} lines a side, twice; {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
