"""Rewrites the relative paths of a launch table's row: from the config's folder to the proxy's."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from types import ModuleType
from typing import Any

from mcpagg.problems import ConfigError, Problem
from mcpagg_runtime.serve.variables import CONFIG_FOLDER, reference_at


def way(folder: str, path: str, paths: ModuleType = os.path) -> str:
    """Return the relative path that leads from a folder to `path`, with `/` on every system.

    `paths` is os.path, or another system's.

    Raises:
        ConfigError: they lie on different drives of Windows.
    """
    try:
        relative: str = paths.relpath(path, folder)
    except ValueError:
        remedy = "keep both on one drive: the file holds no absolute path of this machine"
        what = "lies on another drive than the proxy would"
        raise ConfigError(path, [Problem("", what, remedy)]) from None
    return relative.replace(paths.sep, "/")


def relocated(row: dict[str, Any], old: Path, new: Path) -> dict[str, Any]:
    """Return a row with what is meant from the folder `old` meant from the folder `new`."""
    there = way(str(new.resolve()), str(old.resolve())).replace("$", "$$")
    if there == ".":
        return row
    row = dict(row)
    for key in ("cwd", "env_file"):
        path = row.get(key)
        if path and not os.path.isabs(path) and path[0] not in "~$":
            row[key] = posixpath.normpath(posixpath.join(there, path))
    moved: dict[str, Any] = _replaced(row, there)
    return moved


def _replaced(value: Any, way: str) -> Any:
    """Let every reference of a row to the config's folder go on by `way`."""
    if isinstance(value, str):
        return _gone_on(value, way)
    if isinstance(value, dict):
        return {key: _replaced(item, way) for key, item in value.items()}
    return [_replaced(item, way) for item in value] if isinstance(value, list) else value


def _gone_on(text: str, way: str) -> str:
    """Let the references of one text go on; whatever else it holds stays."""
    parts, start, index = [], 0, 0
    while (index := text.find("$", index)) >= 0:
        found = None if text.startswith("$$", index) else reference_at(text, index)
        if found is None:
            index += 2 if text.startswith("$$", index) else 1
            continue
        name, _, index = found
        if name == CONFIG_FOLDER:
            parts.append(f"{text[start:index]}/{way}")
            start = index
    return "".join([*parts, text[start:]])
