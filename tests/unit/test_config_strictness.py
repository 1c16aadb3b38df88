"""What the standard config has, and what reading a config may cost."""

from __future__ import annotations

import subprocess
import sys

import pytest
from configs import ENTRY, read, refusal


def test_stdio_only_reads_the_standard_config() -> None:
    config = {"mcpServers": {"a": {"type": "stdio", "command": "x", "args": [], "env": {}}}}
    assert len(read(config, stdio_only=True)[0].servers) == 1


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"mcpServers": {"a": {"url": "http://h"}}}, "mcpServers.a.url: is beyond"),
        ({"mcpServers": {"a": {"command": "x", "cwd": "/"}}}, "mcpServers.a.cwd: is beyond"),
        ({"mcpServers": {"a": {"command": "x", "disabled": False}}}, "a.disabled: is beyond"),
        ({"mcpServers": {"a": {"command": "x", "type": "local"}}}, "a.type: is not stdio"),
        ({"mcpServers": {"a": {"command": ["x"]}}}, "a.command: a list is beyond"),
        ({"mcpServers": {"a": ENTRY}, "inputs": []}, "inputs: is beyond"),
        ({"servers": {"a": ENTRY}}, "reads a map called `mcpServers` alone"),
        ({"mcpServers": [{"name": "a", **ENTRY}]}, "reads a map called `mcpServers` alone"),
    ],
)
def test_stdio_only_refuses_everything_else(config: object, says: str) -> None:
    assert says in refusal(config, stdio_only=True)


def test_a_bad_config_is_answered_without_the_slow_imports() -> None:
    script = (
        "import sys, mcpagg.passes.config, mcpagg.passes.environment.environment\n"
        "slow = {'mcp', 'black', 'jinja2', 'asyncio', 'jsonyx', 'ruamel', 'tomllib'}\n"
        "assert not slow & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
