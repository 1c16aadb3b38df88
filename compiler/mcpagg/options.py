"""The options of a compilation, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


class Commands(NamedTuple):
    """Commands for one emitted file, with all options that it is compiled with, for a shell."""

    rebuild: str
    """Writes the file, from its own folder; the file records it."""
    check: str
    """Compares the file, from its own folder; the file records it."""
    again: str
    """As `rebuild`, from the folder where the compiler was started."""
    config: str = ""
    """Not a command, but the config as seen from the file's folder; "" for standard input."""
