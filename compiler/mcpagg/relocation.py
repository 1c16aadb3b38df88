"""Has a row of the launch table mean from the proxy's folder what it meant from the config's."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Any

from mcpagg_runtime.references import CONFIG_FOLDER, reference_at


def relocated(row: dict[str, Any], old: Path, new: Path) -> dict[str, Any]:
    """Return a row with what is meant from the folder `old` meant from the folder `new`."""
    way = Path(os.path.relpath(old.resolve(), new.resolve())).as_posix().replace("$", "$$")
    if way == ".":
        return row
    row = dict(row)
    for key in ("cwd", "env_file"):
        path = row.get(key)
        if path and not os.path.isabs(path) and path[0] not in "~$":
            row[key] = posixpath.normpath(posixpath.join(way, path))
    moved: dict[str, Any] = _replaced(row, way)
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
