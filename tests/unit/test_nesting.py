"""Which servers stand above a process, and what each server is given of that."""

from __future__ import annotations

import hashlib
import json

import pytest
from core import World

from mcpagg_runtime.launch.needs import recursion_fault
from mcpagg_runtime.launch.nesting import identity, servers_above, with_identity
from mcpagg_runtime.start.digest import data_digest
from mcpagg_runtime.start.handover import ABOVE

TABLES = {"name": "é \ud800", "servers": '{"a": {}}', "snapshot": {"b": {"tools": "[]"}, "a": {}}}


def test_the_digest_is_that_of_the_tables_as_json_in_the_order_of_their_names() -> None:
    text = json.dumps(TABLES, sort_keys=True)
    expected = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert data_digest({**TABLES, "compiler": "1", "approval": "{}"}) == expected


def test_a_server_is_given_its_identity_behind_those_above_it() -> None:
    digest = data_digest(TABLES)
    first = with_identity({"A": "1", ABOVE: "of its entry"}, digest, "a", {})
    second = with_identity({}, digest, "b", first)
    assert first == {"A": "1", ABOVE: identity(digest, "a")}
    assert second == {ABOVE: f"{identity(digest, 'a')} {identity(digest, 'b')}"}
    assert servers_above(TABLES, ["a", "b", "c"], second) == ["a", "b"]
    assert servers_above(TABLES, ["a", "b", "c"], {}) == []
    assert servers_above({**TABLES, "name": "other"}, ["a", "b", "c"], second) == []


def test_a_server_that_stands_above_is_not_started() -> None:
    digest = data_digest(TABLES)
    with pytest.raises(ValueError, match="it has started this proxy"):
        with_identity({}, digest, "a", with_identity({}, digest, "a", {}))


def test_what_would_start_itself_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = World({"db": ["query"], "web": ["get"]}).plan
    above = with_identity({}, data_digest(plan.tables), "db", {})
    assert recursion_fault(plan, {}) == ""
    assert recursion_fault(plan, above).startswith(
        "nothing was started: its own server 'db' has started this proxy"
    )
    assert recursion_fault(plan.narrowed(servers={"web": {}}), above) == ""
