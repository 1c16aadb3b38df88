"""YAML becomes values, or an error with its line and column; the clients that write it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from configs import FOLDER, read, refusal

YAML = b"""# of LibreChat
base: &base
  command: npx
  env: {A: b, N: 010, D: 2024-01-01}
mcpServers:
  a:
    <<: *base
    args: ["-y", 8080, 1.10, "yes", no, !!str 5]
    timeout: 90000
"""


def test_yaml_is_read_with_aliases_merge_keys_and_the_text_of_its_numbers() -> None:
    spec, _ = read(YAML, "librechat.yaml")
    [server] = spec.servers
    assert (server.path, server.command) == ("mcpServers.a", "npx")
    assert server.args == ("-y", "8080", "1.10", "yes", "no", "5")
    assert server.env == {"A": "b", "N": "010", "D": "2024-01-01"}
    assert server.timeout == 90


def test_yaml_is_known_without_a_name() -> None:
    assert read(YAML, "-")[0].servers[0].command == "npx"


@pytest.mark.parametrize(
    ("source", "text", "says"),
    [
        ("c.yaml", b"a: b: c\n", "line 1, column 5: not YAML: mapping values are not allowed here"),
        ("c.yml", b"a: [1\nb: 2\n", "line 2, column 2: not YAML: expected ',' or ']'"),
        ("c.yml", b"a:\n  b: 1\n   c: 2\n", "line 3, column 5: not YAML: mapping values"),
        ("c.yml", b"a:\n  - b\n  c: 2\n", "line 3, column 3: not YAML: does not fit what is"),
        ("c.yml", b"a:\n\tb: 1\n", "line 2, column 1: not YAML: begins with a tab; indent with"),
        ("c.yaml", b"a: *none\n", "line 1, column 4: not YAML: found undefined alias"),
        ("c.yaml", b"a: &x [*x]\n", "not YAML: holds an alias to itself"),
        ("c.yaml", b"a: !secret b\n", "line 1, column 4: not YAML: holds a tag that is not under"),
        ("c.yaml", b"[1]: b\n", "line 1, column 1: not YAML: a key must be text"),
        ("c.yaml", b"a: 1\n---\nb: 1\n", "not YAML: "),
        ("c.yaml", b"a: \x07\n", "not YAML: holds a character that YAML does not allow"),
        ("c.yaml", b"<<: 1\n", "line 1, column 5: not YAML: `<<` merges objects only"),
        ("c.yaml", b"[\n" * 5000, "is nested too deeply"),
        ("c.yaml", b"# nothing\n", "found null"),
    ],
)
def test_a_fault_of_yaml_names_line_and_column(source: str, text: bytes, says: str) -> None:
    assert says in refusal(text, source=source)


def test_a_duplicate_key_in_yaml_is_an_error_with_its_path_and_without_its_value() -> None:
    text = b"mcpServers:\n  a:\n    command: x\n    env: {T: hunter2, T: hunter3}\n"
    message = refusal(text, source="c.yaml")
    assert "mcpServers.a.env.T: this key is written more than once" in message
    assert "hunter" not in message


def test_aliases_cannot_make_a_small_text_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "more values than a config can have" in refusal(
        "\n".join(lines).encode(), source="c.yml"
    )


def test_a_fault_of_yaml_shows_nothing_of_a_value() -> None:
    assert "hunter2" not in refusal(b'token: "hunter2" "x"', source="c.yaml")


def test_a_yaml_config_means_what_the_same_json_means() -> None:
    config: dict[str, Any] = {"mcpServers": {"a": {"command": "x", "args": ["\u2713 '\"", "# no"]}}}
    as_json, _ = read(config, "c.json")
    as_yaml, _ = read(json.dumps(config).encode(), "c.yaml")
    assert as_json.servers == as_yaml.servers


def test_the_tool_lists_of_hermes_are_honoured() -> None:
    text = b"mcp_servers:\n  a:\n    command: x\n    tools: {include: one, exclude: [two]}\n"
    spec, warnings = read(text, "config.yaml", folder=FOLDER / ".hermes")
    assert (spec.servers[0].expose, spec.servers[0].hide, warnings) == (("one",), ("two",), [])
    text = text.replace(b"exclude: [two]", b"resources: false")
    assert "mcp_servers.a.tools.resources: what this withholds" in refusal(
        text, source="config.yaml", folder=FOLDER / ".hermes"
    )
