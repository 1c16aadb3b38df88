"""`--uninstall`: entries that are faces become what they were, byte for byte.

What a client or its user has changed since beside how the server is started stays as it is now:
values of variables, what is switched off, what is allowed. An entry that starts something else is
left.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpagg.install.editing import Config, Entry
from mcpagg.install.entries import Fields
from mcpagg.install.places import Scope, backup_for, data_folder
from mcpagg.install.planning import Reading
from mcpagg.install.record import (
    HIDDEN,
    Installed,
    Record,
    fill,
    masked,
    read_record,
    record_for,
)
from mcpagg.install.tree import Path as Keys
from mcpagg.install.tree import Uneditable, value_at
from mcpagg.install.writing import (
    check_unchanged,
    locked,
    to_the_end,
    write_config,
)
from mcpagg.jsontext import members_of
from mcpagg.passes.config.containers import RawEntry
from mcpagg.passes.emission.output import PRIVATE, READABLE, write
from mcpagg.passes.environment.faces import has_faces, source_for
from mcpagg.problems import ConfigError, Problem


@dataclass(slots=True)
class Removal:
    """What is about to be put back in one scope: the text of each entry before.

    `shown` {server: (before, after)} has no value that the client keeps; `left` {server: what to
    say of it} are faces that stay.
    """

    scope: Scope
    config: Config
    backup: Path
    texts: dict[Keys, str] = field(default_factory=dict)
    records: dict[Path, Record] = field(default_factory=dict)
    shown: dict[str, tuple[str, str]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def removal_of(
    reading: Reading, only: Collection[str], skip: Collection[str], environ: Mapping[str, str]
) -> Removal | None:
    """Return what can be put back in a scope, None if it has no face.

    Raises:
        ConfigError: a record cannot be read.
    """
    backup = backup_for(reading.scope, environ, sys.platform)
    removal = Removal(reading.scope, reading.config, backup)
    texts = removal.texts
    for entry in reading.entries:
        face = reading.face(entry)
        if face is None or (only and entry.name not in only) or entry.name in skip:
            continue
        record = removal.records.setdefault(face.file, read_record(face.file))
        entries = record.of(reading.scope)
        try:
            texts[reading.keys(entry)] = _restored(reading, entry, entries.get(entry.name), removal)
        except Uneditable as why:
            removal.left[entry.name] = f"still starts {face.file}: {why}"
        else:
            del entries[entry.name]
    if not texts and not removal.left:
        return None
    try:
        reading.config.replaced(texts)
    except Uneditable as why:
        problem = Problem("", f"cannot be edited safely: {why}")
        raise ConfigError(str(reading.scope.file), [problem]) from None
    return removal


def _restored(
    reading: Reading, entry: RawEntry, installed: Installed | None, removal: Removal
) -> str:
    """Return the text of an entry before it became a face.

    Raises:
        Uneditable: it is not known, or the entry has changed since.
    """
    if installed is None:
        there = f"; {removal.backup} may have it" if removal.backup.is_file() else ""
        raise Uneditable(f"what it was before is not recorded{there}")
    now, fields = reading.config.entry(reading.keys(entry)), reading.fields(entry)
    if fields.digest() != installed.after:
        raise Uneditable("how it is started has been changed since")
    values = members_of(value_at(now.value, fields.env))

    def value(variable: str, is_token: bool) -> str:
        span = now.span_of((*fields.env, variable))
        if span is None or (not isinstance(values.get(variable), str | bool) and not is_token):
            raise Uneditable(f"its variable {variable} is gone")
        return now.text[span.start : span.end] if is_token else str(values[variable])

    before = Entry(now.format, fill(installed.before, value), now.span, now.column)
    shown = Entry(now.format, masked(installed.before), now.span, now.column)
    changes = [*_changes(fields, _fields_of(before, fields), installed)]
    for keys, new in changes:
        _set(before, keys, new)
        _set(shown, keys, HIDDEN if keys[:-1] and new is not None else new)
    if any(_changes(fields, _fields_of(before, fields), installed)):
        raise Uneditable("it has been changed since in a way that its text before has no place for")
    kept = {*installed.variables, *fields.literals()}
    removal.shown[entry.name] = (_hidden(now, fields.env, kept), shown.text)
    return before.text


def _fields_of(entry: Entry, like: Fields) -> Fields:
    return Fields(members_of(entry.value), like.dialect, like.form)


def _set(entry: Entry, keys: Keys, value: Any) -> None:
    if value is None:
        entry.remove(keys)
    else:
        entry.put(keys, value)


def _changes(now: Fields, before: Fields, installed: Installed) -> Iterator[tuple[Keys, Any]]:
    """Yield (where, value) of what has changed in an entry while it was a face, None for nothing.

    That is what does not say how its server is started, such as whether it is switched off, and
    variables that were not among its own.
    """
    for key in dict.fromkeys([*before.value, *now.value]):
        is_other = key not in now.started | before.started
        if is_other and now.value.get(key) != before.value.get(key):
            yield (key,), now.value.get(key)
    old, new = (members_of(value_at(fields.value, fields.env)) for fields in (before, now))
    for name in dict.fromkeys([*old, *new]):
        is_own = name in old or name not in installed.added
        if is_own and old.get(name) != new.get(name):
            if "command" not in before.places:
                raise Uneditable(f"its variable {name} has been added since")
            yield (*before.env, name), new.get(name)


def _hidden(entry: Entry, env: Keys, variables: Collection[str]) -> str:
    """Return the text of an entry without the values of variables."""
    text = entry.text
    spans = [entry.span_of((*env, name)) for name in variables]
    for span in sorted(filter(None, spans), reverse=True):
        text = f'{text[: span.start]}"{HIDDEN}"{text[span.end :]}'
    return text


def remove(removal: Removal, now: Config, environ: Mapping[str, str]) -> tuple[Config, list[Path]]:
    """Write the config of a client as it was, and remove what nothing starts any more.

    `now` is the config as it is. Return it as it is then, and the files that are left of what was
    installed.

    Raises:
        ConfigError: the config has changed meanwhile, or cannot be written.
    """
    left: list[Path] = []
    with locked(removal.scope), to_the_end():
        check_unchanged(removal.scope, now)
        new = now.replaced(removal.texts)
        if removal.texts:
            write_config(removal.scope, now, new)
        for file, record in removal.records.items():
            is_ours = file.is_relative_to(data_folder(environ, sys.platform))
            if not record.is_empty:
                write(record_for(file), record.data(), PRIVATE if is_ours else READABLE)
                continue
            record_for(file).unlink(missing_ok=True)
            if removal.left:  # these may start it
                continue
            if not is_ours:
                left += [file, source_for(file)]
                continue
            for path in (file, source_for(file)):
                path.unlink(missing_ok=True)
            with suppress(OSError):  # something else is in it
                file.parent.rmdir()
        _remove_backups(removal, new)
    return new, left


def _remove_backups(removal: Removal, config: Config) -> None:
    """Remove what was kept of a config, if none of its entries is a face any more.

    What was kept when it had another path is known by saying the same.
    """
    if has_faces(config.value):
        return
    _, _, name = removal.backup.name.partition("-")
    with suppress(OSError):  # none is kept
        removal.backup.unlink(missing_ok=True)
        for file in removal.backup.parent.iterdir():
            if file.name.endswith(f"-{name}") and file.read_bytes() == config.data:
                file.unlink()
