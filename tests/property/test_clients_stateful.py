"""Clients of both eras with a server of each, over a pipe or HTTP, whatever happens meanwhile.

The machine plays sessions, requests without one, and every instance of three servers: one asks by
requests, one by results, one speaks as its client does. All use the same ids and tokens. It knows
of each question which call it comes from; of the former server's the proxy does not. Calls and
questions are answered out of order, twice, late or never; clients cancel, hang up and leave.

Whatever happens: a call ends once, at the client that made it, as its server said; a question
reaches that client or nobody, and is answered once; ids and tokens keep their type; no client waits
for a stranger's call longer than a moment; nothing is remembered once all have left. Which call of
a client carries a question, and in which order, is the proxy's to choose: see the model of eras.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

from clients_model import (
    METHODS,
    REFUSED,
    SERVERS,
    Call,
    Pipe,
    Question,
    Speaker,
    Web,
    abilities,
    key,
    methods,
    modes,
    same_looking,
    tokens,
)
from core import Json, call, enveloped, failure, notification, progress, request, result
from hypothesis import Phase, event, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from moves import THOROUGH, Nobody, move, numbers, seldom

from mcpagg_runtime.messages.protocol import CANCELLED, LEGACY, MODERN, PROGRESS
from mcpagg_runtime.modern.retries import SUSPENDED_SECONDS
from mcpagg_runtime.modern.rounds import MAXIMUM_ROUNDS
from mcpagg_runtime.servers import instances
from mcpagg_runtime.servers.attribution import ALONE_SECONDS, LATE_SECONDS
from mcpagg_runtime.servers.child import NOT_KNOWN, Child
from mcpagg_runtime.servers.open_requests import ANSWER_SECONDS

LIMIT, MOST_CALLS = 3, 8
MOMENTS = [0.01, ALONE_SECONDS] * 3 + [LATE_SECONDS, ANSWER_SECONDS, SUSPENDED_SECONDS]
Named = tuple[int, bool, Json, tuple[int, Any]]
servers = st.sampled_from([*SERVERS, "a"])
names = st.tuples(numbers, tokens)
some_call = st.tuples(numbers, st.booleans(), abilities, names)
"""Who makes a call, whether a modern one, with which capabilities, and under which names."""
FAILED, NOT_FOUND, INVALID = -32603, -32601, -32602


class ClientsMachine(RuleBasedStateMachine):
    """Plays everybody, and checks what each is told."""

    @initialize(over=st.sampled_from(["a pipe", "HTTP", "HTTP"]), streams=st.booleans())
    def begin(self, over: str, streams: bool) -> None:
        self.limit, instances.MAXIMUM_INSTANCES = instances.MAXIMUM_INSTANCES, LIMIT
        self.calls: list[Call] = []
        self.late: list[tuple[Call, float]] = []
        """Those that were taken back and that a server is still at, and since when."""
        self.questions: list[Question] = []
        """Those that a server waits for."""
        self.every: dict[int, Question] = {}
        self.stale: list[Call] = []
        """With request states that have been used."""
        self.reported: Counter[int] = Counter()
        """{serial of a call: how often its client is to hear of progress}."""
        self.spent: dict[Child, list[int]] = {}
        self.used: set[tuple[Child, int]] = set()
        self.fallen: set[str] = set()
        """Servers that have died."""
        self.serial = 0
        self.web = Web(0.0 if streams else 60.0) if over == "HTTP" else None
        self.transport: Pipe | Web = self.web or Pipe()
        self.world = self.transport.world
        self.before = {*self.transport.remembered()}  # what other tests have left in the process
        if self.web is not None:
            self.connect({"elicitation": {}, "sampling": {}})
        self.settle()

    # --- What is known ------------------------------------------------------------------------

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def pick(self, items: Any, number: int) -> Any:
        items = [*items]
        if not items:
            raise Nobody
        return items[number % len(items)]

    def children(self) -> list[Child]:
        return [child for name in SERVERS for child in self.world.router.servers[name]]

    def flying(self, era: str | None = None) -> list[Call]:
        """Return the calls that servers of an era are at, taken back or not."""
        alive = self.children()
        found = [one for one in [*self.calls, *self.late_calls()] if one.is_flying]
        return [one for one in found if one.child in alive and era in (None, one.child.era)]

    def late_calls(self) -> list[Call]:
        now = self.world.now
        return [one for one, since in self.late if now < since + LATE_SECONDS]

    def open_of(self, one: Call) -> list[Question]:
        return [question for question in self.questions if question.call is one]

    def suspended(self) -> list[Call]:
        return [one for one in self.calls if one.state in ("suspended", "handed")]

    def able(self, question: Question) -> bool:
        """Whether all calls of the party that a question is for may carry it."""
        name, one = METHODS[question.method], question.call
        peers = [c for c in self.calls if c.party is one.party and c.child is one.child]
        return all(name in peer.able for peer in [one, *peers])

    def over(self, one: Call, since: float | None = None) -> None:
        """A call has ended for its client; `since` is when its server was told, if not now."""
        self.calls.remove(one)
        one.state = "over"
        del self.reported[one.serial]
        if one.is_flying:
            self.late.append((one, self.world.now if since is None else since))
        elif one.rounds > 1 or one.server == "m":
            self.dropped([q for q in self.open_of(one) if q.raw is None])

    def dropped(self, questions: list[Question]) -> None:
        """Nobody waits for an answer to these any more."""
        for question in questions:
            question.over = True
            if question in self.questions:
                self.questions.remove(question)

    # --- What everybody was told --------------------------------------------------------------

    def settle(self) -> None:
        """Let whatever starts come up, and see what everybody was told."""
        self.sound = False
        for child in self.children():
            if child.state == "starting":
                self.world.up(child)
        self.transport.rest()
        # What clients were told explains what servers were told, so it comes first.
        for speaker, one, line in self.transport.heard(self.calls):
            note(f"  told {line}")
            self._told(speaker, one, line)
        for child in self.children():
            for line in self.world.received(child):
                note(f"  {child.name} told {line}")
                self._told_server(child, line)
        self._nobody_is_forgotten()
        self.sound = True

    def _told_server(self, child: Child, line: Json) -> None:
        method = line.get("method")
        if method == "tools/call":
            self._sent(child, line)
        elif method == CANCELLED:
            number = line["params"]["requestId"]
            ended = [one for one, _ in self.late]
            unread = [one for one in self.calls if one.is_unread]
            [one] = [c for c in [*ended, *unread] if (c.child, c.number) == (child, number)]
            if one in unread:
                one.said = {}  # its client will read why, if it goes on
        elif method == PROGRESS:
            asked = [q for q in self.questions if q.child is child and q.token is not None]
            token, serial = line["params"]["progressToken"], line["params"]["n"]
            [question] = [q for q in asked if q.serial == serial]
            assert key(question.token) == key(token)
        elif method is None:
            self._answered(child, line)

    def _sent(self, child: Child, line: Json) -> None:
        """A call has reached a server, once in each round, as its client has made it."""
        params = line["params"]
        [one] = [c for c in self.calls if c.serial == params["arguments"]["n"]]
        assert child.name == one.server
        assert not one.number
        assert not one.doom
        assert one.state == "open"
        assert type(line["id"]) is int
        assert (child, line["id"]) not in self.used
        self.used.add((child, line["id"]))
        assert params["name"] == one.message["params"]["name"].partition(":")[2]
        assert (params.get("inputResponses"), params.get("requestState")) == one.given_back
        token = params.get("_meta", {}).get("progressToken")
        assert (token is None) == (one.progress_token is None)
        assert token is None or type(token) is int
        one.child, one.number, one.token = child, line["id"], token

    def _answered(self, child: Child, line: Json) -> None:
        """A server has its answer: to one question that it has asked, under its own id."""
        asked = [q for q in self.questions if q.child is child and q.raw is not None]
        [question] = [q for q in asked if key(q.raw) == key(line["id"])]
        if "result" in line:
            assert question.replied
            assert line["result"] == {"to": question.serial}
        elif line["error"]["code"] == REFUSED:
            assert question.replied
            assert line["error"]["message"] == str(question.serial)
        elif line["error"]["code"] == NOT_FOUND:
            assert not self.able(question)
            event("a client that cannot be asked")
        else:
            event(f"a question fails: {line['error']['message']}")
        self.dropped([question])

    def _told(self, speaker: Speaker, response: Call | None, line: Json) -> None:
        method = line.get("method")
        if method is None:
            self._ended(speaker, response, line)
        elif method == PROGRESS:
            self._progress(speaker, line["params"])
        elif method == CANCELLED:
            question = speaker.asked.pop(line["params"]["requestId"])
            assert not question.replied
            question.speaker = None
        elif "id" in line:
            self._asked(speaker, response, line)
        else:
            assert method == "notifications/tools/list_changed"
            assert self.fallen

    def _progress(self, speaker: Speaker, params: Json) -> None:
        [one] = [one for one in self.calls if one.serial == params["n"]]
        assert one.speaker is speaker, "a stranger hears of progress"
        assert key(one.progress_token) == key(params["progressToken"])
        assert self.reported[one.serial]
        self.reported[one.serial] -= 1

    def _asked(self, speaker: Speaker, response: Call | None, line: Json) -> None:
        question = self.every[line["params"]["n"]]
        if question.raw is None and response is not None:
            assert response is question.call or question.call.is_unread
        assert question.call.party is speaker, "a question reached a stranger"
        assert line["method"] == question.method
        assert METHODS[question.method] in speaker.able
        assert question.speaker is None
        assert question.carrier is None or question.carrier.state == "over"
        assert type(line["id"]) is int
        assert line["id"] not in speaker.asked
        question.speaker, question.carrier = speaker, None
        speaker.asked[line["id"]] = question
        event("a question by a request")

    def _ended(self, speaker: Speaker, response: Call | None, line: Json) -> None:
        """A call has its answer: the one that its server gave, or one that tells why not."""
        owed = [c for c in self.calls if c.speaker is speaker and c.state == "open"]
        [one] = [c for c in owed if key(c.raw) == key(line["id"])]
        assert response in (None, one)
        if line.get("result", {}).get("resultType") == "input_required":
            self._required(one, line["result"])
            return
        if "error" in line and not self._is_said(one, line):
            self._failed(one, line["error"])
            return
        assert self._is_said(one, line), (one, line)
        is_complete = line.get("result", {}).get("resultType") == "complete"
        assert is_complete == (one.modern and "result" in line)
        event(f"an answer for {self._kind(one)}")
        self.over(one)

    def _failed(self, one: Call, error: Json) -> None:
        """A call has ended with an error of the proxy, which says why."""
        since = None
        if NOT_KNOWN in error["message"]:
            assert self.web is not None
            event("it is not known whose question it is")
            since = -LATE_SECONDS  # at some time while the clock went on
        elif error["message"] == f"Server '{one.server}' died":
            assert one.server in self.fallen
        else:
            assert one.doom == error["code"], (one, error)
        self.over(one, since)

    def _is_said(self, one: Call, line: Json) -> bool:
        """Whether this is what the server of a call has said."""
        said = one.said or {}
        if "error" in line:
            return bool(line["error"].get("code") == said.get("error", {}).get("code"))
        return bool("result" in said and line["result"]["n"] == one.serial)

    def _required(self, one: Call, value: Json) -> None:
        """A call is suspended: its client has what is asked in it, and in no other one."""
        assert one.modern
        shown = value.get("inputRequests", {})
        if one.state == "open" and one.said is not None and "required" in one.said:
            assert one.said["required"]["requestState"] == value["requestState"]
            one.state, one.said = "handed", None
        else:
            assert value["requestState"] not in [c.request_state for c in self.stale]
            assert shown
            one.state, one.deadline = "suspended", self.world.now + SUSPENDED_SECONDS
            event("a call is suspended")
        one.request_state, one.keys = value["requestState"], {}
        for name, asked in shown.items():
            question = self.every[asked["params"]["n"]]
            assert question.call.party is one.party, "a question reached a stranger"
            assert asked["method"] == question.method
            if one.state == "suspended":
                assert METHODS[question.method] in one.able
                assert question.speaker is None
                assert question.carrier in (None, one) or question.carrier.state == "over"
            question.carrier, one.keys[name] = one, question

    def _nobody_is_forgotten(self) -> None:
        """What can end has ended."""
        alive = self.children()
        self.dropped([q for q in self.questions if q.child not in alive])
        for one in self.calls:
            assert one.child is None or one.child in alive or not one.is_flying
            if one.state == "open" and not one.is_unread:
                assert not one.said, one
                assert not one.doom, one
                assert not self.reported[one.serial]
        assert not [q for q in self.questions if q.replied and q.raw is not None]
        for name in SERVERS:  # the shared ones, that of who can be asked nothing, and the others
            assert len([child for child in alive if child.name == name]) <= LIMIT + 3

    # --- Clients ------------------------------------------------------------------------------

    @move(able=abilities)
    def connect(self, able: Json) -> None:
        if self.web is None or len(self.web.speakers) > 3:
            raise Nobody
        self.web.connect(able)
        self.settle()

    @move(server=servers, calls=st.lists(some_call, min_size=1, max_size=3))
    def call(self, server: str, calls: list[Named]) -> None:
        """Let some clients make calls of one server, one after the other."""
        for which, modern, able, names in calls:
            if len(self.calls) < MOST_CALLS:
                self._make(self._new_call(which, server, modern, able, names))

    @move(
        server=servers,
        calls=st.lists(some_call, min_size=2, max_size=4),
        method=methods,
        asks=st.booleans(),
    )
    def call_at_once(self, server: str, calls: list[Named], method: str, asks: bool) -> None:
        """Let clients have calls under way at one time, each of which may ask them something."""
        for named in calls:
            self.call(server, [named])
            self._wait(ALONE_SECONDS)
        flying = [one for one in self.calls if one.is_flying and one.server == server and asks]
        for number, one in enumerate(flying):
            if one.child is not None and one.child.era == MODERN:
                self._require(one, 1, method)
            else:
                self._ask(one, method, number, None)

    def _new_call(
        self, which: int, server: str, modern: bool, able: Json, names: tuple[int, Any]
    ) -> Call:
        if self.web is None or modern:
            speaker = self.transport.speaker_of(modern, able)
        else:
            speaker = self.pick(self.web.speakers, which)
        serial, tool = self.next_serial(), self.pick(SERVERS[server], which)
        raw, token = self._names(speaker, *names)
        message = call(raw, f"{server}:{tool}", {"n": serial}, token)
        able = able if modern else speaker.able
        message = enveloped(message, able) if modern else message
        return Call(serial, speaker, speaker, server, modern, able, message)

    def _names(self, speaker: Speaker, which: int, token: Any) -> tuple[Any, Any]:
        """Return an id that somebody may use, and a progress token."""
        taken = [key(c.progress_token) for c in self.calls if c.speaker is speaker]
        ids = islice((one for one in same_looking() if key(one) not in speaker.used), 4)
        raw = self.pick(ids, which)
        speaker.used.add(key(raw))
        return raw, None if key(token) in taken else token

    def _make(self, one: Call) -> None:
        note(f"client: {one.message}")
        self.calls.append(one)
        self.transport.call(one)
        self.settle()

    @move(which=numbers, own=st.booleans())
    def cancel(self, which: int, own: bool) -> None:
        """Let a client want a call no longer, or one that is none of its calls."""
        one = self.pick([one for one in self.calls if one.state == "open"], which)
        if own:
            self._cancel(one)
            return
        web = self.web
        strangers = [] if web is None else [s for s in web.speakers if s is not one.speaker]
        stranger = self.pick([s for s in strangers if key(one.raw) not in s.used], which)
        stranger.used.add(key(one.raw))  # it may be a call that is on its way
        self.transport.say(stranger, notification(CANCELLED, {"requestId": one.raw}))
        self.settle()

    def _cancel(self, one: Call) -> None:
        note(f"client: cancels {one.serial}")
        if self.web is None or one.speaker.is_modern:
            self.over(one)
        else:
            one.doom = FAILED
            if one.is_unread:
                self.over(one)
        self.transport.cancel(one)
        event("a call is cancelled")
        self.settle()

    @move(replies=st.lists(st.tuples(numbers, seldom), min_size=1, max_size=3))
    def reply(self, replies: list[tuple[int, bool]]) -> None:
        """Let clients answer what they are asked, twice; others do so, too."""
        for which, failed in replies:
            asked = [q for q in self.every.values() if q.speaker is not None and not q.replied]
            self._reply(self.pick(asked, which), failed)

    def _reply(self, question: Question, failed: bool) -> None:
        speaker = question.speaker
        assert speaker is not None
        [number] = [n for n, asked in speaker.asked.items() if asked is question]
        del speaker.asked[number]
        answer = result(number, {"to": question.serial})
        if failed:
            answer = failure(number, REFUSED, str(question.serial))
        waiting = {q.call.party for q in self.questions}  # which they may not have read yet
        for other in self.web.speakers if self.web is not None else []:
            if other is not speaker and other not in waiting:
                self.transport.say(other, result(number, {"to": 0}))
        question.replied = True
        if question.raw is None and not question.over:
            self._replied_in_rounds(question, failed)
        note(f"client: {answer}")
        self.transport.say(speaker, answer)
        self.transport.say(speaker, answer)
        self.settle()

    def _replied_in_rounds(self, question: Question, failed: bool) -> None:
        """What a client answers goes back with the next request, once it is all there."""
        one = question.call
        if failed and question.method != "elicitation/create":
            self._fails(one)
            return
        answers, state = one.given_back
        answer = {"action": "cancel"} if failed else {"to": question.serial}
        one.given_back = {**answers, question.name: answer}, state
        self.dropped([question])

    def _fails(self, one: Call) -> None:
        """A call in rounds comes to nothing."""
        one.doom = FAILED
        self.dropped(self.open_of(one))

    @move(which=numbers)
    def report_to_server(self, which: int) -> None:
        """Let a client report progress of what it is asked."""
        asked = [q for q in self.questions if q.speaker is not None and not q.replied]
        question = self.pick([q for q in asked if q.raw is not None], which)
        [number] = [n for n, one in question.speaker.asked.items() if one is question]
        self.transport.say(question.speaker, progress(number, 1, n=question.serial))
        self.settle()

    @move(retries=st.lists(st.tuples(names, modes, abilities), min_size=1, max_size=3))
    def resume(self, retries: list[tuple[tuple[int, Any], str, Json]]) -> None:
        for names, mode, able in retries:
            self._resume(self.pick(self.suspended(), names[0]), mode, names, able)

    def _resume(self, one: Call, mode: str, names: tuple[int, Any], able: Json) -> None:
        """Let a client make its request again, with what it is asked for."""
        given = {"missing": [*one.keys][1:], "none": []}.get(mode, [*one.keys])
        responses: Json = {name: {"to": one.keys[name].serial} for name in given}
        if mode == "surplus":
            responses.update({"0": {}, "77": {"to": 0}, "x": {}})
        if one.state == "handed":
            one.given_back = responses, one.request_state
            self.dropped([*one.keys.values()])
        else:
            self.stale.append(one)
            for question in [one.keys[name] for name in given]:
                question.replied = question.carrier is one and not question.over
        one.speaker = self.transport.speaker_of(modern=True, able=able)
        one.able = able
        raw, token = self._names(one.speaker, *names)
        one.message = self._retry(one.message, raw, token, one.request_state, responses, able)
        one.state = "open"
        note(f"client: {one.message}")
        event(f"a call that was {one.state} is resumed")
        self.transport.call(one)
        self.settle()

    def _retry(
        self, message: Json, raw: Any, token: Any, state: str, responses: Json, able: Json
    ) -> Json:
        own = ("_meta", "requestState", "inputResponses")
        params = {n: v for n, v in message["params"].items() if n not in own}
        params |= {"requestState": state, "inputResponses": responses}
        meta = {} if token is None else {"progressToken": token}
        return enveloped({**message, "id": raw, "params": params}, able, meta)

    @move(which=numbers, other=numbers, stale=st.booleans(), names=names)
    def resume_wrongly(self, which: int, other: int, stale: bool, names: tuple[int, Any]) -> None:
        """Let somebody bring back the state of another call, one that was used, or none of ours."""
        if stale:
            used = self.pick(self.stale, which)
            message, state = used.message, used.message["params"].get("requestState")
            if state == used.request_state and used.state == "suspended":
                raise Nobody
        else:
            asked = [c for c in self.suspended() if c.state == "suspended"]
            state = self.pick([*[c.request_state for c in asked], "mcpagg:h1:h9", "x"], other)
            message = self._new_call(which, "a", True, {}, names).message
        speaker = self.transport.speaker_of(modern=True, able={})
        raw, _ = self._names(speaker, *names)
        retry = self._retry(message, raw, None, state, {"1": {"to": 0}, "2": {"to": 0}}, {})
        one = Call(self.next_serial(), speaker, speaker, "a", True, {}, retry)
        one.doom = INVALID
        event("a call is resumed wrongly")
        self._make(one)

    # Over HTTP

    @move(which=numbers, how=st.sampled_from(["break", "break", "go on", "listen", "leave"]))
    def change_connection(self, which: int, how: str) -> None:
        """Let connections break, or be made: calls go on, if their session does."""
        if self.web is None:
            raise Nobody
        waiting = [one for one in self.calls if one.speaker.session and one.post is not None]
        lost = [one for one in waiting if one.is_unread and one.post and one.post.last_id]
        if how == "break":
            one = self.pick([one for one in waiting if not one.is_unread], which)
            self.web.hang_up(one.post)
        elif how == "go on":
            one = self.pick(lost, which)
            one.post = self.web.listen(one.speaker, one.post.last_id)
        elif how == "listen":
            self._listen(self.web, self.pick(self.web.speakers, which))
        elif len(self.web.speakers) > 1:
            self._leave(self.pick(self.web.speakers, which))
        event(f"connections: {how}")
        self.settle()

    def _listen(self, web: Web, speaker: Speaker) -> None:
        """Let a session have a stream of its own, or none."""
        before, speaker.stream = speaker.stream, None
        if before is None:
            speaker.stream = web.listen(speaker)
        else:
            web.hang_up(before)

    def _leave(self, speaker: Speaker) -> None:
        assert self.web is not None
        for one in [one for one in self.calls if one.speaker is speaker]:
            self.over(one)
        for question in speaker.asked.values():
            question.speaker = None
        self.web.end(speaker)
        event("a session ends")
        self.settle()

    # --- Servers ------------------------------------------------------------------------------

    @move(
        which=numbers,
        method=methods,
        raws=st.lists(numbers, min_size=1, max_size=3),
        token=tokens,
        late=seldom,
    )
    def ask(self, which: int, method: str, raws: list[int], token: Any, late: bool) -> None:
        """Let a legacy server ask something in calls, or in one that was taken back."""
        for number, raw in enumerate(raws):
            flying = [one for one in self.flying(LEGACY) if (one not in self.calls) == late]
            self._ask(self.pick(flying, which + number), method, raw, token)

    def _ask(self, one: Call, method: str, raw: int, token: Any) -> None:
        child = one.child
        assert child is not None
        asked = [q for q in self.questions if q.child is child]
        known = [key(q.raw) for q in asked] + [key(q.token) for q in asked if q.token is not None]
        ids = islice((raw for raw in same_looking() if key(raw) not in known), 4)
        question = Question(self.next_serial(), one, method, child)
        question.raw = self.pick(ids, raw)
        question.token = None if key(token) in known else token
        self.questions.append(question)
        self.every[question.serial] = question
        params: Json = {"n": question.serial}
        if question.token is not None:
            params["_meta"] = {"progressToken": question.token}
        self._say(child, request(question.raw, method, params))

    @move(which=numbers)
    def take_question_back(self, which: int) -> None:
        question = self.pick([q for q in self.questions if q.raw is not None], which)
        self.dropped([question])
        self._say(question.child, notification(CANCELLED, {"requestId": question.raw}))
        event("a question is taken back")

    @move(which=numbers, how_many=st.sampled_from([0, 1, 1, 2, 3]), method=methods)
    def require(self, which: int, how_many: int, method: str) -> None:
        """Let a modern server require input, or time."""
        one = self.pick([c for c in self.flying(MODERN) if c in self.calls], which)
        self._require(one, how_many, method)

    def _require(self, one: Call, how_many: int, method: str) -> None:
        one.rounds += 1
        value: Json = {"resultType": "input_required", "requestState": f"s{self.next_serial()}"}
        questions = []
        for number in range(how_many):
            question = Question(self.next_serial(), one, method, one.child or self.children()[0])
            question.name = f"k{number}"
            questions.append(question)
            self.every[question.serial] = question
        if questions:
            value["inputRequests"] = {
                q.name: {"method": q.method, "params": {"n": q.serial}} for q in questions
            }
        child, number = one.child, one.number
        assert child is not None
        self._spend(one)
        if one.modern:
            one.said = {"required": value}
        else:
            one.given_back = {} if questions else None, value["requestState"]
            if one.rounds > MAXIMUM_ROUNDS:
                one.doom = FAILED
            elif questions and METHODS[method] not in one.able:
                self._cannot(one, questions)
            else:
                self.questions += questions
        event("a server requires input")
        self._say(child, result(number, value))

    def _cannot(self, one: Call, questions: list[Question]) -> None:
        """A client is not asked what it cannot do."""
        if questions[0].method == "elicitation/create":
            cancelled = {question.name: {"action": "cancel"} for question in questions}
            one.given_back = cancelled, one.given_back[1]
        else:
            one.doom = FAILED

    def _spend(self, one: Call) -> None:
        assert one.child is not None
        self.spent.setdefault(one.child, []).append(one.number)
        one.number = 0

    @move(answers=st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=5))
    def answer(self, answers: list[tuple[int, bool]]) -> None:
        """Let servers answer calls, which may have been taken back, and that twice."""
        for which, failed in answers:
            self._answer(self.pick(self._answerable(), which), failed)

    def _answerable(self) -> list[Call]:
        """Return the calls that may be answered: what they ask has reached somebody."""
        return [c for c in self.flying() if all(q.is_asked for q in self.open_of(c))]

    def _answer(self, one: Call, failed: bool) -> None:
        child, number = one.child, one.number
        assert child is not None
        self._spend(one)
        one.said = {"result": {"n": one.serial}}
        line = result(number, {"n": one.serial})
        if failed:
            one.said = {"error": {"code": one.serial}}
            line = failure(number, one.serial, "m")
        self._say(child, line)
        self._say(child, line)

    @move(which=numbers, one=numbers)
    def answer_what_was_not_asked(self, which: int, one: int) -> None:
        """Let a server answer what has ended, what it has asked itself, or what nobody knows."""
        child = self.pick([c for c in self.children() if c.state == "ready"], which)
        known = [c.number for c in self.flying() if c.child is child]
        own = [q.raw for q in self.questions if q.child is child and type(q.raw) is int]
        ids = [*self.spent.get(child, []), *own, 10**9, 2**70]
        number = self.pick([n for n in ids if n > 0 and n not in known], one)
        self._say(child, result(number, {"n": 0}))

    @move()
    def report_progress(self) -> None:
        """Let servers report progress of all that they are to report it of."""
        for one in [c for c in self.flying() if c.token is not None]:
            if one.state == "open" and one.progress_token is not None:
                self.reported[one.serial] += 1
                event(f"progress for {self._kind(one)}")
            assert one.child is not None
            self._say(one.child, progress(one.token, 1, n=one.serial))

    def _kind(self, one: Call) -> str:
        """Say which pairing a call is of."""
        over = "a pipe" if self.web is None else "HTTP"
        era = one.child.era if one.child is not None else "no"
        return f"a {MODERN if one.modern else LEGACY} client of a {era} server over {over}"

    def _say(self, child: Child, message: Json) -> None:
        note(f"{child.name}: {message}")
        self.world.say(child, message)
        self.settle()

    @move(which=numbers, really=seldom)
    def die(self, which: int, really: bool) -> None:
        alive = [child for child in self.children() if child.state == "ready"]
        child = self.pick(alive if really else [], which)
        self.fallen.add(child.name)
        for one in [c for c in self.flying() if c.child is child]:
            self._spend(one)
            one.doom = FAILED
        self.late = [(one, since) for one, since in self.late if one.child is not child]
        self.dropped([q for q in self.questions if q.child is child])
        note(f"{child.name} dies")
        self.world.down(child, "died")
        event("a server dies")
        self.settle()

    # --- Time ---------------------------------------------------------------------------------

    @move(seconds=st.sampled_from(MOMENTS))
    def wait(self, seconds: float) -> None:
        self._wait(seconds)
        if seconds == ANSWER_SECONDS:
            unsent = [one for one in self.calls if self._is_to_be_sent(one)]
            self._wait(ANSWER_SECONDS)
            assert not [one for one in unsent if one in self.calls and not one.number]

    def _is_to_be_sent(self, one: Call) -> bool:
        is_over = bool(one.said or one.doom)
        return one.state == "open" and not (one.number or is_over or self.open_of(one))

    def _wait(self, seconds: float) -> None:
        self.world.wait(seconds)
        for one in self.suspended():
            if one.deadline <= self.world.now:
                self.over(one, since=one.deadline)
        self.settle()

    # --- The end ------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everything ends, in order or at once, and nothing is remembered."""
        if not hasattr(self, "limit"):
            return
        instances.MAXIMUM_INSTANCES = self.limit
        try:
            if getattr(self, "sound", False):
                self._end()
        finally:
            self.transport.close()

    def _end(self) -> None:
        if self.serial % 2:
            self._end_in_order()
        for one in [one for one in self.calls if one.speaker.is_modern and one.state == "open"]:
            self._cancel(one)
        for speaker in [*self.web.speakers] if self.web is not None else []:
            self._leave(speaker)
        for one in [one for one in self.calls if one.state == "open"]:
            self.over(one)
        self.transport.leave()
        self._wait(SUSPENDED_SECONDS + LATE_SECONDS)
        for child in self.children():
            self.world.received(child)
        assert not [one for one in self.calls if one.state != "handed"]
        assert self.world.idle()
        assert not [*self.world.router.clients]
        # Who started a server is known, and on whose behalf one is started that clients share.
        starters = {child.lifecycle.client for child in self.children()}
        left = {*self.transport.remembered()} - starters - self.before
        assert len(left) <= 1

    def _end_in_order(self) -> None:
        """Whoever waits for something gets it, in the end."""
        for _ in range(100):
            for one in self.suspended():
                self._resume(one, "right", (0, None), one.able)
            for question in [q for q in self.questions if q.speaker is not None]:
                self._reply(question, failed=False)
            for one in self._answerable():
                if one.is_flying:
                    self._answer(one, failed=False)
            self._wait(1.0)
            if not [one for one in self.calls if not one.is_unread]:
                break
        assert not [one for one in self.calls if not one.is_unread]


ClientsMachine.TestCase.settings = settings(
    max_examples=settings().max_examples,
    stateful_step_count=40,
    phases=settings().phases if THOROUGH else [Phase.generate],
)
TestNobodyIsToldWhatIsOfOthers = ClientsMachine.TestCase
