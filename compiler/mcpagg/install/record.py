"""What was installed, so that it can be undone: the text of each entry before.

The record lies beside FILE. It has no value that its client keeps: where one stood, the text has a
hole, which is filled from the entry as it is when the entry is put back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from mcpagg.install.places import Scope, repository_of
from mcpagg.install.tree import Path as Keys
from mcpagg.install.tree import Span
from mcpagg.problems import ConfigError, Problem

HIDDEN = "***"


class Hole(NamedTuple):
    """A place in the text of an entry where the value of a variable stands, or a text of it.

    `is_token`: it is the value as it is written, quotes included.
    """

    span: Span
    variable: str
    is_token: bool


Piece = str | tuple[str, bool]
"""A part of an entry's text, or (variable, is_token) of a hole."""


def cut(text: str, holes: Sequence[Hole]) -> tuple[Piece, ...]:
    """Return a text without what stands in its holes."""
    pieces: list[Piece] = []
    end = 0
    for span, variable, is_token in sorted(holes):
        pieces += [text[end : span.start], (variable, is_token)]
        end = span.end
    return (*pieces, text[end:])


def fill(pieces: Sequence[Piece], value: Callable[[str, bool], str]) -> str:
    """Return a text with its holes filled: `value(variable, is_token)` is what stands in one."""
    return "".join(piece if isinstance(piece, str) else value(*piece) for piece in pieces)


def masked(pieces: Sequence[Piece]) -> str:
    """Return a text to be shown, in which no value stands."""
    return fill(pieces, lambda _, is_token: f'"{HIDDEN}"' if is_token else HIDDEN)


@dataclass(frozen=True, slots=True)
class Installed:
    """An entry that was made a face: where it is, its text before, a digest of what it starts.

    `variables` are those whose values its client keeps; `added` are those that it did not have.
    """

    keys: Keys
    before: tuple[Piece, ...]
    after: str
    variables: tuple[str, ...]
    added: tuple[str, ...] = ()


@dataclass(slots=True)
class Record:
    """All entries that start one FILE: {(path of the config, keys of the scope): {server: …}}."""

    file: Path
    entries: dict[tuple[str, Keys], dict[str, Installed]] = field(default_factory=dict)

    def of(self, scope: Scope) -> dict[str, Installed]:
        """Return the entries of a scope, also if its config had another path when they were made.

        A config that was moved is gone from where it was, and has kept its name.
        """
        here = (str(scope.target), scope.keys)
        if here not in self.entries:
            for config, keys in [*self.entries]:
                is_same = keys == scope.keys and Path(config).name == scope.target.name
                if is_same and not Path(config).exists():
                    self.entries[here] = self.entries.pop((config, keys))
                    break
        return self.entries.setdefault(here, {})

    def data(self) -> bytes:
        folder = self.file.parent
        configs = [
            {
                "config": _relative(Path(config), folder),
                "keys": keys,
                "entries": {name: asdict(one) for name, one in entries.items()},
            }
            for (config, keys), entries in self.entries.items()
            if entries
        ]
        return (json.dumps({"configs": configs}, indent=1, ensure_ascii=False) + "\n").encode()

    @property
    def is_empty(self) -> bool:
        return not any(self.entries.values())


def record_for(file: Path) -> Path:
    """Return where the record of an installed FILE lies."""
    return file.with_name(f"{file.stem}.installed.json")


def read_record(file: Path) -> Record:
    """Return the record of what was installed of FILE, an empty one if there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    place = record_for(file)
    record = Record(file)
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        return record
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        raise ConfigError(str(place), [Problem("", what)]) from None
    try:
        for one in json.loads(data)["configs"]:
            config = Path(file.parent, one["config"]).resolve()
            record.entries[str(config), tuple(one["keys"])] = {
                name: Installed(
                    tuple(entry["keys"]),
                    tuple(p if isinstance(p, str) else (p[0], p[1]) for p in entry["before"]),
                    entry["after"],
                    tuple(entry["variables"]),
                    tuple(entry["added"]),
                )
                for name, entry in one["entries"].items()
            }
    except (ValueError, LookupError, TypeError, AttributeError):
        what = "is not as --install wrote it, so that nothing can be put back by it"
        remedy = "take it from where it is kept, or remove it"
        raise ConfigError(str(place), [Problem("", what, remedy)]) from None
    return record


def own_file(file: Path, scope: Scope) -> Path:
    """Return where FILE of a scope lies, whose entries name `file`.

    A repository may have been moved or copied since they were written: what lies at the same place
    in it, with a record of this config, is meant.

    Raises:
        ConfigError: a record cannot be read.
    """
    if scope.root is None or file.is_relative_to(scope.root):
        return file
    parts = file.parts[1:]
    places = (scope.root.joinpath(*parts[first:]) for first in range(len(parts)))
    return next((place for place in places if read_record(place).of(scope)), file)


def _relative(config: Path, folder: Path) -> str:
    """Return a path as a record has it: relative within one repository, else absolute."""
    root = repository_of(folder)
    is_near = config.parent == folder or (root is not None and config.is_relative_to(root))
    return os.path.relpath(config, folder).replace(os.sep, "/") if is_near else str(config)
