"""What changes of what is frozen, and how that is told; images by a stub of docker."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compilations import compilation, tool

from mcpagg.command.arguments import argument_parser
from mcpagg.command.invocation import parse
from mcpagg.options import Options
from mcpagg.passes.emission.recorded import read_contents
from mcpagg.passes.freezing.advisories import Advisory
from mcpagg.passes.freezing.checking import Offered, compared
from mcpagg.passes.freezing.commands import ImageRequest
from mcpagg.passes.freezing.images import resolve_image
from mcpagg.passes.freezing.running import Unresolved
from mcpagg.problems import ConfigError
from mcpagg.review.html_report import render
from mcpagg.review.machine_readable import as_sarif
from mcpagg.review.packages import frozen_changes, offered_changes
from mcpagg.review.report import as_lines
from mcpagg.review.reviewing import review
from mcpagg.review.sbom import bill_of_materials
from mcpagg_runtime.frozen.docker import pinned
from mcpagg_runtime.launch.launch import Launch

HASH, OTHER = ("sha512-" + letter * 86 + "==" for letter in "Aw")
WHEEL = "8HL02ATqNZ5OrxmLGveosJQ4gah_Mbt2T4vyGbuUGeA"
NPM = ["npm top 1.0.0 top/a.js args=1", f"dep 1.0.0 {HASH}", f"top 1.0.0 {HASH}"]
PYPI = ["pypi top 1.0 top=top:main python>=3.10 args=0", f"dep 2.0 {WHEEL} ; os_name == 'nt'"]
ROWS = {"a": NPM, "b": PYPI, "c": [f"docker ghcr.io/o/s sha256:{'0' * 64} tag=1 args=0"]}


def moved(old: str, new: str) -> list[str]:
    return [row.replace(old, new) for row in NPM]


def told(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    return [(change.class_, change.what) for change in frozen_changes("a", before, after)]


def test_what_is_frozen_changes_by_package() -> None:
    assert told(NPM, NPM) == []
    assert told([], NPM) == [("launch", "is frozen now")]
    assert told(NPM, []) == [("launch", "is no longer frozen")]
    assert told(NPM, moved("dep 1.0.0", "dep 1.0.1")) == [("packages", "~dep 1.0.0 → 1.0.1")]
    assert told(NPM, [*NPM, f"top>dep 2.0.0 {HASH}"]) == [("packages", "+dep 2.0.0")]
    assert told(NPM, [NPM[0], NPM[2]]) == [("packages", "-dep 1.0.0")]
    spoilt = [NPM[0], f"dep 1.0.0 {OTHER}", NPM[2]]
    assert told(NPM, spoilt) == [("registry", "!dep 1.0.0: same version, other bytes")]


def test_who_has_built_what_is_frozen_is_a_change_of_its_own() -> None:
    attested = [NPM[0], f"{NPM[1]} from=github.com/o/r", NPM[2]]
    named = [("provenance", "names other builders of its packages")]
    assert told(NPM, attested) == named
    assert told(attested, NPM) == named
    other = [row.replace("dep 1.0.0", "dep 1.0.1") for row in attested]
    assert told(attested, other) == [("packages", "~dep 1.0.0 → 1.0.1")]
    lost = [row.replace("=github.com/o/r", "=none") for row in other]
    assert told(attested, lost) == [
        (
            "provenance",
            "!dep 1.0.1: was built by github.com/o/r, now by an unknown builder",
        ),
        ("packages", "~dep 1.0.0 → 1.0.1"),
    ]


def test_where_a_package_lies_is_no_move_and_yet_a_change() -> None:
    assert told(NPM, [NPM[0], f"top>dep 1.0.0 {HASH}", NPM[2]]) == [
        ("launch", "is frozen otherwise")
    ]


def test_what_is_started_otherwise_is_a_change_of_the_launch() -> None:
    assert told(NPM, moved("top/a.js", "top/b.js")) == [("launch", "is frozen otherwise")]
    assert told(NPM, moved("args=1", "args=2")) == []  # the command has one word more
    assert told(NPM, moved("top 1.0.0", "top 1.0.1")) == [("packages", "~top 1.0.0 → 1.0.1")]
    image = ROWS["c"]
    assert told(image, [image[0].replace("0" * 64, "1" * 64)]) == [
        ("launch", "is frozen otherwise")
    ]


def test_what_registries_offer_is_compared_with_what_is_frozen() -> None:
    dep, top, new = ("dep", "1"), ("top", "1"), ("new", "1")
    old = {dep: frozenset("a"), top: frozenset("bc")}
    assert compared(old, {dep: frozenset("a"), top: frozenset("bcd"), new: frozenset("x")}) == (
        Offered(())
    )
    assert compared(old, {dep: frozenset("x"), top: frozenset("b")}).other == {dep, top}
    assert compared(old, {dep: frozenset()}).gone == {dep}


def test_what_is_offered_is_told_by_package() -> None:
    offered = Offered(
        (*moved("dep 1.0.0", "dep 1.1.0"), f"x 1.0.0 {HASH}"),
        frozenset({("dep", "1.0.0")}),
        frozenset({("top", "1.0.0")}),
        (Advisory("dep", "1.0.0", "high", "Reads files", "GHSA-x", "affects <1.0.1"),),
    )
    assert [(change.class_, change.what) for change in offered_changes("a", NPM, offered)] == [
        ("registry", "!top 1.0.0: same version, other bytes"),
        ("registry", "!dep 1.0.0: gone from the registry"),
        ("advisories", "!dep 1.0.0: high: Reads files (GHSA-x); affects <1.0.1"),
        ("packages", "~dep 1.0.0 → 1.1.0"),
        ("packages", "+x 1.0.0"),
    ]


def test_a_check_tells_of_packages_where_file_is_up_to_date() -> None:
    spoilt = Offered(tuple(moved("dep 1.0.0", "dep 1.0.1")), frozenset({("dep", "1.0.0")}))
    for offered, fails in ((spoilt, True), (spoilt._replace(gone=frozenset()), False)):
        result = replace(
            compilation({"a": {}, "b": {}}, tool(), frozen=ROWS), offered={"a": offered}
        )
        found = review(Path("server.py"), result.text, result)
        assert (found.fails, found.is_of_packages, found.unchanged) == (fails, True, 1)
        assert "    packages           ~dep 1.0.0 → 1.0.1" in [
            line.text for line in as_lines(found)
        ]
        assert "~dep 1.0.0 → 1.0.1" in render(result, found)
        for place in json.loads(as_sarif(found))["runs"][0]["results"]:
            line = place["locations"][0]["physicalLocation"]["region"]["startLine"]
            assert result.text.splitlines()[line - 1] == f' "dep 1.0.0 {HASH}",'


# Other forms of a proxy


def test_a_file_gives_back_what_is_frozen(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    result = compilation({"a": {}, "b": {}}, tool(), frozen={"a": NPM, "b": PYPI})
    file.write_text(result.text, "utf-8")
    assert read_contents(file).frozen == {"a": NPM, "b": PYPI}
    assert "\n".join(f' "{row}",' for row in NPM[:2]) in result.text
    for broken, what in (("npm top", "npx top"), (f" {HASH}", "")):
        file.write_text(result.text.replace(broken, what, 1), "utf-8")
        with pytest.raises(ConfigError, match="cannot be read as a") as caught:
            read_contents(file)
        assert "FROZEN.a" in str(caught.value)


def test_a_bill_names_all_packages_with_their_hashes() -> None:
    entries: dict[str, Any] = {name: {"command": "npx", "args": ["top"]} for name in "abc"}
    rows = {**ROWS, "a": [NPM[0], f"{NPM[1]} from=github.com/o/r", NPM[2]]}
    text = bill_of_materials(compilation(entries, tool(), frozen=rows))
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    hashes = {
        one["purl"]: [(hash_["alg"], len(hash_["content"])) for hash_ in one.get("hashes", ())]
        for one in bill["components"]
        if "purl" in one
    }
    assert hashes == {
        "pkg:npm/dep@1.0.0": [("SHA-512", 128)],
        "pkg:npm/top@1.0.0": [("SHA-512", 128)],
        "pkg:pypi/dep@2.0": [("SHA-256", 64)],
        f"pkg:docker/o/s@sha256:{'0' * 64}?repository_url=ghcr.io": [],
    }
    built = [one["purl"] for one in bill["components"] if "github.com/o/r" in json.dumps(one)]
    assert built == ["pkg:npm/dep@1.0.0"]
    depends = {one["ref"]: one.get("dependsOn") for one in bill["dependencies"]}
    assert depends["server:a"] == ["pkg:npm/dep@1.0.0", "pkg:npm/top@1.0.0"]


def test_the_page_names_the_packages() -> None:
    page = render(compilation({"a": {}}, tool(), frozen={"a": NPM}), None)
    assert "npm top 1.0.0 top/a.js args=1" in page
    assert "dep 1.0.0" in page
    assert HASH not in page.partition("<body")[2]
    attested = [NPM[0], f"{NPM[1]} from=github.com/o/r", f"{NPM[2]} from=none"]
    page = render(compilation({"a": {}}, tool(), frozen={"a": attested}), None)
    assert "dep 1.0.0, built by github.com/o/r" in page
    assert "top 1.0.0, built by an unknown builder" in page


# The option


@pytest.mark.parametrize(
    ("words", "globs", "recorded"),
    [
        (["--freeze", "mcp.json"], ("*",), ["--freeze"]),
        (["mcp.json", "--freeze"], ("*",), ["--freeze"]),
        (
            ["--freeze=a", "mcp.json", "--freeze=b-*"],
            ("a", "b-*"),
            ["--freeze=a", "--freeze=b-*"],
        ),
        (["mcp.json"], (), []),
    ],
)
def test_a_name_to_freeze_follows_an_equals_sign(
    words: list[str], globs: tuple[str, ...], recorded: list[str]
) -> None:
    run = parse(words)
    assert (run.config, run.options.freeze) == ("mcp.json", globs)
    assert run.options.words() == recorded


def test_the_help_shows_that_a_name_may_be_left_out() -> None:
    help_ = argument_parser().format_help()
    assert "[--freeze[=NAME]] " in help_
    assert "\n  --freeze[=NAME]       record every" in help_
    assert "--freeze NAME" not in help_


def test_a_name_without_one_is_explained() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(["--freeze", "a", "mcp.json"])
    assert "'mcp.json' is one too many; a value of --freeze follows `=`" in str(caught.value)
    assert Options(freeze=("*",), freeze_scripts=("esbuild",)).words() == [
        "--freeze",
        "--freeze-scripts",
        "esbuild",
    ]


# Images


def docker(folder: Path, answers: dict[str, str]) -> Launch:
    """Return the launch of a stub of docker: {first word: what it prints}; else it fails."""
    program = folder / "docker"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nanswers = {answers!r}\n"
        "if sys.argv[1] not in answers:\n    sys.exit('Cannot connect to the Docker daemon')\n"
        "print(answers[sys.argv[1]])\n"
    )
    program.chmod(0o755)
    return Launch([str(program), "run", "o/s"], {"PATH": str(folder)}, None, {})


DIGEST, TAGGED = (f"sha256:{digit * 64}" for digit in "01")


@pytest.mark.skipif(sys.platform == "win32", reason="the stub is a script of POSIX")
@pytest.mark.parametrize(
    ("written", "answers", "row"),
    [
        ("o/s", {"image": f'["o/s@{DIGEST}"]'}, f"docker o/s {DIGEST} args=2"),
        (
            "o/s:1",
            {"image": f'["h/o/s@{TAGGED}", "o/s@{DIGEST}"]'},
            f"docker o/s {DIGEST} tag=1 args=2",
        ),
        ("s", {"image": f'["docker.io/library/s@{DIGEST}"]'}, f"docker s {DIGEST} args=2"),
        ("o/s:1", {"buildx": f'"{DIGEST}"'}, f"docker o/s {DIGEST} tag=1 args=2"),
        ("o/s", {"image": "null", "buildx": f'"{DIGEST}"'}, f"docker o/s {DIGEST} args=2"),
        ("h:50/o/s", {"buildx": f'"{DIGEST}"'}, f"docker h:50/o/s {DIGEST} args=2"),
        (f"o/s@{DIGEST}", {}, f"docker o/s {DIGEST} args=2"),
    ],
)
def test_an_image_is_frozen_by_its_digest(
    tmp_path: Path, written: str, answers: dict[str, str], row: str
) -> None:
    request = ImageRequest("docker", written, 2)
    image = resolve_image(request, docker(tmp_path, answers), tmp_path)
    assert image.rows() == [row]
    assert pinned(written, image).endswith(f"@{DIGEST}")


@pytest.mark.skipif(sys.platform == "win32", reason="the stub is a script of POSIX")
def test_an_image_that_nobody_knows_is_named(tmp_path: Path) -> None:
    request = ImageRequest("docker", "o/s", 0)
    with pytest.raises(Unresolved, match="docker says: Cannot connect to the Docker daemon"):
        resolve_image(request, docker(tmp_path, {}), tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="the stub is a script of POSIX")
def test_a_docker_without_buildx_is_named_beside_why_no_image_is_known(tmp_path: Path) -> None:
    launch = docker(tmp_path, {})
    program = tmp_path / "docker"
    usage = "if sys.argv[1] == 'buildx':\n    sys.exit('unknown flag: --format\\nUsage: docker')\n"
    program.write_text(program.read_text().replace("if sys", f"{usage}if sys", 1))
    with pytest.raises(Unresolved) as caught:
        resolve_image(ImageRequest("docker", "o/s", 0), launch, tmp_path)
    assert "Cannot connect to the Docker daemon; docker has no buildx" in str(caught.value)
    assert "Usage" not in str(caught.value)
