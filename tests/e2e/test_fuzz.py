"""The fuzz, with few lines and a fixed seed; `python tests/fuzz.py` has as many as you like."""

from __future__ import annotations

import pytest
from fuzz import fuzz_core, fuzz_pipes


def test_no_line_is_too_much_for_the_core() -> None:
    assert not "\n".join(fuzz_core(5000, seed=1))


@pytest.mark.parametrize("side", ["client", "child"])
def test_a_proxy_answers_right_among_mutated_lines(side: str) -> None:
    assert not "\n".join(fuzz_pipes(side, 5000, seed=1))
