"""URLs of servers, and the proxies that they are reached through."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mcpagg_runtime.messages.message import request
from mcpagg_runtime.messages.param_headers import modern_headers
from mcpagg_runtime.remote.connections import Address, proxy_for
from mcpagg_runtime.remote.http_client import HttpClient


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pass@h.example/mcp?key=1&b=2#x", "https://h.example/mcp?key=***&b=***"),
        ("http://[::1]:8080", "http://[::1]:8080/"),
        ("https://h.example:443/a b", "https://h.example/a%20b"),
    ],
)
def test_what_is_shown_of_a_url_has_no_secret(url: str, shown: str) -> None:
    assert Address(url).shown == shown


@pytest.mark.parametrize("url", ["", "h.example/mcp", "ftp://h/x", "https:///x", "http://h:x/"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"its URL|[Pp]ort"):
        Address(url)


@pytest.mark.parametrize("value", ["s3cret\nX-Admin: 1", "s3cret\r\n\r\nGET /", "s3cret\udc80"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(value: str) -> None:
    with pytest.raises(ValueError, match="its header 'X-Key' holds a character") as caught:
        HttpClient("https://h.example/mcp", {"X-Key": value}, "test", cast("Any", None))
    assert "s3cret" not in str(caught.value)


def proxied(url: str, **environ: str) -> str:
    found = proxy_for(Address(url), environ)
    return "" if found is None else f"{found[0]} {found[1].host}:{found[1].port}"


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://h.example/", {}, ""),
        ("http://h.example/", {"HTTP_PROXY": "http://p:3128"}, "HTTP_PROXY p:3128"),
        ("https://h.example/", {"HTTP_PROXY": "http://p:3128"}, ""),
        ("https://h.example/", {"https_proxy": "p:3128"}, "https_proxy p:3128"),
        ("https://h.example/", {"HTTPS_PROXY": "http://u:p@p/"}, "HTTPS_PROXY p:80"),
        ("http://h.example/", {"HTTP_PROXY": "http://p", "http_proxy": "q"}, "http_proxy q:80"),
    ],
)
def test_a_proxy_is_the_one_of_the_environment(
    url: str, environ: dict[str, str], proxy: str
) -> None:
    assert proxied(url, **environ) == proxy


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "a.localhost"])
def test_this_machine_is_reached_without_a_proxy(host: str) -> None:
    assert proxied(f"http://{host}:1/mcp", HTTP_PROXY="http://127.0.0.1:9") == ""


@pytest.mark.parametrize(
    ("entry", "matches"),
    [
        ("*", True),
        ("example", False),
        ("h.example", True),
        (".example", True),
        ("other, h.example:8000", True),
        ("h.example:8001", False),
        ("[::1],10.0.0.0/8,fd00::/8,", False),
        ("ample", False),
    ],
)
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_exceptions_are_hosts_domains_and_networks(name: str, entry: str, matches: bool) -> None:
    environ = {"HTTP_PROXY": "http://p", name: entry}
    host = "h.example" if entry != "example" else "h.exam"
    assert (proxied(f"http://{host}:8000/", **environ) == "") is matches


def test_networks_are_exceptions_too() -> None:
    environ = {"HTTP_PROXY": "p", "no_proxy": "localhost,10.0.0.0/8,fd00::/8,[fe80::1]"}
    for host, reached in (("10.1.2.3", ""), ("11.1.2.3", "HTTP_PROXY p:80"), ("[fd00::2]", "")):
        assert proxied(f"http://{host}/", **environ) == reached
    assert proxied("http://[fe80::1]/", **environ) == ""


@pytest.mark.parametrize("between", [",", ", ", " ", "\n", ",\r\n"])
def test_exceptions_are_parted_by_commas_blanks_or_line_ends(between: str) -> None:
    environ = {"HTTP_PROXY": "p", "no_proxy": between.join(["10.0.0.0/8", "h.example", ""])}
    for host in ("10.1.2.3", "h.example"):
        assert proxied(f"http://{host}/", **environ) == ""
    assert proxied("http://other.example/", **environ) != ""


def test_another_kind_of_proxy_is_refused_by_the_name_of_its_variable() -> None:
    with pytest.raises(ValueError, match="HTTPS_PROXY names a proxy of the kind socks5"):
        proxied("https://h.example/", HTTPS_PROXY="socks5://p:1")


TOOL = (
    '{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"Place"},'
    '"b":{"properties":{"c":{"type":"boolean","x-mcp-header":"Deep"}}},'
    '"c":{"type":"integer","x-mcp-header":"no token"},'
    '"d":{"type":"number","x-mcp-header":"Half"}}}}'
)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ('{"a":"x","b":{"c":true}}', {"mcp-param-Place": "x", "mcp-param-Deep": "true"}),
        ('{"a":7}', {"mcp-param-Place": "7"}),
        ('{"a":null,"b":1,"c":1,"d":1.5}', {}),
        ('{"a":" é"}', {"mcp-param-Place": "=?base64?IMOp?="}),
        ('{"a":"=?base64?x?="}', {"mcp-param-Place": "=?base64?PT9iYXNlNjQ/eD89?="}),
    ],
)
def test_arguments_go_into_headers_where_a_schema_asks_for_that(
    arguments: str, headers: dict[str, Any]
) -> None:
    message = request(1, "tools/call", f'{{"name":"t","arguments":{arguments}}}')
    own = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "t"}
    assert modern_headers(message, lambda name: TOOL) == own | headers
    assert modern_headers(message, lambda name: "") == own


def test_a_resource_is_named_by_its_uri_and_other_requests_by_nothing() -> None:
    read = request(1, "resources/read", '{"uri":"file:///ü"}')
    assert modern_headers(read, str)["Mcp-Name"] == "=?base64?ZmlsZTovLy/DvA==?="
    assert "Mcp-Name" not in modern_headers(request(1, "tools/list", '{"name":"x"}'), str)
