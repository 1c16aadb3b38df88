"""Spans of OpenTelemetry, where its SDK is installed and configured; else nothing is imported.

Names and attributes are those of the semantic conventions for MCP:
https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.serve.calls import ASKS_FOR

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.serve.call import Call

_EXPORTERS = "opentelemetry_traces_exporter"
"""The entry points under which the SDK finds what takes spans."""


def new_spans() -> Spans | None:
    """Return what makes spans; None where none is asked for, or the library is missing.

    They are asked for by whoever started this process with the SDK set up, or by the SDK's own
    variables: where spans go (`OTEL_TRACES_EXPORTER`) or how (`OTEL_EXPORTER_OTLP_…`).
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
    """Return what a call says of its trace: `traceparent`, `tracestate`, `baggage`."""
    meta = call.params.get("_meta")
    given = meta.items() if type(meta) is dict else ()
    return {name: value for name, value in given if type(value) is str}


class Spans:
    """Makes a span for each call, below the one that its client names in `_meta`."""

    def __init__(self) -> None:
        """Raise ImportError if the library is not there."""
        from opentelemetry import propagate, trace

        self._trace = trace
        self._extract = propagate.extract
        self._tracer = trace.get_tracer("mcpagg")

    def begin(self, call: Call, server: str) -> Any:
        """Begin the span of a call."""
        name = call.name if call.method in ASKS_FOR else ""
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
        """Wait until all spans are where they go, no longer than so many seconds."""
        flush = getattr(self._trace.get_tracer_provider(), "force_flush", None)
        if flush is not None:
            flush(int(seconds * 1000))
