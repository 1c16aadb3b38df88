"""What a tree holds: written beside it when it is installed, and compared by `--check`.

What Python compiles when a server runs does not count, nor what Node's tools keep in their cache.
A deep comparison has the former removed, which Python loads in place of what was compared.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from mcpagg_runtime.frozen.folders import path_of_any_length

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENTS = "contents.txt"
"""A line a file: size, time of change in nanoseconds, SHA-256, path with `%` escapes."""
BYTECODE = "__pycache__"
NOT_COUNTED = (BYTECODE, ".cache")
CHUNK = 1 << 20


def write_contents(folder: str) -> None:
    """Write what a folder holds into it.

    Raises:
        OSError: something cannot be read, or the list not written.
    """
    lines = []
    for path in sorted(_files(folder)):
        place = _place(folder, path)
        about = os.lstat(place)
        facts = f"{about.st_size} {about.st_mtime_ns} {_digest(place)}"
        lines.append(f"{facts} {quote(os.fsencode(path))}\n")
    with open(os.path.join(folder, CONTENTS), "w", encoding="ascii") as file:
        file.writelines(lines)


def difference(folder: str, *, deep: bool = False) -> str:
    """Return the first file that is not as it was installed, and how; "" if there is none.

    `deep`: what files hold is read; else their sizes and times are compared.
    """
    known = {}
    try:
        with open(os.path.join(folder, CONTENTS), encoding="ascii") as file:
            for line in file:
                *facts, path = line.rstrip("\n").split(" ")
                known[os.fsdecode(unquote_to_bytes(path))] = facts
    except (OSError, ValueError):
        return f"{CONTENTS} cannot be read"
    found = set(_files(folder)) - {CONTENTS}
    for path, facts in known.items():
        if path not in found:
            return f"{path} is gone"
        if not _is_same(_place(folder, path), facts, deep):
            return f"{path} has changed"
    more = min(found - set(known), default="")
    return f"{more} is new" if more else ""


def bytecode_in(folder: str) -> list[str]:
    """Return the folders below a folder in which Python keeps what it has compiled."""
    return [
        os.path.join(below, BYTECODE)
        for below, folders, _ in os.walk(path_of_any_length(folder))
        if BYTECODE in folders
    ]


def _is_same(place: str, facts: list[str], deep: bool) -> bool:
    size, changed, digest = facts
    try:
        about = os.lstat(place)
        if stat.S_ISREG(about.st_mode) and about.st_size != int(size):
            return False
        return _digest(place) == digest if deep else about.st_mtime_ns == int(changed)
    except (OSError, ValueError):
        return False


def _files(folder: str) -> Iterator[str]:
    """Yield all files and links below a folder, relative to it, with `/`."""
    todo = [""]
    while todo:
        below = todo.pop()
        with os.scandir(_place(folder, below)) as found:
            entries = list(found)
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield path
            elif entry.name not in NOT_COUNTED:
                todo.append(path)


def _place(folder: str, path: str) -> str:
    """Return where a file of a folder is, by its path with `/`."""
    return path_of_any_length(os.path.join(folder, *path.split("/")))


def _digest(place: str) -> str:
    """Return the digest of a file, or of where a link leads."""
    if os.path.islink(place):
        return sha256(os.fsencode(os.readlink(place))).hexdigest()
    whole = sha256()
    with open(place, "rb") as file:
        while data := file.read(CHUNK):
            whole.update(data)
    return whole.hexdigest()
