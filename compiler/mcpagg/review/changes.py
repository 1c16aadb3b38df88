"""What has changed between two emitted files, as values: one change a place, each of a class.

Equality is that of drift (`ordering.equal`), and so are the classes `text`, `hint` and `other`
(`differences.member_class`); a schema is looked at property by property (`schemas`).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcpagg.jsontext import dumps
from mcpagg.lint.finding import strings
from mcpagg.lint.schemas import escaped
from mcpagg.lint.texts import described, hidden_characters
from mcpagg.ordering import equal, numbered
from mcpagg.problems import count
from mcpagg.recorded import Contents
from mcpagg.review.schemas import ABSENT, alike, became, schema_changes
from mcpagg.snapshot import ChildSnapshot, Json
from mcpagg_runtime.base.catalogue import KINDS, PROMPTS, Kind
from mcpagg_runtime.serve.differences import member_class


@dataclass(frozen=True, slots=True)
class Change:
    """One change; `class_` is one of CLASSES.

    `server` is "" for the proxy itself. `kind` is server, tool, prompt, resource, template, skill
    or proxy, `name` the server's own name of the item (a URI, where it has one), `place` a JSON
    pointer into the item or the server, "" for all of it. `what` says in words what became of the
    place; `before` and `after` are its values.
    """

    class_: str
    server: str
    kind: str
    name: str = ""
    place: str = ""
    what: str = "changed"
    before: Any = ABSENT
    after: Any = ABSENT


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """What became of one server: `state` is added, removed or changed.

    `versions` are those that it gives itself, before and now, None where it does not; `counts`
    {kind: (added, removed, changed)} without kinds of which nothing changed.
    """

    name: str
    state: str
    versions: tuple[str | None, str | None]
    counts: Mapping[str, tuple[int, int, int]]


def compare(before: Contents, after: Contents, names: Mapping[str, str]) -> tuple[Change, ...]:
    """Return what has changed of the servers; `names` {old: new} of those with another name."""
    before = before.renamed(names)
    old = {child.name: child for child in before.snapshot.children}
    new = {child.name: child for child in after.snapshot.children}
    found = [
        Change("launch", name, "server", what=f"was called {was}", before=was, after=name)
        for was, name in names.items()
        if name in new
    ]
    for name in {**old, **new}:
        if name not in old or name not in new:
            found.append(_whole_server(name, old.get(name), new.get(name)))
            continue
        found += _launch(name, before.rows[name], after.rows[name])
        found += _server(old[name], new[name])
        for kind in KINDS:
            found += _items(name, kind, old[name].items(kind), new[name].items(kind))
    for child in new.values():
        if child.name not in old:
            found += _hidden_of_server(child)
    found += _failures(before, after)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        found.append(Change("file", "", "proxy", what="has its servers in another order"))
    return tuple(found)


def summaries(
    changes: Sequence[Change], before: Contents, after: Contents, names: Mapping[str, str]
) -> tuple[ServerSummary, ...]:
    """Return a summary for each server of which something changed."""
    old = {child.name: child for child in before.renamed(names).snapshot.children}
    new = {child.name: child for child in after.snapshot.children}
    found = []
    for name in {**old, **new}:
        mine = [change for change in changes if change.server == name]
        if not mine:
            continue
        state = "added" if name not in old else "removed" if name not in new else "changed"
        counts = {kind.name: _counts(kind, old.get(name), new.get(name), mine) for kind in KINDS}
        versions = _version(old.get(name)), _version(new.get(name))
        shown = {kind: numbers for kind, numbers in counts.items() if any(numbers)}
        found.append(ServerSummary(name, state, versions, shown))
    return tuple(found)


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


def _whole_server(name: str, old: ChildSnapshot | None, new: ChildSnapshot | None) -> Change:
    child = new or old
    assert child is not None  # noqa: S101 - one of the two has it
    lists = [count(len(child.items(kind)), kind.name[:-1]) for kind in KINDS if child.items(kind)]
    offers = f" with {', '.join(lists)}" if lists else ""
    state = "added" if old is None else "removed"
    return Change(state, name, "server", what=f"was {state}{offers}")


def _launch(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    old, new = (_command(row) for row in (before, after))
    if old != new:
        yield Change("launch", name, "server", "", "/command", "changed", old, new)
    for key in {**before, **after}:
        values = before.get(key, ABSENT), after.get(key, ABSENT)
        if key in ("command", "args"):
            continue
        if key in ("env", "headers"):
            yield from _leaves("launch", name, f"/{key}", *values)
        elif values[0] != values[1]:
            yield Change("launch", name, "server", "", f"/{key}", became(*values), *values)


def _command(row: Mapping[str, Any]) -> Any:
    return shlex.join([row["command"], *row["args"]]) if "command" in row else ABSENT


def _server(before: ChildSnapshot, after: ChildSnapshot) -> Iterator[Change]:
    """Yield what changed of what a server says of itself."""
    name = after.name
    if before.protocol != after.protocol:
        versions = before.protocol, after.protocol
        yield Change("version", name, "server", "", "/protocol", "changed", *versions)
    for key in {**before.info, **after.info}:
        values = before.info.get(key, ABSENT), after.info.get(key, ABSENT)
        if not alike(*values):
            class_ = "version" if key == "version" else member_class(key, *values)
            place = f"/serverInfo/{escaped(key)}"
            yield from _texts(Change(class_, name, "server", "", place, became(*values), *values))
    yield from _leaves(
        "capabilities", name, "/capabilities", before.capabilities, after.capabilities
    )
    said = [ABSENT if one.instructions is None else one.instructions for one in (before, after)]
    if said[0] != said[1]:
        yield from _texts(Change("text", name, "server", "", "/instructions", became(*said), *said))
    if before.conditional != after.conditional:
        tools = [sorted(one.conditional) for one in (before, after)]
        what = "other tools are offered to clients with capabilities alone"
        yield Change("capabilities", name, "server", "", "/conditional", what, *tools)
    yield from _leaves("other", name, "/hints", before.hints, after.hints)


def _leaves(class_: str, name: str, place: str, before: Any, after: Any) -> Iterator[Change]:
    """Yield a change for each member of objects that differs, however deep."""
    if alike(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            values = before.get(key, ABSENT), after.get(key, ABSENT)
            yield from _leaves(class_, name, f"{place}/{escaped(key)}", *values)
        return
    yield Change(class_, name, "server", "", place, became(before, after), before, after)


def _failures(before: Contents, after: Contents) -> Iterator[Change]:
    old, new = before.snapshot, after.snapshot
    for name in new.kept:
        if name not in old.kept:
            yield Change("failed", name, "server", what="could not be asked, so it is as it was")
    for name in old.kept:
        if name in new.names and name not in new.kept:
            yield Change("failed", name, "server", what="could be asked again")
    for name in new.failed:
        if name not in old.failed:
            yield Change("failed", name, "server", what="could not be asked, so it is left out")
    for name in old.failed:
        if name not in new.failed:
            yield Change("failed", name, "server", what="is no longer left out for having failed")


# --- What they list -----------------------------------------------------------------------------


def _items(
    server: str, kind: Kind, before: Sequence[Json], after: Sequence[Json]
) -> Iterator[Change]:
    old, new = numbered(kind, before), numbered(kind, after)
    gone = {key: item for key, item in old.items() if key not in new}
    come = {key: item for key, item in new.items() if key not in old}
    pairs = _renamed(gone, come)
    word = kind.name[:-1]
    for key in gone:
        hint = f"; renamed to {pairs[key][0]}?" if key in pairs else ""
        yield Change("removed", server, word, key[0], what=f"was removed{hint}")
    origins = {new_key: old_key for old_key, new_key in pairs.items()}
    for key, item in new.items():
        if key in come:
            hint = f"; renamed from {origins[key][0]}?" if key in origins else ""
            yield Change("added", server, word, key[0], what=f"was added{hint}")
            yield from _hidden_in(server, word, key[0], item)
        else:
            yield from _item(server, kind, key[0], old[key], item)


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


def _item(server: str, kind: Kind, name: str, before: Json, after: Json) -> Iterator[Change]:
    word = kind.name[:-1]
    for member in {**before, **after}:
        old, new = before.get(member, ABSENT), after.get(member, ABSENT)
        if alike(old, new):
            continue
        place = f"/{escaped(member)}"
        if member.endswith("Schema") or (member == "arguments" and kind is PROMPTS):
            yield from _schema(server, word, name, member, old, new)
        elif member == "annotations" and isinstance(old, dict | type(ABSENT)):
            yield from _hints(server, word, name, old, new)
        else:
            values = (None if one is ABSENT else one for one in (old, new))
            class_ = member_class(member, *values)
            yield from _texts(Change(class_, server, word, name, place, became(old, new), old, new))


def _hints(server: str, word: str, name: str, before: Any, after: Any) -> Iterator[Change]:
    old, new = ({} if one is ABSENT else one for one in (before, after))
    if not isinstance(new, dict):
        yield Change(
            "hint", server, word, name, "/annotations", became(before, after), before, after
        )
        return
    for key in {**old, **new}:
        values = old.get(key, ABSENT), new.get(key, ABSENT)
        if not alike(*values):
            class_ = "text" if key == "title" else "hint"
            place = f"/annotations/{escaped(key)}"
            yield from _texts(Change(class_, server, word, name, place, became(*values), *values))
    if not old and not new:  # they came, or went, without saying anything
        yield Change(
            "hint", server, word, name, "/annotations", became(before, after), before, after
        )


def _schema(
    server: str, word: str, name: str, member: str, before: Any, after: Any
) -> Iterator[Change]:
    output = member == "outputSchema"
    place = f"/{escaped(member)}"
    if member == "arguments":
        old, new = (_arguments_schema(one) for one in (before, after))
        if equal(old, new):
            yield Change("schema-compatible", server, word, name, place, "changed", before, after)
    else:
        old, new = (True if one is ABSENT else one for one in (before, after))
        if before is ABSENT or after is ABSENT:
            narrows = before is ABSENT
            class_ = "schema-compatible" if narrows == output else "schema-breaking"
            yield Change(class_, server, word, name, place, became(before, after), before, after)
            return
    for one in schema_changes(old, new, place):
        class_ = one.class_for(output=output)
        yield from _texts(
            Change(class_, server, word, name, one.pointer, one.what, one.before, one.after)
        )


def _arguments_schema(arguments: Any) -> Any:
    """Return the arguments of a prompt as the schema of an object."""
    listed = (
        [one for one in arguments if isinstance(one, dict)] if isinstance(arguments, list) else []
    )
    known = {str(one.get("name")): one for one in listed}
    return {
        "properties": {
            name: {key: value for key, value in one.items() if key not in ("name", "required")}
            for name, one in known.items()
        },
        "required": [name for name, one in known.items() if one.get("required") is True],
    }


# --- Texts --------------------------------------------------------------------------------------


def _texts(change: Change) -> Iterator[Change]:
    """Yield a change, and one of the class `hidden` if what is new hides characters."""
    yield change
    known = {*_hidden(change.before)}
    found = [char for char in _hidden(change.after) if char not in known]
    if found:
        what = f"has {described(found)}"
        yield Change("hidden", change.server, change.kind, change.name, change.place, what)


def _hidden(value: Any) -> list[str]:
    if value is ABSENT:
        return []
    return [char for _, text in strings(value) for char in hidden_characters(text)]


def _hidden_in(server: str, word: str, name: str, item: Json) -> Iterator[Change]:
    for place, text in strings(item):
        if found := hidden_characters(text):
            yield Change("hidden", server, word, name, place, f"has {described(found)}", after=text)


def _hidden_of_server(child: ChildSnapshot) -> Iterator[Change]:
    yield from _hidden_in(child.name, "server", "", {"instructions": child.instructions or ""})
    for kind in KINDS:
        for item in child.items(kind):
            yield from _hidden_in(child.name, kind.name[:-1], item[kind.key], item)
