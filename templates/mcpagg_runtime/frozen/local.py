"""Digests of what a server of this machine is: a script with what it can load, or a program.

An interpreter loads by name what lies beside a script. Python: sources, compiled modules,
extension modules, and folders of such whose names can be imported. Node: modules of every kind in
the package that the script belongs to, also those without a suffix, and manifests; of
`node_modules` its lock stands for all that it holds. Other files are data, and do not count. A file
more counts as much as one that is another.
"""

from __future__ import annotations

import os
import sys
from hashlib import sha256
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.table import FrozenError

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON, NODE = "python", "node"
LOADED = {
    PYTHON: (".py", ".pyw", ".pyc", ".so", ".pyd"),
    NODE: (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".node", ".wasm"),
}
"""How files are called that each language loads by name."""
MANIFEST, MODULES = "package.json", "node_modules"
LOCK = ".package-lock.json"
"""In `node_modules`: what npm has installed there, with integrities."""
MOST_FILES = 5000
MOST_BYTES = 64 << 20
CHUNK = 1 << 20


class CannotBeFrozen(FrozenError):
    """Raised for what is too large, or of no bounds at all; `str()` names it, and the remedy."""


def files_digest(script: str, language: str) -> tuple[str, int]:
    """Return the digest of a script with what it can load, and of how many files that is.

    Raises:
        CannotBeFrozen: it lies in a home folder, or that is too much.
        OSError: something cannot be read.
    """
    real = os.path.realpath(script)  # as interpreters do
    folder = _package(os.path.dirname(real)) if language == NODE else os.path.dirname(real)
    if _has_home(folder):
        raise CannotBeFrozen(f"{folder} is a home folder, or has one{_REMEDY}")
    found = {os.path.relpath(real, folder), *_loadable(folder, language)}
    if language == NODE:
        found.update(_locks_above(folder))
    if len(found) > MOST_FILES:
        raise CannotBeFrozen(f"{folder} has more than {MOST_FILES} files to load{_REMEDY}")
    whole = sha256()
    size = 0
    # Sorted as they are digested: one folder has one digest, whatever separates paths.
    for path in sorted(path.replace(os.sep, "/") for path in found):
        digest, length = _digest(os.path.join(folder, path))
        size += length
        if size > MOST_BYTES:
            limit = f"{MOST_BYTES >> 20} MiB"
            raise CannotBeFrozen(f"{folder} has more than {limit} of files to load{_REMEDY}")
        shown = path.encode("utf-8", sys.getfilesystemencodeerrors())
        whole.update(shown + b"\0" + digest.encode("ascii") + b"\n")
    return f"sha256:{whole.hexdigest()}", len(found)


_REMEDY = ": move the server into a folder of its own"


def program_digest(path: str) -> str:
    """Return the digest of a program.

    Raises:
        OSError: it cannot be read.
    """
    return f"sha256:{_digest(path)[0]}"


def _digest(path: str) -> tuple[str, int]:
    """Return the digest of a file in hexadecimal digits, and its length."""
    whole, length = sha256(), 0
    with open(path, "rb") as file:
        while data := file.read(CHUNK):
            whole.update(data)
            length += len(data)
    return whole.hexdigest(), length


def _has_home(folder: str) -> bool:
    """Whether a folder is a home folder, or is above it: that is no server's own.

    Files are compared, not paths: on macOS and Windows a folder has many spellings.
    """
    own = os.stat(folder)
    home = os.path.realpath(os.path.expanduser("~"))
    return any(
        os.path.isdir(place) and os.path.samestat(os.stat(place), own) for place in _around(home)
    )


def _around(folder: str) -> Iterator[str]:
    """Yield a folder and all that it is in, up to the root, of which Windows has many."""
    yield folder
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        yield folder


def _package(folder: str) -> str:
    """Return the folder of the Node package that a folder is in; itself if it is in none.

    A script loads modules of its package wherever they lie: `bin/server.js` those in `dist`.
    """
    for place in _around(folder):
        if _has_home(place):
            break
        if os.path.isfile(os.path.join(place, MANIFEST)):
            return place
    return folder


def _loadable(folder: str, language: str) -> Iterator[str]:
    """Yield the files below a folder that a language loads by name, relative to it.

    Links are followed, as the language does, each folder once. Of more files than there may be,
    one more is yielded.
    """
    seen = set()
    todo = [""]
    count = 0
    while todo and count <= MOST_FILES:
        below = todo.pop()
        place = os.path.join(folder, below)
        real = os.path.realpath(place)
        if real in seen:
            continue
        seen.add(real)
        for entry in _entries(place):
            path = os.path.join(below, entry.name)
            if not entry.is_dir():
                if _is_loaded(entry.name, language) and count <= MOST_FILES:
                    count += 1
                    yield path
            elif entry.name == MODULES and language == NODE and _has_lock(entry.path):
                yield os.path.join(path, LOCK)
            elif _is_searched(entry.name, language):
                todo.append(path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _has_lock(modules: str) -> bool:
    return os.path.isfile(os.path.join(modules, LOCK))


def _is_searched(name: str, language: str) -> bool:
    """Whether modules are looked up in a folder of this name."""
    if language == PYTHON:
        return name.isidentifier() and name != "__pycache__"
    return name != ".git"


def _is_loaded(name: str, language: str) -> bool:
    # `require("./more")` takes a file of that very name before `more.js`.
    # Many systems take any case for it, and for all names.
    if language == NODE and (name.lower() == MANIFEST or "." not in name):
        return True
    return name.lower().endswith(LOADED[language])


def _locks_above(folder: str) -> Iterator[str]:
    """Yield the locks of modules above the folder of a package, where Node looks as well."""
    for place in _around(folder):
        lock = os.path.join(place, MODULES, LOCK)
        if place != folder and os.path.isfile(lock):
            yield os.path.relpath(lock, folder)
