"""The log of calls: one line each, whatever becomes of it; never what it says or gets."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
from core import World, call, enveloped, failure, notification, request, result
from opentelemetry import trace

from mcpagg_runtime.stdio.call_log import Log, LoggedDispatch, Spans, new_spans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Logged:
    """A world whose calls are logged."""

    def __init__(self, spans: Spans | None = None, **choices: Any) -> None:
        self.lines: list[dict[str, Any]] = []

        def dispatching(children: Any) -> LoggedDispatch:
            return LoggedDispatch(children, lambda line: self.lines.append(json.loads(line)), spans)

        self.world = World({"db": ["query"]}, dispatching=dispatching, **choices)

    def told(self) -> list[dict[str, Any]]:
        """Return the lines since this was last asked, less the times, which are none of ours."""
        lines, self.lines[:] = [*self.lines], []
        for line in lines:
            assert line.pop("time") > 1.7e9
            assert line.pop("ms") >= 0
        return lines


@pytest.fixture
def logged() -> Logged:
    """Return a world without spans."""
    return Logged()


QUERY = {"client": "test", "server": "db", "method": "tools/call", "name": "db:query"}


def test_an_answer_is_logged_with_its_size_and_without_what_it_says(logged: Logged) -> None:
    world = logged.world
    client, db = world.client(), world.up("db")
    values: list[dict[str, Any]] = [{"content": []}, {"content": [], "isError": True}]
    for value in values:
        world.say(client, call(1, "db:query", {"sql": "SECRET"}))
        world.say(db, result(world.received(db)[0]["id"], value))
    sizes = [len(line) + 1 for line in world.lines(client)]
    assert logged.told() == [
        {**QUERY, "bytes": sizes[0], "outcome": "ok"},
        {**QUERY, "bytes": sizes[1], "outcome": "tool_error"},
    ]


def test_an_error_is_logged_with_its_code_alone(logged: Logged) -> None:
    world = logged.world
    client, db = world.client(), world.up("db")
    world.say(client, call(1, "db:query"))
    world.say(db, failure(world.received(db)[0]["id"], -32000, "SECRET"))
    world.say(client, call(2, "db:query"))
    world.down("db")
    lines = logged.told()
    assert [(line["outcome"], line["code"]) for line in lines] == [
        ("error", -32000),
        ("error", -32603),
    ]
    assert "SECRET" not in str(lines)


def test_a_call_that_is_withdrawn_is_logged_once(logged: Logged) -> None:
    world = logged.world
    client, db = world.client(), world.up("db")
    world.say(client, call(1, "db:query"))
    [sent] = world.received(db)
    world.say(client, notification("notifications/cancelled", {"requestId": 1}))
    world.say(db, result(sent["id"], {}))
    world.say(client, call(2, "db:query"))
    world.leave(client)
    cancelled = {**QUERY, "bytes": 0, "outcome": "cancelled"}
    assert logged.told() == [cancelled, cancelled]


def test_a_call_that_takes_too_long_is_logged_as_the_error_that_it_is() -> None:
    logged = Logged(timeout=1.0)
    client = logged.world.client()
    logged.world.say(client, call(1, "db:query"))
    logged.world.wait(2)
    assert [(line["outcome"], line["code"]) for line in logged.told()] == [("error", -32001)]


def test_what_the_proxy_refuses_is_logged_without_a_server(logged: Logged) -> None:
    client = logged.world.client()
    logged.world.say(client, call(1, "nobody"))
    [line] = logged.told()
    assert line.pop("bytes") > 0
    refused = {"server": None, "name": "nobody", "outcome": "refused", "code": -32602}
    assert line == {**QUERY, **refused}


def test_of_a_resource_no_address_is_logged() -> None:
    logged = Logged(resources={"db": ["db://SECRET"]}, declares={"db": {"resources": {}}})
    client = logged.world.client()
    logged.world.say(client, request(1, "resources/read", {"uri": "db://SECRET"}))
    logged.world.down("db")
    [line] = logged.told()
    assert (line["method"], line["name"]) == ("resources/read", None)
    assert "SECRET" not in str(line)


def test_a_modern_client_is_logged_by_its_own_name(logged: Logged) -> None:
    world = logged.world
    client = world.modern()
    world.say(client, enveloped(call(1, "db:query")))
    db = world.up("db")
    world.say(db, result(world.received(db)[-1]["id"], {"content": []}))
    [line] = logged.told()
    assert (line["client"], line["outcome"]) == ("test", "ok")


def test_without_the_option_calls_are_given_on_as_ever() -> None:
    class Nowhere:
        def send(self, line: bytes) -> None:
            raise AssertionError

        def flush(self, seconds: float) -> bool:
            return True

    plain = Log(Nowhere(), with_calls=False).dispatch({})  # type: ignore[arg-type]
    assert type(plain) is not LoggedDispatch


# Spans


class Provider(trace.TracerProvider):
    """Notes the spans that are made."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        return self

    def start_span(self, name: str, **more: Any) -> Any:
        parent = trace.get_current_span(more["context"]).get_span_context()
        span = {"name": name, **more, "parent": format(parent.span_id, "x"), "ended": False}
        self.spans.append(span)
        return _Span(span)


class _Span(trace.NonRecordingSpan):
    def __init__(self, about: dict[str, Any]) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.about = about

    def set_attribute(self, key: str, value: Any) -> None:
        self.about["attributes"][key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.about["status"] = status.status_code.name

    def end(self, end_time: int | None = None) -> None:
        self.about["ended"] = True


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    """Stand for the SDK, which nothing else here needs."""
    provider = Provider()
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return provider


@pytest.mark.parametrize("exporter", [None, "none"])
def test_unless_asked_for_no_spans_are_made(
    exporter: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {"OTEL_TRACES_EXPORTER": exporter} if exporter else {})
    assert new_spans() is None


def test_without_the_sdk_no_spans_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    assert new_spans() is None


def test_a_span_is_made_below_the_one_that_the_client_names(provider: Provider) -> None:
    world = Logged(Spans()).world
    client, db = world.client(), world.up("db")
    asked = call(1, "db:query", {"sql": "SECRET"})
    asked["params"]["_meta"] = {"traceparent": PARENT}
    world.say(client, asked)
    [sent] = world.received(db)
    assert sent["params"]["_meta"]["traceparent"] == PARENT
    world.say(db, failure(sent["id"], -32000, "SECRET"))
    [span] = provider.spans
    assert (span["name"], span["parent"]) == ("tools/call db:query", PARENT.split("-")[2])
    assert (span["status"], span["ended"]) == ("ERROR", True)
    assert span["attributes"] == {
        "mcp.method.name": "tools/call",
        "mcpagg.server": "db",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "db:query",
        "error.type": "error",
        "rpc.response.status_code": "-32000",
    }
    assert "SECRET" not in str(span)


def test_a_trace_reaches_the_server_of_a_modern_client_too(provider: Provider) -> None:
    world = Logged(Spans()).world
    client = world.modern()
    world.say(client, enveloped(call(1, "db:query"), meta={"traceparent": PARENT}))
    db = world.up("db")
    [sent] = world.received(db)
    assert sent["params"]["_meta"]["traceparent"] == PARENT
    assert provider.spans[0]["parent"] == PARENT.split("-")[2]
