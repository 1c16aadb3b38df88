"""Switches that a client keeps at the root of its config, for the tools of all servers.

They are globs over the client's own names of the tools, `SERVER_TOOL`, in which it writes `_` for
every character that is no letter, digit, `_` or `-`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from mcpagg import spec
from mcpagg.config.findings import Place, kind
from mcpagg.config.readers import switch
from mcpagg.spec import ServerSpec


class Pattern(NamedTuple):
    """A glob over the names of tools, what becomes of them, and where it stands.

    "withheld" and "kept" ones apply in their order, the last that fits a tool counts; where there
    are "only" ones, no other tool is offered. "asked" ones are kept: to ask is the client's part.
    """

    glob: str
    tools: Literal["withheld", "kept", "asked", "only"]
    at: Place


PatternReader = Callable[[Any, Place], list[Pattern]]


def switches(value: Any, at: Place) -> list[Pattern]:
    """Read `{GLOB: true or false}`."""
    chosen = [(glob, switch(on, at.at(glob))) for glob, on in _object(value, at)]
    return [Pattern(glob, "kept" if on else "withheld", at.at(glob)) for glob, on in chosen]


def permissions(value: Any, at: Place) -> list[Pattern]:
    """Read `{GLOB: "allow", "ask" or "deny"}`, or one of these words for all tools."""
    chosen = [("*", value, at)]
    if not isinstance(value, str):
        chosen = [(glob, answer, at.at(glob)) for glob, answer in _object(value, at)]
    found: list[Pattern] = []
    for glob, answer, place in chosen:
        if answer == "deny":
            found.append(Pattern(glob, "withheld", place))
        else:
            found.append(Pattern(glob, "asked" if answer == "ask" else "kept", place))
    return found


def withheld(value: Any, at: Place) -> list[Pattern]:
    """Read a list of globs of tools to withhold."""
    return [Pattern(glob, "withheld", place) for glob, place in _globs(value, at)]


def offered(value: Any, at: Place) -> list[Pattern]:
    """Read a list of globs of the only tools to offer."""
    return [Pattern(glob, "only", place) for glob, place in _globs(value, at)]


def apply(patterns: list[Pattern], server: ServerSpec) -> ServerSpec:
    """Return the server with the filters that the patterns mean for its own names of its tools."""
    hide: list[str] = []
    expose: list[str] | None = None
    prefix = _prefix(server.name)
    origins: dict[str, spec.Pattern] = {}
    for pattern in patterns:
        globs = list(_own_globs(pattern.glob, prefix))
        origin = spec.Pattern(pattern.glob, pattern.at.path, prefix)
        origins |= dict.fromkeys(globs, origin) if pattern.tools == "withheld" else {}
        if pattern.tools == "asked" and globs:
            pattern.at.warn("is not kept", "have the client ask before it calls the proxy's tools")
        if pattern.tools == "withheld":
            hide += globs
        elif pattern.tools == "only":
            expose = [*(expose or ()), *globs]
        elif "*" in globs:
            hide, expose = [], None
        elif "*" in hide and globs:
            hide, expose = [], globs
        elif hide and globs:
            pattern.at.warn("is not honoured: what a pattern before it withholds stays withheld")
    if expose is not None and server.expose is not None:
        what = f"{server.path} has a list of its own of the tools to offer"
        patterns[0].at.error(what, "keep one of them, or --skip the server")
    return replace(
        server,
        hide=(*server.hide, *dict.fromkeys(hide)),
        patterns=server.patterns | origins,
        expose=server.expose if expose is None else tuple(dict.fromkeys(expose)),
    )


def _prefix(server: str) -> str:
    """Return what the client's names of a server's tools begin with."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", server) + "_"


def _own_globs(glob: str, prefix: str) -> Iterator[str]:
    """Yield the globs over a server's own names that a glob over the client's names means."""
    for index in range(len(glob) + 1):
        if fnmatchcase(prefix, glob[:index]):
            # A star that reached beyond the prefix goes on.
            rest = "*" * glob[:index].endswith("*") + glob[index:]
            if rest:
                yield rest.replace("_", "[!A-Za-z0-9-]")


def _object(value: Any, at: Place) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    at.error(f"expected an object by tool, found {kind(value)}")
    return []


def _globs(value: Any, at: Place) -> Iterator[tuple[str, Place]]:
    if not isinstance(value, list):
        at.error(f"expected a list of tool names, found {kind(value)}")
        return
    for index, glob in enumerate(value):
        place = at.at(index)
        if not isinstance(glob, str):
            place.error(f"expected a string, found {kind(glob)}")
        elif glob.startswith("re:"):
            place.error("is a regular expression, which is not honoured", "write a glob")
        else:
            yield glob, place
