"""`--check` as a gate: which changes fail it, and what a file that was edited cannot hide."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, write_config
from wire import STUB, stub_entry

from mcpagg.command.cli import main
from mcpagg.review import CLASSES

TOOL = {"name": "a", "inputSchema": {"type": "object"}, "title": "A", "description": "Does."}


def behaves(folder: Path, **options: Any) -> None:
    (folder / "options.json").write_text(json.dumps(options))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with one server, whose behaviour `behaves` changes under one launch row."""
    behaves(tmp_path, tools=[TOOL])
    return compiled(
        tmp_path, {"one": {"command": STUB[0], "args": [*STUB[1:], f"@{tmp_path}/options.json"]}}
    )


def checked(file: Path, *flags: str) -> int:
    return main(["--check", "-q", "-o", str(file), *flags])


def test_only_the_classes_that_are_asked_for_fail_it(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = {**TOOL, "title": "Another"}
    behaves(tmp_path, tools=[tool], server_info={"name": "stub", "version": "2"})
    assert checked(file) == 1
    assert checked(file, "--fail-on", "hint", "--fail-on", "added") == 0
    assert capsys.readouterr().err.endswith(f"{file}: nothing has changed that counts\n")
    assert checked(file, "--fail-on", "text") == 1
    assert checked(file, "--structural") == 0
    behaves(tmp_path, tools=[{**tool, "annotations": {"readOnlyHint": True}}])
    assert checked(file, "--structural") == 1
    assert main([str(tmp_path / "mcp.json"), "-o", str(file)]) == 0
    said = capsys.readouterr().out
    assert said.endswith("What has changed:\n  one 1: tools ~1\n")
    assert checked(file) == 0
    assert main(["-o", str(file), str(tmp_path / "mcp.json"), "--report", "markdown"]) == 0
    assert capsys.readouterr().out.endswith("server.py` is what compiling now would write\n")


@pytest.mark.parametrize("flags", [[], ["-q"]])
def test_who_is_not_quiet_is_told_that_nothing_has_changed(
    file: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    capsys.readouterr()
    assert main(["--check", "--offline", "-o", str(file), *flags]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "" if flags else f"{file}: is up to date\n")


def test_what_nobody_sees_and_what_was_not_compared_counts_whatever_is_asked_for(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every: tuple[list[str], ...] = (
        [],
        ["--structural"],
        ["--fail-on", "launch"],
        ["--fail-on", "text", "--fail-on", "file"],
    )
    before = file.read_text()
    file.write_text(
        before.replace("mcpagg-compile 0.", "mcpagg-compile 9.", 1).replace(
            "def main(", "evil()", 1
        )
    )
    for flags in every:
        assert checked(file, *flags) == 1
        said = capsys.readouterr().out
        assert "1 change (1 runtime)" in said
        assert "its code was not compared" in said
    file.write_text(before)
    behaves(tmp_path, tools=[{**TOOL, "title": f"A{chr(0xE0041)}"}])
    assert all(checked(file, *flags) == 1 for flags in every)


def test_a_changed_claim_of_the_header_hides_no_edit_of_the_code(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = file.read_text().replace("\nPLAN = {", "\nimport evil\nPLAN = {", 1)
    digest = re.search("sha256:[0-9a-f]{64}", text)
    assert digest is not None
    file.write_text(text.replace(digest[0], f"sha256:{'0' * 64}", 1))
    classes = [flag for one in CLASSES if one != "runtime" for flag in ("--fail-on", one)]
    assert checked(file, "--offline", *classes) == 1
    assert "-import evil" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "instead"),
    [
        ('["a", "one_a"]', '["b", "one_a"]'),  # a route
        ("\nSNAPSHOT = {", "\nimport os\nSNAPSHOT = {"),  # code
        ("def main(", "def other(): ...\n\n\ndef main("),  # the runtime
        ('"on_drift": "live"', '"on_drift": "warn"'),  # an option
    ],
)
def test_what_was_edited_by_hand_counts_beside_what_does_not(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str], old: str, instead: str
) -> None:
    """The text of a tool has changed, which does not count; the edit does, and is shown."""
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, instead, 1))
    behaves(tmp_path, tools=[{**TOOL, "title": "Another"}])
    assert checked(file, "--structural") == 1
    out = capsys.readouterr().out
    assert "(1 file, 1 text)" in out
    assert any(line.strip()[1:] in out for line in instead.splitlines() if line)


def test_a_file_of_another_form_is_compared_as_text(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("# nothing\n")
    assert main([str(tmp_path / "mcp.json"), "--check", "-q", "-o", str(file)]) == 1
    out = capsys.readouterr().out
    assert "file               has other options, names, profiles or overlays, or was " in out
    assert "\n  -# nothing\n" in out
    assert '\n  +SNAPSHOT = {\n  +    "one": {\n' in out


def test_a_file_that_is_missing_is_said_to_be_and_not_shown_as_a_difference(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.unlink()
    assert main([str(tmp_path / "mcp.json"), "--check", "-q", "-o", str(file)]) == 1
    out = capsys.readouterr().out
    assert "file               is missing, or empty" in out
    assert len(out.splitlines()) < 20


def test_no_literal_credential_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def entry(token: str) -> dict[str, Any]:
        return {**stub_entry(), "env": {"TOKEN": token}}

    file = compiled(tmp_path, {"one": entry("sentinel-before\u00e9")}, "--allow-secrets")
    two = {**entry("sentinel-two"), "cwd": str(tmp_path)}
    one = entry("sentinel-after")
    one["args"] = [*one["args"], "another"]
    write_config(tmp_path, {"one": one, "two": two})
    edited = (
        file.read_text().replace('"start": "eager"', '"start": "lazy"').replace("-before", "-x")
    )
    file.write_text(edited)
    for form in ("text", "markdown", "json", "sarif"):
        assert checked(file, "--report", form) == 1
        out = capsys.readouterr().out
        assert "sentinel" not in out
        # All else is shown: what is run, also of a server that is new, and what was edited by hand.
        assert "another" in out
        assert STUB[1] in out
        assert "env/TOKEN" in out
        assert "lazy" in out or form == "sarif"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--fail-on", "hints"], "'hints' is no class of changes; did you mean `hint`?"),
        (["--structural"], "--fail-on and --structural go with --check"),
        (["--report", "sarif"], "--report sarif needs --dry-run, --check or -o FILE"),
        (["--report", "sarif", "--dry-run"], "--report sarif does not go with --dry-run"),
    ],
)
def test_what_cannot_be_had_together_is_said(
    flags: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp.json", *flags]) == 2
    assert says in capsys.readouterr().err


def test_what_fails_is_told_to_programs_too(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    behaves(tmp_path, at={"start": [{"exit": 1}]})
    assert checked(file, "--report", "json") == 4
    report = json.loads(capsys.readouterr().out)
    assert (report["fails"], report["changes"]) == (True, [])
    [error] = report["errors"]
    assert error["where"] == "mcpServers.one"
    assert "exited with status 1" in error["what"]
    assert report.keys() >= {"findings", "lists"}
    assert checked(file, "--report", "markdown") == 4
    told = capsys.readouterr().out
    assert told.startswith(f"### `{file}` was compared with nothing\n- `")
    assert "exited with status 1" in told


def test_what_cannot_be_compiled_any_more_hides_no_change(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    behaves(tmp_path, tools=["kept", "secret"])
    config = str(tmp_path / "mcp.json")
    assert main([config, "-o", str(file), "--hide", "one:secret"]) == 0
    behaves(tmp_path, tools=[{"name": "kept", "description": "other"}, "secrets"])
    capsys.readouterr()
    assert checked(file) == 2
    told = capsys.readouterr()
    assert "- tool secret\n" in told.out
    assert "text               description" in told.out
    assert "the filter 'one:secret' fits nothing" in told.err
    assert checked(file, "--report", "json") == 2
    report = json.loads(capsys.readouterr().out)
    assert {change["name"] for change in report["changes"]} == {"kept", "secret", "secrets"}
    assert "fits nothing" in report["errors"][0]["what"]
    assert checked(file, "--report", "sarif") == 2
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_it_must_not(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    behaves(tmp_path, tools=["\x1b[31mb"])
    monkeypatch.setenv("NO_COLOR", no_color)
    reading, writing = os.openpty()
    with open(writing, "w", encoding="utf-8") as terminal, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", terminal)
        assert checked(file) == 1
        shown = b""
        while b"+ tool" not in shown or not shown.endswith(b"\n"):
            shown += os.read(reading, 65536)
    os.close(reading)
    assert (b"\x1b[32m  + tool \\x1b[31mb\x1b[0m" in shown) is coloured
    assert (b"\x1b" in shown) is coloured


# --- The workflow of generated/TEAM.md -----------------------------------------------------------

GUIDE = Path(__file__).resolve().parents[2] / "generated" / "TEAM.md"
BASH = shutil.which("bash")


def steps() -> list[str]:
    """Return the scripts of the workflow."""
    [workflow] = re.findall("```yaml\n(name: mcpagg\n.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    found = re.findall(r"run: \|\n((?: {10}.*\n)+)", workflow)
    return [script.replace("\n" + " " * 10, "\n").strip() for script in found]


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(BASH is None or os.name == "nt", reason="a workflow's steps run in bash")
@pytest.mark.parametrize("is_new", [True, False])
def test_the_workflow_reviews_a_pull_request_and_starts_nothing(
    tmp_path: Path, is_new: bool
) -> None:
    """Of one that brings the file, and of one that adds a server to it."""
    origin, clone, programs, out = (tmp_path / name for name in ("origin", "clone", "bin", "out"))
    for folder in (origin, programs, out):
        folder.mkdir()
    git(origin, "init", "-q", "-b", "main")
    (origin / "README").write_text("")
    if not is_new:
        compiled(origin, {"one": stub_entry(tools=[TOOL])})
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "base")
    git(origin, "checkout", "-q", "-b", "change")
    evil = {"command": "sh", "args": ["-c", f"touch {out}/ran; exec {' '.join(STUB)}"]}
    compiled(origin, {"one": stub_entry(tools=[TOOL]), "evil": evil})
    (out / "ran").unlink()
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "change")
    git(tmp_path, "clone", "-q", "-b", "change", str(origin), str(clone))
    for name, code in (
        ("gh", 'cat "$5"'),
        ("mcpagg-compile", f'exec {sys.executable} -m mcpagg "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{code}\n")
        (programs / name).chmod(0o755)
    environ = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_BASE_REF": "main",
        "GITHUB_REF_NAME": "7/merge",
        "GITHUB_STEP_SUMMARY": str(out / "summary.md"),
        "RUNNER_TEMP": str(out),
    }
    said = []
    for script in steps():
        command = [str(BASH), "-e", "-o", "pipefail", "-c", script]
        done = subprocess.run(
            command, cwd=clone, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    comment, up_to_date = said
    assert comment == (out / "summary.md").read_text()
    assert up_to_date == ""
    assert f"touch {out}/ran" in comment
    assert "`evil` server: `was added with 1 tool`" in comment
    assert ("`one` server: `was added" in comment) is is_new
    assert not (out / "ran").exists()
