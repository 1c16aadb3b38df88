"""Every client with every child: what the protocol gives the two of them passes the proxy.

The outcome is a table at the end of the tests' output; see `eras_table` in conftest.py.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from eras import ELICITS_SINCE, AnyClient, CallError, Node, NodeClient, RawClient, SdkClient
from mcp.shared.exceptions import MCPDeprecationWarning
from proxies import compiled, served
from shapes import RIGHT, shaped
from validity import check, passed
from wire import (
    LATEST,
    MODERN,
    STUB,
    TAP,
    TIMEOUT,
    Json,
    events,
    legacy_entry,
    modern_entry,
    stub_entry,
    tapped,
)

from mcpagg_runtime.lists.catalogue import Kind

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{MCPDeprecationWarning.__module__}.{MCPDeprecationWarning.__qualname__}"
)

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", LATEST]
PACKAGES = ["@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0"]


Start = Callable[[list[str], Callable[[str, str], Node]], AnyClient]


def raw(version: str) -> Start:
    """Return what starts a client without a library."""
    return lambda command, _: RawClient(command, version)


def python(mode: str) -> Start:
    """Return what starts a client of the Python SDK."""
    return lambda command, _: SdkClient(command, mode)


def typescript(generation: str, mode: str) -> Start:
    """Return what starts a client of the TypeScript SDK."""
    return lambda command, node: NodeClient(command, node(generation, mode))


# By name: what it speaks, and how it is started.
CLIENTS: dict[str, tuple[str, Start]] = {
    "Python auto": (MODERN, python("auto")),
    "Python legacy": (LATEST, python("legacy")),
    "Python modern": (MODERN, python(MODERN)),
    **{f"raw {version}": (version, raw(version)) for version in [*LEGACY, MODERN]},
    "TypeScript 1": (LATEST, typescript("v1", "legacy")),
    "TypeScript 2 legacy": (LATEST, typescript("v2", "legacy")),
    "TypeScript 2 auto": (MODERN, typescript("v2", "auto")),
}
CHILDREN = [f"legacy {version}" for version in LEGACY]
CHILDREN += ["modern", "dual", "dual as legacy", "dual as modern"]

TOOLS = ["echo", "error", "progress", "slow", "sample", "elicit", "roots", "log", "touch", "grow"]
HELLO = {"role": "user", "content": {"type": "text", "text": "Hello"}}
FORM = {"type": "object", "properties": {"answer": {"type": "string"}}}
QUESTIONS: dict[str, Json] = {
    "sample": {
        "method": "sampling/createMessage",
        "params": {"messages": [HELLO], "maxTokens": 9},
    },
    "elicit": {
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": FORM},
    },
    "roots": {"method": "roots/list"},
}
SURFACE: Json = {
    "tools": TOOLS,
    "prompts": ["hello"],
    "resources": ["res://one"],
    "templates": ["any://{id}"],
}
DOES: Json = {
    "error": {"do": "error", "json": json.dumps({"code": 1234, "message": "wrong"})},
    "slow": {"do": "progress", "count": 1000, "every": 3600},
    "log": {"do": "log", "levels": ["warning"]},
}


def entry(child: str, log: Path) -> Json:
    """Return the config entry of a child, "dual" apart."""
    kind, _, version = child.partition(" ")
    options: Json = {**SURFACE, "log": str(log)}
    if kind == "modern":
        asks = {name: {"do": "ask", "requests": {"q": one}} for name, one in QUESTIONS.items()}
        return modern_entry(does={**DOES, **asks}, **options)
    asks = {name: {"do": "ask", **one} for name, one in QUESTIONS.items()}
    completion = {"completion/complete": QUESTIONS["sample"]}
    return legacy_entry(
        does={**DOES, **asks}, newest=version, refuse="answer", asks=completion, **options
    )


class Behind:
    """An emitted proxy of one child, a tap on each side of it."""

    def __init__(self, folder: Path, child: str, dual: Callable[[], str]) -> None:
        """`dual` returns the port at which that server runs."""
        self.child = child
        self.front, self.back, self.log = (folder / name for name in ("front", "back", "log"))
        if child.startswith("dual"):
            own: Json = {"command": "--connect", "args": [dual()]}
        else:
            own = entry(child, self.log)
        self.file = compiled(folder, {"one": tapped(own, self.back)})
        # A child that has just come up is given time before its changes are believed.
        self.edit("SETTLE_SECONDS = 0.5", "SETTLE_SECONDS = 0.0")
        if child.startswith("dual as"):
            both = f'"protocol": "{MODERN}",\n "handshake": "{LATEST}",'
            self.edit(both, f'"protocol": "{self.version}",')
        self.forget()

    def edit(self, old: str, new: str) -> None:
        """Change the emitted file in one place."""
        text = self.file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        self.file.write_text(text.replace(old, new), encoding="utf-8")

    @property
    def version(self) -> str:
        """What the child speaks with the proxy, at best, if that is one version."""
        known = {"modern": MODERN, "dual as legacy": LATEST, "dual as modern": MODERN}
        return known.get(self.child, self.child.partition(" ")[2])

    @property
    def command(self) -> list[str]:
        return [*TAP, str(self.front), *TAP[:-1], str(self.file)]

    def forget(self) -> None:
        for log in (self.front, self.back, self.log):
            log.unlink(missing_ok=True)

    def check(self) -> None:
        """All that the proxy said must have been right, on both sides."""
        assert check(self.front, "server")
        assert check(self.back, "client")
        assert not events(self.log, "fault")


@pytest.fixture(scope="session")
def dual() -> Iterator[str]:
    """Return a port at which the server of the SDK runs, anew for each connection."""
    command = [sys.executable, str(Path(STUB[-1]).with_name("dual.py")), "--fork"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate(timeout=TIMEOUT)


@pytest.fixture(scope="module")
def proxies(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str], Behind]:
    """Return what compiles the proxy of a child, once."""
    known: dict[str, Behind] = {}

    def proxy(child: str) -> Behind:
        if child not in known:
            folder = tmp_path_factory.mktemp("eras")
            known[child] = Behind(folder, child, lambda: request.getfixturevalue("dual"))
        known[child].forget()
        return known[child]

    return proxy


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the TypeScript SDK and what drives it, one for all workers of a run."""
    if shutil.which("npm") is None:
        pytest.skip("needs Node's npm")
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "node"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "client.mjs").exists():
            install = ["npm", "install", "--no-fund", "--no-audit", "--silent", *PACKAGES]
            subprocess.run(install, cwd=folder, check=True)
            shutil.copy(Path(STUB[-1]).with_name("client.mjs"), folder)
    return folder


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], Node]]:
    """Return what starts a process of the TypeScript SDK, once for each way to use it."""
    known: dict[tuple[str, str], Node] = {}

    def started(generation: str, mode: str) -> Node:
        if (generation, mode) not in known:
            folder = request.getfixturevalue("packages")
            known[generation, mode] = Node(folder, generation, mode)
        return known[generation, mode]

    yield started
    for process in known.values():
        process.end()


class Cell:
    """One client with one child, and what they do together."""

    def __init__(self, client: AnyClient, version: str, behind: Behind) -> None:
        self.client = client
        self.version = version
        self.behind = behind

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    def absent(self, operation: str) -> bool:
        """Whether the protocol does not have an operation, for this client or for this child."""
        spoken = self.behind.version or (MODERN if self.is_modern else LATEST)
        if operation == "elicitation":
            return min(self.version, spoken) < ELICITS_SINCE
        if operation == "sampling in completion":
            return spoken == MODERN
        return False

    def connect(self) -> None:
        said = [json.loads(line) for _, sender, line in passed(self.behind.front)]
        versions = [m["result"].get("protocolVersion", "") for m in said if "result" in m]
        shaken = [version for version in versions if version]
        assert shaken == ([] if self.is_modern else [self.version])

    def list(self) -> None:
        names = self.client.names()
        assert names == {
            "tools": [f"one:{name}" for name in TOOLS],
            "prompts": ["one:hello"],
            "resources": SURFACE["resources"],
            "templates": SURFACE["templates"],
        }

    def call(self) -> None:
        assert json.loads(self.client.call("one:echo")) == {"uri": "res://one"}

    def get(self) -> None:
        assert "hello" in self.client.get("one:hello")

    def read(self) -> None:
        assert "res://one" in self.client.read("res://one")

    def complete(self) -> None:
        assert "v" in self.client.complete("one:hello", "a")

    def error(self) -> None:
        with pytest.raises(CallError) as caught:
            self.client.call("one:error")
        assert caught.value.code == 1234

    def progress(self) -> None:
        goes_on = isinstance(self.client, NodeClient)
        assert self.client.progress("one:slow" if goes_on else "one:progress")[0] == 1

    def cancel(self) -> None:
        assert self.client.cancel("one:slow") == "cancelled"
        said = [json.loads(line) for _, who, line in passed(self.behind.back) if who == "client"]
        ids = [m["id"] for m in said if m.get("params", {}).get("name") == "slow"]
        cancelled = [
            m["params"]["requestId"] for m in said if m.get("method") == "notifications/cancelled"
        ]
        assert ids
        assert ids == cancelled

    def sampling(self) -> None:
        assert "sampled" in self.client.call("one:sample")

    def elicitation(self) -> None:
        assert "elicited" in self.client.call("one:elicit")

    def roots(self) -> None:
        assert "file:///root" in self.client.call("one:roots")

    def sampling_in_completion(self) -> str | None:
        """Ask in the middle of what only a client with a handshake can be asked in."""
        found = self.client.complete("one:hello", "ask")
        if self.is_modern:
            assert "-32601" in found
            return "refused"
        assert "sampled" in found
        return None

    def log(self) -> None:
        assert self.client.log("one:log") == "warning"

    def subscribe(self) -> None:
        assert self.client.watch("one:touch", "res://one") == "res://one"

    def change(self) -> None:
        assert "one:grown" in self.client.change("one:grow")


OPERATIONS = [
    "connect",
    "list",
    "call",
    "get",
    "read",
    "complete",
    "error",
    "progress",
    "cancel",
    "sampling",
    "elicitation",
    "roots",
    "sampling in completion",
    "log",
    "subscribe",
    "change",
]


@pytest.fixture
def cell(
    request: pytest.FixtureRequest, proxies: Any, node: Callable[[str, str], Node]
) -> Iterator[Cell]:
    client, child = request.param
    version, start = CLIENTS[client]
    behind = proxies(child)
    peer = start(behind.command, node)
    try:
        peer.connect()
        yield Cell(peer, version, behind)
    finally:
        peer.close()
    behind.check()


@pytest.mark.parametrize(
    ("cell", "key"),
    [((client, child), (client, child)) for child in CHILDREN for client in CLIENTS],
    indirect=["cell"],
    ids=[f"{client} - {child}" for child in CHILDREN for client in CLIENTS],
)
def test_all_that_a_client_and_a_child_have_passes(
    cell: Cell, key: tuple[str, str], record_property: Callable[[str, object], None]
) -> None:
    outcomes: dict[str, str] = {}
    problems: list[str] = []
    for operation in OPERATIONS:
        if cell.absent(operation):
            outcomes[operation] = "-"
            continue
        try:
            special = getattr(cell, operation.replace(" ", "_"))()
            outcomes[operation] = special or "passed"
        except (AssertionError, CallError, TimeoutError) as problem:
            outcomes[operation] = "FAILED"
            problems.append(f"{operation}: {problem!r}")
    record_property("eras", [*key, outcomes])
    assert not problems, "\n\n".join(problems)


LIBRARIES = [name for name in CLIENTS if not name.startswith("raw")]


@pytest.fixture(scope="module")
def misshapen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """Return a proxy of a server whose lists have every wrong shape of an entry, and what it lists.

    That is {list: names or URIs}.
    """
    lists: dict[Kind, list[Json]] = {kind: [] for kind in RIGHT}
    for one in shaped():
        entry = one.entry
        # Each under its own name; what is wrong with names is known to no list.
        if one.pointer not in ("/name", f"/{one.kind.key}"):
            key = one.kind.key
            entry = {**entry, key: f"{entry[key]}{len(lists[one.kind])}"}
        lists[one.kind].append(entry)
    folder = tmp_path_factory.mktemp("misshapen")
    capabilities: Json = {"tools": {}, "prompts": {}, "resources": {}}
    answers = {kind.method: {"result": {kind.member: entries}} for kind, entries in lists.items()}
    options = folder / "options.json"
    options.write_text(
        json.dumps({"capabilities": capabilities, "answers": answers}), encoding="utf-8"
    )
    servers = {"bad": {"command": STUB[0], "args": [*STUB[1:], f"@{options}"]}}
    file = compiled(folder, {**servers, "good": stub_entry(tools=["echo"])})
    with served(file) as wire:
        results = {kind: wire.request(kind.method)["result"] for kind in lists}
    listed = {
        kind.name: [entry[kind.key] for entry in result[kind.member]]
        for kind, result in results.items()
    }
    return file, listed


@pytest.mark.parametrize("client", LIBRARIES)
def test_no_shape_of_an_entry_makes_a_client_refuse_a_list(
    client: str, misshapen: tuple[Path, dict[str, list[str]]], node: Callable[[str, str], Node]
) -> None:
    file, listed = misshapen
    peer = CLIENTS[client][1]([*TAP[:-1], str(file)], node)
    try:
        peer.connect()
        names = peer.names()
    finally:
        peer.close()
    assert names == listed
    assert "good:echo" in names["tools"]
    assert min(map(len, names.values())) > 50
