"""Places in a config, and the faults that are reported there.

A `Place` is passed down while the config is read. A reader that finds a fault reports it there and
continues, so that one run shows all faults.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mcpagg.problems import Problem
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.launch import Location

COMMENTS = ("//", "#")
"""What begins a key of ours that is no mistake, but a comment."""
IS_SUBTOOLS = re.compile(r"^[Ss]ub.{0,2}[Tt]o*ls?$")
"""What fits the key of a composite tool that others do not have, also where it is misspelt."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 100


class Written(NamedTuple):
    """A string of the config, and the JSON path where it stands."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the config; all places of one config share `errors` and `warnings`."""

    path: str = ""
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def at(self, key: str | int) -> Place:
        return Place(step(self.path, key), self.errors, self.warnings)

    def of(self, server: ServerSpec, location: Location) -> Place:
        """Return the place of a string of a server's row: see `where`."""
        return Place(where(server, location), self.errors, self.warnings)

    def error(self, what: str, remedy: str = "") -> None:
        """Report what makes the config unusable."""
        self.errors.append(Problem(self.path, what, remedy))

    def warn(self, what: str, remedy: str = "") -> None:
        """Report what the user should know."""
        self.warnings.append(Problem(self.path, what, remedy))


class ValidationFault(ValueError):
    """Raised by a validator: what is wrong, in our words, and what to do about it."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


def step(path: str, key: str | int) -> str:
    """Return the JSON path of member `key` of what stands at `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if _PLAIN.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{quoted(key)}]"


def reach(value: Any, path: str, at: Place) -> tuple[Any, Place]:
    """Return what stands at a dotted path below a value, None if nothing does, and its place.

    Any dots of the path may be within a key: clients write `"a": {"b": …}` as `"a.b": …` too.
    """
    if not path:
        return value, at
    parts = path.split(".")
    for end in range(len(parts), 0, -1) if isinstance(value, dict) else ():
        key = ".".join(parts[:end])
        if value.get(key) is not None:
            inner, place = reach(value[key], ".".join(parts[end:]), at.at(key))
            if inner is not None:
                return inner, place
    return None, at


def quoted(text: str) -> str:
    """Return `text` as a JSON string that any terminal can show."""
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return json.dumps(short.encode("utf-8", "replace").decode("utf-8"), ensure_ascii=False)


def where(server: ServerSpec, location: Location) -> str:
    """Return the JSON path in the config of a string of a server's row.

    It is the path that was recorded when the entry was read. What the entry does not have (a
    folder that is missing, say) is meant at the entry's own path.
    """
    if location in server.paths:
        return server.paths[location]
    if location.field == "masks":  # which may stand beside the servers
        return next(mask.path for mask in server.masks if mask.name == location.key)
    path = server.paths.get(Location(location.field)) or step(server.path, location.field)
    return path if location.key is None else step(path, location.key)


def kind(value: object) -> str:
    """Return what sort of JSON value this is, for a message: never the value itself."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = (("a string", str), ("a list", list), ("an object", dict))
    return next((name for name, base in names if isinstance(value, base)), "a number")
