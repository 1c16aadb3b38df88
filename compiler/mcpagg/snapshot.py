"""What the children say about themselves, as plain JSON values.

A snapshot holds what each child sent, but for what strict clients refuse (see `Refused`): unknown
members are kept, nothing is renamed, and the order is the config's, then each child's own. It is
the only thing that crosses from discovery to linking, so compiling from a recorded snapshot starts
no child.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mcpagg_runtime.lists.catalogue import Kind

Json = dict[str, Any]


class Refused(NamedTuple):
    """What strict clients would refuse a whole list for, and what was done about it.

    `kind` is tool, prompt, resource or template, `name` that of the entry, or its URI; `pointer`
    the JSON pointer to the member, "" for the whole entry.
    """

    kind: str
    name: str
    pointer: str
    what: str
    done: str


@dataclass(frozen=True, slots=True)
class ChildSnapshot:
    """One child's answers.

    `protocol` is the version that the child negotiated (`2025-11-25`), or that it speaks without
    negotiating (`2026-07-28`), `info` its `serverInfo`, `tools`, `prompts`, `resources`,
    `templates` and `skills` its lists as given. `conditional` names the tools that it offers only
    to a client that declared capabilities (sampling, elicitation, roots). `hints` is what it says
    of keeping its lists, empty for a child with a handshake: {"ttlMs": milliseconds, the least of
    all lists, "cacheScope": "private" if that of any is, else "public"}, less what it does not say.
    `handshake` is what one that also speaks by a handshake said in it, {"protocolVersion",
    "capabilities"}, {} for any other: all else is what it says without one.
    `seconds` is how long its start took, None if it was not started; `ran` the version of the
    package that was started, "" if unknown: both are no part of its answers.
    `transport` is how a remote child was reached, "" for any other. `refused` is what was left out
    of its lists or mended when they were read, nothing if it was not asked.
    """

    name: str
    protocol: str
    info: Json = field(default_factory=dict)
    capabilities: Json = field(default_factory=dict)
    instructions: str | None = None
    tools: tuple[Json, ...] = ()
    prompts: tuple[Json, ...] = ()
    resources: tuple[Json, ...] = ()
    templates: tuple[Json, ...] = ()
    skills: tuple[Json, ...] = ()
    conditional: frozenset[str] = frozenset()
    hints: Json = field(default_factory=dict)
    handshake: Json = field(default_factory=dict)
    seconds: float | None = field(default=None, compare=False)
    ran: str = field(default="", compare=False)
    transport: str = ""
    refused: tuple[Refused, ...] = field(default=(), compare=False)

    @property
    def protocols(self) -> tuple[str, ...]:
        """The versions that it speaks: one of each era."""
        return (self.protocol, *([self.handshake["protocolVersion"]] if self.handshake else ()))

    def items(self, kind: Kind) -> tuple[Json, ...]:
        items: tuple[Json, ...] = getattr(self, kind.name)
        return items


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All children's answers, in config order.

    `failed` names the children that failed and are left out, `kept` those that failed and whose
    answers are from an earlier compilation.
    """

    children: tuple[ChildSnapshot, ...]
    failed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(child.name for child in self.children)

    @property
    def by_name(self) -> dict[str, ChildSnapshot]:
        return {child.name: child for child in self.children}

    @property
    def versions(self) -> dict[str, str]:
        """The version of the package that was started for each child; see `ChildSnapshot.ran`."""
        return {child.name: child.ran for child in self.children}

    @property
    def with_handshakes(self) -> Snapshot:
        """This snapshot with what the children declare to clients with a handshake."""
        return replace(
            self,
            children=tuple(
                replace(child, capabilities=child.handshake.get("capabilities", child.capabilities))
                for child in self.children
            ),
        )

    def renamed(self, names: Mapping[str, str]) -> Snapshot:
        """Return this snapshot with some children under other names, {old name: new name}."""

        def new(name: str) -> str:
            return names.get(name, name)

        return Snapshot(
            tuple(replace(child, name=new(child.name)) for child in self.children),
            tuple(map(new, self.failed)),
            tuple(map(new, self.kept)),
        )

    def with_known_ttl(self, before: Snapshot) -> Snapshot:
        """Return this snapshot with the `ttlMs` of an earlier one, for children that have one.

        A server may compute it, say as the time until midnight. Nothing that it offers has changed
        then, so it is no drift.
        """
        old = before.by_name
        children = (_with_known_ttl(child, old.get(child.name)) for child in self.children)
        return replace(self, children=tuple(children))


def _with_known_ttl(child: ChildSnapshot, before: ChildSnapshot | None) -> ChildSnapshot:
    if before is None or "ttlMs" not in child.hints or "ttlMs" not in before.hints:
        return child
    return replace(child, hints={**child.hints, "ttlMs": before.hints["ttlMs"]})
