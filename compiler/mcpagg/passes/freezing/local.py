"""Freezes what lies on this machine: scripts with what they can load, and programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from zipfile import BadZipFile, ZipFile

from mcpagg.passes.freezing.commands import NotFreezable, ScriptRequest, check_program
from mcpagg_runtime.frozen.local import CannotBeFrozen, files_digest, program_digest
from mcpagg_runtime.frozen.table import LocalFiles, Program
from mcpagg_runtime.launch.launch import Launch
from mcpagg_runtime.launch.platforms import WINDOWS, find_program

_BATCH = (".bat", ".cmd", ".ps1")
_MAIN = "__main__.py"
"""What Python runs of a folder or an archive."""
_PROGRAMS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"#!")
"""How files begin that a system can run."""


def freeze_script(request: ScriptRequest, launch: Launch) -> LocalFiles:
    """Return the digest of a script with all that its interpreter can load beside it.

    Raises:
        NotFreezable: it is not there, or too much lies there.
    """
    written = launch.argv[-1 - request.args]
    path = os.path.join(launch.cwd or "", os.path.expanduser(written))
    if not os.path.isabs(path):
        raise NotFreezable(
            f"is a script that is looked up where the proxy is started: {written}",
            "give the server a `cwd`, or write an absolute path",
        )
    try:
        digest, number = files_digest(path, request.language)
    except CannotBeFrozen as fault:
        raise NotFreezable(f"cannot be: {launch.redact(str(fault))}") from None
    except OSError as problem:
        raise NotFreezable(f"has no readable {written}: {problem.strerror}") from None
    return LocalFiles(request.language, digest, number, request.args)


def freeze_program(launch: Launch) -> Program:
    """Return the digest of a program.

    Raises:
        NotFreezable: it is a script, or is given something to run.
    """
    path = launch.argv[0]
    check_program([os.path.realpath(path), *launch.argv[1:]])
    for word, place in _given(launch):
        if _is_run(place):
            started = f"is started by `{os.path.basename(path)}`, which is given {word} to run"
            raise NotFreezable(
                launch.redact(started), "start that itself, by node or python if it is a script"
            )
    try:
        is_script = _is_script(path)
        digest = program_digest(path)
    except OSError as problem:
        raise NotFreezable(f"has a program that cannot be read: {problem.strerror}") from None
    if is_script:
        raise NotFreezable(
            f"starts {os.path.basename(path)}, a script that runs other programs",
            "start what it runs: a package by npx or uvx, or a script by node or python",
        )
    return Program(digest)


def _given(launch: Launch) -> Iterator[tuple[str, str]]:
    """Yield the words of a program, and the paths that they may be: behind `--`, on the PATH."""
    words = launch.argv[1:]
    for before, word in zip(("", *words), words, strict=False):
        for part in {word, word.partition("=")[2]} - {""}:
            yield word, os.path.join(launch.cwd or "", os.path.expanduser(part))
        if before == "--" and (found := find_program(word, launch.env, "")):
            yield word, found


def _is_run(path: str) -> bool:
    """Whether a path is that of a program, a script, or a folder or archive that Python runs."""
    try:
        if os.path.isdir(path):
            return os.path.isfile(os.path.join(path, _MAIN))
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            is_program = file.read(4).startswith(_PROGRAMS)
        is_program = is_program or (not WINDOWS and os.access(path, os.X_OK))
        return is_program or _MAIN in _archived(path)
    except (OSError, ValueError):
        return False


def _archived(path: str) -> list[str]:
    """Return the names of the files in an archive that Python could run, [] for no archive.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with ZipFile(path) as archive:
            return archive.namelist()
    except (BadZipFile, NotImplementedError, ValueError):
        return []


def _is_script(path: str) -> bool:
    """Whether a program says in a few lines what to run, in whatever form.

    On Windows, pip and uv put the lines of a script behind a program that starts Python with them;
    that of Scoop reads beside it what to start.
    """
    with open(path, "rb") as file:
        if file.read(2) == b"#!" or path.lower().endswith(_BATCH):
            return True
    return os.path.isfile(f"{os.path.splitext(path)[0]}.shim") or _archived(path) == [_MAIN]
