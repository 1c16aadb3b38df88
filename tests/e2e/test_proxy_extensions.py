"""Extensions of servers: skills, and methods that the proxy does not know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from proxies import compiled, running, served, swapped
from wire import (
    Json,
    Wire,
    call,
    enveloped,
    modern_entry,
    stub_entry,
    text,
    tool_names,
    wait_until,
)

from mcpagg.command.cli import main

SKILLS = "io.modelcontextprotocol/skills"
URI = "skill://refunds/SKILL.md"
FILE = "skill://refunds/a.md"


def entry(server: str) -> Json:
    """Return the skill of a server."""
    files = [{"uri": uri, "digest": "sha256:0", "size": 1} for uri in (URI, FILE)]
    frontmatter = {"name": "refunds", "description": f"of {server}"}
    return {"uri": URI, "frontmatter": frontmatter, "resources": files}


def skilled(server: str, **more: Json) -> Json:
    """Return what a server with a skill answers."""
    return {
        "skills/list": {"result": {"skills": [entry(server)]}},
        "skills/get": {"result": {"skill": entry(server)}},
        "resources/list": {"result": {"resources": []}},
        "resources/templates/list": {"result": {"resourceTemplates": []}},
        "resources/read": {"result": {"contents": [{"uri": FILE, "text": server}]}},
        "resources/directory/read": {"result": {"resources": [{"uri": FILE, "name": "a.md"}]}},
        **more,
    }


CAPABILITIES: Json = {
    "tools": {},
    "resources": {},
    "extensions": {SKILLS: {"directoryRead": True}, "com.example/x": {}},
}


def of(server: str, make: Callable[..., Json] = stub_entry, **more: Json) -> Json:
    """Return the entry of a server with a skill."""
    return make(capabilities=CAPABILITIES, answers=skilled(server, **more))


def asked(wire: Wire, method: str, **params: object) -> Json:
    result: Json = wire.request(method, params)["result"]
    return result


def lists(wire: Wire, uris: list[str]) -> bool:
    """Whether these are the skills that are listed."""
    return uris == [one["uri"] for one in asked(wire, "skills/list")["skills"]]


def test_the_skills_of_a_lone_server_are_answered_as_they_are(tmp_path: Path) -> None:
    with served(compiled(tmp_path, {"a": of("a"), "b": stub_entry()})) as wire:
        assert asked(wire, "skills/list") == {"skills": [entry("a")]}
        assert asked(wire, "skills/get", uri=URI) == {"skill": entry("a")}
        assert asked(wire, "resources/read", uri=FILE)["contents"][0]["text"] == "a"
        assert asked(wire, "resources/directory/read", uri="skill://refunds")["resources"]


def test_the_skills_of_two_servers_are_kept_apart(tmp_path: Path) -> None:
    with served(compiled(tmp_path, {"a": of("a"), "b": of("b")})) as wire:
        skills = asked(wire, "skills/list")["skills"]
        assert [(one["uri"], one["frontmatter"]["description"]) for one in skills] == [
            ("skill://a/refunds/SKILL.md", "of a"),
            ("skill://b/refunds/SKILL.md", "of b"),
        ]
        for name, skill in zip("ab", skills, strict=True):
            files = [file["uri"] for file in skill["resources"]]
            assert files == [f"skill://{name}/refunds/{file}" for file in ("SKILL.md", "a.md")]
            assert asked(wire, "skills/get", uri=skill["uri"]) == {"skill": skill}
            [content] = asked(wire, "resources/read", uri=files[1])["contents"]
            assert content == {"uri": files[1], "text": name}
            [child] = asked(wire, "resources/directory/read", uri=f"skill://{name}/refunds")[
                "resources"
            ]
            assert child["uri"] == files[1]


@pytest.mark.parametrize("make", [stub_entry, modern_entry])
def test_clients_without_a_handshake_get_skills_as_their_revision_has_them(
    tmp_path: Path, make: Callable[..., Json]
) -> None:
    known: Json = {"com.example/x/go": {"result": {"n": 1.0}}}
    servers = {"a": of("a", make, **known), "b": stub_entry()}
    with running(compiled(tmp_path, servers)) as wire:
        declared = asked(wire, "server/discover", **enveloped())["capabilities"]
        assert declared["extensions"] == CAPABILITIES["extensions"]
        listed = asked(wire, "skills/list", **enveloped())
        assert (listed["resultType"], listed["skills"]) == ("complete", [entry("a")])
        assert {"ttlMs", "cacheScope"} <= listed.keys()
        found = asked(wire, "skills/get", **enveloped({"uri": URI}))
        assert (found["resultType"], found["skill"]) == ("complete", entry("a"))
        assert {"ttlMs", "cacheScope"} <= found.keys()
        assert asked(wire, "com.example/x/go", **enveloped())["n"] == 1.0


def test_skills_that_differ_from_the_snapshot_are_served_live_or_withheld(tmp_path: Path) -> None:
    new = {**entry("a"), "uri": "skill://new/SKILL.md"}
    after: Json = {"skills/list": {"result": {"skills": [new]}}}
    for policy, listed in (("live", ["skill://new/SKILL.md"]), ("warn", [URI]), ("refuse", [])):
        folder = tmp_path / policy
        folder.mkdir()
        options = {"capabilities": CAPABILITIES, "answers": skilled("a")}
        later = {"capabilities": CAPABILITIES, "answers": skilled("a", **after)}
        with served(swapped(folder, options, later, "--on-drift", policy)) as wire:
            wire.request("tools/call", {"name": "s:echo"})
            wait_until(partial(lists, wire, listed))


def test_a_skill_that_no_server_has_is_said_so(tmp_path: Path) -> None:
    missing: Json = {"skills/get": {"error": {"code": -32602, "message": "no"}}}
    with served(compiled(tmp_path, {"a": of("a", **missing)})) as wire:
        assert wire.request("skills/get", {"uri": "skill://x/SKILL.md"})["error"]["code"] == -32602


def test_a_method_that_one_server_knows_is_sent_on_to_it(tmp_path: Path) -> None:
    known: Json = {"com.example/x/go": {"result": {"n": 1.0}}}
    servers = {"a": of("a", **known), "b": stub_entry()}
    with served(compiled(tmp_path, servers)) as wire:
        assert wire.request("resources/read", {"uri": "x:y"})["result"]
        assert asked(wire, "com.example/x/go", k=1) == {"n": 1.0}
        assert wire.request("com.example/x/none")["error"]["code"] == -32601
        assert wire.request("tasks/get")["error"]["code"] == -32601


def test_a_host_shows_the_page_of_the_server_whose_tool_was_called(tmp_path: Path) -> None:
    page = "ui://widget/main.html"
    shows = {"name": "show", "inputSchema": {"type": "object"}, "_meta": {"ui/resourceUri": page}}

    def paged(server: str) -> Json:
        answers = {
            "resources/list": {"result": {"resources": [{"uri": page, "name": "w"}]}},
            "resources/read": {"result": {"contents": [{"uri": page, "text": server}]}},
        }
        return stub_entry(
            tools=[shows], capabilities={"tools": {}, "resources": {}}, answers=answers
        )

    file = compiled(tmp_path, {"a": paged("a"), "b": paged("b")})
    with served(file) as wire:
        for name, tool in zip("ab", asked(wire, "tools/list")["tools"], strict=True):
            uri = tool["_meta"]["ui/resourceUri"]
            assert asked(wire, "resources/read", uri=uri) == {
                "contents": [{"uri": f"ui://{name}/widget/main.html", "text": name}]
            }
        uris = [one["uri"] for one in asked(wire, "resources/list")["resources"]]
        assert uris == [f"ui://{name}/widget/main.html" for name in "ab"]
    assert main(["--check", "--offline", "-o", str(file)]) == 0
    for flags in ((), ("--json",)):
        done = subprocess.run(
            [sys.executable, "-I", str(file), "--list", *flags], capture_output=True, check=True
        )
        assert b"[b] w" in done.stdout or b"ui://b/widget/main.html" in done.stdout


PAGES: Json = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}


@pytest.mark.parametrize("policy", ["live", "warn", "refuse"])
def test_tools_for_clients_that_show_pages_are_compiled_and_no_drift(
    tmp_path: Path, policy: str
) -> None:
    server = stub_entry(
        tools=["echo", "click"], needs={"click": "extensions"}, does={"click": "echo"}
    )
    file = compiled(tmp_path, {"a": server}, "--on-drift", policy)
    with served(file, extensions=PAGES) as wire:
        assert tool_names(wire) == ["a:echo", "a:click"]
        assert text(call(wire, "a:click", n=1)) == '{"n":1}'
        assert wire.stderr == ""
    with served(file) as wire:
        assert tool_names(wire) == ["a:echo"]
        assert text(call(wire, "a:echo", n=1)) == '{"n":1}'
        assert wire.stderr == ""
