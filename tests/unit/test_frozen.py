"""What is frozen: its lines, the locks made of them, digests of local files, the cache folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from proxies import posix

from mcpagg_runtime.frozen import local
from mcpagg_runtime.frozen.cache import TreeCache
from mcpagg_runtime.frozen.contents import difference, write_contents
from mcpagg_runtime.frozen.coverage import is_within, refuse_uncovered, this_platform
from mcpagg_runtime.frozen.docker import pinned
from mcpagg_runtime.frozen.local import CannotBeFrozen, files_digest
from mcpagg_runtime.frozen.locking import lock
from mcpagg_runtime.frozen.npm import failure as npm_failure
from mcpagg_runtime.frozen.npm import (
    lock_of,
    manifest_of,
    npm_command,
    of_platform,
)
from mcpagg_runtime.frozen.programs import Programs
from mcpagg_runtime.frozen.pypi import failure as pypi_failure
from mcpagg_runtime.frozen.pypi import (
    hash_text,
    is_usable,
    python_command,
    requirements_of,
)
from mcpagg_runtime.frozen.table import (
    DockerImage,
    FrozenError,
    NpmPackage,
    NpmTree,
    PypiPackage,
    PypiTree,
    Unreadable,
    read_frozen,
)

DIGEST = f"sha256:{'ab' * 32}"
NPM_ROWS = [
    "npm @a/server 1.2.3 @a/server/dist/index.js on=linux-x64,darwin-arm64 args=2",
    "@a/server 1.2.3 sha512-AA==",
    "@b/linux 1.0.0 sha512-CC== os=linux,!win32 cpu=x64 libc=glibc optional",
    "@b/linux>built 3.0.0 sha512-EE== scripts via-metadata",
    "alias 4.2.3 sha512-DD== name=string-width",
    "alias>made 1.0.0 sha512-FF== url=https://example.com/made.tgz from=none",
]
HASH = hash_text("ab" * 32)
MARKER = "python_full_version < '3.11' and sys_platform == 'linux'"
PYPI_ROWS = [
    "pypi server[all] 1.0 server=server.cli:app.run python>=3.10,<3.15 args=0",
    f"backport 1.0 {HASH} from=github.com/o/r.js ; {MARKER}",
    f"built 1.0 {HASH} source from=none ; sys_platform == 'linux'",
    f"server 1.0 {HASH},{hash_text('cd' * 32)}",
]


OUTSIDE = [
    "..",
    "../a/x.js",
    "a/../../x.js",
    "a/../x.js",
    "/etc/x.js",
    "a//x.js",
    "a/./x.js",
    "a\\..\\x.js",
    "C:a/x.js",
    "a/x\0.js",
    "a/\ud800.js",
    "a/x\n.js",
    "a/..",
]
"""Paths that lead out of a folder, on some system, or are odd."""


# Lines


@pytest.mark.parametrize(
    "rows",
    [
        NPM_ROWS,
        PYPI_ROWS,
        [f"docker mcp/time {DIGEST} tag=latest args=1"],
        [f"docker localhost:5000/mcp/time {DIGEST} args=0"],
        [f"files python {DIGEST} 12 args=1"],
        [f"program {DIGEST}"],
    ],
)
def test_what_is_read_of_rows_is_written_as_the_same_rows(rows: list[str]) -> None:
    assert read_frozen(rows).rows() == rows


def test_lines_are_sorted_whatever_the_order_of_packages() -> None:
    tree = read_frozen(NPM_ROWS)
    assert isinstance(tree, NpmTree)
    tree.packages.reverse()
    assert tree.rows() == NPM_ROWS


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [""],
        ["cargo server 1.0 args=0"],
        ["npm server 1.0 server/index.js"],
        ["npm server 1.0 server/index.js args=one"],
        ["npm server 1.0 server/index.js args=0", "dep 1.0"],
        ["npm server 1.0 server/index.js args=0", "dep 1.0 sha512-AA== unknown"],
        ["npm server 1.0 server/index.js args=0", "dep 1.0 sha512-AA== optional optional"],
        ["npm server 1.0 server/index.js args=0", "dep 1.0 sha1-AA=="],
        ["npm server 1.0 s/i.js args=0", "dep 1.0 sha512-AA==", "dep 1.1 sha512-AA=="],
        ["pypi server 1.0 a=a python>=3.9 args=0", f"dep 1.0 {HASH}", f"dep 1.0 {HASH}"],
        ["npm server 1.0 server/index.js args=0", "dep 1.0 sha512-AA== url=file:///etc"],
        ["npm server 1.0 server/index.js args=0", "dep 1.0 sha512-AA== from=git@h:o/r"],
        *[
            ["npm server 1.0 server/index.js args=0", f"{path} 1.0 sha512-AA=="]
            for path in [*OUTSIDE, "a>.."]
        ],
        *[[f"npm server 1.0 {script} args=0"] for script in ("index.js", *OUTSIDE)],
        ["npm server 1.0 server/index.js on=../x args=0"],
        ["pypi server 1.0 server=server:main >=3.10 args=0"],
        ["pypi server 1.0 server=server:main python>=3.10 args=0", "dep 1.0"],
        ["pypi server 1.0 server=os;x:main python>=3.10 args=0"],
        ["pypi server 1.0 server=server:main() python>=3.10 args=0"],
        ["pypi server 1.0 server=server:main python/usr/bin/python args=0"],
        *[
            ["pypi server 1.0 server=server:main python>=3.10 args=0", line]
            for line in (
                f"dep 1.0\nevil==1 {HASH}",
                f"-r 1.0 {HASH}",
                f"dep 1.0 {HASH} ; python_version > '3' --hash=sha256:{'ab' * 32}",
                f"dep 1.0 {HASH} ; python_version > '3'\nevil==1",
                f"dep 1.0 {HASH} ; ",
                f"dep 1.0 {HASH[1:]}",
                f"dep 1.0 {HASH} source source",
                f"dep 1.0 {HASH} scripts",
                f"dep 1.0 {HASH} from= ; os_name == 'nt'",
                f"dep 1.0 {HASH} url=https://h.example/x.whl",
            )
        ],
        [f"docker --privileged {DIGEST} args=0"],
        ["docker mcp/time sha256:ab args=0"],
        [f"docker mcp/time {DIGEST} args=-1"],
        [f"files ruby {DIGEST} 12 args=1"],
        [f"program {DIGEST}", "dep 1.0 sha512-AA=="],
        ["files python args=0"],
        ["program"],
    ],
)
def test_rows_that_cannot_be_read_are_an_error_of_their_own(rows: list[str]) -> None:
    with pytest.raises(Unreadable):
        read_frozen(rows)


def test_a_field_with_a_space_cannot_be_written() -> None:
    with pytest.raises(Unreadable, match="holds a space"):
        NpmTree("a", "1.0.0", "a/in dex.js", 0, []).rows()


# Locks


def test_a_lock_has_each_package_as_a_dependency_of_what_is_around_it() -> None:
    tree = read_frozen(NPM_ROWS)
    assert isinstance(tree, NpmTree)
    registry = "https://registry.npmjs.org"
    root = {
        "dependencies": {"@a/server": "1.2.3", "alias": "npm:string-width@4.2.3"},
        "optionalDependencies": {"@b/linux": "1.0.0"},
    }
    assert manifest_of(tree) == {"private": True, **root}
    assert lock_of(tree) == {
        "lockfileVersion": 3,
        "requires": True,
        "packages": {
            "": root,
            "node_modules/@a/server": {
                "version": "1.2.3",
                "integrity": "sha512-AA==",
                "resolved": f"{registry}/@a/server/-/server-1.2.3.tgz",
            },
            "node_modules/@b/linux": {
                "version": "1.0.0",
                "integrity": "sha512-CC==",
                "resolved": f"{registry}/@b/linux/-/linux-1.0.0.tgz",
                "optional": True,
                "os": ["linux", "!win32"],
                "cpu": ["x64"],
                "libc": ["glibc"],
                "dependencies": {"built": "3.0.0"},
            },
            "node_modules/@b/linux/node_modules/built": {
                "version": "3.0.0",
                "integrity": "sha512-EE==",
                "hasInstallScript": True,
            },
            "node_modules/alias": {
                "version": "4.2.3",
                "integrity": "sha512-DD==",
                "name": "string-width",
                "resolved": f"{registry}/string-width/-/string-width-4.2.3.tgz",
                "dependencies": {"made": "https://example.com/made.tgz"},
            },
            "node_modules/alias/node_modules/made": {
                "version": "1.0.0",
                "integrity": "sha512-FF==",
                "resolved": "https://example.com/made.tgz",
            },
        },
    }


def test_what_is_optional_is_left_out_or_required_by_the_platform() -> None:
    tree = read_frozen(
        [
            "npm server 1.0.0 server/index.js args=0",
            "any 1.0.0 sha512-AA== optional",
            "any>musl 1.0.0 sha512-AA== libc=musl optional",
            "built 1.0.0 sha512-AA== optional scripts",
            "mac 1.0.0 sha512-AA== os=darwin optional",
            "mac>inner 1.0.0 sha512-AA==",
            "mac>inner>deep 1.0.0 sha512-AA== optional",
            "needed 1.0.0 sha512-AA== os=darwin",
        ]
    )
    assert isinstance(tree, NpmTree)
    assert of_platform(tree, "linux-x64").rows()[1:] == [
        "any 1.0.0 sha512-AA==",
        "built 1.0.0 sha512-AA== optional scripts",  # npm lets its script fail
        "needed 1.0.0 sha512-AA== os=darwin",  # npm says that it does not fit
    ]
    kept = [package.path for package in of_platform(tree, "darwin-arm64").packages]
    assert kept == [package.path for package in tree.packages if package.path[-1] != "musl"]


def test_requirements_have_markers_and_all_hashes() -> None:
    tree = read_frozen(PYPI_ROWS)
    assert isinstance(tree, PypiTree)
    assert requirements_of(tree) == (
        f"backport==1.0 ; {MARKER} \\\n"
        f"    --hash=sha256:{'ab' * 32}\n"
        f"built==1.0 ; sys_platform == 'linux' \\\n    --hash=sha256:{'ab' * 32}\n"
        f"server==1.0 \\\n    --hash=sha256:{'ab' * 32} \\\n    --hash=sha256:{'cd' * 32}\n"
    )


@pytest.mark.parametrize("text", ["", "AA", "not base64!", HASH + HASH])
def test_what_is_no_hash_is_refused(text: str) -> None:
    with pytest.raises(FrozenError, match="cannot be read as a hash"):
        requirements_of(PypiTree("a", "1", "a=a:b", ">=3.9", 0, [PypiPackage("a", "1", [text])]))


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("run=pkg.cli:app.run", "from pkg.cli import app; sys.exit(app.run())"),
        ("run=pkg.cli", "runpy.run_module('pkg.cli', run_name='__main__', alter_sys=True)"),
    ],
)
def test_an_entry_is_a_function_or_a_module(entry: str, code: str, tmp_path: Path) -> None:
    command = python_command(PypiTree("a", "1", entry, ">=3.9", 0, []), str(tmp_path))
    assert command[:2] == [str(tmp_path / "env/bin/python"), "-c"]
    assert command[2].endswith(code)
    compile(command[2], "code", "exec")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"console.log(1)\n", ["node"]),
        (b"#!/usr/bin/env node\n", ["node"]),
        (b"#!/opt/node/bin/node --no-warnings\r\n", ["node", "--no-warnings"]),
        (b"#!/usr/bin/env -S NODE_ENV=x node --use-system-ca\n", ["node", "--use-system-ca"]),
        (b"#!/bin/sh -e\n", ["sh", "-e"]),
        (b"#! /usr/bin/env bun\n", ["bun"]),
        (b"\x7fELF\x02\x01\x01\0", []),
        (b"MZ\x90\0", []),
        (b"\xcf\xfa\xed\xfe\x07\0\0\x01", []),
    ],
)
def test_what_npm_installed_is_started_as_npx_would(
    content: bytes, words: list[str], tmp_path: Path
) -> None:
    """By what its first line names, Node if that names nothing; a native program by itself."""

    class Found(Programs):
        def find(self, name: str) -> str | None:
            return name

    script = tmp_path / "node_modules/server/run"
    script.parent.mkdir(parents=True)
    script.write_bytes(content)
    programs = Found({}, str(tmp_path), "", lambda: None)
    tree = NpmTree("server", "1", "server/run", 0, [])
    assert npm_command(programs, tree, str(tmp_path)) == [*words, str(script)]


@pytest.mark.parametrize("place", ["server/lib", "server/none.js"])
def test_a_program_that_is_no_file_is_named(place: str, tmp_path: Path) -> None:
    (tmp_path / "node_modules/server/lib").mkdir(parents=True)
    programs = Programs({}, str(tmp_path), "", lambda: None)
    with pytest.raises(FrozenError, match=f"no program {place}: "):
        npm_command(programs, NpmTree("server", "1", place, 0, []), str(tmp_path))


@posix("elsewhere an environment has a copy of its Python")
def test_an_environment_is_usable_while_its_python_is_the_one_that_it_was_made_with(
    tmp_path: Path,
) -> None:
    system, link = tmp_path / "system", tmp_path / "env/bin/python"
    system.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(system / "python3")
    (tmp_path / "env/lib/python3.11").mkdir(parents=True)
    assert not is_usable(str(tmp_path))
    (system / "python3").symlink_to("python3.11")
    (system / "python3.11").touch()
    assert is_usable(str(tmp_path))
    (system / "python3").unlink()
    (system / "python3").symlink_to("python3.12")
    (system / "python3.12").touch()
    assert not is_usable(str(tmp_path))


# Failures of installers


def test_npms_words_about_other_bytes_name_the_package() -> None:
    tree = read_frozen(NPM_ROWS)
    assert isinstance(tree, NpmTree)
    output = (
        "npm error code EINTEGRITY\nnpm error sha512-DD== integrity checksum failed when using "
        "sha512: wanted sha512-DD== but got sha512-QQ==. (1 bytes)\n"
        "npm error A complete log of this run can be found in: /x\n"
    )
    assert "string-width 4.2.3 from the registry is not what was" in npm_failure(tree, output)
    gone = "npm error code E404\nnpm error 404 Not Found - GET http://x\nnpm error A complete log\n"
    assert npm_failure(tree, gone) == "npm: code E404; 404 Not Found - GET http://x"
    assert npm_failure(tree, "") == ""


def test_the_words_of_uv_and_pip_about_other_bytes_name_the_package() -> None:
    uv = "  \u00d7 Failed to download `dep==1.0`\n  ╰─▶ Hash mismatch for `dep==1.0`\n"
    pip = (
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you …\n"
        "    dep==1.0 from http://127.0.0.1/files/dep-1.0-py3-none-any.whl#sha256=ab:\n"
    )
    for tool, output in (("uv", uv), ("pip", pip)):
        assert "dep 1.0 from the index is not what was reviewed" in pypi_failure(tool, output)
    assert pypi_failure("pip", "ERROR: No matching\n") == "pip: No matching"
    build = (
        "Collecting first==1\n  Using cached\nCollecting dep==1.0 (from -r requirements.txt)\n"
        "  error: subprocess-exited-with-error\n\n"
        "  \u00d7 Preparing metadata did not run successfully.\n  \u2502 exit code: 1\n\n"
        "\u00d7 Preparing metadata did not run successfully.\n"
    )
    told = pypi_failure("pip", build)
    assert told == "pip: dep==1.0 could not be built: Preparing metadata failed"
    assert pypi_failure("uv", "error: no\n  Caused by: net\n") == "uv: no; net"


# This machine


@pytest.mark.parametrize(
    ("specifier", "versions", "others"),
    [
        (">=3.10", [(3, 10, 0), (3, 14, 2), (4, 0, 0)], [(3, 9, 18)]),
        (">=3.10,<3.15", [(3, 14, 9)], [(3, 15, 0)]),
        ("==3.12.*", [(3, 12, 0), (3, 12, 7)], [(3, 11, 9), (3, 13, 0)]),
    ],
)
def test_versions_of_python_are_within(
    specifier: str, versions: list[tuple[int, ...]], others: list[tuple[int, ...]]
) -> None:
    assert all(is_within(version, specifier) for version in versions)
    assert not any(is_within(version, specifier) for version in others)
    with pytest.raises(FrozenError):
        is_within((3, 9, 0), "~=3.9")


def test_a_tree_for_other_platforms_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    here = this_platform()
    refuse_uncovered(NpmTree("a", "1", "a", 0, [], [here]))
    refuse_uncovered(NpmTree("a", "1", "a", 0, []))
    with pytest.raises(FrozenError, match=f"frozen for win32-arm64, and this is {here}"):
        refuse_uncovered(NpmTree("a", "1", "a", 0, [], ["win32-arm64"]))


def test_an_image_is_pinned_only_if_it_is_the_one_that_was_frozen() -> None:
    image = DockerImage("mcp/time", DIGEST, 0, "1")
    assert pinned("mcp/time:1", image) == f"mcp/time@{DIGEST}"
    with pytest.raises(FrozenError, match="names the image mcp/time:2"):
        pinned("mcp/time:2", image)


# Local files


def written(folder: Path, *names: str) -> Path:
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(name)
    return folder / names[0]


@pytest.mark.parametrize(
    ("language", "counted", "data"),
    [
        (
            "python",
            ["more.py", "package/__init__.py", "space/deep/module.so", "old.pyc", "venv/x.pyd"],
            ["data.json", ".venv/lib/x.py", "no-name/x.py", "__pycache__/more.cpython-39.pyc"],
        ),
        (
            "node",
            ["x.js", "a/x.mjs", "a/package.json", "a-b/x.cjs", "x.node", "x.wasm", "x.ts", "x"],
            ["data.json", "README.md", "lib/x.css", "lib/x.py"],
        ),
    ],
)
def test_what_an_interpreter_loads_by_name_counts_and_nothing_else(
    tmp_path: Path, language: str, counted: list[str], data: list[str]
) -> None:
    script = str(written(tmp_path, "run"))
    before, count = files_digest(script, language)
    written(tmp_path, *data)
    assert files_digest(script, language) == (before, count) == (before, 1)
    seen = {before}
    for number, name in enumerate(counted, 2):
        written(tmp_path, name)
        digest, count = files_digest(script, language)
        assert count == number
        assert digest not in seen
        seen.add(digest)
    (tmp_path / counted[0]).write_text("other")
    assert files_digest(script, language)[0] not in seen


def test_modules_of_node_count_by_their_lock_and_the_package_around_as_well(
    tmp_path: Path,
) -> None:
    package = "package.json"
    script = written(tmp_path, "server/dist/index.js", "server/dist/node_modules/a/index.js")
    digest, count = files_digest(str(script), "node")
    assert count == 2  # without a lock, they are files as all others
    locks = [
        "server/dist/node_modules/.package-lock.json",
        "server/node_modules/.package-lock.json",
        "node_modules/.package-lock.json",
    ]
    written(tmp_path, *locks, f"server/{package}", package, "index.js")
    known, count = files_digest(str(script), "node")
    assert count == 5
    written(tmp_path, "server/dist/node_modules/a/more.js", "node_modules/b/index.js", "x.js")
    assert files_digest(str(script), "node") == (known, 5)
    seen = {known, digest}
    for changed in (*locks, f"server/{package}", "server/lib/more.js"):
        written(tmp_path, changed)
        (tmp_path / changed).write_text("other")
        now = files_digest(str(script), "node")[0]
        assert now not in seen
        seen.add(now)


def test_what_is_too_much_or_a_home_folder_cannot_be_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MOST_FILES", 3)
    script = str(written(tmp_path / "own", "run.py", "a.py", "b.py"))
    files_digest(script, "python")
    written(tmp_path / "own", "c.py")
    with pytest.raises(CannotBeFrozen, match="more than 3 files to load: move the server"):
        files_digest(script, "python")
    monkeypatch.setattr(local, "MOST_FILES", 9)
    monkeypatch.setattr(local, "MOST_BYTES", 9)
    with pytest.raises(CannotBeFrozen, match="MiB of files"):
        files_digest(script, "python")
    for home in ("own", "own/home"):
        monkeypatch.setenv("HOME", str(tmp_path / home))
        monkeypatch.setenv("USERPROFILE", str(tmp_path / home))
        with pytest.raises(CannotBeFrozen, match="is a home folder, or has one"):
            files_digest(script, "python")


def test_a_folder_that_leads_to_itself_is_read_once(tmp_path: Path) -> None:
    script = written(tmp_path, "run.py", "package/a.py")
    (tmp_path / "package/again").symlink_to(tmp_path)
    assert files_digest(str(script), "python")[1] == 2


# The cache


def tree(*packages: NpmPackage) -> NpmTree:
    return NpmTree("a", "1.0.0", "a/index.js", 0, packages)


def test_a_tree_has_a_place_by_its_packages_alone(tmp_path: Path) -> None:
    cache = TreeCache({"XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)})
    first, second = NpmPackage(["a"], "1", "sha512-A"), NpmPackage(["b"], "1", "sha512-B")
    place = cache.place(tree(first, second))
    assert cache.place(NpmTree("b", "2", "b.js", 3, [second, first], [])) == place
    assert cache.place(tree(first)) != place
    other = NpmPackage(["b"], "1", "sha512-C")
    assert cache.place(tree(first, other)) != place
    # Who has built a package changes nothing of what is installed.
    attested = NpmPackage(["a"], "1", "sha512-A", builder="github.com/o/r")
    assert cache.place(tree(attested, second)) == place
    wheels = PypiPackage("a", "1", [HASH], "os_name == 'nt'")
    environment = PypiTree("a", "1", "a=a:b", ">=3.9", 0, [wheels])
    place = cache.place(environment)
    wheels.builder = "none"
    assert cache.place(environment) == place


def test_leftovers_of_trees_go_when_nobody_is_at_them_however_old_they_are(tmp_path: Path) -> None:
    cache = TreeCache({"XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)})
    cache.prepare()
    folder = Path(cache.folder)
    left, live = folder / ".tmp-left-x", folder / ".tmp-live-x"
    for place in (left, live):
        place.mkdir()
        (place / "file").touch()
        os.utime(place, (1, 1))
    (folder / "done.lock").touch()
    (folder / "odd.lock").mkdir()
    with lock(str(folder / "live"), lambda: None):
        cache.prepare()
        assert sorted(folder.iterdir()) == [live, folder / "live.lock", folder / "odd.lock"]
    cache.prepare()
    assert list(folder.iterdir()) == [folder / "odd.lock"]


def test_a_folder_that_was_removed_and_made_again_is_no_tree(tmp_path: Path) -> None:
    cache = TreeCache({"XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)})
    cache.prepare()
    place = str(Path(cache.folder) / "tree")

    def install() -> None:
        with cache.made(place) as folder:
            cache.remove_leftovers(place)
            Path(folder).mkdir()

    with pytest.raises(FrozenError, match="was removed while"):
        install()
    assert list(Path(cache.folder).iterdir()) == []


def test_one_at_a_time_has_the_lock_and_the_last_one_removes_it(tmp_path: Path) -> None:
    place = str(tmp_path / "tree")
    held: list[str] = []
    waits = threading.Event()

    def second() -> None:
        with lock(place, waits.set) as descriptor:
            assert descriptor is not None
            held.append("second")

    with lock(place, lambda: None) as descriptor:
        assert descriptor is not None
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(60)
        held.append("first")
    thread.join()
    assert held == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_what_a_tree_holds_is_known_file_by_file(tmp_path: Path) -> None:
    written(tmp_path, "a/b.js", "c.py")
    (tmp_path / "link").symlink_to("c.py")
    write_contents(str(tmp_path))
    written(tmp_path, "a/__pycache__/x.pyc", "a/.cache/x")
    assert difference(str(tmp_path)) == difference(str(tmp_path), deep=True) == ""
    written(tmp_path, "a/new.js")
    assert difference(str(tmp_path)) == "a/new.js is new"
    (tmp_path / "a/new.js").unlink()
    about = (tmp_path / "c.py").stat()
    (tmp_path / "c.py").write_text("c.pz")
    os.utime(tmp_path / "c.py", ns=(about.st_atime_ns, about.st_mtime_ns))
    assert difference(str(tmp_path)) == ""
    assert difference(str(tmp_path), deep=True) == "c.py has changed"
    (tmp_path / "c.py").write_text("longer")
    assert difference(str(tmp_path)) == "c.py has changed"
    (tmp_path / "c.py").unlink()
    assert difference(str(tmp_path)) == "c.py is gone"
    (tmp_path / "contents.txt").unlink()
    assert difference(str(tmp_path)) == "contents.txt cannot be read"
