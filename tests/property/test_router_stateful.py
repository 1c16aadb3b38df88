"""The router against a reference model: every request answered once, by the right answer.

The machine plays three children and any number of clients, in any order that comes to mind: ids of
every legal kind, used again and again; equal progress tokens; answers out of order, twice, late;
cancellations at any moment; questions with colliding ids; deaths, timeouts, junk and drift. The
model knows each request by a serial number in its arguments, and says after every event, line for
line, what everybody must have been sent. More examples: --hypothesis-profile thorough.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from core import ROOTS, Json, Peer, World, by, tool
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from moves import THOROUGH, Nobody, move, numbers, seldom
from router_model import (
    CALL_SECONDS,
    CHILD_JUNK,
    CLIENT_JUNK,
    IDLE_SECONDS,
    IDS,
    SNAPSHOT,
    START_SECONDS,
    TARGETS,
    TOO_OFTEN,
    VARIANTS,
    Asked,
    Server,
    Wondered,
    ids,
    key,
    shapes,
    targets,
    tokens,
)

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.servers.attribution import LATE_SECONDS
from mcpagg_runtime.servers.calls import LONGEST_TIMES
from mcpagg_runtime.servers.lifecycle import MAXIMUM_FAILURES
from mcpagg_runtime.servers.lists import PATIENCE_SECONDS, SETTLE_SECONDS


class RouterMachine(RuleBasedStateMachine):
    """Plays every peer, and checks every line."""

    @initialize(
        policy=st.sampled_from(["live", "live", "warn", "refuse"]),
        timeout=st.sampled_from([None, CALL_SECONDS]),
        start=st.sampled_from(["eager", "eager", "lazy"]),
        restart=st.sampled_from(["never", "on-call"]),
        idle_stop=st.sampled_from([None, None, IDLE_SECONDS]),
        up=st.booleans(),
        shared=st.booleans(),
    )
    def begin(
        self,
        policy: str,
        timeout: float | None,
        start: str,
        restart: str,
        idle_stop: float | None,
        up: bool,
        shared: bool,
    ) -> None:
        self.policy = policy
        self.timeout = timeout
        self.eager = start == "eager"
        self.restart = restart
        self.world = World(
            SNAPSHOT,
            on_drift=policy,
            timeout=timeout,
            start=start,
            restart=restart,
            idle_stop=idle_stop,
        )
        # On behalf of whom servers are started that many clients share: nobody can ask it anything.
        self.audience = Client("auto") if shared else None
        self.servers = {name: Server(name) for name in SNAPSHOT}
        self.clients: list[Client] = []
        self.owed: list[Asked] = []
        self.questions: list[Wondered] = []
        self.serial = 0
        self.expected: dict[Peer, Counter[str]] = {}
        self.told = False  # whether this event may change a list, or be worth a warning
        self.withheld = 0  # lists of this event that were not given, under `refuse`
        self.connect(capable=True)
        while up and self.within("asked"):
            self.grow(0)
            self.grow(0)
            self.list_tools(0, 0)

    # --- What the model expects, and what came ------------------------------------------------

    def expect(self, peer: Peer, line: str) -> None:
        self.expected.setdefault(peer, Counter())[line] += 1

    def expect_failure(self, asked: Asked, code: int, message: str, data: str = "") -> None:
        error = f'{{"code":{code},"message":{json.dumps(message)}{data}}}'
        self.expect(asked.client, f'{{"jsonrpc":"2.0","id":{asked.raw},"error":{error}}}')

    def expect_down(self, asked: Asked, reason: str) -> None:
        data = f',"data":{{"server":"{asked.server}"}}'
        self.expect_failure(asked, -32603, f"Server '{asked.server}' {reason}", data)

    def expect_cancel(self, peer: Peer, number: int, more: str = "") -> None:
        params = f'{{"requestId":{number}{more}}}'
        self.expect(
            peer, f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}'
        )

    def _take_back(self, asked: Asked, more: str = "") -> None:
        """A child is told that nobody waits for a call; for a while it may ask for it yet."""
        self.expect_cancel(self.world[asked.server], asked.child_id, more)
        late = self.servers[asked.server].late
        late[asked.client] = self.world.now + LATE_SECONDS

    def settle(self, asked: Asked) -> None:
        """The call is owed no answer any more; its id at the child is spent."""
        self.owed.remove(asked)
        if asked.child_id:
            self.servers[asked.server].spent.append(asked.child_id)

    def check(self) -> None:
        """Hold what everybody was sent in this event against what the model expects."""
        self.sound = False
        for name in self.world.started:
            server = self.servers[name]
            assert server.state in ("new", "down")
            server.state = "asked"
            server.deadline = self.world.now + START_SECONDS
        self.world.started.clear()
        for server in self.servers.values():
            self._check_child(server)
        for client in self.clients:
            lines = Counter(self.world.lines(client))
            changed = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
            assert self.told or not lines[changed]
            assert lines[changed] <= max(self.withheld, 1)
            del lines[changed]
            assert lines == self.expected.pop(client, Counter())
        assert not any(self.expected.values()), self.expected
        assert self.told or not self.world.said
        self.world.said.clear()
        self.expected, self.told, self.withheld = {}, False, 0
        for client in self.clients:
            owed = any(asked.client is client for asked in self.owed)
            assert self.world.core.owes(client) == owed
        self.sound = True

    def _check_child(self, server: Server) -> None:
        child = self.world[server.name]
        rest: Counter[str] = Counter()
        for line in self.world.lines(child):
            message = json.loads(line)
            if message.get("method") == "tools/call":
                self._sent(server, message)
            elif message.get("method") == "tools/list":
                assert server.state == "ready"
                assert not server.listing
                self._fresh(server, message["id"])
                server.listing = message["id"]
                server.overtaken = False
                server.list_deadline = self.world.now + START_SECONDS
            else:
                rest[line] += 1
        assert rest == self.expected.pop(child, Counter())
        for asked in self.owed:
            if asked.server == server.name and not asked.child_id and server.state == "ready":
                if asked.known:
                    assert self.policy == "refuse"
                    assert not server.compared
                elif not asked.known:
                    assert server.listing

    def _sent(self, server: Server, message: Json) -> None:
        """A call reached a child: the right one, once, under its own name and fresh numbers."""
        params = message["params"]
        [asked] = [asked for asked in self.owed if asked.serial == params["arguments"]["serial"]]
        assert not asked.child_id
        assert (asked.server, asked.original) == (server.name, params["name"])
        assert server.state == "ready"
        assert self.policy != "refuse" or server.compared
        self._fresh(server, message["id"])
        asked.child_id = message["id"]
        if asked.token:
            assert params["_meta"] == {"progressToken": asked.child_id}
        else:
            assert "_meta" not in params

    def _fresh(self, server: Server, number: object) -> None:
        assert type(number) is int
        assert number not in server.used
        server.used.add(number)

    def pick(self, items: list[Any], number: int) -> Any:
        if not items:
            raise Nobody
        return items[number % len(items)]

    def within(self, *states: str) -> list[Server]:
        return [server for server in self.servers.values() if server.state in states]

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def sent(self) -> list[Asked]:
        return [asked for asked in self.owed if asked.child_id]

    def say(self, peer: Peer, line: str | bytes) -> None:
        note(f"{peer.name}: {line!r}")
        self.world.say(peer, line)
        self.check()

    def hear(self, server: Server, line: str | bytes) -> None:
        self.say(self.world[server.name], line)

    # --- Clients ------------------------------------------------------------------------------

    def wake(self, server: Server, client: Client) -> None:
        if server.state == "new" or self.may_retry(server):
            server.starter = self.audience or client

    def may_retry(self, server: Server) -> bool:
        again = self.restart == "on-call" and server.failures < MAXIMUM_FAILURES
        return server.state == "down" and again and server.retry_at <= self.world.now

    @move(capable=st.booleans())
    def connect(self, capable: bool) -> None:
        if len(self.clients) == 3:
            return
        client = self.world.client(ROOTS if capable else {}, audience=self.audience)
        self.clients.append(client)
        if self.eager:
            for server in self.servers.values():
                self.wake(server, client)
        self.check()

    @move(who=numbers, really=seldom)
    def disconnect(self, who: int, really: bool = True) -> None:
        client = self.pick(self.clients if really else [], who)
        for asked in [asked for asked in self.owed if asked.client is client]:
            if asked.child_id:
                self._take_back(asked)
            self.settle(asked)
        for question in [question for question in self.questions if question.client is client]:
            error = '{"code":-32603,"message":"The client is gone"}'
            self.expect(
                self.world[question.server],
                f'{{"jsonrpc":"2.0","id":{question.raw},"error":{error}}}',
            )
            self.questions.remove(question)
        self.clients.remove(client)
        self.world.do(self.world.core.disconnect(client))
        self.check()
        assert self.world.lines(client) == []

    @move(
        who=numbers,
        calls=st.lists(st.tuples(ids, targets, tokens), min_size=1, max_size=5),
        alike=st.booleans(),
    )
    def call(
        self, who: int, calls: list[tuple[str, tuple[str, str, str], str]], alike: bool
    ) -> None:
        for raw, target, token in calls:
            self._call(self.pick(self.clients, who), calls[0][0] if alike else raw, target, token)

    def _call(self, client: Client, raw: str, target: tuple[str, str, str], token: str) -> None:
        name, place, original = target
        asked = Asked(self.next_serial(), client, raw, name, place, original, token, known=True)
        meta = f',"_meta":{{"progressToken":{token}}}' if token else ""
        params = f'{{"name":"{name}","arguments":{{"serial":{asked.serial}}}{meta}}}'
        if place:
            self._called(asked, self.servers[place])
        else:
            self._called_by_own_name(asked)
        self.say(client, f'{{"id":{raw},"method":"tools/call","params":{params}}}')

    def _called_by_own_name(self, asked: Asked) -> None:
        """A name without a prefix is for the one server that has it, and for nobody if two have."""
        owners = [server for server in self.servers.values() if asked.name in self.had(server)]
        if len(owners) == 1:
            asked.server, asked.original = owners[0].name, asked.name
            asked.name = f"{asked.server}:{asked.original}"
            self._called(asked, owners[0])
        elif not owners and ":" in asked.name:
            self.expect_failure(asked, -32601, f"Tool not found: {asked.name}")
        else:
            said = " or ".join(f"{server.name}:{asked.name}" for server in owners)
            problem = f"Tool name must be prefixed with server key: {asked.name}"
            self.expect_failure(asked, -32602, f"{problem}; say {said}" if said else problem)

    def had(self, server: Server) -> list[str]:
        """Return the tools that a server is known to have; what is withheld counts."""
        return SNAPSHOT[server.name] if self.policy == "refuse" else list(server.served)

    def _called(self, asked: Asked, server: Server) -> None:
        lost = server.state == "down" and not self.may_retry(server)
        if asked.original in server.served:
            if lost:
                self.expect_down(asked, "died")
                return
        elif asked.original in server.refused:
            self.expect_down(asked, server.refused[asked.original])
            return
        elif self.policy != "live" or lost:
            self.expect_failure(asked, -32601, f"Tool not found: {asked.name}")
            return
        else:
            asked.known = False
        if server.give_up_at <= self.world.now:
            self.expect_down(asked, TOO_OFTEN)
            return
        if self.timeout is not None:
            asked.deadline = self.world.now + self.timeout
            asked.latest = self.world.now + LONGEST_TIMES * self.timeout
        self.owed.append(asked)
        self.wake(server, asked.client)

    @move(who=numbers, raw=st.sampled_from([*IDS, "true", "null", "1.0"]))
    def cancel(self, who: int, raw: str) -> None:
        client = self.pick(self.clients, who)
        for asked in reversed(self.owed):
            if asked.client is client and key(asked.raw) == key(raw):
                if asked.child_id:
                    self._take_back(asked)
                self.settle(asked)
                break
        self.say(client, f'{{"method":"notifications/cancelled","params":{{"requestId":{raw}}}}}')

    @move(which=numbers)
    def cancel_one_in_flight(self, which: int) -> None:
        asked = self.pick(self.owed, which)
        self.cancel(self.clients.index(asked.client), asked.raw)

    @move(who=numbers, raw=ids, junk=st.sampled_from([None, *CLIENT_JUNK]))
    def ping_or_junk(self, who: int, raw: str, junk: bytes | None) -> None:
        client = self.pick(self.clients, who)
        if junk is None:
            self.expect(client, f'{{"jsonrpc":"2.0","id":{raw},"result":{{}}}}')
            self.say(client, f'{{"id":{raw},"method":"ping"}}')
            return
        self.world.say(client, junk)
        [line] = self.world.lines(client)
        assert line.startswith('{"jsonrpc":"2.0","id":null,"error":{"code":-32')
        self.check()

    # --- Children -----------------------------------------------------------------------------

    @move(which=numbers)
    def grow(self, which: int) -> None:
        server = self.pick(self.within("asked", "born"), which)
        if server.state == "asked":
            self._be_born(server)
        else:
            self._shake_hands(server)

    def _be_born(self, server: Server) -> None:
        self.world.do(self.world.core.child_up(self.world[server.name]))
        [hello] = self.world.received(self.world[server.name])
        assert hello["method"] == "initialize"
        starter = server.starter
        declared = starter is not None and "roots" in starter.capabilities
        assert ("roots" in hello["params"]["capabilities"]) == declared
        self._fresh(server, hello["id"])
        server.hello, server.state = hello["id"], "born"
        self.check()

    def _shake_hands(self, server: Server) -> None:
        self.told = server.failures > 0  # its tools are back in the list
        server.state, server.ready_at = "ready", self.world.now
        server.deadline = float("inf")
        server.spent.append(server.hello)
        self.expect(
            self.world[server.name], '{"jsonrpc":"2.0","method":"notifications/initialized"}'
        )
        answer = '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}'
        self.hear(server, f'{{"id":{server.hello},"result":{answer}}}')
        assert server.listing

    @move(which=numbers, variant=st.sampled_from(range(-1, len(VARIANTS))))
    def list_tools(self, which: int, variant: int) -> None:
        server = self.pick([s for s in self.servers.values() if s.listing], which)
        self._list(server, variant)

    def _list(self, server: Server, variant: int) -> None:
        number, server.listing, server.list_deadline = server.listing, 0, float("inf")
        server.spent.append(number)
        if variant < 0:
            error = '{"code":1,"message":"m"}'
            self._unread(server, error)
            self.hear(server, f'{{"id":{number},"error":{error}}}')
        else:
            listed = VARIANTS[variant](SNAPSHOT[server.name])
            self._compared(server, {entry["name"]: entry for entry in listed})
            answer = json.dumps({"tools": listed})
            self.hear(server, f'{{"id":{number},"result":{answer}}}')

    def _compared(self, server: Server, listed: dict[str, Json]) -> None:
        recorded = {name: tool(name) for name in SNAPSHOT[server.name]}
        wondering = [a for a in self.owed if a.server == server.name and not a.known]
        settled = self.world.now >= server.ready_at + SETTLE_SECONDS
        if listed != recorded and not settled and not wondering:
            return
        self.told, server.compared = True, not server.overtaken
        if not server.overtaken:
            server.give_up_at = float("inf")
        else:
            server.give_up_at = min(server.give_up_at, self.world.now + PATIENCE_SECONDS)
        if self.policy == "live":
            server.served = listed
        elif self.policy == "refuse":
            same = [name for name in recorded if listed.get(name) == recorded[name]]
            server.served = {name: recorded[name] for name in same}
            server.refused = {
                name: f"has a tool '{name}' that {'changed' if name in recorded else 'is new'} "
                "since this proxy was compiled"
                for name in listed
                if name not in same
            }
            if not server.overtaken:
                self._refuse_waiting(server)
        self._answer_unknown(server)

    def _refuse_waiting(self, server: Server) -> None:
        for asked in list(self.owed):
            if asked.server != server.name or asked.child_id:
                continue
            if asked.original in server.refused:
                self.expect_down(asked, server.refused[asked.original])
                self.settle(asked)
            elif asked.original not in server.served:
                self.expect_failure(asked, -32601, f"Tool not found: {asked.name}")
                self.settle(asked)

    def _answer_unknown(self, server: Server) -> None:
        for asked in list(self.owed):
            if asked.server == server.name and not asked.known and not asked.child_id:
                if asked.original in server.served:
                    asked.known = True
                else:
                    self.expect_failure(asked, -32601, f"Tool not found: {asked.name}")
                    self.settle(asked)

    def _unread(self, server: Server, problem: str) -> None:
        self.told = True
        if self.policy == "refuse":
            reason = f"gave no list of tools to compare ({problem})"
            server.served, server.compared = {}, True
            self.withheld += 1
            server.refused = dict.fromkeys(SNAPSHOT[server.name], reason)
            self._refuse_waiting(server)
        self._answer_unknown(server)

    @move(answers=st.lists(st.tuples(numbers, shapes), min_size=1, max_size=4))
    def answer(self, answers: list[tuple[int, str]]) -> None:
        for which, shape in answers:
            self._answer(self.pick(self.sent(), which), shape)

    def _answer(self, asked: Asked, shape: str) -> None:
        server, number = self.servers[asked.server], asked.child_id
        raw = f'{{"serial":{asked.serial},"n":1.0,"n":1e999}}'
        line = {
            "result": f'{{"jsonrpc":"2.0","id":{number},"result":{raw}}}',
            "string id": f'{{"result":{raw},"id":"{number}"}}',
            "both": f'{{"error":null,"id":{number},"result":{raw}}}',
            "error": f'{{"id":{number},"error":{raw}}}',
            "batch": f'[{{"id":{number},"result":{raw}}},{{"id":{number},"result":{{}}}}]',
        }[shape]
        member = "error" if shape == "error" else "result"
        self.expect(asked.client, f'{{"jsonrpc":"2.0","id":{asked.raw},"{member}":{raw}}}')
        self.settle(asked)
        self.hear(server, line)

    @move(which=numbers, what=st.sampled_from(["result", "error", "progress"]), one=numbers)
    def answer_late(self, which: int, what: str, one: int) -> None:
        """A child answers what nobody waits for any more, or what it was not asked yet."""
        server = self.pick([s for s in self.servers.values() if s.spent], which)
        number = self.pick([*server.spent, max(server.used) + 1], one)
        if what == "progress":
            self.hear(server, self._progress(number))
        else:
            self.hear(server, f'{{"id":{number},"{what}":{{}}}}')

    def _progress(self, token: object) -> str:
        return (
            '{"jsonrpc":"2.0","method":"notifications/progress","params":'
            f'{{"progressToken":{token},"progress":1.0}}}}'
        )

    @move(which=numbers)
    def report_progress(self, which: int) -> None:
        asked = self.pick(self.sent(), which)
        if asked.token:
            self.expect(asked.client, self._progress(asked.token))
            if self.timeout is not None:
                asked.deadline = min(self.world.now + self.timeout, asked.latest)
        self.hear(self.servers[asked.server], self._progress(asked.child_id))

    @move(which=numbers, raw=ids)
    def ask_client(self, which: int, raw: str) -> None:
        """Let a child ask whoever it works for; for several clients see the model of questions."""
        method = "roots/list"
        server = self.pick(self.within("ready"), which)
        child, serial = self.world[server.name], self.next_serial()
        mine = [asked.client for asked in self.sent() if asked.server == server.name]
        open_ = [question.client for question in self.questions if question.server == server.name]
        at_work = [client for client in mine if mine.count(client) > open_.count(client)]
        late = {one for one, until in server.late.items() if until >= self.world.now}
        starter = server.starter if server.starter in self.clients else None
        callers = at_work or mine
        meant = {*callers, *late} if callers else {starter, *late}
        if len(meant) > 1:
            raise Nobody
        line = f'{{"id":{raw},"method":"{method}","params":{{"serial":{serial}}}}}'
        client = (at_work or mine)[-1] if mine else starter
        if client is not None and "roots" not in client.capabilities:
            client = None
        if client is None:
            error = f'{{"code":-32601,"message":"Method not found: {method}"}}'
            if not mine and starter is None:
                error = '{"code":-32603,"message":"No client\'s call is under way"}'
            self.expect(child, f'{{"jsonrpc":"2.0","id":{raw},"error":{error}}}')
            self.hear(server, line)
            return
        self.world.say(child, line)
        [asked] = self.world.received(client)
        assert (asked["method"], asked["params"]) == (method, {"serial": serial, **by(server.name)})
        assert asked["id"] not in [q.client_id for q in self.questions if q.client is client]
        self.questions.append(Wondered(serial, server.name, raw, client, asked["id"]))
        self.check()

    @move(which=numbers, raw=ids)
    def take_question_back(self, which: int, raw: str) -> None:
        server = self.pick(self.within("ready"), which)
        for question in reversed(self.questions):
            if question.server == server.name and key(question.raw) == key(raw):
                self.expect_cancel(question.client, question.client_id)
                self.questions.remove(question)
                break
        self.hear(server, f'{{"method":"notifications/cancelled","params":{{"requestId":{raw}}}}}')

    @move(which=numbers, failed=st.booleans())
    def answer_question(self, which: int, failed: bool) -> None:
        question = self.pick(self.questions, which)
        raw = f'{{"serial":{question.serial},"n":1.0}}'
        member = "error" if failed else "result"
        self.expect(
            self.world[question.server],
            f'{{"jsonrpc":"2.0","id":{question.raw},"{member}":{raw}}}',
        )
        self.questions.remove(question)
        line = f'{{"id":{question.client_id},"{member}":{raw}}}'
        self.say(question.client, line)
        self.say(question.client, line)  # twice: the second one answers nothing

    @move(which=numbers, junk=st.sampled_from(CHILD_JUNK))
    def babble(self, which: int, junk: bytes) -> None:
        server = self.pick(list(self.servers.values()), which)
        self.told = True
        self.hear(server, junk)

    @move(which=numbers)
    def say_something_new(self, which: int) -> None:
        server = self.pick(list(self.servers.values()), which)
        line = '{"jsonrpc":"2.0","method":"notifications/unknown","params":{"n":1.0}}'
        callers = {asked.client for asked in self.sent() if asked.server == server.name}
        if server.state == "ready":
            for client in self.clients:
                if not callers - {client}:
                    self.expect(client, line)
        self.hear(server, line)

    @move(which=numbers, raw=ids, method=st.sampled_from(["roots/list", "ping"]))
    def ask_from_the_grave(self, which: int, raw: str, method: str) -> None:
        server = self.pick(self.within("down"), which)
        self.hear(server, f'{{"id":{raw},"method":"{method}"}}')

    @move(which=numbers, times=st.sampled_from([1, 1, 50]))
    def announce_changes(self, which: int, times: int) -> None:
        server = self.pick(self.within("ready"), which)
        for _ in range(times):
            self._announce(server)

    def _announce(self, server: Server) -> None:
        if self.policy == "refuse":  # nothing is forwarded before the next comparison
            server.compared = False
            server.overtaken = server.listing != 0
        self.hear(server, '{"method":"notifications/tools/list_changed"}')

    @move(which=numbers, variant=st.sampled_from(range(len(VARIANTS))))
    def change_list(self, which: int, variant: int) -> None:
        """Let a child announce a list, and give it when asked; somebody calls what is in it."""
        server = self.pick(self.within("ready"), which)
        self._announce(server)
        self.wait(SETTLE_SECONDS)
        if server.listing:
            self._list(server, variant)
        self._call_of(server, which)

    @move(which=numbers, really=seldom)
    def change_all_the_time(self, which: int, really: bool) -> None:
        """Let a child announce a change during each reading of its list; somebody calls it."""
        server = self.pick(self.within("ready") if really else [], which)
        self._call_of(server, which)
        end = self.world.now + PATIENCE_SECONDS + 2
        while self.world.now < end and server.state == "ready":
            self._announce(server)
            if server.listing:
                self._list(server, 0)
            self.wait(0.5)

    def _call_of(self, server: Server, which: int) -> None:
        client = self.pick(self.clients, which)
        self._call(client, "1", self.pick([t for t in TARGETS if t[1] == server.name], which), "")

    @move(who=numbers, what=numbers, really=seldom)
    def call_the_dead(self, who: int, what: int, really: bool) -> None:
        """Let a child die, and at once want something of it."""
        self.die(what, really)
        self._call_of(self.pick(self.within("down"), what), who)

    @move(which=numbers, really=seldom)
    def die(self, which: int, really: bool = True) -> None:
        server = self.pick(self.within("asked", "born", "ready") if really else [], which)
        server.fail(self.world.now)
        for asked in [asked for asked in self.owed if asked.server == server.name]:
            self.expect_down(asked, "died")
            self.settle(asked)
        for question in [q for q in self.questions if q.server == server.name]:
            self.expect_cancel(question.client, question.client_id)
            self.questions.remove(question)
        self.told = True
        self.world.down(server.name, "died")
        self.check()

    # --- Time ---------------------------------------------------------------------------------

    @move(seconds=st.sampled_from([0.0, 0.05, SETTLE_SECONDS, 10.0, CALL_SECONDS, 61.0]))
    def wait(self, seconds: float) -> None:
        world = self.world
        end = world.now + seconds
        while world.core.alarm <= end:
            world.now = max(world.now, world.core.alarm)
            late = self._pass_time()
            world.stopped.clear()
            world.do(world.core.tick())
            assert [name for name, _ in world.stopped] == late
            self._fall_asleep()
            self.check()
        world.now = end
        overdue = [asked.deadline for asked in self.owed]
        for server in self.servers.values():
            overdue += [server.deadline, server.list_deadline]
        assert not overdue or min(overdue) > end

    @move(which=numbers, listed=st.booleans())
    def answer_too_late(self, which: int, listed: bool) -> None:
        """Let a child take too long over a list or a call, and answer after all."""
        waited_for = [s for s in self.within("ready") if s.listing or not listed]
        server = self.pick(waited_for, which)
        mine = [asked.child_id for asked in self.sent() if asked.server == server.name]
        numbers = [server.listing] if listed else mine
        self.wait(START_SECONDS + 1)
        for number in numbers:
            if number in server.spent:
                self.hear(server, f'{{"id":{number},"result":{{"tools":[]}}}}')

    def _fall_asleep(self) -> None:
        """Only a child without anything to do may be sent to sleep."""
        for server in (self.servers[name] for name in self.world.asleep):
            assert server.state == "ready"
            assert not server.listing
            assert server.name not in [asked.server for asked in self.owed]
            assert server.name not in [question.server for question in self.questions]
            server.forget("new")
        self.world.asleep.clear()

    def _pass_time(self) -> list[str]:
        """Expect what is due now; return the children that are to be stopped."""
        now, late = self.world.now, []
        for server in self.servers.values():
            if server.deadline <= now or server.list_deadline <= now:
                if server.listing:
                    server.spent.append(server.listing)
                    self._unread(server, "no answer within 60 s")
                    server.listing = 0
                if server.state != "ready":
                    late.append(server.name)
                server.deadline = server.list_deadline = float("inf")
        for asked in [asked for asked in self.owed if not asked.child_id]:
            if self.servers[asked.server].give_up_at <= now:
                self.expect_down(asked, TOO_OFTEN)
                self.settle(asked)
        for asked in [asked for asked in self.owed if asked.deadline <= now]:
            message = f"Server '{asked.server}' did not answer in time"
            self.expect_failure(asked, -32001, message)
            if asked.child_id:
                self._take_back(asked, ',"reason":"timed out"')
            self.settle(asked)
        return late

    def teardown(self) -> None:
        """Whatever happened: once all is over, nothing is owed and nothing remembered."""
        if not getattr(self, "sound", False):  # it has failed already
            return
        while self.within("asked", "born", "ready"):
            self.die(0)
        assert self.owed == []
        while self.clients:
            self.disconnect(0)
        assert self.world.idle()


RouterMachine.TestCase.settings = settings(
    max_examples=2 * settings().max_examples,
    stateful_step_count=50,
    # To shrink a failure takes minutes: the thorough profile does.
    phases=settings().phases if THOROUGH else [Phase.generate],
)
TestEveryRequestIsAnsweredOnceAndRight = RouterMachine.TestCase
