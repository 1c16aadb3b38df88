"""Which entries of a server's list are listed: the rule of compiling and of running."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpagg.jsontext import loads
from mcpagg_runtime.lists import listing
from mcpagg_runtime.lists.catalogue import PROMPTS, RESOURCES, TEMPLATES, TOOLS, Kind
from mcpagg_runtime.lists.listing import (
    MAXIMUM_ENTRY_CHARACTERS,
    MAXIMUM_ENTRY_DEPTH,
    MAXIMUM_PAGES,
    Listing,
    strict_fault,
)
from mcpagg_runtime.messages.jsontext import Malformed


def read(*pages: str, kind: Kind = TOOLS) -> tuple[list[str], list[str]]:
    """Return what is listed, and what is said, of a list with the entries of each page as text.

    Nothing of what is mended: that is `test_mending.py`.
    """
    listing = Listing(kind, "a")
    for number, entries in enumerate(pages):
        listing.add_page(f'{{"{kind.member}":[{entries}],"nextCursor":"{number}"}}')
    listing.mended.clear()
    return [item.original for item in listing.items], listing.warnings({})


def wanted_after(listing: Listing, page: str) -> str | None:
    """Return what is asked for once a page has come."""
    listing.add_page(page)
    return listing.next_params


def nested(depth: int) -> str:
    """Return an entry of so many levels."""
    return '{"name":"t","x":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


@pytest.mark.parametrize(
    "entry",
    [
        '{"name":"t"}',
        '{"name":"t","x":[1.7976931348623157e308,-5,0,1E5,null,true,12345678901234567890]}',
        '{"name":"t","x":"\\ud83d\\ude00 \\u0000 \\u2028 NaN Infinity"}',
        '{"name":"t","inputSchema":{"properties":{"name":{"name":1}}},"Title":2}',
        '{"name":"t","x":{"a":1,"a":2}}',
        nested(MAXIMUM_ENTRY_DEPTH),
    ],
)
def test_an_entry_that_every_client_can_read_is_listed(entry: str) -> None:
    assert read(entry) == (["t"], [])


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('{"name":"t","x":[{"y":NaN}]}', "a number that no double holds"),
        ('{"name":"t","x":Infinity}', "a number that no double holds"),
        ('{"name":"t","x":-Infinity}', "a number that no double holds"),
        ('{"name":"t","x":1e400}', "a number that no double holds"),
        ('{"name":"t","x":-%s}' % ("9" * 400), "a number that no double holds"),
        ('{"name":"t","x":%s}' % ("9" * 5000), "a number that no double holds"),
        ('{"name":"t","x":["\\ud83d"]}', "a lone surrogate"),
        ('{"name":"t","x":{"\\uDE00":1}}', "a lone surrogate"),
        ('{"name":"t","name":"t"}', "a member that stands twice"),
        ('{"n\\u0061me":"x","name":"t"}', "a member that stands twice"),
        ('{"name":"t","description":"1","description":"2"}', "a member that stands twice"),
        (nested(MAXIMUM_ENTRY_DEPTH + 1), f"values nested more than {MAXIMUM_ENTRY_DEPTH} deep"),
    ],
)
def test_an_entry_for_which_strict_clients_refuse_the_whole_line_is_left_out(
    entry: str, why: str
) -> None:
    what = f"lists the tool 't' with {why}, which strict clients refuse; it is left out"
    assert read('{"name":"first"}', f'{entry},{{"name":"last"}}') == (["first", "last"], [what])


def test_an_entry_that_some_clients_take_for_another_is_left_out() -> None:
    what = "lists the tool 't' with a member 'Name', which some clients take for ours"
    entries = '{"name":"t","Name":"b:t"}', '{"name":"last","NAMES":1}'
    assert read(*entries) == (["last"], [f"{what}; it is left out"])


def marked(mark: Any, kind: Any = "string") -> Any:
    """Return a schema with a mark at an argument."""
    return {"properties": {"a": {"type": kind, "x-mcp-header": mark}}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (marked("Region"), ""),
        (marked("Region", "boolean"), ""),
        ({"properties": {"o": marked("x"), "p": marked("y")}}, ""),
        ({"properties": {"x-mcp-header": {"type": "string"}}}, ""),
        ({"properties": {}, "default": {"x-mcp-header": 1}, "enum": [{"x-mcp-header": 1}]}, ""),
        (marked(""), "that is not the name of a header"),
        (marked("a b"), "that is not the name of a header"),
        (marked("a\r\nb"), "that is not the name of a header"),
        (marked("é"), "that is not the name of a header"),
        (marked(5), "that is not the name of a header"),
        (marked("x", "number"), "at what is none of string, integer, boolean"),
        (marked("x", ["string", "null"]), "at what is none of string, integer, boolean"),
        (marked("x", "object"), "at what is none of string, integer, boolean"),
        ({"properties": {"o": marked("Region"), **marked("rEGION")["properties"]}}, "twice"),
        ({"type": "object", "x-mcp-header": "x"}, "that stands at no argument"),
        ({"properties": {"o": {"items": marked("x")}}}, "that stands at no argument"),
        ({"allOf": [marked("x")]}, "that stands at no argument"),
        ({"$defs": {"d": marked("x")}}, "that stands at no argument"),
        ({"patternProperties": marked("x")["properties"]}, "that stands at no argument"),
    ],
)
def test_a_tool_whose_mark_for_headers_is_not_valid_is_left_out(schema: Any, why: str) -> None:
    page = json.dumps({"tools": [{"name": "t", "inputSchema": schema}, {"name": "last"}]})
    over_http, elsewhere = Listing(TOOLS, "a", is_modern=True, over_http=True), Listing(TOOLS, "a")
    over_http.add_page(page)
    elsewhere.add_page(page)
    assert [item.original for item in elsewhere.items] == ["t", "last"]
    assert [item.original for item in over_http.items] == (["last"] if why else ["t", "last"])
    assert len(over_http.faults) == bool(why)
    assert all(why in fault and "the tool 't'" in fault for fault in over_http.faults)


@pytest.mark.parametrize("kind", [TOOLS, PROMPTS, RESOURCES, TEMPLATES])
@pytest.mark.parametrize("odd", [5, None, "t", [], {}, {"name": None}, {"name": 5}, {"name": ""}])
def test_an_entry_that_nobody_could_ask_for_is_left_out(kind: Kind, odd: Any) -> None:
    good = json.dumps({"name": "n", kind.key: "x:y"})
    also = "" if kind.key == "name" else f" or {kind.key}"
    what = f"lists a {kind.name[:-1]} without a name{also}; it is left out"
    assert read(f"{json.dumps(odd)},{good}", kind=kind) == (["x:y"], [what])


@pytest.mark.parametrize("kind", [TOOLS, PROMPTS, RESOURCES, TEMPLATES])
def test_of_entries_of_one_name_the_first_counts_on_whatever_page(kind: Kind) -> None:
    first, other = (json.dumps({"name": "n", kind.key: "x:y", "title": title}) for title in "12")
    listing = Listing(kind, "a")
    listing.add_page(f'{{"{kind.member}":[{first},{other}],"nextCursor":"1"}}')
    listing.add_page(f'{{"{kind.member}":[{first}]}}')
    [item] = listing.items
    assert json.loads(item.listed(item.exposed))["title"] == "1"
    what = f"lists the {kind.name[:-1]} 'x:y' more than once; the first one counts"
    assert listing.faults == [what] * 2


def test_a_list_without_end_is_cut() -> None:
    listing = Listing(TOOLS, "a")
    for number in range(MAXIMUM_PAGES):
        page = f'{{"tools":[],"nextCursor":"{number}"}}'
        assert wanted_after(listing, page) == f'{{"cursor":"{number}"}}'
    assert wanted_after(listing, '{"tools":[],"nextCursor":"x"}') is None
    assert listing.faults == [f"lists {MAXIMUM_PAGES} pages in tools/list; the list ends there"]


@pytest.mark.parametrize("cursor", ["", "x"])
def test_a_cursor_that_leads_in_a_circle_ends_the_list(cursor: str) -> None:
    page = f'{{"tools":[{{"name":"t"}}],"nextCursor":"{cursor}"}}'
    listing = Listing(TOOLS, "a")
    assert wanted_after(listing, page) == f'{{"cursor":"{cursor}"}}'
    assert wanted_after(listing, page) is None
    assert [item.original for item in listing.items] == ["t"]
    assert listing.faults == [f"repeats the cursor {cursor!r} in tools/list; the list ends there"]


@pytest.mark.parametrize("result", ["{}", '{"tools":null}', '{"tools":{}}', "[]", "null"])
def test_what_holds_no_list_is_malformed(result: str) -> None:
    with pytest.raises(Malformed):
        Listing(TOOLS, "a").add_page(result)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e400", "9" * 5000])
def test_the_compilers_numbers_are_judged_alike(text: str) -> None:
    assert strict_fault(loads(f'{{"a":[{text}]}}')) == "a number that no double holds"
    assert strict_fault(loads("[1E5, 0.1000000000000000055511151231257827, -0]")) == ""


def test_a_list_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAXIMUM_ENTRIES", 2)
    found = Listing(TOOLS, "s")
    entries = ",".join([f'{{"name":"t{number}","inputSchema":{{}}}}' for number in range(5)])
    assert wanted_after(found, f'{{"tools":[{entries}],"nextCursor":"more"}}') is None
    assert [item.original for item in found.items] == ["t0", "t1"]
    assert found.faults == ["lists more than 2 tools; the list ends there"]


@pytest.mark.parametrize(
    ("more", "odd"),
    [
        (f'"x":{"[" * 500}{"]" * 500}', "values nested more than 100 deep, which"),
        (f'"x":"{"a" * MAXIMUM_ENTRY_CHARACTERS}"', "more than 4 MiB of text; it is left out"),
    ],
)
def test_an_entry_that_is_too_deep_or_too_large_is_left_out(more: str, odd: str) -> None:
    found = Listing(TOOLS, "s")
    page = f'{{"tools":[{{"name":"odd",{more}}},{{"name":"t"}}]}}'
    assert wanted_after(found, page) is None
    assert [item.original for item in found.items] == ["t"]
    found.mended.clear()
    [fault] = found.warnings({})
    assert fault.startswith(f"lists the tool 'odd' with {odd}")
