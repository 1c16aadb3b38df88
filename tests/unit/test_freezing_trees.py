"""What the locks of npm and uv become: lines of a frozen server, and what stops that."""

from __future__ import annotations

from typing import Any

import pytest

from mcpagg.passes.freezing.commands import NotFreezable, NpmRequest
from mcpagg.passes.freezing.npm import left_out, tree_of
from mcpagg.passes.freezing.pypi import console_scripts, packages_of
from mcpagg.passes.freezing.wheels import PLATFORMS, VERSIONS, Wheels, coverage
from mcpagg_runtime.frozen.coverage import fits

HASH = "sha512-" + "A" * 86 + "=="
HOST = "https://npm.example/private/"


def entry(name: str, version: str = "1.0.0", /, **members: Any) -> dict[str, Any]:
    base = name.rpartition("/")[2]
    resolved = f"{HOST}{name}/-/{base}-{version}.tgz"
    return {"version": version, "resolved": resolved, "integrity": HASH, **members}


def lock(**packages: dict[str, Any]) -> dict[str, dict[str, Any]]:
    top = entry("top", bin={"top": "dist/index.js"})
    return {"": {}, "node_modules/top": top} | {
        "node_modules/" + path.replace(">", "/node_modules/"): one for path, one in packages.items()
    }


TOP = NpmRequest((("top", "latest"),), args=2)


def rows(packages: dict[str, dict[str, Any]], *scripts: str) -> list[str]:
    return tree_of(TOP, packages, scripts).rows()


def test_a_lock_is_a_line_a_package_without_any_host() -> None:
    packages = {
        "@s/dep": entry("@s/dep", "2.0.0-rc.1"),
        "top>dep": entry("dep"),
        "alias": entry("dep", "3.0.0", name="dep"),
        "bin": entry("bin", os=["linux", "!win32"], cpu=["x64"], libc=["glibc"], optional=True),
        "odd": entry("odd", resolved=f"{HOST}files/odd.tgz"),
        "bundled": {"version": "1.0.0", "inBundle": True},
    }
    found = rows(lock(**packages))
    assert found == [
        "npm top 1.0.0 top/dist/index.js args=2",
        f"@s/dep 2.0.0-rc.1 {HASH}",
        f"alias 3.0.0 {HASH} name=dep",
        f"bin 1.0.0 {HASH} os=linux,!win32 cpu=x64 libc=glibc optional",
        f"odd 1.0.0 {HASH} via-metadata",
        f"top 1.0.0 {HASH}",
        f"top>dep 1.0.0 {HASH}",
    ]
    assert "npm.example" not in "".join(found)


def test_an_archive_of_no_registry_keeps_its_url() -> None:
    url = "https://files.example/dep-1.0.0.tgz"
    packages = lock(dep=entry("dep", resolved=url))
    packages["node_modules/top"]["dependencies"] = {"dep": url}
    assert f"dep 1.0.0 {HASH} url={url}" in rows(packages)
    secret = url.replace("files", "me:pw@files")
    packages = lock(dep=entry("dep", resolved=secret))
    packages["node_modules/top"]["dependencies"] = {"dep": secret}
    with pytest.raises(NotFreezable, match="password") as caught:
        rows(packages)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ({"integrity": ""}, "no SHA-512"),
        ({"integrity": "sha1-abc="}, "no SHA-512"),
        ({"link": True}, "a folder of this machine"),
        ({"hasInstallScript": True}, "runs install scripts: dep"),
    ],
)
def test_what_no_hash_covers_is_refused(member: dict[str, Any], why: str) -> None:
    with pytest.raises(NotFreezable, match=why):
        rows(lock(dep=entry("dep", **member)))


def test_install_scripts_run_for_packages_that_are_named() -> None:
    packages = lock(dep=entry("dep", hasInstallScript=True))
    with pytest.raises(NotFreezable) as caught:
        rows(packages, "other")
    assert caught.value.remedy == "--freeze-scripts dep lets them run"
    assert f"dep 1.0.0 {HASH} scripts" in rows(packages, "dep")


@pytest.mark.parametrize(
    ("bins", "program", "script"),
    [
        ({"top": "./a.js"}, "", "top/a.js"),
        ({"other": "a.js"}, "", "top/a.js"),
        ({"x": "a.js", "y": "a.js"}, "", "top/a.js"),
        ({"x": "a.js", "top": "b.js"}, "", "top/b.js"),
        ({"x": "a.js", "y": "b.js"}, "y", "top/b.js"),
        ({"x": "a.js"}, "tool", "dep/tool.js"),
    ],
)
def test_the_program_is_the_one_that_npx_takes(
    bins: dict[str, str], program: str, script: str
) -> None:
    packages = lock(dep=entry("dep", bin={"tool": "tool.js"}))
    packages["node_modules/top"]["bin"] = bins
    request = NpmRequest((("top", "latest"),), program)
    assert tree_of(request, packages).bin == script


@pytest.mark.parametrize(
    ("bins", "program", "why"),
    [
        ({}, "", "which has no program"),
        ({"x": "a.js", "y": "b.js"}, "", "which has several programs"),
        ({"x": "a.js"}, "z", "starts z, which top does not have"),
    ],
)
def test_a_program_that_is_not_there_is_named(bins: dict[str, str], program: str, why: str) -> None:
    packages = lock()
    packages["node_modules/top"]["bin"] = bins
    with pytest.raises(NotFreezable, match=why):
        tree_of(NpmRequest((("top", "latest"),), program), packages)


def test_platforms_are_those_that_all_needed_packages_fit() -> None:
    tree = tree_of(TOP, lock(dep=entry("dep", os=["darwin"])))
    assert tree.on == ("darwin-x64", "darwin-arm64")
    assert left_out(tree).startswith("linux-x64, ")
    assert tree_of(TOP, lock(dep=entry("dep", os="darwin"))).rows() == tree.rows()
    tree = tree_of(TOP, lock(dep=entry("dep", os=["darwin"], optional=True)))
    assert (tree.on, left_out(tree)) == ((), "")
    assert fits({"libc": ["musl"]}, "linux-x64-musl")
    assert not fits({"libc": ["musl"]}, "linux-x64")
    assert not fits({"os": ["!win32"]}, "win32-x64")
    assert not fits({"libc": ["glibc"]}, "darwin-x64")


# Wheels


def wheel(file: str) -> dict[str, Any]:
    return {"url": f"https://index.example/{file}", "hashes": {"sha256": "ab" * 32}}


def locked(**packages: Any) -> list[Wheels]:
    entries = [{"name": name, "version": "1.0", **one} for name, one in packages.items()]
    return [*packages_of({"packages": entries}, 10)]


def test_a_marker_loses_what_the_head_says() -> None:
    pure = [wheel("a-1.0-py3-none-any.whl")]
    floor = "python_full_version >= '3.10'"
    markers = {
        floor: "",
        f"{floor} and sys_platform == 'win32'": "sys_platform == 'win32'",
        "python_full_version >= '3.11'": "python_full_version >= '3.11'",
        f"({floor} and extra == 'a') or os_name == 'nt'": None,
    }
    for marker, left in markers.items():
        [package] = locked(a={"wheels": pure, "marker": marker})
        assert package.marker == (marker if left is None else left)


def test_a_package_without_wheels_is_refused() -> None:
    with pytest.raises(NotFreezable, match="needs a, of which the index has no wheel"):
        locked(a={"sdist": {"name": "a-1.0.tar.gz"}})


def test_a_source_covers_all_and_is_taken_of_what_is_to_be_built_alone() -> None:
    source = {"name": "a-1.0.tar.gz", "hashes": {"sha256": "cd" * 32}}
    entry = {"name": "a", "version": "1.0", "wheels": [wheel("a-1.0-cp27-none-any.whl")]}
    [package] = packages_of({"packages": [{**entry, "sdist": source}]}, 10, ["a"])
    assert package.is_source
    assert coverage([package], 10, 14) == (list(VERSIONS), list(PLATFORMS), {})
    [package] = packages_of({"packages": [{**entry, "sdist": source}]}, 10)
    assert not package.is_source


def compiled(*tags: str) -> Wheels:
    return Wheels("c", "1.0", {f"c-1.0-{tag}.whl": tag for tag in tags})


EVERY = [
    f"cp3{version}-cp3{version}-{platform}"
    for version in VERSIONS
    for platform in (
        "manylinux_2_17_x86_64.manylinux2014_x86_64",
        "manylinux_2_28_aarch64",
        "macosx_10_9_universal2",
        "win_amd64",
        "win_arm64",
    )
]


def test_only_wheels_for_what_is_covered_are_frozen() -> None:
    others = ("cp314-cp314t-win_amd64", "cp39-cp39-win_amd64", "pp311-pypy311_pp73-win_amd64")
    foreign = ("cp312-cp312-musllinux_1_2_x86_64", "cp312-cp312-manylinux_2_17_i686")
    package = compiled(*EVERY, *others, *foreign)
    assert {*package.frozen(package.cells())} == {*EVERY}


def test_wheels_of_the_stable_abi_fit_later_versions() -> None:
    package = compiled("cp311-abi3-win_amd64")
    assert {version for _, version in package.frozen(package.cells())["cp311-abi3-win_amd64"]} == {
        11,
        12,
        13,
        14,
    }


def test_what_is_pure_covers_everything() -> None:
    covered = coverage([compiled("py3-none-any")], 10, 14)
    assert (covered.versions, covered.platforms) == ([*VERSIONS], [*PLATFORMS])
    assert covered.left_out == ""


def test_what_is_not_covered_is_told_with_its_package() -> None:
    less = [tag for tag in EVERY if "macosx" not in tag or "cp314" in tag]
    covered = coverage([compiled(*less)], 10, 13)
    assert covered.versions == [10, 11, 12, 13]
    assert covered.platforms == ["linux-x64", "linux-arm64", "win32-x64", "win32-arm64"]
    assert "darwin-x64, darwin-arm64 (no wheel of c 1.0)" in covered.left_out
    assert "linux-x64-musl, linux-arm64-musl (wheels for musl are left out)" in covered.left_out


def test_versions_of_python_without_wheels_are_left_out() -> None:
    less = [tag for tag in EVERY if "cp314" not in tag]
    assert coverage([compiled(*less)], 10, 14).versions == [10, 11, 12, 13]


def test_a_marker_says_where_wheels_are_needed() -> None:
    needed = Wheels("w", "1.0", {"w-1.0-cp312-none-win_amd64.whl": "h"}, "sys_platform == 'win32'")
    assert {platform for platform, _ in needed.cells()} == {"win32-x64", "win32-arm64"}
    assert Wheels("e", "1.0", {}, "sys_platform == 'emscripten'").cells() == set()


def test_programs_are_those_of_the_entry_points() -> None:
    text = "[console_scripts]\nRun = a.b:main [extra]\nx=a:f\n\n[gui_scripts]\ng = a:g\n"
    assert console_scripts(text) == {"Run": "a.b:main", "x": "a:f"}
    assert console_scripts("") == {}
