"""How a client starts a face: by which Python, and with which variables besides those it has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from mcpagg.command.pasting import FORMS, Form, without_uvx
from mcpagg.install.places import Scope
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.launch import COMMON_VARIABLES, strings
from mcpagg_runtime.launch.platforms import WINDOWS
from mcpagg_runtime.launch.variables import CONFIG_FOLDER, references
from mcpagg_runtime.tool.desktop import entry_path, lookups

_TELLS = "import sys; print(sys.executable if sys.version_info >= (3, 9) else '')"
_SECONDS = 30.0

PROJECT_FOLDER = {
    "vscode": f"${{{CONFIG_FOLDER}}}",
    "cursor": f"${{{CONFIG_FOLDER}}}",
    "claude-code": "${CLAUDE_PROJECT_DIR:-.}",
}
"""What stands for the folder of a project in its entries, of the clients that resolve that.

Claude Code has the variable in the environment of servers alone, so that in an entry its default
counts: the folder that Claude Code was started in.
"""

FROM_A_TERMINAL = frozenset(
    "amazon-q amp claude-code codex copilot-cli crush factory fast-agent gemini goose hermes"  # noqa: SIM905 - a word a line
    " librechat mcp-agent opencode qwen vibe".split()
)
"""Clients that have the PATH of a shell; all others may be started from a desktop."""

_LOST = re.compile(r"AWS_\w+|AZURE_\w+|GOOGLE_\w+|KUBECONFIG|DOCKER_HOST|SSH_AUTH_SOCK")
"""Variables that programs go by without a word in their config."""
_WRITTEN = re.compile(r"\$\{(?:env:)?(\w+)(?::-[^{}]*)?\}|\{env:(\w+)\}|\$(\w+)")
_INPUT = re.compile(r"\$\{input:([^{}]+)\}")


def lasting_python(environ: Mapping[str, str]) -> str:
    """Return the absolute path of a Python that will be there when this environment is gone."""
    found = shutil.which("python" if WINDOWS else "python3", path=without_uvx(environ).get("PATH"))
    candidates = [found] if found and not _is_of_environment(Path(found)) else []
    base = getattr(sys, "_base_executable", "") or ""
    told = (_told_by(candidate) for candidate in (*candidates, base) if candidate)
    return next(filter(None, told), sys.executable)


def _is_of_environment(program: Path) -> bool:
    return (program.parent.parent / "pyvenv.cfg").exists()


def _told_by(program: str) -> str:
    """Return where a Python says that it is, which a shim of it does not; "" if it is too old."""
    with suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        ran = subprocess.run(  # noqa: S603 - a Python of the user's
            [program, "-I", "-c", _TELLS], capture_output=True, check=True, timeout=_SECONDS
        )
        return os.path.abspath(ran.stdout.decode().strip()) if ran.stdout.strip() else ""
    return ""


def argv_of(scope: Scope, file: Path, name: str, digest: str, python: str) -> tuple[str, ...]:
    """Return the command line of a face in the entries of a scope."""
    if scope.root is None or not file.is_relative_to(scope.root):
        return python, "-I", str(file), "--as", name, digest
    python = "python" if WINDOWS else "python3"
    return python, "-I", place_of(scope, file), "--as", name, digest


def place_of(scope: Scope, file: Path) -> str:
    """Return the path of FILE in the entries of a scope, from its project where that can be."""
    folder = PROJECT_FOLDER.get(scope.client)
    if folder is None or scope.root is None or not file.is_relative_to(scope.folder):
        return str(file)
    return f"{folder}/{file.relative_to(scope.folder).as_posix()}"


def path_for(scope: Scope, server: ServerSpec, environ: Mapping[str, str]) -> str:
    """Return the PATH that the entry of a server needs, "" if its client has one that will do."""
    if scope.client in FROM_A_TERMINAL or scope.root is not None or "PATH" in server.env:
        return ""
    environ = without_uvx(environ)
    found = lookups({server.name: server.row()}, environ, str(scope.folder), minimal=True)
    return entry_path(found, environ)


class Needs(NamedTuple):
    """Variables that a face needs: `env` are to be written into its entry, with these texts.

    `passed` are those that the client hands on by their names; `unset` those that it must have in
    its own environment, as it fills in nothing.
    """

    env: dict[str, str]
    passed: tuple[str, ...]
    unset: tuple[str, ...]


def needs(
    written: Mapping[str, Any], server: ServerSpec, form: Form, given: Collection[str]
) -> Needs:
    """Return which variables a face needs from its client.

    They are those that the server's command line, URL and headers refer to, less those `given`.
    `written` is the entry.

    Raises:
        ValueError: only the client can fill in what stands there.
    """
    names = {
        name
        for _, text in strings(server.row())
        for name, default in references(text)
        if default is None
    }
    texts = [*_texts(written)]
    known = {name for text in texts for match in _WRITTEN.findall(text) for name in match if name}
    inputs = {_as_variable(one): one for text in texts for one in _INPUT.findall(text)}
    env: dict[str, str] = {}
    passed: list[str] = []
    unset: list[str] = []
    for name in sorted(names - COMMON_VARIABLES - {*server.env, *given}):
        if name in inputs:
            env[name] = f"${{input:{inputs[name]}}}"
        elif name not in known:
            raise ValueError("it holds what only its client fills in, outside of its variables")
        elif form.reference:
            env[name] = form.reference % name
        elif form.passed:
            passed.append(name)
        else:
            unset.append(name)
    return Needs(env, tuple(passed), tuple(unset))


def _as_variable(text: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _texts(member)


def lost(environ: Mapping[str, str], servers: Mapping[str, ServerSpec]) -> list[str]:
    """Return the well-known variables that are set, and that no server gets any more."""
    given = {name for server in servers.values() for name in server.env}
    return sorted(name for name in environ if _LOST.fullmatch(name) and name not in given)


def form_of(scope: Scope) -> Form:
    return FORMS[scope.client]
