"""A name promises a secret by its words; a secret is found however it is spelled."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpagg_runtime.launch.secrecy import (
    LIKELY,
    NOTHING,
    SURE,
    Redactor,
    looks_random,
    promise,
    secrets_in,
)

S = "Zq7SuperSecretValue" + "9xK"


@pytest.mark.parametrize(
    ("names", "grade"),
    [
        ("TOKEN API_TOKEN APITOKEN accessToken TOKEN_VALUE MY_TOKEN_2 TOKEN2 API_KEY_PROD", SURE),
        ("PASSWORD DB_PASS MYSQL_PWD PGPASSWORD SMTP_PASS passwd CREDS JWT exaApiKey", SURE),
        ("X-Api-Key CLIENT_SECRET AWS_ACCESS_KEY_ID Authorization SECRETS APIKEY", SURE),
        ("DB_PASSWORT kennwort MOT_DE_PASSE SMTP_MDP CONTRASENA contraseña SENHA WACHTWOORD", SURE),
        ("TOKENS SECRET_ID OPENAI_KEY GITHUB_PAT COOKIE AUTH", LIKELY),
        (
            "TOKEN_FILE TOKENIZER SECRET_NAME PUBLIC_KEY KEYBOARD COMPASS BYPASS RESENHA PATH",
            NOTHING,
        ),
        ("SSH_AUTH_SOCK XDG_SESSION_ID AUTHOR TOKEN_ADDRESS PASSENGERS MODEL HOME _", NOTHING),
    ],
)
def test_a_name_promises_by_its_words(names: str, grade: int) -> None:
    graded = {name: promise(name) for name in names.split()}
    assert graded == dict.fromkeys(graded, grade)


@pytest.mark.parametrize(
    ("text", "random"),
    [
        (S, True),
        ("9f8e7d6c5b4a39281706f5e4d3c2b1a0", True),
        ("0f8fad5b-d9cb-469f-a165-70867728950e", True),
        ("aB3_x-9fQ_72hh_Lk0-pp", True),
        ("dXNlcjpwYXNzd29yZDEyMw==", True),
        ("created_at_desc_2024", False),
        ("claude-sonnet-4-20250514", False),
        ("my-server-v2-2024-backup", False),
        ("shorter-1a2b3c", False),
        ("some words and 2 numbers", False),
        ("OnlyLettersOfAnyCase", False),
    ],
)
def test_words_and_numbers_are_not_random(text: str, random: bool) -> None:
    assert looks_random(text) is random


def test_the_secrets_of_an_environment_are_those_that_a_name_promises() -> None:
    url = "postgres://me:" + "p4ss-W0rd" + "@db.internal/x"
    env = {
        "UNRELATED_API_KEY": S,
        "DB_PASS": "hunter" + "2",
        "SOME_KEY": S + "k",
        "DATABASE_URL": url,
        # None of these:
        "PATH": "/usr/bin:/bin",
        "SORT_KEY": "created_at_desc_2024",
        "POSTGRES_PASSWORD": "postgres",
        "JWT_SECRET": "development",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
        "TOKEN_URL": "https://h/" + S,
        "MAX_TOKENS": "100000",
        "COMMIT": S + "c",
        "API_TOKEN": "",
    }
    assert secrets_in(env) == {
        S: "UNRELATED_API_KEY",
        "hunter2": "DB_PASS",
        S + "k": "SOME_KEY",
        "p4ss-W0rd": "DATABASE_URL",
    }


ODD = "p&ss/w+rd=ü" + ' "9"'
PEM = "-----BEGIN-----\n" + "line0123456789\n" * 3


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda s: json.dumps(s)[1:-1],
    "JSON, not in ASCII": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "path": quote,
    "form": quote_plus,
    "query": lambda s: quote(s, safe=""),
    "JavaScript": lambda s: quote(s, safe="!'()*"),
    "lower case": lambda s: re.sub("%..", lambda code: code[0].lower(), quote(s, safe="")),
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "Basic": lambda s: base64.b64encode(f"user:{s}".encode()).decode(),
    "in the middle": lambda s: base64.urlsafe_b64encode(f"u:{s}:more".encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "HEX in the middle": lambda s: f"u:{s}:more".encode().hex().upper(),
    "JSON in base64": lambda s: base64.b64encode(f'{{"k": "{s}"}}'.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("secret", [S, ODD, PEM], ids=["plain", "odd", "PEM"])
@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_a_secret_is_found_however_it_is_spelled(secret: str, spell: Callable[[str], str]) -> None:
    redactor = Redactor({secret: "NAME"})
    spelled = spell(secret)
    assert redactor.names(f"header: {spelled}, end") == ["NAME"]
    assert spelled not in redactor.redact(spelled)
    shown = redactor.redact(f"header: {spelled}, end")
    assert shown == "header: ${NAME}, end"


@given(st.binary(), st.binary(min_size=8, max_size=30), st.binary())
def test_base64_hides_no_secret(before: bytes, secret: bytes, behind: bytes) -> None:
    text = base64.b64encode(before + secret + behind).decode()
    redactor = Redactor({secret.decode("utf-8", "surrogateescape"): "NAME"})
    assume(not any(spelled in text for spelled, _ in redactor.plain))
    assert redactor.redact(f"<{text}>") == "<${NAME}>"


@pytest.mark.parametrize("spelled", [S.lower(), S.upper()])
def test_what_looks_random_is_found_in_one_case(spelled: str) -> None:
    redactor = Redactor({S: "NAME", "Hunter-2000": "OTHER"})
    assert redactor.redact(f"{spelled} hunter-2000") == "${NAME} hunter-2000"


def test_what_is_no_secret_stays() -> None:
    redactor = Redactor({S: "NAME", "short": "OTHER"})
    text = f"a {S[:-1]} and c2hvcnQ= and {base64.b64encode(b'something else').decode()}"
    assert redactor.redact(text) == text
    assert redactor.names(text) == []


def test_the_longer_of_two_secrets_goes_first() -> None:
    redactor = Redactor({"abcdefgh": "SHORT", "abcdefghij": "LONG"})
    assert redactor.redact("abcdefghij abcdefgh") == "${LONG} ${SHORT}"
