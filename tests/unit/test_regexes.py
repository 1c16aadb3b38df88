"""What JavaScript takes for a regular expression, with the flag `u`; all of it as node has it."""

from __future__ import annotations

import pytest

from mcpagg.review.lint.regexes import regex_fault


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^[a-z][a-z0-9_-]*$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
        r"^(?!.*\.\.)[\w\-.\/]{1,255}$",
        r"(?<year>\d+)(?<=\d)\k<year>|(?:a|b)*?(?<!x)\1",
        r"[^\]\\\-\b\d]\0\x41\u0041\u{1F600}\cA\p{L}\P{Script=Greek}",
        r"\t\^\$\\\.\*\+\?\(\)\[\]\{\}\|\/\B",
        "天气|😀+",
        "[-a]|[a-]|[]|[^]",
        "(?i:a)(?-s:b)",
    ],
)
def test_a_regular_expression_is_one(pattern: str) -> None:
    assert regex_fault(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "a parenthesis is not closed"),
        ("a)", "a parenthesis is closed that is not open"),
        ("(?P<n>a)", "'(?P<' begins no group"),
        ("(?i)a", "'(?i)' begins no group"),
        ("(?>a)", "'(?>a' begins no group"),
        ("*a", "'*' has nothing to repeat"),
        ("a++", "'+' has nothing to repeat"),
        ("^*", "'*' has nothing to repeat"),
        (r"\b+", "'+' has nothing to repeat"),
        ("(?=a)?", "'?' has nothing to repeat"),
        ("a|{2}", "'{2}' has nothing to repeat"),
        ("a{2,1}", "'{2,1}' counts down"),
        ("a{,2}", "a lone '{'"),
        ("}", "a lone '}'"),
        ("]", "a lone ']'"),
        ("[a", "it ends too early"),
        ("a\\", "it ends too early"),
        ("[z-a]", "a range of characters without two ends in order"),
        (r"[\d-z]", "a range of characters without two ends in order"),
        (r"\A", r"JavaScript knows no '\A'"),
        (r"a\-b", r"JavaScript knows no '\-'"),
        (r"\x4", r"JavaScript knows no '\x'"),
        (r"\u{110000}", r"JavaScript knows no '\u'"),
        (r"\p", r"JavaScript knows no '\p'"),
        (r"\00", r"JavaScript knows no '\0'"),
        (r"[\1]", r"JavaScript knows no '\1'"),
        (r"\1", "it refers to a group that it does not have"),
        (r"\k<n>", "it refers to a group that it does not have"),
    ],
)
def test_what_is_none_is_told_why(pattern: str, why: str) -> None:
    assert regex_fault(pattern) == why
