"""The rules, in the order in which their findings are told."""

from __future__ import annotations

from mcpagg.lint import names, portability, texts, validity
from mcpagg.lint.finding import Rule

STRICT_CLIENTS = ("strict clients",)
RULES = (
    Rule("hidden-text", "hidden", ("all",), "a model reads and nobody sees", texts.hidden_text),
    Rule(
        "instructions",
        "hidden",
        ("all",),
        "a model may obey before anything is called",
        texts.instructions,
    ),
    Rule("tool-name", "refused", (), "is refused by {clients}", names.refused_name),
    Rule(
        "no-object",
        "refused",
        STRICT_CLIENTS,
        "is refused by {clients}, by some with all of the server's tools",
        validity.no_object,
    ),
    Rule(
        "broken-schema",
        "refused",
        STRICT_CLIENTS,
        "is refused by {clients}, by some with the tools of all servers",
        validity.broken_schema,
    ),
    Rule(
        "remote-ref",
        "refused",
        STRICT_CLIENTS,
        "is not fetched by {clients}",
        validity.remote_reference,
    ),
    Rule("task-only", "refused", ("all",), "is not relayed, so calls fail", validity.task_only),
    Rule(
        "top-level-choice",
        "refused",
        (),
        "is refused by {clients}, with the whole request",
        portability.top_level_choice,
    ),
    Rule(
        "array-items",
        "refused",
        ("VS Code", "the OpenAI API"),
        "is refused by {clients}",
        portability.array_items,
    ),
    Rule(
        "property-name",
        "refused",
        ("the Claude API",),
        "is refused by {clients}, with the whole request",
        portability.property_names,
    ),
    Rule(
        "gemini-subset",
        "refused",
        ("the Gemini API",),
        "is refused by {clients}, with the whole request",
        portability.gemini_subset,
    ),
    Rule(
        "large-schema",
        "advice",
        ("the OpenAI API",),
        "is refused by {clients} where functions are strict",
        portability.large_schema,
    ),
    Rule("long-description", "advice", (), "is too much for {clients}", texts.long_description),
    Rule(
        "no-description",
        "advice",
        ("all",),
        "is what models choose tools by",
        texts.no_description,
    ),
    Rule(
        "same-description",
        "advice",
        ("all",),
        "does not tell a model which of the two it wants",
        texts.same_description,
    ),
)
