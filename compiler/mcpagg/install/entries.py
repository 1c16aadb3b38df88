"""What an entry becomes that starts a face, in the form of its client, and where its fields stand.

Only what says how a server is started changes: its command, arguments and variables, and of a
remote one what leads to it. All other keys stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcpagg.command.pasting import Form
from mcpagg.install.editing import Entry
from mcpagg.install.record import Hole
from mcpagg.install.secrets import Moved
from mcpagg.install.tree import Path as Keys
from mcpagg.install.tree import Span, Uneditable, value_at
from mcpagg.passes.config.dialects import Dialect
from mcpagg.passes.config.entries import REMOTE_FIELDS
from mcpagg.passes.config.keys import is_nested, key_of, within_of
from mcpagg_runtime.launch.launch import Location
from mcpagg_runtime.launch.variables import references

_STARTING = ("command", "args")
_OF_REMOTE = (*REMOTE_FIELDS, "target")


@dataclass(frozen=True, slots=True)
class Started:
    """What an entry is to start: the command line, and what it adds to the variables.

    `passed` are those that the client hands on by their names.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    passed: tuple[str, ...] = ()


class Fields:
    """Where an entry has the fields that say how its server is started.

    `value` is what it says, `form` how its client writes an entry.
    """

    def __init__(self, value: Mapping[str, Any], dialect: Dialect, form: Form) -> None:
        self.value = value
        self.dialect = dialect
        self.form = form
        self.places: dict[str, list[Keys]] = {}
        for name, place in _places(value, dialect):
            self.places.setdefault(name, []).append(place)

    @property
    def env(self) -> Keys:
        """Where its variables are, or would be."""
        found = [place for place in self.places.get("env", []) if not self._is_list(place)]
        command = self.places.get("command", [()])[0][:-1]
        return found[0] if found else (*command, self.form.keys.get("env", "env"))

    def _is_list(self, place: Keys) -> bool:
        return isinstance(value_at(self.value, place), list)

    @property
    def started(self) -> frozenset[str | int]:
        """The keys of the entry that say how its server is started."""
        names = ("command", "args", "env", "transport", *_OF_REMOTE)
        places = [place for name in names for place in self.places.get(name, ())]
        return frozenset(place[0] for place in [*places, self.env])

    def digest(self) -> str:
        """Return a digest of what the entry starts: its variables and its transport aside."""
        places = (
            place for name in (*_STARTING, *_OF_REMOTE) for place in self.places.get(name, ())
        )
        said = sorted((list(map(str, place)), value_at(self.value, place)) for place in places)
        return hashlib.sha256(json.dumps(said, default=str).encode()).hexdigest()

    def literals(self) -> list[str]:
        """Return the variables whose values are written out."""
        env = value_at(self.value, self.env)
        members = env.items() if isinstance(env, dict) else ()
        return [
            name
            for name, value in members
            if value is not None and not (isinstance(value, str) and refers(value))
        ]

    def place_of(self, location: Location) -> Keys | None:
        """Return where a string of the server's row stands, None if that is not known."""
        first = 0
        command = self.places.get("command", [])
        if command and self._is_list(command[0]):
            first = len(value_at(self.value, command[0])) - 1
        if location.field == "args" and isinstance(location.key, int):
            if location.key < first:
                return (*command[0], location.key + 1)
            args = self.places.get("args", [])
            return (*args[0], location.key - first) if args else None
        places = self.places.get(location.field, [])
        if location.field == "headers":
            places = [(*place, str(location.key)) for place in places]
            places = [place for place in places if value_at(self.value, place) is not None]
            places = places or self.places.get("token", [])
        return places[0] if places else None

    # --- Changes ------------------------------------------------------------------------------

    def start(self, entry: Entry, started: Started) -> None:
        """Have an entry start something else.

        Raises:
            Uneditable: its text has no safe place for a change.
        """
        behind = self._command(entry, list(started.argv))
        for name, value in started.env.items():
            entry.put((*self.env, name), value, behind)
        if started.passed:
            listed = value_at(self.value, (self.form.passed,)) or []
            names = [*listed, *(name for name in started.passed if name not in listed)]
            entry.put((self.form.passed,), names, behind)
        for field in _OF_REMOTE:
            for place in self.places.get(field, ()):
                self._remove(entry, place)

    def _command(self, entry: Entry, argv: list[str]) -> str:
        """Write the command line; return the last key of it."""
        command = self.places.get("command")
        if command is None:
            return self._instead_of_url(entry, argv)
        place, *more = command
        args, *others = self.places.get("args") or [
            (*place[:-1], self.form.keys.get("args", "args"))
        ]
        if self._is_list(place):
            entry.put(place, argv)
            others = self.places.get("args", [])
        else:
            entry.put(place, argv[0])
            entry.put(args, argv[1:], str(place[-1]))
        for other in (*more, *others):
            entry.remove(other)
        return str((place if self._is_list(place) else args)[0])

    def _instead_of_url(self, entry: Entry, argv: list[str]) -> str:
        url = next(self.places[name][0] for name in ("url", "target") if name in self.places)
        key = self.form.keys.get("command", "command")
        if self.form.is_one_line:
            entry.put((key,), argv, str(url[0]))
        else:
            entry.put((key,), argv[0], str(url[0]))
            entry.put(("args",), argv[1:], key)
        for name in ("type", "transport"):
            if name in self.form.members:
                entry.put((name,), self.form.members[name], key)
        for place in self.places.get("transport", ()):
            if place != ("type",) or "type" not in self.form.members:
                entry.put(place, "stdio")
        return key if self.form.is_one_line else "args"

    def _remove(self, entry: Entry, place: Keys) -> None:
        """Remove a field, and what held nothing else."""
        value = entry.value
        while len(place) > 1 and len(value_at(value, place[:-1]) or {}) == 1:
            place = place[:-1]
        entry.remove(place)


def holes(
    entry: Entry, fields: Fields, variables: Sequence[str], moved: Sequence[Moved]
) -> list[Hole]:
    """Return where values stand in the text of an entry: of variables in its `env`, and what moves.

    Raises:
        Uneditable: one cannot be told from what is around it.
    """
    found = []
    for name in variables:
        span = entry.span_of((*fields.env, name))
        if span is not None:
            found.append(Hole(span, name, is_token=True))
    for variable, written, location in moved:
        place = fields.place_of(location)
        span = entry.span_of(place) if place else None
        start = entry.text.find(written, span.start, span.end) if span else -1
        while start >= 0 and span is not None:
            found.append(Hole(Span(start, start + len(written)), variable, is_token=False))
            start = entry.text.find(written, start + len(written), span.end)
        if not any(hole.variable == variable for hole in found):
            raise Uneditable("a credential in it is written with escapes")
    return found


def refers(text: str) -> bool:
    """Whether a value refers to something that its client fills in."""
    return any(references(text)) or "${" in text or "{env:" in text or "{file:" in text


def _places(
    value: Mapping[str, Any], dialect: Dialect, path: Keys = (), within: str = ""
) -> Iterator[tuple[str, Keys]]:
    """Yield (field, where it stands) as `entries.read_entry` finds them."""
    for key, member in value.items():
        whole = within + key
        if isinstance(member, dict) and is_nested(dialect.keys, whole):
            yield from _places(member, dialect, (*path, key), within_of(whole))
        elif member is not None and (meaning := key_of(dialect.keys, whole)):
            yield meaning.field, (*path, key)
