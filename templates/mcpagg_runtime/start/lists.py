"""Static answers: lists cut out of the snapshot.

An item is kept as the text that its child gave, with a hole where the name stands, so that a list
costs a join and every field reaches the client unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import quote, scan, string_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from mcpagg_runtime.start.main import StaticAnswers


def static_list(answers: StaticAnswers, kind: str, member: str, key: str, label: str) -> str | None:
    """Return the result of a request for a kind of list, None if there is no static one."""
    items = []
    column = 1 if answers.spelling == "portable" else 0
    for server, rows in _routes(answers, kind).items():
        text = answers.tables["snapshot"][server].get(kind, "[]")
        facts = answers.children.get(server, {}) if kind == "tools" else {}
        hidden = () if answers.capable else facts.get("conditional", ())
        shown = "" if answers.face else server
        for own, names, head, tail in cut_list(text, key, label, shown, rows):
            if not names[column]:  # a name that is made in `names`
                return None
            if own not in hidden:
                items.append(head + quote(names[column]) + tail)
    return list_result(member, items)


def _routes(answers: StaticAnswers, kind: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the routing table of a kind of list, by server."""
    tables, face = answers.tables, answers.face
    routes: Mapping[str, Mapping[str, Any]] = scan(tables[kind], 0)[0]
    if not face:
        return routes
    from mcpagg_runtime.start.own import own_rows  # of a server as itself alone

    apart = scan(tables.get("own_uris", "{}"), 0)[0].get(face, {})
    rows = routes.get(face, {})
    return {face: own_rows(face, answers.options["separator"], rows, apart.get(kind))}


def cut_list(
    text: str, key: str, label: str, server: str, rows: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, tuple[str, str], str, str]]:
    """Yield (own name, (exposed, portable), text before and behind the name) of a server's items.

    `key` is the member by which an item is requested, `label` that of its name. `server` is "" for
    one that is served as itself. `rows` are those of
    the routing table: {exposed name: (own name, portable name)}; for what is found by its URI
    {URI: ()}, or {exposed URI: (own URI,)} where these differ. In the compiler's text
    (`literal.list_text`) an item begins a line without a space, a member of it a line with one;
    deeper lines are indented more, and strings hold no line ends.
    """
    mark, address = f'\n "{label}": ', f'\n "{key}": '
    found = {}
    for item in text[3:-2].split(",\n{") if text != "[]" else ():
        head, _, rest = f"\n {item}".partition(mark)
        name, end = string_at(rest, 0)
        own = name if key == label else string_at(f"\n {item}".partition(address)[2], 0)[0]
        found[own] = name, f'{{{_joined(head)}"{label}":', _joined(rest[end:])
    for exposed, row in rows.items():
        own = row[0] if row else exposed
        name, head, tail = found[own]
        shown = labelled(server, name)
        yield own, (exposed, row[1]) if len(row) > 1 else (shown, shown), head, tail


def _joined(text: str) -> str:
    return "".join([line.lstrip(" ") for line in text.split("\n")])


def labelled(server: str, name: str) -> str:
    """Return the name under which a resource or a template is listed; its own for no server."""
    return f"[{server}] {name}" if server else name


def list_result(member: str, items: Iterable[str]) -> str:
    """Return the result of a list request as JSON text."""
    return f'{{"{member}":[{",".join(items)}]}}'
