"""A part of the servers is asked anew: `--refresh`, and what `--allow-failed` keeps of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from proxies import compiled, served, write_config
from wire import STUB, call, stub_entry, text

from mcpagg.command.cli import main


def entry(folder: Path, name: str, **options: object) -> dict[str, object]:
    """Return a server whose behaviour is in a file, so that it changes under one launch row."""
    (folder / f"{name}.json").write_text(json.dumps(options))
    return {"command": STUB[0], "args": [*STUB[1:], f"@{folder / name}.json"]}


def test_only_what_is_named_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("SOME_TOKEN", "sentinel-value")
    one = {**entry(tmp_path, "one", tools=["a"], log=str(log)), "env": {"K": "${SOME_TOKEN}"}}
    servers = {"one": one, "two": entry(tmp_path, "two", tools=["b"])}
    file = compiled(tmp_path, servers, "--names", "portable")
    before = file.read_text()
    log.unlink()
    monkeypatch.delenv("SOME_TOKEN")
    entry(tmp_path, "two", tools=["b", "c"])

    assert main(["--check", "--refresh", "two", "-o", str(file)]) == 1
    assert main(["--refresh", "two", "-q", "-o", str(file)]) == 0
    assert main(["--check", "--refresh", "two", "-o", str(file)]) == 0
    after = file.read_text()
    assert '"two_c"' not in before
    assert '"two_c"' in after  # the options are those of the file
    assert '"one_a"' in after
    assert not log.exists()

    # Another name is no other server; a new one has to be asked.
    write_config(tmp_path, {"uno": one, "two": servers["two"], "new": stub_entry()})
    capsys.readouterr()
    assert main(["--refresh", "two", "-q", "-o", str(file)]) == 2
    said = capsys.readouterr().err
    assert "mcpServers.new: is not in the snapshot of" in said
    assert "mcpServers.uno" not in said
    assert main(["--refresh", "new", "-q", "-o", str(file)]) == 0
    assert '"uno:a": ["a", "uno_a"]' in file.read_text()
    assert not log.exists()
    for flag in ("--offline", "--dry-run"):
        assert main([flag, "--refresh", "two", "-o", str(file)]) == 2


def test_what_fails_stays_as_it_was_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "sentinel-value")
    lacking = {**entry(tmp_path, "lacks", tools=["a"]), "env": {"K": "${SOME_TOKEN}"}}
    servers = {"dies": entry(tmp_path, "dies", tools=["b"]), "lacks": lacking}
    file = compiled(tmp_path, servers)
    monkeypatch.delenv("SOME_TOKEN")
    entry(tmp_path, "dies", at={"start": [{"exit": 1}]})

    assert main(["--refresh", "dies", "-q", "-o", str(file)]) == 4
    assert main(["--refresh", "dies", "--allow-failed", "-q", "-o", str(file)]) == 0
    assert 'KEPT = r"""["dies"]"""' in file.read_text()
    assert main([str(tmp_path / "mcp.json"), "--allow-failed", "-o", str(file)]) == 0
    said = capsys.readouterr()
    assert "warning: mcpServers.lacks: is as" in said.err
    assert "  as they were, for they failed: dies, lacks\n" in said.out
    assert 'KEPT = r"""["dies", "lacks"]"""' in file.read_text()
    assert main(["--check", "--offline", "-o", str(file)]) == 0

    entry(tmp_path, "dies", tools=["b"])
    assert main(["--refresh", "dies", "-q", "-o", str(file)]) == 0
    assert 'KEPT = r"""["lacks"]"""' in file.read_text()
    with served(file) as wire:
        assert text(call(wire, "dies:b")) == "{}"
