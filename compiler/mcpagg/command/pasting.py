"""What to paste into a client so that it starts an emitted file, in the form of that client."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from mcpagg.clients import users_place
from mcpagg.options import PROGRAM
from mcpagg.passes.environment.programs import find_package
from mcpagg_runtime.launch.launch import BASIC_VARIABLES
from mcpagg_runtime.launch.needs import missing_variables
from mcpagg_runtime.launch.platforms import WINDOWS
from mcpagg_runtime.tool.desktop import (
    Lookup,
    desktop_path,
    entry_path,
    folders_of,
    lookups,
    shim_lines,
)

TO_FILL = "…"
OF_ONE_RUN = re.compile(r"[\\/](?:archive|environments)-v\d+[\\/]")  # in the cache of uv
# What package managers, Docker and connections read, and a shell alone may set.
OF_THE_SHELL = re.compile(
    r"(?:https?|no|all)_proxy|SSL_CERT_(?:FILE|DIR)|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE"
    r"|DOCKER_(?:HOST|CONTEXT)|NPM_CONFIG_\w+|(?:UV|PIP)_\w*(?:INDEX|LINKS|TLS|CERT|CONFIG)\w*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Form:
    """How a client writes an entry that starts a program."""

    shown: str
    """What people call the client."""
    container: tuple[str, ...] = ("mcpServers",)
    reference: str = ""
    """How a value refers to the variable `%s`, "" where the client is not known to resolve any."""
    members: Mapping[str, Any] = field(default_factory=dict)
    """What an entry has beside its program, arguments and variables."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Its own names of `command`, `args` and `env`."""
    passed: str = ""
    """The key of a list of variables that it hands on, "" for none."""
    syntax: str = "json"
    """`json`, `toml`, `yaml`, or `shell` for a command that adds an entry."""
    is_list: bool = False
    """Whether entries are in a list, each with its name."""
    is_one_line: bool = False
    """Whether arguments are in the list of the command."""


FOR_A_FIELD = 'in the config, write "NAME": "${NAME:-}" of what fetching needs'
STDIO = {"type": "stdio"}
EDITORS = "${env:%s}"
BRACED = "${%s}"
FORMS = {
    "amazon-q": Form("Amazon Q"),
    "amp": Form("Amp", ("amp.mcpServers",), BRACED),
    "antigravity": Form("Antigravity"),
    "claude-code": Form("Claude Code", (), BRACED, STDIO, syntax="shell"),
    "claude-desktop": Form("Claude Desktop"),
    "cline": Form("Cline"),
    "codex": Form("Codex", ("mcp_servers",), passed="env_vars", syntax="toml"),
    "continue": Form("Continue", reference="${{ secrets.%s }}", syntax="yaml", is_list=True),
    "copilot-cli": Form("Copilot CLI", reference=BRACED, members={"type": "local", "tools": ["*"]}),
    "crush": Form("Crush", ("mcp",), "$%s", STDIO),
    "cursor": Form("Cursor", reference=EDITORS),
    "factory": Form("Factory", reference=BRACED, members=STDIO),
    "fast-agent": Form("fast-agent", ("mcp", "servers"), BRACED, syntax="yaml"),
    "gemini": Form("Gemini CLI", reference=BRACED),
    "goose": Form(
        "Goose",
        ("extensions",),
        members={**STDIO, "enabled": True},
        keys={"command": "cmd", "env": "envs"},
        passed="env_keys",
        syntax="yaml",
    ),
    "hermes": Form("Hermes", ("mcp_servers",), syntax="yaml"),
    "junie": Form("Junie"),
    "kilo": Form("Kilo Code", reference=EDITORS),
    "kiro": Form("Kiro", reference=BRACED),
    "librechat": Form("LibreChat", reference=BRACED, members=STDIO, syntax="yaml"),
    "lm-studio": Form("LM Studio"),
    "mcp-agent": Form("mcp-agent", ("mcp", "servers"), syntax="yaml"),
    "opencode": Form(
        "OpenCode",
        ("mcp",),
        "{env:%s}",
        {"type": "local", "enabled": True},
        {"env": "environment"},
        is_one_line=True,
    ),
    "qwen": Form("Qwen Code", reference=BRACED),
    "roo": Form("Roo Code", reference=EDITORS),
    "vibe": Form(
        "Vibe", ("mcp_servers",), members={"transport": "stdio"}, syntax="toml", is_list=True
    ),
    "vscode": Form("VS Code", ("servers",), EDITORS, STDIO),
    "windsurf": Form("Windsurf", reference=EDITORS),
    "zed": Form("Zed", ("context_servers",), members={"source": "custom"}),
}
"""The clients of `clients.PLACES`."""


class Start(NamedTuple):
    """How a client starts an emitted file, also a client that a desktop has started."""

    name: str
    argv: list[str]
    needs: list[str]
    """The variables that it does not start without."""
    looked_up: list[Lookup]
    """Programs of servers that a desktop does not find."""
    path: str
    """The PATH that they are found on, "" if that of a desktop will do."""
    of_the_shell: list[str]
    """Variables beside that which servers may need, as they fetch something."""


def start_of(
    name: str,
    file: Path,
    rows: Mapping[str, Mapping[str, Any]],
    environ: Mapping[str, str],
    minimal: bool,
    digest: str = "",
) -> Start:
    """Return how a file is started that has these rows; nothing of it goes into the file.

    `digest` is what the entry is to name of the file, "" for nothing.
    """
    folder = str(file.absolute().parent)
    environ = without_uvx(environ)
    basic = {key: value for key, value in environ.items() if key in BASIC_VARIABLES}
    missing = [
        pair
        for server in missing_variables(rows, basic, folder).values()
        for pair in server.missing
    ]
    programs = lookups(rows, environ, folder, minimal)
    argv = [_python(environ), "-I", str(file.absolute()), *([digest] if digest else [])]
    needs = sorted({variable for _, variable in missing})
    commands = (
        find_package(row["command"], row["args"]) for row in rows.values() if "command" in row
    )
    fetches = any(commands) or any("url" in row for row in rows.values())
    names = sorted(filter(OF_THE_SHELL.fullmatch, environ)) if fetches else []
    of_the_shell = [name for name in names if name not in needs]
    return Start(name, argv, needs, programs, entry_path(programs, environ), of_the_shell)


def without_uvx(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment without what `uvx` puts in front of the PATH for this very run."""
    ours = os.path.dirname(sys.executable)
    if not OF_ONE_RUN.search(ours):
        return environ
    folders = environ.get("PATH", "").split(os.pathsep)
    return {**environ, "PATH": os.pathsep.join(folder for folder in folders if folder != ours)}


def _python(environ: Mapping[str, str]) -> str:
    """Return a Python that a desktop finds; on Windows, `python` may be a hint to the store."""
    if WINDOWS:
        return sys.executable
    if shutil.which("python3", path=desktop_path(environ)):
        return "python3"
    return shutil.which("python3", path=environ.get("PATH")) or sys.executable


def to_paste(start: Start, client: str, config: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Say what to paste into a client, "" for any; `config` is its file, "" for its usual place."""
    form = FORMS[client or "claude-desktop"]
    home = Path.home()
    place = config or (users_place(client, home, environ, sys.platform) if client else "")
    where = f"{form.shown}'s config{f', {place}' if place else ''}"
    entry = _entry(form, start)
    if form.syntax == "shell":
        yield f"For {form.shown}: {_shell_line(start.name, entry)}"
    elif form.syntax == "json":
        yield f"For {where}: {_as_json(form, start.name, entry)}"
    else:
        yield f"For {where}:"
        yield from (_as_toml if form.syntax == "toml" else _as_yaml)(form, start.name, entry)
    if start.needs and not (form.reference or form.passed):
        yield f"  with the value of {', '.join(start.needs)} in place of {TO_FILL}"
    yield from _notes(start, environ, "add to its `env` what fetching needs")


def faces_to_paste(starts: Sequence[Start], client: str, digest: str) -> Iterator[str]:
    """Say what to paste so that each server is an entry of its own, under the name that it has."""
    form = FORMS[client]
    yield (
        f"Or each server as itself, which `{PROGRAM} --from {client} --install` writes by itself,"
        " and --uninstall takes back:"
    )
    for start in starts:
        face = start._replace(argv=[*start.argv, "--as", start.name, digest])
        if form.syntax == "shell":
            yield f"  {_shell_line(start.name, _entry(form, face))}"
        else:
            yield from (f"  {line}" for line in entry_lines(form, face))


def _shell_line(name: str, entry: Mapping[str, Any]) -> str:
    """Return the command by which Claude Code adds an entry."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name)
    words = ["claude", "mcp", "add-json", name, json.dumps(entry, ensure_ascii=False)]
    return subprocess.list2cmdline(words) if WINDOWS else shlex.join(words)


def entry_lines(form: Form, start: Start) -> Iterator[str]:
    """Yield the text of an entry in a client's config, with what leads to it."""
    entry = _entry(form, start)
    if form.syntax in ("json", "shell"):
        container = form.container or ("mcpServers",)
        yield _as_json(replace(form, container=container), start.name, entry)
    else:
        yield from (_as_toml if form.syntax == "toml" else _as_yaml)(form, start.name, entry)


def for_extension(start: Start, environ: Mapping[str, str]) -> Iterator[str]:
    """Say what an extension asks for that only this machine knows."""
    yield "Open it with Claude Desktop, which asks for the variables and installs it"
    if folders := folders_of(start.looked_up, environ):
        yield f"  its field PATH, on this machine: {os.pathsep.join(folders)}"
    asks = "and the extension asks for it; compile again then"
    yield from _notes(start, environ, f"{FOR_A_FIELD} into the `env` of servers that fetch, {asks}")


def _notes(start: Start, environ: Mapping[str, str], remedy: str) -> Iterator[str]:
    yield from (f"  {line}" for line in shim_lines(start.looked_up, environ))
    if start.of_the_shell:
        yield (
            f"  this shell also sets {', '.join(start.of_the_shell)}: a client that is started"
            f" elsewhere does not; {remedy}"
        )


def _entry(form: Form, start: Start) -> dict[str, Any]:
    """Return the entry that starts a file."""
    program, *args = start.argv
    env = {} if form.passed else {name: _value(form, name) for name in start.needs}
    env |= {"PATH": start.path} if start.path else {}
    named = {"name": start.name} if form.is_list or form.shown == "Goose" else {}
    entry = {**named, **form.members}
    command = {"command": start.argv} if form.is_one_line else {"command": program, "args": args}
    for key, value in (command | ({"env": env} if env else {})).items():
        entry[form.keys.get(key, key)] = value
    return entry | ({form.passed: start.needs} if form.passed and start.needs else {})


def _value(form: Form, name: str) -> str:
    return form.reference % name if form.reference else TO_FILL


def _as_json(form: Form, name: str, entry: dict[str, Any]) -> str:
    whole = reduce(lambda inner, key: {key: inner}, (name, *reversed(form.container)), entry)
    return json.dumps(whole, ensure_ascii=False)


def _as_yaml(form: Form, name: str, entry: dict[str, Any]) -> Iterator[str]:
    """Yield lines of YAML, which takes a value as JSON has it."""
    keys = [*form.container, *([] if form.is_list else [json.dumps(name, ensure_ascii=False)])]
    for depth, key in enumerate(keys):
        yield f"{'  ' * depth}{key}:"
    for index, (key, value) in enumerate(entry.items()):
        mark = ("  " if index else "- ") if form.is_list else ""
        yield f"{'  ' * len(keys)}{mark}{key}: {json.dumps(value, ensure_ascii=False)}"


def _as_toml(form: Form, name: str, entry: dict[str, Any]) -> Iterator[str]:
    """Yield lines of TOML, whose strings and lists are as JSON has them."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    keys = [*form.container, *([] if form.is_list else [name if bare else json.dumps(name)])]
    yield f"[[{'.'.join(keys)}]]" if form.is_list else f"[{'.'.join(keys)}]"
    for key, value in entry.items():
        if isinstance(value, dict):
            members = (f"{variable} = {json.dumps(text)}" for variable, text in value.items())
            yield f"{key} = {{ {', '.join(members)} }}"
        else:
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
