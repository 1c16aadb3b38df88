"""Literal credentials are found wherever they stand, and nothing else is."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mcpagg.config import read_config
from mcpagg.problems import ConfigError

HEX = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
GITHUB = "ghp_" + "a1B2c3D4e5F6" * 3
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"


def read(entry: dict[str, Any], *, allowed: bool = False) -> list[str]:
    text = json.dumps({"mcpServers": {"github": entry}}).encode()
    _, warnings = read_config(
        text, source="mcp.json", folder=Path("/project"), allow_secrets=allowed
    )
    return [str(warning) for warning in warnings]


def refusal(**entry: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(entry)
    return str(caught.value)


@pytest.mark.parametrize(
    ("entry", "where", "replacement"),
    [
        ({"env": {"API_TOKEN": "hunter2!"}}, "env.API_TOKEN", '"API_TOKEN": "${API_TOKEN}"'),
        ({"env": {"X": GITHUB}}, "env.X", '"X": "${X}"'),
        ({"env": {"T": f"${{T:-{GITHUB}}}"}}, "env.T", '"T": "${T}"'),
        ({"env": {"SERVICE_KEY": HEX}}, "env.SERVICE_KEY", '"SERVICE_KEY": "${SERVICE_KEY}"'),
        ({"env": {"DB": "postgres://u:p4ss-W0rd@h/db"}}, "env.DB", '"DB": "${DB}"'),
        ({"env": {"CONFIG": f'{{"apiKey": "{HEX}"}}'}}, "env.CONFIG", '"CONFIG": "${CONFIG}"'),
        ({"args": ["--access-token", HEX]}, "args[1]", "`${GITHUB_ACCESS_TOKEN}`"),
        ({"args": ["--key", HEX]}, "args[1]", "`${GITHUB_KEY}`"),
        ({"args": [f"--api-key={HEX}"]}, "args[0]", "`--api-key=${GITHUB_API_KEY}`"),
        ({"args": [f"--env.A={GITHUB}"]}, "args[0]", "`--env.A=${GITHUB_A}`"),
        ({"args": ["-e", f"X_TOKEN={HEX}"]}, "args[1]", "`X_TOKEN=${GITHUB_TOKEN}`"),
        ({"args": ["-c", f'API_KEY="{HEX}" run']}, "args[1]", '`API_KEY="${GITHUB_API_KEY}`'),
        (
            {"args": [f"https://h/mcp?exaApiKey={HEX}"]},
            "args[0]",
            "`exaApiKey=${GITHUB_EXA_API_KEY}`",
        ),
        ({"args": ["mysql://u:p4ss-W0rd@h/db"]}, "args[0]", "`${GITHUB_SECRET}`"),
        (
            {"args": ["--header", f"Authorization: Bearer {HEX}"]},
            "args[1]",
            "`Authorization: Bearer ${GITHUB_TOKEN}`",
        ),
        ({"args": [f'{{"password": "{HEX}"}}']}, "args[0]", '`"password": "${GITHUB_PASSWORD}`'),
        ({"args": [GITHUB]}, "args[0]", "`${GITHUB_SECRET}`"),
    ],
)
def test_a_literal_credential_is_refused_with_what_to_write(
    entry: dict[str, Any], where: str, replacement: str
) -> None:
    message = refusal(command="x", **entry)
    assert f"mcpServers.github.{where}: holds " in message
    assert f"write {replacement}" in message
    assert "pass --allow-secrets" in message


@pytest.mark.parametrize(
    ("headers", "replacement"),
    [
        ({"Authorization": f"Bearer {JWT}"}, '"Authorization": "Bearer ${GITHUB_TOKEN}"'),
        ({"Authorization": "Basic dXNlcjpwYXNz"}, '"Authorization": "Basic ${GITHUB_TOKEN}"'),
        ({"X-Api-Key": HEX}, '"X-Api-Key": "${GITHUB_API_KEY}"'),
        ({"Cookie": "c0123456789abcdef"}, '"Cookie": "${GITHUB_COOKIE}"'),
    ],
)
def test_a_header_keeps_its_scheme(headers: dict[str, str], replacement: str) -> None:
    message = refusal(url="https://h/mcp", headers=headers)
    assert f"write {replacement} and export" in message


def test_a_credential_in_a_url_is_refused() -> None:
    assert "mcpServers.github.url: holds" in refusal(url=f"https://h/mcp?token={HEX}")
    assert "a password in a URL" in refusal(url="https://me:p4ss-W0rd@h/mcp")


SECRETS = [HEX, GITHUB, JWT, "p4ss-W0rd"]


@pytest.mark.parametrize("secret", SECRETS)
def test_no_message_holds_the_value(secret: str) -> None:
    entry = {
        "command": "x",
        "args": ["--token", secret, f"--password={secret}", f"http://u:{secret}@h"],
        "env": {"API_KEY": secret, "$T": f"${{T:-{secret}}}"},
    }
    assert secret not in refusal(**entry)
    assert secret not in "".join(read(entry, allowed=True))


def test_allowed_credentials_are_warnings() -> None:
    [warning] = read({"command": "x", "env": {"T": GITHUB}}, allowed=True)
    assert "mcpServers.github.env.T: holds a GitHub token, which will stand in the out" in warning


@pytest.mark.parametrize(
    "value",
    [
        "YOUR_API_KEY",
        "your-token-here",
        "<API_KEY>",
        "{secret}",
        "{{TOKEN}}",
        "xxxx",
        "sk-...",
        "GITHUB_TOKEN",
        "changeme",
        "my-secret-token",
        "replace-with-token",
        "sk-your-key-here",
    ],
)
def test_a_placeholder_is_a_warning(value: str) -> None:
    [warning] = read({"command": "x", "env": {"API_KEY": value}})
    assert "mcpServers.github.env.API_KEY: holds a placeholder" in warning
    assert 'write "API_KEY": "${API_KEY}"' in warning


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", ""),
        ("API_KEY", "${API_KEY}"),
        ("API_KEY", "${API_KEY:-}"),
        ("API_KEY", "none"),
        ("AUTH_TOKEN", "false"),
        ("MAX_TOKENS", "4096"),
        ("TOKEN_LIMIT", "100000"),
        ("TOKEN", "1000"),
        ("PASSWORD", "postgres"),
        ("KEY_FILE", "/etc/ssl/key.pem"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/google.json"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "C:\\Users\\me\\google.json"),
        ("SECRET", "op://vault/item/field"),
        ("TOKENIZER", "cl100k_base"),
        ("AUTH", "oauth"),
        ("PUBLIC_URL", "https://example.com/a?b=c"),
        ("DATABASE_URL", "postgres://postgres:postgres@localhost/db"),
        ("DATABASE_URL", "postgres://user:${DB_PASSWORD}@h/db"),
        ("COLLECTION_NAME", "ws-0123456789abcdef"),
        ("PROJECT_ID", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("PRIMARY_KEY", "id"),
        ("KEYBOARD", "dvorak-0123456789"),
        ("NODE_OPTIONS", "--max-old-space-size=4096"),
        ("MODEL", "claude-sonnet-4-20250514"),
        ("COMMIT", HEX),
    ],
)
def test_what_is_no_credential_raises_no_alarm(name: str, value: str) -> None:
    assert not [
        warning
        for warning in read({"command": "x", "env": {name: value}})
        if "looks" not in warning
    ]


@pytest.mark.parametrize(
    "args",
    [
        ["-y", "@scope/server@1.2.3", "--token-file", "/run/token"],
        ["--key", "id", "--password", "${PW}"],
        ["--header", "Authorization: Bearer ${TOKEN}"],
        ["--header", "Accept: application/json"],
        ["https://h/mcp?key=${KEY}&page=2"],
        ["git+https://git@github.com/o/r@" + HEX + "00000000"],
        ["--from", "git+ssh://git@h/r", "--allow-token"],
        ["-e", "GITHUB_TOKEN", "ghcr.io/o/server@sha256:" + HEX * 2],
        ["--use-auth-token", "--verbose"],
        ["C:\\dir\\key.pem", "{}", "a=b"],
    ],
)
def test_ordinary_arguments_raise_no_alarm(args: list[str]) -> None:
    assert read({"command": "x", "args": args}) == []


def test_a_name_that_cannot_be_a_variable_gets_one_that_can() -> None:
    message = refusal(command="x", env={"my-token": HEX})
    assert 'write "my-token": "${MY_TOKEN}" and export MY_TOKEN' in message


@pytest.mark.parametrize("text", ["a", "<", "{", "Aa0+", "http://", "a=", '"a":"'])
def test_long_strings_are_searched_in_no_time(text: str) -> None:
    started = time.process_time()
    read({"command": "x", "args": ["--token", text * 30_000]}, allowed=True)
    assert time.process_time() - started < 2
