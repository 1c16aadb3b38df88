"""Who is measured: the child itself, proxies compiled for it, and other people's servers."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipe import FLOOR

CHILD = str(Path(__file__).with_name("echo.py"))


@dataclass(frozen=True)
class Scene:
    """What the servers stand before: how many children, and how long each takes to start."""

    children: int
    delay: float = 0

    def __str__(self) -> str:
        return f"{self.children} x {self.delay:g} s"


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
        found = {name: self.peer(command, config) for name, command in self.peers.items()}
        proxy = self.proxy(config)
        if proxy:
            own = {"mcpagg": [*FLOOR, proxy], "mcpagg, without -I -S": [sys.executable, proxy]}
            found = own | found
        if scene.children == 1:
            found = {"direct": [*FLOOR, CHILD, str(scene.delay)]} | found
        return found

    def up_file(self, scene: Scene) -> Path:
        """Return the file that gets a line from each child when it is up."""
        return self.folder / f"up-{scene.children}-{scene.delay:g}"

    def config(self, scene: Scene) -> Path:
        """Write the config of a scene."""
        arguments = [*FLOOR[1:], CHILD, str(scene.delay), str(self.up_file(scene))]
        entry = {"command": FLOOR[0], "args": arguments}
        servers = {f"child{number}": entry for number in range(1, scene.children + 1)}
        path = self.folder / f"mcp-{scene.children}-{scene.delay:g}.json"
        path.write_text(json.dumps({"mcpServers": servers}, indent=2))
        return path

    def peer(self, command: str, config: Path) -> list[str]:
        """Return a peer's command line; `{config}` in it is the config of the scene."""
        return [part.replace("{config}", str(config)) for part in shlex.split(command)]

    def proxy(self, config: Path) -> str | None:
        """Compile a config, once; None if that fails."""
        output = config.with_suffix(".py")
        if not output.exists():
            run = subprocess.run(
                [*compiler(), str(config), "-o", str(output)],
                capture_output=True,
                text=True,
                check=False,
            )
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
