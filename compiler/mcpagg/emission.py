"""Emission: from the linked tables to the text of the emitted file.

The same inputs give the same bytes: no clock, no host, no absolute path, no order but the config's
and each child's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import jinja2

from mcpagg import __version__
from mcpagg.approval import Approval
from mcpagg.bundle import Bundle, bundle, runtime_digest
from mcpagg.jsontext import dumps
from mcpagg.linking import Linked, Route, Subset
from mcpagg.literal import (
    ONE_LINE,
    comment,
    json_line,
    json_text,
    list_text,
    literal,
    table_text,
)
from mcpagg.modules import PACKAGE, BundleError, bytecode_folder
from mcpagg.options import Commands, Options
from mcpagg.readback import cut, read_back
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.base.catalogue import KINDS, SKILLS, TOOLS, Kind, wraps_output
from mcpagg_runtime.base.protocol import MODERN_VERSION
from mcpagg_runtime.rare.needs import uses
from mcpagg_runtime.spawn.nesting import data_digest

# The routing tables, by kind of list.
ROUTES = {
    "tools": "ROUTES",
    "prompts": "PROMPT_ROUTES",
    "resources": "RESOURCE_ROUTES",
    "templates": "TEMPLATE_ROUTES",
    "skills": "SKILL_ROUTES",
}
PLANNED = {table: kind for kind, table in ROUTES.items()} | {
    name: name.lower()
    for name in (
        *("SERVERS", "CHILDREN", "CAPABILITIES", "OPTIONS", "INSTRUCTIONS"),
        *("MODERN_CAPABILITIES", "SUBTOOLS", "PROFILES", "OVERLAYS", "LISTS", "FAILED"),
    )
}
"""The names under which a Plan knows the tables."""
# The tables that are {server or profile: {key: value}}, beside those of routes and overlays. The
# capabilities are one line each, because they stand in an answer as they are.
BY_SERVER = ("SERVERS", "CHILDREN", "PROFILES")
# The names that the templates define, which no module may define again.
DEFINED = {"SERVERS", "CHILDREN", "CAPABILITIES", "OPTIONS", "INSTRUCTIONS", "SNAPSHOT", "PLAN"}
DEFINED |= {
    "__getattr__",
    "app",
    "COMPILER",
    "MODERN_CAPABILITIES",
    "SUBTOOLS",
    "FAILED",
    "KEPT",
    "LISTS",
    "APPROVAL",
    "PROFILES",
    "OVERLAYS",
    *ROUTES.values(),
}
APPROVED = "\nAPPROVAL = "
"""Stands in a text that has an approval."""


def emit(  # noqa: PLR0913 - all that a file is made of
    *,
    name: str,
    source: str,
    commands: Commands,
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    linked: Linked,
    options: Options,
    http: Mapping[str, Any] | None = None,
    approve: Callable[[str], Approval] = lambda digest: {},
) -> str:
    """Return the text of the emitted file.

    `source` is the config's path as the header shows it; `commands` are those that the file
    records, and their `config` is what a proxy with remote servers says how to log in by. `rows`
    are the servers as they are meant from where the file will lie. `http` is what the config says
    of serving over HTTP, None for a proxy that does not. `approve` is given the digest of what was
    decided, and returns its approval.

    Raises:
        ReadBackError: the text does not mean what went in.
    """
    tables = _tables(rows, snapshot, linked, options)
    if http is not None:
        tables["OPTIONS"]["http"] = dict(http)
    lists = _snapshot_lists(snapshot, linked)
    texts = {table: _text(table, value) for table, value in tables.items()}
    listed = _listed(lists)
    if approval := approve(data_digest(_planned(name, texts, listed))):
        tables["APPROVAL"] = dict(approval)
        texts["APPROVAL"] = _text("APPROVAL", tables["APPROVAL"])
    about = {"name": name}
    if commands.config and any("url" in row for row in rows.values()):
        about["config"] = commands.config
    unused = _unused(rows, linked, http is not None)
    runtime = bundle(DEFINED, unused)
    text = _template().render(
        source=comment(source),
        command=comment(commands.rebuild),
        check=comment(commands.check),
        without=", ".join(sorted(unused)),
        tables={table: f'{table} = r"""{text}"""' for table, text in texts.items()},
        snapshot={
            literal(server): {literal(kind): text for kind, text in values.items()}
            for server, values in listed.items()
        },
        about={key: literal(value) for key, value in about.items()},
        http=http is not None,
        **_code(runtime),
    )
    parts = {part: f"\n{code}" for part, code in runtime.deferred.items()}
    read_back(text, tables, lists, {"COMPILER": __version__, "PLAN": about, **parts})
    return text


def plan_tables(
    *,
    name: str,
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    linked: Linked,
    options: Options,
) -> dict[str, Any]:
    """Return the tables of a Plan, as `emit` writes them."""
    texts = {
        table: _text(table, value)
        for table, value in _tables(rows, snapshot, linked, options).items()
    }
    lists = _listed(_snapshot_lists(snapshot, linked))
    return {"compiler": __version__, **_planned(name, texts, lists)}


def code_without(left_out: Collection[str]) -> tuple[str, str] | None:
    """Return the code of a proxy that leaves these modules and parts out, as `Sections.code`.

    None if there are no such modules.
    """
    try:
        runtime = bundle(DEFINED, left_out)
    except BundleError:
        return None
    text = _template().render(
        **dict.fromkeys(("source", "command", "check", "without"), ""),
        tables=dict.fromkeys(DEFINED - {*ROUTES.values()}, ""),
        snapshot={},
        about={"name": ""},
        http="http" not in left_out,
        **_code(runtime),
    )
    sections = cut(text)
    return sections and sections.code


def _code(runtime: Bundle) -> dict[str, Any]:
    """Return what the template is told of the runtime."""
    deferred = {literal(part): code for part, code in runtime.deferred.items()}
    return {"imports": runtime.imports, "first": runtime.first, "deferred": deferred}


def _planned(
    name: str, texts: Mapping[str, str], listed: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return the tables of a Plan, as they will stand in the emitted file."""
    planned = {PLANNED[table]: text for table, text in texts.items() if table in PLANNED}
    return {"name": name, "snapshot": listed, **planned}


def _text(table: str, value: Any) -> str:
    """Return a table as JSON text."""
    if table in BY_SERVER:
        return table_text(value)
    if table in ROUTES.values() or table == "OVERLAYS":
        return table_text(value, ONE_LINE)
    return json_line(value) if table.endswith("CAPABILITIES") else json_text(value)


def _listed(lists: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the snapshot, {server: {kind: JSON-like value}}, with its values as JSON texts.

    "server" is no list, but what a server said about itself.
    """
    return {
        server: {
            kind: list_text(value) if isinstance(value, list) else json_text(value, ONE_LINE)
            for kind, value in values.items()
        }
        for server, values in lists.items()
    }


def _tables(
    rows: Mapping[str, Mapping[str, Any]], snapshot: Snapshot, linked: Linked, options: Options
) -> dict[str, Any]:
    """Return the tables that are JSON texts in the emitted file, by their names there."""
    tables: dict[str, Any] = {"SERVERS": dict(rows)}
    for name, servers in (("FAILED", snapshot.failed), ("KEPT", snapshot.kept)):
        if servers:
            tables[name] = list(servers)
    listed = [kind for kind in KINDS if kind.is_declared(linked.capabilities)]
    for kind in KINDS:
        if kind in listed or linked.routes[kind.name] or kind is TOOLS:
            tables[ROUTES[kind.name]] = _by_server(linked.routes[kind.name])
    if linked.composed.tools:
        tables["SUBTOOLS"] = linked.composed.subtools
    if linked.profiles:
        tables["PROFILES"] = {name: _row(subset) for name, subset in linked.profiles.items()}
    if linked.overlays:
        tables["OVERLAYS"] = linked.overlays
    return tables | {
        "CHILDREN": _facts(rows, snapshot, linked),
        "CAPABILITIES": linked.capabilities,
        **_if_other("MODERN_CAPABILITIES", linked),
        "OPTIONS": options.runtime(),
        "INSTRUCTIONS": _paragraphs(linked.instructions),
        "LISTS": {
            kind.method: [kind.name, kind.member, kind.key, kind.label]
            for kind in listed
            if _is_ready(kind, snapshot)
            and kind.name not in linked.told_apart
            and not (kind is TOOLS and linked.overlays)
        },
    }


def _row(subset: Subset) -> dict[str, Any]:
    """Return what the emitted file holds of a profile."""
    return {
        "clients": [*subset.clients],
        "tools": subset.tools,
        "capabilities": subset.capabilities,
        **_if_other("modern_capabilities", subset),
        "instructions": _paragraphs(subset.instructions),
    }


def _if_other(name: str, declares: Linked | Subset) -> dict[str, Any]:
    """Return what is declared without a handshake, under a name, if that is something else."""
    other = declares.modern_capabilities
    return {name: other} if other != declares.capabilities else {}


def _paragraphs(instructions: str) -> list[str]:
    return instructions.split("\n\n") if instructions else []


def _by_server(routes: Mapping[str, Route]) -> dict[str, dict[str, list[str]]]:
    """Return routes {exposed name: (server, …)} as {server: {exposed name: […]}}."""
    found: dict[str, dict[str, list[str]]] = {}
    for exposed, (server, *names) in routes.items():
        found.setdefault(server, {})[exposed] = names
    return found


def _facts(
    rows: Mapping[str, Mapping[str, Any]], snapshot: Snapshot, linked: Linked
) -> dict[str, dict[str, Any]]:
    """Return what was learnt of each server, the variables that it needs, and a digest of it all.

    A variable is not needed where every reference to it has a default.
    """
    facts = {}
    for child in snapshot.children:
        uses_ = uses(rows[child.name])
        needs = sorted({name for _, name, default in uses_ if default is None})
        needed = {"needs": needs} if needs else {}
        facts[child.name] = {**linked.children[child.name], **needed, "digest": _digest(child)}
    return facts


def _is_ready(kind: Kind, snapshot: Snapshot) -> bool:
    """Whether what clients with a handshake get needs no more than the tables.

    They do not understand each output schema of a server without a handshake.
    """
    if kind is SKILLS:
        return False
    return kind is not TOOLS or not any(
        child.protocol == MODERN_VERSION and any(wraps_output(dumps(t)) for t in child.tools)
        for child in snapshot.children
    )


def _snapshot_lists(snapshot: Snapshot, linked: Linked) -> dict[str, dict[str, Any]]:
    """Return {server: {kind: JSON-like value}}, the composite tools under the server ""."""
    lists = {child.name: _lists(child) for child in snapshot.children}
    return lists | {"": {"tools": linked.composed.tools}} if linked.composed.tools else lists


def _digest(child: ChildSnapshot) -> str:
    """Return a digest of a child's answers, whatever the order of their members.

    Half of SHA-256: it makes the proxy's version (`version_of`), and is no proof of anything.
    """
    plain = {one.name: getattr(child, one.name) for one in fields(child) if one.compare}
    if not child.handshake:
        del plain["handshake"]  # so that a server of one era keeps the digest that it had
    text = dumps(plain | {"conditional": sorted(child.conditional)}, sort=True)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256:{digest[:16]}"


def _unused(rows: Mapping[str, Mapping[str, Any]], linked: Linked, http: bool) -> set[str]:
    """Return the modules and parts that this proxy has no use for."""
    children = linked.children.values()
    declared = {*linked.capabilities, *linked.capabilities.get("extensions", ())}
    has_uris = not declared.isdisjoint({"resources", SKILLS.capability})
    modern = any(facts["protocol"] == MODERN_VERSION for facts in children)
    remote = any("url" in row for row in rows.values())
    used = {
        "composite": bool(linked.composed.tools),
        "masking": any("masks" in row for row in rows.values()),
        "remote": remote,
        "urls": remote,
        "repeated": remote or http,
        "narrowing": bool(linked.profiles),
        "entries": bool(linked.overlays) or modern,
        "addresses": has_uris and len(rows) > 1,
        "http": http,
    }
    return {name for name, needed in used.items() if not needed}


@cache
def _template() -> jinja2.Template:
    folder = bytecode_folder()
    environment = jinja2.Environment(
        bytecode_cache=jinja2.FileSystemBytecodeCache(str(folder)) if folder else None,
        loader=jinja2.PackageLoader(PACKAGE, ""),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Python text; every value went through mcpagg.literal
    )
    environment.globals |= {
        "compiler": __version__,
        "runtime_digest": runtime_digest(),
        "routes": ROUTES,
    }
    return environment.get_template("server.py.j2")


def _lists(child: ChildSnapshot) -> dict[str, Any]:
    about: dict[str, Any] = {"serverInfo": child.info, "capabilities": child.capabilities}
    if child.handshake:
        about["handshakeCapabilities"] = child.handshake["capabilities"]
    if child.instructions is not None:
        about["instructions"] = child.instructions
    lists: dict[str, Any] = {"server": about}
    for kind in KINDS:
        if child.items(kind) or kind is TOOLS:
            lists[kind.name] = list(child.items(kind))
    return lists
