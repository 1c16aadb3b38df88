"""Packages that are started in whatever version is newest, and what to write in their place.

The version is the one that ran when the servers were asked. An argument of the config is changed in
its text, and the config is read once more: nothing else in it may have changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mcpagg.passes.config.places import where
from mcpagg.passes.environment.programs import Package, find_package
from mcpagg.problems import CompileError, Problem, count, name_list
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.launch.launch import Location

FREEZE = "--freeze records all that runs, packages of packages too"
_WHOLE = rb"(?<![\w@/.-])%s(?![\w@/.=<>-])"
"""A word of a config that is not part of a longer one."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A server whose package has no exact version; `version` is the one that ran, "" if unknown."""

    server: ServerSpec
    package: Package
    version: str = ""

    @property
    def path(self) -> str:
        return where(self.server, Location("args", self.package.place))

    @property
    def written(self) -> str:
        """The whole argument as the config has it."""
        return self.server.args[self.package.place]

    @property
    def exact(self) -> str:
        """The argument with the version in it."""
        before = self.written.removesuffix(self.package.written)
        return before + self.package.with_version(self.version)

    @property
    def pinned(self) -> ServerSpec:
        args = list(self.server.args)
        args[self.package.place] = self.exact
        return replace(self.server, args=tuple(args))


def find_pins(
    spec: ProxySpec, ran: Mapping[str, str], frozen: Collection[str] = ()
) -> tuple[Pin, ...]:
    """Return the servers without an exact version; `ran` {server: version} is what is known.

    The `frozen` ones need none.
    """
    pins = []
    for server in spec.servers:
        if server.name in frozen:
            continue
        package = find_package(server.command, server.args)
        if package and not package.is_exact:
            # What a variable holds today is not what the config says.
            version = "" if "$" in package.written else ran.get(server.name, "")
            pins.append(Pin(server, package, version))
    return tuple(pins)


def unpinned(pins: Sequence[Pin], *, each: bool = False, command: str = "") -> Iterator[Problem]:
    """Warn of servers without an exact version, of `each` or of all in one line.

    `command` is the one that says what to write, "" where it would have to start them.
    """
    if not pins:
        return
    if each or len(pins) == 1:
        yield from map(_as_problem, pins)
        return
    names = name_list([pin.server.name for pin in pins])
    what = f"{count(len(pins), 'server')} without an exact version, so that a start may run another"
    remedy = f"{command} says what to write; {FREEZE}" if command else FREEZE
    yield Problem("", f"{what} one: {names}", remedy)


def _as_problem(pin: Pin) -> Problem:
    what = f"{pin.package.written} has no exact version: a start may run another one"
    return Problem(pin.path, what, f"{_remedy(pin)}; {FREEZE}")


def _remedy(pin: Pin) -> str:
    if pin.version:
        return f"write {pin.exact}, which is what ran"
    return f"`{pin.package.version_command}` says what there is"


def lines(pins: Sequence[Pin]) -> Iterator[str]:
    """Yield what to paste, a line an argument."""
    for pin in pins:
        if pin.version:
            written, exact = (
                json.dumps(text, ensure_ascii=False) for text in (pin.written, pin.exact)
            )
            yield f"{pin.path}: write {exact} instead of {written}"
        else:
            yield f"{pin.path}: what ran is not known; {_remedy(pin)}"


class PinnedConfig(NamedTuple):
    """A config's text with versions in it; those of `left` have no place that could be changed."""

    text: bytes
    left: tuple[Pin, ...]


def write_pins(
    text: bytes, pins: Sequence[Pin], read: Callable[[bytes], Sequence[ServerSpec]]
) -> PinnedConfig:
    """Put versions into the text of a config; `read` returns the servers that a text describes.

    Comments, order and blanks stay as they are.
    """
    left = []
    for pin in pins:
        changed = _changed(text, pin, read) if pin.version else None
        if changed is None:
            left.append(pin)
        else:
            text = changed
    return PinnedConfig(text, tuple(left))


def _changed(text: bytes, pin: Pin, read: Callable[[bytes], Sequence[ServerSpec]]) -> bytes | None:
    """Return the text with one argument changed, None if no change of one place means just that."""
    expected = [pin.pinned if server.name == pin.server.name else server for server in read(text)]
    old, new = pin.written.encode(), pin.exact.encode()
    for match in re.finditer(_WHOLE % re.escape(old), text):
        candidate = text[: match.start()] + new + text[match.end() :]
        try:
            if [*read(candidate)] == expected:
                return candidate
        except CompileError:
            continue  # it was no argument
    return None
