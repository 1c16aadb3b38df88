"""What is printed to paste, read by the reader of that client's configs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from compilations import compilation, tool

from mcpagg.clients import PLACES, users_place
from mcpagg.command.pasting import (
    FORMS,
    TO_FILL,
    Start,
    faces_to_paste,
    for_extension,
    start_of,
    to_paste,
)
from mcpagg.passes.config import read_config
from mcpagg.passes.config.dialects import DIALECTS
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.variables import resolve

TOKEN = "s3cret-value-0123456789"  # noqa: S105
ENTRY = {"env": {"KEY": "${SOME_TOKEN}", "REGION": "${AREA:-eu}"}, "args": ["${OTHER}"]}
PATH = "/opt/brew/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def start(tmp_path: Path) -> Start:
    rows = compilation({"a": ENTRY}, tool()).data.rows
    environ = {"SOME_TOKEN": TOKEN, "OTHER": "x", "PATH": "/usr/bin:/bin", "HOME": "/home/u"}
    found = start_of("all of it", tmp_path / "server.py", rows, environ, minimal=False)
    return found._replace(path=PATH)


def pasted(lines: list[str], client: str, folder: Path) -> ServerSpec:
    """Return the one server of what is printed, as a config of that client."""
    head, _, first = lines[0].partition(": ")
    lines = [first, *(line for line in lines[1:] if not line.startswith("  with the value"))]
    text = "\n".join(lines).strip()
    file = folder / users_place(client or "claude-desktop", folder, {}, "linux")
    if client == "claude-code":
        *words, name, entry = shlex.split(first)
        assert words == ["claude", "mcp", "add-json"]
        text = json.dumps({"mcpServers": {name: json.loads(entry)}})
    elif client:
        assert str(file.relative_to(folder)) in head + text
        text = text.removeprefix(f"{file}:")
    spec, _ = read_config(text.encode(), source=str(file), folder=file.parent)
    [server] = spec.servers
    return server


@pytest.mark.parametrize("client", ["", *PLACES])
def test_what_is_printed_is_read_as_a_config_of_that_client(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    lines = [*to_paste(start(tmp_path), client, "", {})]
    assert TOKEN not in str(lines)
    server = pasted(lines, client, tmp_path)
    form = FORMS[client or "claude-desktop"]
    assert server.name == ("all-of-it" if client == "claude-code" else "all of it")
    assert server.command.endswith("python3")
    assert server.args == ("-I", str(tmp_path / "server.py"))
    known = form.reference or form.passed
    values = {name: resolve(value, "<{}>".format) for name, value in server.env.items()}
    needs = {name: f"<{name}>" if known else TO_FILL for name in ("SOME_TOKEN", "OTHER")}
    assert values == {**needs, "PATH": PATH}
    assert ("with the value of OTHER, SOME_TOKEN in place" in str(lines)) is not bool(known)


@pytest.mark.parametrize("client", PLACES)
def test_each_server_can_be_pasted_as_an_entry_of_its_own(client: str, tmp_path: Path) -> None:
    starts = [start(tmp_path)._replace(name=name) for name in ("one", "two")]
    first, *lines = faces_to_paste(starts, client, "sha256:00ff")
    assert f"mcpagg-compile --from {client} --install" in first
    assert TOKEN not in str(lines)
    file = tmp_path / users_place(client, tmp_path, {}, "linux")
    size = len(lines) // 2
    for name, written in zip(("one", "two"), (lines[:size], lines[size:]), strict=True):
        text = "\n".join(line.removeprefix("  ") for line in written)
        if client == "claude-code":
            text = json.dumps({"mcpServers": {name: json.loads(shlex.split(text)[-1])}})
        [server] = read_config(text.encode(), source=str(file), folder=file.parent)[0].servers
        assert server.name == name
        assert server.args == ("-I", str(tmp_path / "server.py"), "--as", name, "sha256:00ff")


def test_what_the_shell_sets_is_advised_on_where_there_is_an_env_to_edit(tmp_path: Path) -> None:
    rows: dict[str, Any] = {"a": {"command": "npx", "args": ["pkg"]}}
    environ = {"PATH": "/bin", "HTTPS_PROXY": "http://proxy"}
    found = start_of("all", tmp_path / "all.mcpb", rows, environ, minimal=False)
    assert "HTTPS_PROXY: a client that" in [*for_extension(found, environ)][-1]
    assert "add to its `env`" not in str([*for_extension(found, environ)])
    assert "the extension asks for it" in [*for_extension(found, environ)][-1]
    assert "add to its `env`" in [*to_paste(found, "", "", environ)][-1]


def test_every_client_has_its_form() -> None:
    assert [*FORMS] == [*PLACES]
    assert {dialect.client for dialect in DIALECTS} - {""} <= {*FORMS}


def test_what_needs_nothing_has_no_variables(tmp_path: Path) -> None:
    rows = compilation({"a": {"command": "sh"}}, tool()).data.rows
    found = start_of("all", tmp_path / "server.py", rows, {"PATH": "/bin"}, minimal=False)
    [line] = to_paste(found, "", "", {})
    start, _, text = line.partition(": ")
    assert start == "For Claude Desktop's config"
    [entry] = json.loads(text)["mcpServers"].values()
    assert [*entry] == ["command", "args"]


def test_what_an_env_file_sets_needs_no_variable(tmp_path: Path) -> None:
    (tmp_path / "own.env").write_text("OTHER=1\n")
    row: dict[str, Any] = {"command": "sh", "args": ["${OTHER}", "${MORE}"], "env_file": "own.env"}
    found = start_of("all", tmp_path / "server.py", {"a": row}, {"MORE": "1"}, minimal=False)
    assert found.needs == ["MORE"]


def test_the_environment_that_uvx_makes_for_the_compiler_is_not_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: dict[str, Any] = {"a": {"command": "some-tool", "args": []}}
    users = tmp_path / "users/bin"
    for own, relied_on in (("uv/archive-v0/x/bin", False), (".venv/bin", True)):
        for folder in (tmp_path / own, users):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "some-tool").touch(0o755)
        monkeypatch.setattr("sys.executable", str(tmp_path / own / "python3"))
        environ = {"PATH": f"{tmp_path / own}:{users}"}
        path = start_of("all", tmp_path / "server.py", rows, environ, minimal=False).path
        assert path.startswith(f"{tmp_path / own if relied_on else users}:/usr/bin:")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"command": "npx", "args": ["-y", "some-server"]}, True),
        ({"url": "https://example.com/mcp"}, True),
        ({"command": "sh", "args": []}, False),
    ],
)
def test_what_the_shell_sets_for_fetching_is_named_without_its_value(
    tmp_path: Path, row: dict[str, Any], told: bool
) -> None:
    environ = {"PATH": "/bin", "HTTPS_PROXY": TOKEN, "npm_config_registry": TOKEN, "OTHER": "1"}
    found = start_of("all", tmp_path / "server.py", {"a": row}, environ, minimal=False)
    lines = [*to_paste(found, "", "", environ)]
    assert any("also sets HTTPS_PROXY, npm_config_registry: " in one for one in lines) is told
    assert TOKEN not in str(lines)
