"""Finds literal credentials in a config or on the command line: the emitted file would hold them.

Evidence, from strong to weak: the shape of a known token, or of a URL whose path is the secret; a
name that promises a secret (see `secrecy` of the runtime) beside a value that can be one; a value
behind `Bearer` or `Basic`; what stands before the host of a URL, or behind the user of a login. A
text in base64 is looked at as well. References, file names, command substitutions and what says
that no key is needed are no credentials; placeholders deserve a warning. No message ever holds a
value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import NamedTuple

from mcpagg.passes.config.places import quoted
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.launch import Location, strings
from mcpagg_runtime.launch.secrecy import (
    LIKELY,
    NOTHING,
    PASSWORDS,
    looks_random,
    promise,
    words_of,
)
from mcpagg_runtime.launch.variables import references, resolve


class Credential(NamedTuple):
    """A literal credential: where it stands in the row, what it is, and what to write instead."""

    location: Location
    what: str
    remedy: str
    placeholder: bool = False


# The publishers document these prefixes so that scanners can find them.
SHAPES: tuple[tuple[str, str], ...] = (
    ("a GitHub token", r"gh[opsur]_\w{30,}|github_pat_\w{22,}"),
    ("a GitLab token", r"gl(?:pat|ptt|dt|rt|cbt|oas|soat|ft)-[\w-]{20,}"),
    ("an API key of OpenAI, Anthropic or their like", r"sk-[\w-]{20,}"),
    ("a Stripe key", r"[sr]k_(?:live|test)_\w{16,}"),
    ("a Slack token", r"xox[a-eoprs]-[\w-]{10,}|xapp-[\w-]{10,}"),
    ("an AWS access key", r"(?:AKIA|ASIA)[A-Z0-9]{16}|ABSK[\w+/]{40,}"),
    ("a Google API key", r"AIza[\w-]{35}|AQ\.[\w-]{30,}"),
    ("a Google token", r"ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}"),
    ("a Hugging Face token", r"hf_[A-Za-z0-9]{30,}"),
    ("a Notion token", r"(?:ntn|secret)_[A-Za-z0-9]{40,}"),
    ("an npm or PyPI token", r"npm_[A-Za-z0-9]{36}|pypi-[\w-]{40,}"),
    ("a Supabase token", r"sb[ps]_\w{30,}|sb_secret_[\w-]{20,}"),
    ("an API key", r"(?:tvly|fc|e2b|lin_api|figd|dop_v1|pplx|re|rnd|nvapi|gsk|xai)[-_][\w-]{24,}"),
    ("an API key", r"(?:r8_|csk-|pcsk_|ctx7sk-|jina_|apify_api_|bb_live_|nfp_|tgp_v1_)[\w-]{24,}"),
    ("an API key", r"(?:lin_oauth_|figu_|napi_|glsa_|glc_|CFPAT-|NRAK-|PMAK-|HRKU-)[\w-]{24,}"),
    ("an API key", r"(?:lsv2_(?:pt|sk)_|do[or]_v1_|tfp_|rubygems_)[\w-]{24,}"),
    ("an API key", r"BSA[\w-]{28}(?![\w-])|dapi[0-9a-f]{32}|pul-[0-9a-f]{40}"),
    ("an Airtable or HubSpot token", r"pat\w{14}\.[0-9a-f]{64}|pat-(?:na|eu)\d-[0-9a-f-]{36}"),
    ("a Docker token", r"dckr_[po]at_[\w-]{20,}"),
    ("a Neon password", r"npg_[A-Za-z0-9]{8,}"),
    ("a PlanetScale secret", r"pscale_(?:tkn|pw|oauth)_[\w.-]{30,}"),
    ("a Sentry token", r"sntry[su]_[\w+/=-]{30,}"),
    ("a Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-f]{32}"),
    ("a SonarQube token", r"sq[apu]_[0-9a-f]{40}"),
    ("a Vault or Doppler token", r"hv[sb]\.[\w-]{24,}|dp\.(?:pt|st|ct|sa)\.[\w.-]{30,}"),
    ("a webhook's secret", r"whsec_[\w+/=-]{24,}"),
    ("an age key", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    ("an Entra client's secret", r"\w{3}8Q~[\w.~-]{30,}"),
    ("a Telegram bot's token", r"\d{8,10}:AA[\w-]{33}"),
    ("a SendGrid key", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("an Atlassian token", r"ATATT[\w-]{30,}|ATTA[A-Za-z0-9]{40,}"),
    ("a Twilio key", r"SK[0-9a-f]{32}(?!\w)"),
    ("a Mailgun key", r"(?<!-)key-[0-9a-f]{32}(?!\w)"),
    ("a Discord bot's token", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
    ("a Terraform token", r"\w{14}\.atlasv1\.[\w-]{40,}"),
    ("a Fly token", r"(?:FlyV1 )?fm[12][ar]?_[\w+/=-]{40,}"),
    ("a 1Password token", r"ops_eyJ[\w-]{40,}"),
    ("a Square token", r"EAAA[\w-]{60}(?![\w+/=-])|sq0(?:atp|csp)-[\w-]{22,}"),
    ("a Dropbox token", r"sl\.(?:u\.)?[\w-]{60,}"),
    ("a JSON web token", r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-"),
    ("a Slack webhook", r"hooks\.slack\.com/services/\w+/\w+/\w+"),
    ("a Discord webhook", r"discord(?:app)?\.com/api/webhooks/\d+/[\w-]{20,}"),
    ("a Teams webhook", r"[\w-]{1,60}\.webhook\.office\.com/webhookb2/[\w@-]{30,}"),
    ("a Telegram bot's token", r"api\.telegram\.org/bot\d+:[\w-]{20,}"),
    ("a URL whose path is the secret", r"hooks\.zapier\.com/hooks/catch/\w+/\w+"),
    ("a URL whose path is the secret", r"mcp\.zapier\.com/[\w/-]{0,60}?/s/[\w=+-]{16,}"),
    (
        "a URL whose path is the secret",
        r"mcp\.composio\.dev/[\w-]{1,40}/[a-z]{3,12}(?:-[a-z]{3,12}){2}-[\w-]{4,20}",
    ),
    (
        "a URL whose path is the secret",
        r"(?:mcp\.composio\.dev|mcp\.pipedream\.(?:net|com))/[\w/-]{0,60}?[0-9a-f]{8}-[0-9a-f-]{27}",
    ),
)
_SHAPE = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    + "|".join(f"(?P<shape{n}>{shape})" for n, (_, shape) in enumerate(SHAPES))
    + ")"
)
_SPELLED_OUT = re.compile(r".*\byour[_-].*|[a-z]{2,10}(?:[_-][a-z]+){3,}")
"""A known shape that somebody made from words."""
_FILLER = re.compile(
    r"[\w.-]{0,24}?(?P<one>[^\W\d]|[*#.-])(?P=one){7,}"
    r"|(?:[a-z0-9]{2,10}[_-]){1,3}(?P<digit>\d)(?P=digit){7,}"
)
"""One character again and again, perhaps behind the prefix of a known shape."""

# Flags of one letter that some programs have for a key, a password or a token.
_SHORT_FLAGS = {"k", "p", "t"}
# Flags whose value may be USER:PASSWORD.
_LOGIN_FLAGS = {"u", "U", "user", "proxy-user"}

_HARMLESS = re.compile(
    r"|true|false|yes|no|on|off|null|undefined|empty|auto|basic|bearer|oauth2?|stdin|env|file"
    # What programs that want a key are given where none is needed.
    r"|none|n/?a|any|ollama|lm-?studio|vllm|llama(?:[._-]?cpp)?|optional|unused|ignored?|no-?auth"
    r"|(?:sk-)?(?:no|not|without)[ _-](?:api[ _-]?)?(?:key|auth|token|needed|required|used|set)"
    r"(?:[ _-](?:needed|required|necessary|used|set))?"
    # Numbers, paths, names of files, URLs, and what another program or a keyring fills in.
    r"|-?[0-9]{1,5}|(?:~|\.{1,2})?/\S*|[a-z]:[\\/].*|-.*|(?:[a-z][a-z0-9+.-]*://)[^\s@]*"
    r"|[\w.@\\/ -]+\.(?:json|pem|key|p12|pfx|p8|crt|cer|jks|ya?ml|toml|ini|txt|env)"
    r"|%\w+%.*|\$\(.*\)|`.*`|(?:env|keyring|keychain|vault|op|sops|ssm|cmd|file):[^\s@]*",
    re.I | re.S,
)
"""Values that give nothing away."""

_DEFAULT = re.compile(
    r"passw(?:or)?d|postgres|admin|root|guest|user|test(?:ing)?|demo|local(?:host)?", re.I
)
"""Passwords that everybody knows: they give away nothing but a server that others can reach."""
_EXAMPLE = re.compile(r"your|example|:passw(?:or)?d@|:user@|<|\{", re.I)
_LOCAL = re.compile(
    r"localhost|127\.[\d.]+|0\.0\.0\.0|\[::1?\]|host\.docker\.internal|[^.:]*", re.I
)

_PLACEHOLDER = re.compile(
    r".*(?:\byour|your[_ -]|<.*>|\{.*\}|\[.*\]|(?<!x)x{3,15}(?!x)|\*\*\*|\.\.\.|…|placeholder"
    r"|example|dummy|redacted|[_-]here).*|(?:.*[_ -])?(?:change|replace|insert|enter|fill|todo).*"
    r"|(?:my|the|an?)[_-].*|.*[_ -](?:token|key|secret|password)"
    # A prefix with nothing behind it, a short word, a script that no credential is written in.
    r"|[a-z]{2,10}(?:[_-][a-z]{2,10}){0,2}[_-]|[a-z]{1,8}|.*[^\W\d_\u0000-\u024f].*",
    re.I | re.S,
)
_NAME_ALONE = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)+")
_WORD = r"(?:[A-Z]?[a-z]{1,14}|[A-Z]{1,14})"
_MADE_UP = re.compile(
    rf"{_WORD}(?:[ ._/-]{_WORD})*"
    r"|(?:[a-z]{2,6}[_-])?(?:(?P<digit>\d)(?P=digit)*|123\d{0,7}|abc123)"
)
"""What people write and no machine makes: words, or a digit again and again."""
_LONGEST_PLACEHOLDER = 200
_PIN = re.compile(r"\d{4,8}")
# People choose these, and may choose words; all else is made by machines.
_CHOSEN = (*PASSWORDS, "pass", "pwd", "pw", "mdp", "senha", "secret", "creds")

_SCHEME = re.compile(r"(?i)(?P<scheme>(?:Bearer|Basic|Token|Api-?Key)\s+)(?P<value>.+)", re.S)
_AUTHORIZATION = re.compile(
    r"(?i)(?<![\w-])(?P<scheme>(?:Bearer|Basic)\s+)(?P<value>[^\s\"',;}]{8,})"
)
_USERINFO = re.compile(
    r"(?P<protocol>[A-Za-z][\w+.-]{0,20})://(?P<user>[^\s/@:]*)(?::(?P<password>[^\s/@]*))?@"
    r"(?P<host>\[[^\s\]]*\]|[^\s/:?#\"']*)"
)
_SENTRY_DSN = re.compile(r"[0-9a-f]{32}@(?:[^\s/@]*\.)?sentry\.[^\s/@]+/\d+")
"""What a DSN of Sentry has behind its scheme; it is public, unlike one with a second key."""
_LOGIN = re.compile(
    r"(?:^|(?<=[\s\"']))(?:-[uU](?: |(?P<glued>))|--(?:proxy-)?user[ =])[\"']?"
    r"(?P<user>[^\s:/\"']+):(?P<password>(?!\d{1,5}/)[^\s\"'/\\$`%][^\s\"']*)?(?=$|[\s\"'])"
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}(?:\r?\n[A-Za-z0-9+/_-]+)*")
_FLAG = re.compile(r"(?:--?|/)(?P<name>[A-Za-z][\w.-]*)")

# What stands in a string beside a name of its own; `quote` closes the value as well.
_NAMED: tuple[tuple[str, re.Pattern[str]], ...] = (
    (" in a URL", re.compile(r"[?&](?P<name>[\w.-]+)=(?P<quote>)(?P<value>[^&\s#\"']+)")),
    (
        " in an argument",
        re.compile(
            r"(?:^|(?<=[\s;,:'\"]))(?:-{0,2}|/)(?P<name>[A-Za-z_][\w.-]*) ?= ?"
            r"(?P<quote>[\"'])?(?P<value>(?(quote)[^\"']+|[^\s\"';,]+))"
        ),
    ),
    (
        " in an argument",  # whose value has a name of its own: `--env=NAME=VALUE`
        re.compile(
            r"(?:^|(?<=[\s;,'\"]))(?:-{0,2}|/)[A-Za-z][\w.-]*=[\"']?(?P<name>[A-Za-z_][\w.-]*)="
            r"(?P<quote>[\"'])?(?P<value>(?(quote)[^\"']+|[^\s\"';,]+))"
        ),
    ),
    (
        " in an argument",  # a flag of one letter with its value behind it: `-pVALUE`
        re.compile(r"^-(?P<name>[kpt])(?P<quote>)(?P<value>\w\S+)$"),
    ),
    (
        " in JSON",
        re.compile(
            r"\\{0,7}[\"'](?P<name>[\w-]+)\\{0,7}[\"']\s*:\s*"
            r"(?P<quote>\\{0,7}[\"'])(?P<value>[^\"'\\]+)"
        ),
    ),
    (
        " in a header",
        re.compile(
            r"(?m)(?:^(?:--?[\w-]+=)?(?:--?|/)?|(?<=[\"']))(?P<name>[A-Za-z][\w-]*):(?P<quote>) *"
            r"(?P<value>[^/\s\"'][^\"'\n]*)"
        ),
    ),
)


class _Clue(NamedTuple):
    """A value with a name beside it, and the text around the value.

    `lead` and `tail` are kept when the value is replaced. `variable` is one that the config has
    for the value already.
    """

    how: str
    name: str
    value: str
    lead: str = ""
    tail: str = ""
    variable: str = ""


class _Evidence(NamedTuple):
    """The evidence for a credential in a string."""

    what: str
    clue: _Clue
    placeholder: bool


_NO_CLUE = _Clue("", "", "")


def find_credentials(server: ServerSpec) -> list[Credential]:
    """Return the literal credentials of an entry, at most one for each string, in its order."""
    credentials = []
    for location, written, name in _strings(server):
        evidence = _strongest(written, name)
        if evidence is not None:
            remedy = _remedy(server, location, evidence.clue)
            credentials.append(Credential(location, evidence.what, remedy, evidence.placeholder))
    return credentials


def credential_in(name: str, value: str) -> str | None:
    """Say what sort of credential a value of this name is; None where it is none."""
    evidence = _strongest(value, name)
    return None if evidence is None or evidence.placeholder else evidence.what


def literal_values(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield (value, name) of what may be the credential in a text that holds one.

    `name` is what stands outside of the text; that of a value is "" where it has none. The last
    one that is yielded is the whole text.
    """
    literal = resolve(text, lambda _: "")
    clues = [*_clues(literal), *_logins(literal, name)]
    for shape, _, _ in _shapes(literal):
        clue = next((clue for clue in clues if shape in clue.value), _NO_CLUE)
        yield shape, clue.name
    for clue in (*clues, *(piece.clue for piece in _behind_schemes(literal))):
        scheme = _SCHEME.fullmatch(clue.value)
        yield (scheme["value"] if scheme else clue.value), clue.name
    for match in _USERINFO.finditer(literal):
        yield match["password"] or match["user"], "password" if match["password"] else "token"
    scheme = _SCHEME.fullmatch(literal)
    if scheme:
        yield scheme["value"], name
    yield text, name


def variable_for(server: str, name: str) -> str:
    """Return a name for a variable that says whose secret it is: `GITHUB_TOKEN`."""
    return _variable(server, name or "secret")


def known_format(text: str) -> str | None:
    """Say what sort of credential stands in a text by its form alone; None for none."""
    return next((what for _, what, is_made_up in _shapes(text) if not is_made_up), None)


def without_formats(text: str) -> str:
    """Return a text without credentials that are known by their form."""
    return _SHAPE.sub("***", text)


def _shapes(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (credential, what sort it is, whether somebody made it up) of each known form."""
    for shape in _SHAPE.finditer(text):
        what = next(what for n, (what, _) in enumerate(SHAPES) if shape[f"shape{n}"])
        made_up = _SPELLED_OUT.fullmatch(shape[0]) or _FILLER.fullmatch(shape[0])
        yield shape[0], what, bool(made_up)


def _strings(server: ServerSpec) -> Iterator[tuple[Location, str, str]]:
    """Yield (location, text, the name that stands outside of the text) of every string."""
    flag = None
    for location, text in strings(server.row()):
        if location.field in ("env", "headers", "masks"):
            yield location, text, str(location.key)
        else:
            yield location, text, flag["name"] if flag and location.field == "args" else ""
            flag = _FLAG.fullmatch(text)


def _strongest(written: str, name: str) -> _Evidence | None:
    """Return the best evidence in a string with a name beside it; of placeholders the first."""
    clues = [
        _Clue(" in a default", variable, default, variable=variable)
        for variable, default in references(written)
        if default
    ]
    # References vanish, their defaults stay: they are looked at in their surroundings as well.
    literal = resolve(written, lambda _: "")
    clues += _clues(literal)
    clues += _logins(literal, name)
    if name:
        clues.append(_Clue("", name, literal))
    evidence = [*_evidence(literal, clues), *_within_base64(literal)]
    return min(evidence, key=lambda piece: piece.placeholder, default=None)


def _evidence(text: str, clues: list[_Clue]) -> Iterator[_Evidence]:
    """Yield what speaks for a credential in a string, the strongest first."""
    for shape, what, is_made_up in _shapes(text):
        clue = next((clue for clue in clues if shape in clue.value), _NO_CLUE)
        yield _Evidence(what, clue, is_made_up)
    for clue in clues:
        placeholder = _judge(clue)
        if placeholder is not None:
            yield _Evidence(f"a literal value for {quoted(clue.name)}{clue.how}", clue, placeholder)
    yield from _behind_schemes(text)
    yield from _before_hosts(text)


def _within_base64(text: str) -> Iterator[_Evidence]:
    """Yield what speaks for a credential in the texts that stand in a string as base64."""
    for match in _BASE64.finditer(text):
        run = "".join(match[0].split()).replace("-", "+").replace("_", "/")
        try:
            inner = base64.b64decode(run[: len(run) // 4 * 4]).decode()
        except ValueError:
            continue
        for evidence in _evidence(inner, list(_clues(inner))):
            yield evidence._replace(what=f"{evidence.what}, in base64", clue=_NO_CLUE)


def _clues(text: str) -> Iterator[_Clue]:
    for how, pattern in _NAMED:
        for match in pattern.finditer(text):
            lead = match[0][: match.start("value") - match.start()].strip("?&")
            quote = match["quote"] or ""
            tail = quote if text.startswith(quote, match.end()) else ""
            yield _Clue(how, match["name"].rpartition(".")[2], match["value"], lead, tail)


def _logins(text: str, flag: str) -> Iterator[_Clue]:
    """Yield the passwords behind users, as curl's `-u USER:PASSWORD` has them.

    Numbers and words may be a group: Docker's `-u USER:GROUP`. Without a password the user may be
    a token.
    """
    behind = f"--user {text}" if flag in _LOGIN_FLAGS else text
    for match in _LOGIN.finditer(behind):
        user, password = match["user"], match["password"] or ""
        sure = not (user.isdigit() or _MADE_UP.fullmatch(password))
        if not password and looks_random(user):
            yield _Clue(" in a login", "token", user, tail=":")
        elif looks_random(password) or (sure and match["glued"] is None):
            name = "USER" if looks_random(user) else user
            yield _Clue(" in a login", "password", password, f"{name}:")


def _judge(clue: _Clue) -> bool | None:
    """Return None for no credential, False for one, True for a placeholder of one."""
    scheme = _SCHEME.fullmatch(clue.value)
    value = (scheme["value"] if scheme else clue.value).strip()
    words = words_of(clue.name)
    if words[-1:] == ["pin"]:
        return bool(_MADE_UP.fullmatch(value)) if _PIN.fullmatch(value) else None
    grade = LIKELY if clue.name in _SHORT_FLAGS else promise(clue.name)
    if grade == NOTHING or _HARMLESS.fullmatch(value) or _DEFAULT.fullmatch(value):
        return None
    if grade == LIKELY and not looks_random(value):
        return None
    chosen = "".join(words).endswith(_CHOSEN)
    return _is_placeholder(value) or (not chosen and bool(_MADE_UP.fullmatch(value)))


def _behind_schemes(text: str) -> Iterator[_Evidence]:
    """Yield the values of HTTP's schemes, which are credentials whatever they are called."""
    for match in _AUTHORIZATION.finditer(text):
        scheme, value = match["scheme"], match["value"]
        placeholder = _is_placeholder(value)
        if placeholder or not (_HARMLESS.fullmatch(value) or _MADE_UP.fullmatch(value)):
            clue = _Clue("", "token", scheme + value)
            yield _Evidence(f"a value behind `{scheme.strip()}`", clue, placeholder)


def _before_hosts(text: str) -> Iterator[_Evidence]:
    """Yield what URLs hold before their hosts: passwords, and tokens in the place of users."""
    for match in _USERINFO.finditer(text):
        user, password, host = match["user"], match["password"] or "", match["host"]
        if password and not _HARMLESS.fullmatch(password):
            is_default = bool(_DEFAULT.fullmatch(password))
            if not (is_default and _LOCAL.fullmatch(host)):
                is_example = bool(_EXAMPLE.search(text))
                placeholder = is_example if is_default else _is_placeholder(password)
                name = "USER" if looks_random(user) else user
                lead = f"{match['protocol']}://{name}:"
                more = "…" if text[match.end() :] else ""
                clue = _Clue("", "password", "", lead, f"@{host}{more}")
                yield _Evidence("a password in a URL", clue, placeholder)
        public = _SENTRY_DSN.match(text, match.start("user"))
        if looks_random(user) and match["protocol"].endswith(("http", "https")) and not public:
            yield _Evidence("a token in a URL", _Clue("", "token", ""), _is_placeholder(user))


def _is_placeholder(value: str) -> bool:
    if len(value) > _LONGEST_PLACEHOLDER:
        return False
    kinds = (_PLACEHOLDER, _FILLER, _NAME_ALONE)
    return any(kind.fullmatch(value) for kind in kinds)


def _remedy(server: ServerSpec, location: Location, clue: _Clue) -> str:
    """Return the exact replacement, with nothing of the value in it."""
    key = str(location.key)
    if location.field == "env":
        variable = key if references(f"${{{key}}}") else _variable("", key)
        return f'write {quoted(key)}: "${{{variable}}}" and export {variable}'
    variable = clue.variable or _variable(server.name, clue.name or "secret")
    scheme = _SCHEME.fullmatch(clue.value)
    reference = f"{scheme['scheme'] if scheme else ''}${{{variable}}}"
    if location.field == "headers":
        return f'write {quoted(key)}: "{reference}" and export {variable}'
    return f"write `{clue.lead}{reference}{clue.tail}` in its place and export {variable}"


def _variable(server: str, name: str) -> str:
    """Return a name for a variable that says whose secret it is: `GITHUB_TOKEN`."""
    owner = _snake(server.rpartition("/")[2]).upper()
    wanted = _snake(name).upper().removeprefix("X_").replace("AUTHORIZATION", "TOKEN") or "SECRET"
    words = wanted if not owner or wanted.startswith(owner) else f"{owner}_{wanted}"
    return f"_{words}" if words[0].isdigit() else words


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).strip("_").lower()
