"""What has been installed in an environment of Python, by the records of its packages.

Installers write packages side by side: of two that have a file of one path, whichever is later has
it. So it is refused, unless both have the same bytes there, as packages that share a folder may.
"""

from __future__ import annotations

import csv
import os
import re
from glob import escape, glob
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.table import FrozenError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mcpagg_runtime.frozen.table import PypiTree

_ABOUT = ".dist-info"


def files_below(environment: str) -> set[str]:
    """Return the paths of all files of an environment."""
    return {
        os.path.join(folder, name)
        for folder, _, names in os.walk(os.path.realpath(environment))
        for name in names
    }


def refuse_others(tree: PypiTree, environment: str, own: Collection[str]) -> None:
    """Refuse an environment that has other packages than its lines, or two for one file.

    `own` are the files that it had before packages came.

    Raises:
        FrozenError: it is one.
        OSError: a record cannot be read.
    """
    abouts = _abouts(environment)
    found = {_name(about) for about in abouts}
    needed = {_plain(package.name) for package in tree.packages if not package.marker}
    if lacking := needed - found:
        raise FrozenError(f"the installer has left out {min(lacking)}")
    if more := found - {_plain(package.name) for package in tree.packages}:
        raise FrozenError(f"the installer has installed {min(more)}, which is not in the file")
    _refuse_clashes(abouts, os.path.realpath(environment), own)


def _refuse_clashes(abouts: list[str], environment: str, own: Collection[str]) -> None:
    """Refuse two owners of one file that have other bytes for it.

    Raises:
        FrozenError: there are such.
    """
    owners = {os.path.normcase(path): ("the environment itself", "its own") for path in own}
    for about in abouts:
        name = _name(about)
        for path, digest in _recorded(about):
            other, known = owners.setdefault(os.path.normcase(path), (name, digest))
            if other != name and known != digest:
                raise FrozenError(
                    f"{other} and {name} both have a file {os.path.relpath(path, environment)}, "
                    "with other bytes, and nothing says which of them counts"
                )


def _abouts(environment: str) -> list[str]:
    """Return the folders in which packages describe themselves, each once: `lib64` is a link."""
    patterns = (("lib*", "python*", "site-packages"), ("Lib", "site-packages"))
    return sorted(
        {
            os.path.realpath(about)
            for pattern in patterns
            for about in glob(os.path.join(escape(environment), *pattern, f"*{_ABOUT}"))
        }
    )


def _name(about: str) -> str:
    return _plain(os.path.basename(about).partition("-")[0])


def _plain(name: str) -> str:
    """Return one spelling for all of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _recorded(about: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a package, and their hashes, "" for none.

    Raises:
        FrozenError: its record cannot be read.
        OSError: neither can its file.
    """
    place = os.path.join(about, "RECORD")
    try:
        with open(place, encoding="utf-8", errors="surrogateescape", newline="") as file:
            for path, digest, *_ in csv.reader(file):
                yield os.path.normpath(os.path.join(os.path.dirname(about), path)), digest
    except (ValueError, csv.Error) as problem:
        raise FrozenError(f"{_name(about)} has a record that cannot be read: {problem}") from None
