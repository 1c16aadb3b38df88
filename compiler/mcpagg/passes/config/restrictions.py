"""Keys that restrict, by their names: the rule for all that no dialect honours.

A key whose name says that it restricts is an error where it concerns the servers: a proxy that
passed over it would offer what the client withholds. In an entry it always does; what stands beside
the entries is read in `beside.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from mcpagg.passes.config.places import Place
from mcpagg.problems import NO_OTHERS, suggest
from mcpagg_runtime.launch.secrecy import NOTHING, promise, words_of

SWITCHES = {
    "disabled": True,
    "disable": True,
    "enabled": False,
    "enable": False,
    "active": False,
    "isActive": False,
    "quarantined": True,
    "anythingllm.autoStart": False,
    "tool_configuration.enabled": False,
}
"""Keys that switch off what they stand in, with the value that does: a server, in its entry."""

APPROVALS = frozenset(
    "autoApprove alwaysAllow autoApproveTools autoAllowedTools allowedWithoutApproval"  # noqa: SIM905 - a word a line
    " default_tools_approval_mode require_approval requireApproval enabledMcpjsonServers".split()
)
"""Keys that say for which tools the client asks before it calls them."""

_HARMLESS = frozenset({"rejectUnauthorized", *APPROVALS})
_TAKES = re.compile(
    r"(?:^| )(?:blacklist|block(?!chain)|den(?:y|ied|ies)|disab|disallow|exclu|filter|forbid"
    r"|hid(?:e|den)|isolat|permission|profiles|prohibit|quarantin|read ?only|reject|restrict"
    r"|sandbox|seccomp|suppress)"
)
_SANDBOX = re.compile(r"(?:^| )(?:isolat|permission|sandbox|seccomp)")
_GIVES = re.compile(r"(?:^| )(?:allow|enabled .|includ|only$|permit|whitelist)")
"""What restricts by naming what is left."""
_ALL = (True, "*", ["*"])
_ASKS = ("allow", "ask", "confirm", "prompt")
"""Values that withhold nothing: whether the client asks is its own part."""
_NAMES = re.compile(r"(?:^| )(?:env|environment|headers?|schema|vars|variables)(?: |$)")
_UNSENT = "the server is asked without it: write it into `headers` or `env`"
_UNDOES = re.compile(r"(?:bypass|dangerously|no|skip|without) ")
_DESCRIBES = re.compile(r" (?:reason|hint|message|note|description|label)$")


def report_unknown(
    key: str,
    value: Any,
    at: Place,
    known: Collection[str],
    usual: Mapping[str, str] = NO_OTHERS,
) -> None:
    """Report a key of an entry that is not understood: an error if it restricts.

    `usual` are the words to advise in the place of some that are known.
    """
    nothing = says_nothing(value) and restricts(key, "")
    if not refuse_within(key, value, at) and not nothing:
        is_secret = isinstance(value, str) and promise(key) != NOTHING
        at.warn(
            "is not understood and ignored", _UNSENT if is_secret else suggest(key, known, usual)
        )


def refuse_within(key: str, value: Any, at: Place) -> bool:
    """Report what restricts in a key of an entry, at any depth; tell whether anything does."""
    restrictions = list(_restricting(key, value, at))
    for place, name in restrictions:
        sandbox = _SANDBOX.search(_words(name))
        remedy = "have its `command` start the sandbox" if sandbox else "withhold tools with --hide"
        place.error(
            "restricts what the server may do or offer, and a proxy would not",
            f"--skip it; or {remedy}, and remove this",
        )
    return bool(restrictions)


def _restricting(key: str, value: Any, at: Place) -> Iterator[tuple[Place, str]]:
    if is_harmless(key):
        return
    if restricts(key, value):
        if not says_nothing(value):
            yield at, key
    elif holds_names(key):
        return
    elif isinstance(value, dict) and value.get("enabled") is not False:
        for name, member in value.items():
            if not is_off(name, value):
                yield from _restricting(name, member, at.at(name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            if isinstance(member, dict):
                yield from _restricting("", member, at.at(index))


def restricts(key: str, value: Any) -> bool:
    """Whether a key restricts by its name, with a value that does not stand for everything."""
    words = _words(key)
    if _UNDOES.match(words) or _DESCRIBES.search(words) or value in _ASKS:
        return False
    return bool(_TAKES.search(words)) or (gives(key) and value not in _ALL)


def gives(key: str) -> bool:
    """Whether a key restricts by naming what is allowed."""
    words = _words(key)
    return bool(_GIVES.search(words) and not _TAKES.search(words))


@lru_cache(4096)
def _words(key: str) -> str:
    return " ".join(words_of(key))


def says_nothing(value: Any) -> bool:
    """Whether a value is false or empty, or an object that is switched off."""
    if isinstance(value, dict):
        return not value or any(value.get(key) is off for key, off in SWITCHES.items())
    return value is None or value is False or value in ("", [])


def permits(value: Any) -> bool:
    """Whether a value is a rule that withholds nothing."""
    return isinstance(value, dict) and any(member in _ASKS for member in value.values())


def is_off(key: str, beside: Mapping[str, Any]) -> bool:
    """Whether a key beside this one says that it does not count: `sandboxEnabled`."""
    return beside.get(f"{key}Enabled") is False or beside.get(f"{key}_enabled") is False


def is_harmless(key: str) -> bool:
    """Whether a key restricts no server, whatever its name says."""
    return key in _HARMLESS or is_comment(key)


def holds_names(key: str) -> bool:
    """Whether the members of a key are not named by the client: variables, headers."""
    return bool(_NAMES.search(_words(key)))


def is_comment(key: str) -> bool:
    """Whether a key is a comment, which no client reads."""
    return key.startswith(("_", "//", "$", "#"))
