"""What discovery makes of what a child says, without a process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcpagg.passes.discovery import probe_connection
from mcpagg.passes.discovery.installed import Installation
from mcpagg.passes.discovery.probe_connection import (
    LONGEST_INSTALLATION,
    ProbeConnection,
    Refusal,
    ServerFault,
    Silence,
    Time,
)
from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.messages.message import Message


class Timeless(Time):
    """Nothing comes that is not there yet: no waiting."""

    def wait(self, changed: threading.Condition, seconds: float) -> None:
        """Be at the deadline at once."""
        self.passed = True

    def now(self) -> float:
        """Return 0, and an hour more once somebody has waited."""
        return 3600.0 if getattr(self, "passed", False) else 0.0


class Scripted:
    """A process that answers each line that it gets with lines of the test's."""

    answers: tuple[bytes, ...] = ()

    def __init__(
        self, launch: Launch, hear: Callable[..., None], ended: Callable[[str, str], None]
    ) -> None:
        self.hear = hear
        self.ended = ended
        self.sent: list[Any] = []

    def send(self, message: Message) -> None:
        """Take a message, and answer it."""
        self.sent.append(json.loads(message.line()))
        if self.sent[-1].get("method") == "m":
            for answer in self.answers:
                self.hear(self, answer)

    def read_to_end(self) -> None:
        """Nothing comes by itself."""

    def stderr_tail(self, _most: int = 0) -> str:
        """Nothing stands on stderr."""
        return ""


def asked(
    monkeypatch: pytest.MonkeyPatch, *answers: str | bytes
) -> tuple[Callable[[], str], ProbeConnection, Scripted]:
    """Return what asks a child that answers with these lines; the child, and its process."""
    processes = []

    def start(*arguments: Any) -> Scripted:
        processes.append(Scripted(*arguments))
        lines = [line.encode() if isinstance(line, str) else line for line in answers]
        processes[0].answers = tuple(lines)
        return processes[0]

    monkeypatch.setattr(probe_connection, "Process", start)
    monkeypatch.setattr(probe_connection, "spawn", lambda launch: launch)
    monkeypatch.setattr(probe_connection, "TIME", Timeless())
    launch = Launch(["x"], {}, None, {"hidden": "T"}, name="x")
    child = ProbeConnection(launch, "2025-11-25", {"roots": {}})
    return lambda: child.request("m", "{}", 1.0).raw("result"), child, processes[0]


def test_what_it_wrote_to_stdout_before_it_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, _, process = asked(monkeypatch)
    process.hear(process, b"Usage: you need a token")
    process.ended("exited with status 0", "")
    with pytest.raises(ServerFault, match=r"m; it wrote something else .* stdout: .Usage"):
        ask()


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":1,"result":{ "a":1.0 }}',
        '{"jsonrpc":"2.0","id":"1","result":{ "a":1.0 }}\r',
        '[{"method":"n"},{"vendor":1,"result":{ "a":1.0 },"id":1,"error":null}]',
    ],
)
def test_an_answer_is_read_in_any_form(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    ask, child, _ = asked(monkeypatch, '{"id":7,"result":{}}', line)
    assert ask() == '{ "a":1.0 }'
    assert child.server.noise == ""


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"jsonrpc":"2.0","id":1,"result":{"tools":[', "gave an answer that cannot be read: "),
        ('{"jsonrpc":"2.0","id":', "gave an answer that cannot be read: "),
        (
            '{"jsonrpc":"2.0","result":{}}',
            "gave an answer without the id of a request, asked for m",
        ),
        (
            '{"jsonrpc":"2.0","id":true,"result":{}}',
            "gave an answer without the id of a request, asked for m",
        ),
        (
            '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}',
            "answered m with error 1: no",
        ),
        (
            '{"id":1,"error":{"code":-32602,"message":"no","data":[1]},"result":{}}',
            "answered m with error -32602: no",
        ),
        ('{"id":1,"error":{"code":-32602,"message":null}}', "answered m with error -32602: null"),
        (
            '{"id":1,"error":{"code":"E1","message":"no"}}',
            'answered m with error -32603: {"code": "E1", "message": "no"}',
        ),
        ('{"id":1,"error":"broken"}', "answered m with error -32603: broken"),
    ],
)
def test_what_is_no_result_ends_the_request(
    monkeypatch: pytest.MonkeyPatch, line: str, what: str
) -> None:
    ask, _, _ = asked(monkeypatch, line)
    with pytest.raises(Refusal) as caught:
        ask()
    assert str(caught.value).startswith(what)


@pytest.mark.parametrize(
    ("line", "noise"),
    [
        ("Server started", '"Server started"'),
        ("hidden", '"${T}"'),
        ("-" * 57 + "hidden", '"' + "-" * 57 + "${T"),
        ('{"x":"' + "-" * 51 + "hidden" + '"}', '\'{"x":"' + "-" * 51 + "${T"),
        ("{}", "'{}'"),
        ('{"level":"info","result":"up"}', '\'{"level":"info","result":"up"}\''),
        ("", ""),
        ("[]", ""),
    ],
)
def test_a_line_without_a_message_is_odd(
    monkeypatch: pytest.MonkeyPatch, line: str, noise: str
) -> None:
    ask, child, _ = asked(monkeypatch, line, "more")
    with pytest.raises(Silence):
        ask()
    assert child.server.noise.startswith(noise or '"more"')


def test_requests_of_the_child_are_answered_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = ["ping", "roots/list", "elicitation/create", "sampling/createMessage"]
    lines = [json.dumps({"id": f"x{n}", "method": name}) for n, name in enumerate(methods)]
    broken = '{"jsonrpc":"2.0","id":"x4","method":"ping","params":{'
    ask, _, process = asked(monkeypatch, *lines, broken, '{"id":1,"result":{}}')
    ask()
    answers = {row["id"]: row for row in process.sent[1:]}
    assert [answers[f"x{n}"].get("result") for n in range(2)] == [{}, {"roots": []}]
    codes = [answers[f"x{n}"]["error"]["code"] for n in range(2, 5)]
    assert codes == [-32601, -32601, -32700]


def test_a_child_that_is_given_up_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, child, _ = asked(monkeypatch)
    child.end("was given up")
    with pytest.raises(ServerFault, match="was given up before it answered m"):
        ask()


class Moving(Time):
    """A clock that nobody waits for: each waiting takes it to its deadline."""

    seconds = 0.0

    def now(self) -> float:
        """Return the seconds that were waited for."""
        return self.seconds

    def wait_until(
        self, changed: threading.Condition, holds: Callable[[], bool], deadline: float
    ) -> bool:
        """Be at the deadline."""
        self.seconds = max(self.seconds, deadline)
        return holds()


class Installing(Installation):
    """An installation that has news as often as a test says."""

    def __init__(self, *news: float) -> None:
        self.news = [*news]

    def more(self, seconds: float) -> float:
        """Return what comes next."""
        return self.news.pop(0) if self.news else 0.0


def test_what_is_being_installed_is_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    _, child, _ = asked(monkeypatch)
    time = Moving()
    monkeypatch.setattr(probe_connection, "TIME", time)
    child.server.installation = Installing(20.0, 20.0, 3.0)
    with pytest.raises(Silence):
        child.request("n", "{}", 10.0)
    assert time.seconds == 10 + 20 + 20 + 3
    assert child.was_installed
    child.server.installation = None
    with pytest.raises(Silence):
        child.request("n", "{}", time.seconds + 10.0)
    assert time.seconds == 63


def test_no_installation_is_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    _, child, _ = asked(monkeypatch)
    time = Moving()
    monkeypatch.setattr(probe_connection, "TIME", time)
    child.server.installation = Installing(*[20.0] * 1000)
    with pytest.raises(Silence):
        child.request("n", "{}", 10.0)
    assert time.seconds <= 10 * LONGEST_INSTALLATION + 20
