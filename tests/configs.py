"""Reads configs for the tests of the first pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagg.passes.config import read_config
from mcpagg.problems import ConfigError
from mcpagg.spec import ProxySpec, ServerSpec

FOLDER = Path("/project")
ENTRY: dict[str, Any] = {"command": "x", "args": ["1"]}


def read(config: object, source: str = "mcp.json", **options: Any) -> tuple[ProxySpec, list[str]]:
    text = config if isinstance(config, bytes) else json.dumps(config).encode()
    options.setdefault("folder", FOLDER)
    spec, warnings = read_config(text, source=source, **options)
    return spec, [str(warning) for warning in warnings]


def entry(**keys: Any) -> ServerSpec:
    [server] = read({"mcpServers": {"a": keys}})[0].servers
    return server


def warnings_of(**keys: Any) -> list[str]:
    return read({"mcpServers": {"a": {"command": "x", **keys}}})[1]


def refusal(config: object, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(config, **options)
    return str(caught.value)


def entry_refusal(**keys: Any) -> str:
    return refusal({"mcpServers": {"a": keys}})
