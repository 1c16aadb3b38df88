"""The ports against a reference model: no answer swapped, doubled or missing, in either era.

The machine plays one connection that speaks both eras at once, two children that ask in the middle
of calls and one that answers with the input that it requires, in any order that comes to mind: ids
of every legal kind, used again and again; calls taken up with right, missing, surplus and stale
answers, or in the name of another call; cancellations, deaths, expiry, late and doubled answers.
The model knows each call by a serial number in its arguments and each question by one in its
params. It says after every event what everybody must have been told; only whose turn it is among
several that wait is the router's to choose. More examples: --hypothesis-profile thorough.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from core import ASKABLE, Json, World, enveloped, failure, notification, request, result
from eras_model import (
    ASKING,
    FAILED,
    GONE,
    IDS,
    INVALID,
    LEGACY_CLIENT,
    METHODS,
    MODERN,
    NOT_FOUND,
    REFUSED,
    VISIT,
    Call,
    Question,
    Server,
    ids,
    key,
    methods,
    modes,
    tokens,
)
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from moves import THOROUGH, Nobody, move, numbers, seldom

from mcpagg_runtime.messages.protocol import MODERN_VERSION
from mcpagg_runtime.modern.retries import SUSPENDED_SECONDS
from mcpagg_runtime.modern.rounds import FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS, MAXIMUM_ROUNDS


class ErasMachine(RuleBasedStateMachine):
    """Plays every peer, and checks what each is told."""

    @initialize(capable=st.booleans())
    def begin(self, capable: bool) -> None:
        facts = {MODERN: {"protocol": MODERN_VERSION}}
        self.world = World(
            {name: ["t"] for name in (*ASKING, MODERN)},
            facts=facts,
            on_drift="warn",
            restart="on-call",
        )
        self.client = self.world.client(ASKABLE)
        self.servers = {name: Server(name) for name in (*ASKING, MODERN)}
        self.calls: list[Call] = []
        self.order: list[Call] = []  # the open ones, as they were made or taken up
        self.serial = 0
        self.handles: set[str] = set()
        self.stale: list[tuple[Call, str]] = []
        self.expected: Counter[Any] = Counter()
        self.expected_of: dict[str, Counter[Any]] = {name: Counter() for name in self.servers}
        self.refused: list[Question] = []
        self.suspending: list[Call] = []  # their clients get all that one event asks at once
        self.capable = capable
        self.world.started.clear()
        self.world.started += list(self.servers)
        for server in self.servers.values():
            self._come_up(server)
        self.check()

    # --- The model ----------------------------------------------------------------------------

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def pick(self, items: list[Any], number: int) -> Any:
        if not items:
            raise Nobody
        return items[number % len(items)]

    def recipient(self, server: Server) -> Any:
        """Return who can be asked and has the youngest call that waits for no answer, if any."""
        able = [one.client for one in server.in_flight if not one.modern or one.capable]
        asked = [question.of for question in server.questions]
        at_work = [client for client in able if able.count(client) > asked.count(client)]
        return (at_work or able or [None])[-1]

    def finish(self, call: Call) -> None:
        """Nothing more is owed or remembered of a call."""
        self.calls.remove(call)
        self.forget(call)

    def forget(self, call: Call) -> None:
        """A call is no more under way at its child."""
        if call in self.order:
            self.order.remove(call)
        if call in call.server.in_flight:
            call.server.in_flight.remove(call)
            call.server.spent.append(call.child_id)

    def close(self, call: Call) -> None:
        """A call is over; one of the newer revision was a client of its own to the router.

        What it was still asked is of another call, if it was answered all the same.
        """
        taken_back = call in call.server.in_flight
        left = []
        for server in self.servers.values():
            questions = [one for one in server.questions if one.of is call]
            server.questions = [one for one in server.questions if one.of is not call]
            left += [one for one in questions if not (taken_back or one.answered)]
            self.refused += [one for one in questions if one not in left]
            if server.starter is call:
                server.starter = None
        self.finish(call)
        for question in left:
            self._ask_again(question)

    def _ask_again(self, question: Question) -> None:
        """What a call was asked that has ended is of another one."""
        flying = question.server.in_flight
        others = [one.client for one in flying if not one.modern or one.capable]
        if others:
            question.of, question.client_id, question.key = others[-1], None, ""
            self._put(question)
        else:
            self.refused.append(question)

    def _put(self, question: Question) -> None:
        """A client is asked something."""
        client = question.of
        question.server.questions.append(question)
        if client is LEGACY_CLIENT:
            self.expected[("question", question.serial, question.method)] += 1
        else:
            client.asked[question.serial] = question
            if client.state == "open":
                self.suspend(client)

    def end(self, call: Call, kind: str, value: Any) -> None:
        """A call ends; while it is the client's turn, that waits."""
        self.forget(call)
        if call.state == "suspended":
            call.outcome = kind, value
        elif kind == "visit":
            self._visit(call, value)
        else:
            modern = (call.modern,) if kind == "complete" else ()
            self.expected[(kind, key(call.raw), value, *modern)] += 1
            self.close(call)

    def _visit(self, call: Call, serial: int) -> None:
        """A call ends with the wish that the client visits a URL; then it is made anew."""
        able = call.modern and call.capable
        if not able:
            self.end(call, "error", FAILED if call.modern else VISIT)
            return
        self.close(call)
        self.calls.append(call)
        question = Question(serial, "elicitation/create", None, call.server, call)
        call.asked = {serial: question}
        call.sent, call.outcome = False, ()
        self.suspend(call, "visits")

    def suspend(self, call: Call, state: str = "suspended") -> None:
        call.state = state
        call.deadline = self.world.now + SUSPENDED_SECONDS
        if call in self.order:
            self.order.remove(call)
        self.suspending.append(call)

    # --- What everybody was told --------------------------------------------------------------

    def check(self) -> None:
        self.sound = False
        assert not self.world.stopped
        for call in self.suspending:
            self.expected[("required", key(call.raw), frozenset(call.asked))] += 1
        self.suspending.clear()
        for server in self.servers.values():
            for line in self.world.received(self.world[server.name]):
                self._told_child(server, line)
            assert not +self.expected_of[server.name], self.expected_of
        assert not self.refused, [one.serial for one in self.refused]
        for line in self.world.received(self.client):
            seen = self._read(line)
            if seen:
                assert self.expected[seen] > 0, (seen, self.expected)
                self.expected[seen] -= 1
        assert not +self.expected, self.expected
        self._nobody_is_forgotten()
        owed = any(call.state == "open" for call in self.calls)
        assert self.world.core.owes(self.client) == owed
        self.world.said.clear()
        self.sound = True

    def _told_child(self, server: Server, line: Json) -> None:
        assert server.state == "up", (server.name, line)
        if line.get("method") == "tools/call":
            self._sent(server, line)
        elif line.get("method") == "notifications/cancelled":
            self._expected_of(server, ("cancelled", line["params"]["requestId"]))
        elif "result" in line:
            self._delivered(server, line, line["result"]["answer"])
        else:
            error = line["error"]
            gone = [q for q in self.refused if q.server is server and key(q.raw) == key(line["id"])]
            if error["code"] == REFUSED:
                self._delivered(server, line, int(error["message"]))
            elif error["message"] == GONE:
                assert error["code"] == FAILED
                self.refused.remove(gone[0])
            else:
                self._expected_of(server, ("error", key(line["id"]), error["code"]))

    def _expected_of(self, server: Server, seen: Any) -> None:
        assert self.expected_of[server.name][seen] > 0, (seen, self.expected_of)
        self.expected_of[server.name][seen] -= 1

    def _sent(self, server: Server, line: Json) -> None:
        """A call reached a child: the right one, once in each round, in its turn."""
        params = line["params"]
        assert params["name"] == "t"
        [call] = [one for one in self.calls if one.serial == params["arguments"]["serial"]]
        assert call.server is server
        assert call.state in ("open", "suspended")
        assert not call.sent
        assert server.name in ASKING or not call.asked
        assert params.get("inputResponses") == call.answers
        assert params.get("requestState") == call.wants_back
        assert line["id"] not in server.spent
        call.sent, call.child_id, call.due = True, line["id"], float("inf")
        if call not in server.in_flight:
            server.in_flight.append(call)
            call.child_token = params.get("_meta", {}).get("progressToken")
            assert (call.child_token is None) == (call.token is None)

    def _delivered(self, server: Server, line: Json, serial: int) -> None:
        """An answer reached a child: to the question that it was for, once, in its turn."""
        line_of = [*server.questions, *self.refused]
        [question] = [one for one in line_of if one.serial == serial]
        assert question.server is server
        assert question.answered
        assert key(question.raw) == key(line["id"])
        if question in self.refused:  # it was faster than the end of its call
            self.refused.remove(question)
        else:
            server.questions.remove(question)

    def _read(self, line: Json) -> tuple[Any, ...]:
        """Return what the client was told, () for what the model does not care about."""
        method, identifier = line.get("method"), key(line.get("id"))
        if method == "notifications/tools/list_changed":
            return ()
        if method == "notifications/cancelled":
            return "cancelled", line["params"]["requestId"]
        if method == "notifications/progress":
            return "progress", key(line["params"]["progressToken"]), line["params"]["serial"]
        if method is not None:
            self._asked(line)
            return "question", line["params"]["question"], method
        if "error" in line:
            return "error", identifier, line["error"]["code"]
        value = line["result"]
        if value.get("resultType") == "input_required" and "inputRequests" not in value:
            return "later", identifier, value["requestState"]
        if value.get("resultType") == "input_required":
            return "required", identifier, self._required(value)
        modern = value.get("resultType") == "complete" and "_meta" in value
        assert modern or "resultType" not in value
        return "complete", identifier, value["serial"], modern

    def _asked(self, line: Json) -> None:
        serial = line["params"]["question"]
        questions = [one for server in self.servers.values() for one in server.questions]
        [question] = [one for one in questions if one.serial == serial]
        assert question.client_id is None
        taken = [one.client_id for one in questions if one.of is LEGACY_CLIENT]
        assert line["id"] not in taken
        question.client_id = line["id"]

    def _required(self, value: Json) -> frozenset[int]:
        serials = {one["params"]["question"]: k for k, one in value["inputRequests"].items()}
        [call] = [one for one in self.calls if one.asked and one.asked.keys() == serials.keys()]
        for serial, question in call.asked.items():
            question.key = serials[serial]
            assert value["inputRequests"][question.key]["method"] == question.method
        if call.state == "handed":
            assert value["requestState"] == call.wants_back
        else:
            assert value["requestState"] not in self.handles
            self.handles.add(value["requestState"])
        call.request_state = value["requestState"]
        return frozenset(serials)

    def _nobody_is_forgotten(self) -> None:
        """No call and no answer waits for another one."""
        for server in self.servers.values():
            if server.state != "up":
                continue
            waiting = [
                call
                for call in self.calls
                if call.server is server and not call.sent and call.state in ("open", "suspended")
                if not self._is_between_rounds(call)
            ]
            assert not waiting
            assert not [one for one in server.questions if one.answered and one.call is None]

    def _is_between_rounds(self, call: Call) -> bool:
        return bool(call.asked or call.outcome) or self.world.now < call.due < float("inf")

    def say(self, message: Json) -> None:
        note(f"client: {message}")
        self.world.say(self.client, message)
        self.check()

    def hear(self, server: Server, message: Json) -> None:
        note(f"{server.name}: {message}")
        self.world.say(self.world[server.name], message)
        self.check()

    # --- The client ---------------------------------------------------------------------------

    @move(which=numbers, raw=ids, token=tokens, modern=st.sampled_from([True, True, False]))
    def call(self, which: int, raw: Any, token: Any, modern: bool) -> None:
        server = self.pick(list(self.servers.values()), which)
        serial = self.next_serial()
        params: Json = {"name": f"{server.name}:t", "arguments": {"serial": serial}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        call = Call(serial, request(raw, "tools/call", params), server, modern)
        if modern:
            call.capable = self.capable or which % 3 > 0
            call.message = enveloped(call.message, ASKABLE if call.capable else {})
        self.calls.append(call)
        self._submit(call)

    @move(
        which=numbers,
        calls=st.lists(st.tuples(ids, tokens, methods), min_size=1, max_size=3),
        modern=st.booleans(),
    )
    def call_and_be_asked(
        self, which: int, calls: list[tuple[Any, Any, str]], modern: bool
    ) -> None:
        """Let the client make calls of one child, each of which asks it something."""
        for raw, token, method in calls:
            server = which % len(self.servers)
            self.call(server, raw, token, modern)
            newest = self.calls[-1] if self.calls else None
            if newest is None or newest.serial != self.serial or not newest.sent:
                return  # it failed at once, or waits for its turn
            if newest.server.name == MODERN:
                self._require(newest, len(calls), told_apart=False)
            else:
                self._ask(newest.server, raw, method)

    def _submit(self, call: Call) -> None:
        """Let the client make a call, which may start its child, or fail with it."""
        self.order.append(call)
        note(f"client: {call.message}")
        self.world.say(self.client, call.message)
        for name in self.world.started:
            if self.servers[name].state != "asked":
                assert self.servers[name].state == "down"
                self.servers[name].state, self.servers[name].starter = "asked", call.client
        if call.server.state == "down":
            self.end(call, "error", FAILED)
        self.check()

    @move(turns=st.lists(st.tuples(numbers, ids, tokens, modes), min_size=1, max_size=4))
    def take_up(self, turns: list[tuple[int, Any, Any, str]]) -> None:
        """Go on with calls, with an answer to everything, or not."""
        for which, raw, token, mode in turns:
            self._take_up(which, raw, token, mode)

    def _take_up(self, which: int, raw: Any, token: Any, mode: str) -> None:
        call = self.pick(self.suspended(), which)
        shown = [question for question in call.asked.values() if question.key]
        given = {"missing": shown[1:], "none": []}.get(mode, shown)
        responses: Json = {one.key: {"answer": one.serial, "n": 1.0} for one in given}
        if mode == "surplus":
            responses.update({"0": {}, "77": {"answer": 0}, "x": {}})
        call.message = self._retry(call, raw, call.request_state, responses, token)
        if call.state == "handed":
            # The child keeps its own state: all goes to it as it is.
            call.state, call.asked = "open", {}
            call.answers, call.wants_back = responses, call.request_state
            self._submit(call)
            return
        self.stale.append((call, call.request_state))
        for question in given:
            question.answered = True
            del call.asked[question.serial]
        if call.outcome:
            # It has ended: what is still asked is asked no more, and refused at the child.
            call.state = "open"
            self.end(call, *call.outcome)
        elif call.asked:
            self.suspend(call, call.state)
        elif call.state == "visits":
            call.state = "open"
            self._submit(call)
            return
        else:
            call.state = "open"
            self.order.append(call)
        self.say(call.message)

    def suspended(self) -> list[Call]:
        """Return the calls that it is the client's turn to take up."""
        return [call for call in self.calls if call.state in ("suspended", "visits", "handed")]

    def _retry(
        self, call: Call, raw: Any, request_state: str, responses: Any, token: Any = None
    ) -> Json:
        params = {
            **call.message["params"],
            "requestState": request_state,
            "inputResponses": responses,
        }
        meta = {**params["_meta"], "progressToken": token}
        if token is None:
            del meta["progressToken"]
        return {**call.message, "id": raw, "params": {**params, "_meta": meta}}

    @move(which=numbers, raw=ids, other=numbers, stale=st.booleans())
    def take_up_wrongly(self, which: int, raw: Any, other: int, stale: bool) -> None:
        """Try to go on with a call once more, or with what another one was asked."""
        if stale:
            call, request_state = self.pick(self.stale, which)
        else:
            suspended = self.pick([c for c in self.suspended() if c.state != "handed"], which)
            modern = [c for c in self.calls if c.modern and c is not suspended]
            call, request_state = self.pick(modern, other), suspended.request_state
        responses = {str(number): {"answer": 0} for number in range(-2, 20)}
        self.expected[("error", key(raw), INVALID)] += 1
        self.say(self._retry(call, raw, request_state, responses))

    @move(raw=st.sampled_from([*IDS, True, 1.0, None]))
    def cancel(self, raw: Any) -> None:
        for call in reversed([c for c in self.order if c.modern]):
            if key(call.raw) == key(raw):
                self._cancel(call)
                break
        else:
            for call in reversed([c for c in self.order if not c.modern]):
                if key(call.raw) == key(raw):
                    self._cancel(call)
                    break
        self.say(notification("notifications/cancelled", {"requestId": raw}))

    def _cancel(self, call: Call) -> None:
        self._take_input_back(call)
        if call.sent and call in call.server.in_flight:
            self.expected_of[call.server.name][("cancelled", call.child_id)] += 1
        self.close(call)

    def _take_input_back(self, call: Call) -> None:
        """A child of the newer revision requires no input any more."""
        for question in [one for one in call.server.questions if one.call is call]:
            call.server.questions.remove(question)
            self.expected[("cancelled", question.client_id)] += 1

    @move(which=numbers)
    def cancel_one_in_flight(self, which: int) -> None:
        self.cancel(self.pick(self.order, which).raw)

    @move(answers=st.lists(st.tuples(numbers, seldom), min_size=1, max_size=4))
    def answer_questions(self, answers: list[tuple[int, bool]]) -> None:
        """Let the client answer what it is asked by requests, each twice."""
        for which, failed in answers:
            self._answer_one(which, failed)

    def _answer_one(self, which: int, failed: bool) -> None:
        every = [one for server in self.servers.values() for one in server.questions]
        asked = [one for one in every if one.of is LEGACY_CLIENT and not one.answered]
        self._answer_question(self.pick(asked, which), failed)

    def _answer_question(self, question: Question, failed: bool) -> None:
        question.answered = True
        value: Json = {"answer": question.serial, "n": 1.0}
        if question.call is not None:
            self._answer_input(question.call, question, value, failed)
        line = result(question.client_id, value)
        if failed:
            line = failure(question.client_id, REFUSED, str(question.serial))
        self.say(line)
        self.say(line)

    def _answer_input(self, call: Call, question: Question, value: Json, failed: bool) -> None:
        question.server.questions.remove(question)
        del call.asked[question.serial]
        if failed and question.method != "elicitation/create":
            self._take_input_back(call)
            self.end(call, "error", FAILED)
            return
        assert call.answers is not None
        call.answers[question.name] = {"action": "cancel"} if failed else value

    # --- The children -------------------------------------------------------------------------

    def within(self, *states: str) -> list[Server]:
        return [server for server in self.servers.values() if server.state in states]

    @move(which=numbers)
    def grow(self, which: int) -> None:
        """A child comes up."""
        self._come_up(self.pick(self.within("asked"), which))
        self.check()

    def _come_up(self, server: Server) -> None:
        self.world.up(server.name)
        self.world.started.remove(server.name)
        server.state = "up"

    @move(which=numbers, raw=ids, method=methods, times=st.sampled_from([1, 1, 1, 2]))
    def ask(self, which: int, raw: Any, method: str, times: int) -> None:
        """Let a child ask whoever it works for."""
        server = self.pick([s for s in self.within("up") if s.name in ASKING], which)
        for _ in range(times):
            self._ask(server, raw, method)

    def _ask(self, server: Server, raw: Any, method: str) -> None:
        outside = not server.in_flight
        client = self.recipient(server)
        if outside:
            client = server.starter or (LEGACY_CLIENT if server.is_owned else None)
            if method == "roots/list" and not server.starter:
                raise Nobody  # it is asked at the next call
        question = Question(self.next_serial(), method, raw, server, client)
        if client is None or (client is not LEGACY_CLIENT and not client.capable):
            code = FAILED if outside and client is None else NOT_FOUND
            self.expected_of[server.name][("error", key(raw), code)] += 1
        else:
            server.is_owned |= method != "roots/list"
            self._put(question)
        self.hear(server, request(raw, method, {"question": question.serial}))

    @move(which=numbers, raw=ids)
    def take_question_back(self, which: int, raw: Any) -> None:
        server = self.pick([s for s in self.within("up") if s.name in ASKING], which)
        for question in reversed(server.questions):
            if key(question.raw) == key(raw):
                server.questions.remove(question)
                self._withdrawn(question)
                break
        self.hear(server, notification("notifications/cancelled", {"requestId": raw}))

    def _withdrawn(self, question: Question) -> None:
        """The client need not answer a question any more."""
        if question.of is not LEGACY_CLIENT:
            question.of.asked.pop(question.serial, None)
        elif not question.answered:
            self.expected[("cancelled", question.client_id)] += 1

    @move(which=numbers, kind=st.sampled_from(["result", "result", "error", "visit"]))
    def answer(self, which: int, kind: str) -> None:
        """Let a child answer a call, or wish for a visit before it does."""
        sent = [one for server in self.servers.values() for one in server.in_flight if one.sent]
        call = self.pick(sent, which)
        if kind == "visit" and call.server.name in ASKING:
            serial = self.next_serial()
            visit = {"mode": "url", "question": serial, "elicitationId": "e"}
            line = failure(call.child_id, VISIT, "visit", elicitations=[visit])
            self.end(call, "visit", serial)
            self.hear(call.server, line)
        else:
            self._answer(call, kind)

    def _answer(self, call: Call, kind: str) -> None:
        value: Json = {"serial": call.serial, "content": []}
        line = result(call.child_id, value)
        if kind == "error":
            line = failure(call.child_id, call.serial, "m")
            self.end(call, "error", call.serial)
        else:
            self.end(call, "complete", call.serial)
        self.hear(call.server, line)
        self.hear(call.server, line)  # twice: the second one answers nothing

    @move(which=numbers, how_many=st.sampled_from([0, 1, 1, 2, 3]), told_apart=st.booleans())
    def require(self, which: int, how_many: int, told_apart: bool) -> None:
        """Let the child of the newer revision require input, or time."""
        sent = [one for one in self.servers[MODERN].in_flight if one.sent]
        self._require(self.pick(sent, which), how_many, told_apart)

    @move(which=numbers, really=seldom)
    def insist(self, which: int, really: bool) -> None:
        """Let the child require input again and again."""
        flying = self.servers[MODERN].in_flight if really else []
        call = self.pick([one for one in flying if one.sent and not one.modern], which)
        while call in self.calls:
            self._require(call, which % 2, True)
            for question in [*call.asked.values()]:
                self._answer_question(question, False)
            self.wait(1.0)

    def _require(self, call: Call, how_many: int, told_apart: bool) -> None:
        call.round += 1
        state, server = f"s{call.serial}.{call.round}", call.server
        value: Json = {"resultType": "input_required", "requestState": state}
        asked = {}
        for number in range(how_many):
            serial = self.next_serial()
            method = METHODS[(serial + number) % 3]
            question = Question(serial, method, None, server, call.client)
            question.name = question.key = f"k{serial if told_apart else number}"
            asked[question.name] = {"method": method, "params": {"question": serial}}
            call.asked[serial] = question
        if asked:
            value["inputRequests"] = asked
        line = result(call.child_id, value)
        server.spent.append(call.child_id)
        call.sent = False
        if call.modern:
            questions = call.asked
            self.close(call)
            self.calls.append(call)
            call.state, call.asked, call.request_state, call.wants_back = (
                "handed",
                questions,
                state,
                state,
            )
            if asked:
                self.expected[("required", key(call.raw), frozenset(questions))] += 1
            else:
                self.expected[("later", key(call.raw), state)] += 1
        elif call.round > MAXIMUM_ROUNDS:
            call.asked = {}
            self.end(call, "error", FAILED)
        else:
            call.answers, call.wants_back = ({} if asked else None), state
            wait = min(FIRST_WAIT_SECONDS * 2 ** (call.round - 2), LONGEST_WAIT_SECONDS)
            call.due = float("inf") if asked else self.world.now + wait
            for question in call.asked.values():
                question.call = call
                server.questions.append(question)
                self.expected[("question", question.serial, question.method)] += 1
        self.hear(server, line)

    @move(which=numbers, one=numbers, what=st.sampled_from(["result", "error"]))
    def answer_late(self, which: int, one: int, what: str) -> None:
        """Let a child answer what nobody waits for any more, or what it was not asked yet.

        Never without an id, or with one that nothing ever has: that would end the one request
        that it may be for.
        """
        server = self.pick(self.within("up"), which)
        number = self.pick([10**9] if one % 2 else server.spent, one)
        if number not in [call.child_id for call in server.in_flight if call.sent]:
            self.hear(server, {"id": number, what: {"serial": 0, "code": 0}})

    @move()
    def report_progress(self) -> None:
        """Let children report progress of all that they are to report it of."""
        flying = [call for server in self.servers.values() for call in server.in_flight]
        for call in [one for one in flying if one.child_token is not None]:
            if call.state == "open" and call.token is not None:
                self.expected[("progress", key(call.token), call.serial)] += 1
            params = {"progressToken": call.child_token, "progress": 1, "serial": call.serial}
            self.hear(call.server, notification("notifications/progress", params))

    @move(which=numbers, really=st.sampled_from([False] * 15 + [True]))
    def die(self, which: int, really: bool) -> None:
        server = self.pick(self.within("up") if really else [], which)
        server.state = "down"
        questions, server.questions = server.questions, []
        for question in questions:
            self._withdrawn(question)
        for call in [one for one in self.calls if one.server is server]:
            if call.state in ("open", "suspended") and not call.outcome:
                call.asked = {} if not call.modern else call.asked
                self.end(call, "error", FAILED)
        note(f"{server.name} dies")
        self.world.down(server.name, "died")
        self.check()

    # --- Time ---------------------------------------------------------------------------------

    @move(long=st.sampled_from([61.0, SUSPENDED_SECONDS / 2, SUSPENDED_SECONDS]), really=seldom)
    def wait_long(self, long: float, really: bool) -> None:
        self.wait(long if really else 0.5)

    @move(seconds=st.sampled_from([0.05, 0.3, 1.0]))
    def wait(self, seconds: float) -> None:
        for server in self.within("asked"):  # it would be given up
            self._come_up(server)
            self.check()
        end = self.world.now + seconds
        while True:
            times = [time for call in self.calls for time in (call.deadline, call.due)]
            due = min([time for time in times if time > self.world.now], default=end)
            if due >= end:
                break
            self._pass_time(due)
        self._pass_time(end)

    def _pass_time(self, until: float) -> None:
        self.world.wait(until - self.world.now)
        self.world.now = until
        for call in [one for one in self.suspended() if one.deadline <= until]:
            if call.state == "suspended" and call in call.server.in_flight and call.sent:
                self.expected_of[call.server.name][("cancelled", call.child_id)] += 1
            self.close(call)
        self.check()

    def teardown(self) -> None:
        """Whatever happened: everybody is answered in the end, and nothing is remembered."""
        if not getattr(self, "sound", False):  # it has failed already
            return
        while self.calls or any(server.questions for server in self.servers.values()):
            self.wait(1.0)
            self.take_up([(0, 5, None, "right")])
            self.report_progress()
            self.answer_questions([(0, False)])
            self.answer(0, "result")
        assert self.world.idle()
        self.world.leave(self.client)
        assert not [*self.world.router.clients]
        assert self.world.lines(self.client) == []


ErasMachine.TestCase.settings = settings(
    max_examples=2 * settings().max_examples,
    stateful_step_count=60,
    # To shrink a failure takes minutes: the thorough profile does.
    phases=settings().phases if THOROUGH else [Phase.generate],
)
TestNoAnswerIsSwappedDoubledOrMissing = ErasMachine.TestCase
