"""Who has built packages: what attestations say of it, and how registries are asked."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from registries import REPOSITORY, Registries, registries
from wire import TIMEOUT

from mcpagg.passes.freezing import provenance
from mcpagg.passes.freezing.attestations import Unanswered, npm_builder, pypi_builder
from mcpagg.passes.freezing.running import end_tools
from mcpagg.passes.freezing.trees import builders_of, hashes_of, other_builders
from mcpagg_runtime.frozen.table import NpmTree, PypiTree, read_frozen
from mcpagg_runtime.launch.launch import Launch

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
KINDS = [pytest.param("npm", marks=needs_npm), "pypi"]
ATTESTED = {"deep-dep": REPOSITORY, "helper-dep": "none", "toy-server": "none"}


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Registries]:
    with registries(tmp_path / "machines") as both:
        yield both


def registry(both: Registries, kind: str) -> Any:
    return both.npm if kind == "npm" else both.pypi


def asked(both: Registries, kind: str, folder: Path) -> tuple[dict[str, str], int]:
    """Return who has built the packages of the server, and of how many nothing is known."""
    tree: NpmTree | PypiTree = both.npm_tree() if kind == "npm" else both.pypi_tree()
    launch = Launch(["npx" if kind == "npm" else "uvx"], both.environment(), None, {})
    unknown = provenance.record_builders(tree, hashes_of(tree), launch, folder)
    return {name: builder for (name, _), builder in builders_of(tree).items()}, unknown


# How registries are asked


@pytest.mark.parametrize("kind", KINDS)
def test_a_registry_without_attestations_is_asked_once_and_no_line_says_anything(
    both: Registries, kind: str, tmp_path: Path
) -> None:
    assert asked(both, kind, tmp_path) == (dict.fromkeys(ATTESTED, ""), 0)
    by_us = [path for path in registry(both, kind).requests if kind == "pypi" or "/-/" in path]
    # uv asks for each package once.
    assert len(by_us) == (1 if kind == "npm" else 1 + len(ATTESTED))


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_has_attested_is_not_what_is_unknown(
    both: Registries, kind: str, tmp_path: Path
) -> None:
    registry(both, kind).attest("deep-dep", "1.0.0")
    assert asked(both, kind, tmp_path) == (ATTESTED, 0)
    registry(both, kind).broken = "/-/npm/v1/attestations/deep" if kind == "npm" else "/integrity/"
    assert asked(both, kind, tmp_path) == ({**ATTESTED, "deep-dep": ""}, 1)
    registry(both, kind).broken = "/-/npm/v1/keys" if kind == "npm" else "/simple/"
    assert asked(both, kind, tmp_path) == (dict.fromkeys(ATTESTED, ""), 3)


@needs_npm
def test_a_request_has_an_end_and_so_have_all_of_a_tree(
    both: Registries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.npm.attest("deep-dep", "1.0.0")
    both.npm.held = "/-/npm/v1/attestations/deep-dep@1.0.0"
    monkeypatch.setattr(provenance, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(provenance, "SECONDS", 3600.0)
    assert asked(both, "npm", tmp_path) == ({**ATTESTED, "deep-dep": ""}, 1)
    monkeypatch.setattr(provenance, "SECONDS", -1.0)
    asked_until_then = len(both.npm.requests)
    assert asked(both, "npm", tmp_path) == (dict.fromkeys(ATTESTED, ""), 3)
    assert len(both.npm.requests) == asked_until_then


@needs_npm
def test_a_request_that_never_ends_is_given_up_in_time_and_at_an_interruption(
    both: Registries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.npm.held = "/-/npm/v1/keys"
    monkeypatch.setattr(provenance, "REQUEST_SECONDS", 3600.0)
    monkeypatch.setattr(provenance, "SECONDS", 0.5)
    assert asked(both, "npm", tmp_path) == (dict.fromkeys(ATTESTED, ""), 3)

    monkeypatch.setattr(provenance, "SECONDS", 3600.0)
    both.npm.asked_for_held.clear()
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(asked, both, "npm", tmp_path)
        assert both.npm.asked_for_held.wait(TIMEOUT)
        end_tools()
        assert task.result(TIMEOUT) == (dict.fromkeys(ATTESTED, ""), 3)


@pytest.mark.parametrize("version", ["9" * 5000, "1.x", [1], None])
def test_an_odd_version_of_an_index_is_no_fault(
    both: Registries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: object
) -> None:
    document = {"meta": {"api-version": version}}
    monkeypatch.setattr(provenance.Requests, "document", lambda *_: document)
    assert set(asked(both, "pypi", tmp_path)[0].values()) == {""}


@needs_npm
def test_credentials_of_npm_are_not_used(both: Registries, tmp_path: Path) -> None:
    both.npm.attest("deep-dep", "1.0.0")
    host = both.npm.url.partition(":")[2]
    (Path(both.environment()["npm_config_userconfig"])).write_text(f"{host}/:_authToken=t0ken\n")
    assert asked(both, "npm", tmp_path) == (ATTESTED, 0)
    assert both.npm.authorized == []


def test_a_wheel_that_was_added_without_an_attestation_leaves_the_version_without_one(
    both: Registries, tmp_path: Path
) -> None:
    both.pypi.attest("deep-dep", "1.0.0")
    both.pypi.publish("deep-dep", "1.0.0", {"deep_dep.py": "SAYS = 'bad'\n"}, tag="cp311-none-any")
    tree = both.pypi_tree()
    (line,) = [package for package in tree.packages if package.name == "deep-dep"]
    digest = bytes.fromhex(both.pypi.digest("deep-dep", "1.0.0", "-cp311-none-any.whl"))
    line.hashes.append(base64.urlsafe_b64encode(digest).decode().rstrip("="))
    launch = Launch(["uvx"], both.environment(), None, {})
    assert provenance.record_builders(tree, hashes_of(tree), launch, tmp_path) == 0
    assert line.builder == "none"


# What attestations say


def statement(predicate: object, algorithm: str = "sha512", digest: str = "ab") -> str:
    subject = {"subject": [{"name": "x", "digest": {algorithm: digest}}], "predicate": predicate}
    return base64.b64encode(json.dumps(subject).encode()).decode()


def of_npm(predicate: object, digest: str = "ab", kind: str = "provenance/v1") -> dict[str, Any]:
    envelope = {"payload": statement(predicate, digest=digest)}
    return {
        "attestations": [
            {
                "predicateType": f"https://slsa.dev/{kind}",
                "bundle": {"dsseEnvelope": envelope},
            }
        ]
    }


def built(**parameters: object) -> dict[str, Any]:
    return {"buildDefinition": {"externalParameters": parameters}}


@pytest.mark.parametrize(
    ("document", "builder"),
    [
        (of_npm(built(workflow={"repository": "https://github.com/O/R"})), "github.com/o/r"),
        (of_npm(built(source="https://gitlab.com/g/s/p.git")), "gitlab.com/g/s/p"),
        (
            of_npm(
                {"invocation": {"configSource": {"uri": "git+https://github.com/o/r@refs/x"}}},
                kind="provenance/v0.2",
            ),
            "github.com/o/r",
        ),
        # of another archive, another kind of attestation, none
        (of_npm(built(source="https://github.com/o/r"), digest="cd"), "none"),
        (of_npm({}, kind="verification_summary/v1"), "none"),
        ({}, "none"),
        # of which nothing can be read
        (of_npm({}), ""),
        (of_npm(built(source="https://github.com/o/r x")), ""),
        (of_npm(built(source="https://github.com/o/r/../../evil/x")), ""),
        (of_npm(built(source="https://github.com/o/r\n/x")), ""),
        (of_npm([]), ""),
        ({"attestations": [{"predicateType": "https://slsa.dev/provenance/v1"}]}, ""),
    ],
)
def test_a_statement_names_the_repository_of_its_archive(
    document: dict[str, Any], builder: str
) -> None:
    try:
        assert npm_builder(document, {"ab"}) == builder
    except Unanswered:
        assert builder == ""


@pytest.mark.parametrize(
    ("publisher", "builder"),
    [
        ({"kind": "GitHub", "repository": "O/R", "workflow": "r.yml"}, "github.com/o/r"),
        ({"kind": "GitLab", "repository": "g/s/p"}, "gitlab.com/g/s/p"),
        ({"kind": "Google", "email": "b@x.example"}, "google/b@x.example"),
        ({"kind": "Other"}, "other"),
    ],
)
def test_a_publisher_is_a_repository_or_who_its_kind_names(
    publisher: dict[str, Any], builder: str
) -> None:
    envelope = {"statement": statement(None, "sha256")}
    bundle = {"publisher": publisher, "attestations": [{"envelope": envelope}]}
    assert pypi_builder({"attestation_bundles": [bundle]}, "ab") == builder
    assert pypi_builder({"attestation_bundles": [bundle]}, "cd") == "none"


# What has changed


def tree(*lines: str) -> Any:
    return read_frozen(["npm a 1.0.0 a/a.js args=0", *lines])


def line(version: str, builder: str, path: str = "dep") -> str:
    return f"{path} {version} sha512-AA=={f' from={builder}' if builder else ''}"


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ("x/y", "none", ["dep 1.0.1: was built by x/y, now by an unknown builder"]),
        ("x/y", "x/z", ["dep 1.0.1: was built by x/y, now by x/z"]),
        ("x/y", "x/y", []),
        ("x/y", "", []),  # of which nothing is known
        ("none", "x/y", []),
        ("", "x/y", []),
    ],
)
def test_another_builder_of_a_newer_version_is_named(
    before: str, after: str, texts: list[str]
) -> None:
    found = other_builders(tree(line("1.0.0", before)), tree(line("1.0.1", after)))
    assert [*map(str, found)] == texts


def test_a_version_that_is_there_already_or_has_an_older_one_like_it_is_no_news() -> None:
    both = line("1.0.0", "x/y"), line("2.0.0", "none", "b>dep")
    assert [*other_builders(tree(*both), tree(*both, line("3.0.0", "none", "c>dep")))] == []
    assert [*other_builders(tree(both[0]), tree(line("1.0.0", "none")))] == []
