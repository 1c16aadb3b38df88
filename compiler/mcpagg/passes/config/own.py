"""The key `mcpagg` beside the servers: subsets of the tools, and reviewed texts for them.

"mcpagg": {
  "profiles": {NAME: {"expose": [SERVER:TOOL, …], "hide": [SERVER:TOOL, …], "clients": [NAME]}},
  "overlays": {SERVER:TOOL: {"description", "title", "annotations", "_meta"}}
}
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mcpagg.passes.config.credentials import credential_in
from mcpagg.passes.config.places import Place, quoted
from mcpagg.passes.config.validation import place_of, plain, validated
from mcpagg.spec import Overlay, Profile

if TYPE_CHECKING:
    from mcpagg.passes.config import models

KEY = "mcpagg"


def read_own(
    document: Mapping[str, Any], servers: Collection[str], root: Place
) -> tuple[tuple[Profile, ...], tuple[Overlay, ...]]:
    """Read both; `servers` are the names of all, those that are left out too."""
    written, at = document.get(KEY), root.at(KEY)
    if written is None:
        return (), ()
    own: models.Own | None = validated("Own", written, at, servers)
    if isinstance(written, dict):
        for place, text in _strings(written.get("overlays"), at.at("overlays")):
            if what := credential_in("", text):
                place.error(f"holds {what}", "the file would hold it")
    if own is None:
        return (), ()
    profiles = own.profiles or {}
    _check_clients(profiles, written, at)
    return (
        tuple(
            Profile(
                name=name,
                path=at.at("profiles").at(name).path,
                expose=None if profile.expose is None else tuple(profile.expose),
                hide=tuple(profile.hide or ()),
                clients=tuple(profile.clients or ()),
            )
            for name, profile in profiles.items()
        ),
        tuple(
            _overlay(target, written["overlays"][target], servers, at.at("overlays").at(target))
            for target in own.overlays or ()
        ),
    )


def _check_clients(profiles: Mapping[str, models.Profile], written: Any, at: Place) -> None:
    """Report a client that is named by two profiles."""
    owners: dict[str, str] = {}
    for name, profile in profiles.items():
        for index, client in enumerate(profile.clients or ()):
            other = owners.setdefault(client.casefold(), name)
            if other != name:
                place = place_of(at, written, ("profiles", name, "clients", index))
                what = f"{quoted(client)} has the profile '{other}' already"
                place.error(what, "name a client once")


def _overlay(target: str, written: Any, servers: Collection[str], at: Place) -> Overlay:
    server = max((name for name in servers if target.startswith(f"{name}:")), key=len)
    return Overlay(
        server=server, tool=target[len(server) + 1 :], path=at.path, patch=plain(written)
    )


def _strings(value: Any, at: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _strings(member, at.at(key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _strings(member, at.at(index))
