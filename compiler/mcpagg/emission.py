"""Emission: from the linked tables to the text of the emitted file.

The same inputs give the same bytes: no clock, no host, no absolute path, no order but the config's
and each child's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from typing import Any

import black
import jinja2
from black.mode import TargetVersion

from mcpagg.bundle import PACKAGE, bundle
from mcpagg.jsontext import written
from mcpagg.linking import Linked
from mcpagg.literal import comment, json_text, literal
from mcpagg.options import Options
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.catalogue import KINDS, TOOLS
from mcpagg_runtime.launch import uses

MODE = black.Mode(line_length=100, target_versions={TargetVersion.PY39})
TABLES = {
    "tools": "ROUTES",
    "prompts": "PROMPT_ROUTES",
    "resources": "RESOURCE_ROUTES",
    "templates": "TEMPLATE_ROUTES",
}
# The names that the templates define, which no room may define again.
DEFINED = {"SERVERS", "CHILDREN", "CAPABILITIES", "OPTIONS", "INSTRUCTIONS", "SNAPSHOT", "FOLDED"}
DEFINED |= {"PLAN", "SUBTOOLS", "FAILED", "NEEDS", *TABLES.values()}
# A route is one line, however long its names.
ROW_MODE = black.Mode(line_length=1000, target_versions={TargetVersion.PY39})
NEEDS_NOTHING = "no variable of the environment"


def emit(
    *,
    name: str,
    source: str,
    commands: tuple[str, str],
    rows: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
    linked: Linked,
    options: Options,
) -> str:
    """Return the text of the emitted file.

    `source` is the config's path as the header shows it; `commands` are those that rebuild and
    check the file, as a shell would take them.
    """
    composed = linked.composed
    needs = _needs(rows)
    required = [name for name, needed in needs.items() if needed]
    snapshot_digest = _digest(_plain(snapshot))
    runtime = bundle("main", DEFINED, _unused(rows, linked))
    templates = _templates()
    body = templates.get_template("body.py.j2").render(
        imports=_formatted(runtime.imports),
        servers=_table("SERVERS", rows) + _failed(snapshot),
        needs=_table("NEEDS", required) if required else "",
        routes={
            TABLES[name]: (name, _table(TABLES[name], rows, ROW_MODE))
            for name, rows in linked.routes.items()
            if rows or name == "tools"
        },
        capabilities=_capabilities(linked),
        children=_table("CHILDREN", linked.children),
        options=_table("OPTIONS", options.runtime()),
        instructions=_table("INSTRUCTIONS", linked.instructions),
        snapshot={_key(child.name): _lists(child) for child in snapshot.children},
        composites=json_text(composed.tools) if composed.tools else "",
        subtools=_table("SUBTOOLS", composed.subtools) if composed.tools else "",
        runtime=runtime.rooms,
        folded={_key(name): source for name, source in runtime.folded.items()},
        name=_key(name),
        proxy_version=_key(snapshot_digest[len("sha256:") :][:12]),
    )
    body = body.rstrip("\n") + "\n"
    return templates.get_template("server.py.j2").render(
        version=version("mcpagg"),
        source=comment(source),
        command=comment(commands[0]),
        check=comment(commands[1]),
        config_digest=_digest({**rows, "": composed.subtools} if composed.tools else rows),
        options_digest=_digest(options.model_dump(mode="json")),
        snapshot_digest=snapshot_digest,
        counts=_counts(snapshot),
        needs=comment(_listed(needs)),
        body_digest=_hash(body),
        body=body,
    )


def _plain(snapshot: Snapshot) -> dict[str, Any]:
    """Return all of a snapshot as one JSON-like value."""
    children = [
        {one.name: getattr(child, one.name) for one in fields(child)}
        | {"conditional": sorted(child.conditional)}
        for child in snapshot.children
    ]
    for plain in children:
        if not plain["hints"]:  # the digest of a child without is what it was before there were any
            del plain["hints"]
    return {"children": children, "failed": snapshot.failed}


def _failed(snapshot: Snapshot) -> str:
    if not snapshot.failed:
        return ""
    return "# Left out, because they failed when this was compiled with --allow-failed.\n" + _table(
        "FAILED", list(snapshot.failed)
    )


def _unused(rows: Mapping[str, Mapping[str, Any]], linked: Linked) -> set[str]:
    """Return the rooms that this proxy has no use for."""
    unused = set() if linked.composed.tools else {"composite"}
    return unused if any("masks" in row for row in rows.values()) else unused | {"masking"}


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(PACKAGE, ""),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=False,
        autoescape=False,  # noqa: S701 - Python text; every value went through mcpagg.literal
    )


def _capabilities(linked: Linked) -> str:
    """Return the literal that the template assigns, broken as the whole assignment would be."""
    text = written(linked.capabilities, separators=(",", ":"))
    return _table("CAPABILITIES", text).removeprefix("CAPABILITIES = ")


def _table(name: str, value: Any, mode: black.Mode = MODE) -> str:
    return _formatted(f"{name} = {literal(value)}\n", mode)


def _formatted(text: str, mode: black.Mode = MODE) -> str:
    return black.format_str(text, mode=mode)


def _lists(child: ChildSnapshot) -> dict[str, str]:
    about: dict[str, Any] = {"serverInfo": child.info, "capabilities": child.capabilities}
    if child.instructions is not None:
        about["instructions"] = child.instructions
    lists = {"server": json_text(about)}
    for kind in KINDS:
        if child.items(kind) or kind is TOOLS:
            lists[kind.name] = json_text(list(child.items(kind)))
    return {_key(name): text for name, text in lists.items()}


def _key(name: str) -> str:
    return _formatted(literal(name)).strip()


def _counts(snapshot: Snapshot) -> str:
    counts = {"servers": len(snapshot.children)}
    for kind in KINDS:
        counts[kind.name] = sum(len(child.items(kind)) for child in snapshot.children)
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


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
    return _hash(written(value, sort=True))


def _hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
