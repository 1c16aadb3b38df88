"""Editing an entry: nothing outside of it changes, and undoing it gives the same bytes.

Configs are written in every style that their formats have: comments, blanks, line ends, quotes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagg.command.pasting import FORMS
from mcpagg.install.editing import Config
from mcpagg.install.entries import Fields, Started, holes
from mcpagg.install.record import cut, fill, masked
from mcpagg.install.tree import Uneditable
from mcpagg.passes.config.dialects import DIALECTS

ARGV = ("/usr/bin/python3", "-I", "/x/FILE.py", "--as", "s", "sha256:00ff")
CLAUDE = next(row for row in DIALECTS if row.name == "Claude and most others")
CODEX = next(row for row in DIALECTS if row.client == "codex")

TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="$\ufeff\u2028\u2029\x85"),
    max_size=8,
)
NAMES = st.sampled_from(["a", "b-c", "d_e", "Ü", "x y", "0"])
VALUES = TEXTS.map("secret of mine ".__add__)
VARIABLES = st.dictionaries(st.sampled_from(["TOKEN", "A", "B_C"]), VALUES, max_size=3)
EXTRAS = st.dictionaries(
    st.sampled_from(["timeout", "disabled", "note", "alwaysAllow", "nested"]),
    st.one_of(st.booleans(), st.integers(0, 99), TEXTS, st.lists(TEXTS, max_size=2)),
    max_size=3,
)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an entry of a local server, or of a remote one, its keys in any order."""
    if draw(st.booleans()):
        entry: dict[str, Any] = {"command": "npx", "args": draw(st.lists(TEXTS, max_size=3))}
        entry |= {"env": draw(VARIABLES)} if draw(st.booleans()) else {}
    else:
        entry = {"url": "https://x.example/mcp"}
        entry |= {"headers": {"A": draw(TEXTS)}} if draw(st.booleans()) else {}
    entry |= draw(EXTRAS)
    keys = draw(st.permutations(list(entry)))
    return {key: entry[key] for key in keys}


SERVERS = st.dictionaries(NAMES, entries(), min_size=1, max_size=3)


class Writer:
    """Writes values in a style that is drawn anew at each place."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.end = draw(st.sampled_from(["\n", "\r\n"]))

    def any_of(self, *texts: str) -> str:
        return str(self.draw(st.sampled_from(texts)))

    def config(self, servers: dict[str, Any]) -> str:
        raise NotImplementedError

    def scalar(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=self.draw(st.booleans()))


class Json(Writer):
    def gap(self) -> str:
        return self.any_of("", " ", self.end, f"{self.end}\t ", f' // "}}{self.end}', "/* { , */")

    def value(self, value: Any) -> str:
        if isinstance(value, dict):
            members = [
                f"{self.gap()}{self.scalar(key)}{self.gap()}:{self.gap()}{self.value(member)}{self.gap()}"
                for key, member in value.items()
            ]
            return "{" + self.joined(members) + "}"
        if isinstance(value, list):
            return (
                "["
                + self.joined([self.gap() + self.value(item) + self.gap() for item in value])
                + "]"
            )
        return self.scalar(value)

    def joined(self, parts: list[str]) -> str:
        tail = self.any_of("", "," + self.gap()) if parts else self.gap()
        return ",".join(parts) + tail

    def config(self, servers: dict[str, Any]) -> str:
        mark = self.any_of("", "\ufeff")
        return (
            mark
            + self.gap()
            + self.value({"other": [1], "mcpServers": servers, "z": {}})
            + self.gap()
        )


class Yaml(Writer):
    def scalar(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)  # two halves of a pair are two characters

    def comment(self) -> str:
        return self.any_of("", "", "   # a: [b", " #")

    def blank(self) -> str:
        return self.any_of("", "", self.end, f"  # }} - x: y{self.end}")

    def flow(self, value: Any) -> str:
        if isinstance(value, dict):
            return (
                "{" + ", ".join(f"{self.scalar(k)}: {self.flow(v)}" for k, v in value.items()) + "}"
            )
        if isinstance(value, list):
            return "[" + ", ".join(map(self.flow, value)) + "]"
        return self.scalar(value)

    def key(self, key: str) -> str:
        return key if key.isascii() and key.isidentifier() else self.scalar(key)

    def block(self, value: Any, indent: str) -> str:
        """Return what follows a key and its colon, or a dash."""
        if indent and isinstance(value, str) and value.isalnum() and self.draw(st.booleans()):
            return f" |-{self.end}{indent}   {value}{self.end}{self.any_of('', self.end)}"
        if isinstance(value, str) and value.isascii() and value.isalpha() and len(value) > 5:
            return f" {value}{self.comment()}{self.end}"
        if not isinstance(value, dict | list) or not value or self.draw(st.booleans()):
            return f" {self.flow(value)}{self.comment()}{self.end}"
        step = indent + self.any_of("  ", "    ")
        if isinstance(value, dict):
            lines = [f"{step}{self.key(k)}:{self.block(v, step)}" for k, v in value.items()]
        else:
            step = self.any_of(step, indent) if indent else step
            lines = [f"{step}-{self.block(item, step)}" for item in value]
        return f"{self.comment()}{self.end}" + "".join(self.blank() + line for line in lines)

    def config(self, servers: dict[str, Any]) -> str:
        parts = [
            f"{key}:{self.block(value, '')}"
            for key, value in (("other", [1]), ("mcpServers", servers), ("z", "q"))
        ]
        return self.any_of("", f"---{self.end}") + self.blank().join(parts)


class Toml(Writer):
    def comment(self) -> str:
        return self.any_of("", "", "  # [x]", "#")

    def inline(self, value: Any) -> str:
        if isinstance(value, dict):
            return (
                "{ "
                + ", ".join(f"{self.key(k)} = {self.inline(v)}" for k, v in value.items())
                + " }"
            )
        if isinstance(value, list):
            gap = self.any_of("", " ", f"{self.end} # ]{self.end}")
            return "[" + ",".join(gap + self.inline(item) for item in value) + gap + "]"
        if isinstance(value, str) and "'" not in value and self.draw(st.booleans()):
            return self.any_of(f"'{value}'", f"'''{value}'''")
        return json.dumps(value, ensure_ascii=False)

    def key(self, key: str) -> str:
        bare = key.isascii() and key.replace("-", "_").replace("0", "a").isidentifier()
        return key if bare and self.draw(st.booleans()) else json.dumps(key, ensure_ascii=False)

    def config(self, servers: dict[str, Any]) -> str:
        lines = [f'model = "o"{self.comment()}', ""]
        for name, entry in servers.items():
            head = f"mcp_servers.{self.key(name)}"
            lines.append(f"{self.any_of('', '  ')}[{head}]{self.comment()}")
            tables = [
                key for key, v in entry.items() if isinstance(v, dict) and self.draw(st.booleans())
            ]
            for key, value in entry.items():
                if key not in tables:
                    lines += [f"{self.key(key)} = {self.inline(value)}{self.comment()}"]
                    lines += self.draw(st.sampled_from([[], [], [""], ["# [y"]]))
            for key in tables:
                lines.append(f"[ {head} . {self.key(key)} ]")
                lines += [
                    f"{self.key(k)} = {self.inline(v)}{self.comment()}"
                    for k, v in entry[key].items()
                ]
        return str(self.end.join(lines)) + self.any_of("", self.end)


FORMATS = {
    "x.json": (Json, CLAUDE, "mcpServers"),
    "x.yaml": (Yaml, CLAUDE, "mcpServers"),
    "x.toml": (Toml, CODEX, "mcp_servers"),
}


@pytest.mark.parametrize("source", FORMATS)
@given(data=st.data())
def test_only_the_entry_changes_and_undoing_that_gives_the_same_bytes(
    source: str, data: st.DataObject
) -> None:
    writer, dialect, container = FORMATS[source]
    servers = data.draw(SERVERS)
    name = data.draw(st.sampled_from(sorted(servers)))
    text = writer(data.draw).config(servers)
    config = Config(text.encode(), source)
    assert config.at((container, name)) is not None
    path = (container, name)
    entry = config.entry(path)
    span, old = entry.span, entry.text
    fields = Fields(config.at(path), dialect, FORMS["claude-desktop"])
    pieces = cut(old, holes(entry, fields, fields.literals(), ()))
    tokens = {}
    for variable in fields.literals():
        place = entry.span_of((*fields.env, variable))
        if place:
            tokens[variable] = old[place.start : place.end]
    fields.start(entry, Started(ARGV, {"NEW": 'v"\\'}))

    new = config.replaced({path: entry.text})
    assert new.text[: span.start] == text[: span.start]
    assert new.text[len(new.text) - len(text) + span.end :] == text[span.end :]
    said = new.at(path)
    assert [said["command"], *said["args"]] == [*ARGV]
    assert said["env"] == {**(servers[name].get("env") or {}), "NEW": 'v"\\'}
    kept = servers[name].keys() - {"command", "args", "env", "url", "headers"}
    assert said.keys() - {"command", "args", "env"} == kept
    assert (
        new.replaced({path: fill(pieces, lambda variable, _: tokens[variable])}).data == config.data
    )
    assert "secret of mine" not in masked(pieces)


def test_an_entry_that_shares_its_text_with_another_is_left_alone() -> None:
    text = "mcpServers:\n  a: &a\n    command: npx\n  b:\n    <<: *a\n    args: [x]\n  c: *a\n"
    config = Config(text.encode(), "x.yaml")
    for name in "abc":
        with pytest.raises(Uneditable):
            config.entry(("mcpServers", name))
