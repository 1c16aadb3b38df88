"""One life of one child, as discovery meets it: a client that asks, and collects what it is told.

The process, the lines, what counts as a message and the reading of lists are those of the emitted
file. What differs is that one thread asks, one request at a time, and waits for the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.metadata import version as installed_version
from time import monotonic

from mcpagg.jsontext import dumps, loads
from mcpagg.snapshot import Json
from mcpagg_runtime.modern.child import envelope
from mcpagg_runtime.ready.greeting import LEGACY_VERSIONS
from mcpagg_runtime.ready.values import quote
from mcpagg_runtime.remote.transport import RemoteConnection
from mcpagg_runtime.serve.launch import Launch
from mcpagg_runtime.serve.lifecycle import (
    MODERN_CODES,
    introduction_fault,
    knows_no_handshake,
    speaks_modern,
)
from mcpagg_runtime.serve.listing import Listing, unreadable
from mcpagg_runtime.serve.messages import (
    SHOWN_CHARACTERS,
    Fragment,
    answered,
    id_text,
    minted,
    notification,
    read_line,
    request,
)
from mcpagg_runtime.serve.platforms import crashed
from mcpagg_runtime.serve.process import LAST_WORDS_SECONDS, Process
from mcpagg_runtime.serve.secrecy import printable
from mcpagg_runtime.start.catalogue import TOOLS, Kind
from mcpagg_runtime.start.jsontext import edited, obj
from mcpagg_runtime.start.message import Message, error, failure, result
from mcpagg_runtime.start.protocol import (
    INITIALIZED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    PARSE_ERROR,
    SERVER_KEY,
    UNSUPPORTED_VERSION,
)
from mcpagg_runtime.start.scanner import Malformed

DISCOVER = "server/discover"
AGENT = f"mcpagg/{installed_version('mcpagg')}"
# How what is no endpoint of streamable HTTP, or of another revision, answers a POST (specification,
# transports, backwards compatibility).
UNKNOWN_THERE = (400, 404, 405)
USER_REJECTED = -1  # specification, client/sampling: what a client answers when the user declines


class Fault(Exception):
    """Raised when a child cannot be started or spoken with.

    `what` completes "server 'x' …"; the text as a whole also quotes the end of the child's stderr,
    on lines of their own. Neither holds a secret.
    """

    def __init__(self, what: str, last_words: str = "", status: int = 0) -> None:
        """`last_words` are the lines to quote; `status` is that of HTTP which it is about."""
        self.status = status
        self.what = printable(" ".join(what.split("\n")))
        quoted = [f"{self.what}; the end of its stderr:", *last_words.splitlines()]
        super().__init__("\n    ".join(quoted) if last_words else self.what)


class BadList(Fault):
    """Raised when a child gives no list where one was asked for; nothing else is wrong."""


class Silence(Exception):
    """Raised when an answer takes too long."""


class Refusal(Exception):
    """Raised when a child answers with an error."""

    def __init__(self, answer: Message) -> None:
        value = answer.value("error")
        shaped = isinstance(value, dict) and type(value.get("code")) is int
        self.answer = answer
        self.code: int = value["code"] if shaped else INTERNAL_ERROR
        message = value.get("message") if shaped else value
        self.message = message if isinstance(message, str) else dumps(message)
        super().__init__(f"error {self.code}: {self.message}")


class Time:
    """The seconds that discovery counts, and how it waits."""

    def now(self) -> float:
        """Return seconds that never run backwards."""
        return monotonic()

    def wait(self, changed: threading.Condition, seconds: float) -> None:
        """Wait for a notification, or for the seconds to pass; `changed` is locked."""
        changed.wait(min(seconds, threading.TIMEOUT_MAX))

    def wait_until(
        self, changed: threading.Condition, holds: Callable[[], bool], deadline: float
    ) -> bool:
        """Wait until something holds, no longer than to the deadline; return whether it does."""
        with changed:
            while not holds():
                left = deadline - self.now()
                if left <= 0:
                    return False
                self.wait(changed, left)
            return True


class Collector:
    """A started child that is asked.

    Once it was greeted: `protocol` is the version agreed upon, `info`, `capabilities` and
    `instructions` are what the child said of itself, `hints` what a modern one says of keeping its
    lists (see `merged_hints`). `remarks` are oddities worth a warning, without secrets. `changes`
    counts the announcements of changed tools so far.

    If that failed: `handshake` is whether one could succeed in another version, `modern` whether
    the child has shown that it is modern, in whatever version.
    """

    def __init__(self, launch: Launch, declared: Json, time: Time, config: str = "CONFIG") -> None:
        """Start the child; `declared` are the capabilities of this side.

        `config` is what the config is called where a person is told to log in.

        Raises:
            Fault: it cannot be started.
        """
        self.launch = launch
        self.protocol = ""
        self.info: Json = {}
        self.capabilities: Json = {}
        self.instructions: str | None = None
        self.hints: Json = {}
        self.handshake = True
        self.modern = False
        self.remarks: list[str] = []
        self.changes = 0
        self.noise = ""
        """What was on stdout first that was no message, without secrets, or nothing."""
        self._declared = declared
        self._config = config
        self._time = time
        self._about = obj(name='"mcpagg"', version=quote(installed_version("mcpagg")))
        self._changed = threading.Condition()
        """Guards what the threads of the process set: all that follows, and `changes`."""
        self._asked = 0
        """The id of the request in flight, or of the last one."""
        self._answer: Message | None = None
        self._unanswered = ""
        """Why there is no answer to it, though the child is there."""
        self._spoke = False
        self._gone: tuple[str, str] | None = None
        """Why it answers no more, and the end of its stderr."""
        self._seen_changes = 0
        try:
            self._process = self._started()
        except (OSError, ValueError, RuntimeError) as problem:
            raise Fault(launch.redact(f"could not be started: {_why(problem)}")) from None
        try:
            threading.Thread(target=self._process.read, daemon=True).start()
        except RuntimeError as problem:
            self.close()
            raise Fault(f"could not be started: {problem}") from None

    def _started(self) -> Process | RemoteConnection:
        if self.launch.transport == "stdio":
            return Process(self.launch, self._hear, self._ended)
        return RemoteConnection(
            self.launch, self._hear, self._ended, self._fails, agent=AGENT, config=self._config
        )

    # Its end

    def close(self) -> None:
        """End it, and all that is left of its group; returns when that is done."""
        self._process.silence()
        self._process.close()
        self._process.silent.wait(LAST_WORDS_SECONDS)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def give_up(self) -> None:
        """Let whoever asks it wait no longer."""
        self._ended("was given up", "")

    def _ended(self, reason: str, last_words: str) -> None:
        with self._changed:
            self._gone = self._gone or (reason, last_words)
            self._changed.notify_all()

    @property
    def hopeless(self) -> bool:
        """Whether a fresh process would do no better in another version.

        Who exits over a version has spoken before, or says nothing at all, or names on stderr the
        protocol or the method that it expected. Any other child that exits is a broken command, and
        starting it again helps no one; neither does it after a signal.
        """
        if isinstance(self._process, RemoteConnection):
            return self._gone is not None and self.handshake
        status = self._process.popen.returncode
        if self.protocol or status is None:
            return bool(self.protocol)
        words = self._process.last_words().lower()
        named = any(sign in words for sign in ("protocol", DISCOVER))
        return crashed(status) or not (self._spoke or named or not (words or self.noise))

    def fault(self, what: str) -> Fault:
        """Say what is wrong with the child, with the end of its stderr."""
        return Fault(self.launch.redact(what), self._process.last_words())

    def _fails(self, request: int, reason: str) -> None:
        """Take note that a request will not be answered."""
        with self._changed:
            if request == self._asked:
                self._unanswered = reason
                self._changed.notify_all()

    # What it says

    def _hear(self, *lines: bytes, request: int = 0) -> list[int]:
        """Take lines; called by the thread that reads them. Return the requests that they answer.

        `request` is the one that they came in answer to, 0 if that is not known.
        """
        return [number for line in lines for number in self._take(line, request)]

    def _take(self, line: bytes, request: int) -> list[int]:
        messages, oddity = read_line(line, str if self.noise else self.launch.redact, request)
        with self._changed:
            for message in messages:
                if isinstance(message, Fragment):
                    self._unreadable(message)
                elif message.method is None:
                    self._answered(message)
                    if not oddity and message.id is None and not message.is_response:
                        text = self.launch.redact(line.decode("utf-8", "replace"))
                        oddity = repr(text[:SHOWN_CHARACTERS])
                elif message.id is not None:
                    self._send(self._reply(message))
                elif message.method == TOOLS.announcement:
                    self.changes += 1
            self._spoke = self._spoke or bool(messages)
            self.noise = self.noise or self.launch.redact(oddity)
            self._changed.notify_all()
        return answered(messages)

    def _answered(self, message: Message) -> None:
        """Take an answer; without an id, it is to the request in flight."""
        number = minted(message.value("id"))
        if number == self._asked:
            self._answer = message
        elif message.id is None and not number and message.is_response:
            if not message.is_error:
                message = _failed("the answer has no id")
            self._answer = message

    def _unreadable(self, fragment: Fragment) -> None:
        """End what a message that cannot be read was about."""
        if fragment.method:
            if fragment.id is not None:
                refusal = error(PARSE_ERROR, f"Invalid message: {fragment.problem}")
                self._send(failure(id_text(fragment.id), refusal))
        elif fragment.id is None or minted(fragment.id) == self._asked:
            self._answer = _failed(f"the answer cannot be read: {fragment.problem}")

    def _reply(self, message: Message) -> Message:
        """Answer a request of the child, for a user who is not there."""
        number, method = message.raw("id"), message.method
        if method == "ping":
            return result(number, "{}")
        if method == "roots/list" and "roots" in self._declared:
            return result(number, '{"roots":[]}')
        if method == "elicitation/create" and "elicitation" in self._declared:
            return result(number, '{"action":"cancel"}')
        if method == "sampling/createMessage" and "sampling" in self._declared:
            return failure(number, error(USER_REJECTED, "User rejected sampling request"))
        return failure(number, error(METHOD_NOT_FOUND, f"Method not found: {method}"))

    def changed(self, within: float) -> bool:
        """Wait for news of changed tools that were not waited for yet, at most so many seconds."""
        deadline = self._time.now() + within
        self._time.wait_until(
            self._changed, lambda: self.changes > self._seen_changes or bool(self._gone), deadline
        )
        came, self._seen_changes = self.changes > self._seen_changes, self.changes
        return came

    # What it is asked

    def _send(self, message: Message) -> None:
        self._process.send(message)

    def request(self, method: str, params: str, deadline: float) -> Message:
        """Send a request, in an envelope if need be; return the answer, which holds a result.

        Raises:
            Refusal: it holds an error.
            Silence: there is none by then.
            Fault: the child is gone.
        """
        if self.protocol == MODERN_VERSION:
            meta = envelope(dumps(self._declared), self._about, "", "")
            params = edited(params, add={"_meta": meta})
        with self._changed:
            self._asked += 1
            self._answer, self._unanswered = None, ""
            self._send(request(self._asked, method, params))
        answer = self._awaited(method, deadline)
        if not answer.is_error and type(answer.value("result")) is not dict:
            answer = _failed("the result is no JSON object")
        if answer.is_error:
            raise Refusal(answer)
        return answer

    def _awaited(self, method: str, deadline: float) -> Message:
        self._time.wait_until(
            self._changed,
            lambda: bool(self._answer or self._unanswered or self._gone),
            deadline,
        )
        with self._changed:
            if self._answer is not None:
                return self._answer
            if self._gone is None:
                if self._unanswered:
                    raise BadList(f"{self._unanswered}, asked for {method}")
                raise Silence
            reason, last_words = self._gone
        if isinstance(self._process, RemoteConnection):
            status = self._process.refused_with
            # What knows no handshake may refuse the request in a way of its own.
            self.handshake = status not in UNKNOWN_THERE
            raise Fault(reason, status=status)
        raise Fault(f"{reason} before it answered {method}", last_words)

    def greet(self, version: str, deadline: float) -> Fault | None:
        """Agree on `version` as its revision has it; return why that failed, or None.

        Of the versions with a handshake, every known one is accepted as the answer, as the
        specification asks.

        Raises:
            Silence: it has not answered by then.
        """
        try:
            if version == MODERN_VERSION:
                return self._discover(deadline)
            return self._initialize(version, deadline)
        except Fault as fault:
            return fault

    def _initialize(self, version: str, deadline: float) -> Fault | None:
        params = obj(
            protocolVersion=quote(version),
            capabilities=dumps(self._declared),
            clientInfo=self._about,
        )
        try:
            answer = self.request("initialize", params, deadline)
        except Refusal as refusal:
            self.handshake = not knows_no_handshake(refusal.answer)
            self.modern = speaks_modern(refusal.answer)
            return self.fault(f"answered initialize with {refusal}")
        said = loads(answer.raw("result"))
        self.protocol = str(said.get("protocolVersion"))
        if fault := introduction_fault("initialize", said):
            return self.fault(fault)
        if self.protocol not in LEGACY_VERSIONS:
            self.modern = self.protocol == MODERN_VERSION
            self.handshake = not self.modern
            return self._stranger([self.protocol], LEGACY_VERSIONS)
        self.info = _object(said.get("serverInfo"))
        odd = self._introduced("initialize", said)
        if odd is None:
            with self._changed:
                self._send(notification(INITIALIZED))
        return odd

    def _discover(self, deadline: float) -> Fault | None:
        """Ask a child that knows no handshake what it is."""
        self.protocol = MODERN_VERSION
        try:
            answer = self.request(DISCOVER, "{}", deadline)
        except Refusal as refusal:
            self.modern = refusal.code in MODERN_CODES
            if refusal.code == UNSUPPORTED_VERSION:
                data = _object(refusal.answer.value("error")).get("data")
                return self._stranger(_list(_object(data).get("supported")), (MODERN_VERSION,))
            return self.fault(f"answered {DISCOVER} with {refusal}")
        self.modern = True
        said = loads(answer.raw("result"))
        if fault := introduction_fault(DISCOVER, said):
            return self.fault(fault)
        versions = _list(said.get("supportedVersions"))
        if MODERN_VERSION not in versions:
            return self._stranger(versions, (MODERN_VERSION,))
        self.info = _object(_object(said.get("_meta")).get(SERVER_KEY))
        return self._introduced(DISCOVER, said)

    def _introduced(self, method: str, said: Json) -> Fault | None:
        """Take down what the child said of itself; return what is wrong with it, or None."""
        self.capabilities = _object(said.get("capabilities"))
        instructions = said.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else None
        if odd := unreadable([self.info, self.capabilities, self.instructions]):
            return self.fault(f"answered {method} with {odd}, which strict clients refuse")
        return None

    def _stranger(self, versions: list[object], known: tuple[str, ...]) -> Fault:
        """Say that it speaks these versions, and none that is known."""
        if not versions:
            return self.fault("names no protocol version that it speaks")
        what = f"version{'' if len(versions) == 1 else 's'} {', '.join(map(repr, versions))}"
        return self.fault(f"speaks protocol {what}, and not one of {', '.join(known)}")

    # Its lists

    def items(self, kind: Kind, seconds: float) -> list[Json]:
        """Return one list of the child as it gave it, page after page, within so many seconds.

        What the emitted file would leave out is left out, with a remark.

        Raises:
            BadList: it gives none.
            Fault: the child is gone.
        """
        if not kind.is_declared(self.capabilities):
            return []
        listing = Listing(kind, "")
        try:
            self._read(listing, self._time.now() + seconds)
        except Silence:
            raise BadList(f"did not answer {kind.method} within {seconds:g} s") from None
        except Refusal as refusal:
            if refusal.code != METHOD_NOT_FOUND:
                raise BadList(
                    self.launch.redact(f"answered {kind.method} with {refusal}")
                ) from None
            # Many servers have resources and know nothing of templates.
            if kind.name != "templates":
                what = f"declares {kind.capability}, but does not know {kind.method}"
                self.remarks.append(what)
            return []
        except Malformed as problem:
            raise BadList(f"answered {kind.method} with {problem}") from None
        self.remarks += [self.launch.redact(fault) for fault in listing.faults]
        return [loads(item.listed(item.exposed)) for item in listing.items]

    def _read(self, listing: Listing, deadline: float) -> None:
        """Read all pages of a list."""
        while listing.wanted is not None:
            page = self.request(listing.kind.method, listing.wanted, deadline)
            if self.protocol == MODERN_VERSION:
                self.hints = merged_hints(self.hints, page.value("result"))
            listing.take(page.raw("result"))


def merged_hints(hints: Json, page: Json) -> Json:
    """Return how long, and for whom, a client may keep lists: `hints` so far and one result's.

    `ttlMs` is the least of all (milliseconds), `cacheScope` is "private" if any is.
    """
    ttl, scope = page.get("ttlMs"), page.get("cacheScope")
    merged = dict(hints)
    if type(ttl) is int and ttl >= 0:
        merged["ttlMs"] = min(ttl, hints.get("ttlMs", ttl))
    if scope in ("public", "private"):
        merged["cacheScope"] = "private" if "private" in (scope, hints.get("cacheScope")) else scope
    return merged


def _failed(what: str) -> Message:
    return failure("null", error(INTERNAL_ERROR, what))


def _why(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}: {problem.filename!r}"
    return str(problem)


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
