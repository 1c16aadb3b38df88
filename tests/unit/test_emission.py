"""The emitted text: what a reviewer sees, kept by golden files and by properties.

Refresh the golden files with `UPDATE_GOLDEN=1 python -m pytest tests/unit/test_emission.py`.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import subprocess
import sys
import unicodedata
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import FunctionType
from typing import Any

import black
import core
import pytest
from compilations import compilation, of_snapshot, tool
from goldens import GOLDEN, cases, emitted
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagg.jsontext import dumps, loads
from mcpagg.literal import comment, is_visible, json_text, list_text, literal, table_text
from mcpagg.options import Options
from mcpagg.passes.config import read_config
from mcpagg.passes.emission import emission
from mcpagg.passes.emission.bundle import EXTENDED, package_name, runtime_digest
from mcpagg.passes.emission.readback import ReadBackError, cut, read_tables
from mcpagg.passes.emission.recorded import read_contents, recorded_command
from mcpagg.passes.emission.tables import TABLES
from mcpagg.problems import ConfigError
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.lists.catalogue import KINDS
from mcpagg_runtime.lists.hidden import HIDDEN
from mcpagg_runtime.lists.listing import MAXIMUM_ENTRY_DEPTH
from mcpagg_runtime.plan.plan import Plan
from mcpagg_runtime.start.digest import data_digest

START_OF_DECISIONS = "# What this proxy is"
END_OF_DECISIONS = "# How it works"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_decided_part_is_as_it_was_reviewed(case: Path) -> None:
    text = emitted(case)
    header, rest = text.split("#   runtime:")
    decided = header + rest.split(START_OF_DECISIONS)[1].split(END_OF_DECISIONS)[0]
    expected = case / "expected.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(decided, encoding="utf-8", newline="\n")
    assert decided == expected.read_text("utf-8"), "run with UPDATE_GOLDEN=1 if this is meant"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_digest_in_the_header_is_of_the_runtime(case: Path) -> None:
    sections = cut(emitted(case))
    assert sections is not None
    assert sections.runtime_line.startswith(f"{runtime_digest()} (mcpagg {sections.compiler}")


def test_every_function_knows_its_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    text = emitted(GOLDEN / "composite", serve="stdio,http")
    file.write_text(text, encoding="utf-8")
    lines = text.splitlines()
    space: dict[str, Any] = {"__name__": "server", "__file__": str(file)}
    exec(compile(text, str(file), "exec"), space)  # noqa: S102
    try:
        modules = [import_module(f"{package_name()}.{name}") for name in space["RUNTIME"]]
    finally:
        sys.meta_path[:] = [one for one in sys.meta_path if type(one) is not space["Embedded"]]
    names = {**space, **{key: value for one in modules for key, value in vars(one).items()}}
    found = {key: value for key, value in names.items() if isinstance(value, FunctionType)}
    assert {"main", "embed", "run_command", "spawn"} <= found.keys()
    codes = [unwrap(one).__code__ for one in found.values()]
    codes = [code for code in codes if code.co_filename == str(file)]
    assert len(codes) > len(space["RUNTIME"])
    for code in codes:
        head = lines[code.co_firstlineno - 1 :]
        line = next(one for one in head if not one.startswith("@")).removeprefix("async ")
        assert line.split("(")[0] == f"def {code.co_name}"


def test_no_name_of_the_file_has_two_meanings() -> None:
    """The modules that are code of the file share its names, and so do the tables."""
    meanings: dict[str, set[str]] = {}
    text = emitted(GOLDEN / "composite", serve="stdio,http")
    modules = read_tables(text, ("RUNTIME",))["RUNTIME"]
    late = [module for name, module in modules.items() if name.startswith("start.")]
    for node in [node for part in (text, *late) for node in ast.parse(part).body]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            meanings.setdefault(node.name, set()).add(ast.unparse(node))
        elif isinstance(node, ast.Assign):
            for name in ast.walk(node.targets[0]):
                if isinstance(name, ast.Name):
                    meanings.setdefault(name.id, set()).add(ast.unparse(node))
        elif isinstance(node, ast.Import | ast.ImportFrom | ast.Try):
            # Of alternatives, whichever there is.
            for found in ast.walk(node):
                for alias in getattr(found, "names", ()):
                    meaning = "one of the alternatives" if node is not found else alias.name
                    meanings.setdefault(alias.asname or alias.name, set()).add(meaning)
    assert {name for name, found in meanings.items() if len(found) > 1} == set()
    own = {"sys", "read", "StaticAnswers", "SNAPSHOT", "PLAN", "app", "embed", "cut_list"}
    assert own <= meanings.keys()


def test_what_not_every_proxy_can_use_is_there_by_name() -> None:
    plain, composite = (emitted(GOLDEN / name) for name in ("plain", "composite"))
    assert re.search(r"\n#   runtime:  \S+ \(mcpagg [\d.]+\)\n", plain)
    assert '"routing.composite": ' not in plain
    assert '"routing.composite": ' in composite
    assert "; with routing.composite, servers.masking)\n" in composite


FREEZING = re.compile(
    r"frozen(?!set)|freez|prefetch|--deep|being installed|installing", re.IGNORECASE
)


def test_a_file_that_freezes_nothing_has_no_word_of_it() -> None:
    for text in (emitted(GOLDEN / "composite", serve="stdio,http"), emitted(GOLDEN / "plain")):
        assert FREEZING.findall(text) == []
    assert FREEZING.search(emitted(GOLDEN / "frozen"))


def test_what_extends_a_module_is_imported_in_its_place() -> None:
    plain, frozen = (
        read_tables(emitted(GOLDEN / name), ("RUNTIME",))["RUNTIME"] for name in ("plain", "frozen")
    )
    for name, other in EXTENDED.items():
        users = [one for one, text in frozen.items() if f"from ..{name} import" in text]
        assert users == [other]
        assert f"from ..{other} import" in "".join(frozen.values())
        assert f"from ..{name} import" in "".join(plain.values())
        assert plain[name] == frozen[name]


def assert_formatted(text: str) -> None:
    """Check that black, which the file keeps off, would leave it as it is."""
    bare = text.replace("# fmt: off\n", "", 1)
    assert black.format_str(bare, mode=black.Mode(line_length=100)) == bare != text


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_python_that_is_emitted_is_as_black_lays_it_out(case: Path) -> None:
    """One of the cases serves HTTP as well."""
    assert_formatted(emitted(case))


def test_so_it_is_whatever_names_there_are() -> None:
    config = json.dumps({"mcpServers": {"s" * n: {"command": "x"} for n in (1, 99, 200)}})
    children = tuple(ChildSnapshot("s" * n, "2025-11-25") for n in (1, 99, 200))
    assert_formatted(of_snapshot(config.encode(), Snapshot(children), Options(name="n" * 200)).text)


def test_only_a_proxy_that_serves_http_has_what_that_takes() -> None:
    plain, asked = emitted(GOLDEN / "plain"), emitted(GOLDEN / "plain", serve="stdio,http")
    configured = emitted(GOLDEN / "http")
    for text in (asked, configured):
        assert '# dependencies = ["uvicorn' in text
        assert '"http.app": ' in text
        assert "async def app(scope, receive, send):" in text
    for text in (plain, emitted(GOLDEN / "http", serve="stdio")):
        assert "# dependencies = []" in text
        assert '"http.app": ' not in text
        assert "async def app" not in text
        assert "http" not in read_tables(text, ("OPTIONS",))["OPTIONS"]
    assert json.loads(read_tables(configured, ("OPTIONS",))["OPTIONS"])["http"] == {
        "type": "streamable-http",
        "host": "0.0.0.0",  # noqa: S104
        "path": "/tools",
        "port": 8080,
        "token": "${CLIENTS_TOKEN}",
    }


@pytest.mark.parametrize("tool", [("black",), ("ruff", "format"), ("ruff", "check", "--fix")])
def test_formatters_and_linters_at_their_defaults_leave_the_file_alone(
    tool: tuple[str, ...], tmp_path: Path
) -> None:
    texts = {f"{case.name}.py": emitted(case) for case in cases()}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="\n")
    command = [sys.executable, "-m", *tool, "."]  # from there: no settings of this project
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.py")} == texts


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_snapshot_comes_back_as_it_went_in(case: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(emitted(case), encoding="utf-8")
    for child, given_ in zip(
        read_contents(file).snapshot.children,
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
    catalogue = Answers(plan).catalogues["tools"]
    items = [item for server in plan.servers for item in catalogue.recorded(server)]
    listed = [json.loads(item.listed(getattr(item, spelling))) for item in items]
    tools = [t for c in json.loads((case / "snapshot.json").read_text("utf-8")) for t in c["tools"]]
    assert [{**tool, "name": ""} for tool in listed] == [{**tool, "name": ""} for tool in tools]
    assert len({tool["name"] for tool in listed}) == len(tools)


def loaded(text: str) -> Plan:
    """Run an emitted file as a module; return its plan."""
    space: dict[str, Any] = {"__name__": "server", "__file__": "server.py"}
    exec(compile(text, "server.py", "exec"), space)  # noqa: S102
    return Plan(space["PLAN"])


def test_what_is_signed_is_what_a_start_finds() -> None:
    child = ChildSnapshot("a", "2025-11-25", tools=({"name": "t", "inputSchema": {}},))
    snapshot = Snapshot((child,), failed=("b",), kept=("a",))
    config = b'{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}'
    signed: list[str] = []

    def approve(digest: str) -> dict[str, str]:
        signed.append(digest)
        return {}

    text = of_snapshot(config, snapshot, Options(), approve).text
    plan = loaded(text)
    assert signed == [data_digest(plan.tables)]
    assert plan.failed == ["b"]
    assert "KEPT = " in text


ODD_NAMES = [
    "a ",
    " a",
    "'\"",
    "'x'\"",
    "\"'x'",
    "\\",
    "\\'\"",
    "# a",
    ";",
    "\u2028a",
    "{{ a }}",
    "{% a %}",
]
ODD_NAMES += ["'''; raise SystemExit #\"\"", '"""', "a\u200b", "\U0001f1e6\ufe0f"]


def named(names: list[str]) -> dict[str, Any]:
    """Emit a file whose servers, tools and proxy have these names; return what it says."""
    names = list(dict.fromkeys(names))
    config = {"mcpServers": {name: {"command": "x", "args": [name]} for name in names}}
    tool = {"inputSchema": {"type": "object"}}
    children = tuple(
        ChildSnapshot(name, "2025-11-25", tools=({"name": name, **tool},)) for name in names
    )
    text = of_snapshot(json.dumps(config).encode(), Snapshot(children), Options(name=names[0])).text
    found = read_tables(text, ("SERVERS", "ROUTES", "CHILDREN", "SNAPSHOT", "PLAN"))
    return {
        name: json.loads(value) if isinstance(value, str) else value
        for name, value in found.items()
    }


def assert_named(names: list[str]) -> None:
    found = named(names)
    assert found["PLAN"]["name"] == names[0]
    assert [row["args"] for row in found["SERVERS"].values()] == [[name] for name in names]
    for table in ("SERVERS", "ROUTES", "CHILDREN", "SNAPSHOT"):
        assert [*found[table]] == names
    for name, rows in found["ROUTES"].items():
        assert [row[0] for row in rows.values()] == [name]
    for name, lists in found["SNAPSHOT"].items():
        assert json.loads(lists["tools"])[0]["name"] == name


def test_a_name_is_never_changed_on_its_way() -> None:
    assert_named(ODD_NAMES)


@settings(max_examples=10)
@given(st.lists(st.text("'\"\\ ;#\t\u200bab{}%", min_size=1), min_size=20, unique=True))
def test_no_name_is_changed_on_its_way(names: list[str]) -> None:
    if names := [name for name in names if is_visible(name)]:
        assert_named(names)


def test_what_was_printed_wrongly_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(table: Any) -> str:
        return table_text(table).replace("2025", "2024")

    tables = [one._replace(layout=wrong) if one.name == "CHILDREN" else one for one in TABLES]
    monkeypatch.setattr(emission, "TABLES", tables)
    with pytest.raises(ReadBackError, match=r"^CHILDREN$"):
        emitted(GOLDEN / "plain")


def test_a_list_that_was_printed_wrongly_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        emission, "list_text", lambda items: list_text(items).replace('"read"', '"raed"')
    )
    with pytest.raises(ReadBackError, match=r"^SNAPSHOT: tools$"):
        emitted(GOLDEN / "plain")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.text())
def test_a_literal_means_the_text_that_it_was_made_of(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text


@given(JSON)
def test_json_text_fits_a_raw_string_and_means_the_same(value: Any) -> None:
    item = {"x": value, "name": value}
    for whole, text in (
        ([value], json_text([value])),
        ([item, item], list_text([item, item])),
        ({"": item, "b": item}, table_text({"": item, "b": item})),
    ):
        assert ast.literal_eval(f'r"""{text}"""') == text
        assert json.loads(text) == whole
        assert not HIDDEN.search(text.replace("\n", ""))


@given(st.text())
def test_a_comment_stays_on_its_line(text: str) -> None:
    assert len(f"# {comment(text)}".splitlines()) == 1


def test_a_literal_shows_what_is_hidden_by_a_rule_that_no_interpreter_changes() -> None:
    assert literal("\U0001fae8 é \u200b\u202e\U000e0041\ud800") == (
        '"\U0001fae8 é \\u200b\\u202e\\U000e0041\\ud800"'
    )
    assert literal('"\n') == "'\"\\n'"


def test_what_the_interpreter_knows_to_be_hidden_is_hidden() -> None:
    """A character of these categories that is missing here is new in Unicode: add it."""
    categories = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs")
    chars = [chr(code) for code in range(sys.maxunicode + 1) if code != ord(" ")]
    assert [c for c in chars if unicodedata.category(c) in categories and not HIDDEN.match(c)] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u26a0\ufe0f \u2600\ufe0e", "\u26a0\ufe0f \u2600\ufe0e"),  # emoji, and the sign as text
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),  # a keycap
        ("\u26a0\ufe0f\ufe0e\ufe0f", "\u26a0\ufe0f\\ufe0e\\ufe0f"),  # bits behind a sign
        ("a\ufe0e\ufe0f", "a\\ufe0e\\ufe0f"),  # and behind a letter
        ("\u2800\U0001d159\u3164", "\\u2800\\U0001d159\\u3164"),  # pictures that are blank
    ],
)
def test_a_selector_is_shown_where_it_cannot_be_seen(text: str, shown: str) -> None:
    assert literal(text) == f'"{shown}"'
    assert json.loads(json_text([text])) == [text]


@pytest.mark.parametrize("name", ["\u2800", " ", "", "\u200b\u3164", "a\nb", "\ufe0f"])
def test_a_name_of_which_nothing_can_be_seen_is_refused(name: str) -> None:
    config = json.dumps({"mcpServers": {name: {"command": "x"}}}).encode()
    with pytest.raises(ConfigError, match="visible text"):
        read_config(config, source="mcp.json", folder=Path("/project"))


def test_a_deep_value_costs_what_it_holds_and_the_list_is_cut_all_the_same() -> None:
    deep: Any = [1, 2]
    for _ in range(MAXIMUM_ENTRY_DEPTH):
        deep = {"name": deep}
    tools = [{"name": name, "inputSchema": {"type": "object"}, "x": deep} for name in "ab"]
    text = list_text(tools)
    assert len(text) < 1.6 * len(dumps(tools))
    found = core.plan({"s": "ab"})
    found.snapshot = {"s": {"tools": text}}
    items = Answers(found).catalogues["tools"].recorded("s")
    cut = [item.listed(item.original) for item in items]
    assert [dumps(loads(item)) for item in cut] == [dumps(tool) for tool in tools]


def test_an_older_python_is_told_what_is_needed(tmp_path: Path) -> None:
    text = compilation({"a": {}}, tool()).text
    ast.parse(text, feature_version=(3, 8))
    file = tmp_path / "server.py"
    file.write_text(text)
    code = "import runpy, sys; sys.version_info = 3, 8, 10; sys.version = '3.8.10 (main)'; "
    code += f"runpy.run_path({str(file)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = f"{file}: needs Python 3.9 or newer, this is 3.8.10\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_strings_and_numbers_side_by_side_share_a_line() -> None:
    schema = {
        "type": "object",
        "title": "T",
        "properties": {"a": {"type": "string", "enum": ["x" * 60, "y" * 60]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert list_text([{"name": "t", "inputSchema": schema}]).splitlines() == [
        "[",
        '{"name": "t",',
        ' "inputSchema": {"type": "object", "title": "T",',
        '  "properties": {',
        f'   "a": {{"type": "string", "enum": ["{"x" * 60}", "{"y" * 60}"]}}}},',
        '  "required": ["a"], "additionalProperties": false}}',
        "]",
    ]


@pytest.mark.parametrize("length", [1, 60, 99, 100, 500])
@pytest.mark.parametrize("new", ["x", 1, None, "d" * 200, {}, ["a"] * 50])
def test_a_changed_field_is_one_changed_line_or_two(length: int, new: Any) -> None:
    value = {"type": "object", "description": "d" * length, "properties": {"a": {"x": [{}]}}}

    def lines(**members: Any) -> list[str]:
        item = {"name": "t", "annotations": {**value, **members}, "z": {}}
        return list_text([item]).splitlines()

    before = lines()
    for field in ("description", "type", "title"):
        diff = [*difflib.unified_diff(before, lines(**{field: new}), n=0)][3:]
        assert len([line for line in diff if line[0] == "+"]) <= 2
        assert len([line for line in diff if line[0] == "-"]) == 1


def test_every_level_that_people_write_has_a_line_for_each_member() -> None:
    value: Any = {"a": {"x": 1}, "b": 2}
    for _ in range(30):
        value = [value]
    assert len(json_text(value).splitlines()) == 33
