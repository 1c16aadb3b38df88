"""The `.env` format, for `envFile`: `NAME=value` lines, comments, quotes, `export`.

Nothing is expanded. Double quotes know the escapes of JSON for newline, return, tab, quote and
backslash; single quotes keep everything; both may span lines. Without quotes a value ends at ` #`
or at the end of its line.
"""

from __future__ import annotations

_DOTENV_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables that `text` sets; the last of a name wins, other lines are passed by.

    Raises:
        ValueError: `text` holds a NUL, which no environment can.
    """
    if "\0" in text:
        raise ValueError("holds a NUL character")
    found = {}
    rest = text.lstrip("\ufeff").replace("\r\n", "\n")
    while rest:
        line, _, rest = rest.partition("\n")
        name, equals, value = line.partition("=")
        name = name.strip().removeprefix("export ").strip()
        if not equals or not name or name.startswith("#"):
            continue
        value = value.lstrip()
        if value[:1] in ("'", '"'):
            quoted, after = _quoted_value(value + "\n" + rest)
            if quoted is not None:
                found[name], rest = quoted, after
                continue
        found[name] = (" " + value).partition(" #")[0].strip()
    return found


def _quoted_value(text: str) -> tuple[str | None, str]:
    """Read the quoted value that `text` begins with: (value, the lines after it)."""
    quote, index = text[0], 1
    parts: list[str] = []
    while index < len(text):
        character = text[index]
        if character == quote:
            return "".join(parts), text[index:].partition("\n")[2]
        if character == "\\" and quote == '"' and text[index + 1 : index + 2] in _DOTENV_ESCAPES:
            index += 1
            character = _DOTENV_ESCAPES[text[index]]
        parts.append(character)
        index += 1
    return None, ""
