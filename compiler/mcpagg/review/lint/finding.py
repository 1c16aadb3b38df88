"""What rules check, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from shlex import quote
from typing import Any, Literal, NamedTuple

from mcpagg.jsontext import members_of
from mcpagg.problems import Problem
from mcpagg.review.lint.letters import skeleton
from mcpagg.review.lint.schemas import SchemaFault, every_schema, schema_faults
from mcpagg_runtime.lists.catalogue import KINDS
from mcpagg_runtime.lists.values import strings

KIND_OF = {kind.name[:-1]: kind for kind in KINDS}

DESCRIBED = "/description"
"""Where an overlay helps: see `overlays`."""

Level = Literal["refused", "hidden", "advice"]
"""How bad: some client refuses it; a reader cannot see what a model reads; it could be better."""


@dataclass(frozen=True)
class Offer:
    """A tool, prompt, resource, … as the proxy lists it, or what a server says of itself.

    `kind` is tool, prompt, resource, template or skill, or server for what a server says of itself;
    `name` what its server calls it (a URI, where it has one); `path` the JSON path of its server in
    the config. A composite tool has the server "". Tools and prompts have an `exposed` name and a
    `portable` one.
    """

    server: str
    kind: str
    name: str
    value: dict[str, Any]
    path: str = ""
    protocol: str = ""
    exposed: str = ""
    portable: str = ""

    @property
    def target(self) -> str:
        """The name by which `--ignore` and `--hide` know it."""
        return f"{self.server}:{self.name}" if self.server else self.name

    @cached_property
    def strings(self) -> list[tuple[str, str]]:
        return [*strings(self.value)]

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The schema of a tool's arguments, an empty one for anything else."""
        return members_of(self.value.get("inputSchema") if self.kind == "tool" else None)

    @cached_property
    def schemas(self) -> list[tuple[str, dict[str, Any]]]:
        """The schema of its arguments and all schemas in it, each with its JSON pointer."""
        return every_schema(self.arguments, "/inputSchema")

    @cached_property
    def schema_faults(self) -> list[SchemaFault]:
        """What is wrong with the schemas of a tool."""
        members = ("inputSchema", "outputSchema") if self.kind == "tool" else ()
        return [
            fault
            for member in members
            for fault in schema_faults(self.value.get(member), f"/{member}")
        ]


@dataclass(frozen=True, slots=True)
class Surface:
    """All that a proxy lists. `proxy` is its own name, `names` the option of that name."""

    offers: tuple[Offer, ...]
    proxy: str = "mcpagg"
    names: str = "auto"
    described: dict[str, Offer] = field(default_factory=dict, compare=False)
    """{description: the first tool that has it}."""
    named: dict[str, Offer] = field(default_factory=dict, compare=False)
    """{name as it is read: the tool that has it, one that is written so before others}."""

    def __post_init__(self) -> None:
        """Note who describes itself how, and what names look like."""
        for offer in self.offers:
            if offer.kind == "tool":
                self.described.setdefault(str(offer.value.get("description")), offer)
                look = skeleton(offer.name)
                if look == offer.name or look not in self.named:
                    self.named[look] = offer


class Hit(NamedTuple):
    """Where in an offer a rule is broken (JSON pointer), how, and for which clients if not all.

    `remedy` is an option that helps, where one does so better than to hide the tool.
    """

    pointer: str
    what: str
    clients: tuple[str, ...] = ()
    remedy: str = ""


Check = Callable[[Offer, Surface], Iterable[Hit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: `check` yields a hit for each place in an offer where it is broken.

    `effect` is what comes of it, as a clause that follows "which"; `clients` are those concerned.
    """

    name: str
    level: Level
    clients: tuple[str, ...]
    effect: str
    check: Check


def rule(name: str, level: Level, effect: str, *clients: str) -> Callable[[Check], Rule]:
    """Return a decorator that makes a rule of a function that checks an offer."""
    return lambda check: Rule(name, level, clients, effect, check)


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken at one place."""

    rule: Rule
    offer: Offer
    hit: Hit

    @property
    def clients(self) -> tuple[str, ...]:
        return self.hit.clients or self.rule.clients

    @property
    def effect(self) -> str:
        """What follows from it, as a clause after "which"."""
        return self.rule.effect.format(clients=" and ".join(self.clients))

    @property
    def remedy(self) -> str:
        ignore = f"--ignore {quote(f'{self.rule.name}={self.offer.target}')}"
        if self.offer.kind != "tool" or not self.offer.server:
            return ignore
        if self.rule.level == "advice":
            return f"write an overlay, or {ignore}" if self.hit.pointer == DESCRIBED else ignore
        return f"{self.hit.remedy or f'--hide {quote(self.offer.target)}'}, or {ignore}"

    def as_problem(self) -> Problem:
        about = (
            "its server"
            if self.offer.kind == "server"
            else f"{self.offer.kind} '{self.offer.name}'"
        )
        pointer = f" {self.hit.pointer}" if self.hit.pointer else ""
        what = f"{about}{pointer} {self.hit.what}, which {self.effect} [{self.rule.name}]"
        return Problem(self.offer.path, what, self.remedy)
