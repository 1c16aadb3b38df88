"""The emitted file as a module: `from server import Aggregator`."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proxies import compiled
from wire import Process, events, stub_entry

Json = dict[str, Any]
ERROR: Json = {"code": -32000, "message": "no luck", "data": {"why": ["x"]}}
# Answers that the protocol does not know, by the tool that gives them.
ODD: Json = {
    tool: {"do": "raw_line", "line": f'{{"jsonrpc":"2.0","id":ID,{answer}}}'}
    for tool, answer in {
        "list": '"error":[1]',
        "text": '"error":"broken"',
        "array": '"result":[1]',
        "cut": '"result":{',
    }.items()
}


def imported(file: Path) -> Any:
    """Import an emitted file."""
    spec = importlib.util.spec_from_file_location("server", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an emitted file of two servers, which log what happens to them."""
    folder = tmp_path_factory.mktemp("imported")
    compiled(
        folder,
        {
            "a": stub_entry(tools=["echo", "b.echo", "die"], log=str(folder / "a.log")),
            "a.b": stub_entry(
                tools=["echo", "fail", "sleep", "grow", *ODD],
                does={"fail": {"do": "error", **ERROR}, **ODD},
                log=str(folder / "b.log"),
            ),
        },
    )
    return folder


@pytest.fixture(scope="module")
def module(folder: Path) -> Any:
    """Return that file, imported."""
    return imported(folder / "server.py")


def texts(result: Json) -> list[str]:
    """Return the texts of a tool's result."""
    return [block["text"] for block in result["content"]]


def cancelled(folder: Path) -> bool:
    """Whether a server was told that a call is cancelled."""
    lines = [row["line"] for row in events(folder / "b.log", "line")]
    return any("notifications/cancelled" in line for line in lines)


def test_tools_are_listed_and_called_in_both_spellings(module: Any) -> None:
    async def use() -> None:
        async with module.Aggregator() as a:
            listed = await a.list_tools()
            names = ["a.echo", "a.b.echo", "a.die", "a.b.echo", "a.b.fail", "a.b.sleep", "a.b.grow"]
            assert [tool["name"] for tool in listed] == [*names, *(f"a.b.{name}" for name in ODD)]
            assert "inputSchema" in listed[0]
            for name in ("a.echo", "a:echo", "a_echo"):
                assert texts(await a.call_tool(name, {"x": 1})) == ['{"x":1}']
            assert texts(await a.call_tool("a:b.echo")) == ["{}"]
            with pytest.raises(LookupError, match=r"'a.b.echo' is not one tool: say a:b.echo or"):
                await a.call_tool("a.b.echo")
            await a.call_tool("a.b.grow", {"name": "new"})
            assert texts(await a.call_tool("a.b.new", {"y": [None]})) == ['{"y":[null]}']
            assert (await a.list_tools())[-1]["name"] == "a.b.new"

    asyncio.run(use())


def test_errors_name_their_server(module: Any) -> None:
    async def use() -> None:
        async with module.Aggregator() as a:
            with pytest.raises(Exception, match=r"^server 'a.b': no luck$") as caught:
                await a.call_tool("a.b.fail")
            error: Any = caught.value
            assert (error.server, error.code, error.data) == ("a.b", -32000, ERROR["data"])
            with pytest.raises(Exception, match=r"^Server 'a' was killed by SIGKILL") as caught:
                await a.call_tool("a.die", {"signal": 9})
            assert type(caught.value) is type(error)
            with pytest.raises(type(error), match=r"^Tool not found: c:d$"):
                await a.call_tool("c:d")
            with pytest.raises(TypeError):
                await a.call_tool("a.echo", {"x": object()})

    asyncio.run(use())


@pytest.mark.parametrize(
    ("tool", "what"),
    [
        ("list", r"^server 'a.b': \[1\]$"),
        ("text", "^server 'a.b': broken$"),
        ("array", r"^server 'a.b': the result is no object: \[1\]$"),
        ("cut", "^Server 'a.b' gave an answer that cannot be read: "),
    ],
)
def test_an_answer_that_the_protocol_does_not_know_is_an_error(
    module: Any, tool: str, what: str
) -> None:
    async def use() -> None:
        async with module.Aggregator() as a:
            with pytest.raises(Exception, match=what) as caught:
                await a.call_tool(f"a.b.{tool}")
            assert type(caught.value).__name__ == "CallFailed"

    asyncio.run(use())


def test_calls_run_side_by_side_and_end_with_their_task(module: Any, folder: Path) -> None:
    async def use() -> None:
        async with module.Aggregator() as a:
            slow = asyncio.ensure_future(a.call_tool("a.b.sleep", {"seconds": 3600}))
            assert texts(await a.call_tool("a.echo")) == ["{}"]
            assert texts(await a.call_tool("a.b:echo")) == ["{}"]
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            while not cancelled(folder):
                await a.call_tool("a.b:echo")
            left = asyncio.ensure_future(a.call_tool("a.b.sleep", {"seconds": 3600}))
            await a.call_tool("a.b:echo")
        with pytest.raises(Exception, match=r"server 'a.b': the aggregator was left before"):
            await left

    asyncio.run(use())
    pids = {row["pid"] for name in "ab" for row in events(folder / f"{name}.log", "start")}
    assert not pids & {process.pid for process in Process.all()}


def test_outside_of_its_block_it_says_so_at_once_and_it_may_be_entered_anew(module: Any) -> None:
    async def use() -> None:
        a = module.Aggregator()
        for why in ("was never entered", "ended with its `async with` block"):
            for use in (a.list_tools(), a.call_tool("a.echo"), a.__aexit__()):
                with pytest.raises(RuntimeError, match=f"{why}: use it within `async with"):
                    await use
            async with a:
                with pytest.raises(RuntimeError, match="entered already"):
                    await a.__aenter__()
                assert texts(await a.call_tool("a.echo")) == ["{}"]

    asyncio.run(use())


def test_without_asyncio_it_says_so_at_once(module: Any) -> None:
    a = module.Aggregator()
    for use in (a.__aenter__(), a.list_tools()):
        with pytest.raises(RuntimeError, match="runs on asyncio alone, not on trio"):
            use.send(None)


def test_a_variable_that_is_not_set_names_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEEDED", "x")
    file = compiled(tmp_path, {"s": {**stub_entry(), "env": {"A": "${NEEDED}"}}})
    monkeypatch.delenv("NEEDED")

    async def use() -> None:
        async with imported(file).Aggregator():
            pytest.fail("it is not entered")

    with pytest.raises(Exception, match=r"server 's': cannot be started: .*NEEDED"):
        asyncio.run(use())


def test_importing_does_nothing_that_was_not_asked_for(folder: Path) -> None:
    """It reads no input, starts nothing, and brings no asyncio along."""
    program = (
        "import sys, server\n"
        "print(sorted({'asyncio', 'json', 'subprocess'} & set(sys.modules)))\n"
        "server.Aggregator\n"
        "print('asyncio' in sys.modules, hasattr(server, 'Other'), input())\n"
    )
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(
        command, input="its own", capture_output=True, text=True, check=False, cwd=folder
    )
    assert (done.stdout, done.stderr) == ("[]\nFalse False its own\n", "")
