"""The command line of the emitted file, as people and scripts use it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled, posix, running
from wire import initialize, stub_entry, tool_names

from mcpagg.command.cli import main

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
    "required": ["n"],
}
TYPED = {"name": "typed", "description": "Typed.", "inputSchema": SCHEMA}


def asked(file: Path, *arguments: str, **options: Any) -> tuple[int, str, str]:
    """Run an emitted file with arguments; return its status and what it wrote."""
    command = [sys.executable, "-I", "-S", str(file), *arguments]
    done = subprocess.run(command, capture_output=True, check=False, **options)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an emitted file of two servers."""
    folder = tmp_path_factory.mktemp("command_line")
    return compiled(folder, {"one": stub_entry(tools=["echo", TYPED]), "two": stub_entry()})


def test_help_says_that_no_argument_serves_and_version_what_wrote_it(file: Path) -> None:
    status, out, _ = asked(file, "-h")
    assert status == 0
    assert "Without arguments" in out
    status, out, _ = asked(file, "--version")
    assert (status, out.startswith("mcp "), ", compiled by mcpagg " in out) == (0, True, True)


def test_a_profile_is_not_asked_of_a_file_that_has_none(file: Path) -> None:
    for words in ([], ["--list"]):
        status, out, err = asked(file, "--profile", "x", *words)
        assert (status, out) == (2, "")
        assert "error: --profile: this file was compiled without profiles" in err
    assert "--profile PROFILE" not in asked(file, "-h")[1]


def test_a_call_takes_no_arguments_or_typed_ones(file: Path) -> None:
    for words, arguments in [
        (["one:echo"], {}),
        (["one:typed", "n=3", "s=4"], {"n": 3, "s": "4"}),
        (["one_typed", "n=3"], {"n": 3}),
        (["one:typed", '{"n": "as it is"}'], {"n": "as it is"}),
    ]:
        status, out, err = asked(file, "--call", *words)
        assert (status, err) == (0, "")
        assert json.loads(json.loads(out)["content"][0]["text"]) == arguments
    assert asked(file, "--call", "one:typed", "n=x") == (2, "", "mcp: n: 'x' is no integer\n")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("one:tiped", "did you mean one:typed?"),
        ("tree:echo", "there is no server 'tree'; it has one, two"),
        ("ecko", "Tool name must be prefixed with server key: ecko (code -32602)"),
    ],
)
def test_what_may_have_been_meant_is_said_on_stderr(file: Path, name: str, hint: str) -> None:
    status, out, err = asked(file, "--call", name)
    assert (status, out) == (1, "")
    assert hint in err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('"error":"broken"', "mcp: broken\n"),
        ('"error":[1]', "mcp: [1]\n"),
        ('"result":[1]', "mcp: the result is no object\n"),
    ],
)
def test_of_an_answer_that_the_protocol_does_not_know_a_call_says_so(
    answer: str, said: str, tmp_path: Path
) -> None:
    file = compiled(tmp_path, {"one": stub_entry(tools=["raw_line"])})
    line = json.dumps({"line": f'{{"jsonrpc":"2.0","id":ID,{answer}}}'})
    assert asked(file, "--call", "one:raw_line", line) == (1, "", said)


def test_of_a_server_that_was_left_out_a_call_says_why(tmp_path: Path) -> None:
    servers = {"gone": {"command": sys.executable, "args": ["-c", ""]}, "one": stub_entry()}
    file = compiled(tmp_path, servers, "--allow-failed")
    status, _, err = asked(file, "--call", "gone:echo")
    assert status == 1
    assert "server 'gone' was left out when this was compiled, because it failed\n" in err


def test_what_a_server_answers_a_call_with_is_fit_to_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "Zq7SuperSecretValue" + "9xK"
    error = {"code": -1, "message": f"\x1b[2J\u202ebad key {secret}", "data": [secret]}
    entry = {**stub_entry(answers={"tools/call": {"error": error}}), "env": {"APP_TOKEN": "${KEY}"}}
    monkeypatch.setenv("KEY", secret)
    file = compiled(tmp_path, {"one": entry})
    status, out, err = asked(file, "--call", "one:echo")
    assert (status, out) == (1, "")
    assert err == 'mcp: ?bad key ${KEY} (code -1) ["${KEY}"]\n'
    status, out, err = asked(file, "--call", "one:\x1b[2Jx")
    assert (status, out, "\x1b" in err) == (1, "", False)


def test_a_listing_shows_arguments_in_short_and_schemas_as_json(file: Path) -> None:
    _, out, _ = asked(file, "--list")
    assert out.splitlines()[:3] == [
        "one: 2 tools",
        "  one:echo()  Does echo.",
        "  one:typed(n, s?)  Typed.",
    ]
    _, out, _ = asked(file, "--list", "--names", "portable")
    assert "  one_typed(n, s?)  Typed.\n" in out
    _, out, _ = asked(file, "--list", "--json")
    assert json.loads(out)["servers"]["one"]["tools"][1]["inputSchema"] == SCHEMA


def test_names_can_be_chosen_when_it_is_run(file: Path) -> None:
    shown = {"portable": "two_echo", "spec": "two:echo"}
    for names, name in shown.items():
        for client in ("cursor", "mcp"):
            with running(file, "--names", names) as wire:
                initialize(wire, client_info={"name": client, "version": "1"})
                assert tool_names(wire)[-1] == name


@pytest.mark.parametrize(
    "arguments",
    [
        ["--save", "x"],
        ["--text"],
        ["--names", "portable", "--check"],
        ["--names", "bare"],
        ["--json"],
    ],
)
def test_what_does_not_go_together_is_refused(file: Path, arguments: list[str]) -> None:
    status, out, err = asked(file, *arguments)
    assert (status, out, "error: " in err) == (2, "", True)


def test_the_texts_of_a_result_are_printed_alone(tmp_path: Path) -> None:
    content = [
        {"type": "text", "text": "one\r\n\ttwo\x1b[2J\n"},
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x:y", "text": "\u65e5"}},
        {"type": "text"},
    ]
    file = compiled(tmp_path, {"one": stub_entry(tools=["raw_result"])})
    for more, expected in (({}, 0), ({"isError": True}, 1)):
        arguments = json.dumps({"json": json.dumps({"content": content, **more})})
        status, out, err = asked(file, "--call", "one:raw_result", arguments, "--text")
        assert (status, out, err) == (expected, "one\n\ttwo\n\u65e5\n", "")


def test_images_and_blobs_are_saved(tmp_path: Path) -> None:
    data = base64.b64encode(b"\x89PNG").decode()
    content = [
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "text", "text": "words"},
        {"type": "resource", "resource": {"uri": "x:/../../etc", "blob": data}},
        {"type": "audio", "data": "not base64!", "mimeType": "audio/wav"},
    ]
    text = json.dumps({"content": content})
    file = compiled(tmp_path, {"one": stub_entry(tools=["raw_result"])})
    folder = tmp_path / "saved" / "here"
    folder.mkdir(parents=True)
    (folder / "1.png").write_text("was here before")
    arguments = json.dumps({"json": text})
    status, out, err = asked(file, "--call", "one:raw_result", arguments, "--save", str(folder))
    assert (status, err) == (0, "")
    found = json.loads(out)["content"]
    image, blob = folder / "2.png", folder / "3.bin"
    assert found == [
        {"type": "image", "file": str(image), "mimeType": "image/png"},
        content[1],
        {"type": "resource", "resource": {"uri": "x:/../../etc", "file": str(blob)}},
        content[3],
    ]
    assert image.read_bytes() == blob.read_bytes() == b"\x89PNG"
    assert (folder / "1.png").read_text() == "was here before"
    status, out, err = asked(file, "--call", "one:raw_result", "--save", str(folder / "1.png"))
    assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_output_is_right_in_any_locale(tmp_path: Path, encoding: str) -> None:
    odd = {
        "name": "\u65e5\u672c",
        "description": "\u65e5\xa0\u200b\U0001f600",
        "inputSchema": {"type": "object"},
    }
    file = compiled(tmp_path, {"one": stub_entry(tools=[odd, "raw_result"])})
    command = [sys.executable, "-S", str(file)]
    environ = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}

    def run(*arguments: str) -> bytes:
        return subprocess.run(
            [*command, *arguments], capture_output=True, check=True, env=environ
        ).stdout

    people = run("--list").decode(encoding)
    assert "\u65e5" in people if encoding == "utf-8" else "\\u65e5" in people
    listed = json.loads(run("--list", "--json").decode("utf-8"))["servers"]["one"]["tools"][0]
    assert (listed["name"], listed["description"]) == ("one:\u65e5\u672c", odd["description"])
    result = {"content": [{"type": "text", "text": "\u65e5\xa0\u200b\u202e\U0001f600\ud800"}]}
    out = run("--call", "one:raw_result", json.dumps({"json": json.dumps(result)}))
    assert json.loads(out.decode("utf-8")) == result
    assert "\u202e" not in out.decode("utf-8")


COMMANDS = [
    ["--list"],
    ["--list", "--json"],
    ["--env"],
    ["--check"],
    ["--call", "one:echo"],
    ["-h"],
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", COMMANDS)
def test_output_that_cannot_be_written_is_one_line(file: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-I", "-S", str(file), *arguments]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    if arguments in (["--env"], ["-h"]):  # nothing to say; argparse itself gives up without a word
        assert (done.returncode in (0, 2), done.stderr.count(b"\n") <= 1) == (True, True)
        return
    why = b"cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, why)


@pytest.mark.parametrize("closed", ["1", "2"])
@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_closed_stream_is_no_fault(file: Path, arguments: list[str], closed: str) -> None:
    shell = f'exec "$@" {closed}>&-'
    command = ["sh", "-c", shell, "sh", sys.executable, "-I", "-S", str(file), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    # argparse prints help to standard error where there is no standard output.
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert done.stderr == b"" or arguments == ["-h"]


def test_env_says_by_its_status_whether_a_variable_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "sentinel-value")
    env = {"A": "${SOME_TOKEN}", "B": "${NOT_SET:-x}", "OWN": "x", "C": "${OWN}"}
    file = compiled(tmp_path, {"one": {**stub_entry(), "env": env}})
    assert asked(file, "--env")[0] == 0
    monkeypatch.delenv("SOME_TOKEN")
    status, out, err = asked(file, "--env")
    assert (status, err) == (3, "")
    assert (
        out == "SOME_TOKEN  not set  (one: env.A)\nNOT_SET  not set, has a default  (one: env.B)\n"
    )
    assert asked(file, "--env", "--json")[0] == 3
    assert asked(file, "--list")[0] == 0


@posix("asks for a path below /proc")
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_a_log_is_not_written_into_the_protocol(file: Path, tmp_path: Path) -> None:
    with running(file, "--log", "/proc/self/fd/0") as wire:
        assert wire.wait() == 2
        assert (
            wire.stderr == "cannot write the log /proc/self/fd/0: the protocol is spoken over it\n"
        )
    assert asked(file, "--log", "/dev/null", stdin=subprocess.DEVNULL) == (0, "", "")
    lines = tmp_path / "out"
    with lines.open("wb") as out:
        command = [sys.executable, "-I", "-S", str(file), "--log", str(lines)]
        assert (
            subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False).returncode == 2
        )


@pytest.mark.parametrize(("names", "said"), [("auto", True), ("portable", False)])
def test_compiling_says_who_needs_portable_names(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], names: str, said: bool
) -> None:
    compiled(tmp_path, {"one": stub_entry()})
    arguments = [str(tmp_path / "mcp.json"), "-o", str(tmp_path / "server.py"), "--names", names]
    assert main(arguments) == 0
    assert ("Agent frameworks" in capfd.readouterr().out) is said


@pytest.mark.parametrize(
    ("was", "is_now", "said"),
    [
        (
            '\nSERVERS = r"""',
            '\nSERVERS = r"""' + "[" * 100_000,
            'PLAN["servers"] cannot be read: ',
        ),
        ('"tools": r"""', '"tools": r"""' + "[" * 100_000, 'PLAN["snapshot"]["one"]["tools"] can'),
        ('\nCHILDREN = r"""', '\nCHILDREN = r"""5', 'PLAN["children"] cannot be read: unexpected'),
        (
            '\nROUTES = r"""{\n',
            '\nROUTES = r"""{"a": 5,\n',
            "internal fault: AttributeError in ",
        ),
    ],
)
def test_a_table_that_was_broken_by_hand_is_named_with_what_to_do(
    was: str, is_now: str, said: str, file: Path, tmp_path: Path
) -> None:
    text = file.read_text("utf-8")
    assert was in text
    file = tmp_path / "broken.py"
    file.write_text(text.replace(was, is_now, 1), "utf-8")
    ways = [(["--list"], b""), ([], b'{"jsonrpc": "2.0", "id": 1, "method": "x"}\n')]
    for words, given in ways[: 1 if "snapshot" in said else 2]:  # who serves does not look at it
        status, _, err = asked(file, *words, input=given)
        assert (status, err.count("\n")) == (70, 1)
        assert err.startswith(f"{file}: {said}")
        assert err.endswith("; if the file was edited, compile it anew\n")
