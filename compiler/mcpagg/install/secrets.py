"""Literal credentials of an entry become variables, which its client keeps in the entry's `env`.

What is compiled has references in their place; the values stay in the one file that has them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from mcpagg.passes.config.credentials import (
    credential_in,
    find_credentials,
    literal_values,
    variable_for,
)
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.launch import Location
from mcpagg_runtime.launch.urls import resolve_url
from mcpagg_runtime.launch.variables import BadUrl, MissingVariable, references, resolve


class Moved(NamedTuple):
    """A literal that moves: its variable, what is written of it, and the text that it stood in."""

    variable: str
    written: str
    location: Location


def without_literals(server: ServerSpec, expands: bool) -> tuple[ServerSpec, tuple[Moved, ...]]:
    """Return a server with references in place of its credentials, and what moves for that.

    What stands in its `env` has its name there, and does not move. So do, if its client `expands`
    them, references there.

    Raises:
        ValueError: a credential has no place from which it could be moved.
    """
    credentials = [one.location for one in find_credentials(server) if not one.placeholder]
    env = {
        name: (
            f"${{{name}}}"
            if Location("env", name) in credentials or (expands and any(references(text)))
            else text
        )
        for name, text in server.env.items()
    }
    args, headers, plain = [*server.args], {**server.headers}, {}
    moved: list[Moved] = []
    for location in (one for one in credentials if one.field != "env"):
        text, name = _text_at(server, location)
        used = {*env, *(one.variable for one in moved)}
        new, variable, value = _moved(server.name, location, text, name, used)
        moved.append(Moved(variable, value, location))
        if isinstance(location.key, int):
            args[location.key] = new
        elif location.field == "headers":
            headers[str(location.key)] = new
        else:
            plain[location.field] = new
    clean = replace(
        server,
        env=env,
        args=tuple(args),
        headers=headers,
        command=plain.get("command", server.command),
        cwd=plain.get("cwd", server.cwd),
        env_file=plain.get("env_file", server.env_file),
        url=plain.get("url", server.url),
    )
    return clean, tuple(moved)


def _text_at(server: ServerSpec, location: Location) -> tuple[str, str]:
    """Return the text at a place of a server's row, and the name that stands before it."""
    if location.field == "headers":
        return server.headers[str(location.key)], str(location.key)
    if location.field == "args" and isinstance(location.key, int):
        before = server.args[location.key - 1] if location.key else ""
        return server.args[location.key], before.lstrip("-/") if before.startswith("-") else ""
    return str(getattr(server, location.field)), ""


def _moved(
    server: str, location: Location, text: str, name: str, used: set[str]
) -> tuple[str, str, str]:
    """Return a text without its credential, the variable in its place, and what that was."""
    for value, hint in literal_values(text, name):
        if not value or ("$" in value and value != text):
            continue
        variable = _free(variable_for(server, hint or name), used)
        new = text.replace(value, f"${{{variable}}}")
        if _same(location, text, new, variable, value) and credential_in(name, new) is None:
            return new, variable, value
    raise ValueError(f"`{location}` holds a credential that cannot be moved")


def _free(name: str, used: set[str]) -> str:
    """Return a name that no other variable of the entry has."""
    found, number = name, 2
    while found in used:
        found, number = f"{name}_{number}", number + 1
    return found


def _same(location: Location, text: str, new: str, variable: str, value: str) -> bool:
    """Whether a text says the same as before once the variable has its value."""

    def before(name: str) -> str:
        return f"<{name}>"

    def after(name: str) -> str:
        return resolve(value, before) if name == variable else before(name)

    fill = resolve_url if location.field == "url" else resolve
    try:
        return fill(text, before) == fill(new, after)
    except (MissingVariable, BadUrl, ValueError):
        return False
