"""Puts the emitted text where it belongs, or shows how what is there differs from it."""

from __future__ import annotations

import difflib
import os
import tempfile
from pathlib import Path

from mcpagg.problems import ConfigError, Problem

EXECUTABLE = 0o755
PRIVATE = 0o600


def write(file: Path, text: str, mode: int = EXECUTABLE) -> None:
    """Replace `file` by `text` in one step: on any failure the old file stays as it was.

    Raises:
        ConfigError: the folder is missing or cannot be written to.
    """
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, file)
        temporary = None
    except OSError as problem:
        what = f"cannot be written: {problem.strerror}"
        raise ConfigError(str(file), [Problem("", what, "choose another -o FILE")]) from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def difference(file: Path, text: str) -> str:
    """Return a unified diff from `file` to `text`, "" if they are the same.

    A missing file counts as empty.
    """
    try:
        old = file.read_bytes().decode("utf-8", "replace") if file.exists() else ""
    except OSError as problem:
        raise ConfigError(str(file), [Problem("", f"cannot be read: {problem.strerror}")]) from None
    lines = difflib.unified_diff(
        old.splitlines(keepends=True),
        text.splitlines(keepends=True),
        fromfile=f"{file} (on disk)",
        tofile=f"{file} (compiled now)",
        n=2,
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
