"""Who is measured: the child itself, proxies compiled for it, and other people's servers."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipe import FLOOR

ECHO, BLOB, RELAY = (
    str(Path(__file__).with_name(name)) for name in ("echo.py", "blob.py", "relay.py")
)
"""The children, of many tools with small results and of one with large ones; the least proxy."""

RELAYS = {"bare relay": "bytes", "relay of ids": "ids"}
"""What a proxy in Python cannot be below, by name: how the relay passes on what it reads."""


@dataclass(frozen=True)
class Scene:
    """What the servers stand before: how many children, how slow to start, with how many tools."""

    children: int
    delay: float = 0
    tools: int = 10

    def __str__(self) -> str:
        return f"{self.children} x {self.delay:g} s, {self.children * self.tools} tools"

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.children}-{self.delay:g}-{self.tools}"


@dataclass
class Workshop:
    """Writes configs, compiles proxies, and knows the command line of each contender."""

    folder: Path
    peers: dict[str, str]
    note: Callable[[str], None]
    """Hears why a contender is missing."""

    def contenders(self, scene: Scene) -> dict[str, list[str]]:
        """Return the command line of each contender, by name."""
        config = self.config(scene)
        found = self.others(config, self.peers)
        proxy = self.proxy(config)
        if proxy:
            own = {"mcpagg": [*FLOOR, proxy], "mcpagg, without -I -S": [sys.executable, proxy]}
            found = own | found
        if scene.children == 1:
            found = {"direct": [*FLOOR, ECHO, str(scene.delay)]} | found
        return found

    def relays(self) -> dict[str, list[str]]:
        """Return the command lines of the least proxies of one child."""
        child = [*FLOOR, ECHO, "0"]
        return {name: [*FLOOR, RELAY, how, *child] for name, how in RELAYS.items()}

    def up_file(self, scene: Scene) -> Path:
        """Return the file that gets a line from each child when it is up."""
        return self.folder / f"up-{scene.name}"

    def config(self, scene: Scene) -> Path:
        """Write the config of a scene."""
        return self.written(scene.name, self.servers(scene))

    def servers(self, scene: Scene) -> dict[str, object]:
        """Return the entries of a scene's children."""
        return {
            f"child{number}": {"command": command, "args": arguments}
            for number, (command, *arguments) in enumerate(self.commands(scene), 1)
        }

    def commands(self, scene: Scene) -> list[list[str]]:
        """Return the command line of each of a scene's children."""
        options = [str(scene.delay), f"up={self.up_file(scene)}", str(scene.tools)]
        return [[*FLOOR, ECHO, *options]] * scene.children

    def written(self, name: str, servers: Mapping[str, object]) -> Path:
        """Write a config of these servers."""
        path = self.folder / f"mcp-{name}.json"
        path.write_text(json.dumps({"mcpServers": servers}, indent=2))
        return path

    def others(self, config: Path, peers: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the command lines of peers, in which `{config}` and `{child}` are replaced."""
        child = shlex.join([*FLOOR, ECHO])
        return {
            name: shlex.split(command.replace("{config}", str(config)).replace("{child}", child))
            for name, command in peers.items()
        }

    def proxy(self, config: Path, *flags: str, env: Mapping[str, str] | None = None) -> str | None:
        """Compile a config, once; None if that fails."""
        output = config.with_suffix(".py")
        if not output.exists():
            command = [*compiler(), str(config), "-o", str(output), *flags]
            run = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
            if run.returncode:
                last = (run.stderr.strip().splitlines() or ["no message"])[-1]
                self.note(f"mcpagg-compile {config.name}: exit {run.returncode}: {last}")
                return None
        return str(output)


def compiler() -> list[str]:
    """Return the command that compiles: beside this Python, else on PATH, else the module."""
    beside = Path(sys.executable).parent
    found = shutil.which("mcpagg-compile", path=beside) or shutil.which("mcpagg-compile")
    return [found] if found else [sys.executable, "-m", "mcpagg"]
