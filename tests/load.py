"""The load of the soak: requests of every kind, and faults on every side, at random."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any

from ledger import (
    Json,
    Ledger,
    Owed,
    Right,
    dumps,
    error,
    never,
    passes_on,
    reply_to,
    result,
    says,
    success,
)
from wire import LATEST, TIMEOUT, Process, Wire, enveloped

from mcpagg_runtime.messages.protocol import SERVER_KEY

SERVERS = [f"s{number}" for number in range(10)]
MORTAL = SERVERS[4:]  # the others are never killed
BOTH_ERAS = SERVERS[7:]  # of these, half of the calls come without a handshake
ENVELOPED = {"echo", "who", "sleep", "progress", "error", "large answer", "large call"}
TOOLS = ["echo", "who", "sleep", "progress", "ask", "error", "big", "steps", "raw_line"]
TOOLS += ["die", "stop_reading", "grow", "shrink"]
ROOM_FOR_TOOLS = 5  # what a child grows before it shrinks


OUTSTANDING = 150
STEP_SECONDS = 1 / 300
WARM_UP = 0.3  # the part of it that memory may take to find its level
BURST = 20  # large messages at once, before memory is measured
GROWTH = 8 << 20
EXACT_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed is given back
SIZES = [1_000, 50_000, 300_000, 300_000, 2_000_000]
ODD_IDS = [0, -1, "", "0", "1", "ü", "\ud800", 2**70, 10**40]
JUNK = [
    "junk",
    "",
    "{",
    "5",
    "null",
    "[]",
    '"',
    "\ud800",
    "\u0000",
    "[" * 300,
    '{"method":5}',
    "{}",
]
JUNK += ['{"jsonrpc":"2.0","id":999999999,"result":{}}', '{"id":null,"error":{}}']
FLOODS: dict[str, Json] = {
    "stderr": {"stderr": "x\n", "fill": 1_000_000},
    "stderr without a line end": {"stderr": "x", "fill": 1_000_000},
    "notifications": {"notify": "notifications/message", "params": {}, "times": 1000},
    "changes": {"notify": "notifications/tools/list_changed", "times": 100},
}
BAD_LINES = {  # and the code of the error that is due
    b"junk": -32700,
    b'{"id":1': -32700,
    b"\xff": -32700,
    b"5": -32600,
    b"[]": -32600,
    b'{"id":null,"method":"ping"}': -32600,
    b'{"id":1.5,"method":"ping"}': -32600,
    b"": None,
    b'{"id":424242,"result":{}}': None,
    b'{"method":"notifications/nothing"}': None,
    b'{"method":"notifications/cancelled","params":{"requestId":"never"}}': None,
}


class Client(Wire):
    """A raw client that reads into a queue, and can pause."""

    def __init__(self, file: Path) -> None:
        self.lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.reading = threading.Event()
        self.reading.set()
        super().__init__([sys.executable, "-I", "-S", file], env={**os.environ, **EXACT_MEMORY})

    def __enter__(self) -> Client:
        return self

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for raw in stream:
                self.reading.wait()
                self.lines.put(raw)
        self.lines.put(None)

    def children(self) -> dict[str, int]:
        """Return the process id of each child, whose last argument is its name."""
        found = {}
        for process in Process.all():
            if process.parent == self.process.pid:
                with suppress(OSError, IndexError):
                    words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
                    found[words[-2].decode()] = process.pid
        return {name: found[name] for name in SERVERS if name in found}

    def signal_child(self, server: str, number: int) -> bool:
        """Send a signal to a child; return whether it runs."""
        with suppress(KeyError, ProcessLookupError):
            os.kill(self.children()[server], number)
            return True
        return False

    def use(self) -> tuple[int, int, int]:
        """Return the proxy's number of threads and of descriptors, and the bytes that it holds."""
        folder = Path(f"/proc/{self.process.pid}")
        rows = (row.split(":", 1) for row in (folder / "status").read_text().splitlines())
        status = {row[0]: row[1].split()[0] for row in rows if row[1].strip()}
        descriptors = len(os.listdir(folder / "fd"))
        return int(status["Threads"]), descriptors, int(status["VmRSS"]) * 1024


def seeded(*words: object) -> Random:
    """Return a generator of one's own, so that no choice depends on how many came before."""
    return Random("/".join(map(str, words)))  # noqa: S311


def in_old_words(right: Right) -> Right:
    """Return what judges a result as if it were not of 2026-07-28."""

    def judge(body: Json) -> bool:
        if "result" not in body:
            return right(body)
        result = dict(body["result"])
        new = result.pop("resultType", None), list(result.pop("_meta", {}))
        return new == ("complete", [SERVER_KEY]) and right({"result": result})

    return judge


class Load:
    """Sends requests and makes faults, and takes what comes to the ledger."""

    def __init__(self, client: Client, ledger: Ledger, seed: str) -> None:
        self.client, self.ledger, self.seed = client, ledger, seed
        self.steps = self.serial = 0
        self.grown: dict[str, list[str]] = {server: [] for server in SERVERS}
        self.drifting: set[str] = set()  # servers whose list is being changed
        self.fates: list[tuple[float, str]] = []  # when a child will end
        self.remedies: list[tuple[float, Callable[[], object]]] = []  # when a fault will

    # The course of a round

    def live(self, seconds: float) -> str:
        """Load the proxy for its whole life; return what it took."""
        rng, began = seeded(self.seed), time.monotonic()
        fates = [rng.choice([0, 1, 1, 1]) * rng.random() * seconds for _ in MORTAL]
        self.fates = [(began + fate, server) for fate, server in zip(fates, MORTAL, strict=True)]
        params = {"protocolVersion": LATEST, "capabilities": {"sampling": {}}, "clientInfo": {}}
        self.request("initialize", "initialize", params, success)
        self.client.notify("notifications/initialized")
        self.run(seconds * WARM_UP)
        before = self.rest()
        self.run(seconds * (1 - WARM_UP))
        after = self.rest()
        if after - before > GROWTH:
            raise self.ledger.violation(f"memory grew from {before:,} to {after:,} bytes")
        self.end()
        return f"{self.steps} steps, {before >> 20} MB after warm-up, {after >> 20} MB at the end"

    def run(self, seconds: float) -> None:
        """Go on for as many steps as these seconds have on an idle machine."""
        for _ in range(round(seconds / STEP_SECONDS)):
            now = time.monotonic()
            self.do_what_is_due(now)
            self.steps += 1
            rng = seeded(self.seed, self.steps)
            if len(self.ledger.owed) < OUTSTANDING:
                [step] = rng.choices(list(STEPS), list(STEPS.values()))
                step(self, rng)
            self.pump(now + STEP_SECONDS)
            if late := [o for o in self.ledger.owed.values() if o.since < now - TIMEOUT]:
                raise self.ledger.violation(f"not answered in time: {late}")

    def rest(self) -> int:
        """End all faults, wait until nothing is owed or left over; return the memory in use."""
        for number in range(BURST):  # so that every rest comes after the same peak
            self.large(seeded(number))
        end = time.monotonic() + TIMEOUT
        self.do_what_is_due(float("inf"))
        while self.ledger.owed and time.monotonic() < end:
            self.do_what_is_due(float("inf"))
            for identifier in list(self.ledger.questions):
                self.reply(identifier)
            self.pump(time.monotonic() + 0.01)
        if self.ledger.owed or self.ledger.codes:
            raise self.ledger.violation(f"never answered: {[*self.ledger.owed.values()]}")
        while True:  # a dead child's threads stay until its process group is surely gone
            children = len(self.client.children())
            threads, descriptors, size = self.client.use()
            if threads <= 2 + 3 * children and descriptors <= 8 + 5 * children:
                return size
            if time.monotonic() > end:
                what = f"{threads} threads, {descriptors} descriptors for {children} children"
                raise self.ledger.violation(what)
            self.pump(time.monotonic() + 0.05)

    def end(self) -> None:
        """End the input with calls in flight: all are answered, and nothing is left."""
        self.client.family()
        for number in range(20):
            self.slow(seeded(number), 0.2, SERVERS[number % 4])
        self.client.end_input()
        while (line := self.client.lines.get(timeout=TIMEOUT)) is not None:
            self.ledger.receive(line)
        status, left = self.client.wait(), self.client.family()
        errors = self.client.stderr
        if self.ledger.owed or status or left or "Traceback" in errors:
            owed = [*self.ledger.owed.values()]
            raise self.ledger.violation(f"status {status}, left {left}, owed {owed}, {errors}")

    def pump(self, until: float) -> None:
        """Take what comes until then."""
        while True:
            try:
                line = self.client.lines.get(timeout=max(0, until - time.monotonic()))
            except queue.Empty:
                return
            if line is None:
                raise self.ledger.violation(f"its output ended: {self.client.stderr[-3000:]}")
            self.ledger.receive(line)

    def do_what_is_due(self, now: float) -> None:
        """End the faults, and the children, whose time has come; all faults at the end of time."""
        for entry in [entry for entry in self.remedies if entry[0] <= now]:
            self.remedies.remove(entry)
            entry[1]()
        for fate in [fate for fate in self.fates if fate[0] <= now < float("inf")]:
            self.fates.remove(fate)
            self.end_child(fate[1])

    # Requests

    def request(
        self,
        kind: str,
        method: str,
        params: Json | None,
        right: Right,
        server: str = "",
        then: Callable[[], object] = lambda: None,
        steps: int = 0,
    ) -> None:
        """Send a request, now and then with an odd id, which is used again and again."""
        self.serial += 1
        identifier = ([self.serial, str(self.serial)] * 20 + ODD_IDS)[self.serial * 8 % 49]
        if (type(identifier), identifier) in self.ledger.owed:
            identifier = f"again {self.serial}"
        message = {"jsonrpc": "2.0", "id": identifier, "method": method}
        if params is not None:
            message["params"] = {**params, "_meta": {"progressToken": identifier}}
        if kind in ENVELOPED and server in BOTH_ERAS and self.serial % 2:
            message["params"] = enveloped(params, progressToken=identifier)
            kind, right = f"{kind} without a handshake", in_old_words(right)
        owed = Owed(kind, (type(identifier), identifier), server, right, then, steps)
        self.ledger.owed[owed.key] = owed
        self.ledger.note(f"> {identifier!r} {kind} {server}")
        self.client.send(message)

    def call(
        self,
        kind: str,
        rng: Random,
        tool: str,
        arguments: Json,
        right: Right,
        server: str = "",
        **more: Any,
    ) -> None:
        """Call a tool, of any server unless one is given, by either of its names."""
        server = server or rng.choice(SERVERS)
        params = {"name": f"{server}{rng.choice(':_')}{tool}", "arguments": arguments}
        self.request(kind, "tools/call", params, right, server, **more)

    def echo(self, rng: Random) -> None:
        given = {"serial": self.serial, "text": rng.choice(ODD_IDS), "1": [1e300, None, True]}
        self.call("echo", rng, "echo", given, says(dumps(given)))

    def who(self, rng: Random) -> None:
        server = rng.choice(SERVERS)
        self.call("who", rng, "who", {}, result(content=[], server=server), server)

    def slow(self, rng: Random, longest: float = 1.5, server: str = "") -> None:
        seconds = rng.random() * longest
        self.call("sleep", rng, "sleep", {"seconds": seconds}, says(f"slept {seconds} s"), server)

    def progress(self, rng: Random) -> None:
        steps = rng.randint(1, 10)
        given = {"count": steps, "every": rng.choice([0, 0.01])}
        self.call("progress", rng, "progress", given, says(f"{steps} steps"), steps=steps)

    def error(self, rng: Random) -> None:
        given = {"code": -self.serial, "message": "no", "data": {"serial": self.serial}}
        self.call("error", rng, "error", given, lambda body: body == {"error": given})

    def large(self, rng: Random) -> None:
        fill = "x" * rng.choice(SIZES)
        if rng.random() < 0.5:
            self.call("large answer", rng, "big", {"bytes": len(fill)}, says(fill))
        else:
            self.call("large call", rng, "echo", {"fill": fill}, says(dumps({"fill": fill})))

    def ask(self, rng: Random) -> None:
        question = {"serial": self.serial, "fails": rng.random() < 0.3}
        given = {"method": "sampling/createMessage", "params": question}
        # One that asks is given the calls of one client at a time, which would be another load.
        server = rng.choice([name for name in SERVERS if name not in BOTH_ERAS])
        self.call("ask", rng, "ask", given, passes_on(reply_to(question)), server)

    def reply(self, identifier: int) -> None:
        question = self.ledger.questions.pop(identifier)
        self.client.send({"jsonrpc": "2.0", "id": identifier, **reply_to(question)})

    def reply_to_one(self, rng: Random) -> None:
        if self.ledger.questions:
            self.reply(rng.choice(list(self.ledger.questions)))

    def ping(self, rng: Random) -> None:
        self.request("ping", "ping", rng.choice([None, {}]), result())

    def list(self, rng: Random) -> None:
        down = set() if self.ledger.restarts else set(self.ledger.down)

        def right(body: Json) -> bool:
            names = {tool["name"] for tool in body["result"]["tools"]}
            alive = (server for server in SERVERS if server not in self.ledger.dying)
            wanted = {f"{server}:{tool}" for server in alive for tool in TOOLS}
            return wanted <= names and down.isdisjoint(name.partition(":")[0] for name in names)

        self.request("list", "tools/list", rng.choice([None, {}]), right)

    def unknown(self, rng: Random) -> None:
        kind = rng.choice(["prefix", "tool", "method"])
        if kind == "tool":
            self.call("unknown tool", rng, "none", {}, error(-32601, "none"))
        elif kind == "prefix":
            no = error(-32601, "Tool not found: nobody:echo")
            self.request("unknown prefix", "tools/call", {"name": "nobody:echo"}, no)
        else:
            self.request("unknown method", "no/method", None, error(-32601, "no/method"))

    # Faults

    def fault(self, kind: str, about: object = "") -> None:
        self.ledger.counts[f"fault: {kind}"] += 1
        self.ledger.note(f"! {kind} {about!r}")

    def remedy(self, seconds: float, deed: Callable[[], object]) -> None:
        self.remedies.append((time.monotonic() + seconds, deed))

    def cancel(self, rng: Random) -> None:
        """Cancel a call; once a ping that was sent behind is answered, no answer may come."""
        calls = [o for o in self.ledger.owed.values() if o.kind in CANCELLED and not o.cancelled]
        if calls:
            chosen = rng.choice(calls)
            self.fault("cancel", chosen.key[1])
            chosen.cancelled = True
            self.client.notify("notifications/cancelled", {"requestId": chosen.key[1]})
            forgive = partial(self.ledger.forgive, chosen)
            self.request("ping", "ping", None, result(), then=forgive)

    def bad_line(self, rng: Random) -> None:
        line, code = rng.choice(list(BAD_LINES.items()))
        self.fault("bad line", line)
        self.ledger.codes.extend([] if code is None else [code])
        self.client.send(line)

    def flood(self, rng: Random) -> None:
        kind = rng.choice(list(FLOODS))
        self.fault(f"flood of {kind}")
        given = {"steps": [FLOODS[kind]]}
        self.call("steps", rng, "steps", given, says(dumps(given)))

    def junk(self, rng: Random) -> None:
        lines = [rng.choice(JUNK) for _ in range(rng.choice([1, 10, 1000]))]
        self.fault(f"{len(lines)} lines of junk")
        lines.append(f'{{"jsonrpc":"2.0","id":ID,"result":{{"serial":{self.serial}}}}}')
        given = {"line": "\n".join(lines)}
        self.call("raw_line", rng, "raw_line", given, result(serial=self.serial))

    def stall(self, rng: Random) -> None:
        server = rng.choice(SERVERS)
        if self.client.signal_child(server, SIGSTOP):
            self.fault("stall", server)
            self.remedy(rng.random() * 2, partial(self.client.signal_child, server, SIGCONT))

    def pause(self, rng: Random) -> None:
        self.fault("client pauses")
        self.client.reading.clear()
        self.remedy(rng.random(), self.client.reading.set)

    def drift(self, rng: Random) -> None:
        """Let a child grow or shrink by a tool, or call one that has grown."""
        server = rng.choice(SERVERS)
        names = self.grown[server]
        if names and rng.random() < 0.5:
            self.call_grown(rng, server, rng.choice(names))
        elif server not in self.drifting | self.ledger.dying:
            # A child that was started again has forgotten what it grew, and would shrink too far.
            shrinks = len(names) > rng.randrange(ROOM_FOR_TOOLS) and not self.ledger.restarts
            kind = "shrink" if shrinks else "grow"
            name = names.pop() if shrinks else f"grown{self.serial}"

            def then() -> None:
                self.drifting.discard(server)
                names.extend([] if shrinks else [name])

            self.fault(kind, server)
            self.drifting.add(server)
            self.call(kind, rng, kind, {"name": name}, success, server, then=then)

    def call_grown(self, rng: Random, server: str, name: str) -> None:
        given = {"serial": self.serial}

        def right(body: Json) -> bool:
            gone = name not in self.grown[server] or server in self.ledger.dying
            gone = gone or self.ledger.restarts
            unknown = "error" in body and body["error"]["code"] in (-32601, -32602)
            return (gone and unknown) or says(dumps(given))(body)

        self.call("grown tool", rng, name, given, right, server)

    def end_child(self, server: str) -> None:
        """End a child in one of many ways."""
        rng = seeded(self.seed, server, self.ledger.counts[f"fault: end {server}"])
        way = rng.choice(["kill", "kill", "die", "exit", "mute", "deaf"])
        if way == "kill" and not self.client.signal_child(server, SIGKILL):
            self.fates.append((time.monotonic() + 0.2, server))  # it does not run yet
            return
        self.fault(f"end {server}", way)
        self.ledger.dying.add(server)
        if way == "die":
            self.call(way, rng, "die", {"stderr": "last words\n" * 1000}, never, server)
        elif way == "exit":
            self.call(way, rng, "die", {"exit": 3}, never, server)
        elif way == "mute":
            self.call(way, rng, "steps", {"steps": [{"close": 1}]}, never, server)
        elif way == "deaf":
            # Not before it is deaf: on a busy machine it may not have been started yet.
            kill = partial(self.client.signal_child, server, SIGKILL)
            then = partial(self.remedy, 1, kill)
            self.call(way, rng, "stop_reading", {}, says("deaf"), server, then=then)
        if self.ledger.restarts:
            self.fates.append((time.monotonic() + rng.uniform(3, 10), server))


CANCELLED = {"echo", "who", "sleep", "progress", "ask", "large answer", "grown tool"}
CANCELLED |= {f"{kind} without a handshake" for kind in CANCELLED & ENVELOPED}
STEPS: dict[Callable[[Load, Random], None], float] = {
    Load.echo: 30,
    Load.who: 15,
    Load.slow: 15,
    Load.progress: 8,
    Load.error: 4,
    Load.large: 2,
    Load.ask: 8,
    Load.reply_to_one: 9,
    Load.ping: 4,
    Load.list: 1,
    Load.unknown: 2,
    Load.cancel: 10,
    Load.bad_line: 2,
    Load.flood: 1,
    Load.junk: 2,
    Load.drift: 3,
    Load.stall: 0.2,
    Load.pause: 0.1,
}
