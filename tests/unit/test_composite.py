"""Calls of a composite tool as calls of the subtools that they name."""

from __future__ import annotations

import pytest

from mcpagg_runtime.messages.message import read_message
from mcpagg_runtime.routing.composite import Subcall

HEAD = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
CALL = '{"server":"a","tool":"t","args":{"n":1}}'


def subcall(params: str) -> Subcall:
    """Return the call of a composite tool that may call `t` of the server `a`."""
    return Subcall(read_message(f"{HEAD}{params}}}"), "both", {"a": ["t"]})


def test_a_subtool_is_called_with_the_inner_arguments() -> None:
    call = subcall(f'{{"name":"both","arguments":{CALL}}}')
    assert (call.fault, call.server, call.tool) == ("", "a", "t")
    assert call.message.raw("params") == '{"name":"t","arguments":{"n":1}}'


@pytest.mark.parametrize(
    ("params", "member"),
    [
        (f'{{"name":"both","arguments":{{"n":2}},"arguments":{CALL}}}', "arguments"),
        (f'{{"name":"both","Arguments":{{"n":2}},"arguments":{CALL}}}', "arguments"),
        ('{"name":"both","arguments":{"server":"b","server":"a","tool":"t"}}', "server"),
        ('{"name":"both","arguments":{"server":"a","tool":"t","TOOL":"u"}}', "tool"),
    ],
)
def test_a_subtool_is_named_once(params: str, member: str) -> None:
    assert subcall(params).fault == f"{member} stands more than once in params"
