"""What the variables around a proxy may say to frozen servers, and to what installs them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What changes which code an interpreter loads. If an entry sets it, it was reviewed; what comes
# from around the proxy was not.
SEARCH_PATHS = (
    "NODE_COMPILE_CACHE",
    "NODE_PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONPYCACHEPREFIX",
    "PYTHONSTARTUP",
    "__PYVENV_LAUNCHER__",
)
NODE_OPTIONS = "NODE_OPTIONS"
LOADERS = re.compile(
    r"(?:^|(?<=\s))(?:-r|--require|--import|--loader|--experimental-loader)"
    r'(?:=|\s+|$)(?:"(?:\\.|[^"])*"|\S*)'
)
"""Options in NODE_OPTIONS that load code."""
# They say how to install what is said on the command line, or which other packages: nobody has
# reviewed them. Where to install from is the user's own business.
NOT_HEEDED = frozenset(
    {
        "PIP_ABI",
        "PIP_CONSTRAINT",
        "PIP_DRY_RUN",
        "PIP_EDITABLE",
        "PIP_IMPLEMENTATION",
        "PIP_NO_BINARY",
        "PIP_PLATFORM",
        "PIP_PREFIX",
        "PIP_PYTHON",
        "PIP_PYTHON_VERSION",
        "PIP_REQUIREMENT",
        "PIP_ROOT",
        "PIP_TARGET",
        "PIP_USER",
        "PYTHONHOME",
        "PYTHONPATH",
        "UV_BUILD_CONSTRAINT",
        "UV_CONSTRAINT",
        "UV_EXCLUDE_NEWER",
        "UV_NO_BINARY",
        "UV_NO_BINARY_PACKAGE",
        "UV_NO_VERIFY_HASHES",
        "UV_OVERRIDE",
        "UV_PROJECT",
        "UV_PYTHON",
        "UV_SYSTEM_PYTHON",
        "UV_VENV_SEED",
        "UV_WORKING_DIR",
        "VIRTUAL_ENV",
        "__PYVENV_LAUNCHER__",
        # npm reads these in either case.
        "NPM_CONFIG_CPU",
        "NPM_CONFIG_GLOBAL",
        "NPM_CONFIG_LIBC",
        "NPM_CONFIG_LOCATION",
        "NPM_CONFIG_OS",
        "NPM_CONFIG_PREFIX",
        "NPM_CONFIG_WORKSPACE",
        "NPM_CONFIG_WORKSPACES",
    }
)


def drop_foreign_code(env: dict[str, str], environ: Mapping[str, str]) -> None:
    """Drop from the environment of a server what has other code loaded, unless its entry sets it.

    Of NODE_OPTIONS, other options stay: certificates and limits of memory are set there.
    """
    for name in SEARCH_PATHS:
        if env.get(name) == environ.get(name):
            env.pop(name, None)
    options = env.get(NODE_OPTIONS)
    if options is not None and options == environ.get(NODE_OPTIONS):
        env[NODE_OPTIONS] = LOADERS.sub("", options).strip()


def of_installers(env: Mapping[str, str], beside: str) -> dict[str, str]:
    """Return the environment of what installs a server; programs in a folder `beside` come first.

    There lies the config's own command: so `/opt/homebrew/bin/npx` finds its npm, and that its
    node. "" if there is no such folder.
    """
    heeded = {name: value for name, value in env.items() if name.upper() not in NOT_HEEDED}
    if beside:
        put_first(heeded, beside)
    return heeded


def put_first(env: dict[str, str], folder: str) -> None:
    """Have programs of a folder come before all others."""
    env["PATH"] = os.pathsep.join(filter(None, [folder, env.get("PATH", "")]))
