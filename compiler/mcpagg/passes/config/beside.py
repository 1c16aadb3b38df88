"""The keys beside the servers: honoured, refused, or named as not about servers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import translate
from typing import Any

from mcpagg.passes.config.containers import is_entry
from mcpagg.passes.config.coordinator import has_composites
from mcpagg.passes.config.dialects import (
    COMMON_WORDS,
    CONTAINERS,
    DEFAULTS,
    ROOT_QUIET,
    ROOT_SWITCHES,
    ROOT_UNHONOURED,
    SERVER_LISTS,
    Dialect,
)
from mcpagg.passes.config.keys import is_quiet
from mcpagg.passes.config.own import KEY
from mcpagg.passes.config.patterns import is_clients_own, names_one
from mcpagg.passes.config.places import Place, quoted, reach
from mcpagg.passes.config.restrictions import (
    SWITCHES,
    gives,
    holds_names,
    is_harmless,
    is_off,
    permits,
    restricts,
    says_nothing,
)
from mcpagg.problems import name_list, suggest
from mcpagg_runtime.launch.secrecy import words_of

_OF_SERVERS = re.compile(r"(?:^| )(?:mcp|servers?(?: |$)|tools?(?: |$))")
_COORDINATORS = ("envVars", "serverTransport")
_SHOWN = 6
_OF_ANOTHER = re.compile(r"mcp__?(?=[A-Za-z0-9])")
"""What begins the name of a tool of some server."""


def report_beside(
    document: dict[str, Any], dialect: Dialect, servers: Collection[str], root: Place
) -> None:
    """Report what stands beside the servers; `servers` are the names of those that are compiled."""
    for path, remedy in ROOT_UNHONOURED.items():
        value, at = reach(document, path, root)
        if value is not None:
            at.warn("is not honoured", remedy)
    for path, does in dialect.restricting.items():
        value, at = reach(document, path, root)
        if not says_nothing(value):
            remedy = "compile a copy of the config without it, if you can do without"
            at.error(f"{does}, which is not honoured", remedy)
    for path in ROOT_SWITCHES:
        value, at = reach(document, path, root)
        if isinstance(value, bool | str) and value not in (True, "all"):
            off = value in (False, "none")
            what = "switches every server off" if off else "is not honoured"
            at.error(what, "compile a copy of the config without it, if you can do without")
    elsewhere = list(_restrictions(document, dialect, servers, root))
    handled = _known(document, dialect)
    others = [key for key in document if key not in handled and not is_quiet(key)]
    roots = tuple(f"{key}." for key in others)
    others += [path for path in elsewhere if not f"{path}.".startswith(roots)]
    ours = [KEY, *(_COORDINATORS if dialect.is_standard else ())]
    for key in [key for key in others if key in document and suggest(key, ours)]:
        root.at(key).warn("is not understood and ignored", suggest(key, ours))
        others.remove(key)
    if others:
        root.warn(f"not about servers, ignored: {name_list([*map(quoted, others)], _SHOWN)}")


def _known(document: dict[str, Any], dialect: Dialect) -> set[str]:
    """Return the keys at the root that are looked at elsewhere."""
    paths = (*ROOT_UNHONOURED, *SERVER_LISTS, *DEFAULTS, *dialect.tool_patterns, dialect.hosts)
    handled = {*ROOT_QUIET, *dialect.harmless}
    for path in (*paths, ".".join(dialect.container)):
        handled |= {path, path.split(".")[0]}
    for path in (*ROOT_SWITCHES, *map(".".join, CONTAINERS)):
        if reach(document, path, Place())[0] is not None:
            handled |= {path, path.split(".")[0]}
    if dialect.is_standard:
        handled |= {*_COORDINATORS}
        handled |= {"tools"} if has_composites(document) else set()
    return handled


def _restrictions(
    document: dict[str, Any], dialect: Dialect, servers: Collection[str], root: Place
) -> Iterator[str]:
    """Report what restricts the servers and is not honoured; yield the paths of what does not."""
    reported = set()
    for way, value in _leaves(document, (("", root),), _passed(document, dialect)):
        keys = tuple(key for key, _ in way[1:])
        if not (_restricts(keys, value) or _switches_off(keys, value, dialect, servers)):
            continue
        at = next((place for key, place in way[::-1] if restricts(key, "")), way[-1][1])
        if not _concerns(keys, value, dialect, servers):
            yield ".".join(keys)
        elif at.path not in reported:
            reported.add(at.path)
            at.error(
                "restricts the servers or their tools, and is not honoured",
                "--skip the servers, or --hide the tools, and compile a copy without it",
            )


def _passed(document: dict[str, Any], dialect: Dialect) -> re.Pattern[str]:
    """Return what fits the paths of servers, and of what is honoured or harmless."""
    containers = {*CONTAINERS} - COMMON_WORDS | {dialect.container, *dialect.others}
    globs = [
        *(".".join(container) for container in containers),
        *dialect.tool_patterns,
        *dialect.restricting,
        *dialect.harmless,
        dialect.hosts,
        *ROOT_SWITCHES,
        *SERVER_LISTS,
        *DEFAULTS,
        *(f"projects.*.{path}" for path in SERVER_LISTS),
        "mcpagg",
        "enabledTools",
        *(["tools"] if has_composites(document) else ()),
    ]
    return re.compile("|".join(map(translate, globs)))


def _leaves(
    value: Any, way: tuple[tuple[str, Place], ...], passed: re.Pattern[str]
) -> Iterator[tuple[tuple[tuple[str, Place], ...], Any]]:
    """Yield (the keys that lead there with their places, value) of what holds no object."""
    (key, at), path = way[-1], ".".join(key for key, _ in way[1:])
    if (path and passed.match(path)) or is_entry(value):
        return
    if holds_names(key) and not restricts(key, ""):
        return
    if isinstance(value, dict) and restricts(key, "") and says_nothing(value):
        return
    if isinstance(value, dict):
        for name, member in value.items():
            if not (is_harmless(name) or is_off(name, value)):
                yield from _leaves(member, (*way, (name, at.at(name))), passed)
    elif isinstance(value, list) and any(isinstance(member, dict) for member in value):
        for index, member in enumerate(value):
            if not permits(member):
                yield from _leaves(member, (*way[:-1], (key, at.at(index))), passed)
    else:
        yield way, value


def _restricts(keys: tuple[str, ...], value: Any) -> bool:
    """Whether a value restricts by the names of its keys; the last of them that does counts.

    What is allowed among permissions is what the client does not ask for. A list called `tools`
    is that of the only ones.
    """
    if says_nothing(value):
        return False
    if keys == ("tools",):
        return isinstance(value, list) and "*" not in value
    named = [key for key in keys if restricts(key, "")]
    if not named or (gives(named[-1]) and any("permission" in key.lower() for key in keys)):
        return False
    return restricts(named[-1], value)


def _switches_off(
    keys: tuple[str, ...], value: Any, dialect: Dialect, servers: Collection[str]
) -> bool:
    """Whether a switch is off for one of the servers, or for one of its tools."""
    if len(keys) > 1 and keys[-2] in servers and keys[-1] in SWITCHES:
        return SWITCHES[keys[-1]] is value
    return value is False and names_one(keys[-1], servers, dialect.naming)


def _concerns(
    keys: tuple[str, ...], value: Any, dialect: Dialect, servers: Collection[str]
) -> bool:
    """Whether what restricts concerns the servers: by its path, or by what it names."""
    parts = {part for key in keys for part in key.split(".")}.difference(servers)
    if any(map(is_clients_own, parts)):
        return False
    if value is False:
        return bool(_OF_SERVERS.search(" ".join(words_of(" ".join(keys)))))
    first = next((n for n, key in enumerate(keys) if restricts(key, "")), 0)
    texts = [text for text in (value if isinstance(value, list) else [value]) if type(text) is str]
    if any(names_one(text, servers, dialect.naming) for text in (*texts, *keys[first + 1 :])):
        return True
    others = [text for text in texts if not (is_clients_own(text) or _OF_ANOTHER.match(text))]
    by_path = _OF_SERVERS.search(" ".join(words_of(" ".join(keys))))
    return bool(by_path and (others or not texts))
