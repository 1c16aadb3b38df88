"""The folder of the user's cache in which trees are installed, each under a digest of its lines.

A tree is installed into a temporary folder, and renamed: under its own name it is whole, always.
Whoever comes second takes what the first has installed. Nothing is repaired, and nothing removed
that a running proxy may use. Nothing depends on the clock, which may jump.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.contents import CONTENTS, write_contents
from mcpagg_runtime.frozen.coverage import this_platform
from mcpagg_runtime.frozen.folders import is_link, make, remove, rename, tried
from mcpagg_runtime.frozen.locking import LOCK, AtWorkError, leave, lock
from mcpagg_runtime.frozen.table import FrozenError
from mcpagg_runtime.launch.platforms import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcpagg_runtime.frozen.table import NpmTree, PypiTree

KEY_DIGITS = 32
TEMPORARY = ".tmp-"
MARK = "unfinished"
"""The file by which a temporary folder is known to be the one that was made."""
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class TreeCache:
    """The installed trees of this user."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises FrozenError: this user has no cache folder."""
        self.own = cache_folder(environ)
        self.folder = os.path.join(self.own, "trees")
        self._bytecode = os.path.join(self.own, "bytecode")

    def place(self, tree: NpmTree | PypiTree, more: str = "") -> str:
        """Return the folder of a tree, installed or not.

        What servers are given, what is started of the tree, and who has built its packages, has no
        part in it; `more` is what else the installed tree depends on, "" for nothing.
        """
        lines = sorted(" ".join(package.fields()) for package in tree.packages)
        facts = [tree.kind, getattr(tree, "python", ""), *lines, this_platform(), more]
        digest = sha256("\n".join(facts).encode("utf-8", "surrogatepass")).hexdigest()
        return os.path.join(self.folder, digest[:KEY_DIGITS])

    def has(self, place: str) -> bool:
        """Whether a tree is installed: its folder is there, with what is written into it last.

        Raises:
            FrozenError: somebody else might have put something else there.
        """
        if not os.path.lexists(place):
            return False
        try:
            for folder in (self.own, self.folder, place):
                refuse_unsafe(folder)
        except FileNotFoundError:  # another proxy has just taken it out of use
            return False
        return os.path.isfile(os.path.join(place, CONTENTS))

    def prepare(self) -> None:
        """Make the folder, and remove what installations of any tree have left that were killed.

        Raises:
            FrozenError: it cannot be used.
        """
        try:
            self._make(self.folder)
        except OSError as problem:
            raise self.unwritable(problem) from problem
        left = {_key(name) for name in os.listdir(self.folder)} - {""}
        for place in (os.path.join(self.folder, key) for key in left):
            with suppress(AtWorkError, OSError), lock(place, leave) as held:
                if held is not None:
                    self.remove_leftovers(place)

    def _make(self, folder: str) -> None:
        """Make a folder in ours, and ours if need be, for this user alone whatever the umask.

        Raises:
            FrozenError: it is not to be trusted.
            OSError: it cannot be made.
        """
        os.makedirs(os.path.dirname(self.own), exist_ok=True)
        for part in (self.own, folder):
            with suppress(FileExistsError):
                make(part)
            refuse_unsafe(part)

    def bytecode(self, digest: str) -> str:
        """Return where Python keeps what it compiles of files with a digest, made by us or not.

        Raises:
            FrozenError: such a folder is not to be trusted.
            OSError: it cannot be made.
        """
        self._make(self._bytecode)
        return os.path.join(self._bytecode, digest.partition(":")[2][:KEY_DIGITS])

    def unwritable(self, problem: OSError) -> FrozenError:
        """Return the error for a folder in which a tree cannot be installed."""
        what = os.fsdecode(problem.filename or self.folder)
        return FrozenError(
            f"to install it, {what} must be written, which fails: "
            f"{problem.strerror or problem}; mend that, or name another cache folder in {_VARIABLE}"
        )

    def remove_leftovers(self, place: str) -> None:
        """Remove what earlier installations of this tree have left; nobody else is at it now."""
        prefix = _prefix(place)
        for name in os.listdir(self.folder):
            if name.startswith(prefix):
                path = os.path.join(self.folder, name)
                gone = f"{path}-gone"  # what somebody still writes, by its name, is no part of it
                with suppress(OSError):  # on Windows, a file of it is open
                    os.rename(path, gone)
                    remove(gone)

    @contextmanager
    def temporary(self, place: str) -> Iterator[str]:
        """Make a folder in which a tree is installed; what is left of it goes at the end."""
        folder = os.path.join(self.folder, _prefix(place) + os.urandom(4).hex())
        make(folder)
        try:
            yield folder
        finally:
            remove(folder)

    @contextmanager
    def made(self, place: str) -> Iterator[str]:
        """Make a folder in which a tree is installed; at the end it gets its own name.

        Raises:
            FrozenError: it was removed meanwhile, so that what is in it now is a part.
        """
        with self.temporary(place) as folder:
            mark = os.path.join(folder, MARK)
            open(mark, "xb").close()
            yield folder
            try:
                tried(lambda: os.remove(mark))
            except FileNotFoundError:
                why = f"{folder} was removed while it was being installed there"
                raise FrozenError(why) from None
            write_contents(folder)
            self._keep(folder, place)

    def _keep(self, folder: str, place: str) -> None:
        """Give a tree its own name, unless another one has it by now."""
        try:
            rename(folder, place)
        except OSError:
            if not os.path.isdir(place):
                raise

    def discard(self, place: str) -> None:
        """Take a tree out of use that cannot be started any more."""
        with self.temporary(place) as folder:
            rename(place, os.path.join(folder, "discarded"))


_VARIABLE = "LOCALAPPDATA" if WINDOWS else "HOME" if sys.platform == "darwin" else "XDG_CACHE_HOME"


def cache_folder(environ: Mapping[str, str]) -> str:
    """Return the folder of this user's cache that is ours.

    Raises:
        FrozenError: the user has no home folder.
    """
    if WINDOWS:
        base = environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
        folder = os.path.join(base, "mcpagg", "cache")
    elif sys.platform == "darwin":
        folder = os.path.expanduser("~/Library/Caches/mcpagg")
    else:
        base = environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
        folder = os.path.join(base, "mcpagg")
    if not os.path.isabs(folder):
        raise FrozenError(f"there is no cache folder to install it in: set {_VARIABLE}")
    return folder


def refuse_unsafe(folder: str) -> None:
    """Refuse a folder in which somebody else might have put something.

    Raises:
        FrozenError: it is a link, or no folder, or others may write to it, or it is another's.
    """
    about = os.lstat(folder)
    why = ""
    if is_link(about):
        why = "is a link"
    elif not stat.S_ISDIR(about.st_mode):
        why = "is no folder"
    elif sys.platform != "win32" and about.st_uid not in (os.geteuid(), 0):
        why = "belongs to another user"
    elif not WINDOWS and about.st_mode & WRITABLE_BY_OTHERS:
        why = "can be written by others"
    if why:
        raise FrozenError(
            f"{folder} {why}, so that what is in it is not to be trusted: "
            f"remove it, or name another cache folder in {_VARIABLE}"
        )


def _prefix(place: str) -> str:
    return f"{TEMPORARY}{os.path.basename(place)}-"


def _key(name: str) -> str:
    """Return the name of the tree that an installation has left something of, "" for a tree."""
    if name.startswith(TEMPORARY):
        return name[len(TEMPORARY) :].partition("-")[0]
    return name[: -len(LOCK)] if name.endswith(LOCK) else ""
