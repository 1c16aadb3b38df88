"""What a child is started with: its command line, its environment, its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpagg_runtime.launch.launch import (
    Launch,
    Launches,
    Location,
    MissingVariables,
    mentioned,
)
from mcpagg_runtime.launch.needs import missing_variables, uses
from mcpagg_runtime.launch.variables import BadUrl, parse_env_file
from mcpagg_runtime.start.handover import ABOVE

ENVIRON = {"PATH": "/bin", "HOME": "/home/me", "TOKEN": "secret-1", "OTHER": "secret-2"}


def launch(row: Mapping[str, Any], others: Mapping[str, Any] | None = None, **more: Any) -> Launch:
    folder = more.pop("folder", "/project")
    return Launches({"a": row, **(others or {})}, ENVIRON, folder, **more).prepare("a")


def test_every_string_of_a_row_is_resolved() -> None:
    row = {
        "command": "${TOKEN}",
        "args": ["$TOKEN", "a b"],
        "env": {"T": "Bearer ${env:TOKEN}"},
        "cwd": "${TOKEN}",
        "url": "http://h/${TOKEN}",
        "headers": {"h": "x${TOKEN}y"},
    }
    ready = launch(row)
    assert ready.argv == ["secret-1", "secret-1", "a b"]
    assert ready.env["T"] == "Bearer secret-1"
    assert ready.cwd == "/project/secret-1"
    assert (ready.url, ready.headers) == ("http://h/secret-1", {"h": "xsecret-1y"})


def test_all_missing_variables_of_a_row_are_reported() -> None:
    with pytest.raises(MissingVariables) as caught:
        launch({"command": "$A", "args": ["x", "${B}"], "env": {"K": "${C}", "L": "${TOKEN}"}})
    assert caught.value.missing == [
        (Location("command"), "A"),
        (Location("args", 1), "B"),
        (Location("env", "K"), "C"),
    ]
    assert "A (in command), B (in args[1]), C (in env.K)" in str(caught.value)


def test_what_is_missing_is_reported_before_a_value_that_does_not_fit() -> None:
    row = {"url": "http://h:${TOKEN}/", "headers": {"h": "${NONE}"}}
    with pytest.raises(MissingVariables, match="NONE"):
        launch(row)
    with pytest.raises(BadUrl, match="TOKEN is no port"):
        launch({"url": row["url"]})


def test_a_name_that_the_rows_own_env_defines_resolves_to_it() -> None:
    row = {"command": "x", "args": ["${DIR}"], "env": {"DIR": "${ROOT}/d", "ROOT": "/r"}}
    assert launch(row).argv == ["x", "/r/d"]


def test_a_definition_that_asks_for_itself_means_the_environment() -> None:
    assert launch({"command": "x", "env": {"PATH": "/mine:${PATH}"}}).env["PATH"] == "/mine:/bin"


def test_definitions_that_ask_for_each_other_end() -> None:
    with pytest.raises(MissingVariables):
        launch({"command": "x", "env": {"A": "${B}", "B": "${A}"}})


def test_a_child_does_not_see_what_only_others_mention() -> None:
    others = {"b": {"env": {"K": "${OTHER}", "PATH": "/b", "LANG": "C"}}}
    env = launch({"command": "x"}, others).env
    assert "OTHER" not in env
    assert env["PATH"] == "/bin"
    assert launch({"command": "x", "args": ["$OTHER"]}, others).env["OTHER"] == "secret-2"


@pytest.mark.parametrize("row", [{"command": "x"}, {"command": "x", "env": {}}])
def test_a_child_inherits_the_environment_without_an_env_of_its_own(row: Any) -> None:
    assert launch(row).env == ENVIRON


def test_a_minimal_environment_holds_the_basic_variables_and_the_rows_own() -> None:
    env = launch({"command": "x", "env": {"T": "${TOKEN}"}}, minimal=True).env
    assert env == {"PATH": "/bin", "HOME": "/home/me", "T": "secret-1"}


def test_a_minimal_environment_still_names_the_servers_above() -> None:
    env = Launches({"a": {"command": "x"}}, {ABOVE: "one"}, "/", minimal=True).prepare("a").env
    assert env == {ABOVE: "one"}


@pytest.mark.parametrize(
    ("command", "cwd", "program"),
    [
        ("no-such-tool", None, "no-such-tool"),
        ("sh", None, "/bin/sh"),
        ("./x", None, "/project/./x"),
        ("bin/x", "sub", "/project/sub/bin/x"),
        ("/abs/my dir/x", None, "/abs/my dir/x"),
        ("${workspaceFolder}/x", None, "/project/x"),
    ],
)
def test_a_relative_program_is_meant_from_the_childs_folder(
    command: str, cwd: str | None, program: str
) -> None:
    assert launch({"command": command, "cwd": cwd}).argv == [program]


def test_a_home_directory_is_filled_in_where_a_path_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    ready = launch({"command": "~/x", "args": ["~/y"], "cwd": "~/z"})
    assert (ready.argv, ready.cwd) == (["/home/me/x", "~/y"], "/home/me/z")


def test_a_relative_folder_is_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ready = launch({"command": "./x", "cwd": "sub"}, folder=".")
    assert ready.cwd == str(tmp_path / "./sub")
    assert ready.argv == [str(tmp_path / "sub" / "x").replace("sub/x", "sub/./x")]


def test_an_env_file_lies_between_the_environment_and_the_rows_own(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=from-file\nMODE=file\nKEY=abc\n", encoding="utf-8")
    row = {"command": "x", "args": ["${KEY}"], "env_file": ".env", "env": {"MODE": "own-${TOKEN}"}}
    ready = launch(row, folder=str(tmp_path))
    assert ready.argv == ["x", "abc"]
    assert (ready.env["TOKEN"], ready.env["MODE"]) == ("from-file", "own-from-file")
    assert ready.redact("it is from-file") == "it is ${TOKEN}"


def test_a_missing_env_file_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        launch({"command": "x", "env_file": "none.env"})


def test_values_of_variables_are_shown_as_references() -> None:
    ready = launch({"command": "x", "args": ["$TOKEN", "${TOKEN}"]})
    assert ready.redact("bad token secret-1!") == "bad token ${TOKEN}!"


def test_what_a_child_is_given_is_hidden_too_where_its_name_promises_a_secret() -> None:
    environ = {"OTHERS_API_KEY": "unrelated-9f8e7d6c5b4a", "MODE": "unrelated-words"}
    ready = Launches({"x": {"command": "x"}}, environ, "/").prepare("x")
    assert ready.redact("unrelated-9f8e7d6c5b4a unrelated-words") == (
        "${OTHERS_API_KEY} unrelated-words"
    )
    rows: dict[str, dict[str, Any]] = {
        "x": {"command": "x"},
        "other": {"command": "x", "args": ["$OTHERS_API_KEY"]},
    }
    assert Launches(rows, environ, "/").prepare("x").secrets() == {}


def test_a_row_mentions_what_it_sets_and_what_it_refers_to() -> None:
    assert mentioned({"command": "$A", "env": {"B": "${C:-d}"}, "headers": {"h": "$$D"}}) == {
        "A",
        "B",
        "C",
    }


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A=1\nB = two words \n", {"A": "1", "B": "two words"}),
        ("# no\n\nexport A=1 # why\nA=2\n", {"A": "2"}),
        ('A=\'$x # \\n\'\nB="a\\n\\"b\\" # c" # d\n', {"A": "$x # \\n", "B": 'a\n"b" # c'}),
        ('A="one\ntwo"\nB=3', {"A": "one\ntwo", "B": "3"}),
        ("\ufeffA=1\r\nB='x'\r\n", {"A": "1", "B": "x"}),
        ("A=\nB=#x\nC=a#b\nnothing\n=x\n", {"A": "", "B": "", "C": "a#b"}),
        ('A="open\nB=1', {"A": '"open', "B": "1"}),
        ("A=k=v==", {"A": "k=v=="}),
    ],
)
def test_an_env_file_is_read_as_people_write_it(text: str, variables: dict[str, str]) -> None:
    assert parse_env_file(text) == variables


def test_an_env_file_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        parse_env_file("A=\0")


def test_what_a_row_asks_the_environment_for() -> None:
    env = {"A": "$A", "B": "$A ${C:-c}"}
    assert uses({"command": "$X", "env": env}) == [
        (Location("command"), "X", None),
        (Location("env", "A"), "A", None),
        (Location("env", "B"), "C", "c"),
    ]


def test_what_is_not_set_is_told_by_server(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("IN_FILE=1")
    rows: dict[str, dict[str, Any]] = {
        "whole": {"command": "$SET", "env_file": "file", "args": ["$IN_FILE", "${NONE:-}"]},
        "lacking": {"command": "x", "args": ["$IN_FILE"], "env": {"K": "$NONE"}},
        "unreadable": {"command": "$NONE", "env_file": "absent"},
    }
    found = missing_variables(rows, {"SET": ""}, str(tmp_path))
    assert {name: problem.missing for name, problem in found.items()} == {
        "lacking": [(Location("args", 0), "IN_FILE"), (Location("env", "K"), "NONE")]
    }
