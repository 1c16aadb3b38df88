"""The changes between two emitted files, as values: one for each place, each of a class.

Equality and the classes of items are those of drift (`lists.changes` of the runtime).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mcpagg.jsontext import dumps
from mcpagg.passes.discovery.ordering import numbered
from mcpagg.passes.emission.recorded import Contents
from mcpagg.problems import count
from mcpagg.review.lint.texts import described
from mcpagg.snapshot import ChildSnapshot, Json
from mcpagg_runtime.lists.catalogue import KINDS, Kind
from mcpagg_runtime.lists.changes import item_changes, member_class
from mcpagg_runtime.lists.hidden import hidden_characters, newly_hidden
from mcpagg_runtime.lists.values import ABSENT, alike, became, differing, escaped, strings


@dataclass(frozen=True, slots=True)
class Change:
    """One change; `class_` is one of CLASSES.

    `server` is "" for the proxy itself. `kind` is server, package, tool, prompt, resource,
    template, skill or proxy, `name` the server's own name of the item (a URI, where it has one),
    `place` a JSON pointer into the item or the server, "" for all of it. `what` says in words what
    became of the place; `before` and `after` are its values: of an item that was added, all of it.
    `is_offered`: a registry has that now, and FILE is as it was.
    """

    class_: str
    server: str
    kind: str
    name: str = ""
    place: str = ""
    what: str = "changed"
    before: Any = ABSENT
    after: Any = ABSENT
    is_offered: bool = False


class Subject(NamedTuple):
    """What changes are of: a server, or an item that it lists; see Change."""

    server: str
    kind: str = "server"
    name: str = ""

    def became(self, class_: str, what: str) -> Change:
        """Return a change of the subject as a whole."""
        return Change(class_, *self, what=what)

    def change(
        self, class_: str, place: str, before: Any, after: Any, what: str = ""
    ) -> Iterator[Change]:
        """Yield a change, and one of the class `hidden` if what is new hides characters."""
        yield Change(class_, *self, place, what or became(before, after), before, after)
        if class_ == "launch":  # of the config, and perhaps a credential: nothing of it is shown
            return
        if characters := newly_hidden(before, after, place):
            yield Change("hidden", *self, place, f"has {described(characters)}")

    def leaves(self, class_: str, place: str, before: Any, after: Any) -> Iterator[Change]:
        """Yield a change for each member of objects that differs, however deep."""
        if isinstance(before, dict) and isinstance(after, dict):
            for key, *values in differing(before, after):
                yield from self.leaves(class_, f"{place}/{escaped(key)}", *values)
        elif not alike(before, after):
            yield from self.change(class_, place, before, after)

    def hidden(self, value: Any) -> Iterator[Change]:
        """Yield a change for each text of a new value that hides characters."""
        for place, text in strings(value):
            if characters := hidden_characters(text):
                yield Change("hidden", *self, place, f"has {described(characters)}", after=text)


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """What became of one server: `state` is added, removed or changed.

    `versions` are those that it gives itself, before and now, None where it does not; `own` the
    classes of what changed of the server itself; `counts` {kind: (added, removed, changed)} without
    kinds of which nothing changed.
    """

    name: str
    state: str
    versions: tuple[str | None, str | None]
    own: tuple[str, ...]
    counts: Mapping[str, tuple[int, int, int]]


def compare(before: Contents, after: Contents, names: Mapping[str, str]) -> tuple[Change, ...]:
    """Return what has changed of the servers; `names` {old: new} of those with another name."""
    before = before.renamed(names)
    old = before.snapshot.by_name
    new = after.snapshot.by_name
    changes = [
        Change("launch", name, "server", what=f"was called {was}", before=was, after=name)
        for was, name in names.items()
        if name in new
    ]
    for name in {**old, **new}:
        if name not in new:
            changes.append(_whole_server("removed", old[name]))
        elif name not in old:
            changes += _added_server(new[name], after.rows[name])
        else:
            changes += _launch(name, before.rows[name], after.rows[name])
            changes += _server(old[name], new[name])
            for kind in KINDS:
                changes += _items(name, kind, old[name].items(kind), new[name].items(kind))
    changes += _failures(before, after)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        changes.append(Subject("", "proxy").became("file", "has its servers in another order"))
    return tuple(changes)


def summaries(
    changes: Sequence[Change], before: Contents, after: Contents, names: Mapping[str, str]
) -> tuple[ServerSummary, ...]:
    """Return a summary for each server of which something changed."""
    old = before.renamed(names).snapshot.by_name
    new = after.snapshot.by_name
    result = []
    for name in {**old, **new}:
        mine = [change for change in changes if change.server == name]
        if not mine:
            continue
        state = "added" if name not in old else "removed" if name not in new else "changed"
        counts = {kind.name: _counts(kind, old.get(name), new.get(name), mine) for kind in KINDS}
        versions = _version(old.get(name)), _version(new.get(name))
        changed = {kind: numbers for kind, numbers in counts.items() if any(numbers)}
        own = [change.class_ for change in mine if change.kind in ("server", "package")]
        result.append(ServerSummary(name, state, versions, (*dict.fromkeys(own),), changed))
    return tuple(result)


def _counts(
    kind: Kind, old: ChildSnapshot | None, new: ChildSnapshot | None, changes: Sequence[Change]
) -> tuple[int, int, int]:
    before = numbered(kind, old.items(kind) if old else ())
    now = numbered(kind, new.items(kind) if new else ())
    both = {key[0] for key in before if key in now}
    changed = {change.name for change in changes if change.kind == kind.name[:-1]}
    return len(now.keys() - before), len(before.keys() - now), len(changed & both)


def _version(child: ChildSnapshot | None) -> str | None:
    version = child.info.get("version") if child else None
    return None if version is None else str(version)


# --- Servers ------------------------------------------------------------------------------------


def _whole_server(state: str, child: ChildSnapshot) -> Change:
    lists = [count(len(child.items(kind)), kind.name[:-1]) for kind in KINDS if child.items(kind)]
    offers = f" with {', '.join(lists)}" if lists else ""
    return Subject(child.name).became(state, f"was {state}{offers}")


def _added_server(child: ChildSnapshot, row: Mapping[str, Any]) -> Iterator[Change]:
    """Yield all that there is to review of a new server: how it is started, and what it lists."""
    yield _whole_server("added", child)
    yield from _launch(child.name, {}, row)
    texts = ABSENT, ABSENT if child.instructions is None else child.instructions
    yield from Subject(child.name).leaves("text", "/instructions", *texts)
    for kind in KINDS:
        yield from _items(child.name, kind, (), child.items(kind))


def _launch(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    server = Subject(name)
    for key, *values in differing(with_command_line(before), with_command_line(after)):
        if key in ("env", "headers"):
            named = ({} if value is ABSENT else value for value in values)
            yield from server.leaves("launch", f"/{key}", *named)
        else:
            yield from server.change("launch", f"/{key}", *values)


def with_command_line(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its command and arguments as one text, as a shell would take them."""
    rest = {key: value for key, value in row.items() if key not in ("command", "args")}
    command = {"command": shlex.join([row["command"], *row["args"]])} if "command" in row else {}
    return command | rest


def _server(before: ChildSnapshot, after: ChildSnapshot) -> Iterator[Change]:
    """Yield what changed of what a server says of itself."""
    server = Subject(after.name)
    if before.protocol != after.protocol:
        yield from server.change("version", "/protocol", before.protocol, after.protocol)
    shaken = [child.handshake.get("protocolVersion", ABSENT) for child in (before, after)]
    if shaken[0] != shaken[1]:
        yield from server.change("version", "/handshake", *shaken)
    for key, *values in differing(before.info, after.info):
        class_ = "version" if key == "version" else member_class(key)
        yield from server.change(class_, f"/serverInfo/{escaped(key)}", *values)
    declared = before.capabilities, after.capabilities
    yield from server.leaves("capabilities", "/capabilities", *declared)
    if before.handshake and after.handshake:
        declared = before.handshake["capabilities"], after.handshake["capabilities"]
        yield from server.leaves("capabilities", "/handshake/capabilities", *declared)
    texts = [
        ABSENT if child.instructions is None else child.instructions for child in (before, after)
    ]
    yield from server.leaves("text", "/instructions", *texts)
    if before.conditional != after.conditional:
        old, new = (sorted(child.conditional) for child in (before, after))
        what = "other tools are offered to clients with capabilities alone"
        yield from server.change("capabilities", "/conditional", old, new, what)
    yield from server.leaves("other", "/hints", before.hints, after.hints)


def _failures(before: Contents, after: Contents) -> Iterator[Change]:
    old, new = before.snapshot, after.snapshot
    again = [name for name in old.kept if name in new.names]
    for earlier, now, what in (
        (old.kept, new.kept, "could not be asked, so it is as it was"),
        (new.kept, again, "could be asked again"),
        (old.failed, new.failed, "could not be asked, so it is left out"),
        (new.failed, old.failed, "is no longer left out for having failed"),
    ):
        for name in now:
            if name not in earlier:
                yield Subject(name).became("failed", what)


# --- What they list -----------------------------------------------------------------------------


def _items(
    server: str, kind: Kind, before: Sequence[Json], after: Sequence[Json]
) -> Iterator[Change]:
    old, new = numbered(kind, before), numbered(kind, after)
    gone = {key: item for key, item in old.items() if key not in new}
    come = {key: item for key, item in new.items() if key not in old}
    pairs = _renamed(gone, come)
    for key in gone:
        hint = f"; renamed to {pairs[key][0]}?" if key in pairs else ""
        yield Subject(server, kind.name[:-1], key[0]).became("removed", f"was removed{hint}")
    origins = {new_key: old_key for old_key, new_key in pairs.items()}
    for key, item in new.items():
        subject = Subject(server, kind.name[:-1], key[0])
        if key in come:
            hint = f"; renamed from {origins[key][0]}?" if key in origins else ""
            yield Change("added", *subject, what=f"was added{hint}", after=item)
            yield from subject.hidden(item)
        else:
            yield from _item(subject, old[key], item)


Key = tuple[str, int]


def _renamed(gone: Mapping[Key, Json], come: Mapping[Key, Json]) -> dict[Key, Key]:
    """Return {old key: new key} of what looks as before but for its name, and nothing else does."""
    old_looks, new_looks = (
        {key: _look(item) for key, item in items.items()} for items in (gone, come)
    )
    only = Counter(old_looks.values()), Counter(new_looks.values())
    by_look = {look: new for new, look in new_looks.items()}
    return {
        old: by_look[look]
        for old, look in old_looks.items()
        if look and only[0][look] == only[1][look] == 1
    }


def _look(item: Json) -> str:
    """Return by what an item is known under another name: its schema, else its description.

    "" for nothing.
    """
    schema = item.get("inputSchema")
    if isinstance(schema, dict) and schema.get("properties"):
        return dumps(schema, sort=True)
    return dumps(item["description"]) if item.get("description") else ""


def _item(item: Subject, before: Json, after: Json) -> Iterator[Change]:
    for found in item_changes(before, after):
        values = found.before, found.after
        yield from item.change(found.class_, found.place, *values, found.what)
