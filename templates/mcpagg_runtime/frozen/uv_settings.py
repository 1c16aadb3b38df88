"""The settings of uv, which may name indexes and certificates, but not what is installed where.

No option of the command line takes `target` back: `uv pip sync` would make that folder hold the
packages of a server, and nothing else.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.table import FrozenError
from mcpagg_runtime.launch.platforms import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTINGS = "uv.toml"
_REFUSED = re.compile(
    r"^[^#\n]*?(?<![\w-])[\"']?(target|prefix|no-deps|no-emit-package|python-platform)[\"']?\s*=",
    re.MULTILINE,
)
_FALSE = ("", "0", "f", "false", "n", "no", "off")


def keep_settings_out(env: Mapping[str, str], folder: str) -> None:
    """Have uv, when it runs in a folder, read no settings of projects around it.

    Raises:
        FrozenError: those of the user say what is installed, or where.
        OSError: the folder cannot be written.
    """
    open(os.path.join(folder, SETTINGS), "wb").close()  # the nearest such file is that of a project
    for path in _paths(env):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found = _REFUSED.search(file.read())
        except OSError:  # there is none, as a rule; uv says what is wrong with one
            continue
        if found:
            raise FrozenError(
                f"{path} says `{found[1]}`, by which uv would install other things, or elsewhere: "
                "leave that out, or name another file with settings of uv in UV_CONFIG_FILE"
            )


def _paths(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the files in which uv looks for settings of a user and of the machine."""
    if env.get("UV_CONFIG_FILE"):
        yield env["UV_CONFIG_FILE"]
    elif env.get("UV_NO_CONFIG", "").lower() not in _FALSE:
        return
    else:
        yield from (os.path.join(folder, "uv", SETTINGS) for folder in _folders(env) if folder)


def _folders(env: Mapping[str, str]) -> list[str]:
    if WINDOWS:
        return [env.get("APPDATA", ""), env.get("PROGRAMDATA", "")]
    home = env.get("HOME") or os.path.expanduser("~")
    own = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return [own, *env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep), "/etc"]
