"""How a refusal tells the era, and what the compiler keeps of hints, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpagg.passes.discovery.probe import merged_hints
from mcpagg.snapshot import ChildSnapshot, Json, Snapshot
from mcpagg_runtime.messages.message import failure
from mcpagg_runtime.servers.lifecycle import knows_no_handshake, speaks_modern

MODERN = "2026-07-28"


@pytest.mark.parametrize(
    ("code", "message", "data", "modern", "no_handshake"),
    [
        (-32022, "Unsupported protocol version", {"supported": [MODERN]}, True, True),
        (-32022, "Unsupported protocol version", {"supported": ["2027-05-01"]}, True, True),
        (-32022, "Unsupported protocol version", None, True, True),
        (-32022, "", {"supported": ["2025-06-18", MODERN]}, False, False),
        (-32020, "Header mismatch", None, True, True),
        (-32602, "Unsupported protocol version", {"supported": ["2025-06-18"]}, False, False),
        (-32602, "Unsupported protocol version", {"supported": "?"}, False, False),
        (-32602, f"I speak {MODERN}", None, True, True),
        (-32602, "", ["use", "server/discover"], True, True),
        (-32602, "_meta lacks io.modelcontextprotocol/protocolVersion", None, True, True),
        (-32601, "Method not found", "initialize", False, True),
        (-32603, "broken", {"version": "2025-11-25"}, False, False),
    ],
)
def test_a_refusal_tells_the_era(
    code: int, message: str, data: Any, modern: bool, no_handshake: bool
) -> None:
    error = {"code": code, "message": message, "data": data}
    refusal = failure("1", json.dumps(error))
    assert speaks_modern(refusal) is modern
    assert knows_no_handshake(refusal) is no_handshake


@pytest.mark.parametrize(
    ("results", "merged"),
    [
        ([{}], {}),
        ([{"ttlMs": 5}, {"ttlMs": 3}, {"ttlMs": 4}], {"ttlMs": 3}),
        ([{"ttlMs": True}, {"ttlMs": 1.5}, {"ttlMs": -1}, {"ttlMs": "1"}], {}),
        ([{"cacheScope": "public"}, {"cacheScope": "private"}], {"cacheScope": "private"}),
        ([{"cacheScope": "private"}, {"cacheScope": "public"}], {"cacheScope": "private"}),
        ([{"cacheScope": "public"}, {"cacheScope": "x"}], {"cacheScope": "public"}),
    ],
)
def test_the_most_careful_hints_win(results: list[Json], merged: Json) -> None:
    hints: Json = {}
    for result in results:
        hints = merged_hints(hints, result)
    assert hints == merged


def test_only_a_time_to_live_is_taken_from_before() -> None:
    def snapshot(**hints: Json) -> Snapshot:
        return Snapshot(tuple(ChildSnapshot(name, MODERN, hints=hints[name]) for name in hints))

    before = snapshot(a={"ttlMs": 1, "cacheScope": "public"}, b={}, c={"ttlMs": 1}, gone={})
    after = snapshot(a={"ttlMs": 2, "cacheScope": "private"}, b={"ttlMs": 2}, c={}, new={})
    expected = snapshot(a={"ttlMs": 1, "cacheScope": "private"}, b={"ttlMs": 2}, c={}, new={})
    assert after.with_known_ttl(before) == expected
