"""What an installation is of: the scopes of a client, and where its source and FILE lie.

A scope is a config file, or the part of one that is for a single folder. A config in a repository
is its team's: FILE lies beside it, to be reviewed and checked in. All others are one user's: FILE
lies in the folder where programs of this user keep their data.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpagg.clients import Found, client_of, find_all
from mcpagg.install.editing import Config
from mcpagg.install.tree import Path as Keys
from mcpagg.jsontext import members_of
from mcpagg.options import PROGRAM
from mcpagg.passes.config.reading import project_of
from mcpagg.problems import ConfigError, Problem

PROJECTS = "projects"
"""The key under which Claude Code keeps what is for a single folder."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A container of a client's entries: the file, and what leads to the part that is meant.

    `file` is as the client has it; `keys` are empty for the whole file. `folder` is where the paths
    in it lead from. `root` is the root of the repository that it belongs to, None for a user's own.
    """

    client: str
    file: Path
    keys: Keys
    folder: Path
    root: Path | None

    @property
    def target(self) -> Path:
        """The file itself, where the client has a link to it."""
        return Path(os.path.realpath(self.file))

    @property
    def shown(self) -> str:
        return f"{self.file}: {self.keys[1]}" if self.keys else str(self.file)

    def document(self, config: Config) -> Any:
        """Return what the scope has of a config, as a config of its own."""
        if not self.keys:
            whole = config.value
            is_whole = not isinstance(whole, dict) or PROJECTS not in whole
            return whole if is_whole else {k: v for k, v in whole.items() if k != PROJECTS}
        return config.at(self.keys)


def find_scopes(
    client: str,
    config: str | None,
    home: Path,
    environ: Mapping[str, str],
    platform: str,
    cwd: Path,
) -> list[Scope]:
    """Return the scopes of a client that apply in the folder `cwd`, or those of one config.

    Raises:
        ConfigError: there is none, or it is not known whose the config is.
    """
    if config is None:
        found = find_all(client, home=home, environ=environ, platform=platform, cwd=cwd)
        return [scope for one in found for scope in _scopes(client, one, cwd)]
    file = Path(config).absolute()
    owner = client_of(file)
    if not owner:
        remedy = "give --from CLIENT, or a config in its usual place"
        raise ConfigError(config, [Problem("", "it is not known which client reads this", remedy)])
    is_users = file.is_relative_to(home) and repository_of(file.parent) is None
    return [*_scopes(owner, Found(file, not is_users), cwd)]


def _scopes(client: str, found: Found, cwd: Path) -> Iterator[Scope]:
    file = found.file.absolute()
    root = repository_of(file.parent) if found.is_project else None
    yield Scope(client, file, (), project_of(file.parent, file.name), root)
    if client == "claude-code" and not found.is_project:
        value = Config(_read(file), str(file)).value
        for folder in _spellings(cwd, members_of(members_of(value).get(PROJECTS))):
            yield Scope(client, file, (PROJECTS, folder), cwd, None)


def _spellings(folder: Path, projects: Mapping[str, Any]) -> list[str]:
    names = (str(folder), os.path.realpath(folder), folder.as_posix())
    return [name for name in dict.fromkeys(names) if "mcpServers" in members_of(projects.get(name))]


def repository_of(folder: Path) -> Path | None:
    """Return the root of the repository that a folder is in, None if it is in none."""
    roots = (here for here in (folder, *folder.parents) if (here / ".git").exists())
    return next(roots, None)


def file_for(scope: Scope, output: str | None, environ: Mapping[str, str], platform: str) -> Path:
    """Return where FILE of a scope lies; `output` is what was asked for."""
    if output is not None:
        return Path(output).absolute()
    stem = re.sub(r"[^A-Za-z0-9]+", "_", scope.file.name.partition(".json")[0]).strip("_")
    name = f"{stem.removesuffix('_toml').removesuffix('_yaml') or 'mcp'}_servers.py"
    if scope.root is not None:
        return scope.file.parent / name
    digest = _digest(str(scope.target), *map(str, scope.keys))
    return data_folder(environ, platform) / f"{scope.client}-{digest}" / name


def backup_for(scope: Scope, environ: Mapping[str, str], platform: str) -> Path:
    """Return where the config of a scope is kept as it was: its secrets are in no repository."""
    name = f"{_digest(str(scope.target))}-{scope.target.name}"
    return data_folder(environ, platform).with_name("backups") / name


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def data_folder(environ: Mapping[str, str], platform: str) -> Path:
    """Return the folder of what is installed, in that where programs keep this user's data."""
    if platform == "win32":
        base = environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    elif platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = environ.get("XDG_DATA_HOME", "")
        if not os.path.isabs(base):  # which the XDG specification has ignored
            base = os.path.expanduser("~/.local/share")
    return Path(base, "mcpagg", "installed")


def read_scope(scope: Scope) -> Config:
    """Return the config of a scope as it is now.

    Raises:
        ConfigError: it cannot be read.
    """
    return Config(_read(scope.file), str(scope.file))


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        raise ConfigError(str(file), [Problem("", what, f"see {PROGRAM} --help")]) from None
