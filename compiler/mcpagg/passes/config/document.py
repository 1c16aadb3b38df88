"""Text to values: JSON, TOML or YAML, known by the name of the file, else by its first line.

Numbers keep their text, so that `8080` and `1.10` reach a child as they were written. Duplicate
keys, and strings that no process can receive, are errors with their JSON path.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Container
from pathlib import PurePath
from typing import NamedTuple, NoReturn

from mcpagg.passes.config.formats import Object, SyntaxFault, load_json, load_toml, load_yaml
from mcpagg.passes.config.places import Place
from mcpagg.passes.config.variables import ONE_BACKSLASH
from mcpagg.problems import ConfigError, Problem

_OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # the marks of UTF-32 begin alike


class Format(NamedTuple):
    """A format of configs: its name, how it is read, how its files are known."""

    name: str
    load: Callable[[str], object]
    endings: tuple[str, ...]
    begins: re.Pattern[str]
    """What the first line that is no comment looks like."""


HALF_CHARACTER = "holds half of a surrogate pair, which is no character"
_DEEPEST = 100
_ESCAPE = re.compile(r"(?i)escape|\bhex")
"""What all readers say of a backslash that begins nothing, or too little."""
_JSON = Format("JSON", load_json, (".json", ".jsonc", ".json5"), re.compile(r"[{\[\"/]"))
_FORMATS = (
    Format("TOML", load_toml, (".toml",), re.compile(r"\[\[?[A-Za-z_]|[\w.-]+\s*=")),
    Format("YAML", load_yaml, (".yaml", ".yml"), re.compile(r"---|[A-Za-z_][\w.-]*\s*:(?:\s|$)")),
    _JSON,
)


def parse(text: bytes, source: str) -> object:
    """Return the value that `text` holds; `source` is its name.

    Raises:
        ConfigError: with line and column where the format's reader knows them.
    """
    decoded = decoded_text(text, source)
    chosen = format_of(decoded, source)
    try:
        value = chosen.load(decoded)
        if not _is_deeper(value, _DEEPEST):
            return value
    except SyntaxFault as fault:
        remedy = ONE_BACKSLASH if _ESCAPE.search(fault.what) else ""
        _refuse(source, f"{fault.place}not {chosen.name}: {fault.what}", remedy)
    except RecursionError:
        pass
    _refuse(source, "is nested too deeply to be a config")


def check(value: object, at: Place, left_out: Container[str] = ()) -> None:
    """Report duplicate keys and strings that cannot be passed on, at any depth.

    What stands at a path in `left_out` is not looked at.
    """
    if at.path and at.path in left_out:
        return
    if isinstance(value, str):
        _check_text(value, at)
    elif isinstance(value, dict):
        for key in value.repeated if isinstance(value, Object) else ():
            if at.at(key).path not in left_out:
                at.at(key).error("this key is written more than once", "keep one of them")
        for key, member in value.items():
            _check_text(key, at.at(key))
            check(member, at.at(key), left_out)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            check(member, at.at(index), left_out)


def decoded_text(text: bytes, source: str) -> str:
    if text.startswith(_OTHER_ENCODINGS) or b"\0" in text[:4]:
        _refuse(source, "is encoded in UTF-16 or UTF-32", "save it as UTF-8")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = text.count(b"\n", 0, problem.start) + 1
        column = problem.start - text.rfind(b"\n", 0, problem.start)
        _refuse(source, f"line {line}, column {column}: not UTF-8", "save it as UTF-8")
    if not decoded.strip():
        _refuse(source, "is empty", 'write at least {"mcpServers": {NAME: {"command": …}}}')
    return decoded


def format_of(text: str, source: str) -> Format:
    """Return the format of a text, by the name of its file, else by its first line."""
    ending = PurePath(source).suffix.lower()
    for candidate in _FORMATS:
        if ending in candidate.endings:
            return candidate
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return next((candidate for candidate in _FORMATS if candidate.begins.match(first)), _JSON)


def _is_deeper(value: object, levels: int) -> bool:
    """Whether a value is nested deeper than `levels`; what reads it next may recurse."""
    if not isinstance(value, dict | list):
        return False
    members = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(member, levels - 1) for member in members)


def _check_text(text: str, at: Place) -> None:
    if "\0" in text:
        at.error("holds a NUL character, which no process can be given")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        at.error(HALF_CHARACTER)


def _refuse(source: str, what: str, remedy: str = "") -> NoReturn:
    # `from None`: a parser's own error holds the config's text, secrets and all.
    raise ConfigError(source, [Problem("", what, remedy)]) from None
