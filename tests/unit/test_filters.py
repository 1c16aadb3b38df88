"""Filters that fit nothing: refused where they should withhold a tool of a server that is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagg.options import Options
from mcpagg.passes.config import read_config
from mcpagg.passes.config.selection import filtered
from mcpagg.passes.linking.filters import check_filters
from mcpagg.problems import ConfigError
from mcpagg.snapshot import ChildSnapshot, Snapshot

Json = dict[str, Any]


def told(
    config: Json, *, failed: tuple[str, ...] = (), source: str = "mcp.json", **options: Any
) -> tuple[list[str], list[str]]:
    """Return the errors and the warnings; each server has `read`, `write_file` and a resource."""
    chosen = Options(**options)
    text = json.dumps(config).encode("utf-8")
    spec, _ = read_config(text, source=source, folder=Path("/project"), skip=chosen.skip)
    spec = filtered(spec, chosen.expose, chosen.hide)
    tools: tuple[Json, ...] = tuple(
        {"name": name, "inputSchema": {}} for name in ("read", "write_file")
    )
    resources = ({"uri": "docs://a", "name": "a"},)
    children = tuple(
        ChildSnapshot(
            one.name,
            "2025-11-25",
            {},
            tools=() if one.name == "silent" else tools,
            resources=resources,
        )
        for one in spec.servers
        if one.name not in failed
    )
    try:
        warnings = check_filters(spec, Snapshot(children, failed), chosen)
    except ConfigError as fault:
        return [str(one) for one in fault.problems], []
    return [], [str(one) for one in warnings]


def servers(**entries: Json) -> Json:
    return {"mcpServers": {name: {"command": "run", **entry} for name, entry in entries.items()}}


def profile(*hide: str, **entries: Json) -> Json:
    return servers(**entries) | {"mcpagg": {"profiles": {"p": {"hide": [*hide]}}}}


def opencode(**tools: bool) -> Json:
    names = ("files", "files_more")
    entries = {name: {"type": "local", "command": ["run"]} for name in names}
    return {"mcp": entries, "tools": tools}


IDLE = "the filter '{}' fits nothing"
TWO: Json = servers(files={}, web={})


@pytest.mark.parametrize(
    ("config", "options", "text", "near"),
    [
        (servers(files={"disabledTools": ["raed"]}), {}, "files:raed", "`read`"),
        (servers(files={"disabledTools": ["read", "docs://*b"]}), {}, "files:docs://*b", "it has"),
        (TWO, {"hide": ("files:wirte_*",)}, "files:wirte_*", "`files:write_file`"),
        (profile("web:wirte_file", files={}, web={}), {}, "web:wirte_file", "`web:write_file`"),
        (profile("reserch", files={}), {}, "reserch", "leave it out"),
        (opencode(files_raed=False), {}, "files_raed", "`files_read`"),
        (opencode(files_more_raed=False), {}, "files_more_raed", "`files_more_read`"),
    ],
)
def test_a_filter_that_withholds_nothing_of_a_server_that_is_there_is_refused(
    config: Json, options: Json, text: str, near: str
) -> None:
    [error], _ = told(config, **options)
    assert IDLE.format(text) in error
    assert near in error
    assert "--ignore" in error
    for glob in ("", f"={text}"):
        assert told(config, **options, ignore=(f"unused-filter{glob}",)) == ([], [])


@pytest.mark.parametrize(
    ("config", "options", "warned"),
    [
        # It opens nothing.
        (servers(files={"includeTools": ["raed"]}), {}, ["files:raed"]),
        # For all servers.
        (TWO, {"hide": ("*:delete*",)}, ["*:delete*"]),
        (profile("*:delete*", files={}), {}, ["*:delete*"]),
        (opencode(**{"*_delete": False}), {}, ["*_delete"]),
        # The client's own tools.
        (opencode(bash=False, **{"write*": False}), {}, []),
        # Of a server that is left out or failed, or has no tools.
        (TWO, {"hide": ("files:raed",), "skip": ("files",)}, []),
        (TWO, {"hide": ("files:raed",), "failed": ("files",)}, []),
        (servers(files={"disabledTools": ["raed"]}), {"failed": ("files",)}, []),
        (profile("web:raed", files={}, web={}), {"failed": ("web",)}, ["web:raed"]),
        (servers(silent={"disabledTools": ["raed"]}), {}, ["silent:raed"]),
        # What fits a tool, a resource, or one of several servers.
        (servers(files={"disabledTools": ["re*", "docs://*"]}), {}, []),
        (TWO, {"hide": ("*:read", "files:write_file")}, []),
        (profile("files:re*", "silent:", files={}, silent={}), {}, []),
        (opencode(files_more_read=False, files_read=False), {}, []),
    ],
)
def test_what_opens_nothing_is_at_most_warned_of(
    config: Json, options: Json, warned: list[str]
) -> None:
    errors, warnings = told(config, **options)
    assert errors == []
    assert len(warnings) == len(warned)
    assert all(IDLE.format(text) in one for text, one in zip(warned, warnings, strict=True))


def test_an_ignore_that_ignores_nothing_is_told() -> None:
    _, [warning] = told(TWO, ignore=("unused-filter=files:x",))
    assert warning == "--ignore unused-filter=files:x ignores nothing"
