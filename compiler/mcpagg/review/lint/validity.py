"""Schemas and tools that a client, a validator or a model API refuses.

First what is not valid, or cannot be called: strict clients drop it, some with all else. Then what
is valid, and a model API refuses all the same, mostly the whole request: only what is refused as
servers write it. What OpenAI demands of `strict` functions alone (`additionalProperties: false`,
all properties required) is made up by the API, or not asked for
(https://developers.openai.com/api/docs/guides/function-calling); formats, unions of types and
`$ref`s to `$defs` are rewritten by the clients of Gemini. Each rule names its sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mcpagg.review.lint.finding import KIND_OF, Hit, Offer, Surface, rule
from mcpagg_runtime.lists.mending import WRONG, Unmendable, described, find_mends
from mcpagg_runtime.lists.values import escaped
from mcpagg_runtime.messages.protocol import MODERN_VERSION

# Of `strict` functions, which the Responses API makes of all:
# https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
DEEPEST, MOST_PROPERTIES, MOST_CHOICES = 10, 5000, 1000

_CLAUDE, _OPENAI = "the Claude API", "the OpenAI API"
# https://github.com/anthropics/claude-code/issues/44788,
# https://github.com/langchain-ai/langchainjs/issues/9804
_CHOICES = {
    **dict.fromkeys(("anyOf", "oneOf", "allOf"), (_CLAUDE, _OPENAI)),
    **dict.fromkeys(("enum", "not"), (_OPENAI,)),
}
# Of the properties of the arguments alone: https://github.com/decocms/studio/pull/6874
_PROPERTY = re.compile("[a-zA-Z0-9_.-]{1,64}")


@rule(
    "refused-entry", "refused", "is refused by {clients}, with all other entries", "strict clients"
)
def refused_entry(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each member for which a client refuses the whole list that it stands in.

    What servers list has been mended by then: this is what an overlay makes of it, or what an older
    compiler recorded.
    """
    kind = KIND_OF.get(offer.kind)
    if kind is None:
        return
    try:
        mends = find_mends(kind, offer.value, offer.protocol == MODERN_VERSION)
    except Unmendable as problem:
        yield Hit(str(problem), f"has {WRONG}")
        return
    for pointer, what, _done in described(offer.value, mends):
        yield Hit(pointer, f"has {what}")


@rule(
    "broken-schema",
    "refused",
    "is refused by {clients}, by some with the tools of all servers",
    "strict clients",
)
def broken_schema(offer: Offer, _: Surface) -> Iterator[Hit]:
    return (Hit(fault.pointer, fault.what) for fault in offer.schema_faults if not fault.is_remote)


@rule("remote-ref", "refused", "is not fetched by {clients}", "strict clients")
def remote_reference(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each reference to another document.

    Clients must not fetch it (specification 2026-07-28, server/tools, security considerations).
    """
    return (Hit(fault.pointer, fault.what) for fault in offer.schema_faults if fault.is_remote)


@rule("task-only", "refused", "is not relayed, so calls fail", "all")
def task_only(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for a tool that can only be called as a task, which the proxy does not relay."""
    execution = offer.value.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        yield Hit("/execution/taskSupport", "can only be called as a task")


@rule("top-level-choice", "refused", "is refused by {clients}, with the whole request")
def top_level_choice(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each choice that stands right in the schema of the arguments."""
    for keyword in offer.arguments:
        if keyword in _CHOICES:
            yield Hit(f"/inputSchema/{keyword}", "stands at the top level", _CHOICES[keyword])


@rule("array-items", "refused", "is refused by {clients}", "VS Code", "the OpenAI API")
def array_items(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each array that does not say of what.

    https://github.com/microsoft/vscode/issues/246119, https://github.com/ruvnet/ruflo/issues/1294
    """
    for pointer, schema in offer.schemas:
        types = schema.get("type")
        if (types == "array" or (isinstance(types, list) and "array" in types)) and (
            "items" not in schema
        ):
            yield Hit(pointer, "is an array without `items`")


@rule(
    "property-name", "refused", "is refused by {clients}, with the whole request", "the Claude API"
)
def property_names(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each argument whose name has other characters, or too many."""
    properties = offer.arguments.get("properties")
    for name in properties if isinstance(properties, dict) else ():
        if not _PROPERTY.fullmatch(name):
            what = "is no name of up to 64 letters, digits, _, . and -"
            yield Hit(f"/inputSchema/properties/{escaped(name)}", what)


@rule(
    "gemini-subset", "refused", "is refused by {clients}, with the whole request", "the Gemini API"
)
def gemini_subset(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for what Gemini's schemas, a subset of OpenAPI 3.0, cannot express.

    https://github.com/google-gemini/gemini-cli/issues/4415 (numbers in `enum`),
    https://github.com/sbroenne/mcp-server-excel/issues/607 (empty texts in it),
    https://github.com/github/copilot-cli/issues/4623 (items of several types, schemas `true`).
    """
    for pointer, schema in offer.schemas:
        choices = schema.get("enum")
        for choice in choices if isinstance(choices, list) else ():
            if choice is not None and (not isinstance(choice, str) or not choice):
                what = "has an empty text" if choice == "" else f"has {choice!r}, which is no text"
                yield Hit(f"{pointer}/enum", what)
                break
        items, properties = schema.get("items"), schema.get("properties")
        if isinstance(items, dict) and isinstance(items.get("type"), list):
            yield Hit(f"{pointer}/items/type", "is a list of types")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            if isinstance(inner, bool):
                where = f"{pointer}/properties/{escaped(name)}"
                yield Hit(where, f"is the schema `{str(inner).lower()}`")


@rule(
    "large-schema", "advice", "is refused by {clients} where functions are strict", "the OpenAI API"
)
def large_schema(offer: Offer, _: Surface) -> Iterator[Hit]:
    """Yield a hit for each measure that is too large for strict function calling."""
    schemas = [schema for _, schema in offer.schemas]
    properties = sum(
        len(schema["properties"]) for schema in schemas if _has(schema, "properties", dict)
    )
    choices = sum(len(schema["enum"]) for schema in schemas if _has(schema, "enum", list))
    levels = max((_levels(pointer) for pointer, _ in offer.schemas), default=0)
    for number, most, what in (
        (levels, DEEPEST, "levels"),
        (properties, MOST_PROPERTIES, "properties"),
        (choices, MOST_CHOICES, "values of enums"),
    ):
        if number > most:
            yield Hit("/inputSchema", f"has {number:,} {what}, of at most {most:,}")


def _has(schema: dict[str, Any], keyword: str, kind: type) -> bool:
    return isinstance(schema.get(keyword), kind)


def _levels(pointer: str) -> int:
    """Return how deep a schema is within objects and arrays."""
    return 1 + sum(part in ("properties", "items") for part in pointer.split("/"))
