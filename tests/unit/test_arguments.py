"""The arguments of the command line, and what the emitted file records of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcpagg.command.cli import main
from mcpagg.command.invocation import parse
from mcpagg.options import Options
from mcpagg.passes.emission.recorded import REBUILD
from mcpagg.problems import ConfigError
from mcpagg_runtime.plan import plan


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """Return the path of a file that records options."""
    file = tmp_path / "server.py"
    options = "--only a --only b --on-drift refuse --timeout 5 --allow-failed"
    file.write_text(f"{REBUILD}mcpagg-compile mcp.json -o server.py {options}\n")
    return str(file)


@pytest.mark.parametrize("mode", ["--check", "--offline"])
def test_what_is_given_replaces_what_is_recorded(recorded: str, mode: str) -> None:
    asked = parse([mode, "-o", recorded])
    known = Options(only=("a", "b"), on_drift="refuse", timeout=5, allow_failed=True)
    assert asked.options == known
    assert asked.config == str(Path(recorded).parent / "mcp.json")
    given = parse([mode, "-o", recorded, "--only", "c", "--on-drift", "live", "--skip", "d"])
    assert given.options == replace(known, only=("c",), skip=("d",), on_drift="live")


def test_a_compilation_takes_nothing_from_the_file_that_it_replaces(recorded: str) -> None:
    assert parse(["mcp.json", "-o", recorded]).options == Options()


def test_a_recorded_option_that_is_not_known_is_named_with_the_file(recorded: str) -> None:
    Path(recorded).write_text(f"{REBUILD}mcpagg-compile mcp.json -o server.py --of-old\n")
    with pytest.raises(ConfigError) as caught:
        parse(["--check", "-o", recorded])
    assert str(caught.value).startswith(f"{recorded}: its recorded command: there is no option")


def test_a_file_without_options_is_not_taken_for_one_without_any(
    recorded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(recorded).write_text("# nothing\n")
    parse(["mcp.json", "--offline", "-o", recorded])
    assert "records no options that can be read; give those" in capsys.readouterr().err


def test_an_option_that_no_file_can_hold_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp.json", "--hide", "a:\udcff", "-o", str(tmp_path / "server.py")]) == 2
    assert "--hide holds what is no text in UTF-8" in capsys.readouterr().err


def test_without_a_config_the_ways_to_give_one_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MCP_PROXY_CONFIG_PATH", raising=False)
    assert main(["-o", "x.py"]) == 2
    assert "--from CLIENT for that of a client" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--ofline"], "there is no option --ofline; did you mean `--offline`?"),
        (["--tokn=sentinel"], "there is no option --tokn; see mcpagg-compile --help"),
        (["--names", "portabel"], "--names: 'portabel' is none of its choices; did you mean `p"),
        (["--env", "x"], "--env: 'x' is none of its choices; choose inherit or minimal"),
        (["--timeout", "0"], "--timeout: '0' is no number of seconds above 0"),
        (["a.json", "b.json"], "more than one config is given: 'b.json' is one too many"),
        (["--only"], "--only: expected one argument"),
        (["a.json", "--check", "--dry-run", "-o", "x.py"], "--check does not go with --dry-run"),
        (["--dry-run", "--login", "one"], "--login does not go with --dry-run"),
        (["--sbom", "-"], "--sbom needs the name of a file"),
        (
            ["a.json", "--check", "-o", "x.py", "--structural", "--fail-on", "text"],
            "--structural leaves nothing of what --fail-on names",
        ),
    ],
)
def test_a_wrong_argument_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"mcpagg-compile: {says}")
    assert said.count("\n") == 1
    assert "sentinel" not in said


def test_the_runtime_knows_each_option_that_it_is_to_act_upon() -> None:
    # What serving over HTTP needs is not an option alone: the config says it, too.
    assert plan.Options.__annotations__.keys() - {"http"} == Options().runtime().keys()
