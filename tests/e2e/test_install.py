"""Installing into clients: each entry is then the server that it was, and all can be undone."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from proxies import Typed, posix
from wire import STUB, stub_entry

from mcpagg.command.arguments import Run
from mcpagg.command.cli import main
from mcpagg.install import writing
from mcpagg.install.editing import Config
from mcpagg.install.installing import Installation, plans_of, prepare, write_all
from mcpagg.install.places import backup_for, find_scopes
from mcpagg.install.running import writer_of
from mcpagg.job import SILENT
from mcpagg.passes.config import read_config
from mcpagg.problems import ConfigError, Problem
from mcpagg.spec import ServerSpec
from mcpagg_runtime.frozen.locking import lock
from mcpagg_runtime.launch.variables import resolve

TOKEN = "ghp_" + "a1B2c3D4" * 5
KEY = "sk-" + "aB3dE5fG7" * 4
NOTES = json.dumps(
    {"tools": ["echo", "add.one"], "prompts": ["hello"], "instructions": "Of notes."}
)
SEARCH = json.dumps({"tools": ["search"], "resources": ["res://a"]})
COMMAND, STUB_ARGS = json.dumps(STUB[0]), [*STUB[1:]]
NOTES_ARGS = json.dumps([*STUB_ARGS, NOTES])
SEARCH_ARGS = json.dumps([*STUB_ARGS, SEARCH, "--api-key", KEY])
JSON_ENTRIES = f"""{{
    "notes": {{
      "command": {COMMAND},
      "args": {NOTES_ARGS},
      "env": {{"TOKEN": "{TOKEN}", "LEVEL": "debug"}},
      "alwaysAllow": ["echo"]
    }},
    "search": {{"command": {COMMAND}, "args": {SEARCH_ARGS}}},
    "off": {{"command": "no-such-program", "disabled": true}}
  }}"""
PLAIN = f'{{\n  "mcpServers": {JSON_ENTRIES}\n}}\n'
OPENCODE = f"""// OpenCode
{{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {{
    /* mine */
    "notes": {{
      "type": "local",
      "command": {json.dumps([*STUB, NOTES])}, // in one
      "environment": {{ "TOKEN": "{TOKEN}", }},
    }},
    "search": {{"type": "local", "command": {json.dumps([*STUB, SEARCH, "--api-key", KEY])}}},
  }},
}}
"""
CODEX = f"""model = "o4"  # mine

[mcp_servers.notes]
command = {COMMAND}   # a comment
args = {NOTES_ARGS}
startup_timeout_sec = 20

[mcp_servers.notes.env]
TOKEN = '{TOKEN}'

# another
[mcp_servers.search]
args = {SEARCH_ARGS}
command = {COMMAND}
"""
GOOSE = f"""GOOSE_MODEL: x  # mine
extensions:
  notes:
    enabled: true
    type: stdio
    name: notes
    cmd: {STUB[0]}   # a comment
    args:
{"".join(f"    - {json.dumps(word)}" + chr(10) for word in [*STUB_ARGS, NOTES])}    envs:
      TOKEN: {TOKEN}
    timeout: 300
  search: {{enabled: true, type: stdio, name: search, cmd: {COMMAND}, args: {SEARCH_ARGS}}}
  developer:
    enabled: true
    type: builtin
    name: developer
"""
CONTINUE = f"""name: Mine
version: 0.0.1
schema: v1
mcpServers:
  - name: notes
    command: {STUB[0]}
    args: {NOTES_ARGS}
    env:
      TOKEN: {TOKEN}
  # the second
  - name: search
    command: {STUB[0]}
    args: {SEARCH_ARGS}
"""
CLIENTS: dict[str, tuple[str, str]] = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", PLAIN.replace("\n", "\r\n")),
    "claude-code": (
        ".claude.json",
        f'{{"numStartups": 3,\n "mcpServers": {JSON_ENTRIES},\n "z": 1}}',
    ),
    "cursor": (".cursor/mcp.json", f"// mine\n{PLAIN}".replace('"echo"]', '"echo"], // tail')),
    "vscode": (
        ".config/Code/User/mcp.json",
        f'{{\n\t// VS Code\n\t"inputs": [],\n\t"servers": {JSON_ENTRIES},\n}}\n',
    ),
    "opencode": (".config/opencode/opencode.jsonc", OPENCODE),
    "zed": (
        ".config/zed/settings.json",
        f'{{\n  "theme": "One", // light\n  "context_servers": {JSON_ENTRIES}\n}}',
    ),
    "codex": (".codex/config.toml", CODEX),
    "goose": (".config/goose/config.yaml", GOOSE),
    "continue": (".continue/config.yaml", CONTINUE),
    "gemini": (".gemini/settings.json", "\ufeff" + PLAIN),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a home of its own, whose user works in a folder of it."""
    folder = tmp_path / "home"
    (folder / "work").mkdir(parents=True)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
    for name in [
        name for name in os.environ if name.startswith(("XDG_", "AWS_", "APPDATA", "LOCALAPPDATA"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("mcpagg.install.running._programs", lambda platform: iter(()))
    monkeypatch.chdir(folder / "work")
    return folder


def put(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def installs(client: str, *words: str) -> int:
    return main(["--from", client, "--install", "--yes", "--quiet", *words])


def uninstalls(client: str, *words: str) -> int:
    return main(["--from", client, "--uninstall", "--yes", *words])


def backup_of(config: Path) -> Path:
    scope = find_scopes("", str(config), Path.home(), os.environ, sys.platform, Path.cwd())[0]
    return backup_for(scope, os.environ, sys.platform)


def servers_of(config: Path) -> dict[str, ServerSpec]:
    spec, _ = read_config(
        config.read_bytes(), source=str(config), folder=config.parent, allow_secrets=True
    )
    return {server.name: server for server in spec.servers}


async def _lists(
    command: str, args: list[str], env: Mapping[str, str], cwd: Path
) -> dict[str, Any]:
    parameters = StdioServerParameters(command=command, args=args, env=dict(env), cwd=cwd)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        about = await session.initialize()
        found: dict[str, Any] = {"about": about.model_dump()}
        found["tools"] = (await session.list_tools()).model_dump()
        if about.capabilities.prompts:
            found["prompts"] = (await session.list_prompts()).model_dump()
        if about.capabilities.resources:
            found["resources"] = (await session.list_resources()).model_dump()
        return found


def lists_of(servers: Mapping[str, ServerSpec], cwd: Path) -> dict[str, dict[str, Any]]:
    """Return what an SDK's client lists of servers that it starts as entries say."""

    async def all_at_once() -> list[dict[str, Any]]:
        return await asyncio.gather(*(each(server) for server in servers.values()))

    async def each(server: ServerSpec) -> dict[str, Any]:
        args = [resolve(word, {"workspaceFolder": str(cwd)}.get) for word in server.args]
        return await _lists(server.command, args, server.env, cwd)

    return dict(zip(servers, asyncio.run(all_at_once()), strict=True))


def lists(server: ServerSpec, cwd: Path) -> dict[str, Any]:
    return lists_of({"": server}, cwd)[""]


@cache
def alone() -> dict[str, dict[str, Any]]:
    """Return the lists of both servers without anything between."""
    return lists_of(
        {
            name: ServerSpec(name=name, path="", command=STUB[0], args=(*STUB_ARGS, text))
            for name, text in (("notes", NOTES), ("search", SEARCH))
        },
        Path.cwd(),
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_each_entry_is_the_server_that_it_was_and_the_file_is_put_back_byte_for_byte(
    client: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, text = CLIENTS[client]
    config = put(home / place, text)
    config.chmod(0o640)
    before = config.read_bytes()
    assert installs(client) == 0
    shown = "".join(capsys.readouterr())
    installed = config.read_bytes()
    assert installed != before
    faces = servers_of(config)
    assert {name: server.args[2:4] for name, server in faces.items()} == {
        name: ("--as", name) for name in ("notes", "search")
    }
    assert lists_of(faces, home) == alone()
    for secret in (TOKEN, KEY):
        assert installed.count(secret.encode()) == 1
        assert secret not in shown
        kept = [
            path
            for path in home.rglob("*")
            if path.is_file() and secret.encode() in path.read_bytes()
        ]
        assert {*kept} == {config, backup_of(config)}
    assert stat.S_IMODE(config.stat().st_mode) == 0o640

    assert uninstalls(client) == 0
    assert config.read_bytes() == before
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    left = [path for path in home.rglob("*") if path.is_file() and "cache" not in path.parts]
    assert left == [config]


# --- What is installed and left -----------------------------------------------------------------


def desktop(home: Path, **entries: Any) -> Path:
    """Write a config of Claude Desktop with these entries."""
    text = json.dumps({"mcpServers": entries}, indent=2)
    return put(home / CLIENTS["claude-desktop"][0], text)


def entry_of(config: Path, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(config.read_bytes())["mcpServers"][name]
    return entry


def digest(config: Path, name: str) -> str:
    word: str = entry_of(config, name)["args"][-1]
    assert word.startswith("sha256:")
    assert len(word) == len("sha256:") + 32
    return word


def file_of(config: Path, name: str) -> Path:
    return Path(entry_of(config, name)["args"][1])


def test_a_second_installation_adds_and_renews_the_digests_of_all(home: Path) -> None:
    first = stub_entry(tools=["one"], log=str(home / "asked"))
    config = desktop(home, a=first, b=stub_entry(tools=["two"], env="x"))
    before = config.read_bytes()
    assert installs("claude-desktop", "--only", "a") == 0
    old = digest(config, "a")
    assert entry_of(config, "b") == json.loads(before)["mcpServers"]["b"]
    asked = (home / "asked").read_text() if (home / "asked").exists() else ""

    assert installs("claude-desktop", "--only", "b") == 0
    assert digest(config, "a") == digest(config, "b") != old
    assert ((home / "asked").read_text() if asked else "") == asked  # it was not asked again
    assert list(
        servers_of(file_of(config, "a").with_name("claude_desktop_config_servers.source.json"))
    ) == ["a", "b"]
    assert list(lists(servers_of(config)["a"], home)["tools"])

    installed = config.read_bytes()
    assert installs("claude-desktop") == 0
    assert config.read_bytes() == installed
    assert uninstalls("claude-desktop") == 0
    assert config.read_bytes() == before


def test_what_is_not_chosen_keeps_its_file_and_a_check_names_the_installation(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = home / "project"
    (project / "data").mkdir(parents=True)
    monkeypatch.chdir(project)
    own = stub_entry(tools=["one"])
    own["args"].append("data")  # a path from the project's folder
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": own}}))
    users = home / ".claude.json"
    users.write_text(json.dumps({"mcpServers": {"b": stub_entry(tools=["two"])}}))
    assert installs("claude-code") == 0
    locked = users.read_bytes()
    assert installs("claude-code", "--only", "a", "--on-drift", "live") == 0
    assert users.read_bytes() == locked
    assert lists(servers_of(project / ".mcp.json")["a"], home)["tools"]

    file = file_of(users, "b")
    text = file.read_text()
    file.write_text(text.replace('"two"', '"three"'))
    capsys.readouterr()
    assert main(["--check", "--offline", "-q", "-o", str(file)]) == 1
    assert "take it over: mcpagg-compile --from claude-code --install" in capsys.readouterr().err


def test_a_check_of_a_client_finds_what_is_installed_and_the_values_of_its_entries(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = put(home / "options.json", '{"tools": ["one"]}')
    entry = {"command": STUB[0], "args": [*STUB_ARGS, f"@{options}"], "env": {"TOKEN": TOKEN}}
    config = desktop(home, a=entry)
    check = ["--from", "claude-desktop", "--check"]
    assert main(check) == 2
    told = capsys.readouterr().err
    assert f"{config}: entries start no installed file; give the file that is meant as -o" in told
    assert installs("claude-desktop") == 0
    assert main(check) == 0
    file = file_of(config, "a")
    assert f"{file}: is up to date" in capsys.readouterr().err
    assert main([*check, "-o", str(file)]) == 0
    options.write_text('{"tools": ["one", "more"]}')
    assert main(check) == 1
    assert "take it over: mcpagg-compile --from claude-desktop --install" in capsys.readouterr().err


def test_an_entry_that_was_changed_by_hand_is_left_and_one_that_was_added_stays(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry(), b=stub_entry(tools=["two"]))
    old = json.loads(config.read_bytes())["mcpServers"]
    assert installs("claude-desktop") == 0
    document = json.loads(config.read_bytes())
    document["mcpServers"]["a"]["args"].append("--more")
    document["mcpServers"] = {"new": {"command": "x"}, **document["mcpServers"]}
    config.write_text(json.dumps(document, indent=4))  # as a client does that writes it anew
    changed = entry_of(config, "a")

    capsys.readouterr()
    assert uninstalls("claude-desktop") == 0
    said = f"a: still starts {file_of(config, 'a')}: how it is started has been changed since"
    assert said in capsys.readouterr().out
    assert json.loads(config.read_bytes())["mcpServers"] == {
        "new": {"command": "x"},
        "a": changed,
        "b": old["b"],
    }
    assert file_of(config, "a").exists()


def test_what_changed_beside_the_start_stays_as_it_is_now(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {**stub_entry(), "env": {"TOKEN": TOKEN, "OLD": "1"}, "alwaysAllow": ["echo"]}
    config = desktop(home, a={**entry, "timeout": 60}, b=stub_entry())
    assert installs("claude-desktop") == 0
    document = json.loads(config.read_bytes())
    face = document["mcpServers"]["a"]
    face |= {"disabled": True, "timeout": 90.5, "type": "stdio"}
    face["env"] |= {"NEW": KEY, "OLD": "2"}
    del face["alwaysAllow"]
    config.write_text(json.dumps(document, indent=4))
    assert installs("claude-desktop") == 0  # which does not forget it

    capsys.readouterr()
    assert uninstalls("claude-desktop") == 0
    shown = "".join(capsys.readouterr())
    assert entry_of(config, "a") == {
        **stub_entry(),
        "env": {"TOKEN": TOKEN, "OLD": "2", "NEW": KEY},
        "disabled": True,
        "timeout": 90.5,
    }
    assert entry_of(config, "b") == stub_entry()
    assert TOKEN not in shown
    assert KEY not in shown
    assert '"disabled": true' in shown


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text("x = 1\n")])
def test_entries_are_faces_also_where_the_file_is_gone_or_damaged(
    damage: Callable[[Path], object], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry(tools=["one"]))
    before = config.read_bytes()
    assert installs("claude-desktop") == 0
    installed, file = config.read_bytes(), file_of(config, "a")
    text = file.read_bytes()
    damage(file)
    if not file.exists():
        assert installs("claude-desktop") == 0
        assert (config.read_bytes(), file.read_bytes()) == (installed, text)
        damage(file)
    else:
        assert installs("claude-desktop") == 2
        assert "is no file that mcpagg-compile wrote" in capsys.readouterr().err
    assert uninstalls("claude-desktop") == 0
    assert config.read_bytes() == before


def test_a_face_of_which_nothing_is_left_is_named_with_what_may_have_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry())
    assert installs("claude-desktop") == 0
    shutil.rmtree(file_of(config, "a").parent)
    assert installs("claude-desktop") == 2
    assert "source.json: cannot be read" in capsys.readouterr().err
    assert uninstalls("claude-desktop") == 0
    said = f"a: still starts {file_of(config, 'a')}: what it was before is not recorded; "
    assert f"{said}{backup_of(config)} may have it" in capsys.readouterr().out


def test_a_secret_that_has_changed_since_is_put_back_as_it_is_now(home: Path) -> None:
    entry = stub_entry(tools=["t"])
    entry["args"] = [*entry["args"], "--api-key", KEY]
    entry["env"] = {"TOKEN": TOKEN}
    config = desktop(home, a=entry)
    before = config.read_text()
    assert installs("claude-desktop") == 0
    new = config.read_text().replace(TOKEN, "ghp_" + "9" * 36).replace(KEY, "sk-" + "z9" * 20)
    config.write_text(new)
    assert uninstalls("claude-desktop") == 0
    assert config.read_text() == before.replace(TOKEN, "ghp_" + "9" * 36).replace(
        KEY, "sk-" + "z9" * 20
    )


def test_two_servers_have_two_values_of_one_variable(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {
        name: {**stub_entry(tools=["env"]), "env": {"TOKEN": f"ghp_{name * 36}"}} for name in "ab"
    }
    config = desktop(home, **entries)
    assert installs("claude-desktop") == 0
    assert "TOKEN: has another value in another entry" in capsys.readouterr().out
    for name in "ab":
        assert entry_of(config, name)["env"] == {"TOKEN": f"ghp_{name * 36}"}


def test_if_a_server_fails_nothing_is_installed_and_if_that_is_allowed_its_entry_stays(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry(), bad=stub_entry(at={"initialize": [{"exit": 3}]}))
    before = config.read_bytes()
    assert installs("claude-desktop") == 4
    said = capsys.readouterr().err
    assert "mcpServers.bad: server 'bad' " in said
    assert [path for path in home.rglob("*") if path.is_file()] == [config]

    assert installs("claude-desktop", "--allow-failed") == 0
    assert "bad: stays as it is: it failed: server 'bad' " in capsys.readouterr().out
    assert entry_of(config, "bad") == json.loads(before)["mcpServers"]["bad"]
    assert "--as" in entry_of(config, "a")["args"]


class Refusing(BaseHTTPRequestHandler):
    """A server that wants a login, whatever it is asked."""

    def do_POST(self) -> None:
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


def test_a_remote_server_that_wants_a_login_stays_as_it_was(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        remote = {"type": "http", "url": f"http://127.0.0.1:{server.server_port}/mcp"}
        config = desktop(home, a=stub_entry(), far=remote)
        assert installs("claude-desktop") == 0
        server.shutdown()
    said = capsys.readouterr().out
    assert "far: stays as it is: it wants a login: mcpagg-compile --login far" in said
    assert entry_of(config, "far") == remote
    assert "--as" in entry_of(config, "a")["args"]


def test_overlays_and_filters_of_the_config_are_those_of_the_faces(home: Path) -> None:
    entry = {**stub_entry(tools=["one", "two"]), "disabledTools": ["two"]}
    config = desktop(home, a=entry, b=stub_entry())
    document = json.loads(config.read_bytes())
    document["mcpagg"] = {
        "overlays": {"a:one": {"description": "mine"}, "b:echo": {"title": "other"}},
        "profiles": {"p": {"expose": ["b:*"]}},
    }
    config.write_text(json.dumps(document))
    assert installs("claude-desktop", "--only", "a") == 0
    [tool] = lists(servers_of(config)["a"], home)["tools"]["tools"]
    assert (tool["name"], tool["description"]) == ("one", "mine")
    assert entry_of(config, "a")["disabledTools"] == ["two"]


def test_what_starts_only_with_the_whole_environment_is_told_with_its_names(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = home / "needs.py"
    script.write_text(
        "import os, runpy, sys\nos.environ['MY_CLUSTER']\nsys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    command, *rest = [sys.executable, str(script), *STUB[3:], "{}"]
    config = desktop(home, a={"command": command, "args": rest})
    monkeypatch.setenv("MY_CLUSTER", "not shown")
    assert installs("claude-desktop") == 4
    said = capsys.readouterr().err
    assert "MY_CLUSTER" in said
    assert '"env": {"NAME": "VALUE"}' in said
    assert "not shown" not in said
    document = json.loads(config.read_bytes())
    document["mcpServers"]["a"]["env"] = {"MY_CLUSTER": "prod"}
    config.write_text(json.dumps(document))
    assert installs("claude-desktop") == 0


def test_well_known_variables_that_no_server_gets_any_more_are_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/k")
    monkeypatch.setenv("AWS_PROFILE", "p")
    desktop(home, a={**stub_entry(), "env": {"AWS_PROFILE": "p"}})
    assert installs("claude-desktop") == 0
    said = capsys.readouterr().out
    assert "no server gets these variables any more: KUBECONFIG;" in said


def test_nothing_is_written_without_a_yes(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry())
    before = config.read_bytes()
    monkeypatch.setattr(sys, "stdin", Typed("n\n"))
    assert main(["--from", "claude-desktop", "--install"]) == 1
    said = capsys.readouterr()
    assert (said.out[-20:], said.err[-15:]) == ("nothing was changed\n", "Install? [y/N] ")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["--from", "claude-desktop", "--install"]) == 2
    assert "pass --yes" in capsys.readouterr().err
    assert config.read_bytes() == before
    assert [path for path in home.rglob("*") if path.is_file()] == [config]


def test_a_config_that_changes_while_its_servers_are_asked_is_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry())
    check = writing.check_unchanged

    def changed(*arguments: Any) -> None:
        config.write_text('{"mcpServers": {}}')
        check(*arguments)

    monkeypatch.setattr("mcpagg.install.installing.check_unchanged", changed)
    assert installs("claude-desktop") == 2
    assert "has changed meanwhile; run the same command again" in capsys.readouterr().err
    assert config.read_text() == '{"mcpServers": {}}'


def prepared_for(client: str) -> tuple[Installation, Config]:
    """Return what an installation is about to write, and the config that it has read."""
    run = Run.of({"client": client, "install": True, "yes": True})
    [plan] = plans_of(run, os.environ)
    installation = prepare(plan, run, os.environ, SILENT)
    assert installation is not None
    return installation, plan.config


def test_of_two_installations_at_once_one_writes_and_the_other_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = put(home / "options.json", '{"tools": ["one"]}')
    config = desktop(home, a={"command": STUB[0], "args": [*STUB_ARGS, f"@{options}"]})
    first = prepared_for("claude-desktop")
    options.write_text('{"tools": ["two"]}')
    second = prepared_for("claude-desktop")
    refused: list[ConfigError] = []

    def write_second() -> None:
        try:
            write_all(*second)
        except ConfigError as problem:
            refused.append(problem)

    thread = threading.Thread(target=write_second)
    written: list[str] = []

    def write_config(*arguments: Any) -> None:
        thread.start()  # while the first has written all but this
        writing.write_config(*arguments)
        written.append(digest(config, "a"))

    monkeypatch.setattr("mcpagg.install.installing.write_config", write_config)
    write_all(*first)
    thread.join()
    assert "has changed meanwhile" in str(refused[0])
    assert [digest(config, "a")] == written
    assert len(lists(servers_of(config)["a"], home)["tools"]["tools"]) == 1
    assert not [*config.parent.glob("*.lock")]


def test_who_waits_too_long_for_another_installation_is_told_which_lock_it_has(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry())
    before = config.read_bytes()
    monkeypatch.setattr(writing, "LOCKED_SECONDS", 0.0)
    with lock(f"{config}{writing.LOCKED}", lambda: None):
        assert installs("claude-desktop") == 2
        assert f"has locked {config}.mcpagg.lock; run the same" in capsys.readouterr().err
    assert config.read_bytes() == before
    assert installs("claude-desktop") == 0
    with lock(f"{config}{writing.LOCKED}", lambda: None):
        assert uninstalls("claude-desktop") == 2
    assert uninstalls("claude-desktop") == 0
    assert config.read_bytes() == before


class Killed(BaseException):
    """Ends a write where a loss of power would."""


def test_wherever_an_installation_is_cut_off_the_next_one_completes_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = desktop(home, a=stub_entry(tools=["one"]))
    before = config.read_bytes()
    run = Run.of({"client": "claude-desktop", "install": True, "yes": True})
    [plan] = plans_of(run, os.environ)
    installation = prepare(plan, run, os.environ, SILENT)
    assert installation is not None
    whole = plan.config.replaced(installation.texts).data
    replace, writes = os.replace, []

    def cut_off(allowed: int, source: str, target: str) -> None:
        writes.append(Path(target).name)
        if len(writes) > allowed:
            raise Killed
        replace(source, target)

    for allowed in range(10):
        config.write_bytes(before)
        writes.clear()
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", partial(cut_off, allowed))
            with suppress(Killed):
                write_all(installation, plan.config)
                break
        assert config.read_bytes() == before
        for file in config.parent.iterdir():
            assert file.read_bytes() in (before, whole)
    assert writes == [
        "claude_desktop_config_servers.py",
        "claude_desktop_config_servers.source.json",
        "claude_desktop_config_servers.installed.json",
        backup_of(config).name,
        config.name,
    ]
    assert config.read_bytes() == whole
    config.write_bytes(before)  # all but the last write
    assert installs("claude-desktop") == 0
    assert config.read_bytes() == whole
    assert uninstalls("claude-desktop") == 0
    assert config.read_bytes() == before


def test_where_the_config_cannot_be_written_the_file_is_as_it_was(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry(tools=["one"]), b=stub_entry(tools=["two"]))
    backup = backup_of(config)
    backup.mkdir(parents=True)
    before = config.read_bytes()
    assert installs("claude-desktop", "--only", "a") == 2
    assert f"{backup}: cannot be written" in capsys.readouterr().err
    assert config.read_bytes() == before
    assert not [path for path in (home / ".local").rglob("*") if path.is_file()]

    backup.rmdir()
    assert installs("claude-desktop", "--only", "a") == 0
    folder = file_of(config, "a").parent
    installed = {file: file.read_bytes() for file in (config, *folder.iterdir())}

    def refused(*_: object) -> None:
        raise ConfigError(str(config), [Problem("", "cannot be written: no")])

    monkeypatch.setattr("mcpagg.install.installing.write_config", refused)
    assert installs("claude-desktop", "--only", "b") == 2
    assert {file: file.read_bytes() for file in (config, *folder.iterdir())} == installed


@posix("links are for those who may make them")
def test_a_link_is_followed(home: Path) -> None:
    config = desktop(home, a=stub_entry())
    real = config.rename(home / "dotfiles.json")
    config.symlink_to(real)
    before = real.read_bytes()
    assert installs("claude-desktop") == 0
    assert config.is_symlink()
    assert b"--as" in real.read_bytes()
    assert uninstalls("claude-desktop") == 0
    assert config.is_symlink()
    assert real.read_bytes() == before


def test_what_was_not_written_by_an_installation_is_not_overwritten(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desktop(home, a=stub_entry())
    own = put(home / "own.py", "print(1)\n")
    assert installs("claude-desktop", "-o", str(own)) == 2
    assert "is no file that mcpagg-compile wrote" in capsys.readouterr().err
    source = put(home / "x.source.json", "{}")
    assert installs("claude-desktop", "-o", str(home / "x.py")) == 2
    assert "was not written by --install" in capsys.readouterr().err
    assert installs("claude-desktop", "-o", str(home / "y.py")) == 0
    put(home / ".cursor/mcp.json", json.dumps({"mcpServers": {"b": stub_entry()}}))
    capsys.readouterr()
    assert installs("cursor", "-o", str(home / "y.py")) == 2
    assert "claude_desktop_config.json start; choose another FILE" in capsys.readouterr().err
    assert (own.read_text(), source.read_text()) == ("print(1)\n", "{}")


def test_an_entry_that_cannot_be_edited_is_shown_to_be_pasted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = f'{{ command = {COMMAND}, args = {NOTES_ARGS}, env = {{ TOKEN = "{TOKEN}" }} }}'
    text = f"[mcp_servers]\na = {entry}\n"
    config = put(home / ".codex/config.toml", text)
    assert installs("codex") == 0
    assert config.read_text() == text
    said = capsys.readouterr().out
    assert "a: cannot be edited safely: it is an inline table. Write this in its place:" in said
    assert "[mcp_servers.a]" in said
    assert '"--as", "a", "sha256:' in said
    assert TOKEN not in said


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told apart by their home")
def test_a_client_that_runs_and_would_overwrite_its_config_is_waited_for(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = desktop(home, a=stub_entry())
    before = config.read_bytes()
    monkeypatch.setattr("mcpagg.install.running._own_programs", lambda environ: iter(["claude"]))
    assert installs("claude-desktop") == 2
    assert "Claude Desktop is running, and would overwrite it; quit it" in capsys.readouterr().err
    assert config.read_bytes() == before
    project = put(home / "work/.mcp.json", PLAIN)
    [scope] = find_scopes("claude-code", str(project), home, os.environ, sys.platform, home)
    assert writer_of(scope, os.environ, "linux") == ""


# --- Scopes -------------------------------------------------------------------------------------


def test_all_scopes_of_claude_code_are_done_and_put_back(home: Path) -> None:
    work = home / "work"
    (work / ".git").mkdir()
    entry = stub_entry(tools=["p"])
    project = put(work / ".mcp.json", json.dumps({"mcpServers": {"a": entry}}))
    user = {
        "mcpServers": {"a": stub_entry(tools=["u"])},
        "projects": {
            str(work): {"mcpServers": {"a": stub_entry(tools=["f"])}, "allowedTools": []},
            "/elsewhere": {"mcpServers": {"a": {"command": "x"}}},
        },
    }
    users = put(home / ".claude.json", json.dumps(user, indent=2))
    before = (project.read_bytes(), users.read_bytes())
    assert installs("claude-code") == 0
    document = json.loads(users.read_bytes())
    assert document["projects"]["/elsewhere"] == user["projects"]["/elsewhere"]  # type: ignore[index]
    entries = [
        entry_of(project, "a"),
        document["mcpServers"]["a"],
        document["projects"][str(work)]["mcpServers"]["a"],
    ]
    files = [one["args"][1] for one in entries]
    assert len(set(files)) == 3
    assert entries[0]["command"] == "python3"
    assert files[0] == "${CLAUDE_PROJECT_DIR:-.}/mcp_servers.py"
    assert (work / "mcp_servers.source.json").exists()
    assert uninstalls("claude-code") == 0
    assert (project.read_bytes(), users.read_bytes()) == before


def test_the_backup_is_of_the_config_before_its_first_scope_and_goes_with_the_last(
    home: Path,
) -> None:
    here = {str(home / "work"): {"mcpServers": {"b": stub_entry()}}}
    whole = {"numStartups": 1, "mcpServers": {"a": stub_entry()}, "projects": here}
    users = put(home / ".claude.json", json.dumps(whole))
    before, backup = users.read_bytes(), backup_of(users)
    for name in ("a", "b"):
        assert installs("claude-code", "--only", name) == 0
        assert backup.read_bytes() == before
    users.write_bytes(users.read_bytes().replace(b'"numStartups": 1', b'"numStartups": 2'))
    assert uninstalls("claude-code", "--only", "b") == 0
    assert backup.read_bytes() == before
    assert uninstalls("claude-code") == 0
    assert not backup.exists()


def test_the_config_of_a_repository_has_paths_that_fit_everybody(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = home / "work"
    (work / ".git").mkdir()
    put(work / "servers/own.py", (Path(STUB[-1])).read_text())
    text = '{"servers": {"own": {"command": "python3", "args": ["servers/own.py", "{}"]}}}'
    config = put(work / ".vscode/mcp.json", text)
    assert installs("vscode") == 0
    assert "it belongs to the repository" in capsys.readouterr().out
    entry = json.loads(config.read_bytes())["servers"]["own"]
    assert (entry["command"], entry["args"][:2]) == (
        "python3",
        ["-I", "${workspaceFolder}/.vscode/mcp_servers.py"],
    )
    file = work / ".vscode/mcp_servers.py"
    for written in (config, file, *file.parent.glob("*.json")):
        if not written.name.endswith(".py"):
            assert str(home) not in written.read_text()
    server = servers_of(config)["own"]
    assert lists(server, work)["tools"]["tools"]
    assert uninstalls("vscode") == 0
    assert config.read_text() == text


def test_a_commit_of_everything_has_no_secret_of_a_config_that_is_not_committed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "work/.git").mkdir()
    config = put(home / "work/.mcp.json", PLAIN)
    before = config.read_bytes()
    assert installs("claude-code") == 0
    backup = backup_of(config)
    assert f"backup: {backup}" in capsys.readouterr().out
    assert backup.read_bytes() == before
    if os.name != "nt":
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    taken = [path for path in config.parent.iterdir() if path.is_file() and path != config]
    assert len(taken) == 3
    for secret in (TOKEN, KEY):
        assert not [path for path in taken if secret.encode() in path.read_bytes()]
    assert uninstalls("claude-code") == 0
    assert (config.read_bytes(), backup.exists()) == (before, False)


@pytest.mark.parametrize("client", ["claude-code", "gemini"])
@pytest.mark.parametrize("is_repository", [True, False])
def test_a_project_that_was_moved_is_installed_anew_and_put_back(
    client: str, is_repository: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(old: Path, name: str) -> Path:
        monkeypatch.chdir(home)
        new = old.rename(home / name)
        monkeypatch.chdir(new)
        return new

    work = home / "work"
    place = {"claude-code": ".mcp.json", "gemini": ".gemini/settings.json"}[client]
    before = put(work / place, PLAIN).read_bytes()
    if is_repository:
        (work / ".git").mkdir()
    assert installs(client) == 0
    work = moved(work, "second")
    assert installs(client) == 0
    assert lists_of(servers_of(work / place), work) == alone()
    work = moved(work, "third")
    assert uninstalls(client) == 0
    assert (work / place).read_bytes() == before
    left = [path.name for path in home.rglob("*") if path.is_file() and TOKEN in path.read_text()]
    assert (left, [*home.rglob("*.installed.json")]) == ([work.joinpath(place).name], [])


def test_a_copy_of_a_project_starts_its_own_file_with_the_values_of_its_own_entries(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "work/.git").mkdir()
    config = put(home / "work/.gemini/settings.json", PLAIN)
    before = config.read_bytes()
    assert installs("gemini") == 0
    installed = config.read_bytes()
    shutil.copytree(home / "work", home / "copy")
    monkeypatch.chdir(home / "copy")
    copy = home / "copy/.gemini/settings.json"
    assert installs("gemini") == 0
    assert file_of(copy, "notes") == home / "copy/.gemini/settings_servers.py"
    assert uninstalls("gemini") == 0
    assert (copy.read_bytes(), config.read_bytes()) == (before, installed)


def test_an_installation_stays_where_it_was_asked_for_until_another_place_is(home: Path) -> None:
    config = desktop(home, a=stub_entry(tools=["one"]), b=stub_entry() | {"env": {"TOKEN": TOKEN}})
    before = config.read_bytes()
    assert installs("claude-desktop", "-o", str(home / "all.py")) == 0
    installed = config.read_bytes()
    assert installs("claude-desktop") == 0
    assert config.read_bytes() == installed
    assert installs("claude-desktop", "-o", str(home / "more.py")) == 0
    assert file_of(config, "b") == home / "more.py"
    assert uninstalls("claude-desktop") == 0
    assert config.read_bytes() == installed
    assert uninstalls("claude-desktop") == 0
    assert config.read_bytes() == before


def test_the_way_back_that_is_shown_undoes_this_installation_and_no_other(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    users = put(home / ".claude.json", PLAIN)
    before = put(home / "work/.mcp.json", PLAIN).read_bytes()
    assert installs("claude-code", "--only", "notes") == 0
    installed = users.read_bytes()
    capsys.readouterr()
    assert main([".mcp.json", "--install", "--yes", "--only", "search"]) == 0
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if "to undo it" in line]
    monkeypatch.chdir(home)
    assert main([*shlex.split(line.partition(": ")[2])[1:], "--yes"]) == 0
    project = json.loads((home / "work/.mcp.json").read_bytes())["mcpServers"]
    assert "--as" in project["notes"]["args"]
    assert project["search"] == json.loads(before)["mcpServers"]["search"]
    assert users.read_bytes() == installed


def test_who_compiles_the_file_anew_is_told_which_entries_name_an_old_digest(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = put(home / "options.json", '{"tools": ["one"]}')
    config = desktop(home, a={"command": STUB[0], "args": [*STUB_ARGS, f"@{options}"]})
    assert installs("claude-desktop") == 0
    file = file_of(config, "a")
    source = file.with_name(f"{file.stem}.source.json")
    again = [str(source), "-o", str(file), "--locked"]
    capsys.readouterr()
    assert main(again) == 0
    assert "an old digest" not in capsys.readouterr().out
    options.write_text('{"tools": ["one", "more"]}')
    assert main(again) == 0
    said = capsys.readouterr().out
    assert f"{config}: a: names an old digest of {file.name}, and does not start" in said
    assert "mcpagg-compile --from claude-desktop --install" in said
    old = digest(config, "a")
    assert installs("claude-desktop") == 0
    assert digest(config, "a") != old
    assert len(lists(servers_of(config)["a"], home)["tools"]["tools"]) == 2


def test_a_proxy_is_never_compiled_into_itself(home: Path) -> None:
    config = desktop(home, a=stub_entry(tools=["one"]), b=stub_entry(tools=["two"]))
    assert installs("claude-desktop") == 0
    file = home / "whole.py"
    assert main(["--from", "claude-desktop", "-o", str(file), "--quiet"]) == 0
    assert "--as" not in file.read_text().partition("# How it works")[0].partition("SERVERS")[2]
    assert STUB[-1] in file.read_text()
    same = file_of(config, "a")
    assert main(["--from", "claude-desktop", "-o", str(same), "--quiet"]) == 0
    assert STUB[-1] in same.read_text()
