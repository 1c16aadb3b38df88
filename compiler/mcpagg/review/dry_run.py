"""The outcome of `--dry-run`: what would be started, with references and no values."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

from mcpagg.passes.config.coordinator import hidden_literals
from mcpagg.passes.config.credentials import find_credentials
from mcpagg.passes.environment.pins import Pin, unpinned
from mcpagg.problems import CompileError, Problem
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.launch.launch import strings
from mcpagg_runtime.launch.variables import references

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class DryRun:
    """A config that was read; `fault` is why a compilation would refuse it, if it would."""

    spec: ProxySpec
    environ: Mapping[str, str]
    warnings: tuple[Problem, ...]
    pins: tuple[Pin, ...] = ()
    fault: CompileError | None = None


def as_json(run: DryRun) -> str:
    """Return the outcome as JSON.

    {source, servers: […], left_out: […], composites: […], warnings: […], errors: […]}
    """
    warnings = (*run.warnings, *unpinned(run.pins, each=True))
    return _report(
        run.spec.source,
        run.fault.problems if run.fault is not None else (),
        servers=[_server(server, run.environ) for server in run.spec.servers],
        left_out=[asdict(entry) for entry in run.spec.left_out],
        composites=[asdict(composite) for composite in run.spec.composites],
        warnings=[*map(asdict, warnings)],
    )


def errors_as_json(fault: CompileError) -> str:
    """Return what is wrong with a config that could not be understood, in the same shape."""
    return _report(fault.source, fault.problems)


def _report(source: str, errors: Iterable[Problem], **parts: list[dict[str, Any]]) -> str:
    lists = {
        name: parts.get(name, []) for name in ("servers", "left_out", "composites", "warnings")
    }
    report = {"source": source, **lists, "errors": [*map(asdict, errors)]}
    return json.dumps(report, indent=2)


def as_text(run: DryRun) -> str:
    """Return the outcome as lines to read."""
    lines = [line for server in run.spec.servers for line in _lines(server, run.environ)]
    for composite in run.spec.composites:
        called = [f"{subtool.server}/{subtool.tool}" for subtool in composite.subtools]
        lines.append(f"composite tool {composite.name}: {', '.join(called)}")
    lines += [f"{entry.name}: left out: {entry.why}" for entry in run.spec.left_out]
    return "\n".join(lines)


def _lines(server: ServerSpec, environ: Mapping[str, str]) -> Iterator[str]:
    row = without_credentials(server, server.row())
    target = row.get("url") or shlex.join([row["command"], *row["args"]])
    yield f"{server.name}: {server.transport}: {target}"
    if row.get("headers"):
        yield f"  headers: {', '.join(row['headers'])}"
    for name in ("cwd", "env_file", "timeout", "expose", "hide", "rename", "masks"):
        if name in row:
            yield f"  {name}: {json.dumps(row[name], ensure_ascii=False)}"
    for variable in _variables(server, environ):
        state = "set" if variable["set"] else "not set"
        default = ", has a default" if variable["default"] else ""
        yield f"  {variable['name']}: {state}{default} ({variable['place']})"


def _server(server: ServerSpec, environ: Mapping[str, str]) -> dict[str, Any]:
    facts = {"name": server.name, "path": server.path, "transport": server.transport}
    row = without_credentials(server, server.row())
    return facts | row | {"variables": [*_variables(server, environ)]}


def without_credentials(server: ServerSpec, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a server, or what it became elsewhere, less its literal credentials."""
    masked = deepcopy(dict(row))
    for credential in (*find_credentials(server), *hidden_literals(server)):
        field, key = credential.location.field, credential.location.key
        if credential.placeholder:
            continue
        if field == "masks":
            masked[field][key]["value"] = HIDDEN
        elif key is None:
            masked[field] = HIDDEN
        else:
            masked[field][key] = HIDDEN
    return masked


def _variables(server: ServerSpec, environ: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for location, text in strings(server.row()):
        for name, default in references(text):
            has_default = default is not None
            yield {
                "name": name,
                "place": str(location),
                "set": name in environ,
                "default": has_default,
            }
