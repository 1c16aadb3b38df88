"""A proxy that one of its own servers starts refuses to start, however deep it stands."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, posix, served
from wire import call, stub_entry, text, tool_names


def through_shell(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry whose program is started by a shell, and stays below it."""
    line = f"{shlex.join([entry['command'], *entry['args']])}; exit $?"
    return {"command": "sh", "args": ["-c", line]}


@posix("the servers here are started by a shell")
@pytest.mark.parametrize("flags", [(), ("--env", "minimal")], ids=["inherit", "minimal"])
@pytest.mark.parametrize("way", ["directly", "through a shell", "two levels deep"])
def test_a_proxy_that_its_own_server_starts_refuses_to_start(
    tmp_path: Path, way: str, flags: tuple[str, ...]
) -> None:
    # Its file is put where a server expects a program only after it was compiled.
    program = tmp_path / "later.py"
    entry = {"command": sys.executable, "args": [str(program)]}
    entry = through_shell(entry) if way == "through a shell" else entry
    stand_in = shlex.join([stub_entry()["command"], *stub_entry()["args"]])
    program.write_text(f"import os; os.execvp('sh', ['sh', '-c', {stand_in!r}])")
    file = compiled(tmp_path, {"loop": entry, "sound": stub_entry(tools=["echo"])}, *flags)
    program.unlink()
    if way == "two levels deep":
        between = tmp_path / "between"
        between.mkdir()
        target = {"command": sys.executable, "args": [str(file)], "mcpagg": {"nested": True}}
        shutil.move(compiled(between, {"inner": target}, *flags), program)
    else:
        shutil.copy(file, program)
    with served(file) as wire:
        wire.wait_stderr(
            ".*nothing was started: its own server 'loop' has started this proxy, which would"
            " start itself without end.*"
        )
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
