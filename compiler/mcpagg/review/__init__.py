"""What has changed between FILE and what compiling now gives, and how that is reported.

`reviewing.review` compares; `report` prints what came of it in the form that is asked for. Here are
the classes of changes, for `--check`, its reports and `--fail-on`.
"""

from __future__ import annotations

CLASSES = {
    "hidden": "a text that now has characters which nobody sees",
    "schema-breaking": "a schema that callers or readers of results may trip over",
    "hint": "what a tool says that it does: readOnlyHint, destructiveHint, …",
    "removed": "a server, tool, prompt, resource or skill that is gone",
    "launch": "how a server is started or filtered: command, arguments, environment, …",
    "file": "anything else in FILE: options, names, profiles, overlays, an edit by hand",
    "registry": "a frozen package that its registry has with other bytes, or no more",
    "failed": "a server that could not be asked, or can be asked again",
    "text": "what people and models read: titles, descriptions, instructions",
    "added": "a server, tool, prompt, resource or skill that is new",
    "capabilities": "what a server declares",
    "schema-compatible": "any other change of a schema",
    "version": "the version that a server has, or of the protocol that it speaks",
    "other": "any other member of what a server says",
    "advisories": "a frozen package for which an advisory is published",
    "provenance": "a newer package that another repository has built, or that names no builder",
    "packages": "other versions of packages than those that are frozen",
    "runtime": "code of another compiler, which this one cannot compare with its own",
}
"""The classes of changes, the gravest first, and what each means."""

OF_LISTS = (
    *("hidden", "schema-breaking", "hint", "removed"),
    *("text", "added", "schema-compatible", "other"),
)
"""The classes of changes in what a server lists, which a running proxy sees, too."""

ALWAYS = frozenset({"hidden", "registry", "runtime"})
"""The classes that always count: what cannot be seen, what is not as reviewed or not compared."""

NEWS = frozenset({"advisories", "provenance", "packages"})
"""The classes of what strangers publish: what registries offer of them changes no proxy."""

STRUCTURAL = frozenset(CLASSES) - {"text", "version"}
"""The classes that can count with `--structural`."""
