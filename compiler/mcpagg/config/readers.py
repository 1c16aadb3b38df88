"""How each kind of value in an entry is read.

A reader gets a JSON value and its place, and returns what a `ServerSpec` holds; or reports an
error there and returns None. Readers never put a value into a message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from mcpagg.config.findings import Place, kind, meant
from mcpagg.config.jsonc import Number

Reader = Callable[[Any, Place], Any]

MILLISECONDS_FROM = 1000
"""A timeout whose unit clients disagree about is in milliseconds from here on."""


class Filter(NamedTuple):
    """Which of a server's tools are offered, and under which names."""

    expose: tuple[str, ...] | None = None
    hide: tuple[str, ...] = ()
    rename: dict[str, str] = {}  # noqa: RUF012 - never written to


def text(value: Any, at: Place) -> str | None:
    """Read a string that says something."""
    if not isinstance(value, str):
        at.error(f"expected a string, found {kind(value)}")
    elif not value.strip():
        at.error("is empty")
    else:
        return value
    return None


def scalar(value: Any, at: Place) -> str | None:
    """Read a string; a number or a boolean stands for its JSON text, with a warning."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | Number):
        at.warn(f"{kind(value)} is passed on as its JSON text", "write it as a string")
        return value.text if isinstance(value, Number) else json.dumps(value)
    at.error(f"expected a string, found {kind(value)}", "write it as one string, or leave it out")
    return None


def scalars(value: Any, at: Place) -> tuple[str, ...] | None:
    """Read a list of strings, as of `args`."""
    if not isinstance(value, list):
        at.error(f"expected a list of strings, found {kind(value)}", 'write ["first", "second"]')
        return None
    items = [scalar(item, at.at(index)) for index, item in enumerate(value)]
    return tuple(item for item in items if item is not None)


def command(value: Any, at: Place) -> tuple[str, ...] | None:
    """Read a command: the program, or a list of the program and its first arguments."""
    if not isinstance(value, list):
        program = text(value, at)
        return (program,) if program else None
    words = scalars(value, at)
    if not words or not words[0].strip():
        at.error("names no program", "write the program, then its arguments")
    return words


def variables(value: Any, at: Place) -> dict[str, str] | None:
    """Read `env`: a map of strings, or a list of `NAME` (handed through) and `NAME=value`."""
    if isinstance(value, list):
        pairs = [item.partition("=") for item in scalars(value, at) or ()]
        value = {name: given if equals else f"${{{name}}}" for name, equals, given in pairs}
    found = strings(value, at)
    for name in found or ():
        if not name or "=" in name:
            at.at(name).error("is no name of a variable", "remove it")
    return found


def strings(value: Any, at: Place) -> dict[str, str] | None:
    """Read a map of strings, as of `headers`."""
    if not isinstance(value, dict):
        at.error(f"expected an object of strings, found {kind(value)}")
        return None
    items = {key: scalar(item, at.at(key)) for key, item in value.items()}
    return {key: item for key, item in items.items() if item is not None}


def headers(value: Any, at: Place) -> dict[str, str] | None:
    """Read a map of HTTP headers."""
    found = strings(value, at)
    for name, content in (found or {}).items():
        if not name or not name.isascii() or any(c <= " " or c in ':"(),/;<=>?@[]' for c in name):
            at.at(name).error("is no name of a header")
        if "\n" in content or "\r" in content:
            at.at(name).error("a header cannot hold a line break")
    return found


def bearer(value: Any, at: Place) -> dict[str, str] | None:
    """Read the name of the variable that holds a bearer token."""
    name = text(value, at)
    return {"Authorization": f"Bearer ${{{name}}}"} if name else None


def seconds(value: Any, at: Place) -> float | None:
    """Read a duration in seconds."""
    amount = float(value.text) if isinstance(value, Number) else math.nan
    if 0 < amount < math.inf:
        return amount
    at.error(f"expected a number greater than 0, found {_amount(value)}", "write 60, or leave out")
    return None


def milliseconds(value: Any, at: Place) -> float | None:
    """Read a duration in milliseconds; return seconds."""
    amount = seconds(value, at)
    return amount and amount / 1000


def duration(value: Any, at: Place) -> float | None:
    """Read a duration whose unit the clients disagree about; return seconds."""
    amount = seconds(value, at)
    if amount is None or amount < MILLISECONDS_FROM:
        return amount
    at.warn(
        f"read as milliseconds, {amount / 1000:g} s: clients disagree about the unit of `timeout`"
    )
    return amount / 1000


def _amount(value: Any) -> str:
    return "another one" if isinstance(value, Number) else kind(value)


def allowed(value: Any, at: Place) -> Filter | None:
    """Read a list of the tools to offer: names, or `{original, exposed}` for a new name."""
    if not isinstance(value, list):
        at.error(f"expected a list of tool names, found {kind(value)}")
        return None
    items = [_renamed(item, at.at(index)) for index, item in enumerate(value)]
    pairs = [item for item in items if item]
    if not value:
        at.warn("is an empty list, so no tool of this server is offered", "leave it out for all")
    return Filter(
        expose=tuple(original for original, _ in pairs),
        rename={original: exposed for original, exposed in pairs if exposed},
    )


def _renamed(value: Any, at: Place) -> tuple[str, str | None] | None:
    if not isinstance(value, dict):
        name = text(value, at)
        return (name, None) if name else None
    ignore_others(value, ("original", "exposed"), at)
    original = text(value.get("original"), at.at("original"))
    exposed = text(value.get("exposed", value.get("original")), at.at("exposed"))
    return (original, exposed if exposed != original else None) if original else None


def withheld(value: Any, at: Place) -> Filter | None:
    """Read a list of the tools to hide."""
    names = scalars(value, at)
    return None if names is None else Filter(hide=names)


def tools(value: Any, at: Place) -> Filter | None:
    """Read `tools`: a list of those to offer, or an object of `{name, enabled}` by tool."""
    if not isinstance(value, dict):
        return allowed(value, at)
    hide, rename = [], {}
    for tool, change in value.items():
        place = at.at(tool)
        if not isinstance(change, dict):
            place.error(f"expected an object, found {kind(change)}", 'write {"enabled": false}')
            continue
        if switch(change.get("enabled", True), place.at("enabled")) is False:
            hide.append(tool)
        if "name" in change and (name := text(change["name"], place.at("name"))):
            rename[tool] = name
        ignore_others(change, ("enabled", "name"), place)
    return Filter(hide=tuple(hide), rename=rename)


def tool_filter(value: Any, at: Place) -> Filter | None:
    """Read `toolFilter`: `{mode: "allow" or "block", list: […]}`."""
    modes = {"allow": allowed, "block": withheld}
    mode = value.get("mode") if isinstance(value, dict) else None
    if not isinstance(mode, str) or mode not in modes:
        at.error('expected {"mode": "allow" or "block", "list": [names]}')
        return None
    return modes[mode](value.get("list"), at.at("list"))


def switch(value: Any, at: Place) -> bool | None:
    """Read a boolean."""
    if isinstance(value, bool):
        return value
    at.error(f"expected true or false, found {kind(value)}")
    return None


def ignore_others(value: dict[str, Any], known: tuple[str, ...], at: Place) -> None:
    for key in value:
        if key not in known:
            at.at(key).warn("is not understood and ignored", meant(key, known))
