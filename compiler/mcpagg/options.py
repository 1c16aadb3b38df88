"""The options of a compilation, as plain values, and the commands by which a file records them."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpagg.literal import HIDDEN
from mcpagg.problems import ConfigError

if TYPE_CHECKING:
    from mcpagg.spec import ProxySpec

PROGRAM = "mcpagg-compile"
UNSHOWN = "(its arguments hold characters that cannot be shown: give them again)"

CONNECT_SECONDS = 60.0

RUNTIME_OPTIONS = (
    "separator",
    "names",
    "start",
    "on_drift",
    "restart",
    "env",
    "timeout",
    "connect_timeout",
    "idle_stop",
    "allow_failed",
)
"""The options that the emitted file acts upon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options that decide what is emitted. Times are in seconds, None for no limit.

    The command that the emitted file records has every one that differs from its default.
    """

    name: str | None = None
    separator: str = ":"
    names: str = "auto"
    start: str = "eager"
    on_drift: str = "live"
    restart: str = "never"
    env: str = "inherit"
    timeout: float | None = None
    connect_timeout: float = CONNECT_SECONDS
    idle_stop: float | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    expose: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    allow_failed: bool = False
    allow_secrets: bool = False
    stdio_only: bool = False
    strict: bool = False
    max_bytes: int | None = None
    ignore: tuple[str, ...] = ()
    serve: str | None = None
    """`stdio` or `stdio,http`; None for what the config's `serverTransport` says."""

    @property
    def minimal(self) -> bool:
        """Whether children get only the few variables that any program needs, and their own."""
        return self.env == "minimal"

    def runtime(self) -> dict[str, object]:
        """Return the options that the emitted file acts upon, by the runtime's names."""
        return {name: getattr(self, name) for name in RUNTIME_OPTIONS}

    def http(self, spec: ProxySpec) -> dict[str, Any] | None:
        """Return what is said of serving over HTTP, None for a proxy that does not.

        The config may ask for it where no option does.
        """
        asked = self.serve == "stdio,http" if self.serve else spec.http is not None
        return (spec.http or {}) if asked else None

    def words(self) -> list[str]:
        """Return the options that differ from their defaults, as words of a command line."""
        words: list[str] = []
        defaults = Options()
        for key, value in asdict(self).items():
            if value == getattr(defaults, key):
                continue
            flag = flag_of(key)
            if value is True:
                words.append(flag)
                continue
            for one in value if isinstance(value, tuple) else [value]:
                text = str(one).removesuffix(".0") if isinstance(one, float) else str(one)
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
    from mcpagg.relocation import way  # --help needs none of what it brings along

    try:
        there = "-" if source.name == "-" else way(os.path.dirname(output) or ".", source.name)
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
    """Return a path that is not taken for an option; a lone dash stays, if it was given as one."""
    return f"./{path}" if path.startswith("-") and given != "-" else path
