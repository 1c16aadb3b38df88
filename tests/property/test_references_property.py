"""References: nothing is lost, and what is listed is what is asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpagg.passes.config.places import Place
from mcpagg.passes.config.variables import ClientVariables
from mcpagg_runtime.launch.launch import Location
from mcpagg_runtime.launch.variables import parse_env_file, references, resolve

TEXT = st.text(st.sampled_from('$${}}:-ab_1envX /%é"\n')) | st.text()
NOTHING: dict[str, str] = {}
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,5}", fullmatch=True)


@given(TEXT)
def test_a_doubled_dollar_makes_any_text_literal(text: str) -> None:
    escaped = text.replace("$", "$$")
    assert references(escaped) == []
    assert resolve(escaped, NOTHING.get) == text


@given(TEXT)
def test_a_text_without_dollars_is_itself(text: str) -> None:
    text = text.replace("$", "")
    assert resolve(text, NOTHING.get) == text


@given(TEXT)
def test_what_is_asked_for_is_what_is_listed(text: str) -> None:
    asked: list[str] = []

    def lookup(name: str) -> str:
        asked.append(name)
        return "v"

    resolve(text, lookup)
    assert [name for name in asked if name != "workspaceFolder"] == [n for n, _ in references(text)]


@given(TEXT, NAMES, TEXT, TEXT)
def test_a_reference_between_literals_is_replaced_alone(
    before: str, name: str, after: str, value: str
) -> None:
    text = f"{before.replace('$', '$$')}${{{name}}}{after.replace('$', '$$')}"
    assert resolve(text, {name: value}.get) == before + value + after


@given(st.text(st.sampled_from("$${}:-abX_1 ")))
def test_rewriting_keeps_whatever_is_a_plain_reference_already(text: str) -> None:
    at = Place()
    rewritten = ClientVariables({}, frozenset(), "the folder", {}).rewrite(
        text, Location("args", 0), at
    )
    if not at.errors:
        assert rewritten == text


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\0\r", codec="utf-8"))))
def test_an_env_file_that_quotes_gives_back_what_was_put_in(variables: dict[str, str]) -> None:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in variables.items()
    }
    text = "".join(f'{name}="{value}"\n' for name, value in escaped.items())
    assert parse_env_file(text) == variables


@given(st.text())
def test_any_text_is_an_env_file(text: str) -> None:
    parse_env_file(text.replace("\0", ""))
