"""Writes what an installation changes, each file in one step, and the client's config last.

The config of a client is followed where it is a link, keeps its mode, and is refused if it is not
as it was read. It is locked from that check to the last write, so that no other process which
installs or puts back comes between. If one file cannot be written, all are as they were. What ends
this process meanwhile waits until all is written; after a loss of power, each file is the old one
or the new one, and the same command again brings them together.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic

from mcpagg.install.editing import Config
from mcpagg.install.places import Scope
from mcpagg.passes.emission.output import AGAIN, put, replace_file
from mcpagg.problems import ConfigError, Problem
from mcpagg.signals import ENDING, ending_later
from mcpagg_runtime.frozen.locking import lock, lock_of

LOCKED = ".mcpagg"
"""What the lock beside a config has behind its name, before the suffix of locks."""
LOCKED_SECONDS = 30.0


@contextmanager
def locked(scope: Scope) -> Iterator[None]:
    """Be the only one who changes the config of a scope, and what its entries start.

    Raises:
        ConfigError: another process is at it, and does not end.
    """
    until = monotonic() + LOCKED_SECONDS
    place = f"{scope.target}{LOCKED}"

    def check() -> None:
        if monotonic() > until:
            what = f"is being changed by another process, which has locked {lock_of(place)}"
            raise ConfigError(str(scope.file), [Problem("", what, AGAIN)])

    with ExitStack() as stack:
        with suppress(OSError):  # where nothing can be written, the writing says so
            stack.enter_context(lock(place, check))
        yield


@contextmanager
def to_the_end() -> Iterator[None]:
    """Have what would end this process wait until the block is done."""
    with ending_later(("SIGINT", *ENDING), handled=True):
        yield


@contextmanager
def all_or_none(files: Mapping[Path, bytes]) -> Iterator[None]:
    """Have files, which the block writes {file: data}, be as they were if it cannot write all.

    Entries that are installed already name the digest of the FILE that was. One that another
    process has written meanwhile stays.
    """
    before = {file: (_content(file), file.stat().st_mode if file.exists() else 0) for file in files}
    try:
        yield
    except ConfigError:
        for file, (data, mode) in before.items():
            with suppress(OSError):
                if _content(file) != files[file]:
                    continue
                if data is None:
                    file.unlink()
                else:
                    replace_file(Path(os.path.realpath(file)), data, stat.S_IMODE(mode))
        raise


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def check_unchanged(scope: Scope, config: Config) -> None:
    """Refuse a config that is not as it was read.

    Raises:
        ConfigError: it is another one now.
    """
    try:
        now = scope.target.read_bytes()
    except OSError:
        now = b""
    if now != config.data:
        raise ConfigError(str(scope.file), [Problem("", "has changed meanwhile", AGAIN)])


def write_config(scope: Scope, old: Config, new: Config) -> None:
    """Replace the config of a scope, its mode kept.

    Raises:
        ConfigError: it has changed meanwhile, or cannot be written.
    """
    check_unchanged(scope, old)
    put(scope.target, new.data, stat.S_IMODE(scope.target.stat().st_mode))
