"""A compilation job: its input, and the listener for its progress."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.clients import FILE_NAMES
from mcpagg.options import NO_COMMANDS, Commands, Options, Source
from mcpagg.problems import Problem
from mcpagg.spec import ServerSpec, Values

if TYPE_CHECKING:
    from mcpagg.compilation import Earlier
    from mcpagg.passes.discovery.discovery import Awaited
    from mcpagg.passes.emission.recorded import Contents


class Listener:
    """Receives warnings and progress of a compilation as they occur; this one ignores them.

    A warning may explain why a later pass fails.
    """

    def warn(self, problems: Sequence[Problem], servers: Collection[str] = ()) -> None:
        """Take warnings; `servers` are the paths of the entries that they may be about."""

    def failed(self, failures: Sequence[Problem], advice: str) -> None:
        """Take the servers that failed, and what helps."""

    def progress(self, server: str, text: str) -> None:
        """Take what came of a server, "" for all of them."""

    def waiting(self, awaited: Sequence[Awaited]) -> None:
        """Take, about once in a second, the servers that are still awaited."""

    def learnt(self, before: Earlier, now: Contents) -> None:
        """Take what FILE says of servers, and what they say: what follows may fail for that."""


SILENT = Listener()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One compilation: a config, and how to compile it.

    `file` is where the proxy will lie, None for standard output; `commands` are those for it.
    `refresh` names the servers to ask, None for all: the others need nothing of what a start needs,
    as their snapshots are those of `file`. `values` {server: {variable: value}} are what some
    servers have besides `environ`, each its own. `check`: the text is to be compared with `file`,
    so what a server computes anew each time is taken from there (see `Snapshot.with_known_ttl`).
    `against` is another file to compare the text with, which gives nothing of what is compiled.
    `key` is the path of a key to approve the data with; without one, the approval in `file` stays
    as long as the data do. `verbose` has all of a failed server's stderr quoted, and not only the
    end.
    """

    source: Source
    environ: Mapping[str, str]
    values: Values = field(default_factory=dict)
    file: Path | None = None
    commands: Commands = NO_COMMANDS
    refresh: Collection[str] | None = None
    check: bool = False
    against: Path | None = None
    key: str | None = None
    listener: Listener = SILENT
    verbose: bool = False

    @property
    def options(self) -> Options:
        return self.source.options

    @property
    def may_use_cache(self) -> bool:
        """Whether answers from a run that failed may be used: see `cache`.

        What is to be compared, or renewed by name, is asked; what may be secret is not kept.
        """
        return not (self.check or self.refresh is not None or self.options.allow_secrets)

    @property
    def name(self) -> str:
        """The proxy's own name, by default the config's without what says its format.

        All users of a client have a config of the same name; it is that of nothing in particular.
        """
        if self.options.name or self.source.name == "-":
            return self.options.name or "mcpagg"
        file = Path(self.source.name).name
        if file in FILE_NAMES:
            return "mcp"
        stem = re.split(r"\.(?:source\.json|json|toml|ya?ml)", file)[0]
        return stem.lstrip(".") or "mcpagg"

    def warn(self, problems: Iterable[Problem], servers: Iterable[ServerSpec] = ()) -> None:
        """Report warnings, `servers` being those whose entries they may be about."""
        self.listener.warn([*problems], [server.path for server in servers])
