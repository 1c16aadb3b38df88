"""What becomes of references in URLs: each value fills one component, and no other."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from configs import read

from mcpagg.passes.environment.environment import check_environment
from mcpagg.problems import EnvironmentFault
from mcpagg_runtime.launch.launch import Launches
from mcpagg_runtime.launch.urls import filled_url, resolve_url
from mcpagg_runtime.launch.variables import BadUrl, MissingVariable
from mcpagg_runtime.remote.connections import Address

ODD = [
    *("x@127.0.0.1:4909/zz", "abc/def-secret", "sec#ret", "sec?ret", "p@s/s:w", "per%41cent"),
    *("[::1]", "a b\n", "\u00e9\udc80", "\ue000", "&a=1", "\\@h", ":80", "$X", "..x"),
]


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize(
    "url",
    [
        *("http://${X}:p@h.example:4900/mcp", "http://u:${X}@h.example:4900/mcp"),
        *("http://h.example:4900/a${X}/mcp", "http://h.example:4900/mcp?a=1&key=${X}&b=2"),
        *("http://h.example:4900/mcp?${X}", "http://h.example:4900/mcp#${X}"),
        "http://u:p@h.example:4900/${X}x/${X:-d}?${X}=${X}",
    ],
)
def test_a_value_of_any_characters_changes_nothing_beside_it(url: str, value: str) -> None:
    plain = Address(resolve_url(url, {"X": "v"}.get))
    found = Address(resolve_url(url, {"X": value}.get))
    assert found.origin == plain.origin == ("http", "h.example", 4900)
    assert found.target.count("/") == plain.target.count("/")
    assert found.target.count("?") == plain.target.count("?")
    assert found.target.count("&") == plain.target.count("&")
    for one, other in ((found.user, plain.user), (found.password, plain.password)):
        assert one == (value if other == "v" else other)


@pytest.mark.parametrize(
    ("url", "values", "result"),
    [
        ("http://u:${X}@h/", {"X": "per%41cent"}, "http://u:per%2541cent@h/"),
        ("https://h/${X}/mcp", {"X": "a/b"}, "https://h/a%2Fb/mcp"),
        ("https://h/m?k=${X}", {"X": "a+b=c&d"}, "https://h/m?k=a%2Bb%3Dc%26d"),
        ("https://h/$$X/${N:-d e}", {}, "https://h/$X/d%20e"),
        ("${X}", {"X": " https://u:p@h:1/m?k=v#f\n"}, "https://u:p@h:1/m?k=v#f"),
        ("${X:-http://h}", {}, "http://h"),
        ("${X}/mcp", {"X": "https://h:1/v1"}, "https://h:1/v1/mcp"),
        ("${X}/${Y}?r=https://x/", {"X": "http://[::1]", "Y": "b"}, "http://[::1]/b?r=https://x/"),
        ("${X}x", {"X": "http://h/"}, "http://h/x"),
        ("${X}:${P}/", {"X": "http://h", "P": "80"}, "http://h:80/"),
        ("${S}://h/", {"S": "https"}, "https://h/"),
        (
            "https://${X}.example.com:${P}/",
            {"X": "eu-1", "P": "443"},
            "https://eu-1.example.com:443/",
        ),
        ("http://${X}/", {"X": "[::1]"}, "http://[::1]/"),
        ("http://[${X}]:1/", {"X": "::1"}, "http://[::1]:1/"),
        ("http://u:p@${X}/", {"X": "b\u00fccher.example."}, "http://u:p@b\u00fccher.example./"),
    ],
)
def test_what_references_become(url: str, values: dict[str, str], result: str) -> None:
    assert resolve_url(url, values.get) == result


HOST, PORT, WHOLE = "host", "port", "whole http or https URL"
BEGINNING = "http or https URL without user, query and fragment"


@pytest.mark.parametrize(
    ("url", "wanted", "values"),
    [
        (
            "http://${X}/m",
            HOST,
            ["", "h:80", "u@h", "h/x", "h?x", "a..b", "h#", "a b", "\\h", "[h]"],
        ),
        ("http://h.example${X}/m", HOST, [":80", "@evil.example", "/x", "\n"]),
        ("http://u:p@${X}:80/m", HOST, ["a@b", "h:1"]),
        ("http://[${X}]/m", HOST, ["::1]x[", "h"]),
        ("http://h:${X}/m", PORT, ["", "x", "80/x", "65536", "-1", "80@evil", "\u0661", "1_0"]),
        ("http://h:8${X}/m", PORT, ["00000", "0@"]),
        ("${X}://h/m", "scheme of a URL", ["ftp", "http://evil/?", ""]),
        (
            "${X}",
            WHOLE,
            ["", "h/mcp", "ftp://h/", "http:///m", "http://h:x/", "http://h/a b", "\ue000"],
        ),
        ("${X}/m", WHOLE, ["http:", "http://", "file:///etc"]),
        ("${X}/m", BEGINNING, ["http://u@h", "http://h?x", "http://h/#", "http://u:p@h/x"]),
        ("${X}.example.com/m", BEGINNING, ["http://evil", "http://evil:80"]),
        ("${X}:80/m", BEGINNING, ["http://h:1"]),
        ("http://h/a/${X}/m", "part of a path", ["..", "."]),
        ("http://h/.${X}", "part of a path", ["."]),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name_alone(
    url: str, wanted: str, values: list[str]
) -> None:
    for value in values:
        with pytest.raises(BadUrl) as caught:
            resolve_url(url, {"X": value}.get)
        what = f"the value of X is no {wanted}, which is what its URL has it for"
        assert str(caught.value) == what, value


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(MissingVariable, match="X"):
        resolve_url("http://${X}/", lambda name: None)


@pytest.mark.parametrize("url", ["h.example/${X}", "mailto:${X}", "\ue000${X}"])
def test_what_has_no_form_of_a_url_is_none(url: str) -> None:
    with pytest.raises(BadUrl, match="has not the form"):
        resolve_url(url, {"X": "https://h"}.get)


def test_values_that_look_like_several_parts_are_told() -> None:
    values = {"A": "a/b", "B": "b", "C": "c?", "D": "d=1&e=2", "E": "e=1"}
    url = "http://h/${A}/${B}/${C}?${D}&x=${E}#${A}"
    assert filled_url(url, values.get)[1] == ["A", "C", "D"]


def test_compiling_refuses_what_a_start_would_and_warns_of_what_is_encoded(tmp_path: Path) -> None:
    url = "https://${HOST}/${STEP}"
    spec, _ = read({"mcpServers": {"a": {"url": url}}}, folder=tmp_path)
    with pytest.raises(EnvironmentFault) as caught:
        check_environment(spec, {"HOST": "h/s3cret", "STEP": "x"})
    assert str(caught.value) == (
        "mcp.json: mcpServers.a.url: the value of HOST is no host, which is what its URL has it"
        " for; correct what is set"
    )
    with pytest.raises(EnvironmentFault) as caught:
        check_environment(spec, {"STEP": "x"})
    assert [problem.where for problem in caught.value.problems] == ["mcpServers.a.url"]
    _, [warning] = check_environment(spec, {"HOST": "h", "STEP": "v1/s3cret"})
    assert str(warning) == (
        "mcpServers.a.url: the value of STEP is encoded as one part of the URL, and looks like"
        " several; write what stands between the parts into the config"
    )


def test_what_a_start_shows_of_an_encoded_value_has_no_part_of_it() -> None:
    row = {"url": "https://h.example/${KEY}/mcp", "transport": "streamable-http"}
    environ = {"KEY": "s3cret/with=odd characters"}
    launch = Launches({"a": row}, environ, "/").prepare("a")
    assert launch.redact(Address(launch.url).shown) == "https://h.example/${KEY}/mcp"
    assert urlsplit(launch.url).path.count("/") == 2
