"""The key of our own beside the servers: subsets of the tools, and reviewed texts for them.

"mcpagg": {
  "profiles": {NAME: {"expose": [SERVER:TOOL, …], "hide": [SERVER:TOOL, …], "clients": [NAME]}},
  "overlays": {SERVER:TOOL: {"description", "title", "annotations", "_meta"}}
}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from mcpagg.config import readers
from mcpagg.config.credentials import credential_in
from mcpagg.config.findings import Place, kind, quoted
from mcpagg.config.formats import Number
from mcpagg.jsontext import loads
from mcpagg.problems import meant
from mcpagg.spec import Overlay, Profile

KEY = "mcpagg"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MEMBERS = ("profiles", "overlays")
_PROFILE = ("expose", "hide", "clients")
_OVERLAID = {"description": str, "title": str, "annotations": dict, "_meta": dict}


def read_profiles(
    document: Mapping[str, Any], servers: Collection[str], root: Place
) -> tuple[Profile, ...]:
    """Read the profiles; `servers` are the names of all, those that are left out too."""
    found = []
    taken: dict[str, str] = {}
    for name, value, at in _members(document, "profiles", root):
        if not _NAME.fullmatch(name):
            at.error("a profile's name has letters, digits, _, . and -", "rename it")
        if not isinstance(value, dict):
            at.error(f"expected an object, found {kind(value)}", 'write {"expose": [SERVER:TOOL]}')
            continue
        _refuse_others(value, _PROFILE, at)
        lists = {key: _texts(value.get(key), at.at(key)) for key in _PROFILE}
        for key in ("expose", "hide"):
            for index, glob in enumerate(lists[key] or ()):
                _check_glob(glob, servers, at.at(key).at(index))
        for index, client in enumerate(lists["clients"] or ()):
            other = taken.setdefault(client.casefold(), name)
            if other != name:
                what = f"{quoted(client)} has the profile '{other}' already"
                at.at("clients").at(index).error(what, "name a client once")
        expose = lists.pop("expose") if "expose" in value else None
        rest = {key: listed or () for key, listed in lists.items() if key != "expose"}
        found.append(Profile(name=name, path=at.path, expose=expose, **rest))
    return tuple(found)


def read_overlays(
    document: Mapping[str, Any], servers: Collection[str], root: Place
) -> tuple[Overlay, ...]:
    """Read the overlays; `servers` are the names of all, those that are left out too."""
    found = []
    for target, value, at in _members(document, "overlays", root):
        named = [name for name in servers if target.startswith(f"{name}:")]
        if not named:
            near = meant(target.partition(":")[0], servers)
            at.error("is for no server of the config", near or "write SERVER:TOOL")
            continue
        if not isinstance(value, dict):
            at.error(f"expected an object, found {kind(value)}", 'write {"description": "…"}')
            continue
        _refuse_others(value, tuple(_OVERLAID), at)
        for key, wanted in _OVERLAID.items():
            member = value.get(key)
            if member is not None and not isinstance(member, wanted):
                shape = "a string" if wanted is str else "an object"
                at.at(key).error(f"expected {shape}, or null to leave it out, found {kind(member)}")
        for place, text in _strings(value, at):
            if what := credential_in("", text):
                place.error(f"holds {what}", "the file would hold it")
        server = max(named, key=len)
        tool = target[len(server) + 1 :]
        found.append(Overlay(server=server, tool=tool, path=at.path, patch=_plain(value)))
    return tuple(found)


def _members(
    document: Mapping[str, Any], member: str, root: Place
) -> Iterator[tuple[str, Any, Place]]:
    """Yield (name, value, place) of what stands in a member of our key."""
    own, at = document.get(KEY), root.at(KEY)
    if own is None:
        return
    if not isinstance(own, dict):
        at.error(f"expected an object, found {kind(own)}", f"it has {' and '.join(_MEMBERS)}")
        return
    if member == _MEMBERS[0]:  # once
        _refuse_others(own, _MEMBERS, at)
    value, at = own.get(member), at.at(member)
    if isinstance(value, dict):
        yield from ((name, one, at.at(name)) for name, one in value.items())
    elif value is not None:
        at.error(f"expected an object, found {kind(value)}")


def _refuse_others(value: Mapping[str, Any], known: tuple[str, ...], at: Place) -> None:
    """Report members that are not known: this key is ours, so they are mistakes."""
    for key in value:
        if key not in known and not key.startswith(("//", "#")):
            at.at(key).error("is not understood", meant(key, known) or f"known: {', '.join(known)}")


def _texts(value: Any, at: Place) -> tuple[str, ...] | None:
    """Read a list of strings, or one."""
    if value is None or isinstance(value, str):
        return (value,) if value else None
    if not isinstance(value, list):
        at.error(f"expected a list of strings, found {kind(value)}")
        return None
    read = [readers.text(item, at.at(index)) for index, item in enumerate(value)]
    return tuple(item for item in read if item is not None)


def _check_glob(glob: str, servers: Collection[str], at: Place) -> None:
    """Report a glob that is for no server: a filter that does nothing would fail open.

    One without a colon is the name of a composite tool.
    """
    if ":" in glob and not any(
        fnmatchcase(server, glob[:index])
        for index, char in enumerate(glob)
        if char == ":"
        for server in servers
    ):
        near = meant(glob.partition(":")[0], servers)
        at.error(f"{quoted(glob)} is for no server of the config", near or "write SERVER:TOOL")


def _plain(value: Any) -> Any:
    """Return a value of the config as a JSON value of a tool."""
    if isinstance(value, Number):
        return loads(value.text)
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list) else value


def _strings(value: Any, at: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _strings(member, at.at(key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _strings(member, at.at(index))
