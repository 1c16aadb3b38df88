"""Where systems differ for what is frozen, asked for each of them on whatever system tests run."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest

from mcpagg.passes.freezing.commands import NotFreezable
from mcpagg.passes.freezing.local import freeze_program
from mcpagg_runtime.frozen import coverage, folders, local, pypi
from mcpagg_runtime.frozen.cache import refuse_unsafe
from mcpagg_runtime.frozen.environment import drop_foreign_code, of_installers
from mcpagg_runtime.frozen.folders import extended_path, is_link, remove, rename
from mcpagg_runtime.frozen.local import files_digest
from mcpagg_runtime.frozen.servers import FrozenServers
from mcpagg_runtime.frozen.table import FrozenError, LocalFiles
from mcpagg_runtime.launch.launch import Launch

JUNCTION, IN_A_CLOUD = 0xA0000003, 0x9000001A


# Folders


@pytest.mark.parametrize(
    ("path", "extended"),
    [
        ("C:\\a b\\ü", "\\\\?\\C:\\a b\\ü"),
        ("C:/a/.\\b\\..\\c", "\\\\?\\C:\\a\\c"),
        ("\\\\host\\share\\a", "\\\\?\\UNC\\host\\share\\a"),
        ("\\\\?\\C:\\a", "\\\\?\\C:\\a"),
    ],
)
def test_a_path_of_windows_has_a_form_that_may_be_long(path: str, extended: str) -> None:
    assert extended_path(path) == extended


@pytest.mark.parametrize(
    ("mode", "tag", "expected"),
    [
        (stat.S_IFDIR, None, False),
        (stat.S_IFLNK, None, True),
        (stat.S_IFDIR, 0, False),
        (stat.S_IFDIR, JUNCTION, True),
        (stat.S_IFDIR, IN_A_CLOUD, False),
    ],
)
def test_a_junction_is_a_link(mode: int, tag: int | None, expected: bool) -> None:
    about: Any = SimpleNamespace(st_mode=mode)
    if tag is not None:
        about.st_reparse_tag = tag
    assert is_link(about) is expected


def test_a_cache_folder_that_is_a_junction_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    about = SimpleNamespace(st_mode=stat.S_IFDIR, st_reparse_tag=JUNCTION)
    monkeypatch.setattr("os.lstat", lambda path: about)
    with pytest.raises(FrozenError, match="is a link"):
        refuse_unsafe("C:\\cache")


class Held:
    """Denies to rename and to remove as long as another process has something open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.times = times
        self.waited: list[float] = []
        self.rename, self.rmtree = os.rename, shutil.rmtree
        monkeypatch.setattr(folders, "TRIES", 3)
        monkeypatch.setattr(folders, "sleep", self.waited.append)
        monkeypatch.setattr("os.rename", self.renamed)
        monkeypatch.setattr("shutil.rmtree", self.removed)

    def renamed(self, folder: str, place: str) -> None:
        if len(self.waited) < self.times:
            raise PermissionError
        self.rename(folder, place)

    def removed(self, folder: str, ignore_errors: bool) -> None:
        if len(self.waited) >= self.times:
            self.rmtree(folder)


def test_what_is_open_for_a_moment_is_renamed_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, place = tmp_path / "folder", tmp_path / "place"
    folder.mkdir()
    held = Held(monkeypatch, 2)
    rename(str(folder), str(place))
    assert place.is_dir()
    held.waited.clear()
    remove(str(place))
    assert not place.exists()
    assert len(held.waited) == 2


def test_what_stays_open_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, 9)
    with pytest.raises(PermissionError):
        rename(str(tmp_path), str(tmp_path / "place"))
    assert len(held.waited) == 2
    remove(str(tmp_path))
    assert tmp_path.is_dir()


# This machine


@pytest.mark.parametrize(
    ("environ", "machine"),
    [
        ({"PROCESSOR_ARCHITECTURE": "AMD64"}, "AMD64"),
        ({"PROCESSOR_ARCHITECTURE": "x86", "PROCESSOR_ARCHITEW6432": "AMD64"}, "AMD64"),
        ({"PROCESSOR_ARCHITECTURE": "ARM64", "PROCESSOR_ARCHITEW6432": ""}, "ARM64"),
        ({}, "asked"),
    ],
)
def test_windows_names_its_processor_in_variables(
    environ: dict[str, str], machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "asked")
    assert coverage._machine({"PROCESSOR_ARCHITECTURE": "no"}) == "asked"
    monkeypatch.setattr(coverage, "WINDOWS", True)
    assert coverage._machine(environ) == machine


def test_an_environment_of_windows_is_usable_while_its_python_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pypi, "WINDOWS", True)
    for folder in ("env/Scripts", "Üser/Python 3"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "python.exe").touch()
    assert not pypi.is_usable(str(tmp_path))
    home = tmp_path / "Üser/Python 3"
    config = f"home = {home}\r\nversion_info = 3.13.1\r\n"
    (tmp_path / "env/pyvenv.cfg").write_bytes(config.encode())
    assert pypi.is_usable(str(tmp_path))
    (home / "python.exe").unlink()
    assert not pypi.is_usable(str(tmp_path))


def test_an_environment_that_another_python_names_is_not_taken() -> None:
    around = {"__PYVENV_LAUNCHER__": "C:\\other\\Scripts\\python.exe", "PATH": "C:\\bin"}
    env = dict(around)
    drop_foreign_code(env)
    assert env == {"PATH": "C:\\bin"}
    assert of_installers(around, "") == {"PATH": "C:\\bin"}


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


def test_without_a_safe_folder_what_python_compiles_is_kept_nowhere(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.touch()
    digest, count = files_digest(str(script), "python")
    table = {"a": LocalFiles("python", digest, count, 0).rows()}
    (tmp_path / "cache").touch()
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "LOCALAPPDATA": str(tmp_path / "cache")}
    launch = Launch(["python3", str(script)], {}, None, {}, name="a")
    FrozenServers(table, str(tmp_path), environ).prepare(launch, lambda what: None)
    prefix = launch.env["PYTHONPYCACHEPREFIX"]
    with pytest.raises(OSError, match=str(script)):
        os.makedirs(prefix)


@pytest.mark.parametrize("kind", ["lines of a script behind it", "a file beside it"])
def test_a_program_that_starts_what_a_few_lines_say_cannot_be_frozen(
    tmp_path: Path, kind: str
) -> None:
    program = tmp_path / "server.exe"
    program.write_bytes(b"MZ...")
    launch = Launch([str(program)], {}, None, {}, name="a")
    freeze_program(launch)
    if kind == "a file beside it":
        (tmp_path / "server.shim").touch()
    else:
        with ZipFile(program, "a") as archive:
            archive.writestr("__main__.py", "import server")
    with pytest.raises(NotFreezable, match=r"starts server\.exe, a script that runs other"):
        freeze_program(launch)
