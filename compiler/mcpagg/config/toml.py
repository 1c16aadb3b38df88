"""TOML, as Codex and Vibe write it."""

from __future__ import annotations

import datetime
import re

from mcpagg.config.values import Number, SyntaxFault

_MESSAGE = re.compile(r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end .*)\)")


def load(text: str) -> object:
    """Return the value that `text` holds; numbers keep what they say, dates are strings.

    Raises:
        SyntaxFault: with line and column, or the end of the text. Duplicate keys are one.
    """
    import tomllib  # noqa: PLC0415 - most configs are JSON

    try:
        return _plain(tomllib.loads(text, parse_float=Number))
    except ValueError as problem:
        found = _MESSAGE.fullmatch(str(problem))
        if found is None:
            raise SyntaxFault("holds a number beyond all bounds") from None
        what = found["what"][:1].lower() + found["what"][1:]
        if found["line"] is None:
            what, last = f"{what} at the end", text.rstrip("\n").split("\n")
            raise SyntaxFault(what, len(last), len(last[-1]) + 1) from None
        raise SyntaxFault(what, int(found["line"]), int(found["column"])) from None


def _plain(value: object) -> object:
    """Return the value with the types that all formats share."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return Number(str(value))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value
