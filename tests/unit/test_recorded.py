"""Which servers are asked, and what is taken from FILE of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compilations import compilation, tool

from mcpagg.passes.emission.recorded import (
    asked_servers,
    check_recorded,
    combined,
    read_contents,
    renamed_servers,
)
from mcpagg.problems import ConfigError
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg.spec import ProxySpec, ServerSpec

# Deeper than the parsers of Python and of JSON go.
DEEP = "-" * 100_000 + "1"


def spec(*names: str) -> ProxySpec:
    servers = tuple(ServerSpec(name=name, path=f"mcpServers.{name}") for name in names)
    return ProxySpec(source="mcp.json", folder=Path(), servers=servers)


def snapshot(*names: str, version: str = "1", **lists: Any) -> Snapshot:
    children = tuple(ChildSnapshot(name, "2025-11-25", {"version": version}) for name in names)
    return Snapshot(children, **lists)


def versions(found: Snapshot) -> dict[str, str]:
    return {child.name: child.info["version"] for child in found.children}


def row(command: str, **more: Any) -> dict[str, Any]:
    return {"command": command, "args": [], "env": {}, **more}


def test_all_are_asked_or_those_that_are_named() -> None:
    assert asked_servers(spec("a", "b"), None) == {"a", "b"}
    assert asked_servers(spec("a", "b"), []) == set()
    assert asked_servers(spec("a", "b"), ["b"]) == {"b"}


def test_a_name_to_refresh_that_no_server_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        asked_servers(spec("github", "db"), ["githup", "x"])
    assert [str(problem) for problem in caught.value.problems] == [
        "--refresh githup is no server of the config; did you mean `github`?",
        "--refresh x is no server of the config; there are: github, db",
    ]


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ({"a": row("x"), "b": row("y")}, {"c": row("x"), "b": row("y")}, {"a": "c"}),
        # Filters and limits are no part of how a server is started.
        ({"a": row("x", timeout=5)}, {"c": row("x", hide=["t"])}, {"a": "c"}),
        ({"a": row("x")}, {"c": row("x", cwd="other")}, {}),
        # Who is who cannot be told.
        ({"a": row("x")}, {"c": row("x"), "d": row("x")}, {}),
        ({"a": row("x"), "b": row("x")}, {"c": row("x")}, {}),
        # One of two alike was renamed.
        ({"a": row("x"), "b": row("x")}, {"a": row("x"), "c": row("x")}, {"b": "c"}),
    ],
)
def test_a_server_with_another_name_is_known_by_how_it_is_started(
    before: dict[str, Any], now: dict[str, Any], names: dict[str, str]
) -> None:
    assert renamed_servers(before, now) == names


def test_what_was_not_asked_is_what_it_was() -> None:
    found, before = snapshot("b", version="2"), snapshot("old", "b", "a")
    assert versions(combined(spec("a", "b"), {"b"}, found, before)) == {"a": "1", "b": "2"}


def test_what_failed_is_kept_and_named_until_it_is_asked_again() -> None:
    before = snapshot("a", "b")
    kept = combined(spec("a", "b", "c"), {"a", "c"}, snapshot(), before)
    assert (versions(kept), kept.kept, kept.failed) == ({"a": "1", "b": "1"}, ("a",), ("c",))
    still = combined(spec("a", "b", "c"), {"b"}, snapshot("b", version="2"), kept)
    assert (versions(still), still.kept, still.failed) == ({"a": "1", "b": "2"}, ("a",), ("c",))
    again = combined(spec("a", "b", "c"), {"a"}, snapshot("a", version="2"), still)
    assert (versions(again), again.kept) == ({"a": "2", "b": "2"}, ())


def test_a_server_that_is_neither_asked_nor_recorded_is_named() -> None:
    check_recorded(spec("a", "b", "c"), {"c"}, snapshot("a", failed=("b",)), "server.py", "…")
    with pytest.raises(ConfigError, match=r"mcpServers\.b: is not in .* ask it with --refresh b,"):
        check_recorded(spec("a", "b"), set(), snapshot("a"), "server.py", "mcpagg-compile …")


def test_names_change_everywhere_in_a_snapshot() -> None:
    renamed = snapshot("a", "b", kept=("a",), failed=("c",)).renamed({"a": "x", "c": "y"})
    assert renamed == snapshot("x", "b", kept=("x",), failed=("y",))


@pytest.mark.parametrize(
    ("was", "is_now", "said"),
    [
        ('"protocol": "2025-11-25"', '"protocol": 5', "CHILDREN.db.protocol: expected a string, f"),
        ('"protocol": "2025-11-25",', "", "CHILDREN.db.protocol: is missing"),
        ('"command": "python3"', '"command": ["x"]', "SERVERS.db.command: expected a string, fou"),
        ('"args": []', '"args": ["a", null]', "SERVERS.db.args[1]: expected a string, found null"),
        ('{"name": "query"', '{"nam": "query"', "SNAPSHOT.db.tools[0].name: is missing"),
        ('r"""{\n "serverInfo"', 'r"""[{\n "serverInfo"', "holds no snapshot that can be read"),
        ('"tools": r"""[', f'"tools": r"""{"[" * 100_000}', "holds no snapshot that can be read"),
        ('"db": {\n', '[]: "{}",\n    "db": {\n', "holds no snapshot that can be read"),
        ("\nCHILDREN = ", f"\nKEPT = {DEEP}\nCHILDREN = ", "holds no snapshot that can be read"),
        ("\nCHILDREN = ", "\nCHILDREN_ = ", "CHILDREN: is missing"),
        (',\n "args": []', "", "SERVERS.db: has no args"),
        ('"command": "python3"', '"transport": "sse"', "SERVERS.db: has no url and no headers"),
        ('"args": []', '"args": [], "hide": 5', "SERVERS.db.hide: expected a list of strings, fou"),
        ('\nSERVERS = r"""{\n"db"', '\nSERVERS = r"""{\n"other"', 'do not all have "db"'),
    ],
)
def test_a_table_of_the_file_that_says_something_else_is_named_with_its_place(
    was: str, is_now: str, said: str, tmp_path: Path
) -> None:
    file, text = tmp_path / "server.py", compilation({"db": {}}, tool()).text
    file.write_text(text)
    assert [child.name for child in read_contents(file).snapshot.children] == ["db"]
    assert was in text
    file.write_text(text.replace(was, is_now, 1))
    with pytest.raises(ConfigError) as caught:
        read_contents(file, "mcpagg-compile …")
    assert said in str(caught.value)
    assert str(caught.value).endswith("; compile it anew: mcpagg-compile …")


def test_another_file_has_no_tables(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text("x = 1\n")
    with pytest.raises(ConfigError, match="holds no snapshot that can be read"):
        read_contents(file)


def test_a_file_in_another_encoding_is_named_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_bytes(b"# \xff\n")
    with pytest.raises(ConfigError, match="cannot be read: it is not UTF-8; compile it anew"):
        read_contents(file)
