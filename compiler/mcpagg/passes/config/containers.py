"""Finds the servers in a config, and recognises its dialect by where they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import count as count_from
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mcpagg.jsontext import members_of
from mcpagg.passes.config.dialects import (
    ANY,
    API_DOCUMENTS,
    BARE_MAP,
    COMMON_WORDS,
    CONTAINERS,
    DIALECTS,
    NOT_CONFIGS,
    OF_CATALOGUES,
    ONE_SERVER,
    Dialect,
)
from mcpagg.passes.config.keys import KEYS, is_quiet
from mcpagg.passes.config.places import Place, kind, quoted
from mcpagg.problems import count, suggest

Keys = tuple[str, ...]

_SHOWN = 6
_DEEP = 3
_WRITE_MAP = 'write {NAME: {"command": …}}'
_COMPILE_THAT = "compile the file that it names"
_NEVER_A_NAME = frozenset({"mcpServers", "mcp_servers", "context_servers"})
_WRITE_AROUND = 'write {"mcpServers": {NAME: {…}}} around it'


class RawEntry(NamedTuple):
    """An entry that is not read yet; `beside` is the object that holds its container.

    `keys` lead to it from the root: names, and for an entry of a list its index.
    """

    name: str
    value: Any
    place: Place
    beside: Mapping[str, Any]
    keys: tuple[str | int, ...] = ()


class Section(NamedTuple):
    """A container of servers: the keys that lead to it, its value, the object they start at."""

    keys: Keys
    value: Any
    beside: Mapping[str, Any]


def find_servers(document: Any, path: Path, root: Place) -> tuple[Dialect, list[RawEntry]]:
    """Return the entries of a config in order, and the dialect they are written in.

    `path` is where the config lies; its last parts tell some clients' files apart. When there is
    no entry, an error at `root` says what was looked for.
    """
    if not isinstance(document, dict):
        root.error(
            f"expected an object that holds `mcpServers`, found {kind(document)}",
            'write {"mcpServers": {NAME: {"command": …}}}',
        )
        return BARE_MAP, []
    is_config = _NEVER_A_NAME & document.keys() or not API_DOCUMENTS & document.keys()
    candidates = _candidates(document, path) if is_config else []
    if candidates:
        dialect, places = next((pair for pair in candidates if _count(pair[1])), candidates[0])
        if listing := next(filter(_is_catalogue, places), None):
            what = f"no servers: `{'.'.join(listing.keys)}` lists servers to install"
            root.error(what, "compile the config of the client that starts them")
            return dialect, []
        _warn_of_others(dialect, candidates, root)
        entries = [entry for section in places for entry in _entries(section, root)]
    else:
        dialect, entries = _without_container(document, root)
    if not entries and not root.errors:
        _report_no_servers(document, candidates, root)
    return dialect, entries


def _candidates(document: dict[str, Any], path: Path) -> list[tuple[Dialect, list[Section]]]:
    """Return the containers that the document has, with what they hold, one row for each."""
    candidates: dict[Keys, tuple[Dialect, list[Section]]] = {}
    servers = _bare_map(document)
    for dialect in DIALECTS:
        if dialect.container in candidates or not _fits(dialect, document, path):
            continue
        places = [
            section
            for container in (dialect.container, *dialect.others)
            for section in _sections_at(document, container, document)
            if not (section.keys[0] in servers and is_entry(section.value))  # the name of a server
            and (dialect.container not in COMMON_WORDS or _may_hold_servers(section.value))
        ]
        if places:
            candidates[dialect.container] = (dialect, places)
    return list(candidates.values())


def _is_catalogue(section: Section) -> bool:
    """Whether a container describes servers to install, and none to start."""
    members = _members(section.value) if isinstance(section.value, dict | list) else []
    described = any(OF_CATALOGUES & members_of(member).keys() for member in members)
    return described and not any(map(is_entry, members))


def _may_hold_servers(value: Any) -> bool:
    """Whether at least half of the members of a container are objects, as servers are."""
    if not isinstance(value, dict | list):
        return False
    objects = [member for member in _members(value) if isinstance(member, dict)]
    return 2 * len(objects) >= len(value)


def _members(value: dict[str, Any] | list[Any]) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else value


def _fits(dialect: Dialect, document: dict[str, Any], path: Path) -> bool:
    """Whether the file's name, schema or keys are the dialect's, if it asks for any."""
    if not dialect.files and not dialect.signs:
        return True
    if dialect.signs and dialect.signs <= document.keys():
        return True
    if dialect.schema and dialect.schema in str(document.get("$schema")):
        return True
    name = path.absolute().as_posix()
    return any(fnmatchcase(name, f"*[/.]{ending}") for ending in dialect.files)


def _sections_at(
    value: Any, container: Keys, beside: Mapping[str, Any], path: Keys = ()
) -> Iterator[Section]:
    """Yield what stands at the end of a container's keys, of which some may be one with dots."""
    if not container:
        yield Section(path, value, beside)
    for end in range(len(container), 0, -1) if isinstance(value, dict) else ():
        first, rest = container[:end], container[end:]
        for key in value if first == (ANY,) else (".".join(first),):
            if value.get(key) is not None:
                below = value[key] if first == (ANY,) and isinstance(value[key], dict) else beside
                yield from _sections_at(value[key], rest, below, (*path, key))


def _at(root: Place, keys: Keys) -> Place:
    place = root
    for key in keys:
        place = place.at(key)
    return place


def _count(places: list[Section]) -> int:
    return sum(len(section.value) for section in places if isinstance(section.value, dict | list))


def _entries(section: Section, root: Place) -> Iterator[RawEntry]:
    place = _at(root, section.keys)
    if is_entry(section.value):
        place.error("is one server without a name", "write {NAME: {…}} around it")
    elif isinstance(section.value, dict) and section.value and not _holds_objects(section.value):
        keys = ", ".join(map(quoted, section.value))
        place.error(f"holds no servers: found {keys}, and no object", _WRITE_MAP)
    elif isinstance(section.value, dict):
        for name, entry in section.value.items():
            yield RawEntry(name, entry, place.at(name), section.beside, (*section.keys, name))
    elif isinstance(section.value, list):
        yield from _listed(section, place)
    elif isinstance(section.value, str):
        place.error("names a file, and only its own client looks there", _COMPILE_THAT)
    else:
        place.error(f"expected an object of servers, found {kind(section.value)}", _WRITE_MAP)


def _listed(section: Section, place: Place) -> Iterator[RawEntry]:
    """Yield the entries of a list; a URL without a name is called as its host is."""
    names = {_own_name(entry) for entry in section.value}
    for index, written in enumerate(section.value):
        at = place.at(index)
        is_url = isinstance(written, str) and "://" in written
        entry = {"url": written} if is_url else written
        name = _own_name(entry)
        if isinstance(entry, str):
            at.error("names a file, and only its own client looks there", _COMPILE_THAT)
            continue
        if name is None and (host := _host(entry)):
            name = next(n for n in _names(host) if n not in names)
            names.add(name)
            at.warn(f"has no name; here it is called {quoted(name)}", 'give it a "name"')
        if name is None:
            at.error("is a server without a name", 'give it a "name"')
        else:
            yield RawEntry(name, entry, at, section.beside, (*section.keys, index))


def _names(first: str) -> Iterator[str]:
    yield first
    yield from (f"{first}-{number}" for number in count_from(2))


def host_of(url: str) -> str:
    """Return the host of a URL, "" if it is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _host(entry: Any) -> str:
    urls = [entry.get(key) for key in ("url", "target")] if isinstance(entry, dict) else []
    return next((host_of(url) for url in urls if isinstance(url, str)), "")


def _own_name(entry: Any) -> str | None:
    """Return the name that an entry of a list gives itself; Continue's hub knows some by `uses`."""
    names = [entry.get(key) for key in ("name", "id", "uses")] if isinstance(entry, dict) else []
    return next((name for name in names if isinstance(name, str)), None)


def _holds_objects(value: dict[str, Any] | list[Any]) -> bool:
    return any(isinstance(member, dict) for member in _members(value))


def _without_container(document: dict[str, Any], root: Place) -> tuple[Dialect, list[RawEntry]]:
    """Read a document that is a server, or a map of servers, itself."""
    if is_entry(document):
        name = _own_name(document)
        if name is not None:
            return ONE_SERVER, [RawEntry(name, document, root, {})]
        root.error("is one server without a name", _WRITE_AROUND)
        return ONE_SERVER, []
    servers = _bare_map(document).items()
    return BARE_MAP, [RawEntry(key, value, root.at(key), {}, (key,)) for key, value in servers]


def _bare_map(document: dict[str, Any]) -> dict[str, Any]:
    """Return the servers of a document that is a map of servers itself; nothing if it is none.

    It is one when all values are objects and at least half of them are servers: a config of
    something else may well have one section with a `command` or a `url`.
    """
    members = {key: value for key, value in document.items() if not is_quiet(key)}
    if not all(isinstance(value, dict) for value in members.values()):
        return {}
    servers = [key for key, value in members.items() if is_entry(value)]
    if not servers or 2 * len(servers) < len(members) or _NEVER_A_NAME & set(servers):
        return {}
    return members


def is_entry(value: Any) -> bool:
    return isinstance(value, dict) and any(
        key in KEYS and KEYS[key].field in ("command", "url") and isinstance(member, str | list)
        for key, member in value.items()
    )


def _warn_of_others(
    chosen: Dialect, candidates: list[tuple[Dialect, list[Section]]], root: Place
) -> None:
    """Warn of containers that hold servers as well, each kind in one line."""
    for dialect, places in candidates:
        full = [section for section in places if _count([section])]
        shorter = min(len(dialect.container), len(chosen.container))
        if dialect.container[:shorter] != chosen.container[:shorter] and full:
            more = (
                f", nor those of {count(len(full) - 1, 'other')} like it" if len(full) > 1 else ""
            )
            what = f"is not read: the servers of {_dotted(chosen)} are{more}"
            _at(root, full[0].keys).warn(what)


def _report_no_servers(document: dict[str, Any], candidates: list[Any], root: Place) -> None:
    """Say that there is no server, and what was looked for."""
    if candidates:
        empty = ", ".join(_dotted(dialect) for dialect, _ in candidates)
        root.error(f"no servers: {empty} is empty", f"{_WRITE_MAP} into it")
        return
    for keys, what in NOT_CONFIGS:
        if keys <= document.keys():
            root.error(f"no servers: this is {what}", "compile the config that has them")
            return
    short = [_dotted(dialect) for dialect in DIALECTS if len(dialect.container) < _DEEP]
    looked = ", ".join(list(dict.fromkeys(short))[:_SHOWN])
    containers = {container[0] for container in CONTAINERS}
    there = next((key for key in document if key in containers), None)
    has = ", ".join(quoted(key) for key in list(document)[:10]) or "nothing"
    what = f"looked for {looked} and others; the file has {has}"
    if there is not None:
        what += f", and in {quoted(there)} nothing that is a server"
    remedy = _misspelt(document, containers) or f"{_WRITE_MAP} as `mcpServers`"
    root.error(f"no servers: {what}", remedy)


def _misspelt(document: dict[str, Any], containers: Collection[str]) -> str:
    """Return the remedy for a key that is almost a container's, if it may well be meant as one."""
    for key, value in document.items():
        if key not in containers and isinstance(value, dict | list):
            names_them = "mcp" in key.lower() or any(map(is_entry, _members(value)))
            if names_them and (close := suggest(key, containers)):
                return close
    return ""


def _dotted(dialect: Dialect) -> str:
    return f"`{'.'.join(dialect.container)}`"
