"""Advisories: for which frozen packages they are published, as npm and uv report them.

The tools are given what is frozen as a project of theirs, and fetch no package. npm asks its
registry, uv asks OSV, by names and versions. A uv without `audit` is not asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mcpagg.jsontext import members_of
from mcpagg.passes.freezing.attestations import objects
from mcpagg.passes.freezing.npm import NEEDED as NPM_NEEDED
from mcpagg.passes.freezing.pypi import NEEDED as UV_NEEDED
from mcpagg.passes.freezing.running import Tool, Unresolved
from mcpagg.passes.freezing.trees import hashes_of, oldest_python, pins
from mcpagg_runtime.frozen.npm import folder_of, write_project
from mcpagg_runtime.frozen.table import NpmTree, PypiTree
from mcpagg_runtime.launch.launch import Launch

NPM_AUDIT = (
    "audit",
    "--json",
    "--package-lock-only",
    "--include=optional",
    "--include=peer",
    "--workspaces=false",
    "--global=false",
    "--fetch-retries=0",
)
UV_AUDIT = ("audit", "--script=frozen.py", "--output-format=json", "--no-build", "--quiet")
UV_RETRIES = {"UV_HTTP_RETRIES": "0"}
"""For a service that is away, which uv would ask for many seconds."""
NO_AUDIT = "unrecognized subcommand"


class Advisory(NamedTuple):
    """An advisory on a package: how grave it is, and what mends it, "" where that is not known."""

    name: str
    version: str
    severity: str
    title: str
    id: str
    remedy: str

    def __str__(self) -> str:
        grave = f"{self.severity}: " if self.severity else ""
        known = f"{self.title} ({self.id})" if self.title and self.id else self.title or self.id
        return f"{self.name} {self.version}: {grave}{known}{self.remedy and f'; {self.remedy}'}"


def find_advisories(tree: NpmTree | PypiTree, launch: Launch, folder: Path) -> list[Advisory]:
    """Return the advisories of the packages of a tree, sorted; `folder` is empty.

    Raises:
        Unresolved: the tool does not say.
    """
    if isinstance(tree, NpmTree):
        found = _of_npm(tree, Tool("npm", launch, NPM_NEEDED), folder)
    else:
        found = _of_uv(tree, Tool("uv", launch, UV_NEEDED, UV_RETRIES), folder)
    return sorted({*found})


def _of_npm(tree: NpmTree, npm: Tool, folder: Path) -> Iterator[Advisory]:
    """Yield what npm reports of the lock that a start would make of the tree."""
    write_project(tree, str(folder))
    places = {folder_of(package): package.version for package in tree.packages}
    for entry in members_of(npm.report(NPM_AUDIT, folder, "vulnerabilities")).values():
        nodes, reasons = members_of(entry).get("nodes"), members_of(entry).get("via")
        versions = {version for place, version in places.items() if place in (nodes or ())}
        for via in filter(None, objects(reasons)):  # others are names of what it has it from
            yield from (_npm_advisory(via, version) for version in versions)


def _npm_advisory(via: Mapping[str, Any], version: str) -> Advisory:
    said = {key: str(via.get(key) or "") for key in ("name", "severity", "title", "url", "range")}
    remedy = f"affects {said['range']}" if said["range"] else ""
    id_ = said["url"].rpartition("/")[2]
    return Advisory(said["name"], version, said["severity"], said["title"], id_, remedy)


def _of_uv(tree: PypiTree, uv: Tool, folder: Path) -> Iterator[Advisory]:
    """Yield what uv reports of a script that asks for the packages of the tree."""
    wanted = [f"#   {json.dumps(line)}," for line in pins(tree, hashes_of(tree)).values()]
    python = f'# requires-python = ">=3.{oldest_python(tree)}"'
    lines = ["# /// script", python, "# dependencies = [", *wanted, "# ]", "# ///", ""]
    folder.joinpath("frozen.py").write_text("\n".join(lines), "utf-8")
    try:
        report = uv.report(UV_AUDIT, folder, "vulnerabilities")
    except Unresolved as fault:
        if NO_AUDIT in str(fault):
            return
        raise
    for entry in objects(report):
        package = members_of(entry.get("dependency"))
        name, version = str(package.get("name", "")), str(package.get("version", ""))
        title, id_ = str(entry.get("summary") or ""), str(entry.get("display_id") or "")
        mended = ", ".join(map(str, entry.get("fix_versions") or ()))
        yield Advisory(name, version, "", title, id_, mended and f"mended in {mended}")
