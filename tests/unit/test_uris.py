"""Which URIs a URI template may stand for."""

from __future__ import annotations

import time

import pytest

from mcpagg_runtime.plan.uri_templates import fits


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("file:///a", "file:///a", True),
        ("file:///a", "file:///ab", False),
        ("repo://{owner}/{name}", "repo://me/it", True),
        ("repo://{owner}/{name}", "repo://me/it/more", False),
        ("repo://{owner}/{name}", "other://me/it", False),
        ("repo://{owner}/{name}/contents{/path*}", "repo://me/it/contents", True),
        ("repo://{owner}/{name}/contents{/path*}", "repo://me/it/contents/a/b", True),
        ("repo://{owner}/{name}/contents{/path*}", "repo://me/it/else", False),
        ("x://{+path}", "x://a/b?c#d", True),
        ("x://{id}{?q}", "x://1?q=2", True),
        ("x://{id}.json", "x://a.json.json", True),
        ("x://{id}.json", "x://a.xml", False),
        ("mem:{n}", "mem:1", True),
        ("{a}", "", True),
        ("file:///café/{name}", "file:///caf%C3%A9/a", True),
        ("file:///caf%C3%A9/{name}", "file:///café/a", True),
        ("file:///café/{name}", "file:///cafe/a", False),
    ],
)
def test_a_uri_fits_a_template(template: str, uri: str, expected: bool) -> None:
    assert fits(template, uri) is expected


def test_no_template_takes_long() -> None:
    began = time.process_time()
    fits("x:" + "{+a}" * 1000 + "!", "x:" + "y" * 100_000)
    fits("x:" + "{a}y" * 1000 + "!", "x:" + "y" * 100_000)
    assert time.process_time() - began < 5
