"""Exposed and portable names, filters and prefixes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mcpagg_runtime.lists.listing import is_offered
from mcpagg_runtime.plan.names import PORTABLE_LIMIT, exposed_name, portable_names, prefix_of


def test_the_exposed_name_is_key_separator_tool_as_written() -> None:
    assert exposed_name("my.db", "a:b", {}, ":") == "my.db:a:b"
    assert exposed_name("f1_", "add", {}, "__") == "f1___add"


def test_a_renamed_tool_has_the_name_that_the_config_gives() -> None:
    row = {"rename": {"a": "short"}}
    assert [exposed_name("s", tool, row, ":") for tool in ("a", "b")] == ["short", "s:b"]


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        ({}, ["get", "put", "Get"]),
        ({"expose": ["g*"]}, ["get"]),
        ({"expose": []}, []),
        ({"hide": ["?et"]}, ["put"]),
        ({"expose": ["*t"], "hide": ["put"]}, ["get", "Get"]),
        ({"expose": ["put"], "hide": ["*"]}, []),
    ],
)
def test_filters_are_globs_and_hiding_wins(row: dict[str, Any], seen: list[str]) -> None:
    assert [tool for tool in ("get", "put", "Get") if is_offered(tool, row)] == seen


@pytest.mark.parametrize(
    ("exposed", "portable"),
    [
        ("db:query", "db_query"),
        ("my.db:a b/c", "my_db_a_b_c"),
        ("context-7:x", "context-7_x"),
        ("f1_:add", "f1_add"),
        ("a:__b__", "a_b"),
        ("Zürich:zug", "Z_rich_zug"),
        ("a:" + "b" * 48, "a_" + "b" * 48),
    ],
)
def test_a_portable_name_is_the_cleaned_exposed_one(exposed: str, portable: str) -> None:
    assert portable_names([exposed]) == {exposed: portable}


def test_a_longer_name_is_cut_and_ends_in_a_hash() -> None:
    # Written out: another hash would rename tools in every client's settings.
    one, two = "a:" + "b" * 49, "a:" + "b" * 49 + "c"
    stem = "a_" + "b" * 41
    assert portable_names([one, two]) == {one: f"{stem}_1aca51", two: f"{stem}_5a3cfc"}
    assert len(f"{stem}_1aca51") == PORTABLE_LIMIT


def test_names_that_clean_to_the_same_are_told_apart() -> None:
    assert portable_names(["s:a.b", "s:a_b", "s:c"]) == {
        "s:a.b": "s_a_b_bb489d",
        "s:a_b": "s_a_b_17bc19",
        "s:c": "s_c",
    }


@pytest.mark.parametrize("exposed", ["数据:查询", "::", "\ud800:\ud801", ""])
def test_a_name_without_a_portable_character_is_a_hash(exposed: str) -> None:
    [name] = portable_names([exposed]).values()
    assert name.startswith("tool_")
    assert len(name) == len("tool_") + 6


def test_a_name_made_up_to_look_like_a_hashed_one_takes_nobodys_place() -> None:
    victim = portable_names(["s:a.b", "s:a_b"])["s:a.b"]
    forged = "s:" + victim.removeprefix("s_")
    for order in itertools.permutations(["s:a.b", "s:a_b", forged]):
        names = portable_names(order)
        assert len(set(names.values())) == 3
        assert names == portable_names(["s:a.b", "s:a_b", forged])


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("a:t", "a"),
        ("a_t", "a"),
        ("a_b:c", "a_b"),
        ("a_b_c", "a_b"),
        ("x.y:c", "x.y"),
        ("x_y_c", "x.y"),
        ("数据:t", "数据"),
        ("数据_t", None),
        ("_t", None),
        ("a", None),
        ("A:t", None),
        ("b:t", None),
        ("", None),
    ],
)
def test_the_longest_server_name_in_front_is_the_prefix(name: str, server: str | None) -> None:
    assert prefix_of(name, ["a", "a_b", "x.y", "数据"], ":") == server


def test_a_prefix_is_known_by_the_configured_separator() -> None:
    assert prefix_of("a__t", ["a"], "__") == "a"
    assert prefix_of("a:t", ["a"], "__") is None
