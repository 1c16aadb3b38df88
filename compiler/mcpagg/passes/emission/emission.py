"""Emission: from the linked tables to the text of the emitted file.

The same inputs give the same bytes: no clock, no host, no absolute path, no order but the config's
and each child's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any

import black
import jinja2
from black.mode import TargetVersion
from jinja2.runtime import Context

from mcpagg import __version__
from mcpagg.jsontext import dumps
from mcpagg.literal import ONE_LINE, comment, json_text, list_text, literal
from mcpagg.options import Commands, Options
from mcpagg.passes.emission.approval import Approval
from mcpagg.passes.emission.bundle import (
    PACKAGE,
    TEMPLATE,
    Bundle,
    BundleError,
    bundle,
    package_name,
    runtime_digest,
)
from mcpagg.passes.emission.readback import cut, read_back
from mcpagg.passes.emission.tables import ROUTES, SNAPSHOT, TABLES
from mcpagg.passes.linking.linking import Linked, Route, Subset
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.launch.needs import uses
from mcpagg_runtime.lists.catalogue import KINDS, SKILLS, TOOLS, Kind, wraps_output
from mcpagg_runtime.messages.protocol import MODERN_VERSION
from mcpagg_runtime.start.digest import data_digest

APPROVED = "\nAPPROVAL = "
"""Stands in a text that has an approval."""
HTTP = "http"
"""The folder of modules that serving over HTTP takes."""
PARTS = (
    "frozen",
    HTTP,
    "launch.urls",
    "messages.param_headers",
    "remote",
    "routing.composite",
    "servers.masking",
)
"""The modules, and whole folders, that only some proxies have use for."""
NOTHING: Mapping[str, Sequence[str]] = {}
"""The table FROZEN of a proxy that freezes nothing."""
_LAYOUT = black.Mode(line_length=100, target_versions={TargetVersion.PY39})
_MARKS = re.compile(r"framed_(\d+)_")


def emit(  # noqa: PLR0913 - all that a file is made of
    *,
    name: str,
    source: str,
    commands: Commands,
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    linked: Linked,
    options: Options,
    http: Mapping[str, Any] | None,
    approve: Callable[[str], Approval],
    frozen: Mapping[str, Sequence[str]] = NOTHING,
) -> str:
    """Return the text of the emitted file.

    `source` is the config's path as the header shows it; `commands` are those that the file
    records, and their `config` is what a proxy with remote servers says how to log in by. `rows`
    are the servers as they are meant from where the file will lie. `http` is what the config says
    of serving over HTTP, None for a proxy that does not. `approve` is given the digest of what was
    decided, and returns its approval. `frozen` has the rows of what is frozen, by server.

    Raises:
        ReadBackError: the text does not mean what went in.
    """
    tables = _tables(rows, snapshot, linked, options, frozen)
    if http is not None:
        tables["OPTIONS"]["http"] = dict(http)
    if frozen:
        tables["FROZEN"] = {name: list(lines) for name, lines in frozen.items()}
    lists = _snapshot_lists(snapshot, linked)
    texts = _texts(tables) | {"SNAPSHOT": _snapshot_texts(lists)}
    about = {"name": name}
    if commands.config and any("url" in row for row in rows.values()):
        about["config"] = commands.config
    if approval := approve(data_digest({**about, **_plan_texts(texts)})):
        tables["APPROVAL"] = dict(approval)
        texts |= _texts({"APPROVAL": tables["APPROVAL"]})
    parts = _parts(rows, linked, http=http is not None, frozen=bool(frozen))
    runtime = bundle(_others(parts))
    text = _rendered(
        runtime,
        texts,
        about,
        source=comment(source),
        command=comment(commands.rebuild),
        check=comment(commands.check),
        parts=", ".join(parts),
        http=http is not None,
    )
    embedded = {name: f"\n{module}" for name, module in runtime.texts.items()}
    read_back(text, tables, lists, {"COMPILER": __version__, "PLAN": about, "RUNTIME": embedded})
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
    texts = _texts(_tables(rows, snapshot, linked, options))
    texts["SNAPSHOT"] = _snapshot_texts(_snapshot_lists(snapshot, linked))
    return {"name": name, "compiler": __version__, **_plan_texts(texts)}


def code_with(parts: Collection[str]) -> tuple[str, str] | None:
    """Return the code of a proxy that has these of PARTS, as `Sections.code`.

    None if no proxy has these.
    """
    try:
        runtime = bundle(_others(parts))
    except BundleError:
        return None
    header = dict.fromkeys(("source", "command", "check", "parts"), "")
    sections = cut(_rendered(runtime, {}, {}, http=HTTP in parts, **header))
    return sections and sections.code


def _rendered(
    runtime: Bundle,
    texts: Mapping[str, Any],
    about: Mapping[str, str],
    **header: str | bool,
) -> str:
    """Return the text of a file: the template, laid out by black, and then what it frames.

    The code of `start` is laid out by itself, since it is the same in every file.
    """
    framed: list[str] = []
    frame = _template().render(
        compiler=__version__,
        runtime_digest=runtime_digest(),
        package=package_name(),
        tables={
            table: _literals(text) if table is SNAPSHOT else text
            for table in TABLES
            if (text := texts.get(table.name)) is not None
        },
        about={key: literal(value) for key, value in about.items()},
        code=_laid_out(runtime.code).rstrip(),
        runtime=runtime.texts,
        framed=framed,
        **header,
    )
    return _MARKS.sub(lambda mark: framed[int(mark[1])], _laid_out(frame))


def _literals(lists: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {
        literal(server): {literal(kind): text for kind, text in values.items()}
        for server, values in lists.items()
    }


@jinja2.pass_context
def _mark(context: Context, value: str) -> str:
    """Keep a text that the template frames, and return what stands for it until it is laid out."""
    framed: list[str] = context["framed"]
    framed.append(value)
    return f"framed_{len(framed) - 1}_"


@lru_cache
def _laid_out(frame: str) -> str:
    """Return Python text as black lays it out, with the package under its name in a file."""
    frame = frame.replace(f"from {PACKAGE}.", f"from {package_name()}.")
    return black.format_str(frame, mode=_LAYOUT)


def _texts(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables {name: value} as JSON texts."""
    return {
        table.name: table.layout(tables[table.name]) for table in TABLES if table.name in tables
    }


def _plan_texts(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables that a Plan has, by its names for them."""
    return {
        table.planned: texts[table.name]
        for table in TABLES
        if table.planned and table.name in texts
    }


def _snapshot_texts(lists: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
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
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    linked: Linked,
    options: Options,
    frozen: Mapping[str, Sequence[str]] = NOTHING,
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
    if linked.own_uris:
        tables["OWN_URIS"] = linked.own_uris
    if linked.composed.tools:
        tables["SUBTOOLS"] = linked.composed.subtools
    if linked.profiles:
        tables["PROFILES"] = {name: _row(subset) for name, subset in linked.profiles.items()}
    if linked.overlays:
        tables["OVERLAYS"] = linked.overlays
    return tables | {
        "CHILDREN": _facts(rows, snapshot, linked, frozen),
        "CAPABILITIES": linked.capabilities,
        **_if_other("MODERN_CAPABILITIES", linked),
        "OPTIONS": options.runtime(),
        "INSTRUCTIONS": _paragraphs(linked.instructions),
        "LISTS": {
            kind.method: [kind.name, kind.member, kind.key, kind.label]
            for kind in listed
            if _is_ready(kind, snapshot)
            and kind.name not in linked.prefixed_kinds
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
    """Return {name: capabilities without a handshake}, {} if they are those with one."""
    other = declares.modern_capabilities
    return {name: other} if other != declares.capabilities else {}


def _paragraphs(instructions: str) -> list[str]:
    return instructions.split("\n\n") if instructions else []


def _by_server(routes: Mapping[str, Route]) -> dict[str, dict[str, list[str]]]:
    """Return routes {exposed name: (server, …)} as {server: {exposed name: […]}}."""
    table: dict[str, dict[str, list[str]]] = {}
    for exposed, (server, *names) in routes.items():
        table.setdefault(server, {})[exposed] = names
    return table


def _facts(
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    linked: Linked,
    frozen: Mapping[str, Sequence[str]],
) -> dict[str, dict[str, Any]]:
    """Return what was learnt of each server, the variables that it needs, and a digest of it all.

    A variable is not needed where every reference to it has a default.
    """
    facts = {}
    for child in snapshot.children:
        uses_ = uses(rows[child.name])
        needs = sorted({name for _, name, default in uses_ if default is None})
        needed = {"needs": needs} if needs else {}
        digest = _digest(child, frozen.get(child.name, ()))
        facts[child.name] = {**linked.children[child.name], **needed, "digest": digest}
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


def _digest(child: ChildSnapshot, frozen: Sequence[str]) -> str:
    """Return a digest of a child's answers, whatever the order of their members.

    And of what is frozen of it: so `--check` shows rows that were edited by hand.
    Half of SHA-256: it makes the proxy's version (`version_of`), and is no proof of anything.
    """
    plain = {field.name: getattr(child, field.name) for field in fields(child) if field.compare}
    if not child.handshake:
        del plain["handshake"]  # so that a server of one era keeps the digest that it had
    if frozen:
        plain["frozen"] = [*frozen]
    text = dumps(plain | {"conditional": sorted(child.conditional)}, sort=True)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256:{digest[:16]}"


def _parts(
    rows: Mapping[str, Mapping[str, Any]], linked: Linked, *, http: bool, frozen: bool
) -> list[str]:
    """Return those of PARTS that this proxy has a use for.

    Other modules import them within functions, which no other proxy calls, or one of theirs extends
    another module (`bundle.EXTENDED`).
    """
    remote = any("url" in row for row in rows.values())
    used = {
        "frozen": frozen,
        HTTP: http,
        "launch.urls": remote,
        "messages.param_headers": remote or http,
        "remote": remote,
        "routing.composite": bool(linked.composed.tools),
        "servers.masking": any("masks" in row for row in rows.values()),
    }
    return [name for name in PARTS if used[name]]


def _others(parts: Collection[str]) -> list[str]:
    """Return those of PARTS that a proxy with these does without."""
    return [name for name in PARTS if name not in parts]


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(PACKAGE, ""),
        undefined=jinja2.StrictUndefined,
        finalize=_mark,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Python text; every value went through mcpagg.literal
    )
    return environment.get_template(TEMPLATE)


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
