"""What an installation in one scope would do: which entries become faces, which are left, and why.

Nothing is started here, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpagg.install import starting
from mcpagg.install.editing import Config, Entry
from mcpagg.install.entries import Fields, holes
from mcpagg.install.places import Scope, read_scope
from mcpagg.install.record import own_file, read_record
from mcpagg.install.secrets import Moved, without_literals
from mcpagg.install.source import for_source, recorded_servers
from mcpagg.install.tree import Path as Keys
from mcpagg.install.tree import Uneditable, value_at
from mcpagg.jsontext import members_of
from mcpagg.passes.config.containers import RawEntry, find_servers
from mcpagg.passes.config.dialects import Dialect
from mcpagg.passes.config.own import KEY
from mcpagg.passes.config.places import Place
from mcpagg.passes.config.reading import read_document
from mcpagg.passes.config.selection import select
from mcpagg.passes.environment.faces import Face, face_of, original, source_for
from mcpagg.problems import CompileError
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.variables import CONFIG_FOLDER, MissingVariable, resolve
from mcpagg_runtime.start.digest import DIGEST


@dataclass(slots=True)
class Chosen:
    """A server that is to be installed: its entry, and what of it is compiled.

    `entry` is None of one whose text cannot be edited, for the reason `by_hand`. `written` is the
    server as the config says it, `server` as the source has it. `values` are those of its
    variables, for when it is asked. `is_asked` of one that is not switched off.
    """

    keys: Keys
    entry: Entry | None
    fields: Fields
    written: ServerSpec | None
    server: ServerSpec
    env: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    face: Face | None = None
    is_asked: bool = True
    by_hand: str = ""

    def find(self, config: Config) -> None:
        """Find its text, and what is to be kept out of the record of it."""
        try:
            self.entry = config.entry(self.keys)
            holes(self.entry, self.fields, self.fields.literals(), self.moved)
        except Uneditable as why:
            self.entry, self.by_hand = None, str(why)


@dataclass(slots=True)
class Plan:
    """What would become of one scope. `left` {server: why} are entries that stay as they are.

    `unset` {server: variables} must be in the environment of the client. `own` is what the config
    says under our own key.
    """

    scope: Scope
    config: Config
    file: Path
    chosen: dict[str, Chosen] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    unset: dict[str, tuple[str, ...]] = field(default_factory=dict)
    own: Any = None

    @property
    def overlays(self) -> dict[str, Any]:
        """What the config says of the texts of tools, for the servers that are installed.

        Profiles stay out: a face serves all of its server.
        """
        overlays = members_of(members_of(self.own).get("overlays"))
        names = tuple(f"{name}:" for name in self.chosen)
        return {tool: said for tool, said in overlays.items() if tool.startswith(names)}

    @property
    def source(self) -> Path:
        return source_for(self.file)

    def leave(self, name: str, why: str) -> None:
        """Have an entry stay as it is."""
        self.chosen.pop(name, None)
        self.left[name] = why


class Reading:
    """The entries of a scope, before it is known what becomes of them."""

    def __init__(self, scope: Scope, config: Config | None = None) -> None:
        self.scope = scope
        self.config = config or read_scope(scope)
        self.document = scope.document(self.config)
        self.faults = Place()
        dialect, entries = find_servers(self.document, scope.file, self.faults)
        self.dialect: Dialect = dialect
        self.entries: list[RawEntry] = entries

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.entries]

    def fields(self, entry: RawEntry) -> Fields:
        return Fields(members_of(entry.value), self.dialect, starting.form_of(self.scope))

    def face(self, entry: RawEntry) -> Face | None:
        """Return the face that an entry starts, None if it starts another program."""
        face = face_of(self.words(entry), self.scope.folder)
        return face and face._replace(file=own_file(face.file, self.scope))

    def words(self, entry: RawEntry) -> list[str]:
        """Return the command line of an entry."""
        fields, value = self.fields(entry), members_of(entry.value)
        words: list[Any] = []
        for name in ("command", "args"):
            for place in fields.places.get(name, [])[:1]:
                found = value_at(value, place)
                words += found if isinstance(found, list) else [found]
        return [word for word in words if isinstance(word, str)]

    def keys(self, entry: RawEntry) -> Keys:
        return (*self.scope.keys, *entry.keys)


def plan_of(
    reading: Reading,
    file: Path,
    environ: Mapping[str, str],
    only: Collection[str],
    skip: Collection[str],
    defines: Mapping[str, str],
) -> Plan:
    """Return what would become of a scope; entries that are faces of `file` stay in it.

    Raises:
        ConfigError: what is chosen cannot be understood.
    """
    plan = Plan(reading.scope, reading.config, file)
    plan.own = members_of(reading.document).get(KEY)
    faces = {
        entry.name: face
        for entry in reading.entries
        if (face := reading.face(entry)) and face.file.resolve() == file.resolve()
    }
    only_here = [name for name in reading.names if name in only]
    only_here += [name for name in faces if only_here and name not in only_here]
    skipped = [name for name in reading.names if name in skip and name not in faces]
    chosen, left = select(reading.entries, reading.dialect, (), skipped, Place())
    plan.left = {one.name: one.why for one in left if one.name not in faces}
    chosen = [entry for entry in chosen if not only or entry.name in only_here]
    recorded = recorded_servers(plan.source) if faces else {}
    servers = _read(reading, chosen, defines, plan) if chosen else {}
    for entry in reading.entries:
        face = faces.get(entry.name)
        if face is not None and face.name in recorded:
            _keep_face(plan, reading, entry, recorded[face.name], servers.get(entry.name), environ)
        elif entry.name in servers:
            _choose(plan, reading, entry, servers[entry.name], environ)
    return plan


def _read(
    reading: Reading, chosen: list[RawEntry], defines: Mapping[str, str], plan: Plan
) -> dict[str, ServerSpec]:
    """Return the servers of chosen entries, literal credentials and all."""
    scope, names = reading.scope, [entry.name for entry in chosen]
    spec, _ = read_document(
        reading.document,
        source=str(scope.file),
        folder=scope.folder if scope.keys else scope.file.parent,
        project=scope.folder,
        only=names,
        defines=defines,
        allow_secrets=True,
    )
    return {server.name: server for server in spec.servers}


def _keep_face(
    plan: Plan,
    reading: Reading,
    entry: RawEntry,
    server: ServerSpec,
    written: ServerSpec | None,
    environ: Mapping[str, str],
) -> None:
    """Have an entry stay the face that it is; one that is switched off is not asked."""
    plan.chosen[entry.name] = kept = Chosen(
        reading.keys(entry),
        None,
        reading.fields(entry),
        None,
        server,
        values=_values(written.env, environ) if written else {},
        face=reading.face(entry),
        is_asked=written is not None,
    )
    kept.find(plan.config)


def _choose(
    plan: Plan,
    reading: Reading,
    entry: RawEntry,
    written: ServerSpec,
    environ: Mapping[str, str],
) -> None:
    """Have an entry become a face, or say why it stays."""
    scope, fields = reading.scope, reading.fields(entry)
    found = original(written, scope.folder)
    try:
        _check(entry, found, scope)
        clean, moved = without_literals(found, expands=bool(fields.form.reference))
        given = {one.variable: one.written for one in moved}
        env, passed, unset = starting.needs(
            members_of(entry.value), clean, fields.form, {*given, *written.env}
        )
        path = starting.path_for(scope, found, environ)
        chosen = Chosen(
            reading.keys(entry),
            None,
            fields,
            found,
            for_source(clean, scope.folder, plan.source),
            {**given, **env, **({"PATH": path} if path else {})},
            passed,
            moved,
            _values({**written.env, **given}, environ),
        )
    except ValueError as why:
        plan.leave(entry.name, str(why))
    else:
        chosen.find(plan.config)
        plan.unset |= {entry.name: unset} if unset else {}
        plan.chosen[entry.name] = chosen


def _check(entry: RawEntry, server: ServerSpec, scope: Scope) -> None:
    """Refuse what a face could not stand for.

    Raises:
        ValueError: says why.
    """
    if server.masks:
        raise ValueError("it has `envVars` of a coordinator, which hide values from their client")
    if server.rename:
        raise ValueError("it gives its tools other names")
    if f"${{{CONFIG_FOLDER}" in str(entry.value) and scope.root is None:
        raise ValueError("it depends on the folder that is open")
    if not isinstance(entry.value, dict):
        raise ValueError("it is not an object")


def _values(env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what variables of an entry hold; of one that refers to what is not set, nothing."""
    values = {}
    for name, text in env.items():
        with suppress(MissingVariable):
            values[name] = resolve(text, environ.get)
    return values


def installed(
    scopes: Iterable[Scope], environ: Mapping[str, str]
) -> dict[Path, dict[str, Mapping[str, str]]]:
    """Return each FILE that entries start, with what these give to variables of its servers.

    Raises:
        ConfigError: a config or a source cannot be read.
    """
    found: dict[Path, dict[str, Mapping[str, str]]] = {}
    for reading in map(Reading, scopes):
        faces = [face for entry in reading.entries if (face := reading.face(entry))]
        for file in dict.fromkeys(face.file for face in faces):
            chosen = plan_of(reading, file, environ, (), (), {}).chosen.values()
            values = {one.face.name: one.values for one in chosen if one.face is not None}
            found[file] = found.get(file, {}) | values
    return found


def outdated(file: Path, digest: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each config with installed entries that name another digest of FILE, and their names.

    Raises:
        ConfigError: the record of what was installed cannot be read.
    """
    for (config, _), entries in read_record(file).entries.items():
        with suppress(OSError, CompileError):
            there = Config(Path(config).read_bytes(), config)
            names = [
                name for name, one in entries.items() if _names_another(there.at(one.keys), digest)
            ]
            if names:
                yield config, names


def _names_another(entry: Any, digest: str) -> bool:
    members = [*members_of(entry).values()]
    words = [word for member in members if isinstance(member, list) for word in member]
    digests = [word for word in words if isinstance(word, str) and word.startswith(DIGEST)]
    return "--as" in words and digest not in digests
