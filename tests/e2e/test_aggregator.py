"""The live aggregator against real servers, over every transport."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from clock import LIMIT, skipping
from mcp import MCPError
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult, ListRootsResult
from wire import ENVELOPE, MODERN, Process, events, modern_entry, received, stub_entry

from mcpagg import Aggregator
from mcpagg.aggregator import Misused, UnknownTool
from mcpagg.problems import ChildFault, ConfigError, EnvironmentFault, NameClash

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
Remote = Callable[..., str]


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, as the compiler does."""
    return "asyncio"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return where a stub may note what happens to it."""
    return tmp_path / "stub.log"


def servers(**entries: Json) -> Json:
    """Return a config."""
    return {"mcpServers": entries}


def texts(result: Json) -> list[str]:
    """Return the texts of a tool's result."""
    return [block["text"] for block in result["content"]]


def assert_gone(log: Path) -> None:
    """Fail if a stub that notes its starts in `log` is alive."""
    pids = {row["pid"] for row in events(log, "start")}
    assert pids
    assert not pids & {process.pid for process in Process.all()}


# Listing and calling


async def test_tools_of_all_servers_are_listed_and_called(remote: Remote) -> None:
    config = {
        "servers": {
            "local": stub_entry(tools=["echo", "env"]),
            "events": {"transport": "sse", "endpoint": remote(transport="sse")},
            "stream": {"type": "http", "url": remote(transport="http")},
        }
    }
    async with Aggregator(config) as a:
        assert [tool["name"] for tool in await a.list_tools()] == [
            "local.echo",
            "local.env",
            "events.add",
            "events.fail",
            "stream.add",
            "stream.fail",
        ]
        assert texts(await a.call_tool("local.echo", {"x": 1})) == ['{"x":1}']
        for server in ("events", "stream"):
            assert texts(await a.call_tool(f"{server}.add", {"a": 1, "b": 2})) == ["3"]
            assert (await a.call_tool(f"{server}:fail"))["isError"] is True


async def test_a_config_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(servers(stub=stub_entry())))
    for config in (path, str(path)):
        async with Aggregator(config) as a:
            assert [tool["name"] for tool in await a.list_tools()] == ["stub.echo"]


async def test_tools_and_results_are_plain_json_as_the_protocol_names_it(log: Path) -> None:
    schema = {"type": "object", "x_future": [1, None]}
    tool = {"name": "odd", "inputSchema": schema, "_meta": {"v/k": 1}}
    result = {"content": [{"type": "text", "text": "x"}], "isError": False, "_meta": {"a": None}}
    does = {"odd": {"do": "raw_result", "json": json.dumps(result)}}
    entry = stub_entry(tools=[tool, "b"], does=does, page=1, log=str(log))
    async with Aggregator(servers(stub=entry)) as a:
        assert await a.list_tools() == [
            {**tool, "name": "stub.odd"},
            {"name": "stub.b", "description": "Does b.", "inputSchema": {"type": "object"}},
        ]
        assert await a.call_tool("stub.odd", {"k": [1]}) == result
    params = {"name": "odd", "arguments": {"k": [1]}}
    assert received(log)[-1]["params"] == params
    assert_gone(log)


async def test_what_the_sdk_refuses_names_the_server() -> None:
    does = {"odd": {"do": "raw_result", "json": '{"content": [{"type": "hologram"}]}'}}
    async with Aggregator(servers(stub=stub_entry(tools=["odd"], does=does))) as a:
        with pytest.raises(ValueError, match="hologram") as caught:
            await a.call_tool("stub.odd")
    assert caught.value.__notes__ == ["from server 'stub'"]


async def test_a_call_needs_no_listing_and_knows_both_spellings() -> None:
    async with Aggregator(servers(**{"a.b": stub_entry(tools=["c:d.e"])})) as a:
        assert texts(await a.call_tool("a.b.c:d.e", {"x": 1})) == ['{"x":1}']
        assert texts(await a.call_tool("a.b:c:d.e")) == ["{}"]


async def test_a_tool_that_came_later_is_found() -> None:
    async with Aggregator(servers(stub=stub_entry(tools=["grow"]))) as a:
        await a.list_tools()
        await a.call_tool("stub.grow", {"name": "new"})
        assert texts(await a.call_tool("stub.new", {"x": 1})) == ['{"x":1}']


async def test_an_unknown_tool_is_named() -> None:
    async with Aggregator(servers(stub=stub_entry())) as a:
        with pytest.raises(UnknownTool, match=r"^Tool not found: stub\.nope$"):
            await a.call_tool("stub.nope")
        with pytest.raises(UnknownTool, match=r"must be prefixed with server key: nope"):
            await a.call_tool("nope")


async def test_a_name_of_two_tools_is_refused() -> None:
    config = servers(**{"a": stub_entry(tools=["b.c"]), "a.b": stub_entry(tools=["c"])})
    async with Aggregator(config) as a:
        with pytest.raises(NameClash, match=r"'a\.b\.c' is not one tool"):
            await a.call_tool("a.b.c")
        assert texts(await a.call_tool("a.b:c")) == ["{}"]


async def test_an_error_of_a_server_comes_as_it_is() -> None:
    error = {"code": -32000, "message": "Connection closed", "data": {"why": ["x"]}}
    async with Aggregator(servers(stub=stub_entry(tools=["error"]))) as a:
        with pytest.raises(MCPError) as caught:
            await a.call_tool("stub.error", error)
        assert caught.value.error.model_dump() == error
        assert caught.value.__notes__ == ["from server 'stub'"]


def says(answer: str) -> Json:
    """Return a tool that is answered with these members instead of a result."""
    return {"do": "raw_line", "line": f'{{"jsonrpc":"2.0",{answer}}}'}


async def test_every_call_ends_whatever_its_server_answers() -> None:
    does = {
        "list": says('"id":ID,"error":[1]'),
        "array": says('"id":ID,"result":[1]'),
        "lost": says('"id":null,"error":{"code":5,"message":"m"}'),
        "cut": says('"id":ID,"result":{,'),
        "bytes": says('"id":ID,"result":{"content":[{"type":"text","text":"caf\udce9"}]}'),
    }
    config = servers(odd=stub_entry(tools=[*does, "echo", "sleep"], does=does), other=stub_entry())
    async with Aggregator(config) as a:
        for tool, what in {
            "list": "^Server 'odd' gave an answer that cannot be read: error: Input should be",
            "array": "^Server 'odd' gave an answer that cannot be read: result: Input should be",
            "lost": "^m\n",
            "cut": "^Server 'odd' gave an answer that cannot be read: ",
        }.items():
            with pytest.raises(MCPError, match=what) as caught:
                await a.call_tool(f"odd.{tool}")
            assert caught.value.__notes__ == ["from server 'odd'"]
        assert texts(await a.call_tool("odd.bytes")) == ["caf" + 3 * "\ufffd"]
        both = "^Server 'odd' gave an answer without the id of a request: "
        async with anyio.create_task_group() as tasks:
            for tool in ("sleep", "lost"):
                tasks.start_soon(refused, a, f"odd.{tool}", both)
        for server in ("odd", "other"):
            assert texts(await a.call_tool(f"{server}.echo")) == ["{}"]


async def refused(a: Aggregator, name: str, what: str) -> None:
    """Call a tool that fails with this error."""
    with pytest.raises(MCPError, match=what):
        await a.call_tool(name, {"seconds": 3600})


async def test_arguments_that_are_not_json_are_the_callers_fault() -> None:
    async with Aggregator(servers(stub=stub_entry())) as a:
        with pytest.raises(TypeError):
            await a.call_tool("stub.echo", {"x": object()})
        assert texts(await a.call_tool("stub.echo")) == ["{}"]


async def test_calls_run_side_by_side() -> None:
    config = servers(stub=stub_entry(tools=["sleep", "echo"]))
    async with Aggregator(config) as a, anyio.create_task_group() as tasks:
        tasks.start_soon(a.call_tool, "stub.sleep")
        assert texts(await a.call_tool("stub.echo")) == ["{}"]
        tasks.cancel_scope.cancel()


# Modern servers


async def no_roots(_: ClientRequestContext) -> ListRootsResult:
    """Answer `roots/list`."""
    return ListRootsResult(roots=[])


async def cancelled(_: ClientRequestContext, __: ElicitRequestParams) -> ElicitResult:
    """Answer `elicitation/create`."""
    return ElicitResult(action="cancel")


async def test_a_modern_server_is_listed_and_called(log: Path) -> None:
    config = servers(new=modern_entry(tools=["meta", "echo"], log=str(log)), old=stub_entry())
    async with Aggregator(config, list_roots_callback=no_roots) as a:
        listed = [tool["name"] for tool in await a.list_tools()]
        assert listed == ["new.meta", "new.echo", "old.echo"]
        (seen,) = texts(await a.call_tool("new.meta"))
        assert json.loads(seen)[ENVELOPE["clientCapabilities"]] == {"roots": {"listChanged": True}}
        result = await a.call_tool("new:echo", {"x": 1})
        assert (texts(result), result["resultType"]) == (['{"x":1}'], "complete")
    assert not events(log, "fault")
    assert_gone(log)


FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}
ASKS = {
    "roots": ({"method": "roots/list"}, {"roots": []}),
    "elicitation": (
        {"method": "elicitation/create", "params": {"mode": "form", **FORM}},
        {"action": "cancel"},
    ),
}


@pytest.mark.parametrize("options", [{"rounds": 2}, {"state_only": True}])
async def test_what_a_server_asks_for_is_answered_by_callbacks(options: Json) -> None:
    requests = {key: request for key, (request, _) in ASKS.items()}
    config = servers(new=modern_entry(tools=["ask"]))
    async with Aggregator(
        config, list_roots_callback=no_roots, elicitation_callback=cancelled
    ) as a:
        (seen,) = texts(await a.call_tool("new.ask", {"requests": requests, **options}))
        assert json.loads(seen) == {key: answer for key, (_, answer) in ASKS.items()}


async def test_what_no_callback_answers_is_an_error() -> None:
    requests = {"q": ASKS["elicitation"][0]}
    async with Aggregator(servers(new=modern_entry(tools=["ask"]))) as a:
        with pytest.raises(MCPError, match="Elicitation not supported"):
            await a.call_tool("new.ask", {"requests": requests})
        with pytest.raises(MCPError, match="Missing client capability"):
            await a.call_tool("new.ask", {"demand": "sampling"})


@pytest.mark.parametrize("status", [400, 404])
async def test_a_modern_server_is_reached_over_http(status: int, remote: Remote) -> None:
    url = remote(transport="http", refuse={"initialize": status})
    async with Aggregator(servers(far={"type": "http", "url": url})) as a:
        assert a.clients["far"].protocol_version == MODERN
        assert [tool["name"] for tool in await a.list_tools()] == ["far.add", "far.fail"]
        assert texts(await a.call_tool("far.add", {"a": 1, "b": 2})) == ["3"]


async def test_arguments_go_into_headers_where_a_remote_tool_asks_for_that(remote: Remote) -> None:
    url = remote(transport="http", refuse={"initialize": 404}, mirrored=True)
    async with Aggregator(servers(far={"type": "http", "url": url})) as a:
        # 'odd' asks for headers that no client may send.
        assert [tool["name"] for tool in await a.list_tools()] == ["far.add", "far.fail", "far.at"]
        assert texts(await a.call_tool("far.at", {"place": "Köln"})) == ["Köln"]


# Use outside of its block


async def test_outside_of_its_block_it_says_so_at_once_and_it_may_be_entered_anew(
    log: Path,
) -> None:
    a = Aggregator(servers(stub=stub_entry(log=str(log))))
    for why in ("was never entered", "ended with its `async with` block"):
        for use in (a.list_tools(), a.call_tool("stub.echo"), a.__aexit__()):
            with pytest.raises(Misused, match=why):
                await use
        async with a:
            with pytest.raises(Misused, match="entered already"):
                await a.__aenter__()
            assert texts(await a.call_tool("stub.echo")) == ["{}"]
    assert_gone(log)


async def test_a_call_that_is_under_way_at_the_end_fails_then() -> None:
    a = Aggregator(servers(stub=stub_entry(tools=["echo", "sleep"])))
    failed = anyio.Event()

    async def call() -> None:
        with pytest.raises(MCPError):
            await a.call_tool("stub.sleep", {"seconds": 3600})
        failed.set()

    async with anyio.create_task_group() as others:
        async with a:
            others.start_soon(call)
            await a.call_tool("stub.echo")
        await failed.wait()


async def test_what_failed_in_one_block_is_forgotten_in_the_next(log: Path) -> None:
    a = Aggregator(servers(bad=stub_entry(at={"start": [{"exit": 1}]})), allow_failed=True)
    for _ in range(2):
        async with a:
            assert (list(a.faults), list(a.clients)) == (["bad"], [])


# Failures


async def test_a_server_that_dies_in_a_call_is_named_and_the_others_go_on() -> None:
    dies = stub_entry(tools=["die"])
    async with Aggregator(servers(dies=dies, lives=stub_entry())) as a:
        for _ in range(2):
            with pytest.raises(MCPError, match=r"^Connection closed") as caught:
                await a.call_tool("dies.die", {"stderr": "oh no\n"})
            assert caught.value.__notes__ == ["from server 'dies'"]
        assert texts(await a.call_tool("lives.echo")) == ["{}"]


async def test_servers_that_fail_are_named_together_and_nothing_is_left(log: Path) -> None:
    config = servers(
        one=stub_entry(at={"start": [{"stderr": "no"}, {"exit": 1}]}),
        good=stub_entry(log=str(log)),
        far={"type": "sse", "url": "http://127.0.0.1:9/sse"},
    )
    with pytest.raises(ChildFault) as caught:
        async with Aggregator(config):
            pytest.fail("it is not entered")
    assert [problem.where for problem in caught.value.problems] == [
        "mcpServers.one",
        "mcpServers.far",
    ]
    assert "could not be reached" in caught.value.problems[1].what
    assert_gone(log)


async def test_servers_that_fail_may_be_left_out() -> None:
    config = servers(bad=stub_entry(at={"start": [{"exit": 1}]}), good=stub_entry())
    async with Aggregator(config, allow_failed=True) as a:
        assert list(a.faults) == ["bad"]
        assert [tool["name"] for tool in await a.list_tools()] == ["good.echo"]


async def test_a_server_that_does_not_answer_is_left(log: Path) -> None:
    mute = stub_entry(answers={"server/discover": None}, log=str(log))
    with skipping(log, ("server/discover", LIMIT)), pytest.raises(ChildFault) as caught:
        async with Aggregator(servers(mute=mute), connect_timeout=LIMIT):
            pytest.fail("it is not entered")
    assert "server 'mute' could not be reached: no answer within 16000 s" in str(caught.value)
    assert_gone(log)


@pytest.mark.parametrize("how", ["error", "cancellation"])
async def test_nothing_is_left_however_the_block_ends(how: str, log: Path) -> None:
    with anyio.CancelScope() as scope:
        try:
            async with Aggregator(servers(stub=stub_entry(log=str(log)))):
                if how == "error":
                    raise LookupError
                scope.cancel()
                await anyio.sleep_forever()
        except LookupError:
            pass
    assert scope.cancelled_caught == (how == "cancellation")
    assert_gone(log)


async def test_cancelling_the_start_leaves_nothing(tmp_path: Path, log: Path) -> None:
    config = servers(
        silent=stub_entry(answers={"initialize": None}, log=str(log)),
        quick=stub_entry(),
    )
    with anyio.move_on_after(1) as scope:
        async with Aggregator(config):
            pytest.fail("it is not entered")
    assert scope.cancelled_caught
    assert_gone(log)


async def test_all_that_is_missing_is_reported_before_anything_starts(log: Path) -> None:
    config = servers(
        a={**stub_entry(log=str(log)), "env": {"A": "${NO_A}"}},
        b={"type": "http", "url": "http://127.0.0.1:9/${NO_B}"},
    )
    with pytest.raises(EnvironmentFault) as caught:
        Aggregator(config, environ={})
    assert [problem.where for problem in caught.value.problems] == [
        "mcpServers.a.env.A",
        "mcpServers.b.url",
    ]
    assert not events(log, "start")


async def test_a_config_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Aggregator({"mcpServers": []})
    with pytest.raises(FileNotFoundError):
        Aggregator(tmp_path / "none.json")


# Remote servers


@pytest.mark.parametrize("transport", ["sse", "http"])
async def test_headers_are_sent_with_every_request(transport: str, remote: Remote) -> None:
    url = remote(transport=transport, token="abc.def")  # noqa: S106 no secret
    entry = {"type": transport, "url": url, "headers": {"Authorization": "Bearer ${T}"}}
    async with Aggregator(servers(far=entry), environ={"T": "abc.def"}) as a:
        assert texts(await a.call_tool("far.add", {"a": 1, "b": 2})) == ["3"]
    with pytest.raises(ChildFault, match=r"answered with 401 Unauthorized at .*still valid\?"):
        async with Aggregator(servers(far=entry), environ={"T": "wrong"}):
            pytest.fail("it is not entered")


async def test_a_server_that_is_not_there_is_told_as_the_emitted_file_does() -> None:
    gone = {"type": "http", "url": "http://user:secret@127.0.0.1:9/mcp?key=secret"}
    with pytest.raises(ChildFault) as caught:
        async with Aggregator(servers(far=gone)):
            pytest.fail("it is not entered")
    assert caught.value.problems[0].what == (
        "server 'far' could not be reached at http://127.0.0.1:9/mcp?key=***: "
        "the connection was refused; is it running?"
    )


@pytest.mark.parametrize("transport", ["sse", "http"])
async def test_a_remote_list_may_be_long(transport: str, remote: Remote) -> None:
    entry = {"type": transport, "url": remote(transport=transport, big=500_000)}
    async with Aggregator(servers(far=entry)) as a:
        assert len((await a.list_tools())[0]["description"]) == 500_006


async def test_a_server_that_clings_to_its_session_is_left(remote: Remote) -> None:
    entry = {"type": "http", "url": remote(transport="http", clinging=True)}
    with anyio.fail_after(20):
        async with Aggregator(servers(far=entry)) as a:
            await a.list_tools()
