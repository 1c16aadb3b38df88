"""What becomes of an entry, its secrets and its files when it is installed; nothing is started."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import posix

from mcpagg.command.pasting import FORMS
from mcpagg.install import running, starting
from mcpagg.install.editing import Config
from mcpagg.install.entries import Fields, Started, holes
from mcpagg.install.places import Scope, data_folder, file_for
from mcpagg.install.record import Installed, Record, fill, masked, read_record
from mcpagg.install.secrets import without_literals
from mcpagg.install.source import for_source, read_source_text, text_of
from mcpagg.install.tree import Uneditable
from mcpagg.install.writing import write_config
from mcpagg.passes.config import read_config
from mcpagg.passes.config.containers import find_servers
from mcpagg.passes.config.places import Place
from mcpagg.problems import ConfigError
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.variables import resolve

KEY = "sk-" + "aB3dE5fG7" * 4
ARGV = ("/usr/bin/python3", "-I", "/x/FILE.py", "--as", "s", "sha256:00ff")

# --- Entries ------------------------------------------------------------------------------------

REMOTE: dict[str, tuple[str, str]] = {
    "cursor": (
        "mcp.json",
        '{"mcpServers": {"s": {"url": "https://h/mcp", "headers": {"A": "b"}}}}',
    ),
    "vscode": (
        "mcp.json",
        '{"servers": {"s": {"type": "http", "url": "https://h/mcp", "dev": {}}}}',
    ),
    "opencode": (
        "opencode.json",
        '{"mcp": {"s": {"type": "remote", "enabled": true, "url": "https://h/mcp"}}}',
    ),
    "gemini": (".gemini/settings.json", '{"mcpServers": {"s": {"httpUrl": "https://h/mcp"}}}'),
    "codex": (
        ".codex/config.toml",
        '[mcp_servers.s]\nurl = "https://h/mcp"\nbearer_token_env_var = "T"\n'
        'http_headers = { A = "b" }\nenabled = true\n',
    ),
    "goose": (
        "goose/config.yaml",
        "extensions:\n  s:\n    type: streamable_http\n    uri: https://h/mcp # c\n"
        "    enabled: true\n",
    ),
    "continue": (
        ".continue/config.yaml",
        "mcpServers:\n  - name: s\n    type: sse\n    url: https://h/sse\n    requestOptions:\n"
        "      headers:\n        A: b\n",
    ),
    "zed": ("zed/settings.json", '{"context_servers": {"s": {"url": "https://h/mcp"}}}'),
}


def installed(client: str, place: str, text: str, env: dict[str, str]) -> tuple[Config, ServerSpec]:
    """Return a config whose one entry starts something else, and that entry as it is read."""
    config = Config(text.encode(), place)
    dialect, [found] = find_servers(config.value, Path("/h", place), Place())
    fields = Fields(found.value, dialect, FORMS[client])
    entry = config.entry(found.keys)
    fields.start(entry, Started(ARGV, env))
    new = config.replaced({found.keys: entry.text})
    folder = Path("/h", place).parent
    [server] = read_config(new.data, source=Path(place).name, folder=folder)[0].servers
    return new, server


@pytest.mark.parametrize("client", REMOTE)
def test_a_remote_entry_becomes_one_that_starts_a_program(client: str) -> None:
    place, text = REMOTE[client]
    config, server = installed(client, place, text, {"TOKEN": "${T}"})
    assert (server.transport, server.command, *server.args) == ("stdio", *ARGV)
    assert server.env == {"TOKEN": "${T}"}
    assert "https://" not in config.text
    form = FORMS[client]
    if "type" in form.members:
        assert f'"{form.members["type"]}"' in config.text
    if '"enabled": true' in text or "enabled" in text:
        assert "enabled" in config.text


LOCAL: list[tuple[str, str, str]] = [
    (
        "zed",
        "zed/settings.json",
        '{"context_servers": {"s": {"command": {"path": "x", "args": ["y"], "env": {"A": "b"}}}}}',
    ),
    ("cursor", "mcp.json", '{"mcpServers": {"s": {"command": ["x", "y"], "env": null}}}'),
    (
        "vibe",
        ".vibe/config.toml",
        '[[mcp_servers]]\nname = "s"\ntransport = "stdio"\ncommand = "x y"\nenv.A = "b"\n',
    ),
    (
        "codex",
        ".codex/config.toml",
        '[mcp_servers."s"]\ncommand = "x"\nenv_vars = ["T"]\n',
    ),
    ("librechat", "librechat.yaml", "mcpServers:\n  s: # c\n    command: x\n    args:\n    - y\n"),
]


@pytest.mark.parametrize(("client", "place", "text"), LOCAL)
def test_the_form_that_an_entry_has_is_kept(client: str, place: str, text: str) -> None:
    _, server = installed(client, place, text, {"NEW": "v"})
    assert (server.command, *server.args) == ARGV
    assert {"NEW": "v"}.items() <= server.env.items()
    assert ("A" in server.env) == ("A" in text)
    assert ("T" in server.env) == ('"T"' in text)


# --- Secrets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "name", "new"),
    [
        ({"args": ["--api-key", KEY]}, "GITHUB_API_KEY", "args: ${GITHUB_API_KEY}"),
        ({"args": [f"--api-key={KEY}"]}, "GITHUB_API_KEY", "args: --api-key=${GITHUB_API_KEY}"),
        ({"args": ["-e", f"GITHUB_PAT={KEY}"]}, "GITHUB_PAT", "args: GITHUB_PAT=${GITHUB_PAT}"),
        (
            {"args": ["postgres://u:hunter2secret@db.example.com/x"]},
            "GITHUB_PASSWORD",
            "args: postgres://u:${GITHUB_PASSWORD}@db.example.com/x",
        ),
        (
            {"url": f"https://h.example/mcp?apiKey={KEY}&x=1"},
            "GITHUB_API_KEY",
            "url: https://h.example/mcp?apiKey=${GITHUB_API_KEY}&x=1",
        ),
        (
            {"url": "https://h.example", "headers": {"Authorization": f"Bearer {KEY}"}},
            "GITHUB_TOKEN",
            "headers: Bearer ${GITHUB_TOKEN}",
        ),
        (
            {"url": "https://h.example", "headers": {"X-Api-Key": KEY}},
            "GITHUB_API_KEY",
            "headers: ${GITHUB_API_KEY}",
        ),
    ],
)
def test_a_literal_credential_becomes_a_variable(
    fields: dict[str, Any], name: str, new: str
) -> None:
    entry = {**({} if "url" in fields else {"command": "x"}), **fields}
    text = json.dumps({"mcpServers": {"github": entry}}).encode()
    [server] = read_config(text, source="m.json", folder=Path("/p"), allow_secrets=True)[0].servers
    clean, [moved] = without_literals(server, expands=True)
    assert moved.variable == name
    assert moved.written in str(fields)
    texts = [f"{place}: {text}" for place, text in _texts(clean)]
    assert new in texts
    values = {name: moved.written}
    assert [resolve(text, values.get) for _, text in _texts(clean)] == [
        text for _, text in _texts(server)
    ]
    rewritten = text_of([clean])
    assert KEY not in rewritten.decode()
    [again] = read_source_text(rewritten, Path("/p/s.source.json"))
    assert again.row() == clean.row()


def _texts(server: ServerSpec) -> list[tuple[str, str]]:
    headers = [("headers", text) for text in server.headers.values()]
    return [("url", server.url), *(("args", text) for text in server.args), *headers]


def test_what_stands_in_env_keeps_its_name_and_a_reference_stays_one() -> None:
    server = ServerSpec(
        name="a", path="a", command="x", env={"MY_TOKEN": KEY, "B": "${OTHER}", "C": "plain"}
    )
    for expands, other in ((True, "${B}"), (False, "${OTHER}")):
        clean, moved = without_literals(server, expands)
        assert clean.env == {"MY_TOKEN": "${MY_TOKEN}", "B": other, "C": "plain"}
        assert moved == ()


# --- The source ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "server",
    [
        ServerSpec(name="a", path="a", command="x", args=("y", "${Z}"), env={"A": "$$"}, cwd="sub"),
        ServerSpec(name="a", path="a", command="x", timeout=5.0, hide=("t", "*_x"), expose=("u",)),
        ServerSpec(name="ü b", path="a", command="./run", env_file=".env", cwd="."),
        ServerSpec(name="a", path="a", transport="sse", url="https://h/x", headers={"A": "${B}"}),
        ServerSpec(name="a", path="a", transport="streamable-http", url="https://h/sse", expose=()),
    ],
)
def test_a_source_says_the_same_wherever_it_lies(tmp_path: Path, server: ServerSpec) -> None:
    project, source = tmp_path / "p", tmp_path / "data/x/s.source.json"
    moved = for_source(server, project, source)
    [again] = read_source_text(text_of([moved]), source)
    assert again.row() == moved.row()
    for field in ("cwd", "env_file"):
        if path := getattr(server, field):
            there = os.path.normpath(source.parent / getattr(again, field))
            assert there == os.path.normpath(project / path)


# --- The files ----------------------------------------------------------------------------------


def scope(tmp_path: Path, *keys: str) -> Scope:
    config = tmp_path / ".claude.json"
    config.write_text('{"mcpServers": {}}')
    return Scope("claude-code", config, keys, tmp_path, None)


def test_each_config_has_a_folder_of_its_own_in_the_users_data(tmp_path: Path) -> None:
    environ = {"XDG_DATA_HOME": str(tmp_path / "data")}
    one, other = (scope(tmp_path, *keys) for keys in ((), ("projects", "/p")))
    files = [file_for(each, None, environ, "linux") for each in (one, other)]
    assert files[0].name == "claude_servers.py"
    assert files[0].parent != files[1].parent
    assert all(file.is_relative_to(data_folder(environ, "linux")) for file in files)
    assert data_folder({}, "darwin").parts[-3:] == ("Application Support", "mcpagg", "installed")
    assert data_folder({"LOCALAPPDATA": "/l"}, "win32") == Path("/l/mcpagg/installed")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    one = Installed(
        ("mcpServers", 0),
        ("a", ("TOKEN", True), "b", ("KEY", False), ""),
        "00",
        ("TOKEN",),
        ("KEY",),
    )
    record = Record(file, {(str(tmp_path / "c.json"), ("projects", "/p")): {"s": one}})
    (tmp_path / "f.installed.json").write_bytes(record.data())
    assert read_record(file) == record
    assert masked(one.before) == 'a"***"b***'
    assert (
        fill(one.before, lambda name, is_token: f"<{name} {is_token}>")
        == "a<TOKEN True>b<KEY False>"
    )
    (tmp_path / "f.installed.json").write_text('{"configs": [3]}')
    with pytest.raises(ConfigError, match="is not as --install wrote it"):
        read_record(file)


def test_a_credential_with_escapes_is_left_to_the_user() -> None:
    text = '{"mcpServers": {"s": {"command": "x", "args": ["--token=a\\u0042cdefgh12345"]}}}'
    config = Config(text.encode(), "m.json")
    dialect, [found] = find_servers(config.value, Path("m.json"), Place())
    [server] = read_config(text.encode(), source="m.json", folder=Path("/"), allow_secrets=True)[
        0
    ].servers
    _, moved = without_literals(server, expands=True)
    fields = Fields(found.value, dialect, FORMS["cursor"])
    with pytest.raises(Uneditable, match="escapes"):
        holes(config.entry(found.keys), fields, [], moved)


class Killed(BaseException):
    """Ends a write where a loss of power would."""


@pytest.mark.parametrize("when", ["before", "after", "while writing"])
def test_a_config_is_the_old_one_or_the_new_one_wherever_a_write_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    there = scope(tmp_path)
    there.file.chmod(0o600)
    old = Config(there.file.read_bytes(), str(there.file))
    new = Config(b'{"mcpServers": {"a": {}}}', str(there.file))
    replace = os.replace

    def killed(source: str, target: str) -> None:
        if when == "after":
            replace(source, target)
        raise Killed

    def half(descriptor: int) -> None:
        raise Killed

    if when == "while writing":
        monkeypatch.setattr(os, "fsync", half)
    else:
        monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(Killed):
        write_config(there, old, new)
    assert there.file.read_bytes() in (old.data, new.data)
    assert there.file.stat().st_mode & 0o777 == 0o600
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".mcpagg.")]


def test_a_python_that_lasts_is_none_of_an_environment() -> None:
    python = starting.lasting_python(os.environ)
    assert os.path.isabs(python)
    assert not (Path(python).parent.parent / "pyvenv.cfg").exists()


# --- What a client gives a face -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "written", "args", "expected"),
    [
        ("cursor", "${env:TOK}", "${TOK}", ({"TOK": "${env:TOK}"}, (), ())),
        ("vscode", "${input:api-key}", "${API_KEY}", ({"API_KEY": "${input:api-key}"}, (), ())),
        ("codex", "$TOK", "$TOK", ({}, ("TOK",), ())),
        ("claude-desktop", "${TOK}", "${TOK}", ({}, (), ("TOK",))),
        ("claude-code", "${TOK:-d}", "${TOK:-d}", ({}, (), ())),
        ("claude-code", "${HOME}/x", "${HOME}/x", ({}, (), ())),
    ],
)
def test_what_a_command_line_refers_to_is_given_by_the_client(
    client: str, written: str, args: str, expected: tuple[dict[str, str], tuple[str, ...], Any]
) -> None:
    server = ServerSpec(name="s", path="s", command="x", args=(args,))
    entry = {"command": "x", "args": [written]}
    assert starting.needs(entry, server, FORMS[client], given=()) == expected
    assert starting.needs(entry, server, FORMS[client], given={"TOK", "API_KEY"}) == ({}, (), ())


def test_what_only_the_client_fills_in_elsewhere_is_no_face() -> None:
    server = ServerSpec(name="s", path="s", command="x", args=("${SECRET}",))
    with pytest.raises(ValueError, match="outside of its variables"):
        starting.needs({"args": ["${cmd:pass show x}"]}, server, FORMS["zed"], given=())


@posix("a program is found by its mode there")
def test_a_client_of_the_desktop_gets_the_path_of_what_it_would_not_find(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("tools", "node")}
    for folder in folders.values():
        folder.mkdir()
    tool = folders["tools"] / "my-tool"
    tool.write_text("#!/usr/bin/env my-node\n")
    node = folders["node"] / "my-node"
    node.write_text("#!/bin/sh\n")
    for program in (tool, node):
        program.chmod(0o755)
    environ = {"PATH": os.pathsep.join([*map(str, folders.values()), "/usr/bin", "/bin"])}
    server = ServerSpec(name="s", path="s", command="my-tool")
    desktop = Scope("claude-desktop", tmp_path / "c.json", (), tmp_path, None)
    path = starting.path_for(desktop, server, environ).split(os.pathsep)
    assert path[:2] == [str(folder) for folder in folders.values()]
    shell = Scope("claude-code", tmp_path / "c.json", (), tmp_path, None)
    team = Scope("cursor", tmp_path / "c.json", (), tmp_path, tmp_path)
    assert [starting.path_for(each, server, environ) for each in (shell, team)] == ["", ""]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_that_runs_with_this_home_is_found() -> None:
    first = Path("/proc/self/environ").read_bytes().split(b"\0")
    home = next((pair[5:].decode() for pair in first if pair.startswith(b"HOME=")), "")
    assert any("python" in name for name in running._own_programs({"HOME": home}))
    assert [*running._own_programs({"HOME": "/no/such/home"})] == []
