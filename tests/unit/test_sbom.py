"""The bill of materials: what is started, with a purl where there is one, the same each time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from compilations import compilation, tool

from mcpagg.command.cli import main
from mcpagg.review.sbom import bill_of_materials

SHA = "sha256:" + "0" * 64


def bill(**servers: dict[str, Any]) -> dict[str, Any]:
    # Seconds of work, which no other process of the run has to do at collection.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = bill_of_materials(compilation(servers, tool()))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    read: dict[str, Any] = json.loads(text)
    return read


def packages(command: str, *args: str) -> list[tuple[str | None, str | None]]:
    """Return (purl, version) of what a server depends on."""
    found = bill(a={"command": command, "args": args})
    others = [one for one in found["components"] if one["bom-ref"] != "server:a"]
    depends = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    assert depends["proxy"] == ["server:a"]
    assert depends["server:a"] == [one["bom-ref"] for one in others]
    return [(one.get("purl"), one.get("version")) for one in others]


@pytest.mark.parametrize(
    ("words", "purl", "version"),
    [
        (("npx", "-y", "@scope/x@1.2.3"), "pkg:npm/%40scope/x@1.2.3", "1.2.3"),
        (("npx", "x@latest"), "pkg:npm/x", None),
        (("uvx", "mcp-server-git==2026.10.19"), "pkg:pypi/mcp-server-git@2026.10.19", "2026.10.19"),
        (("uvx", "--from", "x[cli]==1.0", "run"), "pkg:pypi/x@1.0", "1.0"),
        (("docker", "run", "-i", "mcp/fetch:1.2"), "pkg:docker/mcp/fetch@1.2", "1.2"),
        (
            ("docker", "run", "--rm", f"ghcr.io/o/x@{SHA}"),
            f"pkg:docker/o/x@{SHA}?repository_url=ghcr.io",
            SHA,
        ),
        (("uvx", "git+https://host/x@" + "0" * 40), None, "0" * 40),
    ],
)
def test_what_a_command_line_names_has_a_purl(
    words: tuple[str, ...], purl: str | None, version: str | None
) -> None:
    assert packages(*words) == [(purl, version)]


def test_a_program_of_ones_own_is_no_package() -> None:
    assert packages("python3", "serve.py") == []


def test_each_server_has_the_version_that_it_gives_itself() -> None:
    found = bill(a={}, b={"command": "npx", "args": ["x@1.2.3"]})
    servers = [one for one in found["components"] if one["bom-ref"].startswith("server:")]
    assert [(one["name"], one["version"]) for one in servers] == [("a", "1.2.3"), ("b", "1.2.3")]
    assert found["metadata"]["component"]["name"] == "mcp"


def test_a_bill_has_no_time_and_no_chance_in_it() -> None:
    assert bill(a={}) == bill(a={})
    assert "timestamp" not in bill(a={})["metadata"]
    assert bill(a={})["serialNumber"] != bill(b={})["serialNumber"]


def test_a_bill_is_written_beside_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, target = tmp_path / "server.py", tmp_path / "bom.json"
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"db": {"command": "python3"}}}')
    file.write_text(compilation({"db": {}}, tool()).text)
    words = ["--offline", "-o", str(file), "-q", "--sbom", str(target)]
    assert main(words) == 0
    first = target.read_bytes()
    assert main(words) == 0  # a bill of ours is replaced
    assert target.read_bytes() == first
    for name in [name for name in sys.modules if name.startswith("cyclonedx")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "mcpagg.review.sbom")
    assert main(words) == 2
    assert "pip install cyclonedx-python-lib" in capsys.readouterr().err
