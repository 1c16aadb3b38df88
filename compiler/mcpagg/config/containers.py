"""Where the servers are in a config: the shape is recognised, never asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mcpagg.config.dialects import (
    ANY,
    BARE_MAP,
    DIALECTS,
    KEYS,
    NOT_CONFIGS,
    ONE_SERVER,
    ROOT_QUIET,
    ROOT_UNHONOURED,
    Dialect,
    is_quiet,
)
from mcpagg.config.findings import Place, kind, meant, quoted

Keys = tuple[str, ...]


class Found(NamedTuple):
    """An entry that was found, unread."""

    name: str
    value: Any
    place: Place


def find_servers(document: Any, path: Path, root: Place) -> tuple[Dialect, list[Found]]:
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
    holders = _holders(document, path)
    if holders:
        dialect, places = next((held for held in holders if _count(held[1])), holders[0])
        _warn_of_others(dialect, holders, root)
        _warn_of_root(document, dialect, root)
        found = [entry for keys, value in places for entry in _entries(value, _at(root, keys))]
    else:
        dialect, found = _without_container(document, root)
    if not found and not root.errors:
        _nothing(document, holders, root)
    return dialect, _once(found)


def _holders(document: dict[str, Any], path: Path) -> list[tuple[Dialect, list[tuple[Keys, Any]]]]:
    """Return the containers that the document has, with what they hold, one row for each."""
    name = "/" + path.as_posix()
    found: dict[Keys, tuple[Dialect, list[tuple[Keys, Any]]]] = {}
    for dialect in DIALECTS:
        if dialect.files and not any(name.endswith("/" + ending) for ending in dialect.files):
            continue
        if dialect.container not in found and (places := list(_reach(document, dialect.container))):
            found[dialect.container] = (dialect, places)
    return list(found.values())


def _reach(value: Any, container: Keys, path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yield what stands at the end of a container's keys, with the keys that led there."""
    if not container:
        yield path, value
    elif isinstance(value, dict):
        first, *rest = container
        for key in value if first == ANY else (first,):
            if value.get(key) is not None:
                yield from _reach(value[key], tuple(rest), (*path, key))


def _at(root: Place, keys: Keys) -> Place:
    place = root
    for key in keys:
        place = place.at(key)
    return place


def _count(places: list[tuple[Keys, Any]]) -> int:
    return sum(len(value) for _, value in places if isinstance(value, dict | list))


def _entries(value: Any, place: Place) -> Iterator[Found]:
    if isinstance(value, dict):
        for name, entry in value.items():
            yield Found(name, entry, place.at(name))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            name = _own_name(entry)
            if name is None:
                place.at(index).error("is a server without a name", 'give it a "name"')
            else:
                yield Found(name, entry, place.at(index))
    else:
        place.error(f"expected an object of servers, found {kind(value)}")


def _own_name(entry: Any) -> str | None:
    """Return the name that an entry of a list gives itself."""
    names = [entry.get(key) for key in ("name", "id")] if isinstance(entry, dict) else []
    return next((name for name in names if isinstance(name, str)), None)


def _without_container(document: dict[str, Any], root: Place) -> tuple[Dialect, list[Found]]:
    """Read a document that is a server, or a map of servers, itself."""
    if _is_entry(document):
        name = _own_name(document)
        if name is not None:
            return ONE_SERVER, [Found(name, document, root)]
        root.error("is one server without a name", 'write {"mcpServers": {NAME: {…}}} around it')
        return ONE_SERVER, []
    servers = {key: value for key, value in document.items() if not is_quiet(key)}
    is_map = all(isinstance(value, dict) for value in servers.values())
    if not is_map or not any(_is_entry(value) for value in servers.values()):
        return BARE_MAP, []
    return BARE_MAP, [Found(key, value, root.at(key)) for key, value in servers.items()]


def _is_entry(value: dict[str, Any]) -> bool:
    return any(
        key in KEYS and KEYS[key].field in ("command", "url") and isinstance(member, str | list)
        for key, member in value.items()
    )


def _once(found: list[Found]) -> list[Found]:
    """Return each server once; two that differ and share a name are an error."""
    first: dict[str, Found] = {}
    for entry in found:
        known = first.setdefault(entry.name, entry)
        if known.value != entry.value:
            entry.place.error(
                f"two servers are called {quoted(entry.name)}: the other is {known.place.path}",
                "rename one of them",
            )
        elif known is not entry:
            entry.place.warn(f"is the same as {known.place.path}")
    return list(first.values())


def _warn_of_others(
    taken: Dialect, holders: list[tuple[Dialect, list[tuple[Keys, Any]]]], root: Place
) -> None:
    for dialect, places in holders:
        shorter = min(len(dialect.container), len(taken.container))
        if dialect.container[:shorter] != taken.container[:shorter] and _count(places):
            for keys, _ in places:
                _at(root, keys).warn(f"is not read: the servers of {_dotted(taken)} are")


def _warn_of_root(document: dict[str, Any], dialect: Dialect, root: Place) -> None:
    for key in document:
        if key in ROOT_UNHONOURED:
            root.at(key).warn("is not honoured", ROOT_UNHONOURED[key])
    known = ROOT_QUIET | ROOT_UNHONOURED.keys() | {row.container[0] for row in DIALECTS}
    others = [key for key in document if key not in known and not is_quiet(key)]
    if others and dialect.container[0] in document:
        root.warn(f"not about servers, ignored: {', '.join(map(quoted, others))}")


def _nothing(document: dict[str, Any], holders: list[Any], root: Place) -> None:
    """Say that there is no server, and what was looked for."""
    if holders:
        empty = ", ".join(_dotted(dialect) for dialect, _ in holders)
        root.error(f"no servers: {empty} is empty", 'write {NAME: {"command": …}} into it')
        return
    for keys, what in NOT_CONFIGS:
        if keys <= document.keys():
            root.error(f"no servers: this is {what}, not a client's config")
            return
    looked = ", ".join(dict.fromkeys(_dotted(dialect) for dialect in DIALECTS))
    containers = [dialect.container[0] for dialect in DIALECTS]
    close = next(filter(None, (meant(key, containers) for key in document)), "")
    has = ", ".join(quoted(key) for key in list(document)[:10]) or "nothing"
    root.error(
        f"no servers: looked for {looked}; the file has {has}",
        close or 'write {"mcpServers": {NAME: {"command": …}}}',
    )


def _dotted(dialect: Dialect) -> str:
    return f"`{'.'.join(dialect.container)}`"
