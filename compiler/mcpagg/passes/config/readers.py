"""How each kind of value in an entry is read.

A reader takes a value and its place. It returns what a `ServerSpec` holds (each string with its
JSON path), or reports an error at the place and returns None. A message never holds a value.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpagg.passes.config.formats import Number
from mcpagg.passes.config.places import Place, Written, kind
from mcpagg.passes.config.restrictions import refuse_within, report_unknown
from mcpagg.passes.config.validation import validated
from mcpagg.spec import OAuth

if TYPE_CHECKING:
    from mcpagg.passes.config import models

Reader = Callable[[Any, Place], Any]

MILLISECONDS_FROM = 1000
"""A timeout whose unit clients disagree about is in milliseconds from here on."""

MOST_SECONDS = 3600
"""The longest timeout that clients take which bound it, in seconds."""


APPROVALS = frozenset({"approval_mode", "approval", "permission", "requireApproval"})
"""Keys of a tool that say whether the client asks before it calls the tool."""

NEVER = ("deny", "never", "reject")
"""Their values for a tool that it never calls."""


OAUTH_FIELDS = {
    "clientid": "client_id",
    "clientsecret": "client_secret",
    "scope": "scopes",
    "scopes": "scopes",
    "oauthscopes": "scopes",
    "callbackport": "port",
}
"""Members of `oauth` and `auth`, in lower case without `-` and `_`."""
OAUTH_QUIET = frozenset({"enabled", "type"})


class Filter(NamedTuple):
    """Which of a server's tools are offered, and under which names."""

    expose: tuple[str, ...] | None = None
    hide: tuple[str, ...] = ()
    rename: dict[str, str] = {}  # noqa: RUF012 - never written to


def text(value: Any, at: Place) -> str | None:
    """Read a string that says something."""
    if not isinstance(value, str):
        is_word = isinstance(value, bool | Number)
        remedy = "write it in quotes" if is_word else "write one string"
        at.error(f"expected a string, found {kind(value)}", remedy)
    elif not value.strip():
        at.error("is empty", "write it, or remove the key")
    else:
        return value
    return None


def scalar(value: Any, at: Place) -> str | None:
    """Read a string; a number or a boolean stands for its JSON text, with a warning."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | Number):
        at.warn(f"{kind(value)} is passed on as its JSON text", "write it as a string")
        return value.text if isinstance(value, Number) else json.dumps(value)
    at.error(f"expected a string, found {kind(value)}", "write it as one string, or leave it out")
    return None


def scalars(value: Any, at: Place) -> tuple[Written, ...] | None:
    """Read a list of strings, as of `args`."""
    if not isinstance(value, list):
        at.error(f"expected a list of strings, found {kind(value)}", 'write ["first", "second"]')
        return None
    places = [at.at(index) for index in range(len(value))]
    items = [(scalar(item, place), place.path) for item, place in zip(value, places, strict=True)]
    return tuple(Written(item, path) for item, path in items if item is not None)


def written(value: Any, at: Place) -> Written | None:
    """Read a string that says something, with its place."""
    content = text(value, at)
    return Written(content, at.path) if content else None


def command(value: Any, at: Place) -> tuple[Written, ...] | None:
    """Read a command: the program, or a list of the program and its first arguments."""
    if not isinstance(value, list):
        program = written(value, at)
        return (program,) if program else None
    words = scalars(value, at)
    if not words or not words[0].text.strip():
        at.error("names no program", "write the program, then its arguments")
    return words


def command_line(value: Any, at: Place) -> tuple[Written, ...] | None:
    """Read a command whose client splits a string into words as a shell does."""
    if not isinstance(value, str) or not value.strip():
        return command(value, at)
    try:
        return tuple(Written(word, at.path) for word in shlex.split(value))
    except ValueError:
        at.error("has a quotation mark without its counterpart", "write a list of words")
        return None


def variables(value: Any, at: Place) -> dict[str, Written] | None:
    """Read `env`: a map of strings, or a list of `NAME` (handed through) and `NAME=value`."""
    if isinstance(value, list):
        names = [item.get("name") if isinstance(item, dict) else item for item in value]
        pairs = [(item.text.partition("="), item.path) for item in scalars(names, at) or ()]
        members: dict[str, Written] | None = {
            name: Written(given if equals else f"${{{name}}}", path)
            for (name, equals, given), path in pairs
        }
    else:
        members = strings(value, at)
    for name in members or ():
        if not name or "=" in name:
            at.at(name).error("is no name of a variable", "remove it")
    return members


def strings(value: Any, at: Place) -> dict[str, Written] | None:
    """Read a map of strings, as of `headers`; null is as good as absent."""
    if not isinstance(value, dict):
        at.error(f"expected an object of strings, found {kind(value)}", 'write {"NAME": "VALUE"}')
        return None
    pairs = [(key, item) for key, item in value.items() if item is not None]
    items = [(key, scalar(item, at.at(key)), at.at(key).path) for key, item in pairs]
    return {key: Written(item, path) for key, item, path in items if item is not None}


def headers(value: Any, at: Place) -> dict[str, Written] | None:
    """Read a map of HTTP headers."""
    members = strings(value, at)
    for name, content in (members or {}).items():
        if not name or not name.isascii() or any(c <= " " or c in ':"(),/;<=>?@[]' for c in name):
            at.at(name).error("is no name of a header")
        if "\n" in content.text or "\r" in content.text:
            at.at(name).error("a header cannot hold a line break")
    return members


def headers_of_variables(value: Any, at: Place) -> dict[str, Written] | None:
    """Read a map of HTTP headers whose values are names of variables."""
    members = headers(value, at)
    return members and {
        name: Written(f"${{{content.text}}}", content.path) for name, content in members.items()
    }


def variable(value: Any, at: Place) -> Written | None:
    """Read the name of the variable that holds a token."""
    name = text(value, at)
    return Written(f"${{{name}}}", at.path) if name else None


def token_format(value: Any, at: Place) -> str | None:
    """Read how a header holds a token: `Bearer {token}`."""
    template = text(value, at)
    if template is not None and "{token}" not in template:
        at.error("does not say where the token goes", 'write "Bearer {token}"')
        return None
    return template


LITELLM_SCHEMES: dict[str, tuple[str, str]] = {
    "api_key": ("X-API-Key", "{token}"),
    "authorization": ("Authorization", "{token}"),
    "bearer_token": ("Authorization", "Bearer {token}"),
    "token": ("Authorization", "token {token}"),
    "none": ("", ""),
    "oauth2": ("", ""),
}
"""How LiteLLM sends a credential: (header, its format); no header for one that it does not send."""


def litellm_scheme(value: Any, at: Place) -> tuple[str, str] | None:
    """Read how LiteLLM sends the credential of a server."""
    name = text(value, at)
    if name is not None and name not in LITELLM_SCHEMES:
        at.error("is not honoured", "write the header into `static_headers`, in place of this")
    return LITELLM_SCHEMES.get(name or "")


def oauth(value: Any, at: Place) -> OAuth | None:
    """Read how a client logs in; that it is to log in at all needs no word."""
    if not isinstance(value, dict):
        return None
    settings: dict[str, Any] = {}
    for key, member in value.items():
        field = OAUTH_FIELDS.get(key.lower().replace("_", "").replace("-", ""))
        if field is None:
            if key not in OAUTH_QUIET and not refuse_within(key, member, at.at(key)):
                at.at(key).warn("is not honoured", "a token goes into `headers`; see --login")
        elif field == "port":
            settings[field] = int(seconds(member, at.at(key)) or 0)
        elif field == "scopes" and isinstance(member, list):
            settings[field] = " ".join(word.text for word in scalars(member, at.at(key)) or ())
        else:
            settings[field] = text(member, at.at(key)) or ""
    return OAuth(**settings)


def endpoint(value: Any, at: Place) -> str | None:
    """Read a URL; beside a command, some proxies call the path of their own route so."""
    url = text(value, at)
    return url if url and ("://" in url or url.startswith(("$", "{"))) else None


def seconds(value: Any, at: Place) -> float | None:
    """Read a duration in seconds; 0 is no limit."""
    amount = float(value.text) if isinstance(value, Number) else math.nan
    if 0 <= amount < math.inf:
        return amount
    what = f"expected a number of 0 (no limit) or more, found {_amount(value)}"
    at.error(what, "write 60, or leave out")
    return None


def milliseconds(value: Any, at: Place) -> float | None:
    """Read a duration in milliseconds; return seconds."""
    amount = seconds(value, at)
    return amount and amount / 1000


def duration(value: Any, at: Place) -> float | None:
    """Read a duration whose unit the clients disagree about; return seconds."""
    amount = seconds(value, at)
    if amount is None or amount < MILLISECONDS_FROM:
        return amount
    at.warn(
        f"read as milliseconds, {amount / 1000:g} s: clients disagree about the unit of `timeout`"
    )
    return amount / 1000


def seconds_or_milliseconds(value: Any, at: Place) -> float | None:
    """Read a duration in seconds; what no client takes for seconds is in milliseconds."""
    amount = seconds(value, at)
    if amount is None or amount <= MOST_SECONDS:
        return amount
    what = f"read as milliseconds, {amount / 1000:g} s: the client takes {MOST_SECONDS} s at most"
    at.warn(what)
    return amount / 1000


def _amount(value: Any) -> str:
    return "another one" if isinstance(value, Number) else kind(value)


def allowed(value: Any, at: Place) -> Filter | None:
    """Read a list of the tools to offer: names, or `{original, exposed}` for a new name."""
    if not isinstance(value, list):
        at.error(f"expected a list of tool names, found {kind(value)}", 'write ["TOOL"]')
        return None
    items = [_renamed(item, at.at(index)) for index, item in enumerate(value)]
    pairs = [item for item in items if item]
    if not value:
        at.warn("is an empty list, so no tool of this server is offered", "leave it out for all")
    return Filter(
        expose=tuple(original for original, _ in pairs),
        rename={original: exposed for original, exposed in pairs if exposed},
    )


def _renamed(value: Any, at: Place) -> tuple[str, str | None] | None:
    if not isinstance(value, dict):
        name = text(value, at)
        return (name, None) if name else None
    ignore_others(value, ("original", "exposed"), at)
    original = text(value.get("original"), at.at("original"))
    exposed = text(value.get("exposed", value.get("original")), at.at("exposed"))
    return (original, exposed if exposed != original else None) if original else None


def withheld(value: Any, at: Place) -> Filter | None:
    names = scalars(value, at)
    return None if names is None else Filter(hide=tuple(name.text for name in names))


def allowed_or_all(value: Any, at: Place) -> Filter | None:
    """Read a list of the tools to offer that stands for all of them when it is empty."""
    return Filter() if value == [] else allowed(value, at)


def one_or_more(read: Reader) -> Reader:
    """Return a reader of a list that takes its only member without the list as well."""
    return lambda value, at: read([value] if isinstance(value, str) else value, at)


def unread(_: Any, __: Place) -> None:
    """Pass over what is another program's business."""


def not_withheld(value: Any, at: Place) -> None:
    """Read a switch of the client for a part of the server that cannot be withheld here."""
    if switch(value, at) is False:
        at.error("what this withholds is offered here, which is not honoured", "--skip the server")


def none_withheld(value: Any, at: Place) -> None:
    """Read an object of `{enabled}` by prompt or resource: none can be withheld here."""
    for name, change in value.items() if isinstance(value, dict) else ():
        if isinstance(change, dict) and "enabled" in change:
            not_withheld(change["enabled"], at.at(name).at("enabled"))


def tools(value: Any, at: Place) -> Filter | None:
    """Read `tools`: a list of those to offer, or an object of `{name, enabled}` by tool."""
    if not isinstance(value, dict):
        return allowed(value, at)
    hide, rename = [], {}
    for tool, change in value.items():
        place = at.at(tool)
        if not isinstance(change, dict):
            place.error(f"expected an object, found {kind(change)}", 'write {"enabled": false}')
            continue
        if switch(change.get("enabled", True), place.at("enabled")) is False:
            hide.append(tool)
        if "name" in change and (name := text(change["name"], place.at("name"))):
            rename[tool] = name
        for key in APPROVALS & change.keys():
            if change[key] in NEVER:
                hide.append(tool)
                continue
            place.at(key).warn("is not honoured", "set it for the proxy's tools in the client")
        ignore_others(change, ("enabled", "name", *APPROVALS), place)
    return Filter(hide=tuple(hide), rename=rename)


def tool_filter(value: Any, at: Place) -> Filter | None:
    """Read `toolFilter`: `{mode: "allow" or "block", list: […]}`, or `{include, exclude}`."""
    modes = {"allow": allowed, "block": withheld}
    if isinstance(value, dict) and value.keys() & {"include", "exclude"}:
        ignore_others(value, ("include", "exclude"), at)
        include, exclude = value.get("include"), value.get("exclude")
        only = allowed_or_all(include, at.at("include")) if include is not None else None
        never = withheld(exclude, at.at("exclude")) if exclude is not None else None
        return (only or Filter())._replace(hide=never.hide if never else ())
    mode = value.get("mode") if isinstance(value, dict) else None
    if not isinstance(mode, str) or mode not in modes:
        at.error('expected {"mode": "allow" or "block", "list": [names]}')
        return None
    ignore_others(value, ("mode", "list"), at)
    return modes[mode](value.get("list"), at.at("list"))


def nested(value: Any, at: Place) -> bool | None:
    """Read the key of our own: {"nested": true} for an entry that may start another proxy."""
    own: models.EntryOwn | None = validated("EntryOwn", value, at)
    return None if own is None else own.nested


def switch(value: Any, at: Place) -> bool | None:
    if isinstance(value, bool):
        return value
    at.error(f"expected true or false, found {kind(value)}")
    return None


def ignore_others(value: dict[str, Any], known: tuple[str, ...], at: Place) -> None:
    for key, member in value.items():
        if key not in known:
            report_unknown(key, member, at.at(key), known)
