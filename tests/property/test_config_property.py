"""Whatever the input: a spec, or a ConfigError that says something. Never anything else."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagg.passes.config import read_config
from mcpagg.passes.config.dialects import DIALECTS, ROOT_SWITCHES, SERVER_LISTS, Dialect
from mcpagg.passes.config.keys import KEYS, QUIET, UNHONOURED
from mcpagg.passes.config.restrictions import SWITCHES
from mcpagg.passes.environment.environment import check_environment
from mcpagg.problems import ConfigError, EnvironmentFault
from mcpagg.spec import ProxySpec

FOLDER = Path("/no/such/project")

STRINGS = (
    st.sampled_from(
        ["", "npx", "stdio", "http", "https://h/mcp", "${X}", "${input:x}", "$$", "*", "--token"]
    )
    | st.text()
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | STRINGS
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
RESTRICTING = {"sandbox", "deniedHosts", "tools-excluded", "allow_list", "permissions"}
OWN_KEYS = {key for row in DIALECTS for dotted in row.keys for key in dotted.split(".")}
SOME_KEYS = st.sampled_from(
    sorted({*KEYS, *OWN_KEYS, *SWITCHES, *UNHONOURED, *QUIET, *RESTRICTING, "original", "mode"})
)
MAPS = st.dictionaries(STRINGS, SCALARS, max_size=3)
LISTS = st.lists(STRINGS | st.fixed_dictionaries({"original": STRINGS, "exposed": STRINGS}))
ENTRIES = st.dictionaries(SOME_KEYS, SCALARS | MAPS | LISTS | JSON, max_size=6)
SERVERS = st.dictionaries(st.text(max_size=5), ENTRIES, min_size=1, max_size=3) | st.lists(ENTRIES)
CONTAINERS = st.sampled_from([row.container for row in DIALECTS])


def answer(text: bytes, source: str = "mcp.json", **options: Any) -> ProxySpec | None:
    spec, problems = None, None
    try:
        spec, problems = read_config(text, source=source, folder=FOLDER, **options)
    except ConfigError as error:
        problems = error.problems
    assert spec.servers if spec else problems
    assert all(problem.what for problem in problems)
    "\n".join(map(str, problems)).encode()
    return spec


def check(spec: ProxySpec) -> None:
    with contextlib.suppress(EnvironmentFault):
        check_environment(spec, {"PATH": os.defpath, "X": "1"})


SOURCES = st.sampled_from(["mcp.json", "config.toml", "librechat.yaml", "-"])


@given(st.binary(), SOURCES)
def test_any_bytes_get_an_answer(text: bytes, source: str) -> None:
    answer(text, source)


@given(st.text(st.sampled_from("[]{}\"'=:,-#&*!|>< \n1eaté")), SOURCES)
def test_any_text_that_looks_like_toml_or_yaml_gets_an_answer(text: str, source: str) -> None:
    answer(text.encode(), source)


@given(st.text(st.sampled_from('{}[]",:/*\\ \n1eaté')))
def test_any_text_that_looks_like_json_gets_an_answer(text: str) -> None:
    answer(text.encode())


@given(JSON, SOURCES)
def test_any_json_gets_an_answer(value: object, source: str) -> None:
    answer(json.dumps(value).encode(), source)


@settings(max_examples=200)
@given(CONTAINERS, SERVERS, st.booleans(), st.booleans())
def test_any_config_gets_an_answer_and_any_spec_can_be_checked(
    container: tuple[str, ...], servers: object, stdio_only: bool, allow_secrets: bool
) -> None:
    config = servers
    for key in reversed(container):
        config = {key: config}
    spec = answer(json.dumps(config).encode(), stdio_only=stdio_only, allow_secrets=allow_secrets)
    if spec is not None:
        check(spec)


EVERYWHERE = (*ROOT_SWITCHES, *SERVER_LISTS, "policy.denied", "mcp.blocked")
ZED = ("agent.profiles", "agent.profiles.write", "agent.default_profile", "agent.tool_permissions")
NAMED = st.sampled_from(["*", "a", "mcp__a__t", "mcp_a_t", "@a/t", "a:t", "Bash", "mcp:a:t"])
BESIDE = st.recursive(
    SCALARS | NAMED,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            NAMED | st.sampled_from(["tool", "action", "write", "tools", "default_profile"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("row", DIALECTS, ids=lambda row: row.name)
@settings(max_examples=30)
@given(st.data())
def test_whatever_stands_beside_the_servers_gets_an_answer(row: Dialect, data: Any) -> None:
    more = ZED if "agent" in row.tool_patterns else ()
    paths = st.sampled_from([*row.tool_patterns, *row.restricting, *more] or EVERYWHERE)
    beside = data.draw(st.dictionaries(paths | st.sampled_from(EVERYWHERE), BESIDE, max_size=3))
    dotted = data.draw(st.booleans())
    name = row.files[0].replace("*", "x") if row.files else "mcp.json"
    config: dict[str, Any] = {}
    ways = [([path] if dotted else path.split("."), value) for path, value in beside.items()]
    for keys, value in [*ways, ([*row.container], {"a": {"command": "x"}})]:
        holder = config
        for key in keys[:-1]:
            if not isinstance(holder.get(key), dict):
                holder[key] = {}
            holder = holder[key]
        holder[keys[-1]] = value
    with contextlib.suppress(ConfigError):
        read_config(
            json.dumps(config).encode(), source=name.split("/")[-1], folder=(FOLDER / name).parent
        )


VALID = json.dumps(
    {
        "mcpServers": {
            "a": {"command": "npx", "args": ["-y", "é"], "env": {"T": "${T:-x}"}, "timeout": 60},
            "b": {"type": "sse", "url": "https://h/sse", "headers": {"h": "$X"}},
        }
    },
    indent=1,
    ensure_ascii=False,
).encode()


@given(st.integers(0, len(VALID)), st.integers(0, 8), st.binary(max_size=8))
def test_a_damaged_config_gets_an_answer(at: int, cut: int, inserted: bytes) -> None:
    answer(VALID[:at] + inserted + VALID[at + cut :])


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0$~"))))
def test_arguments_reach_the_spec_as_they_are(args: list[str]) -> None:
    spec = answer(
        json.dumps({"mcpServers": {"a": {"command": "x", "args": args}}}).encode(),
        allow_secrets=True,
    )
    assert spec is not None
    kept = [given for given in args if "{env:" not in given]
    assert [arg for arg in spec.servers[0].args if not arg.startswith("${")] == kept
