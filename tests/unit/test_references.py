"""References in strings: what is one, and what it resolves to."""

from __future__ import annotations

import pytest

from mcpagg_runtime.launch.variables import MissingVariable, references, resolve

VALUES = {"X": "1", "EMPTY": "", "LONG_NAME2": "2"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("", ""),
        ("$X", "1"),
        ("${X}", "1"),
        ("${env:X}", "1"),
        ("a${X}b$LONG_NAME2/c", "a1b2/c"),
        ("${X:-d}", "1"),
        ("${NONE:-d e}", "d e"),
        ("${NONE:-}", ""),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${env:NONE:-d}", "d"),
        ("$$X", "$X"),
        ("$$$X", "$1"),
        ("$$$$", "$$"),
        ("100$", "100$"),
        ("$1 $-x $(id)", "$1 $-x $(id)"),
        ("${X", "${X"),
        ("${}", "${}"),
        ("${X-d}", "${X-d}"),
        ("${input:x}", "${input:x}"),
        ("${1X}", "${1X}"),
        ("%X% {X} {{X}}", "%X% {X} {{X}}"),
        ("$Xé", "1é"),
    ],
)
def test_references_resolve_and_everything_else_stays(text: str, result: str) -> None:
    assert resolve(text, VALUES.get) == result


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(MissingVariable) as caught:
        resolve("${X}${NONE}", VALUES.get)
    assert caught.value.name == "NONE"


def test_references_are_listed_in_order_with_their_defaults() -> None:
    assert references("$B ${A:-x} $$C ${env:B}") == [("B", None), ("A", "x"), ("B", None)]


def test_the_folder_of_the_config_is_no_variable() -> None:
    assert references("${workspaceFolder}/${X}") == [("X", None)]
    assert resolve("${workspaceFolder}/x", {"workspaceFolder": "/p"}.get) == "/p/x"
