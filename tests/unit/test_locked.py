"""`--locked`: what was reviewed is served, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compilations import compilation, tool

from mcpagg.command.mcpb import held, pack
from mcpagg.command.pasting import start_of
from mcpagg.command.results import SERVES
from mcpagg.options import Options
from mcpagg.passes.emission.readback import digest_of
from mcpagg_runtime.launch.launch import BASIC_VARIABLES, Launches

FAKE = {"AWS_PROFILE": "p", "MY_KEY": "k"}
OF_NOBODY = {
    "PATH": "/bin",
    "LANG": "C",
    "TMPDIR": "/t",
    "https_proxy": "http://p",
    "NODE_EXTRA_CA_CERTS": "/c",
    "DISPLAY": ":0",
    "DBUS_SESSION_BUS_ADDRESS": "unix:",
}


@pytest.mark.parametrize(
    ("options", "drift", "minimal"),
    [
        (Options(), "live", False),
        (Options(locked=True), "refuse", True),
        (Options(locked=True, on_drift="live"), "live", True),
        (Options(locked=True, on_drift="warn", env="inherit"), "warn", False),
        (Options(on_drift="refuse", env="minimal"), "refuse", True),
    ],
)
def test_it_is_one_word_for_two_options_and_what_is_given_counts(
    options: Options, drift: str, minimal: bool
) -> None:
    acted_upon = options.runtime()
    assert (acted_upon["on_drift"], acted_upon["env"] == "minimal") == (drift, minimal)
    assert "locked" not in acted_upon
    assert ("--locked" in options.words()) is options.locked
    assert options.drift in SERVES


def test_a_server_sees_what_is_nobodys_own_and_its_own() -> None:
    row = {"command": "x", "args": [], "env": {"MINE": "m"}}
    environ = {**OF_NOBODY, **FAKE}
    env = Launches({"a": row}, environ, "/f", minimal=True).prepare("a").env
    assert env == {**OF_NOBODY, "MINE": "m"}
    assert BASIC_VARIABLES.isdisjoint(FAKE)


def test_the_entry_names_the_digest_that_the_file_has(tmp_path: Path) -> None:
    made = compilation({"a": {}}, tool(description="x"))
    other = compilation({"a": {}}, tool(description="y"))
    digest = digest_of(made.text)
    assert len(digest) == len("sha256:") + 32
    assert digest != digest_of(other.text)
    file = tmp_path / "server.py"
    argv = start_of("all", file, made.data.rows, {}, minimal=True, digest=digest).argv
    assert argv[-2:] == [str(file), digest]


def test_an_extension_names_it_where_it_is_locked() -> None:
    for locked in (False, True):
        made = compilation({"a": {}}, tool(description="x"), locked=locked)
        manifest = json.loads(held(pack(made))["manifest.json"])
        args = manifest["server"]["mcp_config"]["args"]
        assert args[2:] == ([digest_of(made.text)] if locked else [])
