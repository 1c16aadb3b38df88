"""Folders as trees need them, where systems differ: made, renamed, removed, however deep they are.

Windows lets nobody rename or remove what another process has open, and a virus scanner opens what
is new. It takes paths of more than 260 characters in one form alone. Its rights are lists, which
folders inherit from the user's own.
"""

from __future__ import annotations

import ntpath
import os
import shutil
import stat
from time import sleep
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.platforms import FOR_THIS_USER, WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable

# How often Windows is asked again; elsewhere, what cannot be done stays so.
TRIES, PAUSE_SECONDS = (20, 0.25) if WINDOWS else (1, 0.0)
EXTENDED = "\\\\?\\"
LINK_TAG = 0x20000000
"""In the tag of what stands for another place: links, and junctions, of which Python says less."""


def make(folder: str) -> None:
    """Make a folder for this user alone, whatever the umask.

    Raises:
        OSError: it cannot be made.
    """
    os.mkdir(folder, mode=FOR_THIS_USER)


def is_link(about: os.stat_result) -> bool:
    """Whether what `lstat` tells is that of a link, or of what Windows has besides."""
    tag = getattr(about, "st_reparse_tag", 0)
    return stat.S_ISLNK(about.st_mode) or bool(tag & LINK_TAG)


def rename(folder: str, place: str) -> None:
    """Rename a folder to a place where there is none.

    Raises:
        OSError: it cannot be renamed; PermissionError on Windows, though it was tried for seconds.
    """
    tried(lambda: os.rename(folder, place))


def tried(work: Callable[[], None]) -> None:
    """Do what is refused while another process has something open, for a moment in most cases.

    Raises:
        OSError: it cannot be done.
    """
    for left in reversed(range(TRIES)):
        try:
            work()
        except PermissionError:
            if not left:
                raise
            sleep(PAUSE_SECONDS)
        else:
            return


def remove(folder: str) -> None:
    """Remove a folder of ours, as far as that can be done."""
    for left in reversed(range(TRIES)):
        shutil.rmtree(path_of_any_length(folder), ignore_errors=True)
        if not left or not os.path.lexists(folder):
            return
        sleep(PAUSE_SECONDS)


def path_of_any_length(path: str) -> str:
    """Return an absolute path in the form in which the system takes it, however long it is."""
    return extended_path(path) if WINDOWS else path


def extended_path(path: str) -> str:
    """Return an absolute path of Windows in the form that may be long, and is taken as it is.

    As the folder of a process, the system takes none of this form.
    """
    if path.startswith(EXTENDED):
        return path
    plain = ntpath.normpath(path)
    return f"{EXTENDED}UNC{plain[1:]}" if plain.startswith("\\\\") else f"{EXTENDED}{plain}"
