"""URLs with references: a value fills only the component in which its reference stands.

So no value changes the scheme, host and port that the config writes out: its characters are
encoded, or it is refused by the name of its variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.launch.variables import BadUrl, pieces, value_of
from mcpagg_runtime.plan.uri_templates import percent_encoded

if TYPE_CHECKING:
    from collections.abc import Callable

_REFERENCE = "\ue000"
"""Stands for a reference while a URL is taken apart."""
_URL_SCHEMES = ("http", "https")
_AUTHORITY_ENDS = "/?#"
_HOST_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._")
_HOST_ADDRESS = frozenset("0123456789abcdefABCDEF:.")
_LAST_PORT = 65535
NO_URL = "its URL has not the form https://HOST/PATH"


def resolve_url(text: str, lookup: Callable[[str], str | None]) -> str:
    """Return a URL with every reference replaced by what `lookup` gives for its name.

    Raises:
        MissingVariable: `lookup` gave None for a name without a default.
        BadUrl: a value does not fit its place, or this is no URL.
    """
    return filled_url(text, lookup)[0]


def filled_url(text: str, lookup: Callable[[str], str | None]) -> tuple[str, list[str]]:
    """Do what `resolve_url` does.

    Also returns the names of variables whose values look like several parts of a path, or of a
    query, but are encoded as one part.
    """
    parts = []
    values = []
    for literal, name, default in pieces(text):
        parts.append(literal)
        if name:
            parts.append(_REFERENCE)
            values.append((name, value_of(name, default, lookup)))
    url = "".join(parts)
    if not values:
        return url, []
    if url.count(_REFERENCE) > len(values):
        raise BadUrl(NO_URL)
    filling = _Filling(values)
    return filling.url(url.strip()), filling.several


class _Filling:
    """Puts values, in the order of their references, into the components of one URL."""

    def __init__(self, values: list[tuple[str, str]]) -> None:
        self._left = values[::-1]
        self._names: list[str] = []
        """The variables of the component that was filled last."""
        self.several: list[str] = []
        """The variables whose values look like several parts."""

    def url(self, url: str) -> str:
        scheme, colon, rest = url.partition("://")
        if url.startswith(_REFERENCE) and (not colon or _end_of_authority(scheme) < len(scheme)):
            name, value = self._left.pop()
            value = value.strip()
            if not _is_url(value):
                raise _unfit(name, "whole http or https URL")
            if url == _REFERENCE:
                return value
            if not _is_beginning(value, url[1:]):
                raise _unfit(name, "http or https URL without user, query and fragment")
            scheme, colon, rest = (value + url[1:]).partition("://")
        if not colon:
            raise BadUrl(NO_URL)
        start = _end_of_authority(rest)
        scheme = self._checked(scheme, "scheme of a URL", _URL_SCHEMES.__contains__)
        return scheme + colon + self._authority(rest[:start]) + self._behind(rest[start:])

    def _authority(self, text: str) -> str:
        before, at, where = text.rpartition("@")
        user, colon, password = before.partition(":")
        user, password = self._filled(user), self._filled(password)
        host, port_colon, port = _host_and_port(where)
        host = self._checked(host, "host", _is_host)
        return (
            user
            + colon
            + password
            + at
            + host
            + port_colon
            + self._checked(port, "port", _reads_as_port)
        )

    def _behind(self, text: str) -> str:
        """Fill path, query and fragment."""
        rest, sharp, fragment = text.partition("#")
        path, mark, query = rest.partition("?")
        filled = "/".join([self._step(step) for step in path.split("/")]) + mark
        filled += "&".join([self._pair(pair) for pair in query.split("&")]) + sharp
        return filled + self._filled(fragment)

    def _step(self, text: str) -> str:
        step = self._filled(text, _AUTHORITY_ENDS)
        if self._names and step in (".", ".."):
            raise _unfit(" or ".join(self._names), "part of a path")
        return step

    def _pair(self, text: str) -> str:
        name, equals, value = text.partition("=")
        name = self._filled(name, "" if equals else "&=")
        return name + equals + self._filled(value)

    def _filled(
        self, text: str, between: str = "", encoded: Callable[[str], str] = percent_encoded
    ) -> str:
        """Fill a component with encoded values; note those that hold a separator (`between`)."""
        first, *others = text.split(_REFERENCE)
        self._names = []
        for literal in others:
            name, value = self._left.pop()
            self._names.append(name)
            self.several += [name] if any(char in value for char in between) else []
            first += encoded(value) + literal
        return first

    def _checked(self, text: str, wanted: str, is_one: Callable[[str], bool]) -> str:
        """Fill a component with values as they are; refuse what is then no such component."""
        filled = self._filled(text, encoded=str)
        if self._names and not is_one(filled):
            raise _unfit(" or ".join(self._names), wanted)
        return filled


def _unfit(names: str, wanted: str) -> BadUrl:
    return BadUrl(f"the value of {names} is no {wanted}, which is what its URL has it for")


def _end_of_authority(text: str) -> int:
    return min([text.find(end) for end in _AUTHORITY_ENDS if end in text], default=len(text))


def _host_and_port(text: str) -> tuple[str, str, str]:
    if ":" in text[text.find("]") + 1 :]:
        return text.rpartition(":")
    return text, "", ""


def _is_host(text: str) -> bool:
    """Whether a text is the name or the address of a host."""
    if text.startswith("["):
        return text.endswith("]") and ":" in text and _HOST_ADDRESS.issuperset(text[1:-1])
    labels = text[: -text.endswith(".") or None].split(".")
    return all(labels) and all(
        char in _HOST_NAME or (char > "\x7f" and char.isalnum()) for char in "".join(labels)
    )


def _reads_as_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= _LAST_PORT


def _is_url(text: str) -> bool:
    """Whether a text is a whole URL of http or https."""
    scheme, _, rest = text.partition("://")
    authority = rest[: _end_of_authority(rest)]
    host, colon, port = _host_and_port(authority.rpartition("@")[2])
    blank = any(char <= " " or char == "\x7f" for char in text)
    fits = _is_host(host) and (not colon or _reads_as_port(port)) and _REFERENCE not in text
    return scheme.lower() in _URL_SCHEMES and fits and not blank


def _is_beginning(text: str, rest: str) -> bool:
    """Whether a whole URL may go on with `rest`, and keep its host and its port."""
    behind = text.partition("://")[2]
    authority = behind[: _end_of_authority(behind)]
    if "?" in text or "#" in text or "@" in authority:
        return False
    goes_on = authority != behind or rest[0] in _AUTHORITY_ENDS
    return goes_on or (rest[0] == ":" and not _host_and_port(authority)[1])
