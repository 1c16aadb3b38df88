"""JSON, strict or with comments and trailing commas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from mcpagg.config.values import Number, Object, SyntaxFault


def load(text: str) -> object:
    """Return the value that `text` holds.

    Raises:
        SyntaxFault: with line and column.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=Object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_json,
        )
    except ValueError:
        return _load_with_comments(text)


def _no_json(_: str) -> NoReturn:
    raise ValueError  # NaN and the infinities; the second reader says where


def _load_with_comments(text: str) -> object:
    import jsonyx  # noqa: PLC0415 - 25 ms that strict JSON need not pay
    from jsonyx.allow import COMMENTS, TRAILING_COMMA  # noqa: PLC0415

    hooks: dict[str, Callable[[Any], Any]] = {"object": Object, "int": Number, "float": Number}
    try:
        return jsonyx.loads(text, allow=COMMENTS | TRAILING_COMMA, hooks=hooks)
    except jsonyx.TruncatedSyntaxError as problem:
        what = problem.msg[:1].lower() + problem.msg[1:]
        what = what.replace("missing commas are not allowed", "a comma is missing")
        # `from None`, here and in the other readers: the parser's error holds the config's text.
        raise SyntaxFault(what, problem.lineno, problem.colno) from None
