"""Versions to write into a config: which were meant, what is said of them, how they are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcpagg.passes.config import read_config
from mcpagg.passes.environment.pins import FREEZE, Pin, find_pins, lines, unpinned, write_pins
from mcpagg.spec import ProxySpec, ServerSpec


def pins_of(argv: str, version: str = "1.0") -> Sequence[Pin]:
    """Return the pin of a server with this command line, if it needs one."""
    command, *args = argv.split()
    server = ServerSpec(name="a", path="s.a", command=command, args=tuple(args))
    spec = ProxySpec(source="mcp.json", folder=Path("/none"), servers=(server,))
    return find_pins(spec, {"a": version})


@pytest.mark.parametrize(
    ("argv", "package", "exact"),
    [
        ("npx -y some-server", "some-server", "some-server@1.0"),
        ("npx -y @scope/server@latest dir", "@scope/server@latest", "@scope/server@1.0"),
        ("npx --registry https://r @scope/server@1.2.3", None, ""),
        ("npx --package=a-server@^1.0.0 run", "a-server@^1.0.0", "a-server@1.0"),
        ("cmd /c npx -y some-server", "some-server", "some-server@1.0"),
        ("npx.cmd some-server@0.18.1-beta.2", None, ""),
        ("uvx mcp-server-time", "mcp-server-time", "mcp-server-time==1.0"),
        ("uvx some[extra]>=1", "some[extra]>=1", "some[extra]==1.0"),
        ("uvx --from git+ssh://git@h/r x", "git+ssh://git@h/r", "git+ssh://git@h/r@1.0"),
        ("uvx --python 3.12 mcp-server-time==1.2", None, ""),
        ("uvx --from git+https://h/r@main tool", "git+https://h/r@main", "git+https://h/r@1.0"),
        ("uvx --from git+https://h/r@%s tool" % ("0" * 40), None, ""),
        ("/opt/bin/uv tool run x@2.0", None, ""),
        ("uvx ./local", None, ""),
        ("pipx run --backend pip --spec=a b", "a", "a==1.0"),
        (
            "docker run -i --rm -e TOKEN ghcr.io/o/server",
            "ghcr.io/o/server",
            "ghcr.io/o/server:1.0",
        ),
        ("docker run h:50/o/s", "h:50/o/s", "h:50/o/s:1.0"),
        ("docker run -i -v a:b o/server:1.2 --flag", None, ""),
        ("docker run o/server:latest", "o/server:latest", "o/server:1.0"),
        ("docker compose up", None, ""),
        ("node server.js", None, ""),
        ("npx", None, ""),
    ],
)
def test_a_package_without_an_exact_version_is_pointed_out(
    argv: str, package: str | None, exact: str
) -> None:
    pins = pins_of(argv)
    assert [pin.package.written for pin in pins] == ([package] if package else [])
    for pin in pins:
        words = argv.split()
        words[pin.package.place + 1] = words[pin.package.place + 1].replace(str(package), exact)
        assert [pin.pinned.command, *pin.pinned.args] == words
        [warning] = unpinned(pins, each=True)
        assert warning.where == f"s.a.args[{pin.package.place}]"
        assert f"write {pin.exact}, which is what ran" in warning.remedy


@pytest.mark.parametrize(
    ("argv", "inquiry"),
    [
        ("npx -y @a/b", "npm view @a/b version"),
        ("npx a@^1", "npm view 'a@^1' version"),
        ("uvx a[cli]>=2", "pip index versions a"),
        ("uvx --from git+https://h/r@main x", "git ls-remote https://h/r HEAD"),
        (
            "docker run h:50/o/s",
            "docker image inspect --format '{{index .RepoDigests 0}}' h:50/o/s",
        ),
        ("npx a@${V}", "npm view a version"),
    ],
)
def test_where_nobody_knows_what_ran_no_version_is_named(argv: str, inquiry: str) -> None:
    [pin] = pins_of(argv, "" if "$" not in argv else "1.0")
    [warning] = unpinned([pin], each=True)
    there = f"`{inquiry}` says what there is"
    assert warning.remedy == f"{there}; {FREEZE}"
    assert [*lines([pin])] == [f"{pin.path}: what ran is not known; {there}"]


def test_an_image_is_known_by_its_digest() -> None:
    [pin] = pins_of("docker run o/server:latest", f"sha256:{'0' * 64}")
    assert pin.exact == f"o/server@sha256:{'0' * 64}"
    assert not pins_of(f"docker run {pin.exact}")


def test_many_servers_without_an_exact_version_are_one_line() -> None:
    servers = tuple(
        ServerSpec(name=f"s{number}", path="", command="npx", args=("x",)) for number in range(12)
    )
    spec = ProxySpec(source="mcp.json", folder=Path("/none"), servers=servers)
    [warning] = unpinned(find_pins(spec, {}), command="mcpagg-compile mcp.json --pin")
    assert "12 servers without an exact version" in warning.what
    assert warning.what.endswith("s0, s1, s2, s3, s4, s5, s6, s7 and 4 more")
    assert warning.remedy.startswith("mcpagg-compile mcp.json --pin says what to write; --freeze ")
    assert [*unpinned((), each=True)] == [*unpinned(())] == []


JSON = """{
  // "pkg" stays, as does "args": ["pkg"]
  "mcpServers": {
    "other": {"command": "sh", "args": ["pkg"]},   "a": {"command": "npx",
      "args": ["-y", "pkg", "pkg", "pkg-b"], "env": {"pkg": "pkg"}},
    "b": {"command": "uvx", "args": ["--from=pkg", "tool"]},
  }
}
"""
TOML = """[mcp_servers.a] # pkg
command = 'npx'
args = ['-y', 'pkg']
"""
YAML = """mcpServers:
  a:
    command: npx # pkg
    args:
      - -y
      - pkg
"""


def written(text: str, name: str, versions: dict[str, str]) -> tuple[str, Sequence[Pin]]:
    """Write versions into a config of this name."""

    def spec(data: bytes) -> ProxySpec:
        return read_config(data, source=name, folder=Path("/none"))[0]

    data = text.encode()
    pins = find_pins(spec(data), versions)
    done, left = write_pins(data, pins, lambda data: spec(data).servers)
    return done.decode(), left


@pytest.mark.parametrize(
    ("text", "name", "old", "new"),
    [
        (JSON, "mcp.json", '"pkg", "pkg", "pkg-b"', '"pkg@1.2.3", "pkg", "pkg-b"'),
        (JSON.replace("\n", "\r\n"), "mcp.json", '"-y", "pkg"', '"-y", "pkg@1.2.3"'),
        (TOML, "config.toml", "'-y', 'pkg'", "'-y', 'pkg@1.2.3'"),
        (YAML, "config.yaml", "      - pkg", "      - pkg@1.2.3"),
    ],
)
def test_a_version_is_written_into_its_argument_alone(
    text: str, name: str, old: str, new: str
) -> None:
    assert written(text, name, {"a": "1.2.3"})[0] == text.replace(old, new)


def test_what_is_not_known_is_not_written_and_is_named() -> None:
    text, left = written(JSON, "mcp.json", {"b": "4.5"})
    assert text == JSON.replace("--from=pkg", "--from=pkg==4.5")
    assert [pin.server.name for pin in left] == ["a"]
    assert written(text, "mcp.json", {})[1][0].server.name == "a"


def test_an_argument_that_two_servers_share_is_left_to_the_reader() -> None:
    text = "mcpServers:\n  a: {command: npx, args: &x [-y, pkg]}\n  b: {command: npx, args: *x}\n"
    done, left = written(text, "c.yaml", {"a": "1.2.3"})
    assert done == text
    assert [pin.server.name for pin in left] == ["a", "b"]
    assert json.dumps("pkg@1.2.3") in next(lines(left))
