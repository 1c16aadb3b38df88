"""The emitted text: what a reviewer sees, kept by golden files and by properties.

Refresh the golden files with `UPDATE_GOLDEN=1 python -m pytest tests/unit/test_emission.py`.
"""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

import black
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagg.compilation import launch_rows
from mcpagg.config import read_config
from mcpagg.emission import MODE, emit
from mcpagg.linking import link
from mcpagg.literal import HIDDEN, comment, json_text, literal
from mcpagg.options import Options
from mcpagg.recorded import recorded_command, recorded_snapshot
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.catalogue import KINDS, TOOLS, Catalogue
from mcpagg_runtime.desk import Plan

GOLDEN = Path(__file__).parent.parent / "golden"
LISTS: dict[str, Any] = {"conditional": frozenset, **{kind.name: tuple for kind in KINDS}}
START_OF_DECISIONS = "# What this proxy is"
END_OF_DECISIONS = "# How it works"


def emitted(case: Path, **options: Any) -> str:
    """Emit the config and snapshot of a golden case."""
    spec, _ = read_config((case / "config.json").read_bytes(), source="mcp.json", folder=case)
    recorded = json.loads((case / "snapshot.json").read_text("utf-8"))
    children = tuple(
        ChildSnapshot(**{key: LISTS.get(key, lambda value: value)(child[key]) for key in child})
        for child in recorded
    )
    snapshot, chosen = Snapshot(children), Options(**options)
    rows = launch_rows(spec, case)
    linked, _ = link(spec, rows, snapshot, chosen)
    return emit(
        name="golden",
        source="mcp.json",
        commands=("mcpagg-compile mcp.json -o server.py", "mcpagg-compile --check -o server.py"),
        rows=rows,
        snapshot=snapshot,
        linked=linked,
        options=chosen,
    )


def cases() -> list[Path]:
    return sorted(GOLDEN.iterdir())


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_decided_part_is_as_it_was_reviewed(case: Path) -> None:
    text = emitted(case)
    header, rest = text.split("#   body:")
    decided = header + rest.split(START_OF_DECISIONS)[1].split(END_OF_DECISIONS)[0]
    expected = case / "expected.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(decided, encoding="utf-8", newline="\n")
    assert decided == expected.read_text("utf-8"), "run with UPDATE_GOLDEN=1 if this is meant"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_black_leaves_the_emitted_file_alone(case: Path) -> None:
    text = emitted(case)
    assert black.format_str(text, mode=MODE) == text


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_snapshot_comes_back_as_it_went_in(case: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(emitted(case), encoding="utf-8")
    for child, given_ in zip(
        recorded_snapshot(file).children,
        json.loads((case / "snapshot.json").read_text("utf-8")),
        strict=True,
    ):
        for kind in KINDS:
            assert list(child.items(kind)) == given_.get(kind.name, [])
        assert child.instructions == given_.get("instructions")
        assert sorted(child.conditional) == sorted(given_.get("conditional", ()))
    assert recorded_command(file) == ["mcp.json", "-o", "server.py"]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
@pytest.mark.parametrize("spelling", ["exposed", "portable"])
def test_what_is_listed_is_what_was_snapshotted_but_for_the_name(case: Path, spelling: str) -> None:
    plan = loaded(emitted(case))
    catalogue = Catalogue(
        TOOLS, tuple(plan.servers), plan.routes["tools"], plan.snapshot, {}, set()
    )
    listed = json.loads(catalogue.listing(spelling, capable=True))["tools"]
    tools = [t for c in json.loads((case / "snapshot.json").read_text("utf-8")) for t in c["tools"]]
    assert [{**tool, "name": ""} for tool in listed] == [{**tool, "name": ""} for tool in tools]
    assert len({tool["name"] for tool in listed}) == len(tools)


def loaded(text: str) -> Plan:
    """Run an emitted file as a module; return its plan."""
    space: dict[str, Any] = {"__name__": "server", "__file__": "server.py"}
    exec(compile(text, "server.py", "exec"), space)  # noqa: S102
    plan: Plan = space["PLAN"]
    return plan


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_a_literal_means_the_value_that_it_was_made_of(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value
    formatted = black.format_str(f"X = {literal(value)}\n", mode=MODE)
    assert ast.literal_eval(formatted.removeprefix("X = ").strip()) == value


@given(JSON)
def test_json_text_fits_a_raw_string_and_means_the_same(value: Any) -> None:
    value = [value]
    text = json_text(value)
    source = f'r"""{text}"""'
    assert ast.literal_eval(source) == text
    assert json.loads(text) == value
    assert not HIDDEN.search(text.replace("\n", ""))


@given(st.text())
def test_a_comment_stays_on_its_line(text: str) -> None:
    assert len(f"# {comment(text)}".splitlines()) == 1


def test_a_literal_shows_what_is_hidden_by_a_rule_that_no_interpreter_changes() -> None:
    assert literal("\U0001fae8 é \u200b\u202e\U000e0041\ud800") == (
        '"\U0001fae8 é \\u200b\\u202e\\U000e0041\\ud800"'
    )
    assert literal('"\n') == "'\"\\n'"
