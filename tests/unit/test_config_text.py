"""Text becomes values, or an error with its line and column."""

from __future__ import annotations

import pytest
from configs import entry_refusal, read, refusal

from mcpagg.problems import ConfigError


def test_comments_and_trailing_commas_are_read_and_slashes_in_strings_kept() -> None:
    spec, _ = read(
        b'// first\n{"mcpServers": {"a": {"url": "http://h/x", /* why */ "headers": {},},},}'
    )
    assert spec.servers[0].url == "http://h/x"


@pytest.mark.parametrize("text", [b'\xef\xbb\xbf{"mcpServers": %s}', b'{\r\n"mcpServers": %s\r\n}'])
def test_a_byte_order_mark_and_windows_line_ends_are_accepted(text: bytes) -> None:
    spec, warnings = read(text % b'{"a": {"command": "x"}}')
    assert (spec.servers[0].command, warnings) == ("x", [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_unicode_encoding_is_named(encoding: str) -> None:
    assert "save it as UTF-8" in refusal('{"mcpServers": {}}'.encode(encoding))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"mcpServers": {\n  "a": {"command": "x"\n', "line 2, column"),
        (b'{\n "a" 1}', "line 2, column 5"),
        (b'{"a": 1} // fine\n x', "line 2, column 2"),
        (b"{'a': 1}", "line 1, column 2: not JSON: expecting a key; write it in double quotes"),
        (rb'{"a": "C:\Users"}', r"not JSON: invalid backslash escape; write \\ for one backslash"),
        (b'{"a": NaN}', "line 1, column 7"),
        (b'{"a":\n "\xff"}', "line 2, column 3: not UTF-8"),
        (b"https://example.com", "line 1, column 1"),
        (b"/* open", "line 1, column 1"),
    ],
)
def test_a_syntax_error_names_line_and_column(text: bytes, place: str) -> None:
    assert place in refusal(text)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        (b"{'a': 1}", "write it in double quotes"),
        (b"{a: 1}", "write it in double quotes"),
        (b'{"a": True}', "write text in double quotes"),
        (b'{"a": "C:\\work"}', "write \\\\ for one backslash"),
    ],
)
def test_a_syntax_error_says_what_to_write(text: bytes, cure: str) -> None:
    assert cure in refusal(text)


def test_a_syntax_error_does_not_show_the_text() -> None:
    with pytest.raises(ConfigError) as caught:
        read(b'{"mcpServers": {"a": {"env": {"T": "hunter2" "x"}}}}')
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("separator", [", ", ", // again\n"])
def test_duplicate_keys_are_errors_with_their_path(separator: str) -> None:
    text = (
        '{"mcpServers": {"a": {"command": "x", "env": {"T": "1"@"T": "2"}}@"a": {"command": "y"}}}'
    )
    message = refusal(text.replace("@", separator).encode())
    assert "mcpServers.a: this key is written more than once" in message


def test_duplicate_keys_are_found_at_any_depth() -> None:
    message = refusal(b'{"mcpServers": {"a": {"command": "x", "env": {"T": "1", "T": "2"}}}}')
    assert "mcpServers.a.env.T: this key" in message


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_a_string_that_no_process_can_be_given_is_an_error(text: str) -> None:
    assert "mcpServers.a.args[0]: holds" in entry_refusal(command="x", args=[text])


def test_what_is_nested_too_deeply_is_an_error() -> None:
    assert "nested too deeply" in refusal(b"[" * 100_000)
    assert "nested too deeply" in refusal(b'{"a":' * 100_000)


# TOML

TOML = b"""# of Codex
model = "m"

[mcp_servers.a]
command = "npx"
args = ["-y", 8080, 1.10]
env = { A = "b", T = 1979-05-27 }
env_vars = ["HOME"]
tool_timeout_sec = 1_0.5
enabled = true
"""


def test_toml_is_read_with_the_text_of_its_numbers() -> None:
    spec, _ = read(TOML, "config.toml")
    [server] = spec.servers
    assert (server.path, server.command) == ("mcp_servers.a", "npx")
    assert server.args == ("-y", "8080", "1.10")
    assert server.env == {"A": "b", "T": "1979-05-27", "HOME": "${HOME}"}
    assert server.timeout == 10.5


@pytest.mark.parametrize("text", [TOML, b'{"mcpServers": {"a": {"command": "npx"}}}'])
def test_the_format_is_known_without_a_name(text: bytes) -> None:
    assert read(text, "-")[0].servers[0].command == "npx"


@pytest.mark.parametrize(
    ("source", "text", "says"),
    [
        (
            "c.toml",
            b"a = 1\n[b\n",
            "line 2, column 3: not TOML: expected ']' at the end",
        ),
        ("c.toml", b"a = 1\na = 2\n", "line 2, column 6: not TOML: cannot overwrite a value"),
        ("c.toml", b"a = {", "line 1, column 6: not TOML: "),
        ("c.toml", b"a = {\n b = 1 }", "not TOML: expecting a key; write `{…}` on one line"),
        ("c.toml", b"a = " + b"9" * 5000, "not TOML: holds a number beyond all bounds"),
        ("c.toml", b"a = " + b"[" * 5000, "is nested too deeply"),
    ],
)
def test_a_fault_of_toml_names_line_and_column(source: str, text: bytes, says: str) -> None:
    assert says in refusal(text, source=source)


@pytest.mark.parametrize("source", ["c.toml", "c.json"])
def test_a_fault_shows_nothing_of_a_value(source: str) -> None:
    line = {"c.toml": b'token = "hunter2" "x"', "c.json": b'{"token": "hunter2" "x"}'}
    message = refusal(line[source], source=source)
    assert "hunter2" not in message
