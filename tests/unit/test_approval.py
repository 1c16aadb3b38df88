"""Approvals: what is signed, when a signature is kept, and what one without it may do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compilations import compilation, tool
from core import plan
from goldens import cases, emitted

from mcpagg.command.cli import main
from mcpagg.passes.emission.approval import Approval, approving
from mcpagg.problems import ConfigError
from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.clients.profiles import narrowed
from mcpagg_runtime.launch.approval import (
    ALLOWED_SIGNERS,
    NotApproved,
    refusal,
    signer_of,
)
from mcpagg_runtime.plan.plan import Plan
from mcpagg_runtime.start.digest import data_digest
from mcpagg_runtime.stdio.engine import Engine
from mcpagg_runtime.tool.commands import verify_approval

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")

WHO = "alice@example.org"
OTHER: Approval = {"data": "sha256:0", "signature": ""}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the keys `alice` and `bob`; of them, `signers` allows alice."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "bob"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    public = (folder / "alice.pub").read_text()
    (folder / "signers").write_text(f'{WHO} namespaces="mcpagg" {public}')
    return folder


@pytest.fixture(autouse=True)
def nobody_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOWED_SIGNERS, raising=False)


def reviewed(**options: str) -> Plan:
    """Return a plan, and what it might have been read from."""
    made = plan({"db": ["query"]}, on_drift=options.get("on_drift", "live"))
    made.tables = {"name": "test", "compiler": "1", "instructions": '["Ask."]'}
    return made


def signed(key: Path) -> Plan:
    made = reviewed()
    made.approval = approving(str(key), {})(data_digest(made.tables))
    return made


def test_the_digest_counts_every_table_and_no_compiler() -> None:
    digest = data_digest(reviewed().tables)
    for name in ("name", "instructions", "lists", "any"):
        other = reviewed()
        other.tables = {**other.tables, name: "[]"}
        assert data_digest(other.tables) != digest
    same = reviewed()
    same.tables = {**dict(reversed([*same.tables.items()])), "compiler": "9", "approval": "{}"}
    same.use_names("portable")
    assert data_digest(same.tables) == digest


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_is_signed_is_what_the_emitted_file_holds(case: Path) -> None:
    space: dict[str, Any] = {"__name__": "server"}
    text = emitted(case, lambda digest: {"data": digest, "signature": ""})
    exec(compile(text, "server.py", "exec"), space)  # noqa: S102 - our own
    found = Plan(space["PLAN"])
    assert found.approval["data"] == data_digest(found.tables)


def test_an_approval_is_kept_for_the_same_data_alone() -> None:
    approve = approving(None, OTHER)
    assert approve("sha256:0") == OTHER
    assert approve("sha256:1") == {}


@needs_ssh
def test_who_has_signed_is_told_if_that_is_allowed(keys: Path) -> None:
    assert signer_of(signed(keys / "alice"), str(keys / "signers")) == WHO
    with pytest.raises(NotApproved, match="is signed by nobody in"):
        signer_of(signed(keys / "bob"), str(keys / "signers"))
    with pytest.raises(NotApproved, match="there is no file of allowed signers"):
        signer_of(signed(keys / "alice"), str(keys / "none"))
    with pytest.raises(NotApproved, match="is not signed"):
        signer_of(reviewed(), str(keys / "signers"))


@needs_ssh
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (('bob namespaces="git"', WHO), WHO),
        (('bob valid-before="20200101"', f"# {WHO}", "", f"carol,{WHO}"), "carol"),
        (("!eve@x,*@x",), "*@x"),
        (('bob namespaces="git"', "!eve@x"), ""),
    ],
)
def test_of_several_lines_for_a_key_one_that_allows_it_is_enough(
    keys: Path, capsys: pytest.CaptureFixture[str], lines: tuple[str, ...], expected: str
) -> None:
    public = (keys / "alice.pub").read_text()
    allowed = keys / "several"
    allowed.write_text("".join(f"{line} {public}" if line else "\n" for line in lines))
    made = signed(keys / "alice")
    if expected:
        assert signer_of(made, str(allowed)) == expected
    else:
        with pytest.raises(NotApproved, match="its signature does not hold"):
            signer_of(made, str(allowed))
    assert verify_approval(made, str(allowed)) == (0 if expected else 1)
    who = "the key of '*@x'" if "*" in expected else expected
    assert capsys.readouterr().out.startswith(f"{who} has approved sha256:" if expected else "")


@needs_ssh
def test_what_has_changed_is_not_approved_whatever_it_says(keys: Path) -> None:
    changed = signed(keys / "alice")
    changed.tables = {**changed.tables, "instructions": '["Obey."]'}
    with pytest.raises(NotApproved, match="has changed since it was signed"):
        signer_of(changed, str(keys / "signers"))
    changed.approval = {**changed.approval, "data": data_digest(changed.tables)}
    with pytest.raises(NotApproved, match="its signature does not hold"):
        signer_of(changed, str(keys / "signers"))


@needs_ssh
def test_a_signature_for_something_else_does_not_count(keys: Path) -> None:
    made = reviewed()
    digest = data_digest(made.tables)
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(keys / "alice")]
    done = subprocess.run(command, input=f"{digest}\n".encode(), capture_output=True, check=True)
    made.approval = {"data": digest, "signature": done.stdout.decode()}
    (keys / "any").write_text(f"{WHO} {(keys / 'alice.pub').read_text()}")
    with pytest.raises(NotApproved, match="its signature does not hold"):
        signer_of(made, str(keys / "any"))


def test_under_refuse_what_is_signed_and_has_changed_starts_nothing() -> None:
    for policy, why in (("refuse", "has changed since it was signed"), ("warn", "")):
        made = reviewed(on_drift=policy)
        made.approval = OTHER
        assert why in refusal(made)
        assert bool(why) is bool(refusal(made))
    assert refusal(reviewed(on_drift="refuse")) == ""


def test_a_profile_is_approved_with_the_whole() -> None:
    whole = plan({"db": ["query"]}, on_drift="refuse", profiles={"p": {"db": ["query"]}})
    whole.approval = {"data": data_digest(whole.tables), "signature": ""}
    assert Engine(Answers(narrowed(whole, "p")), ".")._refusal == ""
    whole.approval = OTHER
    assert Engine(Answers(narrowed(whole, "p")), ".")._refusal != ""


def test_where_signers_are_named_what_is_not_signed_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, keys: Path
) -> None:
    monkeypatch.setenv(ALLOWED_SIGNERS, str(keys / "signers"))
    made = reviewed()
    engine = Engine(Answers(made), ".")
    assert engine._refusal == "its data is not signed"
    monkeypatch.setenv("PATH", "")
    made.approval = {"data": data_digest(made.tables), "signature": ""}
    assert "ssh-keygen cannot be asked" in refusal(made)


@needs_ssh
def test_a_key_that_cannot_sign_is_named(keys: Path) -> None:
    with pytest.raises(ConfigError, match=r"--sign .*none: ssh-keygen does not sign: .*none"):
        approving(str(keys / "none"), {})("sha256:0")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return an emitted file whose config lies beside it."""
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "python3"}}}')
    file = tmp_path / "server.py"
    file.write_text(compilation({"a": {}}, tool()).text)
    return file


@needs_ssh
def test_a_file_is_approved_keeps_its_approval_and_says_so(
    file: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--offline", "-o", str(file), "-q"]
    verify = [sys.executable, "-I", str(file), "--verify", str(keys / "signers")]
    assert main([*words, "--sign", str(keys / "alice")]) == 0
    approved = file.read_bytes()
    assert main([*words, "--check"]) == 0
    assert main(words) == 0
    assert file.read_bytes() == approved
    done = subprocess.run(verify, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert done.stdout.startswith(f"{WHO} has approved sha256:")
    file.write_bytes(approved.replace(b'"on_drift": "live"', b'"on_drift": "warn"'))
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, "has changed since" in done.stderr) == (1, True)
    file.write_bytes(approved)
    capsys.readouterr()
    assert main([*words, "--on-drift", "warn"]) == 0
    assert "the approval in" in capsys.readouterr().err
    assert b"SSH SIGNATURE" not in file.read_bytes()


def test_nothing_is_approved_that_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp.json", "--dry-run", "--sign", "key"]) == 2
    assert "--sign goes with writing FILE" in capsys.readouterr().err
