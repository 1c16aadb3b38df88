"""Moves of the stateful models that are always possible."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

THOROUGH = not settings().derandomize
numbers = st.integers(0, 10**6)
seldom = st.sampled_from([False] * 5 + [True])


class Nobody(Exception):
    """Raised where a move has nobody to make it; then it is none."""


def move(**drawn: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """Make a rule that is always possible: one that seldom is would seldom be tried."""

    def decorate(function: Callable[..., None]) -> Any:
        @wraps(function)
        def attempt(self: Any, *args: Any, **kwargs: Any) -> None:
            with suppress(Nobody):
                function(self, *args, **kwargs)

        made: Any = rule  # its overloads know no ** of strategies
        return made(**drawn)(attempt)

    return decorate
