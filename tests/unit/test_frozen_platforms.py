"""Where systems differ for what is frozen, asked for each of them on whatever system tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagg_runtime.frozen import local
from mcpagg_runtime.frozen.local import files_digest

# Local files


def test_a_folder_has_one_digest_whatever_separates_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a/x.py", "a0.py", "run.py"]
    (tmp_path / "a").mkdir()
    for name in names:
        (tmp_path / name).write_text(name)
    digest = files_digest(str(tmp_path / "run.py"), "python")
    monkeypatch.setattr(local, "_loadable", lambda *_: [name.replace("/", "\\") for name in names])
    monkeypatch.setattr("os.sep", "\\")
    assert files_digest(str(tmp_path / "run.py"), "python") == digest


def test_a_package_is_looked_for_up_to_the_root_of_a_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_has_home", lambda folder: False)  # that is on another one
    monkeypatch.setattr(local, "MANIFEST", "no-such-file.json")
    assert local._package(str(tmp_path)) == str(tmp_path)


def test_a_manifest_counts_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "Package.JSON").touch()
    (tmp_path / "run.js").touch()
    assert files_digest(str(tmp_path / "run.js"), "node")[1] == 2
