"""Runs both suites directly and through a proxy, and compares what came of each check.

    python compare.py BIN       the folder of `node` and `conformance`; see `run`

Both meet one proxy, of a server that speaks both eras: it is spoken to in that of the client.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

HERE = Path(__file__).parent
REFERENCE = HERE / "reference.py"
SUITES = ("2025-11-25", "2026-07-28")
EXTENSION = "tasks-"
"""The scenarios of an extension that neither the reference nor a proxy has, and nobody scores."""
SUITE_SECONDS = 600


class Check(NamedTuple):
    """One check of a scenario."""

    revision: str
    scenario: str
    check: str


Outcomes = dict[Check, str]


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the block ends."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def reference() -> Iterator[str]:
    """Run the reference server over HTTP; give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(sys.executable, str(REFERENCE), str(port)) as process:
        for attempt in iter(lambda: socket.socket().connect_ex(("127.0.0.1", port)), 0):
            assert process.poll() is None, f"the reference server does not run: {attempt}"
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def proxy(folder: Path) -> Iterator[str]:
    """Compile a proxy of the reference server over stdio and run it; give its URL."""
    config, file = folder / "mcp.json", folder / "server.py"
    entry = {"command": sys.executable, "args": [str(REFERENCE), "stdio"]}
    config.write_text(json.dumps({"mcpServers": {"reference": entry}}))
    options = ["--names", "bare", "--serve", "stdio,http", "--quiet"]
    compiler = str(Path(sys.executable).with_name("mcpagg-compile"))
    compiled = subprocess.run(
        [compiler, str(config), "-o", str(file), *options],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr
    with running(sys.executable, str(file), "--http", "--port", "0") as process:
        assert process.stderr is not None
        yield process.stderr.readline().strip()


def outcomes(tools: Path, revision: str, url: str) -> Outcomes:
    """Run a suite; return the status of each check."""
    with TemporaryDirectory() as folder:
        command = [str(tools / "node"), str(tools / "conformance"), "server", "--url", url]
        command += ["--requirements", revision, "-o", folder]
        subprocess.run(
            command, stdout=subprocess.DEVNULL, check=False, timeout=SUITE_SECONDS, cwd=folder
        )
        found: Outcomes = {}
        for file in Path(folder).glob("*/checks.json"):
            # The folder's name is `server-SCENARIO-TIME`.
            scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
            if not scenario.startswith(EXTENSION):
                for one in json.loads(file.read_text("utf-8")):
                    found[Check(revision, scenario, one["id"])] = one["status"]
    assert found, f"the suite of {revision} has said nothing of {url}"
    return found


def argued() -> set[Check]:
    """Return the differences for which README.md has a reason: the rows of its table."""
    rows = re.findall(
        r"^\| (\d{4}-\d\d-\d\d) \| `([^`]+)` \| `([^`]+)` \|",
        (HERE / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    return {Check(*row) for row in rows}


def main() -> int:
    """Print what differs; return 1 if that is not what README.md says."""
    tools = Path(sys.argv[1])
    direct: Outcomes = {}
    through: Outcomes = {}
    with reference() as url:
        for revision in SUITES:
            direct |= outcomes(tools, revision, url)
    with TemporaryDirectory() as folder, proxy(Path(folder)) as url:
        for revision in SUITES:
            through |= outcomes(tools, revision, url)
    known = argued()
    different = {
        check
        for check in {*direct, *through}
        if direct.get(check, "none") != through.get(check, "none")
    }
    for revision in SUITES:
        for name, found in (("directly", direct), ("proxy", through)):
            all_of = [status for check, status in found.items() if check.revision == revision]
            counts = {status: all_of.count(status) for status in sorted({*all_of})}
            print(f"{revision} {name}: {counts}")
    for check in sorted(different):
        reason = "" if check in known else "  (README.md does not say why)"
        before, after = direct.get(check, "none"), through.get(check, "none")
        print(f"{' '.join(check)}: {before} -> {after}{reason}")
    for check in sorted(known - different):
        print(f"{' '.join(check)}: README.md says that it differs, and it does not")
    return 0 if different == known else 1


if __name__ == "__main__":
    sys.exit(main())
