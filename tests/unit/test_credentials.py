"""Literal credentials are found wherever they stand, and nothing else is."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from mcpagg.command.cli import main
from mcpagg.passes.config import read_config
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
        ({"args": ["-c", f'API_KEY="{HEX}" run']}, "args[1]", '`API_KEY="${GITHUB_API_KEY}"`'),
        (
            {"args": [f"https://h/mcp?exaApiKey={HEX}"]},
            "args[0]",
            "`exaApiKey=${GITHUB_EXA_API_KEY}`",
        ),
        ({"args": ["mysql://u:p4ss-W0rd@h/db"]}, "args[0]", "`mysql://u:${GITHUB_PASSWORD}@h…`"),
        (
            {"args": ["--header", f"Authorization: Bearer {HEX}"]},
            "args[1]",
            "`Authorization: Bearer ${GITHUB_TOKEN}`",
        ),
        ({"args": [f'{{"password": "{HEX}"}}']}, "args[0]", '`"password": "${GITHUB_PASSWORD}"`'),
        ({"args": [GITHUB]}, "args[0]", "`${GITHUB_SECRET}`"),
        ({"args": [f'{{"apiKey":"{HEX}","n":1}}']}, "args[0]", '`"apiKey":"${GITHUB_API_KEY}"`'),
        ({"args": [f"--header=X-Key: {HEX}"]}, "args[0]", "`--header=X-Key: ${GITHUB_KEY}`"),
        ({"args": ["--to", f"${{MY_TOKEN:-{HEX}}}"]}, "args[1]", "`${MY_TOKEN}`"),
        ({"args": [f"Server=db;Password={HEX};"]}, "args[0]", "`Password=${GITHUB_PASSWORD}`"),
        ({"args": [f"curl -H 'X-Api-Key: {HEX}'"]}, "args[0]", "`X-Api-Key: ${GITHUB_API_KEY}`"),
        ({"args": [f"say Bearer {HEX}, then"]}, "args[0]", "`Bearer ${GITHUB_TOKEN}`"),
        ({"args": [f"https://{HEX}@h/mcp"]}, "args[0]", "`${GITHUB_TOKEN}`"),
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


RANDOM = "Zq7SuperSecretValue" + "9xK"
UUID = "0f8fad5b-d9cb-469f-a165-" + "70867728950e"
ROOT = "Root" + "@123"
APP_PASSWORD = "abcd " + "efgh ijkl mnop"
BASIC = base64.b64encode(b"me:pass-12345").decode()
AZURE = base64.b64encode(bytes(range(64))).decode()

PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA0123\n" * 4
PEM_BASE64 = base64.b64encode(PEM.encode()).decode()
PEM_WRAPPED = base64.encodebytes(PEM.encode()).decode()
PIN = "47" + "11"

MIXED = "a1B2c3D4e5F6g7H8i9J0" * 8
BY_FORM = [
    f"SK{HEX}",
    f"key-{HEX}",
    f"MTA4{MIXED[:20]}.Gh1jKl.{MIXED[:38]}",
    f"{MIXED[:14]}.atlasv1.{MIXED[:67]}",
    f"FlyV1 fm2_{MIXED[:90]}",
    f"fm2_{MIXED[:90]}",
    f"ops_eyJ{MIXED[:120]}",
    f"EAAA{MIXED[:60]}",
    f"sl.{MIXED[:130]}",
    f"sl.u.{MIXED[:130]}",
]
"""Those that no name gives away."""
CREDENTIALS: list[dict[str, Any]] = [
    # A scheme of HTTP is evidence, whatever the name.
    {"env": {"AUTH_HEADER": f"Bearer {HEX}"}},
    {"env": {"X": f"Basic {BASIC}"}},
    {"args": [f"--header=Authorization: Bearer {HEX}"]},
    {"args": ["--header", f"Authorization: Bearer {HEX}"]},
    {"args": ["-c", f"curl -H 'Authorization: Bearer {HEX}' https://h"]},
    # Names that say so.
    {"env": {"MYSQL_PASS": ROOT}},
    {"env": {"DB_PASS": ROOT}},
    {"env": {"MYSQL_PWD": ROOT}},
    {"env": {"SMTP_PASS": APP_PASSWORD}},
    {"env": {"PGPASSWORD": ROOT}},
    {"env": {"LANGFUSE_BASIC": BASIC}},
    {"env": {"TOKENS": RANDOM}},
    {"env": {"TOKEN_VALUE": RANDOM}},
    {"env": {"MY_TOKEN_2": RANDOM}},
    {"env": {"SECRET_ID": RANDOM}},
    {"env": {"CREDS": RANDOM}},
    {"env": {"JWT": RANDOM}},
    {"env": {"APITOKEN": RANDOM}},
    {"env": {"OPENAI_KEY": RANDOM}},
    {"env": {"A_KEY": f"${{A_KEY:-{RANDOM}}}"}},
    # Flags, their short forms, and defaults of references.
    {"args": ["-k", HEX]},
    {"args": ["-p", RANDOM]},
    {"args": ["--password", ROOT]},
    {"args": [f"--api-key={RANDOM}"]},
    {"args": ["-c", f"TOKEN={RANDOM} run"]},
    {"args": [f"${{GITHUB_TOKEN:-{RANDOM}}}"]},
    # Connection strings.
    {"env": {"CS": f"Server=db;User Id=sa;Password={RANDOM};"}},
    {"env": {"CS": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={AZURE};E=core"}},
    {"env": {"CS": f"host=x password={RANDOM}"}},
    {"env": {"CS": f"cache.example.net:6380,password={RANDOM},ssl=True"}},
    {"args": [f"--//npm.example.com/:_authToken={RANDOM}"]},
    {"args": [f"user: me\npassword: {RANDOM}\n"]},
    # What stands before the host of a URL; a default password where others reach the server.
    {"args": [f"https://{RANDOM}@host/mcp"]},
    {"args": [f"https://{RANDOM}:@host/mcp"]},
    {"args": [f"postgresql://:{RANDOM}@host/db"]},
    {"args": ["postgresql://postgres:" + "postgres@172.17.0.1:5433/bia"]},
    # URLs whose path, or query, is the secret.
    {"args": [f"https://mcp.zapier.com/api/mcp/s/{HEX}/mcp"]},
    {"args": [f"https://mcp.composio.dev/composio/server/{UUID}/mcp"]},
    {"args": ["https://mcp.composio.dev/mail/brave-purple-horse-Q7-kz?agent=x"]},
    {"env": {"HOOK": f"https://discord.com/api/webhooks/123456789012345678/{HEX}{HEX}"}},
    {"args": [f"https://hooks.slack.com/services/T00/B00/{RANDOM}"]},
    {"args": [f"https://host/mcp?api_key={RANDOM}"]},
    # Known formats, wherever they stand, and with a placeholder beside them.
    {"args": ["--name", GITHUB]},
    {"env": {"X": JWT}},
    {"args": [f"--api-key=YOUR_KEY --token={RANDOM}"]},
    # Other spellings of flags: with a name within the value, with the value glued, Windows' own.
    {"args": [f"--env=API_KEY={RANDOM}"]},
    {"args": [f'--env="DB_PASS={ROOT}"']},
    {"args": [f"-e=API_KEY={RANDOM}"]},
    {"args": [f"-p{RANDOM}"]},
    {"args": [f"--token:{RANDOM}"]},
    {"args": [f"/token:{RANDOM}"]},
    {"args": [f"/password={ROOT}"]},
    {"args": ["/token", RANDOM]},
    # Logins.
    {"args": ["-u", f"me:{ROOT}"]},
    {"args": ["--user", f"me:{RANDOM}"]},
    {"args": [f"--proxy-user=me:{ROOT}"]},
    {"args": [f"-ume:{RANDOM}"]},
    {"args": ["-u", f"{RANDOM}:"]},
    {"args": ["-c", f"curl -u 'me:{ROOT}' https://h"]},
    # Within base64: keys, and whatever else is found in a text.
    {"env": {"X": PEM_BASE64}},
    {"env": {"X": PEM_WRAPPED}},
    {"env": {"X": base64.urlsafe_b64encode(f'{{"a": 1, "api_key": "{HEX}"}}'.encode()).decode()}},
    {"args": [f"--config={PEM_BASE64}"]},
    # Names in other languages; a PIN has digits only.
    *({"env": {name: ROOT}} for name in ("DB_PASSWORT", "MOT_DE_PASSE", "CONTRASENA", "SENHA")),
    *({"env": {name: ROOT}} for name in ("KENNWORT", "SMTP_MDP", "contraseña", "WACHTWOORD")),
    {"env": {"CARD_PIN": PIN}},
    {"args": ["--pin", PIN]},
    # Prefixes.
    *(
        {"env": {"X": prefix + "a1B2c3D4e5F6" * 3}}
        for prefix in ("npg_", "napi_", "r8_", "xoxc-", "glptt-", "lsv2_pt_", "dckr_pat_", "hvs.")
    ),
    *({"args": [token]} for token in BY_FORM),
]


@pytest.mark.parametrize("entry", CREDENTIALS)
def test_every_form_of_a_credential_is_refused(entry: dict[str, Any]) -> None:
    message = refusal(command="x", **entry)
    for secret in (
        HEX,
        UUID,
        ROOT,
        APP_PASSWORD,
        BASIC,
        RANDOM,
        AZURE,
        GITHUB,
        JWT,
        PEM_BASE64,
        PIN,
        MIXED[:14],
    ):
        assert secret not in message


@pytest.mark.parametrize(
    "text",
    [
        f"cache-key-{HEX}",
        f"TASK{HEX}",
        "EAAA" + "QAAB" * 20 + "==",
        "ssl.create_default_context",
        "MyClassNameThatIsLongEnough.method.call",
        "fm2_short",
    ],
)
def test_what_only_resembles_a_form_is_none(text: str) -> None:
    assert read({"command": "x", "args": [text]}) == []


SUBTOOLS = {"a": {"tools": [{"name": "q"}]}}
OTHER_KEYS: list[tuple[str, dict[str, Any]]] = [
    ("mcpServers.***", {"mcpServers": {GITHUB: {"command": "x"}}}),
    ("mcpServers.a", {"mcpServers": {"a": {"command": "x", "env": {GITHUB: "1"}}}}),
    ("mcpServers.a", {"mcpServers": {"a": {"command": "x", "excludeTools": [GITHUB]}}}),
    (
        "mcpServers.a",
        {
            "mcpServers": {
                "a": {"command": "x", "exposedTools": [{"original": "t", "exposed": GITHUB}]}
            }
        },
    ),
    ("tools.t", {"tools": {"t": {"description": GITHUB, "subtools": SUBTOOLS}}}),
    ("tools.***", {"tools": {GITHUB: {"subtools": SUBTOOLS}}}),
    (
        "tools.t",
        {"tools": {"t": {"subtools": {"a": {"tools": [{"name": "q", "description": GITHUB}]}}}}},
    ),
    ("mcpagg.profiles.***", {"mcpagg": {"profiles": {GITHUB: {"expose": ["a:*"]}}}}),
    ("mcpagg.profiles.p", {"mcpagg": {"profiles": {"p": {"clients": [GITHUB]}}}}),
    ("mcpagg.profiles.p", {"mcpagg": {"profiles": {"p": {"hide": [f"a:{GITHUB}"]}}}}),
    ("mcpagg.overlays", {"mcpagg": {"overlays": {"a:t": {"_meta": {GITHUB: 1}}}}}),
    ("serverTransport", {"serverTransport": {"type": "sse", "path": f"/{GITHUB}"}}),
]


@pytest.mark.parametrize(("where", "more"), OTHER_KEYS)
def test_a_known_form_is_refused_whatever_key_it_comes_from(
    where: str, more: dict[str, Any]
) -> None:
    config = json.dumps({"mcpServers": {"a": {"command": "x"}}, **more}).encode()
    options: dict[str, Any] = {"source": "mcp.json", "folder": Path("/project")}
    with pytest.raises(ConfigError) as caught:
        read_config(config, **options)
    assert f"mcp.json: {where}" in str(caught.value)
    assert "holds a GitHub token" in str(caught.value)
    assert GITHUB not in str(caught.value)
    _, warnings = read_config(config, **options, allow_secrets=True)
    assert any("holds a GitHub token" in one.what for one in warnings)
    assert all(GITHUB not in str(one) for one in warnings)


FILLERS: list[dict[str, Any]] = [
    # A prefix with nothing behind it, and words that take the place of a key.
    *(
        {"env": {"API_KEY": value}}
        for value in (
            "sk-",
            "ghp_",
            "sk-ant-",
            "REDACTED",
            "ollama",
            "lm-studio",
            "not-needed",
            "sk-no-key-required",
            "optional",
            "none",
            "dummy",
            "apikey",
            "KEY",
            "secret",
            "EMPTY",
            "你的API密钥",
            "sua-chave-aqui",
            "sk-this-is-not-a-real-key",
            "YOUR_API_KEY",
            "<your key>",
            "sk-1234",
            "sk-local",
            "sk-" + "x" * 20,
            "ghp_" + "x" * 36,
            "sk-ant-api03-" + "X" * 95,
            "sk-" + "0" * 20,
            "AKIA" + "X" * 16,
            "x" * 32,
        )
    ),
    # Names of files.
    {"env": {"CREDENTIALS": "credentials.json"}},
    {"env": {"TOKEN": "token.json"}},
    {"env": {"PRIVATE_KEY": "keys/id.pem"}},
    {"args": ["--credentials", "creds/gcp.json"]},
    {"env": {"CREDENTIALS": r"%USERPROFILE%\x.json"}},
    {"env": {"CREDENTIALS": "./x"}},
    # What another program fills in.
    {"env": {"TOKEN": "$(gh auth token)"}},
    {"env": {"TOKEN": "`gh auth token`"}},
    {"env": {"TOKEN": "keyring:github"}},
    {"env": {"TOKEN": "op://vault/item/field"}},
    {"args": ["--token", "%GITHUB_TOKEN%"]},
    # Names that promise little, with values that words and numbers make.
    {"env": {"SORT_KEY": "created_at_desc_2024"}},
    {"env": {"PRIMARY_KEY": "customer_id_2024_v2"}},
    {"env": {"MCP_SESSION": "team-session-2024-prod"}},
    {"env": {"MAX_TOKENS": "200000"}},
    {"env": {"TOKEN_FILE": f"{RANDOM}"}},
    {"env": {"PUBLIC_KEY": f"{RANDOM}"}},
    {"args": ["-p", "8080:80"]},
    {"args": ["-p", "my-project-2024-eu"]},
    {"args": ["-python", "-port8080", "-target:es2020", "-url:h1"]},
    {"args": ["--env=NODE_ENV=production", "--mount=type=bind", "--build-arg=V=1"]},
    {"args": ["-v", "/secrets:/secrets:ro", "/home", "/key", "/data"]},
    {"env": {"LED_PIN": "13", "PIN": "0000", "RESENHA": f"{RANDOM}", "VERSION_PIN": "1.2.3"}},
    # Users with their groups, hosts with their ports, base64 that gives nothing away.
    *({"args": ["-u", user]} for user in ("1000:1000", "node:node", "www-data:www-data")),
    *({"args": ["--user", user]} for user in ("1000650000:1000650000", "$(id -u):$(id -g)")),
    {"args": ["-u", "app", "server:app", "-u", "localhost:8080", "-u", "https://h/x"]},
    {"env": {"X": base64.b64encode(b'{"mode": "fast", "token": "YOUR_TOKEN"}').decode()}},
    {"env": {"MODEL": "jina-reranker-v2-base-multilingual"}},
    # Public by design.
    {"env": {"SENTRY_DSN": f"https://{HEX}@o1.ingest.us.sentry.io/42"}},
    {"env": {"DSN": f"https://{HEX}@sentry.example.com/42"}},
    # Prose, and URLs that give nothing away.
    {"env": {"MODE": "Basic authentication"}},
    {"args": ["say Bearer tokens-are-not-shown"]},
    {"args": ["postgresql://postgres:" + "postgres@localhost:5432/db"]},
    {"args": ["postgresql://user:" + "password@db/x"]},
    {"args": ["git+https://git@github.com/o/r", "ssh://deploy@host/x"]},
    {"args": [f"https://host/projects/{UUID}/mcp"]},
]


@pytest.mark.parametrize("entry", FILLERS)
def test_what_only_takes_the_place_of_a_credential_is_at_most_a_warning(
    entry: dict[str, Any],
) -> None:
    warnings = read({"command": "x", **entry})
    assert all("holds a placeholder" in one or "looks like" in one for one in warnings)


@pytest.mark.parametrize(
    "text",
    [
        *("a", "<", "{", "Aa0+", "http://", "a=", '"a":"', "\\", " -u a:", "A\n", "x.", "/"),
        *("${", "${A:-", "${{", "${A ", "$X", "$$", "${X}", "a=b;", "{env:"),
    ],
)
def test_long_strings_are_searched_in_no_time(text: str) -> None:
    started = time.process_time()
    read({"command": "x", "args": ["--token", text * 30_000]}, allowed=True)
    assert time.process_time() - started < 2


def compiled(tmp_path: Path, entry: dict[str, Any], *options: str) -> int:
    """Return the exit status of a dry run."""
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"one": {"command": "true", **entry}}}))
    return main([str(config), "--dry-run", *options])


LITERALS: dict[str, Any] = {
    "args": ["--token", HEX, f"--api-key={HEX}", f"postgres://u:{HEX}@h/db", "-v"],
    "env": {"X": f"Bearer {HEX}", "API_KEY": HEX, "MODE": "fast"},
    "envVars": [{"name": "MASKED", "value": HEX, "unexpand": True}],
}


@pytest.mark.parametrize("report", ["text", "json"])
def test_no_report_holds_a_literal_credential(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], report: str
) -> None:
    assert compiled(tmp_path, LITERALS, "--allow-secrets", "--report", report) == 0
    captured = capsys.readouterr()
    assert HEX not in captured.out + captured.err
    assert "***" in captured.out
    assert "-v" in captured.out
    if report == "json":
        [server] = json.loads(captured.out)["servers"]
        assert server["env"] == {"X": "***", "API_KEY": "***", "MODE": "fast"}
        assert server["args"] == ["--token", "***", "***", "***", "-v"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--name", GITHUB], "--name holds a GitHub token; the file records it"),
        (["--hide", f"one:{GITHUB}"], "--hide holds a GitHub token"),
        (["--define", f"apikey={RANDOM}"], "--define apikey holds a literal value for"),
        (["--define", f"region={GITHUB}"], "--define region holds a GitHub token"),
        (["--define", RANDOM], "--define needs NAME=VALUE"),
    ],
)
def test_a_credential_on_the_command_line_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert compiled(tmp_path, {}, *options) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert GITHUB not in captured.out + captured.err
    assert RANDOM not in captured.out + captured.err


def test_a_define_that_gives_nothing_away_is_taken(tmp_path: Path) -> None:
    entry = {"env": {"REGION": "${input:region}"}}
    assert compiled(tmp_path, entry, "--define", "region=eu-west-1") == 0
