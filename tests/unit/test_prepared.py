"""The prepared answers: what the runtime would answer, and nothing where it would think first."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from core import Json
from goldens import GOLDEN, cases, emitted

from mcpagg_runtime.clients.answers import Answers, answer_line
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.messages.message import Message
from mcpagg_runtime.plan.plan import Plan
from mcpagg_runtime.start import main, waiting
from mcpagg_runtime.start.greeting import REFUSE_COLON
from mcpagg_runtime.start.handover import Handover
from mcpagg_runtime.start.main import StaticAnswers

LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list")


@cache
def program(case: Path, **options: Any) -> CodeType:
    """Return the program that is emitted for a golden case."""
    return compile(emitted(case, **options), "server.py", "exec")


def tables_of(case: Path, **options: Any) -> Json:
    """Return the tables of an emitted golden case."""
    space: Json = {"__name__": "server", "__file__": "server.py"}
    exec(program(case, **options), space)  # noqa: S102
    tables: Json = space["PLAN"]
    return tables


def line(method: str, identifier: Any = 1, **more: Any) -> bytes:
    """Return the line of a request."""
    return json.dumps({"jsonrpc": "2.0", "id": identifier, "method": method, **more}).encode()


def hello(name: str = "test", version: str = "2025-06-18", **capabilities: Any) -> bytes:
    """Return the line of a handshake."""
    info = {"name": name, "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
    return line("initialize", "é", params=params)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
@pytest.mark.parametrize("names", ["auto", "portable"])
@pytest.mark.parametrize("client", ["test", *REFUSE_COLON])
@pytest.mark.parametrize("able", [{}, {"roots": {}}, {"extensions": {}}, {"sampling": None}])
def test_a_prepared_answer_is_that_of_the_runtime(
    case: Path, names: str, client: str, able: Json
) -> None:
    tables = tables_of(case, names=names)
    prepared = StaticAnswers(tables, Handover())
    answers, known = Answers(Plan(tables)), Client(names)
    lines = [hello(client, **able), line("ping", 7), *(line(method, params={}) for method in LISTS)]
    given = [prepared.answer(each) for each in lines]
    for each, answer in zip(lines, given, strict=True):
        expected = answer_line(answers, known, each)
        if answer is not None:
            assert isinstance(expected, Message)
            assert json.loads(answer) == json.loads(expected.line())
            assert answer.count(b"\n") == 1
    assert [answer is not None for answer in given] == [
        True,
        True,
        *(f'"{method}"' in tables["lists"] for method in LISTS),
    ]
    if case.name != "modern":
        assert '"tools/list"' in tables["lists"]


@pytest.mark.parametrize("version", ["2024-11-05", "2099-01-01", 5, None])
def test_the_handshake_is_answered_in_a_revision_that_is_known(version: Any) -> None:
    tables = tables_of(GOLDEN / "plain")
    answer = StaticAnswers(tables, Handover()).answer(hello(version=version))
    expected = answer_line(Answers(Plan(tables)), Client("auto"), hello(version=version))
    assert answer is not None
    assert isinstance(expected, Message)
    assert json.loads(answer) == json.loads(expected.line())


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        line("tools/list") + b"x",
        b"[" + line("tools/list") + b"]",
        line("tools/call", params={"name": "x"}),
        line("nonsense"),
        line("skills/list"),
        line("server/discover"),
        line("tools/list", params={"cursor": "x"}),
        line("tools/list", params={"_meta": {}}),
        line("tools/list", params=None),
        line("ping", params=[]),
        line("ping", 1.5),
        line("ping", True),
        line("ping", None),
        line("notifications/initialized"),
        json.dumps({"method": ["tools/list"], "id": 1}).encode(),
        b'{"method":"ping"}',
        b'{"id":1,"result":{}}',
        b'{"method":"ping","id":' + b"9" * 5000 + b"}",
    ],
)
def test_what_has_no_prepared_answer_is_left(said: bytes) -> None:
    prepared = StaticAnswers(tables_of(GOLDEN / "plain"), Handover())
    assert prepared.answer(said) is None
    assert (prepared.handover.initialize_line, prepared.handover.initialized) == (b"", False)


def test_what_the_client_has_said_is_kept() -> None:
    prepared = StaticAnswers(tables_of(GOLDEN / "plain"), Handover())
    prepared.answer(hello())
    assert prepared.handover.initialize_line == hello()
    assert prepared.answer(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\r') == b""
    assert prepared.handover.initialized


def test_the_version_changes_with_what_a_server_offers_and_not_with_the_rest() -> None:
    tables = tables_of(GOLDEN / "plain")
    version = Plan(tables).version
    assert len(version) == 12
    assert Plan(tables_of(GOLDEN / "plain", names="portable")).version == version
    assert Plan(tables_of(GOLDEN / "composite")).version != version


def test_windows_ignores_the_case_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "POSIX", False)
    monkeypatch.setattr(main, "environ", {"AppData": "x"})
    assert main.is_set("appdata")
    assert not main.is_set("app")


class Pipe:
    """Standard input as Windows shows it: how much is in it at each look, or what is wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: int | OSError) -> None:
        self.looks = [*looks]
        system = ModuleType("_winapi")
        system.PeekNamedPipe = self.peek  # type: ignore[attr-defined]
        library = ModuleType("msvcrt")
        library.get_osfhandle = lambda descriptor: descriptor  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "_winapi", system)
        monkeypatch.setitem(sys.modules, "msvcrt", library)

    def peek(self, handle: int) -> tuple[int, int]:
        """Look into it."""
        assert handle == 0
        look = self.looks.pop(0)
        if isinstance(look, OSError):
            raise look
        return look, 0


@pytest.mark.parametrize(
    ("looks", "seconds", "says"),
    [
        ((5,), 0.0, True),
        ((0, 0, 5), 60.0, True),
        ((0,), 0.0, False),
        ((0, BrokenPipeError()), 60.0, True),
        ((OSError(),), 60.0, False),
    ],
)
def test_windows_looks_into_the_pipe_for_as_long_as_a_client_has(
    monkeypatch: pytest.MonkeyPatch, looks: tuple[int | OSError, ...], seconds: float, says: bool
) -> None:
    pipe = Pipe(monkeypatch, *looks)
    assert waiting.pipe_has_input(seconds) is says
    assert pipe.looks == []
