"""What the list of tools costs, as it is shown and as it is limited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagg.options import Options
from mcpagg.passes.config import read_config
from mcpagg.passes.environment.relocation import launch_rows
from mcpagg.passes.linking.linking import link
from mcpagg.problems import ConfigError
from mcpagg.review.costs import Cost, as_table, check_size, measure
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot


def tool(name: str, **members: Any) -> Json:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def costs(
    *children: ChildSnapshot, hide: str = "", more: Any = None, **options: Any
) -> tuple[Cost, ...]:
    """Return what these servers cost; `hide` is a glob for the first, `more` of the config."""
    config = {"mcpServers": {child.name: {"command": "x"} for child in children}, **(more or {})}
    spec, _ = read_config(json.dumps(config).encode(), source="mcp.json", folder=Path("/"))
    rows = launch_rows(spec, Path("/"))
    rows[children[0].name]["hide"] = [hide]
    chosen = Options(**options)
    linked, _ = link(spec, rows, Snapshot(children), chosen)
    return measure(Snapshot(children), linked, chosen)


def test_a_tool_costs_its_text_in_utf_8_under_the_name_that_is_listed() -> None:
    child = ChildSnapshot("a", "2025-11-25", tools=(tool("t", title="é"),), seconds=1.25)
    text = '{"name":"a:t","inputSchema":{"type":"object"},"title":"é"}'
    [cost] = costs(child)
    assert cost == Cost("a", {"a:t": len(text.encode())}, 1.25)
    assert (cost.bytes, cost.tokens) == (59, 15)
    [cost] = costs(child, names="portable")
    assert cost.tools == {"a_t": 59}


def test_what_is_hidden_costs_nothing_and_a_composite_tool_has_its_own_row() -> None:
    child = ChildSnapshot("a", "2025-11-25", tools=(tool("t"), tool("u")))
    more = {"tools": {"both": {"subtools": {"a": {"tools": [{"name": "t"}]}}}}}
    own, composite = costs(child, hide="u", more=more)
    assert [*own.tools] == ["a:t"]
    assert (composite.server, [*composite.tools]) == ("", ["both"])


def test_the_table_has_a_row_a_server_and_their_sum() -> None:
    some = (Cost("first", {"a": 1000, "b": 400}, 0.25), Cost("", {"c": 10}))
    assert as_table(some, {"ops": some[1:]}) == [
        "  server       tools  bytes  tokens  start",
        "  first            2  1,400     350  0.2 s",
        "  (composite)      1     10       3",
        "  all              3  1,410     353",
        "  profile ops      1     10       3",
        "  tokens are an estimate: bytes of UTF-8 / 4",
    ]
    assert as_table([Cost("a", {"x": 4})], {}) == [
        "  server  tools  bytes  tokens",
        "  a           1      4       1",
        "  tokens are an estimate: bytes of UTF-8 / 4",
    ]


def test_a_list_that_is_too_large_is_refused_with_its_largest_tools() -> None:
    some = (Cost("a", {f"t{size}": size for size in range(1, 8)}), Cost("b", {"big": 1000}))
    check_size(some, {}, 1028, "mcp.json")
    with pytest.raises(ConfigError) as caught:
        check_size(some, {"p": some[:1], "q": some}, 1027, "mcp.json")
    assert caught.value.exit_code == 2
    assert str(caught.value) == (
        "mcp.json: the list of tools has 1,028 bytes, of at most 1,027 (--max-bytes); hide some; "
        "the largest are big 1,000, t7 7, t6 6, t5 5, t4 4\n"
        "mcp.json: the list of tools of the profile 'q' has 1,028 bytes, of at most 1,027 "
        "(--max-bytes); hide some; the largest are big 1,000, t7 7, t6 6, t5 5, t4 4"
    )
