"""What the variables around a proxy may say to frozen servers, and to what installs them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What changes which code an interpreter loads.
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
_FLAGS = frozenset(
    "--enable-source-maps --force-fips --enable-fips --insecure-http-parser --no-deprecation"  # noqa: SIM905 - a word a line
    " --no-experimental-fetch --no-experimental-websocket --no-network-family-autoselection"
    " --no-warnings --no-verify-base-objects --pending-deprecation --throw-deprecation"
    " --tls-max-v1.2 --tls-max-v1.3 --tls-min-v1.0 --tls-min-v1.1 --tls-min-v1.2 --tls-min-v1.3"
    " --trace-deprecation --trace-sigint --trace-uncaught --trace-warnings --use-bundled-ca"
    " --use-env-proxy --use-openssl-ca --use-system-ca".split()
)
_VALUED = frozenset(
    "--disable-warning --dns-result-order --max-http-header-size --max-old-space-size"  # noqa: SIM905
    " --max-old-space-size-percentage --max-semi-space-size --secure-heap --secure-heap-min"
    " --network-family-autoselection-attempt-timeout --stack-trace-limit --tls-cipher-list"
    " --unhandled-rejections --v8-pool-size".split()
)
"""Options in NODE_OPTIONS that load no code: of memory, of certificates, of warnings."""
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


def drop_foreign_code(env: dict[str, str]) -> None:
    """Drop from the environment of a server, or of an installer, what has other code loaded.

    No entry that was frozen sets such variables, but they come from around the proxy, from a file
    of variables, or with a reference.
    """
    for name in SEARCH_PATHS:
        env.pop(name, None)
    if NODE_OPTIONS in env:
        env[NODE_OPTIONS] = " ".join(map(_quoted, split_node_options(env[NODE_OPTIONS])[0]))


def split_node_options(text: str) -> tuple[list[str], list[str]]:
    """Return the options of NODE_OPTIONS that load no code, and all other words there."""
    harmless, others = [], []
    words = _node_words(text)
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        name = name[:2] + name[2:].replace("_", "-")
        if name in (_VALUED if equals else _FLAGS):
            harmless.append(word)
        elif name in _VALUED and words and not words[0].startswith("-"):
            harmless.append(f"{word}={words.pop(0)}")
        else:
            others.append(word)
    return harmless, others


def _node_words(text: str) -> list[str]:
    """Split NODE_OPTIONS as Node does: at spaces alone; a backslash escapes within quotes alone."""
    words, is_quoted, is_new = [], False, True
    characters = iter(text)
    for character in characters:
        if character == '"':
            is_quoted = not is_quoted
        elif character == " " and not is_quoted:
            is_new = True
        else:
            if is_new:
                words.append("")
                is_new = False
            is_escape = character == "\\" and is_quoted
            words[-1] += next(characters, "") if is_escape else character
    return words


def _quoted(word: str) -> str:
    """Return a word as Node reads it back."""
    if " " not in word and '"' not in word:
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def of_installers(env: Mapping[str, str], beside: str) -> dict[str, str]:
    """Return the environment of what installs a server; programs in a folder `beside` come first.

    There lies the config's own command: so `/opt/homebrew/bin/npx` finds its npm, and that its
    node. "" if there is no such folder.
    """
    heeded = {name: value for name, value in env.items() if name.upper() not in NOT_HEEDED}
    drop_foreign_code(heeded)
    if beside:
        put_first(heeded, beside)
    return heeded


def put_first(env: dict[str, str], folder: str) -> None:
    """Have programs of a folder come before all others."""
    env["PATH"] = os.pathsep.join(filter(None, [folder, env.get("PATH", "")]))
