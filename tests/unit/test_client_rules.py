"""Rules of a client that a proxy under another name would leave without effect are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wire import stub_entry

from mcpagg.command.cli import main
from mcpagg.passes.environment.client_rules import lost_rules


def settings(file: Path, **permissions: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"permissions": permissions}))
    return file


def test_rules_that_restrict_are_found_by_the_names_of_entries(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    shared = settings(
        project / ".claude/settings.json",
        deny=["mcp__my_notes__delete", "mcp__my_notes_2__delete", "Bash(rm *)", 3],
        allow=["mcp__my_notes"],
    )
    local = settings(project / ".claude/settings.local.json", ask=["mcp__db"], deny="mcp__db")
    users = settings(home / ".claude/settings.json", deny=["mcp__db__*", "mcp__*"])
    said = [problem.what for problem in lost_rules(project, home, ["my notes", "db"])]
    assert said == [
        f"{shared}: permissions.deny fits nothing of this proxy: mcp__my_notes__delete",
        f"{local}: permissions.ask fits nothing of this proxy: mcp__db",
        f"{users}: permissions.deny fits nothing of this proxy: mcp__db__*",
    ]
    shared.write_text("{")
    assert len(lost_rules(project, home, ["my notes", "db"])) == 2
    assert len(lost_rules(home, home, ["db"])) == 1


def test_compiling_a_config_of_the_client_warns_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    settings(tmp_path / ".claude/settings.json", deny=["mcp__s__echo"])
    config = tmp_path / ".mcp.json"
    config.write_text(json.dumps({"mcpServers": {"s": stub_entry()}}))
    for words in (["--from", "claude-code"], [str(config)]):
        assert main([*words, "-o", str(tmp_path / "server.py")]) == 0
        assert "permissions.deny fits nothing of this proxy: mcp__s__echo" in "".join(
            capsys.readouterr()
        )
    other = config.rename(tmp_path / "cfg.json")
    assert main([str(other), "-o", str(tmp_path / "server.py")]) == 0
    assert "permissions.deny" not in "".join(capsys.readouterr())


def test_a_literal_credential_of_a_clients_config_is_answered_with_what_leaves_it_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = {**stub_entry(), "env": {"TOKEN": "ghp_" + "a1B2c3D4" * 5}}
    config = tmp_path / ".mcp.json"
    config.write_text(json.dumps({"mcpServers": {"s": entry}}))
    advice = "mcpagg-compile --from claude-code --install leaves credentials where they are"
    for words, is_told in ((["--from", "claude-code"], True), ([str(config)], False)):
        for more in ([], ["--dry-run"]):
            assert main([*words, "-o", str(tmp_path / "server.py"), *more]) == 2
            assert (advice in capsys.readouterr().err) == is_told
