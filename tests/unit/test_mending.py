"""What becomes of an entry of a list that some client would refuse with all others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp_types.methods import parse_server_result
from pydantic import AnyUrl, TypeAdapter
from shapes import ABSENT, RIGHT, Shaped, shaped

from mcpagg_runtime.lists.catalogue import (
    KINDS,
    PROMPTS,
    RESOURCES,
    SKILLS,
    TEMPLATES,
    TOOLS,
    Kind,
    wraps_output,
)
from mcpagg_runtime.lists.entries import legacy_item
from mcpagg_runtime.lists.listing import Listing
from mcpagg_runtime.lists.uris import is_absolute

LEGACY, MODERN = "2025-11-25", "2026-07-28"


def read(kind: Kind, entry: str, is_modern: bool = False) -> tuple[Listing, str]:
    """Return a list with one entry, and the text of that as it is listed, "" if it is left out."""
    listing = Listing(kind, "a", is_modern=is_modern)
    listing.add_page(f'{{"{kind.member}":[{entry}]}}')
    return listing, "".join(item.listed(item.exposed) for item in listing.items)


def entry_of(kind: Kind, **members: Any) -> dict[str, Any]:
    """Return an entry with the least that one must have, and these members."""
    return {
        name: value
        for name, value in {**RIGHT[kind], **members}.items()
        if name in ("name", "uri", "uriTemplate", "inputSchema", *members)
    }


def without(**members: Any) -> dict[str, Any]:
    """Return an object with these members, less those that are ABSENT."""
    return {name: value for name, value in members.items() if value is not ABSENT}


OBJECT = {"type": "object"}
BOTH = (True, False)

SCHEMAS: tuple[Callable[[Any], dict[str, Any]], ...] = (
    lambda null: without(type="object", additionalProperties=null, title=null),
    lambda null: {"properties": {"type": without(type=null, enum=null, default=None)}},
    lambda null: {"$defs": {"a": {"anyOf": [without(items=null), True]}}},
    lambda null: {"$defs": {"a": None if null is None else {}}},
    lambda null: {"items": {"not": without(description=null, const=None)}},
)
"""Schemas with keywords of some value, null or ABSENT."""


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        # Needed, and known without asking.
        (TOOLS, {"inputSchema": None}, {"inputSchema": OBJECT}),
        (TOOLS, {"inputSchema": {}}, {"inputSchema": OBJECT}),
        (TOOLS, {"inputSchema": []}, {"inputSchema": OBJECT}),
        (TOOLS, {"inputSchema": {"type": None}}, {"inputSchema": OBJECT}),
        (TOOLS, {"inputSchema": {"type": ["object", "null"]}}, {"inputSchema": OBJECT}),
        (TOOLS, {"inputSchema": {"$ref": "#/a"}}, {"inputSchema": {"$ref": "#/a", **OBJECT}}),
        (TOOLS, {"outputSchema": {}}, {"outputSchema": OBJECT}),
        # Not needed, and null.
        *((TOOLS, {name: None}, {}) for name in ("title", "description", "icons", "_meta")),
        *((TOOLS, {name: None}, {}) for name in ("outputSchema", "annotations", "execution")),
        (TOOLS, {"annotations": {"readOnlyHint": None}}, {"annotations": {}}),
        (TOOLS, {"annotations": {"title": None, "x": None}}, {"annotations": {"x": None}}),
        (TOOLS, {"execution": {"taskSupport": None}}, {"execution": {}}),
        (TOOLS, {"inputSchema": {**OBJECT, "required": None}}, {"inputSchema": OBJECT}),
        (TOOLS, {"inputSchema": {**OBJECT, "properties": None}}, {"inputSchema": OBJECT}),
        (TOOLS, {"icons": [{"src": "a", "theme": None}]}, {"icons": [{"src": "a"}]}),
        (PROMPTS, {"arguments": None}, {}),
        (
            PROMPTS,
            {"arguments": [{"name": "a", "required": None}, {"name": "b", "title": None}]},
            {"arguments": [{"name": "a"}, {"name": "b"}]},
        ),
        (RESOURCES, {"size": None, "mimeType": None}, {}),
        (
            RESOURCES,
            {"annotations": {"audience": None, "priority": 1}},
            {"annotations": {"priority": 1}},
        ),
        (TEMPLATES, {"annotations": {"lastModified": None}}, {"annotations": {}}),
        *(
            (TOOLS, {member: {**OBJECT, **schema(None)}}, {member: {**OBJECT, **schema(ABSENT)}})
            for member in ("inputSchema", "outputSchema")
            for schema in SCHEMAS
        ),
        # The same in other words.
        (
            TOOLS,
            {"inputSchema": {**OBJECT, "properties": {"a": True, "b": False, "c": None, "d": []}}},
            {
                "inputSchema": {
                    **OBJECT,
                    "properties": {"a": {}, "b": {"not": {}}, "c": {}, "d": {}},
                }
            },
        ),
        (
            TOOLS,
            {"inputSchema": {**OBJECT, "properties": [], "required": {}}},
            {"inputSchema": {**OBJECT, "properties": {}, "required": []}},
        ),
        (TOOLS, {"annotations": [], "_meta": []}, {"annotations": {}, "_meta": {}}),
        (PROMPTS, {"arguments": {}}, {"arguments": []}),
    ],
)
def test_what_can_be_said_rightly_is(
    kind: Kind, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    for is_modern in BOTH:
        if not (is_modern and "outputSchema" in expected):
            listing, text = read(kind, json.dumps(entry_of(kind, **given)), is_modern)
            assert json.loads(text) == entry_of(kind, **expected)
            assert listing.mended
            assert not listing.left_out
            assert read(kind, text, is_modern)[0].mended == []


def test_a_tool_without_a_schema_takes_any_arguments() -> None:
    listing, text = read(TOOLS, '{"name":"t"}')
    assert text == '{"name":"t","inputSchema":{"type":"object"}}'
    [said] = listing.warnings({})
    assert said == (
        "lists the tool 't' with nothing at /inputSchema, which strict clients refuse; "
        '{"type":"object"} is written there'
    )


def test_what_is_hidden_is_not_spoken_of() -> None:
    listing, _ = read(TOOLS, '{"name":"t"},{"name":"u","title":5}')
    assert len(listing.warnings({"hide": ["t"]})) == 1
    assert listing.warnings({"expose": []}) == []
    listing, _ = read(RESOURCES, '{"name":"r","uri":"r:1","size":null}')
    assert listing.warnings({"hide": ["r:*"]}) == []


def test_what_is_mended_keeps_all_else_as_it_is_written() -> None:
    given = (
        '{ "n": 1E5, "title":null,"name" : "t","inputSchema":{"properties":{"a~/b":true, '
        '"c":{ "default":null,"enum":[null, 1.0],"const":null,"examples":[null]} },"d":1,"d":2}}'
    )
    listing, text = read(TOOLS, given)
    assert text == (
        '{"n":1E5,"name":"t","inputSchema":{"properties":{"a~/b":{},'
        '"c":{ "default":null,"enum":[null, 1.0],"const":null,"examples":[null]}},"d":2,'
        '"type":"object"}}'
    )
    assert [one[1:] for one in listing.mended] == [
        ("/title", "null", "that is left out"),
        ("/inputSchema/type", "nothing", '"object" is written there'),
        ("/inputSchema/properties/a~0~1b", "a wrong value", "{} is written there"),
    ]


NULLS = {"default": None, "enum": ["a", None], "const": None, "examples": [None], "x-own": None}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        *((kind, RIGHT[kind]) for kind in RIGHT),
        (TOOLS, {"inputSchema": {**OBJECT, **NULLS, "properties": {"a": NULLS}}}),
        (TOOLS, {"outputSchema": {**OBJECT, **NULLS, "properties": {"a": NULLS}}}),
        (TOOLS, {"x": None, "_meta": {"a": None}, "annotations": {"x-own": None}}),
        (PROMPTS, {"arguments": [{"name": "", "default": None}]}),
        (RESOURCES, {"size": -1, "annotations": {"priority": 0, "audience": []}}),
        (SKILLS, {"uri": "skill://a/SKILL.md", "frontmatter": None}),
    ],
)
def test_what_every_client_reads_keeps_its_text(kind: Kind, given: dict[str, Any]) -> None:
    entry = RIGHT.get(kind, {}) | given
    text = (
        json.dumps(entry, indent=1).replace('"name": ', '"name":').replace('"uri": "s', '"uri":"s')
    )
    for is_modern in BOTH:
        listing, listed = read(kind, text, is_modern)
        assert (listed, listing.warnings({})) == (text, [])


@pytest.mark.parametrize(
    ("kind", "pointer", "given"),
    [
        (TOOLS, "/annotations/readOnlyHint", {"annotations": {"readOnlyHint": "true"}}),
        (TOOLS, "/annotations", {"annotations": "x"}),
        (TOOLS, "/title", {"title": 5}),
        (TOOLS, "/_meta", {"_meta": ["x"]}),
        (TOOLS, "/execution/taskSupport", {"execution": {"taskSupport": "sometimes"}}),
        (TOOLS, "/icons/1", {"icons": [{"src": "a"}, None]}),
        (TOOLS, "/icons/0/src", {"icons": [{}]}),
        (TOOLS, "/icons/0/sizes", {"icons": [{"src": "a", "sizes": "48x48"}]}),
        (TOOLS, "/inputSchema", {"inputSchema": True}),
        (TOOLS, "/inputSchema/type", {"inputSchema": {"type": "string"}}),
        (TOOLS, "/inputSchema/$schema", {"inputSchema": {**OBJECT, "$schema": 7}}),
        (TOOLS, "/inputSchema/required/0", {"inputSchema": {**OBJECT, "required": [None]}}),
        (TOOLS, "/inputSchema/required", {"inputSchema": {**OBJECT, "required": True}}),
        (
            TOOLS,
            "/inputSchema/properties/a",
            {"inputSchema": {**OBJECT, "properties": {"a": "string"}}},
        ),
        (TOOLS, "/outputSchema", {"outputSchema": True}),
        (PROMPTS, "/arguments/0/name", {"arguments": [{"title": "a"}]}),
        (PROMPTS, "/arguments/0/required", {"arguments": [{"name": "a", "required": "yes"}]}),
        (RESOURCES, "/uri", {"uri": "docs/readme.md"}),
        (RESOURCES, "/uri", {"uri": "note://My note"}),
        (RESOURCES, "/size", {"size": 0.5}),
        (RESOURCES, "/annotations/priority", {"annotations": {"priority": 2}}),
        (RESOURCES, "/annotations/audience/0", {"annotations": {"audience": ["all"]}}),
        (RESOURCES, "/annotations/lastModified", {"annotations": {"lastModified": "2026-01-02"}}),
        (TEMPLATES, "/mimeType", {"mimeType": True}),
    ],
)
def test_what_nobody_can_put_right_is_left_out(
    kind: Kind, pointer: str, given: dict[str, Any]
) -> None:
    for is_modern in BOTH:
        listing, text = read(kind, json.dumps(entry_of(kind, **given)), is_modern)
        assert (text, listing.mended) == ("", [])
        [(_, where, what, done)] = listing.left_out
        assert (where, what, done) == (pointer, "a wrong value", "it is left out")


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"type": ["null", "number"]}])
def test_outputs_of_modern_tools_may_be_anything(schema: dict[str, Any]) -> None:
    text = json.dumps(entry_of(TOOLS, outputSchema=schema)).replace('"name": ', '"name":')
    assert read(TOOLS, text, is_modern=True)[1] == text


def refuses(version: str, kind: Kind, text: str) -> bool:
    """Whether the official Python library refuses a list with this entry."""
    about = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    try:
        parse_server_result(kind.method, version, {kind.member: [json.loads(text)], **about})
    except ValueError:
        return True
    return False


def test_nothing_that_is_listed_is_refused() -> None:
    """With every member of every kind of entry wrong in every way, one at a time."""
    given: list[Shaped] = [*shaped()]
    refused = [
        f"{one.about} of a {MODERN if is_modern else LEGACY} server, to a client of {version}"
        for one in given
        for is_modern in BOTH
        for version in (LEGACY, MODERN)
        if (text := read(one.kind, json.dumps(one.entry), is_modern)[1])
        and refuses(
            version,
            one.kind,
            legacy_item(text) if version == LEGACY and is_modern and wraps_output(text) else text,
        )
    ]
    assert refused == []
    before = [one for one in given if refuses(LEGACY, one.kind, json.dumps(one.entry))]
    assert len(before) > len(given) / 2
    assert {one.kind for one in given} == {*KINDS} - {SKILLS}


URL: TypeAdapter[AnyUrl] = TypeAdapter(AnyUrl)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        *(
            (uri, True)
            for uri in ("a:", "urn:a:b", "note://x", "note:///a b", "x+y.z-1:é", "a:\n/b")
        ),
        *(
            (uri, True)
            for uri in ("file:///a b", "file://h/a", "file://C:/x", "http://é.example:80/a b")
        ),
        *(
            (uri, True)
            for uri in ("db://u:p@h:1/x", "x://[::1]:80", "https://1.2.3.4", "http://h?{q}")
        ),
        *(
            (uri, False)
            for uri in ("", "a", "a/b", "/a", "//a", "?a:b", "1a:b", "é:b", "a b:c", ":a")
        ),
        *(
            (uri, False)
            for uri in ("note://My note", "db://t:users", "x://h:65536", "x://:80", "x://[a]")
        ),
        *(
            (uri, False)
            for uri in ("http://", "http://u@", "http://a b", "http://1.2.3.999", "http://a%zz")
        ),
        *(
            (uri, False)
            for uri in ("x://[::1", "x://[::1]a", "http://xn--a", "file://a b/", "x://a<b")
        ),
    ],
)
def test_a_uri_is_absolute_where_strict_clients_say_so(uri: str, expected: bool) -> None:
    assert is_absolute(uri) is expected
    try:
        URL.validate_python(uri)
    except ValueError:
        assert not expected
    else:
        assert expected
