"""The connection of discovery to a server: one request at a time, each waited for.

The process, the connection, the ports of both eras and what ends a request are those of the emitted
file. What differs is who is behind the port: one that waits, and can be asked nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from mcpagg import __version__
from mcpagg.jsontext import dumps
from mcpagg.options import Options
from mcpagg.passes.discovery.installed import Installation, version_that_runs
from mcpagg.passes.environment.programs import Package
from mcpagg.snapshot import Json
from mcpagg_runtime.clients.speakers import Speakers
from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.lists.catalogue import TOOLS
from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import Fragment, Message, error, failure, result
from mcpagg_runtime.messages.odd_lines import SHOWN_CHARACTERS
from mcpagg_runtime.messages.printable import printable
from mcpagg_runtime.messages.protocol import (
    CLIENT_METHODS,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
)
from mcpagg_runtime.modern.child import ModernChildPort
from mcpagg_runtime.plan import plan
from mcpagg_runtime.processes.process import PIPE_GRACE_SECONDS, STDERR_TAIL_LINES, Process
from mcpagg_runtime.processes.reasons import has_crashed
from mcpagg_runtime.processes.spawning import spawn
from mcpagg_runtime.remote.transport import RemoteConnection
from mcpagg_runtime.servers.connection import Connection
from mcpagg_runtime.servers.effects import FOREVER, SEND, Effects
from mcpagg_runtime.start.values import quote

AGENT = f"mcpagg/{__version__}"
ABOUT = obj(name='"mcpagg"', version=quote(__version__))
ALL_LINES = 1000
LONGEST_INSTALLATION = 10
"""How many times as long as a start an installation may take."""
# What is answered for a user who is not there; that of sampling is the specification's for one who
# declines (client/sampling).
RESULTS = {"ping": "{}", "roots/list": '{"roots":[]}', "elicitation/create": '{"action":"cancel"}'}
REJECTED = error(-1, "User rejected sampling request")


class ServerFault(Exception):
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


class BadList(ServerFault):
    """Raised when a child answers with no list; nothing else is wrong."""


class Silence(Exception):
    """Raised when an answer takes too long."""


class Refusal(Exception):
    """Raised when a request ends with an error; the text completes "server 'x' …"."""

    def __init__(self, server: str, method: str, answer: Message) -> None:
        value = answer.value("error")
        shaped = isinstance(value, dict) and type(value.get("code")) is int
        self.answer = answer
        self.code: int = value["code"] if shaped else INTERNAL_ERROR
        message = value.get("message") if shaped else value
        text = message if isinstance(message, str) else dumps(message)
        what = f"answered {method} with error {self.code}: {text}"
        ours = f"Server '{server}' "
        if text.startswith(ours):  # so the runtime says that an answer is of no use, or none comes
            what = f"{text.removeprefix(ours)}, asked for {method}"
        super().__init__(what)


class Time:
    """The clock of discovery, and how it waits."""

    def now(self) -> float:
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


TIME = Time()


class StartedServer:
    """A started server, and what is known of it outside of the protocol.

    `noise` is the first text that was no message, without secrets, "" for none; `spoke` is whether
    it has sent a message; `installation` is what its launcher does before it runs, if known.
    """

    def __init__(
        self,
        launch: Launch,
        process: Process | RemoteConnection,
        package: Package | None,
        quoted: int,
    ) -> None:
        """See `ProbeConnection`."""
        self.launch = launch
        self.noise = ""
        self.spoke = False
        self.installation: Installation | None = None
        self.process = process
        self._package = package
        self._quoted = quoted
        if package is not None and not isinstance(process, RemoteConnection):
            self.installation = Installation(package, process.handle.pid, process.stderr_tail)

    def close(self) -> None:
        """End it, and all processes of its group; return when that is done."""
        self.process.suppress_report()
        self.process.close()
        self.process.stderr_ended.wait(PIPE_GRACE_SECONDS)

    @property
    def is_over(self) -> bool:
        return self.process.gone.is_set()

    @property
    def is_broken(self) -> bool:
        """Whether its process has exited, and for another reason than the version it was asked.

        Who exits over a version has spoken before, or says nothing at all, or names on stderr the
        protocol or the method that it expected. Any other one that exits is a broken command, and
        starting it again helps no one; neither does it after a signal.
        """
        if isinstance(self.process, RemoteConnection):
            return False
        status = self.process.handle.returncode
        if status is None:
            return False
        words = self.process.stderr_tail(ALL_LINES).lower()
        named = "protocol" in words or "server/discover" in words
        return has_crashed(status) or not (self.spoke or named or not (words or self.noise))

    def version_that_runs(self) -> str:
        """Return the version of the package that runs, "" if it is unknown or in the command."""
        package = self._package
        if package is None or package.is_exact or isinstance(self.process, RemoteConnection):
            return ""
        return version_that_runs(package, self.launch, self.process.handle.pid)

    def last_line(self) -> str:
        """Return the last line of its stderr, or else what it seems to be doing."""
        words = self.process.stderr_tail(ALL_LINES).rpartition("\n")[2]
        if not words and self.installation and self.installation.is_under_way():
            return f"{self.installation.package.launcher.words[0]} is installing it"
        return words

    # What is wrong with it

    def fault(self, what: str, *, is_late: bool = False) -> ServerFault:
        """Say what is wrong with it, with the end of its stderr."""
        words = self.process.stderr_tail(self._quoted)
        return ServerFault(self.launch.redact(what), words, is_late=is_late)

    def end_fault(self, reason: str, method: str) -> ServerFault:
        """Say that it ended, and why, before it answered a method."""
        if isinstance(self.process, RemoteConnection):
            return ServerFault(reason, status=self.process.refusal_status)
        noise = f"; it wrote something else than JSON-RPC to stdout: {self.noise}"
        return self.fault(f"{reason} before it answered {method}{noise if self.noise else ''}")

    def silence_fault(self, method: str, seconds: float) -> ServerFault:
        """Say that it did not answer the handshake in time, and why that may be."""
        what, why = f"did not answer {method} within {seconds:g} s", ""
        if isinstance(self.process, RemoteConnection):
            what += self.process.silence_detail
            why = "is it an MCP server that is there, and does what is before it hold answers back?"
        elif self.installation is None:
            why = "is it still installing, or does it buffer its output?"
        elif self.installation.is_under_way():
            why = f"{self.installation.package.launcher.words[0]} is still installing it"
        else:
            why = "it is installed: does it take longer, or buffer its output?"
        noise = f", but {self.noise_remark()}" if self.noise else ""
        return self.fault(f"{what}{noise} ({why})", is_late=True)

    def noise_remark(self) -> str:
        """Say what it writes that is no message; a remote server has no stdout."""
        where = "" if self.launch.url else " to stdout"
        return f"writes something else than JSON-RPC{where}: {self.noise}"


class ProbeConnection:
    """The connection to a server in one version of the protocol, and the request in flight.

    `greeting` is the method that opens the conversation. `gone` is why the server answers no more,
    "" while it may. `changes` counts the announcements of changed tools so far.
    """

    def __init__(
        self,
        launch: Launch,
        version: str,
        declared: Json,
        config: str = "CONFIG",
        *,
        package: Package | None = None,
        quoted: int = STDERR_TAIL_LINES,
    ) -> None:
        """Start the server, for a client that has `declared` these capabilities.

        `config` is what the config is called where a person is asked to log in. `package` is what
        its launcher fetches, if it is one. `quoted` is how many lines of stderr a fault quotes.

        Raises:
            ServerFault: it cannot be started.
        """
        self.name = launch.name
        self.version = version
        self.is_modern = version == MODERN_VERSION
        self.greeting = "server/discover" if self.is_modern else "initialize"
        self.declared = declared
        self.was_installed = False
        """Whether it was waited for longer, since it was being installed."""
        self._began = TIME.now()
        self._changed = threading.Condition()
        """Guards what the threads of the process set: all that follows."""
        self.changes = self._seen_changes = 0
        self.gone = ""
        self._effects = Effects(TIME.now)
        options = plan.Options(Options().runtime())
        self.connection = Connection(self, self, {}, options, self._effects)
        if self.is_modern:
            unnamed = Speakers(named=False, several=False)
            self.connection.open(ModernChildPort(self.connection, ABOUT, unnamed), None)
        process: Process | RemoteConnection | None = None
        try:
            process = self._process(launch, config)
            self.server = StartedServer(launch, process, package, quoted)
            threading.Thread(target=process.read_to_end, daemon=True).start()
        except (OSError, ValueError, RuntimeError) as problem:
            if process is not None:
                process.close()
            raise ServerFault(launch.redact(f"could not be started: {_why(problem)}")) from None

    def _process(self, launch: Launch, config: str) -> Process | RemoteConnection:
        def receive(_process: Process, *lines: bytes) -> None:
            for line in lines:
                self._take(line, 0)

        def ended(reason: str, _last_words: str) -> None:
            self.end(reason)

        if launch.transport == "stdio":
            return Process(spawn(launch), receive, ended)
        return RemoteConnection(launch, self._take, ended, self._fail, agent=AGENT, config=config)

    # What it says

    def _take(self, line: bytes, request: int) -> list[Message | Fragment]:
        """Take a line; return what it holds."""
        server, redact = self.server, self.server.launch.redact
        messages, oddity = self.connection.read(line, redact, request)
        for message in messages:
            if message.method is None and message.id is None and not message.is_response:
                text = redact(line.decode("utf-8", "replace"))  # some log JSON
                oddity = oddity or repr(text[:SHOWN_CHARACTERS])
        with self._changed:
            self.connection.warn(oddity)
            server.noise = server.noise or redact(oddity)
            server.spoke = server.spoke or bool(messages)
            for message in messages:
                self._deliver(message)
        return messages

    def _fail(self, request: int, reason: str) -> None:
        with self._changed:
            self._deliver(failure(str(request), self.connection.gone(reason)))

    def _deliver(self, message: Message | Fragment) -> None:
        self.connection.port.receive(message)
        self._perform()
        self._changed.notify_all()

    def end(self, reason: str) -> None:
        """Note why no answer comes any more, so that nobody waits for one."""
        with self._changed:
            self.gone = self.gone or reason
            self._changed.notify_all()

    # The events of its port; see `ChildEvents`

    def answered(self, number: int, message: Message) -> None:
        """It has answered a request."""
        self.connection.answered(number, message)

    def asks(self, _client: object, message: Message) -> None:
        """It asks for something."""
        self.connection.send(self._reply(message))

    def notifies(self, message: Message) -> None:
        """It announces a change, or says something that nobody waits for."""
        if message.method == TOOLS.announcement:
            self.changes += 1

    def _reply(self, message: Message) -> Message:
        """Answer its request, for a user who is not there."""
        number, method = message.id_text, message.method or ""
        if method != "ping" and CLIENT_METHODS.get(method) not in self.declared:
            return failure(number, error(METHOD_NOT_FOUND, f"Method not found: {method}"))
        return result(number, RESULTS[method]) if method in RESULTS else failure(number, REJECTED)

    def changed(self, within: float) -> bool:
        """Wait for a new announcement of changed tools, at most `within` seconds."""
        deadline = TIME.now() + within
        TIME.wait_until(
            self._changed, lambda: self.changes > self._seen_changes or bool(self.gone), deadline
        )
        came, self._seen_changes = self.changes > self._seen_changes, self.changes
        return came

    # What it is asked

    def notify(self, message: Message) -> None:
        """Send a notification."""
        with self._changed:
            self.connection.send(message)
            self._perform()

    def _perform(self) -> None:
        """Send the queued messages; discovery reports nothing else of the runtime's effects."""
        self._effects.settle()
        actions, self._effects.actions = self._effects.actions, []
        for kind, _, message in actions:
            if kind is SEND:
                self.server.process.send(message)

    def request(self, method: str, params: str, deadline: float) -> Message:
        """Send a request; return the answer, which holds a result.

        Raises:
            Refusal: it holds an error.
            Silence: there is none by then.
            ServerFault: the server is gone.
        """
        answers: list[Message] = []
        with self._changed:
            if method == "initialize":
                self.connection.port.introduce(params, answers.append)
            else:
                self.connection.ask(method, params, answers.append, deadline=FOREVER)
            self._perform()
        self._wait(lambda: bool(answers or self.gone), deadline)
        asked = self.greeting if method == "initialize" else method
        with self._changed:
            self.connection.own.clear()  # it may come yet
            if answers and answers[0].is_error:
                raise Refusal(self.name, asked, answers[0])
            if answers:
                return answers[0]
            if self.gone:
                raise self.server.end_fault(self.gone, asked)
            raise Silence

    def _wait(self, holds: Callable[[], bool], deadline: float) -> None:
        """Wait until something holds; longer while the server is being installed."""
        installation, seconds = self.server.installation, deadline - TIME.now()
        while not TIME.wait_until(self._changed, holds, deadline):
            more = installation.more(seconds) if installation else 0.0
            if not more or TIME.now() - self._began > LONGEST_INSTALLATION * seconds:
                return
            self.was_installed = True
            deadline = TIME.now() + more


def _why(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}: {problem.filename!r}"
    return str(problem)
