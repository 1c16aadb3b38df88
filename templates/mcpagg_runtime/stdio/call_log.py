"""The log: states of servers and, if asked for, calls; never arguments or results.

Calls are logged as lines of JSON, and as spans of OpenTelemetry where its SDK is installed and
configured; else nothing of it is imported. Names and attributes of spans are those of the semantic
conventions for MCP: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
"""

from __future__ import annotations

import os
import sys
from time import monotonic, time
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import log_line, parse
from mcpagg_runtime.messages.protocol import METHODS, OTHER
from mcpagg_runtime.routing.router import Dispatch
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.processes.writer import Writer
    from mcpagg_runtime.servers.calls import Call
    from mcpagg_runtime.servers.child import Child
    from mcpagg_runtime.servers.instances import Instances

LONGEST_NAME = 200

_EXPORTERS = "opentelemetry_traces_exporter"
"""The group of entry points under which the SDK finds exporters."""


class Log:
    """Lines of JSON, in a file, and spans of calls where those are configured."""

    def __init__(self, writer: Writer, with_calls: bool) -> None:
        self.send = writer.send
        self._writer = writer
        self._with_calls = with_calls
        self._spans: Spans | None = None

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, no longer than so many seconds; return whether it is."""
        if self._spans is not None:
            self._spans.flush(seconds)
        return self._writer.flush(seconds)

    def dispatch(self, servers: Mapping[str, Instances]) -> Dispatch:
        """Return the dispatch of calls to servers, which logs them if that is asked for."""
        if not self._with_calls:
            return Dispatch(servers)
        self._spans = new_spans()
        return LoggedDispatch(servers, self.send, self._spans)


class LoggedDispatch(Dispatch):
    """Has a line written for each call that ends, and a span made where spans are configured.

    {"time": seconds since 1970 when it came, "client": its name, "server": the first that was
    asked, null if none was, "method": "tools/call", "name": of the tool or the prompt as listed,
    null for anything else, "ms": until it was answered, "bytes": of the answer, "outcome": one of
    `ok`, `tool_error` (a result that says so), `error` (with its "code"), `refused` (by the proxy,
    with its "code"), `cancelled`}.
    """

    def __init__(
        self,
        servers: Mapping[str, Instances],
        send: Callable[[bytes], None],
        spans: Spans | None = None,
    ) -> None:
        super().__init__(servers)
        self._send = send
        self._spans = spans
        self._running: dict[Call, tuple[float, float, str, Any]] = {}
        """The time of each call, by both clocks, its server, and its span."""

    def _register(self, call: Call, child: Child) -> None:
        super()._register(call, child)
        span = self._spans.begin(call, child.name) if self._spans is not None else None
        self._running[call] = time(), monotonic(), child.name, span
        call.overhear(lambda message: self._ended(call, message))

    def withdraw(self, call: Call, child: Child, params: Callable[[str], str]) -> None:
        super().withdraw(call, child, params)
        self._ended(call, None)

    def refuse(self, client: Client, message: Message, refusal: str) -> None:
        super().refuse(client, message, refusal)
        asked = message.params.get("name")
        name = asked[:LONGEST_NAME] if type(asked) is str else ""
        self._write(
            time(),
            client,
            server="null",
            **_asked(message.method or "", name),
            ms="0.0",
            bytes=str(len(refusal)),
            outcome=quote("refused"),
            code=str(parse(refusal)["code"]),
        )

    def _ended(self, call: Call, answer: Message | None) -> None:
        begun = self._running.pop(call, None)
        if begun is None:
            return
        came, started, server, span = begun
        outcome, code = _outcome(answer)
        more = {} if code is None else {"code": str(code)}
        self._write(
            came,
            call.client,
            server=quote(server),
            **_asked(call.method, call.name),
            ms=f"{(monotonic() - started) * 1000:.1f}",
            bytes=str(0 if answer is None else sum(map(len, answer.pieces()))),
            outcome=quote(outcome),
            **more,
        )
        if self._spans is not None:
            self._spans.end(span, outcome, code)

    def _write(self, came: float, client: Client, **members: str) -> None:
        """Write a line; the members are JSON texts."""
        self._send(log_line(came, client=quote(client.name[:LONGEST_NAME]), **members))


def _asked(method: str, name: str) -> dict[str, str]:
    """Return what is logged of a request: its method, and the name of a tool or a prompt."""
    return {
        "method": quote(method),
        "name": quote(name) if METHODS.get(method, OTHER).kind else "null",
    }


def _outcome(answer: Message | None) -> tuple[str, int | None]:
    """Return how a call ended, and the code of an error."""
    if answer is None:
        return "cancelled", None
    if answer.is_error:
        return "error", answer.code
    result = answer.value("result")
    failed = type(result) is dict and result.get("isError") is True
    return ("tool_error" if failed else "ok"), None


def new_spans() -> Spans | None:
    """Return what makes spans; None if they are not asked for, or the SDK is missing.

    They are asked for if the SDK is set up in this process already, or by its own variables:
    `OTEL_TRACES_EXPORTER` or `OTEL_EXPORTER_OTLP_…`.
    """
    if "opentelemetry.sdk.trace" in sys.modules:
        return Spans()
    exporters = os.environ.get("OTEL_TRACES_EXPORTER", "")
    if not exporters and any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
        exporters = "otlp"
    if sys.version_info < (3, 10) or exporters in ("", "none"):
        return None
    try:
        _set_up(exporters.split(","))
        return Spans()
    except ImportError:
        return None


def _set_up(exporters: list[str]) -> None:
    """Set the SDK up as its variables say.

    Raises:
        ImportError: it is not there.
    """
    from importlib.metadata import entry_points

    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    for point in entry_points(group=_EXPORTERS):
        if point.name in exporters:
            provider.add_span_processor(BatchSpanProcessor(point.load()()))
    trace.set_tracer_provider(provider)


def _carrier(call: Call) -> dict[str, str]:
    """Return the trace context of a call: `traceparent`, `tracestate`, `baggage`."""
    meta = call.params.get("_meta")
    given = meta.items() if type(meta) is dict else ()
    return {name: value for name, value in given if type(value) is str}


class Spans:
    """Makes a span for each call, a child of the span that its client names in `_meta`."""

    def __init__(self) -> None:
        """Raise ImportError if the library is not there."""
        from opentelemetry import propagate, trace

        self._trace = trace
        self._extract = propagate.extract
        self._tracer = trace.get_tracer("mcpagg")

    def begin(self, call: Call, server: str) -> Any:
        name = call.name if METHODS.get(call.method, OTHER).kind else ""
        attributes = {"mcp.method.name": call.method, "mcpagg.server": server}
        if call.method == "tools/call":
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        return self._tracer.start_span(
            f"{call.method} {name}".rstrip(),
            context=self._extract(_carrier(call)),
            kind=self._trace.SpanKind.SERVER,
            attributes=attributes,
        )

    def end(self, span: Any, outcome: str, code: int | None) -> None:
        """End a span; an error says so."""
        if outcome != "ok":
            span.set_attribute("error.type", outcome)
        if code is not None:
            span.set_attribute("rpc.response.status_code", str(code))
        if outcome in ("tool_error", "error"):
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        span.end()

    def flush(self, seconds: float) -> None:
        """Wait until all spans are exported, no longer than so many seconds."""
        flush = getattr(self._trace.get_tracer_provider(), "force_flush", None)
        if flush is not None:
            flush(int(seconds * 1000))
