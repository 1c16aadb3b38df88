"""Many clients of one legacy server that asks them things, against what the server really meant.

The machine plays sessions and requests without one, some of which can be asked, and every instance
of the server. It knows of each question which call it comes from; the router does not. Whatever
happens, a question reaches the client of that call or nobody; no client waits for a stranger's
call longer than a moment; each call ends once, with its own answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core import Json, World, call, enveloped, notification, request, result
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import request as composed
from mcpagg_runtime.modern.retries import SUSPENDED_SECONDS
from mcpagg_runtime.servers import instances
from mcpagg_runtime.servers.attribution import ALONE_SECONDS, LATE_SECONDS
from mcpagg_runtime.servers.child import NOT_KNOWN, Child
from mcpagg_runtime.servers.open_requests import ANSWER_SECONDS

THOROUGH = not settings().derandomize
TOOLS = ["t", "u", "v"]
METHODS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling"}
LIMIT = 3
NOT_FOUND = -32601

numbers = st.integers(0, 10**6)


@dataclass(eq=False)
class Call:
    """A call that is under way, until its client has its answer or wants none."""

    serial: int
    who: Client
    able: frozenset[str]
    modern: bool
    message: Json
    child: Child | None = None
    number: int = 0
    """The id that the server knows it by, 0 before it was sent."""
    state: str = ""
    """The request state by which it is taken up, "" while it is not suspended."""
    keys: tuple[str, ...] = ()
    is_taken_back: bool = False


@dataclass(eq=False)
class Question:
    """What the server asks in the middle of a call."""

    serial: int
    call: Call
    method: str
    number: int = 0
    """The id that a session knows it by."""
    is_over: bool = False


class QuestionsMachine(RuleBasedStateMachine):
    """Plays everybody, and checks what each is told."""

    @initialize()
    def begin(self) -> None:
        self.limit, instances.MAXIMUM_INSTANCES = instances.MAXIMUM_INSTANCES, LIMIT
        self.world = World({"a": TOOLS}, on_drift="warn")
        self.everybody = Client("auto")
        able = obj(sampling="{}", elicitation='{"form":{},"url":{}}')
        self.everybody.introduce(composed(0, "initialize", obj(capabilities=able)))
        self.sessions: list[tuple[Client, frozenset[str]]] = []
        self.calls: list[Call] = []
        self.late: list[tuple[Call, float]] = []
        """Those that were taken back and that a server is still at, and since when."""
        self.questions: list[Question] = []
        self.serial = 0
        self.connect(["elicitation", "sampling"])

    def teardown(self) -> None:
        """Everything ends, and nothing is remembered."""
        if not hasattr(self, "limit"):
            return
        instances.MAXIMUM_INSTANCES = self.limit
        self.wait(2 * ANSWER_SECONDS)
        for one in [*self.calls]:
            if one in self.calls and not self.open_of(one):
                self._answer(one)
        self.wait(2 * ANSWER_SECONDS)
        for client, _ in [*self.sessions]:
            self._leave(client)
        for one in [one for one in self.calls if one.modern]:
            self._cancel(one)
        self.world.wait(SUSPENDED_SECONDS)  # those whose client never came back
        assert self.world.idle()

    # What is known

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def pick(self, items: list[Any], number: int) -> Any:
        return items[number % len(items)] if items else None

    def children(self) -> list[Child]:
        return [*self.world.router.servers["a"]]

    def flying(self) -> list[Call]:
        return [one for one in self.calls if one.number and not one.is_taken_back]

    def open_of(self, one: Call) -> list[Question]:
        return [question for question in self.questions if question.call is one]

    def settle(self) -> None:
        """Let whatever starts come up, and see what everybody was told."""
        for child in self.children():
            if child.state == "starting":
                self.world.up(child)
        assert len(self.children()) <= LIMIT + 2  # the first, and that of who can be asked nothing
        for child in self.children():
            for line in self.world.received(child):
                self._told_server(child, line)
        for client in {one.who for one in self.calls} | {client for client, _ in self.sessions}:
            for line in self.world.received(client):
                self._told(client, line)

    def _told_server(self, child: Child, line: Json) -> None:
        if line.get("method") == "tools/call":
            [one] = [one for one in self.calls if one.serial == line["params"]["arguments"]["n"]]
            assert not one.number
            one.child, one.number = child, line["id"]
        elif line.get("method") == "notifications/cancelled":
            for one in self.calls:
                if one.child is child and one.number == line["params"]["requestId"]:
                    one.is_taken_back = True
        elif "method" not in line:
            [question] = [one for one in self.questions if one.serial == line["id"]]
            assert question.call.child is child
            self.questions.remove(question)
            if "result" in line:
                assert line["result"] == {"to": question.serial}
            elif METHODS[question.method] in question.call.able:
                assert line["error"]["code"] != NOT_FOUND

    def _told(self, client: Client, line: Json) -> None:
        if "method" in line:
            self._told_session(client, line)
            return
        [one] = [c for c in self.calls if c.who is client and c.message["id"] == line["id"]]
        said = line.get("result", {})
        if said.get("resultType") == "input_required":
            self._suspended(one, said)
        elif "error" in line:
            assert NOT_KNOWN in line["error"]["message"], line
            self.calls.remove(one)
        else:
            assert said["n"] == one.serial
            self.calls.remove(one)

    def _told_session(self, client: Client, line: Json) -> None:
        if line["method"] in METHODS:
            question = self._asked(line["params"]["n"])
            assert question.call.who is client, "a question reached a stranger"
            question.number = line["id"]

    def _asked(self, serial: int) -> Question:
        [question] = [one for one in self.questions if one.serial == serial]
        assert METHODS[question.method] in question.call.able
        return question

    def _suspended(self, one: Call, said: Json) -> None:
        one.state, one.keys = said["requestState"], tuple(said["inputRequests"])
        for asked in said["inputRequests"].values():
            question = self._asked(asked["params"]["n"])
            assert question.call is one, "a question reached a stranger"

    # What clients do

    @rule(able=st.lists(st.sampled_from(["elicitation", "sampling"]), unique=True))
    def connect(self, able: list[str]) -> None:
        if len(self.sessions) < 5:
            capabilities: Json = {name: {} for name in able}
            client = self.world.client(capabilities, audience=self.everybody)
            self.sessions.append((client, frozenset(able)))
            self.settle()

    @rule(which=numbers, tool=st.sampled_from(TOOLS))
    def call(self, which: int, tool: str) -> None:
        chosen = self.pick(self.sessions, which)
        if chosen is not None and len(self.calls) < 8:
            client, able = chosen
            message = call(self.serial + 1, f"a:{tool}", {"n": self.serial + 1})
            self.calls.append(Call(self.next_serial(), client, able, False, message))
            self._say(client, message)

    @rule(able=st.booleans(), tool=st.sampled_from(TOOLS))
    def call_without_a_session(self, able: bool, tool: str) -> None:
        if len(self.calls) < 8:
            declared = ["elicitation"] if able else []
            client = self.world.modern()
            client.audience = self.everybody
            asked = call(self.serial + 1, f"a:{tool}", {"n": self.serial + 1})
            message = enveloped(asked, {name: {} for name in declared})
            self.calls.append(Call(self.next_serial(), client, frozenset(declared), True, message))
            self._say(client, message)

    def _say(self, client: Client, message: Json) -> None:
        note(f"client: {message}")
        self.world.say(client, message)
        self.settle()

    @rule(which=numbers)
    def cancel(self, which: int) -> None:
        one = self.pick([one for one in self.calls if not one.state], which)
        if one is not None:
            self._cancel(one)

    def _cancel(self, one: Call) -> None:
        params = {"requestId": one.message["id"]}
        if one.modern:
            self.world.leave(one.who)
        else:
            self.world.say(one.who, notification("notifications/cancelled", params))
        self.world.lines(one.who)
        if one.number:
            self.settle()
            self.late.append((one, self.world.now))
        self.calls.remove(one)
        self.settle()

    @rule(which=numbers, attended=st.booleans())
    def attend(self, which: int, attended: bool) -> None:
        one = self.pick([one for one in self.calls if not one.modern], which)
        if one is not None:
            core, identifier = self.world.core, str(one.message["id"])
            change = core.attend if attended else core.unattend
            self.world.do(change(one.who, [identifier]))
            self.settle()

    @rule(which=numbers)
    def leave(self, which: int) -> None:
        if len(self.sessions) > 1:
            self._leave(self.pick(self.sessions, which)[0])

    def _leave(self, client: Client) -> None:
        self.world.leave(client)
        self.sessions = [one for one in self.sessions if one[0] is not client]
        self.world.lines(client)
        for child in self.children():
            for line in self.world.received(child):
                self._told_server(child, line)
        self.calls = [one for one in self.calls if one.who is not client]
        alive = self.children()
        self.questions = [q for q in self.questions if q.call.child in alive]
        self.settle()

    @rule(which=numbers)
    def reply(self, which: int) -> None:
        asked = [one for one in self.questions if one.number]
        question = self.pick(asked, which)
        if question is not None and question.call in self.calls:
            self._say(question.call.who, result(question.number, {"to": question.serial}))

    @rule(which=numbers)
    def take_up(self, which: int) -> None:
        one = self.pick([one for one in self.calls if one.state], which)
        if one is None:
            return
        answers = {key: {"to": q.serial} for key in one.keys for q in self.open_of(one)}
        state = {"requestState": one.state, "inputResponses": answers}
        one.message = {**one.message, "params": {**one.message["params"], **state}}
        one.who, one.state = self.world.modern(), ""
        one.who.audience = self.everybody
        self._say(one.who, one.message)

    # What the server does

    @rule(which=numbers, method=st.sampled_from([*METHODS]))
    def ask(self, which: int, method: str) -> None:
        one = self.pick([one for one in self.flying() if not self.open_of(one)], which)
        if one is not None:
            self._ask(one, method)

    def _ask(self, one: Call, method: str) -> None:
        assert one.child is not None
        question = Question(self.next_serial(), one, method)
        self.questions.append(question)
        note(f"the server asks {question.serial} in {one.serial}")
        self.world.say(one.child, request(question.serial, method, {"n": question.serial}))
        self.settle()

    @rule(which=numbers)
    def ask_late(self, which: int) -> None:
        """A server that goes on with a call that was taken back asks something in it."""
        alive, now = self.children(), self.world.now
        self.late = [(one, at) for one, at in self.late if one.child in alive]
        self.late = [(one, at) for one, at in self.late if now < at + LATE_SECONDS]
        found = self.pick([one for one, _ in self.late], which)
        if found is not None and not self.open_of(found):
            self._ask(found, "elicitation/create")

    @rule(which=numbers)
    def answer_late(self, which: int) -> None:
        found = self.pick(self.late, which)
        if found is not None and not self.open_of(found[0]) and found[0].child in self.children():
            self.late.remove(found)
            self.world.say(found[0].child, result(found[0].number, {}))
            self.settle()

    @rule(which=numbers)
    def answer(self, which: int) -> None:
        one = self.pick([one for one in self.flying() if not self.open_of(one)], which)
        if one is not None:
            self._answer(one)

    def _answer(self, one: Call) -> None:
        if one.number and one.child is not None:
            self.world.say(one.child, result(one.number, {"n": one.serial}))
            self.settle()

    # Time

    @rule(seconds=st.sampled_from([0.01, ALONE_SECONDS, LATE_SECONDS, ANSWER_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)
        self.settle()
        if seconds >= ANSWER_SECONDS:
            late = [one for one in self.calls if not one.number]
            self.world.wait(ANSWER_SECONDS)
            self.settle()
            assert not [one for one in late if one in self.calls and not one.number]


QuestionsMachine.TestCase.settings = settings(
    max_examples=2 * settings().max_examples,
    stateful_step_count=40,
    phases=settings().phases if THOROUGH else [Phase.generate],
)
TestNoQuestionReachesAStranger = QuestionsMachine.TestCase
