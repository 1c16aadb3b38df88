"""A proxy that one of its own servers starts refuses to start, however deep it stands."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, posix, served
from wire import call, stub, stub_entry, text, tool_names, wait_until

from mcpagg_runtime.start.handover import LOG_DIRECTORY

REFUSAL = "nothing was started: its own server 'loop' has started this proxy"


@posix("the servers here are started by a shell")
@pytest.mark.parametrize("flags", [(), ("--env", "minimal")], ids=["inherit", "minimal"])
@pytest.mark.parametrize("way", ["directly", "through a shell", "two levels deep"])
def test_a_proxy_that_its_own_server_starts_refuses_to_start(
    tmp_path: Path, way: str, flags: tuple[str, ...]
) -> None:
    # What the server starts is put in its place only when the proxy has been compiled.
    program = tmp_path / "later.py"
    entry: dict[str, Any] = {"command": sys.executable, "args": [str(program)]}
    if way == "through a shell":
        entry = {
            "command": "sh",
            "args": ["-c", f"{shlex.join([sys.executable, str(program)])}; exit $?"],
        }
    entry["env"] = {LOG_DIRECTORY: str(tmp_path)}
    program.write_text(f"import os; os.execv({stub_entry()['command']!r}, {stub()!r})")
    file = compiled(tmp_path, {"loop": entry, "sound": stub_entry(tools=["echo"])}, *flags)
    if way == "two levels deep":
        between = tmp_path / "between"
        between.mkdir()
        target = {"command": sys.executable, "args": [str(file)], "mcpagg": {"nested": True}}
        shutil.move(compiled(between, {"inner": target}, "--name", "between", *flags), program)
    else:
        shutil.copy(file, program)
    with served(file) as wire:
        if way == "two levels deep":  # which is told to the one in between
            log = tmp_path / "between.log"
            down = '"server":"inner","state":"down","reason":"exited with status 2"'
            wait_until(lambda: log.exists() and down in log.read_text())
        else:
            wire.wait_stderr(f"server 'loop' exited with status 2.*\n.*{REFUSAL}")
        assert text(call(wire, "sound:echo", x=1)) == '{"x":1}'


def test_another_proxy_within_a_proxy_starts_and_so_do_two_copies_of_it(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    inner = compiled(below, {"own": stub_entry(tools=["echo"])})
    entry = {"command": sys.executable, "args": [str(inner)], "mcpagg": {"nested": True}}
    outer = compiled(tmp_path, {"own": entry, "twin": entry})
    with served(outer) as wire:
        assert text(call(wire, "own:own:echo", x=1)) == '{"x":1}'
        assert text(call(wire, "twin:own:echo", x=2)) == '{"x":2}'
        assert tool_names(wire) == ["own:own:echo", "twin:own:echo"]
