"""One life of a server, as discovery speaks with it: one request at a time, each waited for.

The process, the lines and what counts as a message are those of the emitted file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from mcpagg import __version__
from mcpagg.installed import Installation, version_that_runs
from mcpagg.jsontext import dumps
from mcpagg.programs import Package
from mcpagg.snapshot import Json
from mcpagg_runtime.base.catalogue import TOOLS
from mcpagg_runtime.base.message import Fragment, Message, error, failure, id_text, request, result
from mcpagg_runtime.base.protocol import INTERNAL_ERROR, METHOD_NOT_FOUND, PARSE_ERROR
from mcpagg_runtime.rare.odd_lines import SHOWN_CHARACTERS
from mcpagg_runtime.rare.reasons import crashed
from mcpagg_runtime.rare.secrecy import printable
from mcpagg_runtime.remote.transport import RemoteConnection
from mcpagg_runtime.serve.messages import answered, read_line
from mcpagg_runtime.serve.process import LAST_WORDS_LINES, LAST_WORDS_SECONDS, Process
from mcpagg_runtime.serve.unmatched import FIRST_ID, AnsweredNotifications, wrong_id
from mcpagg_runtime.spawn.launch import Launch
from mcpagg_runtime.spawn.spawning import spawn

DISCOVER = "server/discover"
AGENT = f"mcpagg/{__version__}"
ALL_LINES = 1000
LONGEST_INSTALLATION = 10
"""So many times as long as a start may take by itself."""
USER_REJECTED = -1  # specification, client/sampling: what a client answers when the user declines
# What a server may name on stderr that exits over the version, or the method, that it was asked.
VERSION_WORDS = ("protocol", DISCOVER)


class Fault(Exception):
    """Raised when a child cannot be started or spoken with.

    `what` completes "server 'x' …"; the text as a whole also quotes the end of the child's stderr,
    on lines of their own. Neither holds a secret.
    """

    def __init__(
        self, what: str, last_words: str = "", status: int = 0, *, is_late: bool = False
    ) -> None:
        """`last_words` are the lines to quote; `status` is that of HTTP which it is about.

        `is_late`: with more time, it might not have come to this.
        """
        self.status = status
        self.is_late = is_late
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


class Conversation:
    """A started server, and the request that it is asked.

    `declared` are the capabilities of this side. `changes` counts the announcements of changed
    tools so far. `noise` is what came first that was no message, without secrets, or nothing.
    """

    def __init__(
        self,
        launch: Launch,
        declared: Json,
        time: Time,
        config: str = "CONFIG",
        *,
        package: Package | None = None,
        quoted: int = LAST_WORDS_LINES,
    ) -> None:
        """Start the server.

        `config` is what the config is called where a person is asked to log in. `package` is what
        its launcher fetches, if it is one. Of its stderr so many lines are `quoted`.

        Raises:
            Fault: it cannot be started.
        """
        self.launch = launch
        self.declared = declared
        self.changes = 0
        self.noise = ""
        self._config = config
        self._time = time
        self._quoted = quoted
        self._package = package
        self._began = time.now()
        self._changed = threading.Condition()
        """Guards what the threads of the process set: all that follows, and `changes`."""
        self._asked = 0
        """The id of the request in flight, or of the last one."""
        self._answer: Message | None = None
        self._unasked = AnsweredNotifications()
        self._unanswered = ""
        """Why there is no answer to it, though the server is there."""
        self._spoke = False
        self._gone: str | None = None
        """Why it answers no more."""
        self._seen_changes = 0
        try:
            self._process = self._started()
        except (OSError, ValueError, RuntimeError) as problem:
            raise Fault(launch.redact(f"could not be started: {_why(problem)}")) from None
        self.installation = self._installing(package)
        self.was_installed = False
        """Whether it was waited for longer, since it was being installed."""
        try:
            threading.Thread(target=self._process.read, daemon=True).start()
        except RuntimeError as problem:
            self.close()
            raise Fault(f"could not be started: {problem}") from None

    def _started(self) -> Process | RemoteConnection:
        if self.launch.transport == "stdio":
            return Process(spawn(self.launch), self._receive, self._ended)
        return RemoteConnection(
            self.launch, self._take, self._ended, self._fails, agent=AGENT, config=self._config
        )

    def _installing(self, package: Package | None) -> Installation | None:
        if package is None or isinstance(self._process, RemoteConnection):
            return None
        return Installation(package, self._process.handle.pid, self._process.last_words)

    def version_that_runs(self) -> str:
        """Return the version of the package that runs, "" if nobody knows, or its command says."""
        package = self._package
        if package is None or package.is_exact or isinstance(self._process, RemoteConnection):
            return ""
        return version_that_runs(package, self.launch, self._process.handle.pid)

    def last_line(self) -> str:
        """Return what it has said last, or else what it seems to be doing."""
        words = self._process.last_words(ALL_LINES).rpartition("\n")[2]
        if not words and self.installation and self.installation.is_under_way():
            return f"{self.installation.package.launcher.words[0]} is installing it"
        return words

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

    def _ended(self, reason: str, _last_words: str) -> None:
        with self._changed:
            self._gone = self._gone or reason
            self._changed.notify_all()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended."""
        return self._gone is not None

    @property
    def is_broken(self) -> bool:
        """Whether its process has exited, and for another reason than the version it was asked.

        Who exits over a version has spoken before, or says nothing at all, or names on stderr the
        protocol or the method that it expected. Any other one that exits is a broken command, and
        starting it again helps no one; neither does it after a signal.
        """
        if isinstance(self._process, RemoteConnection):
            return False
        status = self._process.handle.returncode
        if status is None:
            return False
        words = self._process.last_words(ALL_LINES).lower()
        named = any(sign in words for sign in VERSION_WORDS)
        return crashed(status) or not (self._spoke or named or not (words or self.noise))

    def fault(self, what: str, *, is_late: bool = False) -> Fault:
        """Say what is wrong with the child, with the end of its stderr."""
        words = self._process.last_words(self._quoted)
        return Fault(self.launch.redact(what), words, is_late=is_late)

    @property
    def silence_told(self) -> str:
        """What there is to say of a server behind a URL that does not answer."""
        process = self._process
        return process.silence_told if isinstance(process, RemoteConnection) else ""

    def told_noise(self) -> str:
        """Say what it writes that is no message; a server behind a URL has no stdout."""
        where = "" if self.launch.url else " to stdout"
        return f"writes something else than JSON-RPC{where}: {self.noise}"

    def _fails(self, request: int, reason: str) -> None:
        """Take note that a request will not be answered."""
        with self._changed:
            if request == self._asked:
                self._unanswered = reason
                self._changed.notify_all()

    # What it says

    def _receive(self, *lines: bytes) -> None:
        """Take lines; called by the thread that reads them."""
        for line in lines:
            self._take(line, 0)

    def _take(self, line: bytes, request: int) -> list[int]:
        """Take a line; return the ids of the requests that it answers.

        `request` is the one that it came in answer to, 0 if that is not known.
        """
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
        """Take an answer; without an id that was ever asked, it is to the request in flight."""
        number = message.number
        if number == self._asked:
            self._unasked.settled()
            self._answer = message
        elif message.is_response and number < FIRST_ID:
            if self._unasked.takes(message):
                return
            if not message.is_error:
                message = _failed(f"the answer came {wrong_id(message)}")
            self._answer = message

    def _unreadable(self, fragment: Fragment) -> None:
        """End what a message that cannot be read was about."""
        if fragment.method:
            if fragment.id is not None:
                refusal = error(PARSE_ERROR, f"Invalid message: {fragment.problem}")
                self._send(failure(id_text(fragment.id), refusal))
        elif fragment.id is None or fragment.number == self._asked:
            self._answer = _failed(f"the answer cannot be read: {fragment.problem}")

    def _reply(self, message: Message) -> Message:
        """Answer a request of the child, for a user who is not there."""
        number, method = message.id_text, message.method
        if method == "ping":
            return result(number, "{}")
        if method == "roots/list" and "roots" in self.declared:
            return result(number, '{"roots":[]}')
        if method == "elicitation/create" and "elicitation" in self.declared:
            return result(number, '{"action":"cancel"}')
        if method == "sampling/createMessage" and "sampling" in self.declared:
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

    def notify(self, message: Message) -> None:
        """Send what has no answer."""
        with self._changed:
            self._unasked.told(message.method)
            self._send(message)

    def _send(self, message: Message) -> None:
        self._process.send(message)

    def request(self, method: str, params: str, deadline: float) -> Message:
        """Send a request; return the answer, which holds a result.

        Raises:
            Refusal: it holds an error.
            Silence: there is none by then.
            Fault: the child is gone.
        """
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
        self._wait(deadline)
        with self._changed:
            if self._answer is not None:
                return self._answer
            if self._gone is None:
                if self._unanswered:
                    raise BadList(f"{self._unanswered}, asked for {method}")
                raise Silence
            reason = self._gone
        if isinstance(self._process, RemoteConnection):
            raise Fault(reason, status=self._process.refused_with)
        noise = f"; it wrote something else than JSON-RPC to stdout: {self.noise}"
        what = f"{reason} before it answered {method}{noise if self.noise else ''}"
        raise Fault(what, self._process.last_words(self._quoted))

    def _wait(self, deadline: float) -> None:
        """Wait for an answer, or for why there is none; longer while it is being installed."""
        seconds = deadline - self._time.now()
        while not self._time.wait_until(
            self._changed,
            lambda: bool(self._answer or self._unanswered or self._gone),
            deadline,
        ):
            more = self.installation.more(seconds) if self.installation else 0.0
            if not more or self._time.now() - self._began > LONGEST_INSTALLATION * seconds:
                return
            self.was_installed = True
            deadline = self._time.now() + more


def _failed(what: str) -> Message:
    return failure("null", error(INTERNAL_ERROR, what))


def _why(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}: {problem.filename!r}"
    return str(problem)
