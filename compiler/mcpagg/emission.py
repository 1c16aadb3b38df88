"""Emission: from the linked tables to the text of the emitted file.

The same inputs give the same bytes: no clock, no host, no absolute path, no order but the config's
and each child's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from typing import Any

import black
import jinja2
from black.mode import TargetVersion

from mcpagg.approval import Approval
from mcpagg.bundle import PACKAGE, bundle, runtime_digest
from mcpagg.jsontext import dumps
from mcpagg.linking import Linked
from mcpagg.literal import comment, json_text, literal
from mcpagg.options import Options
from mcpagg.problems import InternalFault, count
from mcpagg.readback import read_back
from mcpagg.sections import cut
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.serve.launch import uses
from mcpagg_runtime.start.catalogue import KINDS, SKILLS, TOOLS
from mcpagg_runtime.start.plan import Plan
from mcpagg_runtime.tool.approval import data_digest

MODE = black.Mode(line_length=100, target_versions={TargetVersion.PY39})
TABLES = {
    "tools": "ROUTES",
    "prompts": "PROMPT_ROUTES",
    "resources": "RESOURCE_ROUTES",
    "templates": "TEMPLATE_ROUTES",
    "skills": "SKILL_ROUTES",
}
# The names that the templates define, which no module may define again.
DEFINED = {"SERVERS", "CHILDREN", "CAPABILITIES", "OPTIONS", "INSTRUCTIONS", "SNAPSHOT", "PLAN"}
DEFINED |= {
    "__getattr__",
    "app",
    "COMPILER",
    "SUBTOOLS",
    "FAILED",
    "KEPT",
    "NEEDS",
    "APPROVAL",
    *TABLES.values(),
}
APPROVED = "\nAPPROVAL = "
"""Stands in a text that has an approval."""
NEEDS_NOTHING = "no variable of the environment"


def emit(  # noqa: PLR0913 - all that a file is made of
    *,
    name: str,
    source: str,
    commands: tuple[str, str],
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    linked: Linked,
    options: Options,
    http: Mapping[str, Any] | None = None,
    approve: Callable[[str], Approval] = lambda digest: {},
) -> str:
    """Return the text of the emitted file.

    `source` is the config's path as the header shows it; `commands` are those that rebuild and
    check the file, as a shell would take them. `rows` are the servers as they are meant from where
    the file will lie. `http` is what the config says of serving over HTTP, None for a proxy that
    does not. `approve` is given the digest of what was decided, and returns its approval.

    Raises:
        ReadBackError: the text does not mean what went in.
    """
    unused = _unused(rows, linked, http is not None)
    runtime = bundle(DEFINED, unused)
    snapshot_digest = _digest(_plain(snapshot))
    needs = _needs(rows)
    tables = _tables(rows, needs, snapshot, linked, options)
    if http is not None:
        tables["OPTIONS"]["http"] = dict(http)
    lists = _snapshot_lists(snapshot, linked)
    snapshot_texts = {
        server: {kind: json_text(value) for kind, value in values.items()}
        for server, values in lists.items()
    }
    about = {"name": name, "version": snapshot_digest[len("sha256:") :][:12]}
    if approval := approve(data_digest(_plan(name, tables, snapshot_texts))):
        tables["APPROVAL"] = dict(approval)
    templates = _templates()
    body = templates.get_template("body.py.j2").render(
        imports=black.format_str(runtime.imports, mode=MODE),
        tables={table: f"{table} = {literal(value)}" for table, value in tables.items()},
        routes={name: table for name, table in TABLES.items() if table in tables},
        snapshot={
            literal(server): {literal(kind): text for kind, text in texts.items()}
            for server, texts in snapshot_texts.items()
        },
        compiler=literal(version("mcpagg")),
        start=runtime.start,
        deferred={literal(name): source for name, source in runtime.deferred.items()},
        about={key: literal(value) for key, value in about.items()},
        http=http is not None,
    )
    body = body.rstrip("\n") + "\n"
    text = templates.get_template("server.py.j2").render(
        version=version("mcpagg"),
        source=comment(source),
        dependencies='["uvicorn>=0.30"]' if http is not None else "[]",
        command=comment(commands[0]),
        check=comment(commands[1]),
        needs=comment(_listed(needs)),
        data_digest=_hash(_decided(body)),
        counts=_counts(snapshot),
        runtime_digest=runtime_digest(),
        without=", ".join(sorted(unused)),
        body=body,
    )
    written_tables = tables | {
        "SNAPSHOT": snapshot_texts,
        "COMPILER": version("mcpagg"),
        "PLAN": about,
        **{name: f"\n{source}" for name, source in runtime.deferred.items()},
    }
    read_back(text, written_tables, lists)
    return text


def _plan(name: str, tables: Mapping[str, Any], snapshot: Mapping[str, Mapping[str, str]]) -> Plan:
    """Return the plan that the emitted file will have, but for what says who compiled it."""
    return Plan(
        name=name,
        version="",
        compiler="",
        servers=tables["SERVERS"],
        routes=tables["ROUTES"],
        snapshot=snapshot,
        children=tables["CHILDREN"],
        instructions=tables["INSTRUCTIONS"],
        options=tables["OPTIONS"],
        capabilities=tables["CAPABILITIES"],
        subtools=tables.get("SUBTOOLS", {}),
        needs=tables.get("NEEDS", ()),
        **{kind: tables.get(table, {}) for kind, table in TABLES.items() if kind != TOOLS.name},
    )


def _decided(body: str) -> str:
    """Return what the config and the servers decided of a body.

    Raises:
        InternalFault: the templates and the rules for their sections disagree.
    """
    sections = cut(body)
    if sections is None:
        raise InternalFault("the body has no sections")
    return sections.decided


def _tables(
    rows: Mapping[str, Mapping[str, Any]],
    needs: Mapping[str, bool],
    snapshot: Snapshot,
    linked: Linked,
    options: Options,
) -> dict[str, Any]:
    """Return the tables that are Python literals, by their names in the emitted file."""
    tables: dict[str, Any] = {"SERVERS": dict(rows)}
    if required := [name for name, needed in needs.items() if needed]:
        tables["NEEDS"] = required
    for name, servers in (("FAILED", snapshot.failed), ("KEPT", snapshot.kept)):
        if servers:
            tables[name] = list(servers)
    for name, routes in linked.routes.items():
        if routes or name == "tools":
            tables[TABLES[name]] = routes
    if linked.composed.tools:
        tables["SUBTOOLS"] = linked.composed.subtools
    return tables | {
        "CHILDREN": linked.children,
        "CAPABILITIES": dumps(linked.capabilities, separators=(",", ":")),
        "OPTIONS": options.runtime(),
        "INSTRUCTIONS": linked.instructions,
    }


def _snapshot_lists(snapshot: Snapshot, linked: Linked) -> dict[str, dict[str, Any]]:
    """Return {server: {kind: JSON-like value}}, the composite tools under the server ""."""
    lists = {child.name: _lists(child) for child in snapshot.children}
    return lists | {"": {"tools": linked.composed.tools}} if linked.composed.tools else lists


def _plain(snapshot: Snapshot) -> dict[str, Any]:
    """Return all of a snapshot as one JSON-like value."""
    children = [
        {one.name: getattr(child, one.name) for one in fields(child) if one.compare}
        | {"conditional": sorted(child.conditional)}
        for child in snapshot.children
    ]
    for plain in children:
        for name in ("hints", "skills", "transport"):
            if not plain[name]:  # the digest of a child without stays what it was
                del plain[name]
    return {"children": children, "failed": snapshot.failed}


def _unused(rows: Mapping[str, Mapping[str, Any]], linked: Linked, http: bool) -> set[str]:
    """Return the modules and parts that this proxy has no use for."""
    extensions = {
        name for facts in linked.children.values() for name in facts.get("extensions", ())
    }
    used = {
        "composite": bool(linked.composed.tools),
        "masking": any("masks" in row for row in rows.values()),
        "skills": SKILLS.capability in extensions,
        "extensions": bool(extensions),
        "remote": any("url" in row for row in rows.values()),
        "http": http,
    }
    return {name for name, needed in used.items() if not needed}


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(PACKAGE, ""),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=False,
        autoescape=False,  # noqa: S701 - Python text; every value went through mcpagg.literal
    )


def _lists(child: ChildSnapshot) -> dict[str, Any]:
    about: dict[str, Any] = {"serverInfo": child.info, "capabilities": child.capabilities}
    if child.instructions is not None:
        about["instructions"] = child.instructions
    lists: dict[str, Any] = {"server": about}
    for kind in KINDS:
        if child.items(kind) or kind is TOOLS:
            lists[kind.name] = list(child.items(kind))
    return lists


def _counts(snapshot: Snapshot) -> str:
    counts = {"server": len(snapshot.children)}
    for kind in KINDS:
        counts[kind.name[:-1]] = sum(len(child.items(kind)) for child in snapshot.children)
    return ", ".join(count(number, name) for name, number in counts.items() if number)


def _needs(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """Return the variables that the launch table refers to, and whether one must be set.

    It need not where every reference has a default.
    """
    found: dict[str, bool] = {}
    for row in rows.values():
        for _, name, default in uses(row):
            found[name] = found.get(name, False) or default is None
    return dict(sorted(found.items()))


def _listed(needs: Mapping[str, bool]) -> str:
    """Name variables; one that need not be set in brackets."""
    return " ".join(n if must else f"[{n}]" for n, must in needs.items()) or NEEDS_NOTHING


def _digest(value: Any) -> str:
    """Return the digest of a JSON-like value, whatever the order of its members."""
    return _hash(dumps(value, sort=True))


def _hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
