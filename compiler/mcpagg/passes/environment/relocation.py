"""The launch table: the rows of a config's servers, with paths as they are meant from the proxy."""

from __future__ import annotations

import ntpath
import os
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mcpagg.problems import ConfigError, Problem
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.launch.launch import strings
from mcpagg_runtime.launch.variables import CONFIG_FOLDER, dollars


def relative_path(folder: str, path: str, paths: ModuleType = os.path) -> str:
    """Return the relative path that leads from a folder to `path`, with `/` on every system.

    `paths` is os.path, or another system's.

    Raises:
        ConfigError: they lie on different drives of Windows.
    """
    try:
        relative: str = paths.relpath(_without_long_prefix(path), _without_long_prefix(folder))
    except ValueError:
        remedy = "keep both on one drive: the file holds no absolute path of this machine"
        what = "lies on another drive than the proxy would"
        raise ConfigError(path, [Problem("", what, remedy)]) from None
    return relative.replace(paths.sep, "/")


def _without_long_prefix(path: str) -> str:
    """Return a path of Windows without the prefix for long paths."""
    for mark, usual in (("\\\\?\\UNC\\", "\\\\"), ("\\\\?\\", "")):
        if path.startswith(mark):
            return usual + path[len(mark) :]
    return path


def launch_rows(spec: ProxySpec, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the launch table: {server: row}, relative folders meant from `folder`.

    A config and its proxy move as a whole, so a relative `cwd` stays relative, to the proxy.
    """
    return {name: relocated(row, spec.folder, folder) for name, row in spec.rows.items()}


def relocated(row: dict[str, Any], old: Path, new: Path) -> dict[str, Any]:
    """Return a row whose paths from the folder `old` are paths from the folder `new`."""
    if not any(_config_relative(row)):
        return row
    there = relative_path(str(new.resolve()), str(old.resolve())).replace("$", "$$")
    if there == ".":
        return row
    row = dict(row)
    for key in ("cwd", "env_file"):
        path = row.get(key)
        if path and _is_config_relative(path):
            row[key] = posixpath.normpath(posixpath.join(there, path))
    moved: dict[str, Any] = _replaced(row, there)
    return moved


def _replaced(value: Any, way: str) -> Any:
    """Add the path `way` to every reference of a row to the config's folder."""
    if isinstance(value, str):
        return _continued(value, way)
    if isinstance(value, dict):
        return {key: _replaced(item, way) for key, item in value.items()}
    return [_replaced(item, way) for item in value] if isinstance(value, list) else value


def _continued(text: str, way: str) -> str:
    """Add the path to the references in one text; whatever else it holds stays."""
    parts, start = [], 0
    for _, end, name, _ in dollars(text):
        if name == CONFIG_FOLDER:
            parts.append(f"{text[start:end]}/{way}")
            start = end
    return "".join([*parts, text[start:]])


def with_transports(
    rows: Mapping[str, Mapping[str, Any]], snapshot: Snapshot
) -> dict[str, dict[str, Any]]:
    """Return the rows of the servers that a snapshot has, as it was taken.

    A URL alone does not say which of two transports is behind it; the snapshot does.
    """
    children = snapshot.by_name
    return {
        name: {**row, "transport": children[name].transport} if "url" in row else {**row}
        for name, row in rows.items()
        if name in children
    }


def check_self_contained(spec: ProxySpec, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse servers that need files beside the config, for a proxy that lies elsewhere.

    An extension (`mcpb.py`) brings nothing along.

    Raises:
        ConfigError: with a problem for each such place.
    """
    paths = spec.paths
    problems = [
        Problem(
            f"{paths[name]}.{place}",
            f"needs {what} beside the config, and an extension brings nothing along",
            "write an absolute path, or start a package",
        )
        for name, row in rows.items()
        for place, what in _config_relative(row)
    ]
    if problems:
        raise ConfigError(spec.source, problems)


def _config_relative(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, what in (("cwd", "a folder"), ("env_file", "a file")):
        path = row.get(key)
        if path and _is_config_relative(path):
            yield key, what
    for location, text in strings(row):
        if any(name == CONFIG_FOLDER for _, _, name, _ in dollars(text)):
            yield str(location), "a folder"


def _is_config_relative(path: str) -> bool:
    return is_relative(path) and path[0] not in "~$"


def is_relative(path: str) -> bool:
    """Whether a path is relative on every system."""
    return not (path[:1] in ("/", "\\") or ntpath.splitdrive(path)[0])
