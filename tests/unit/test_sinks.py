"""Every way by which a text leaves a program of ours: enumerated, and made safe where it leaves.

Whoever adds a way has to name it here, with what makes it safe.
"""

from __future__ import annotations

import ast
import base64
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from core import plan

import mcpagg
import mcpagg_runtime
from mcpagg.command import printing
from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.launch.secrecy import Redactor, shown
from mcpagg_runtime.stdio.engine import Engine
from mcpagg_runtime.stdio.standard import print_error
from mcpagg_runtime.tool.calling import Files
from mcpagg_runtime.tool.printing import print_json, print_lines

# What writes, what opens or makes what is written to, and what hands a text to another program.
CALLED = {"print", "write", "writelines", "write_text", "write_bytes", "dump", "Writer"}
MAKERS = {"mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "makedirs", "mkdir", "symlink"}
NAMED = {"sys.stdout", "sys.stderr", "webbrowser.open", "warnings.warn", "ArgumentParser"}
NAMED |= {f"sys.__{name}__" for name in ("stdout", "stderr")}
OPENED_TO_WRITE = ("'w", "'a", "'x", "+", "O_WRONLY", "O_RDWR", "flags")

WAYS = {
    # Lines for people. These make them safe themselves.
    "runtime.stdio.standard.print_error": "shown",
    "runtime.stdio.standard.open_standard_files": "nothing is written",
    "runtime.stdio.engine.Engine.__init__": "descriptor 2, written to by `say` alone: shown",
    "runtime.tool.printing._written": "print_lines: shown; print_json: escaped",
    "runtime.tool.printing.flush_output": "nothing new is written",
    "runtime.tool.printing._configure": "nothing is written",
    "runtime.tool.printing._given_up": "nothing is written",
    "compiler.command.printing": "say, show, rewrite, lines: escaped; give: documents for programs",
    "compiler.command.cli": "asks who watches",
    "compiler.command.console": "asks who watches",
    "compiler.command.arguments": "help and usage, through say and show",
    "runtime.tool.commands.CommandLine.parser": "help and usage; it quotes what the caller typed",
    "compiler.command.login._Redirect.open_browser": "a URL that `refuse_unsafe` let pass",
    "compiler.command.login._Redirect._serve": "a page that has no text of anybody's",
    # Logs and documents for programs.
    "runtime.stdio.log_file.open_log_at": "JSON in ASCII; reasons are shown",
    "runtime.stdio.log_file._opened": "the log, where the user wants it",
    "runtime.tool.calling.Files": "the folder that the caller names; names in it are ours",
    "runtime.launch.approval.signer_of": "a signature of ours, for ssh-keygen",
    "runtime.launch.approval._alternatives": "the user's own file of signers, for ssh-keygen",
    "compiler.passes.freezing": "a temporary folder: what a command asks for, for npm and uv",
    "runtime.frozen": "the user's own cache: packages, and locks made of the file's own lines",
    "runtime.remote.login": "JSON in ASCII, in the user's state folder, under a digest",
    "compiler.passes.emission.output": "FILE and its other forms, where the user wants them",
    "compiler.command.results": "the same",
    "compiler.passes.discovery.cache": "the user's own cache; no value of a variable: see `survey`",
    "compiler.install.compiling._present": "an empty folder, gone again if nothing is installed",
    "compiler.install.installing.write_all": "FILE, its source and record: no value of a client's",
    "compiler.install.uninstalling.remove": "the record, less what was put back",
    "compiler.passes.emission.output.make_folder": "an empty folder, for this user alone",
    # The protocol.
    "runtime.stdio.stdio": "messages",
    "runtime.processes.writer.Writer": "messages, and lines that were made safe",
    "runtime.processes.writer.WriteQueue": "the same",
    "runtime.processes.process": "messages",
    "runtime.start.main": "messages",
    "runtime.http": "messages",
}
"""Every function, class or module that writes, and what makes that safe."""

COMPLAINING = {
    "runtime.stdio.running",
    "runtime.stdio.standard",
    "runtime.stdio.stdio",
    "runtime.http.app",
    "runtime.http.serving",
    "runtime.stdio.log_file",
    "runtime.tool.calling",
    "runtime.tool.commands",
    "runtime.frozen.prefetch",
    "runtime.tool.printing",
    "compiler.__main__",
}
"""What complains without knowing what variables hold: nothing that a server has said."""
WITH_SERVERS = {"runtime.tool.calling": {"call_tool"}}
"""Where texts of servers are at hand all the same: the functions that complain of others."""


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """Return each module of both packages."""
    found = []
    for label, package in (("compiler", mcpagg), ("runtime", mcpagg_runtime)):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found.append((".".join([label, *parts]), ast.parse(path.read_text("utf-8"))))
    return found


def found(inside: str, node: ast.AST, leaves: Callable[[ast.AST], bool]) -> Iterator[str]:
    """Yield the function around each node that `leaves` picks."""
    for child in ast.iter_child_nodes(node):
        if leaves(child):
            yield inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from found(f"{inside}.{child.name}", child, leaves)
        else:
            yield from found(inside, child, leaves)


def writes(node: ast.AST) -> bool:
    """Whether a text may leave here."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in NAMED
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
    if name in ("open", "fdopen"):
        flags = " ".join(map(ast.unparse, [*node.args[1:2], *(one.value for one in node.keywords)]))
        return any(sign in flags for sign in OPENED_TO_WRITE)
    return name in CALLED | MAKERS | {"ArgumentParser"}


def test_every_way_out_is_known_with_what_makes_it_safe() -> None:
    ways = {way for module, tree in sources() for way in found(module, tree, writes)}
    known = {
        way: [name for name in WAYS if f"{way}.".startswith(f"{name}.")] for way in sorted(ways)
    }
    assert [way for way, names in known.items() if not names] == []
    assert WAYS.keys() - {name for names in known.values() for name in names} == set()


def test_nothing_that_a_server_has_said_is_complained_of_where_no_secret_is_known() -> None:
    def complains(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == "print_error"

    for module, tree in sources():
        ways = {way.removeprefix(f"{module}.") for way in found(module, tree, complains)}
        assert not ways or module in COMPLAINING, module
        assert ways <= WITH_SERVERS.get(module, ways)


def test_only_one_method_writes_to_the_stderr_of_an_engine() -> None:
    def sends(node: ast.AST) -> bool:
        is_send = isinstance(node, ast.Attribute) and node.attr == "send"
        return is_send and ast.unparse(node) == "self._stderr.send"

    senders = [way for module, tree in sources() for way in found(module, tree, sends)]
    assert senders == ["runtime.stdio.engine.Engine.say"]


# --- What they make of what is hostile --------------------------------------------------------

S = "Zq7SuperSecretValue" + "9xK"
HOSTILE = f"a\x1b[2J\x1b]52;c;eA==\x07b\u202ec\x9bd\re {S[:9]}\x1b[0m{S[9:]} {S}\ntest: all is well"


def said(text: str) -> None:
    """Have an engine say something that a server of its has said."""
    engine = Engine(Answers(plan({"a": ["t"]})), "/")
    launch = Redactor({S: "TOKEN"})
    engine._supervisor._last_launches["a"] = launch  # type: ignore[assignment]
    engine.say(text)
    engine.close()


OUT: dict[str, Callable[[str], object]] = {
    "engine": said,
    "print_error": print_error,
    "lines": lambda text: print_lines([text]),
    "json": lambda text: print_json({"text": text}),
    "say": printing.say,
    "show": printing.show,
    "show_lines": lambda text: printing.show_lines([printing.Line(text)]),
    "say_lines": lambda text: printing.say_lines([printing.Line(text)]),
}


@pytest.mark.parametrize("way", OUT)
def test_what_is_written_for_people_has_nothing_that_a_terminal_acts_upon(
    way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    OUT[way](HOSTILE)
    written = "".join(capfd.readouterr())
    assert "all is well" in written
    assert all(char.isprintable() or char == "\n" for char in written)


def test_a_line_that_changes_leaves_its_place_in_no_other_way(
    capfd: pytest.CaptureFixture[str],
) -> None:
    printing.rewrite(HOSTILE)
    written = capfd.readouterr().err
    assert "all is well" in written
    assert [char for char in written if not char.isprintable()] == ["\r", "\r", "\n"]


def test_what_an_engine_says_has_no_secret_and_no_line_that_passes_for_another(
    capfd: pytest.CaptureFixture[str],
) -> None:
    said(HOSTILE)
    assert capfd.readouterr().err == "test: ab?c?d e ${TOKEN} ${TOKEN}\n  test: all is well\n"


def test_a_secret_in_two_pieces_is_none_once_what_is_between_them_is_gone() -> None:
    hide = Redactor({S: "TOKEN"}).redact
    assert shown(f"{S[:5]}\x1b[1m{S[5:]}", hide) == "${TOKEN}"
    assert shown("one\ntwo\n") == "one\n  two"


# --- Where results go -------------------------------------------------------------------------

IMAGE = base64.b64encode(b"PNG").decode()


@pytest.mark.parametrize("name", ["file", "File", "FILE"])
@pytest.mark.parametrize(
    ("block", "saved"),
    [
        ({"type": "image", "data": IMAGE, "mimeType": "image/png"}, {"file": "1.png"}),
        ({"type": "image", "data": "no base64"}, {"data": "no base64"}),
        ({"type": "text", "text": "t"}, {"text": "t"}),
    ],
)
def test_a_server_names_no_file(
    tmp_path: Path, name: str, block: dict[str, Any], saved: dict[str, str]
) -> None:
    content = [{**block, name: "/etc/passwd"}, {name: "/etc/passwd", **block}]
    resource = {"type": "resource", "resource": {"blob": IMAGE, name: "/x"}, name: "/y"}
    result = Files(str(tmp_path)).saved({"content": [*content, resource]})
    assert "/etc/passwd" not in json.dumps(result)
    first, second, third = result["content"]
    shown_ = {**saved, **({"file": str(tmp_path / saved["file"])} if "file" in saved else {})}
    assert shown_.items() <= first.items()
    assert first.keys() == second.keys()
    assert os.path.dirname(third["resource"].pop("file")) == str(tmp_path)
    assert third == {"type": "resource", "resource": {}}
