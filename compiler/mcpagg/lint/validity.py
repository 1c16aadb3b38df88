"""Schemas that are not valid, and tools that cannot be called: what strict clients drop."""

from __future__ import annotations

from collections.abc import Iterator

from mcpagg.lint.finding import Hit, Offer, Surface
from mcpagg_runtime.base.protocol import MODERN_VERSION

PLAIN = {"type": "object"}


def no_object(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each schema of a tool that is not that of an object.

    Since 2026-07-28 any output schema will do, and the proxy wraps it for older clients.
    """
    if offer.kind != "tool":
        return
    schema, output = offer.value.get("inputSchema"), offer.value.get("outputSchema", PLAIN)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield Hit("/inputSchema", 'has no "type": "object"')
    is_wrapped = isinstance(output, dict) and offer.protocol == MODERN_VERSION
    if not is_wrapped and (not isinstance(output, dict) or output.get("type") != "object"):
        yield Hit("/outputSchema", 'has no "type": "object"')


def broken_schema(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each fault for which validators refuse to compile a schema."""
    return (Hit(one.pointer, one.what) for one in offer.schema_faults if not one.is_remote)


def remote_reference(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each reference to another document.

    Clients must not fetch it (specification 2026-07-28, server/tools, security considerations).
    """
    return (Hit(one.pointer, one.what) for one in offer.schema_faults if one.is_remote)


def task_only(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for a tool that can only be called as a task, which the proxy does not relay."""
    execution = offer.value.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        yield Hit("/execution/taskSupport", "can only be called as a task")
