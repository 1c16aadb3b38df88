"""Calls, questions and transports, as the stateful model of many clients sees them."""

from __future__ import annotations

import asyncio
import gc
from asyncio import AbstractEventLoop, Future
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack
from contextvars import Context
from dataclasses import dataclass, field
from types import CoroutineType, FunctionType, MethodType, ModuleType
from typing import Any

from asgi import Answer, Site, closed, opened, stage
from core import ASKABLE, Json, World, notification
from hypothesis import strategies as st

from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.protocol import CANCELLED, MODERN_VERSION
from mcpagg_runtime.servers.calls import Call as RoutedCall
from mcpagg_runtime.servers.child import Child

SHAKEN: Json = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
SERVERS = {"a": ["t", "u"], "m": ["t"], "b": ["t"]}
"""One of each era, and one that speaks both."""
FACTS: Json = {
    "m": {"protocol": MODERN_VERSION},
    "b": {"protocol": MODERN_VERSION, "handshake": SHAKEN},
}
METHODS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling"}
ABILITIES: list[Json] = [ASKABLE, ASKABLE, {"elicitation": {}}, {"sampling": {}}, {}]
TOKENS: list[Any] = [None, 1, "1", 0, "", 2**70]
ELSEWHERE = (type, ModuleType, str, bytes, int, Future, AbstractEventLoop, CoroutineType, Context)
"""What leads to nothing, or to the rest of the program: what runs belongs to the loop."""
REFUSED = -9
"""The code of the errors that clients answer questions with."""

abilities, tokens = st.sampled_from(ABILITIES), st.sampled_from(TOKENS)
methods = st.sampled_from([*METHODS])
modes = st.sampled_from(["right", "right", "right", "missing", "none", "surplus"])


def key(value: Any) -> tuple[type, Any]:
    """Return an id or a token as something that tells 1 from "1"."""
    return type(value), value


def same_looking() -> Iterator[Any]:
    """Give ids that look like those that everybody else uses."""
    yield from ("", "\ud800", 2**64, -1)
    for number in range(10**6):
        yield from (number, str(number))


@dataclass(eq=False)
class Speaker:
    """Whoever is told something: a pipe, a session, or one request without a session."""

    able: Json
    session: str = ""
    """The id of its session."""
    is_modern: bool = False
    """Whether it is a request, and nothing else."""
    used: set[tuple[type, Any]] = field(default_factory=set)
    """The ids that it has used up."""
    asked: dict[int, Question] = field(default_factory=dict)
    """{id: question} of what it is to answer."""
    stream: Answer | None = None
    """The stream of a session for what is no answer."""


@dataclass(eq=False)
class Call:
    """A call that is owed an outcome."""

    serial: int
    speaker: Speaker
    """Who made it, or has resumed it."""
    party: Speaker
    """Whom a server means that asks something in it."""
    server: str
    modern: bool
    able: Json
    message: Json
    state: str = "open"
    """Its client waits; suspended: it is the client's turn; handed: that, at the server; over."""
    child: Child | None = None
    number: int = 0
    """The id that the server knows it by, 0 while the server does not have it."""
    token: Any = None
    """The progress token that the server knows it by."""
    rounds: int = 1
    given_back: tuple[Any, Any] = (None, None)
    """What a modern server gets back with the next request: the answers, and its state."""
    request_state: str = ""
    deadline: float = float("inf")
    """Until when it can be resumed."""
    keys: dict[str, Question] = field(default_factory=dict)
    """What its client was shown that it is to answer."""
    said: Json | None = None
    """How the server has answered it."""
    doom: int = 0
    """The code of the error that it must end with, 0 for none."""
    post: Answer | None = None
    """The response to the request that it is made by."""

    @property
    def raw(self) -> Any:
        """The id of the request that it is made by."""
        return self.message["id"]

    @property
    def progress_token(self) -> Any:
        """What its client wants progress reported under."""
        return self.message["params"].get("_meta", {}).get("progressToken")

    @property
    def is_flying(self) -> bool:
        """Whether its server is at it."""
        return bool(self.number) and self.said is None

    @property
    def is_unread(self) -> bool:
        """Whether nobody reads the response to it."""
        return self.post is not None and not (self.post.is_open or self.post.ended)


@dataclass(eq=False)
class Question:
    """What a server asks in the middle of a call."""

    serial: int
    call: Call
    method: str
    child: Child
    raw: Any = None
    """The server's own id, None for input that a modern one requires."""
    token: Any = None
    """The server's own progress token, None for none."""
    name: str = ""
    """The key of such input."""
    speaker: Speaker | None = None
    """Who is asked by a request."""
    carrier: Call | None = None
    """The call by whose result it is asked."""
    replied: bool = False
    over: bool = False

    @property
    def is_asked(self) -> bool:
        """Whether a client was asked it."""
        return self.speaker is not None or self.carrier is not None


Heard = list[tuple[Speaker, Call | None, Json]]


class Pipe:
    """Standard input and output: one client, which speaks both eras at once."""

    def __init__(self) -> None:
        self.world = World(SERVERS, facts=FACTS, on_drift="warn", restart="on-call")
        self.client = self.world.client(ASKABLE)
        self.speaker = Speaker(ASKABLE)

    def speaker_of(self, modern: bool, able: Json) -> Speaker:
        """Return who makes the next call."""
        return self.speaker

    def call(self, call: Call) -> None:
        """Let a call, or its retry, be made."""
        self.world.say(self.client, call.message)

    def say(self, speaker: Speaker, message: Json) -> None:
        """Let a client say what is no request."""
        self.world.say(self.client, message)

    def cancel(self, call: Call) -> None:
        """Let a client want a call no longer."""
        self.say(call.speaker, notification(CANCELLED, {"requestId": call.raw}))

    def heard(self, calls: list[Call]) -> Heard:
        """Return what was said to clients: to whom, and in the response to which call."""
        return [(self.speaker, None, line) for line in self.world.received(self.client)]

    def rest(self) -> None:
        """Let everything be done that is to be done."""

    def leave(self) -> None:
        """Let all clients go."""
        self.world.leave(self.client)

    def remembered(self) -> list[object]:
        """Return the calls and clients that are still known."""
        return known(self.world.core)

    def close(self) -> None:
        """End."""


class Web:
    """HTTP: sessions, and requests that need none."""

    def __init__(self, patience: float) -> None:
        self._left = ExitStack()
        self._runner = self._left.enter_context(stage(patience))
        choices: Json = {"facts": FACTS, "on_drift": "warn", "restart": "on-call"}
        self.world: Site = self._run(opened(SERVERS, **choices))
        self.speakers: list[Speaker] = []

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    async def _do(self, work: Any) -> Any:
        """Begin something in the loop, and let everything be done that follows."""
        done = work()
        await self.world.rest()
        return done

    def rest(self) -> None:
        """Let everything be done that is to be done."""
        self._run(self.world.rest())

    def connect(self, able: Json) -> None:
        """Begin a session."""
        self.speakers.append(Speaker(able, self._run(self.world.session(able))))

    def speaker_of(self, modern: bool, able: Json) -> Speaker:
        """Return who makes a request without a session."""
        assert modern
        return Speaker(able, is_modern=True)

    def call(self, call: Call) -> None:
        """Let a call, or its retry, be made."""
        if call.speaker.is_modern:
            call.post = self._run(self._do(lambda: self.world.stateless(call.message, call.able)))
        else:
            call.post = self._post(call.speaker, call.message)

    def _post(self, speaker: Speaker, message: Json) -> Any:
        return self._run(self._do(lambda: self.world.post(message, speaker.session)))

    def say(self, speaker: Speaker, message: Json) -> None:
        """Let a session say what is no request."""
        answer = self._post(speaker, message)
        assert self._run(answer.status()) == 202

    def cancel(self, call: Call) -> None:
        """Let a client want a call no longer."""
        if call.speaker.is_modern:
            self.hang_up(call.post)
        else:
            self.say(call.speaker, notification(CANCELLED, {"requestId": call.raw}))

    def hang_up(self, answer: Answer | None) -> None:
        """Let a client close a connection."""
        if answer is not None and answer.is_open:
            self._run(answer.hang_up())
            self.rest()

    def listen(self, speaker: Speaker, last: str = "") -> Answer:
        """Let a session open its stream, or go on with that of an event."""
        answer: Answer = self._run(self._do(lambda: self.world.listen(speaker.session, last)))
        return answer

    def heard(self, calls: list[Call]) -> Heard:
        """Return what was said to clients: to whom, and in the response to which call."""
        found: Heard = []
        for call in calls:
            if call.post is not None:
                found += [(call.speaker, call, line) for line in call.post.arrived()]
        for speaker in self.speakers:
            if speaker.stream is not None:
                found += [(speaker, None, line) for line in speaker.stream.arrived()]
        return found

    def end(self, speaker: Speaker) -> None:
        """Let a session end."""
        self.speakers.remove(speaker)
        headers = {"mcp-session-id": speaker.session}
        answer = self._run(self._do(lambda: self.world.fetch("DELETE", headers=headers)))
        assert self._run(answer.status()) == 204

    def leave(self) -> None:
        """Let all clients go."""
        for speaker in [*self.speakers]:
            self.end(speaker)

    def remembered(self) -> list[object]:
        """Return the calls and clients that are still known."""
        self.rest()
        return known(self.world.core, self.world.app)

    def close(self) -> None:
        """End."""

        async def end() -> None:
            await closed(self.world)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        self._run(end())
        self._left.close()


def known(*roots: object) -> list[object]:
    """Return the calls and the clients that these lead to, through whatever holds them."""
    found: dict[int, object] = {}
    seen: set[int] = set()
    left = [*roots]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, ELSEWHERE):
            continue
        seen.add(id(one))
        if isinstance(one, RoutedCall | Client):
            found[id(one)] = one
        if isinstance(one, FunctionType):
            left += [*(one.__closure__ or ()), *(one.__defaults__ or ())]
        elif isinstance(one, MethodType):
            left.append(one.__self__)
        else:
            left += gc.get_referents(one)
    return [*found.values()]
