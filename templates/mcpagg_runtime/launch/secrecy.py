"""What is redacted in text that is shown: secrets, and control characters.

The compiler and the emitted file share these rules. A variable is secret by the words of its name;
a secret is found in a text as it is, and as JSON, URLs, base64 and hexadecimal digits spell it.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.printable import printable
from mcpagg_runtime.plan.uri_templates import percent_encoded
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


# How surely a name is that of a secret. LIKELY counts only for values that look random.
NOTHING = 0
LIKELY = 1
SURE = 2
# Ends of such names, without the separators of their words …
_FOREIGN = ("passwort", "kennwort", "motdepasse", "contrasena", "contraseña", "wachtwoord")
PASSWORDS = ("password", "passwords", "passwd", "passphrase", *_FOREIGN)
_SECRETS = ("token", "secret", "secrets", "jwt", *PASSWORDS)
_API_KEYS = ("apikey", "apikeys", "appkey", "accesskey", "accesskeyid", "authkey", "rolekey")
_OTHER_KEYS = ("secretkey", "privatekey", "masterkey", "signingkey", "encryptionkey")
_ENDS = (*_SECRETS, *_API_KEYS, *_OTHER_KEYS, "authorization", "credential", "credentials")
# … and last words, which mean nothing as the end of a longer word: `bypass`.
_LAST = {"pass", "pwd", "pw", "creds", "cred", "senha", "mdp"}
_LIKELY_KEYS = {"key", "keys", "tokens", "pat", "sig", "signature"}
_LIKELY_LAST = _LIKELY_KEYS | {"auth", "basic", "bearer", "cookie", "cookies", "session"}
# Words that may stand behind the one that counts: `TOKEN_VALUE`, `PASSWORD_PROD`.
_STAGES = {"env", "prod", "production", "dev", "staging", "test", "live", "old", "new", "backup"}
_QUALIFIERS = _STAGES | {"value", "main", "default", "base64", "b64"}
# Last words that say what else the value is: `TOKEN_FILE`, `SECRET_NAME`.
_PLACES = {"file", "path", "dir", "directory", "folder", "url", "uri", "endpoint", "host", "port"}
_TRAITS = {"type", "name", "names", "limit", "count", "ttl", "version", "arn", "issuer", "scope"}
_COINS = {"address", "contract", "mint", "symbol"}
_ABOUT = _PLACES | _TRAITS | _COINS | {"policy", "store", "manager", "provider"}
_PUBLIC = {"public", "publishable"}
_NUMERALS = "0123456789"
_HEX = frozenset("0123456789abcdefABCDEF-")
_RANDOM = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.~%-")
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")
_LONGEST_WORD = 12
# A shorter value of a variable that no row refers to may be any word.
_SHORTEST_GIVEN = 6
# Characters, bytes: a shorter secret would be found in texts that do not hold it.
_SHORTEST_LINE = 8
_SHORTEST_ENCODED = 8


def promise(name: str) -> int:
    """Return how surely a name, of a variable, a flag or a header, is that of a secret."""
    words = words_of(name)
    while len(words) > 1 and (words[-1] in _QUALIFIERS or words[-1].isdigit()):
        words.pop()
    if not words:
        return NOTHING
    last = words[-1] = words[-1].rstrip(_NUMERALS) or words[-1]
    if "".join(words).endswith(_ENDS) or last in _LAST:
        return SURE
    if last in _LIKELY_LAST:
        return NOTHING if _PUBLIC.intersection(words) else LIKELY
    if last not in _ABOUT and any(word.endswith(_ENDS) for word in words):
        return LIKELY
    return NOTHING


def words_of(name: str) -> list[str]:
    """Return the words of a name, in lower case: of `exaApiKey`, `X-Api-Key`, `API_KEY`."""
    parts = []
    for before, char in zip(" " + name, name):  # noqa: B905 - Python 3.9
        if not char.isalnum():
            parts.append(" ")
        elif char.isupper() and not before.isupper():
            parts.append(" " + char)
        else:
            parts.append(char)
    return "".join(parts).lower().split()


def looks_random(text: str) -> bool:
    """Tell a value that a machine made from words and numbers: `created_at_2024` is none."""
    if len(text) < 16 or not _RANDOM.issuperset(text):
        return False
    if 32 <= len(text) <= 36 and _HEX.issuperset(text):
        return True
    if text.isalpha() or not any(char.isdigit() for char in text):
        return False
    for mark in "-./+=~%":
        text = text.replace(mark, "_")
    return not all(_readable(piece) for piece in text.split("_"))


def _readable(piece: str) -> bool:
    """Tell whether a piece is a word, a number, or a word with a number at one end: `v2`."""
    word = piece.strip(_NUMERALS)
    if word == piece or len(piece) - len(word) <= 4:
        # `aB` is none; what is longer may be two words.
        return not word or (word.isalpha() and (_one_case(word) or len(word) > 3))
    return not word


def is_word(text: str) -> bool:
    """Whether a value is a word that stands in many texts, such as `development` or `None`."""
    return text.isalpha() and _one_case(text) and len(text) <= _LONGEST_WORD


def _one_case(word: str) -> bool:
    return word.islower() or word.isupper() or word[1:].islower()


def secrets_in(env: Mapping[str, str]) -> dict[str, str]:
    """Return {secret: name} of the variables of an environment whose names are those of secrets.

    A password within a URL is one, whatever the name. Paths, short numbers and words are none.
    """
    found = {}
    for name, value in env.items():
        grade = promise(name)
        could_be = looks_random(value) if grade == LIKELY else not _is_ordinary(value)
        if grade != NOTHING and could_be:
            found[value] = name
        if "://" in value and (password := url_password(value)):
            found[password] = name
    return found


def _is_ordinary(value: str) -> bool:
    if len(value) < _SHORTEST_GIVEN or is_word(value):
        return True
    path = value.startswith(("/", "~", "./", "../")) or value[1:3] in (":\\", ":/")
    return path or "://" in value or (value.isdigit() and len(value) < 8)


def passwords_in(values: Mapping[str, str]) -> dict[str, str]:
    """Return {password: name} of the URLs among values {value: name} that hold one."""
    found = {url_password(value): name for value, name in values.items() if "://" in value}
    return {password: name for password, name in found.items() if password}


def url_password(text: str) -> str:
    """Return the password in a URL, "" without one; a word or a short password does not count."""
    authority = text.partition("://")[2].partition("/")[0]
    password = authority.rpartition("@")[0].partition(":")[2]
    return "" if len(password) < _SHORTEST_GIVEN or is_word(password) else password


class Redactor:
    """Finds secrets, {secret: name}, in text, also as JSON, URLs, base64 and hex spell them.

    Base64 and hex are found wherever the secret stands in what was encoded, as in `user:secret`.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        plain: dict[str, str] = {}
        encoded: dict[str, str] = {}
        for secret, name in secrets.items():
            for spelled in _spellings(secret):
                plain.setdefault(spelled, name)
            octets = secret.encode("utf-8", "surrogateescape")
            for run in _encoded_runs(octets) if len(octets) >= _SHORTEST_ENCODED else ():
                encoded.setdefault(run, name)
        self.plain = sorted(plain.items(), key=lambda pair: -len(pair[0]))
        self.encoded = list(encoded.items())

    def names(self, text: str) -> list[str]:
        """Return the names of the secrets that stand in `text`."""
        found = {name for spelled, name in self.plain if spelled in text}
        return sorted(found | {name for run, name in self.encoded if run in text})

    def redact(self, text: str) -> str:
        """Return `text` with `${NAME}` in the place of secrets."""
        for spelled, name in self.plain:
            text = text.replace(spelled, f"${{{name}}}")
        for run, name in self.encoded:
            at = text.find(run)
            while at >= 0:
                start, end = _around(text, at, at + len(run))
                put = f"${{{name}}}"
                text = text[:start] + put + text[end:]
                at = text.find(run, start + len(put))
        return text


def _around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the whole run of base64 characters around text[start:end]."""
    while start and text[start - 1] in _BASE64:
        start -= 1
    while end < len(text) and text[end] in _BASE64:
        end += 1
    return start, end


def _spellings(secret: str) -> set[str]:
    """Return how a secret may be written: each of its lines, as JSON, in a URL."""
    # Output is split into lines before it is redacted, and carriage returns are dropped.
    found = {secret, *(line for line in secret.splitlines() if len(line) >= _SHORTEST_LINE)}
    found.update([quote(text)[1:-1] for text in found])  # in ASCII …
    found.update([_escaped(text) for text in found])  # … and not
    if looks_random(secret):  # some print UUIDs and hexadecimal keys in the other case
        found.update((secret.lower(), secret.upper()))
    # The characters that paths, queries and JavaScript leave unencoded.
    for kept in ("", "/", "!'()*", "!'()*/;,?:@&=+$#"):
        spelled = percent_encoded(secret, kept)
        found.update((spelled, spelled.replace("%20", "+")))
        found.add("".join(_lowered(spelled)))
    return found


def _escaped(text: str) -> str:
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(char, escape)
    return text


def _lowered(spelled: str) -> Iterator[str]:
    """Yield a percent-encoded text with its hexadecimal digits in lower case."""
    first, *rest = spelled.split("%")
    yield first
    for part in rest:
        yield f"%{part[:2].lower()}{part[2:]}"


def _encoded_runs(secret: bytes) -> Iterator[str]:
    """Yield a secret in hex and base64, whatever stands before and behind it."""
    yield from (secret.hex(), secret.hex().upper())
    for shift in range(3):
        text = binascii.b2a_base64(b"\0" * shift + secret, newline=False).decode("ascii")
        run = text[(0, 2, 3)[shift] : 8 * (shift + len(secret)) // 6]
        yield run
        yield run.replace("+", "-").replace("/", "_")


def shown(text: str, redact: Callable[[str], str] = str) -> str:
    """Return a text as it may be shown; every text goes through this before it is written.

    It is redacted, also once escape sequences are gone, and control characters are escaped. Lines
    behind the first are indented, so that none looks like one of the proxy's.
    """
    lines = redact(text).rstrip("\n").split("\n")
    return "\n  ".join([redact(printable(line)) for line in lines])
