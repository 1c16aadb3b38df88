"""The options of a compilation, each declared once, and the commands by which a file records them.

A field of `Options` is an option: the parser (`arguments`), what the file records, what the runtime
acts upon and all defaults are made of these fields.
"""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcpagg.problems import ConfigError, suggest
from mcpagg.review import OF_LISTS
from mcpagg_runtime.lists.hidden import HIDDEN

if TYPE_CHECKING:
    from mcpagg.spec import ProxySpec

T = TypeVar("T")

PROGRAM = "mcpagg-compile"
UNSHOWN = "(its arguments hold characters that cannot be shown: give them again)"

CONNECT_SECONDS = 60.0


Value = tuple[str, Callable[[str], object]]
"""The value of an option: its name in `--help`, and what reads it, or raises ArgumentTypeError."""


class Option(NamedTuple):
    """How an option is given on the command line, beside its name, its type and its default."""

    group: str
    """The heading under which `--help` has it."""
    help: str | Mapping[str, str]
    """What it means, or {word or glob: what that means} of one that takes no other words."""
    value: Value = "", str
    flags: tuple[str, ...] = ()
    """How it is spelled, if not as its field."""
    action: Any = None
    """What argparse does with its value, if not what its default says."""
    runtime: bool = False
    """Whether the emitted file acts upon it."""
    alone: str = ""
    """Its value if it is given without one, "" if it needs one. A value then follows `=`."""


def option(
    default: T, group: str, help: str | Mapping[str, str], value: Value = ("", str), **more: Any
) -> T:
    """Return the field of an option, which says all that there is to say of it.

    Its default says what it takes: nothing if that is False, any number of words if it is a tuple.
    """
    declared: T = field(default=default, metadata={"option": Option(group, help, value, **more)})
    return declared


def options_of(declared: type) -> dict[str, tuple[Option, Any]]:
    """Return {name: (how it is given, its default)} of the options that a dataclass declares."""
    return {
        member.name: (member.metadata["option"], member.default)
        for member in fields(declared)
        if "option" in member.metadata
    }


def _mark(text: str) -> str:
    if not text.strip() or HIDDEN.search(text):
        raise ArgumentTypeError(f"{text!r} cannot be seen")
    return text


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _bytes(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is no number of bytes above 0")
    return int(text)


def _accepted(text: str) -> str:
    if text not in ACCEPTABLE:
        near = suggest(text, ACCEPTABLE) or f"choose one of {', '.join(ACCEPTABLE)}"
        raise ArgumentTypeError(f"{text!r} is no class of changes in what a server lists; {near}")
    return text


NAME, TOOLS, FILE = ("NAME", str), ("SERVER:TOOL", str), ("FILE", str)
MARK, OWN_NAME, SECONDS, BYTES = ("S", _mark), ("NAME", _mark), ("S", _seconds), ("N", _bytes)

CHOSEN = "servers and tools"
BEHAVIOUR = "how the proxy works"
JUDGED = "what is refused"

_NAMES = {
    "auto": "server:tool, but portable names to clients known to need them (default)",
    "spec": "server:tool to all",
    "portable": "server_tool to all, of letters, digits, '_' and '-'",
    "bare": "the tool's own name",
}
_START = {"eager": "servers start with the client (default)", "lazy": "each at its first call"}
_DRIFT = {
    "live": "list what a server offers now (default)",
    "warn": "list what was compiled all the same",
    "refuse": "list what is unchanged, and refuse calls of anything else",
}
ACCEPTED = {
    "additive": ("added", "schema-compatible"),
    "compatible": ("added", "schema-compatible", "text", "other"),
}
"""Groups of classes that `--accept` knows; none has `hidden` in it."""
ACCEPTABLE = (*ACCEPTED, *OF_LISTS)
_ACCEPT = (
    "with --on-drift refuse: serve all the same what has changed in this class alone (repeatable);"
    f" {', '.join(ACCEPTABLE)}"
)
_RESTART = {
    "never": "a server that is down stays down (default)",
    "on-call": "its next call starts it again",
}
_ENV = {
    "inherit": "servers get the environment of the proxy (default)",
    "minimal": "what any program needs (PATH, locale, proxies, …), and what is in their `env`",
}
_LOCKED = (
    "serve only the lists that were reviewed: --on-drift refuse and --env minimal, unless these are"
    " given otherwise, and the digest of FILE in the printed entry; for packages, see --freeze"
)
_SERVE = {
    "stdio": "one client on standard input and output (default)",
    "stdio,http": "also many over HTTP: FILE --http, or uvicorn FILE:app",
}
_ALLOW_FAILED = (
    "go on without servers that fail, or lack a variable, a program, a file or a folder;"
    " one that FILE has stays as it is there"
)
_FREEZE = (
    "record every package of all servers, and start exactly these; --freeze=NAME: of this server"
    " (globs, repeatable)"
)
_SCRIPTS = "--freeze: run the install scripts of this package, or build it (repeatable)"
_IGNORE = "a finding that is no fault, by its name in brackets (globs, repeatable)"
_IDLE = "end a server that was idle for so long; default never"
_TIMEOUT = "limit of a call, in seconds; progress extends it, up to ten times; default none"
_DEFINE = "the value of an editor's variable (`${workspaceFolder}`), for FILE (repeatable)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options that decide what is emitted. Times are in seconds, None for no limit.

    The command that the emitted file records has every one that differs from its default, in this
    order. Options that only steer one run are those of `arguments.Run`.
    """

    name: str | None = option(
        None, BEHAVIOUR, "the proxy's own name; default from the config's", OWN_NAME
    )
    separator: str = option(
        ":", BEHAVIOUR, "between server and tool in names; default ':'", MARK, runtime=True
    )
    names: str = option("auto", BEHAVIOUR, _NAMES, runtime=True)
    start: str = option("eager", BEHAVIOUR, _START, runtime=True)
    on_drift: str | None = option(None, BEHAVIOUR, _DRIFT, runtime=True)
    """None for what `locked` says; see `drift`."""
    accept: tuple[str, ...] = option((), BEHAVIOUR, _ACCEPT, ("CLASS", _accepted), runtime=True)
    restart: str = option("never", BEHAVIOUR, _RESTART, runtime=True)
    env: str | None = option(None, BEHAVIOUR, _ENV, runtime=True)
    """None for what `locked` says."""
    locked: bool = option(False, BEHAVIOUR, _LOCKED)
    timeout: float | None = option(None, BEHAVIOUR, _TIMEOUT, SECONDS, runtime=True)
    connect_timeout: float = option(
        CONNECT_SECONDS, BEHAVIOUR, "limit of a start; default 60", SECONDS, runtime=True
    )
    idle_stop: float | None = option(None, BEHAVIOUR, _IDLE, SECONDS, runtime=True)
    only: tuple[str, ...] = option((), CHOSEN, "no server but this one (repeatable)", NAME)
    skip: tuple[str, ...] = option(
        (), CHOSEN, "leave this server out, and check nothing of it (repeatable)", NAME
    )
    expose: tuple[str, ...] = option(
        (), CHOSEN, "offer no tools but these (globs, repeatable)", TOOLS
    )
    hide: tuple[str, ...] = option(
        (), CHOSEN, "neither list nor call these (globs, repeatable)", TOOLS
    )
    define: tuple[str, ...] = option((), CHOSEN, _DEFINE, ("NAME=VALUE", str))
    profile: tuple[str, ...] = option((), CHOSEN, "this profile of `mcpagg` in the config", NAME)
    allow_failed: bool = option(False, CHOSEN, _ALLOW_FAILED, runtime=True)
    freeze: tuple[str, ...] = option((), BEHAVIOUR, _FREEZE, NAME, alone="*")
    freeze_scripts: tuple[str, ...] = option((), BEHAVIOUR, _SCRIPTS, ("PACKAGE", str))
    allow_secrets: bool = option(False, JUDGED, "take literal credentials; writes FILE 0600")
    stdio_only: bool = option(False, JUDGED, "refuse all but the standard stdio config")
    strict: bool = option(False, JUDGED, "fail (2) for what clients refuse or texts hide")
    max_bytes: int | None = option(None, JUDGED, "fail (2) if the list of tools is larger", BYTES)
    ignore: tuple[str, ...] = option((), JUDGED, _IGNORE, ("RULE[=SERVER:TOOL]", str))
    serve: str | None = option(None, BEHAVIOUR, _SERVE)
    """None for what the config's `serverTransport` says."""

    @property
    def drift(self) -> str:
        """What is done where a server differs from its snapshot."""
        return self.on_drift or ("refuse" if self.locked else "live")

    @property
    def minimal(self) -> bool:
        """Whether children get only the few variables that any program needs, and their own."""
        return self.env == "minimal" if self.env else self.locked

    @property
    def defines(self) -> dict[str, str]:
        """The values that `--define` gives, by the names of their variables."""
        return dict(pair.partition("=")[::2] for pair in self.define)

    def runtime(self) -> dict[str, object]:
        """Return the options that the emitted file acts upon, by the runtime's names."""
        declared = options_of(Options).items()
        given = {name: getattr(self, name) for name, (how, _) in declared if how.runtime}
        accepted = {one for name in self.accept for one in ACCEPTED.get(name, (name,))}
        del given["accept"]
        given |= {"on_drift": self.drift, "env": "minimal" if self.minimal else "inherit"}
        return given | ({"accept": sorted(accepted)} if accepted else {})

    def http(self, spec: ProxySpec) -> dict[str, Any] | None:
        """Return what is said of serving over HTTP, None for a proxy that does not.

        The config may ask for it where no option does.
        """
        asked = self.serve == "stdio,http" if self.serve else spec.http is not None
        return (spec.http or {}) if asked else None

    def words(self) -> list[str]:
        """Return the options that differ from their defaults, as words of a command line."""
        words: list[str] = []
        for key, (how, default) in options_of(Options).items():
            value = getattr(self, key)
            if value == default:
                continue
            flag = flag_of(key)
            if value is True:
                words.append(flag)
                continue
            for item in value if isinstance(value, tuple) else [value]:
                text = str(item).removesuffix(".0") if isinstance(item, float) else str(item)
                if how.alone:
                    words.append(flag if text == how.alone else f"{flag}={text}")
                else:
                    words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
        return words


def flag_of(option: str) -> str:
    """Return how an option is spelled on a command line."""
    return "--" + option.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Source:
    """A config to compile: its text, its name as the user wrote it, and where it lies."""

    text: bytes
    name: str
    folder: Path
    options: Options = field(default_factory=Options)
    client: str = ""
    """The client whose config it is, if that was asked for."""


class Commands(NamedTuple):
    """Commands for one emitted file, with all options that it is compiled with, for a shell."""

    rebuild: str = ""
    """Writes the file, from its own folder; the file records it."""
    check: str = ""
    """Compares the file, from its own folder; the file records it."""
    again: str = ""
    """As `rebuild`, from the folder where the compiler was started."""
    config: str = ""
    """Not a command, but the config as seen from the file's folder; "" for standard input."""


NO_COMMANDS = Commands()


def commands(source: Source, output: str) -> Commands:
    """Return the commands that rebuild and check a file; `output` is its path, "-" for none.

    Raises:
        ConfigError: no relative path leads from the file's folder to the config.
    """
    # --help needs none of what this brings along
    from mcpagg.passes.environment.relocation import relative_path

    try:
        folder = os.path.dirname(output) or "."
        there = "-" if source.name == "-" else relative_path(folder, source.name)
    except ConfigError:
        if not source.client:
            raise
        there = "-"  # on another drive, where the client's name leads to it
    name = output if output == "-" else os.path.basename(output)
    config, file = [_operand(there, source.name)], _operand(name, output)
    if there == "-" and source.client:
        config = ["--from", source.client]
    check = ["--check", "-o", file]
    if "-" in (there, output):  # the file does not know its config, or its own name
        check = [*config, *check[:-1], file if source.client and output != "-" else "FILE"]
    options = source.options.words()
    again = [_operand(source.name, source.name), "-o", _operand(output, output), *options]
    rebuild = [*config, "-o", file, *options]
    if any(HIDDEN.search(word) for word in (*rebuild, *again)):
        return Commands(UNSHOWN, UNSHOWN, UNSHOWN)
    rebuilds, checks, builds = (shlex.join([PROGRAM, *w]) for w in (rebuild, check, again))
    return Commands(rebuilds, checks, builds, "" if there == "-" else there)


def _operand(path: str, given: str) -> str:
    """Return a path that cannot be taken for an option; "-" stays if it was given as such."""
    return f"./{path}" if path.startswith("-") and given != "-" else path
