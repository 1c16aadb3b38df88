"""`--install`: the entries of a client become faces of one FILE, under the names that they have.

plans ─▶ compilations ─▶ changes ─▶ yes ─▶ FILE, source, record, backup, config
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.compilation import Compilation
from mcpagg.install import starting
from mcpagg.install.compiling import check_plan, compile_plan
from mcpagg.install.editing import Config, Entry
from mcpagg.install.entries import Fields, Started, holes
from mcpagg.install.places import Scope, backup_for, data_folder, file_for, find_scopes
from mcpagg.install.planning import Chosen, Plan, Reading, plan_of
from mcpagg.install.record import (
    Installed,
    Record,
    cut,
    masked,
    read_record,
    record_for,
)
from mcpagg.install.running import writer_of
from mcpagg.install.tree import Path as Keys
from mcpagg.install.tree import Uneditable
from mcpagg.install.writing import (
    all_or_none,
    check_unchanged,
    locked,
    to_the_end,
    write_config,
)
from mcpagg.job import Listener
from mcpagg.options import Options
from mcpagg.passes.emission.output import (
    EXECUTABLE,
    PRIVATE,
    READABLE,
    check_name,
    check_target,
    is_emitted,
    make_folder,
    put,
    write,
)
from mcpagg.passes.emission.readback import digest_of
from mcpagg.passes.environment.faces import has_faces, source_for, source_of
from mcpagg.problems import ConfigError, Problem, suggest

if TYPE_CHECKING:
    from mcpagg.command.arguments import Run


@dataclass(frozen=True, slots=True)
class Change:
    """An entry before and after, to be shown: texts without the values that its client keeps."""

    name: str
    before: str
    after: str


@dataclass(slots=True)
class Installation:
    """What is about to be written for one scope.

    `texts` are the new ones of entries. `argvs` are the command lines of the entries that are to be
    changed by hand. `lost` are variables that its servers would not get any more. `backup` is where
    the config is kept, None if a part of it is installed already.
    """

    plan: Plan
    result: Compilation
    texts: dict[Keys, str]
    record: Record
    changes: list[Change]
    argvs: dict[str, tuple[str, ...]]
    lost: list[str]
    backup: Path | None


def plans_of(run: Run, environ: Mapping[str, str]) -> list[Plan]:
    """Return what would become of each scope of a client that applies here.

    Raises:
        ConfigError: no scope has servers, a choice fits none of them, or FILE is not ours.
    """
    home, cwd = Path.home(), Path.cwd()
    scopes = find_scopes(run.client or "", run.config, home, environ, sys.platform, cwd)
    readings = [Reading(scope) for scope in scopes]
    full = [reading for reading in readings if reading.entries]
    if not full:
        faults = [problem for reading in readings for problem in reading.faults.errors]
        raise ConfigError(str(scopes[0].file), faults[:1])
    _check_choice(full, run.options)
    if only := {*run.options.only}:
        full = [reading for reading in full if only.intersection(reading.names)]
    if run.output is not None and len(full) > 1:
        files = ", ".join(reading.scope.shown for reading in full)
        remedy = "give one of them as CONFIG, or leave out -o"
        raise ConfigError("--install", [Problem("", f"-o is for one config, of {files}", remedy)])
    plans = []
    for reading in full:
        file = _file_of(reading, run.output, environ)
        _check_file(file, reading.scope, environ)
        options = run.options
        plan = plan_of(reading, file, environ, options.only, options.skip, options.defines)
        if plan.chosen and (writer := writer_of(reading.scope, environ, sys.platform)):
            what = f"{writer} is running, and would overwrite it"
            remedy = "quit it, also where it runs in the background, and run this again"
            raise ConfigError(str(reading.scope.file), [Problem("", what, remedy)])
        check_plan(plan, environ, replace(options, locked=True), options.allow_failed)
        plans.append(plan)
    return plans


def _file_of(reading: Reading, output: str | None, environ: Mapping[str, str]) -> Path:
    """Return where FILE of a scope lies: where it was asked for, else where it is already."""
    faces = [face for face in map(reading.face, reading.entries) if face and output is None]
    there = (face.file for face in faces if read_record(face.file).of(reading.scope))
    return next(there, None) or file_for(reading.scope, output, environ, sys.platform)


def _check_choice(readings: Sequence[Reading], options: Options) -> None:
    names = [name for reading in readings for name in reading.names]
    problems = [
        Problem(
            "",
            f"there is no server '{name}' to choose",
            suggest(name, names) or f"there are {', '.join(names)}",
        )
        for name in dict.fromkeys([*options.only, *options.skip])
        if name not in names
    ]
    if problems:
        raise ConfigError(str(readings[0].scope.file), problems)


def _check_file(file: Path, scope: Scope, environ: Mapping[str, str]) -> None:
    """Refuse a FILE, and a source beside it, that we did not write, or did for another config."""
    check_name(file)
    if file.parent.exists() or not file.is_relative_to(data_folder(environ, sys.platform)):
        check_target(file)
    source, record = source_for(file), read_record(file)
    is_ours = source_of(file) == source and (is_emitted(file) or not record.is_empty)
    if source.exists() and not is_ours:
        what = "is there already, and was not written by --install"
        raise ConfigError(str(source), [Problem("", what, "choose another FILE, or remove it")])
    record.of(scope)
    for (config, keys), entries in record.entries.items():
        if entries and (config, keys) != (str(scope.target), scope.keys):
            what = f"is what entries of {config} start"
            raise ConfigError(str(file), [Problem("", what, "choose another FILE for this one")])


def prepare(
    plan: Plan, run: Run, environ: Mapping[str, str], listener: Listener
) -> Installation | None:
    """Compile a plan, and work out what is to be written; None if nothing is to be installed.

    Raises:
        CompileError: nothing can be installed.
    """
    options = replace(run.options, locked=True, only=(), skip=(), allow_failed=False)
    result = compile_plan(
        plan, environ, options, run.options.only, run.options.allow_failed, listener, run.verbose
    )
    if result is None:
        return None
    digest = digest_of(result.text)
    python = starting.lasting_python(environ)
    argvs = {
        name: starting.argv_of(
            plan.scope, plan.file, one.face.name if one.face else name, digest, python
        )
        for name, one in plan.chosen.items()
    }
    record = read_record(plan.file)
    before = record.of(plan.scope)
    entries: dict[str, Installed] = {}
    texts: dict[Keys, str] = {}
    changes: list[Change] = []
    for name, chosen in plan.chosen.items():
        if chosen.entry is not None:
            old = chosen.entry.text
            change, installed = _changed(name, chosen, chosen.entry, argvs[name], before.get(name))
            if chosen.entry.text != old:
                texts[chosen.keys] = chosen.entry.text
                changes.append(change)
            entries |= {name: installed} if installed else {}
    _prove(plan, texts, argvs)
    record.entries[str(plan.scope.target), plan.scope.keys] = entries
    servers = {name: chosen.server for name, chosen in plan.chosen.items()}
    lost = starting.lost(environ, servers) if options.minimal else []
    by_hand = {name: argvs[name] for name, one in plan.chosen.items() if one.entry is None}
    is_first = not has_faces(plan.config.value)
    backup = backup_for(plan.scope, environ, sys.platform) if is_first else None
    return Installation(plan, result, texts, record, changes, by_hand, lost, backup)


def _changed(
    name: str, chosen: Chosen, entry: Entry, argv: tuple[str, ...], before: Installed | None
) -> tuple[Change, Installed | None]:
    """Change the text of an entry; return how, and what is to be recorded of it."""
    fields = chosen.fields
    old = cut(entry.text, holes(entry, fields, fields.literals(), chosen.moved))
    fields.start(entry, Started(argv, chosen.env, chosen.passed))
    kept = (*fields.literals(), *(one.variable for one in chosen.moved))
    new = cut(entry.text, holes(entry, fields, kept, ()))
    after = Fields(entry.value, fields.dialect, fields.form).digest()
    change = Change(name, masked(old), masked(new))
    if chosen.face is None:
        return change, Installed(chosen.keys, old, after, kept, (*chosen.env,))
    return change, (
        replace(before, keys=chosen.keys, after=after, variables=kept) if before else None
    )


def _prove(plan: Plan, texts: Mapping[Keys, str], argvs: Mapping[str, tuple[str, ...]]) -> None:
    """Read the client's config with new texts: they say what they are to say, and nothing else.

    Raises:
        ConfigError: they do not; nothing has been written.
    """
    try:
        config = plan.config.replaced(texts)
    except Uneditable as why:
        raise _unsafe(plan, str(why)) from None
    reading = Reading(plan.scope, config)
    for entry in reading.entries:
        is_new = reading.keys(entry) in texts
        if is_new and (*reading.words(entry),) != argvs[entry.name]:
            raise _unsafe(plan, entry.name)


def _unsafe(plan: Plan, what: str) -> ConfigError:
    problem = Problem("", f"cannot be edited safely: {what}", "--skip NAME leaves an entry out")
    return ConfigError(str(plan.scope.file), [problem])


def write_all(installation: Installation, now: Config) -> Config:
    """Write FILE, its source, the record, a copy of the client's config, and that config.

    `now` is the config as it is: another scope of the same file may have been written. Return it as
    it is then.

    Raises:
        ConfigError: one cannot be written, or the config has changed meanwhile.
    """
    plan, text = installation.plan, installation.result.text.encode("utf-8")
    is_own = plan.scope.root is None
    files = {
        plan.file: text,
        plan.source: installation.result.job.source.text,
        record_for(plan.file): installation.record.data(),
    }
    with locked(plan.scope), to_the_end():
        check_unchanged(plan.scope, now)
        if is_own:
            make_folder(plan.file.parent)
        with all_or_none(files):
            for file, data in files.items():
                mode = EXECUTABLE if file == plan.file else PRIVATE if is_own else READABLE
                write(file, data, mode)
            if not installation.changes:
                return now
            if installation.backup is not None:
                put(installation.backup, plan.config.data, PRIVATE)
            new = now.replaced(installation.texts)
            write_config(plan.scope, now, new)
    return new
