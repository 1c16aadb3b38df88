"""Filters that fit nothing: an error where one should withhold a tool of a server that is there.

What is misspelt in a list of what to withhold would be served, so it is refused. A filter that
offers or renames, or that is for several servers, or for one that is left out or failed, is at
most warned of: it opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from glob import escape
from shlex import quote
from typing import NamedTuple

from mcpagg.options import Options
from mcpagg.problems import ConfigError, Problem, suggest
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg.spec import Pattern, ProxySpec
from mcpagg_runtime.lists.catalogue import RESOURCES, TEMPLATES

UNUSED_FILTER = "unused-filter"
"""What `--ignore` knows it by."""


class Unused(NamedTuple):
    """A filter that fits nothing: its text, its JSON path, and whether it must fit.

    `near` is the remedy.
    """

    text: str
    path: str
    must_fit: bool
    near: str = ""

    def as_problem(self) -> Problem:
        ignore = f"--ignore {quote(f'{UNUSED_FILTER}={self.text}')}"
        remedy = f"{self.near or 'leave it out'}, or {ignore}"
        what = f"the filter '{self.text}' fits nothing [{UNUSED_FILTER}]"
        return Problem(self.path, what, remedy)


def check_filters(spec: ProxySpec, snapshot: Snapshot, options: Options) -> list[Problem]:
    """Return warnings of filters that fit nothing.

    Raises:
        ConfigError: with those that should withhold a tool of a server that is compiled.
    """
    filters = [*_of_entries(spec, snapshot), *_of_patterns(spec, snapshot)]
    filters += _of_profiles(spec, snapshot, options)
    rules = [word.partition("=") for word in options.ignore]
    globs = {glob or "*": False for rule, _, glob in rules if rule == UNUSED_FILTER}
    reported = []
    for idle in filters:
        fitting = [glob for glob in globs if glob == idle.text or fnmatchcase(idle.text, glob)]
        globs |= dict.fromkeys(fitting, True)
        reported += [] if fitting else [idle]
    if faults := [idle.as_problem() for idle in reported if idle.must_fit]:
        raise ConfigError(spec.source, faults)
    unused = [glob for glob, is_used in globs.items() if not is_used]
    return [
        *(idle.as_problem() for idle in reported),
        *(Problem("", f"--ignore {UNUSED_FILTER}={glob} ignores nothing") for glob in unused),
    ]


def _of_entries(spec: ProxySpec, snapshot: Snapshot) -> Iterator[Unused]:
    """Yield those that stand in the entry of a server."""
    children = snapshot.by_name
    for server in spec.servers:
        if (child := children.get(server.name)) is None:
            continue
        names = [tool["name"] for tool in child.tools]
        own = [(glob, True) for glob in server.hide if glob not in server.patterns]
        for glob, withholds in (
            *own,
            *((glob, False) for glob in (*(server.expose or ()), *server.rename)),
        ):
            if not _fits(glob, child):
                near = suggest(glob, names) or f"it has {', '.join(names) or 'no tools'}"
                yield Unused(f"{server.name}:{glob}", server.path, withholds and bool(names), near)


def _of_patterns(spec: ProxySpec, snapshot: Snapshot) -> Iterator[Unused]:
    """Yield those that are for several servers, and fit a tool of none."""
    children = snapshot.by_name
    uses: dict[tuple[str, str], list[tuple[Pattern, str, ChildSnapshot | None]]] = {}
    for server in spec.servers:
        for glob, pattern in server.patterns.items():
            if glob in server.hide:
                use = pattern, glob, children.get(server.name)
                uses.setdefault((pattern.text, pattern.path), []).append(use)
    for key, patterns in uses.items():
        if any(child is not None and _fits(glob, child) for _, glob, child in patterns):
            continue
        named = [child for pattern, _, child in patterns if pattern.names_server]
        must_fit = bool(named) and all(child is not None and child.tools for child in named)
        there = [(pattern, child) for pattern, _, child in patterns if child is not None]
        names = [
            f"{pattern.prefix}{tool['name']}" for pattern, child in there for tool in child.tools
        ]
        if there or not named:
            yield Unused(*key, must_fit, suggest(key[0], names))


def _of_profiles(spec: ProxySpec, snapshot: Snapshot, options: Options) -> Iterator[Unused]:
    """Yield those that a profile withholds by; a composite tool has a name without a colon."""
    composites = [composite.name for composite in spec.composites]
    tools = {child.name: [tool["name"] for tool in child.tools] for child in snapshot.children}
    targets = [f"{name}:{tool}" for name, own in tools.items() for tool in own or ("",)]
    for profile in spec.profiles:
        if options.profile and profile.name not in options.profile:
            continue
        for glob in profile.hide:
            if any(fnmatchcase(target, glob) for target in (*targets, *composites)):
                continue
            servers = [glob[:at] for at, char in enumerate(glob) if char == ":"]
            named = [name for name in tools if tools[name] and {name, escape(name)} & {*servers}]
            is_name = not servers and escape(glob) == glob
            yield Unused(glob, profile.path, bool(named) or is_name, suggest(glob, targets))


def _fits(glob: str, child: ChildSnapshot) -> bool:
    """Whether a glob fits a tool of a server, or the address of a resource or template."""
    names = [tool["name"] for tool in child.tools]
    if ":" in glob:
        names += [item[kind.key] for kind in (RESOURCES, TEMPLATES) for item in child.items(kind)]
    return any(fnmatchcase(name, glob) for name in names)
