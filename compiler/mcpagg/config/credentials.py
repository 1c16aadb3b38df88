"""Literal credentials in a config: they would be checked in with the emitted file.

Three kinds of evidence, from strong to weak: the shape of a known token, wherever it stands; a
name that promises a secret beside a value that can be one; a password inside a URL. References
and placeholders are no credentials. No message ever holds a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mcpagg.config.findings import quoted
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch import strings
from mcpagg_runtime.references import references, resolve


class Credential(NamedTuple):
    """A literal credential: its place in the entry, what it is, and what to write instead."""

    place: str
    what: str
    remedy: str
    placeholder: bool = False


# The publishers document these prefixes so that scanners can find them.
SHAPES: tuple[tuple[str, str], ...] = (
    ("a GitHub token", r"gh[opsur]_\w{30,}|github_pat_\w{22,}"),
    ("a GitLab token", r"glpat-[\w-]{20,}"),
    ("an API key of OpenAI, Anthropic or their like", r"sk-[\w-]{20,}"),
    ("a Stripe key", r"[sr]k_(?:live|test)_\w{16,}"),
    ("a Slack token", r"xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}"),
    ("a Slack webhook", r"hooks\.slack\.com/services/\w+/\w+/\w+"),
    ("an AWS access key", r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    ("a Google API key", r"AIza[\w-]{35}|AQ\.[\w-]{30,}"),
    ("a Google token", r"ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}"),
    ("a Hugging Face token", r"hf_[A-Za-z0-9]{30,}"),
    ("a Notion token", r"(?:ntn|secret)_[A-Za-z0-9]{40,}"),
    ("an npm or PyPI token", r"npm_[A-Za-z0-9]{36}|pypi-[\w-]{40,}"),
    ("a Supabase token", r"sb[ps]_\w{30,}|sb_secret_[\w-]{20,}"),
    ("an API key", r"(?:tvly|fc|e2b|lin_api|figd|dop_v1|pplx|re|rnd|nvapi|gsk|xai)[-_][\w-]{24,}"),
    ("a SendGrid key", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("an Atlassian token", r"ATATT[\w-]{30,}|ATTA[A-Za-z0-9]{40,}"),
    ("a JSON web token", r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
)
_SHAPE = re.compile(
    "|".join(f"(?P<shape{n}>(?<![A-Za-z0-9_])(?:{shape}))" for n, (_, shape) in enumerate(SHAPES))
)

# Words at the end of a name (in lower case, joined by `_`) that promise a secret …
_SECRET = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|(?:api|app|access|secret|private|auth)_?key"
    r"|role_key|access_key_id|client_secret|authorization|credentials?)$"
)
# … and those that promise one only if the value looks like one.
_KEY = re.compile(r"(?:^|_)(?:key|auth|pat|pwd|pass|cookie|session|bearer)$")

_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w+/=.~-]{16,}|[0-9a-f-]{32,36}", re.I)

_HARMLESS = re.compile(
    r"|true|false|yes|no|on|off|null|none|undefined|empty|auto|basic|bearer|oauth2?|stdin|env|file"
    r"|passw(?:or)?d|postgres|admin|root|guest|user|test(?:ing)?|demo|local(?:host)?"
    r"|-?[0-9]{1,5}|(?:~|\.{1,2})?/\S*|[a-z]:[\\/].*|-.*|(?:[a-z][a-z0-9+.-]*://|env:)[^\s@]*",
    re.I | re.S,
)
"""Values that give nothing away: words, defaults that everybody knows, numbers, paths, URLs."""

_PLACEHOLDER = re.compile(
    r".*(?:\byour|your[_ -]|<.*>|\{.*\}|\[.*\]|(?<!x)x{3,15}(?!x)|\*\*\*|\.\.\.|…|placeholder"
    r"|example|dummy|[_-]here).*|(?:.*[_ -])?(?:change|replace|insert|enter|fill|todo).*"
    r"|%\w+%|(?:my|the|an?)[_-].*|.*[_ -](?:token|key|secret|password)",
    re.I | re.S,
)
_NAME_ALONE = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)+")
_LONGEST_PLACEHOLDER = 200

_SCHEME = re.compile(r"(?i)(?P<scheme>(?:Bearer|Basic|Token|Api-?Key)\s+)(?P<value>.+)", re.S)
_PASSWORD = re.compile(r"[A-Za-z][\w+.-]{0,20}://[^\s/@:]*:(?P<value>[^\s/@]+)@")
_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")

# What stands in a string beside a name of its own.
_NAMED: tuple[tuple[str, re.Pattern[str]], ...] = (
    (" in a URL", re.compile(r"[?&](?P<name>[\w.-]+)=(?P<value>[^&\s#]+)")),
    (
        " in an argument",
        re.compile(
            r"(?:^|(?<=[\s;'\"]))-{0,2}(?P<name>[A-Za-z_][\w.-]*)=[\"']?(?P<value>[^\s\"']+)"
        ),
    ),
    (
        " in JSON",
        re.compile(r"\\*\"(?P<name>[\w-]+)\\*\"\s*:\s*\\*\"(?P<value>[^\"\\]+)"),
    ),
    (" in a header", re.compile(r"^(?P<name>[A-Za-z][\w-]*):\s*(?P<value>[^/\s].*)", re.S)),
)


class _Clue(NamedTuple):
    """A value with a name beside it; `lead` is what stands before the value, the name included."""

    how: str
    name: str
    value: str
    lead: str


_NO_CLUE = _Clue("", "", "", "")


def find_credentials(server: ServerSpec) -> list[Credential]:
    """Return the literal credentials of an entry, at most one for each string, in its order."""
    found = []
    for place, written, name in _places(server):
        # References vanish, their defaults stay: a credential hides in a default as well.
        literal = resolve(written, lambda _: "")
        clues = list(_clues(literal))
        if name:
            clues.append(_Clue("", name, literal, ""))
        credential = next(_evidence(literal, clues), None)
        if credential:
            what, clue, placeholder = credential
            found.append(Credential(place, what, _remedy(server, place, clue), placeholder))
    return found


def _places(server: ServerSpec) -> Iterator[tuple[str, str, str]]:
    """Yield (place, text, the name that stands outside of the text) of every string."""
    flag = None
    for place, text in strings(server.row()):
        group, _, key = place.partition(".")
        if group in ("env", "headers", "masks"):
            yield place, text, key
        else:
            yield place, text, flag["name"] if flag and group.startswith("args") else ""
            flag = _FLAG.fullmatch(text)


def _evidence(text: str, clues: list[_Clue]) -> Iterator[tuple[str, _Clue, bool]]:
    """Yield what speaks for a credential in a string, the strongest first."""
    if shape := _SHAPE.search(text):
        what = next(what for n, (what, _) in enumerate(SHAPES) if shape[f"shape{n}"])
        yield what, next((clue for clue in clues if shape[0] in clue.value), _NO_CLUE), False
    for clue in clues:
        placeholder = _judge(clue)
        if placeholder is not None:
            yield f"a literal value for {quoted(clue.name)}{clue.how}", clue, placeholder
    for match in _PASSWORD.finditer(text):
        if not _HARMLESS.fullmatch(match["value"]):
            yield "a password in a URL", _NO_CLUE, _is_placeholder(match["value"])


def _clues(text: str) -> Iterator[_Clue]:
    for how, pattern in _NAMED:
        for match in pattern.finditer(text):
            lead = match[0][: match.start("value") - match.start()].strip("?&")
            yield _Clue(how, match["name"].rpartition(".")[2], match["value"], lead)


def _judge(clue: _Clue) -> bool | None:
    """Return None for no credential, False for one, True for a placeholder of one."""
    scheme = _SCHEME.fullmatch(clue.value)
    value = (scheme["value"] if scheme else clue.value).strip()
    if _HARMLESS.fullmatch(value):
        return None
    name = _snake(clue.name)
    if not _SECRET.search(name) and not (_KEY.search(name) and _RANDOM.fullmatch(value)):
        return None
    return _is_placeholder(value)


def _is_placeholder(value: str) -> bool:
    if len(value) > _LONGEST_PLACEHOLDER:
        return False
    return bool(_PLACEHOLDER.fullmatch(value) or _NAME_ALONE.fullmatch(value))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).strip("_").lower()


def _remedy(server: ServerSpec, place: str, clue: _Clue) -> str:
    """Return the exact replacement, with nothing of the value in it."""
    group, _, key = place.partition(".")
    if group == "env":
        variable = key if references(f"${{{key}}}") else _variable("", key)
        return f'write {quoted(key)}: "${{{variable}}}" and export {variable}'
    variable = _variable(server.name, clue.name or ("password" if group == "url" else "secret"))
    scheme = _SCHEME.fullmatch(clue.value)
    reference = f"{scheme['scheme'] if scheme else ''}${{{variable}}}"
    if group == "headers":
        return f'write {quoted(key)}: "{reference}" and export {variable}'
    return f"write `{clue.lead}{reference}` in its place and export {variable}"


def _variable(server: str, name: str) -> str:
    """Return a name for a variable that says whose secret it is: `GITHUB_TOKEN`."""
    owner = _snake(server.rpartition("/")[2]).upper()
    wanted = _snake(name).upper().removeprefix("X_").replace("AUTHORIZATION", "TOKEN") or "SECRET"
    words = wanted if not owner or wanted.startswith(owner) else f"{owner}_{wanted}"
    return f"_{words}" if words[0].isdigit() else words
