"""The cookies that a server sets: they go back to its own origin, and are kept in memory alone.

RFC 6265. Balancers tell by one which of several instances has a session.
"""

from __future__ import annotations

import threading
from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpagg_runtime.remote.connections import Address

MAXIMUM_COOKIES = 50
MAXIMUM_COOKIE_CHARACTERS = 4096


class Cookie:
    """One cookie; `until` is when it is over, in seconds since 1970."""

    __slots__ = ("is_secure", "name", "path", "until", "value")

    def __init__(self, name: str, value: str, address: Address) -> None:
        self.name = name
        self.value = value
        self.path = address.target.partition("?")[0].rpartition("/")[0] or "/"
        self.until = float("inf")
        self.is_secure = False

    def is_for(self, address: Address) -> bool:
        """Whether it goes with a request to an address of its origin."""
        path = address.target.partition("?")[0]
        below = self.path if self.path.endswith("/") else f"{self.path}/"
        is_there = path == self.path or path.startswith(below)
        return is_there and (address.scheme == "https" or not self.is_secure)


class Cookies:
    """The cookies of one origin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], Cookie] = {}
        """By path and name; the one that was set last comes last."""

    def take(self, lines: Iterable[str], address: Address) -> None:
        """Take the cookies that an answer from an address sets; one that is over is forgotten."""
        for line in lines:
            cookie = read_cookie(line, address)
            if cookie is None:
                continue
            key = (cookie.path, cookie.name)
            with self._lock:
                self._kept.pop(key, None)
                if cookie.until > time():
                    self._kept[key] = cookie
                if len(self._kept) > MAXIMUM_COOKIES:
                    del self._kept[next(iter(self._kept))]

    def header(self, address: Address, own: str) -> str:
        """Return the header Cookie of a request, "" for none; `own` is that of the config."""
        now = time()
        with self._lock:
            kept = [*self._kept.values()]
        names = {pair.partition("=")[0].strip() for pair in own.split(";")}
        found = [one for one in kept if one.until > now and one.is_for(address)]
        found.sort(key=lambda one: -len(one.path))
        pairs = [f"{one.name}={one.value}" for one in found if one.name not in names]
        return "; ".join([own, *pairs] if own else pairs)


def read_cookie(line: str, address: Address) -> Cookie | None:
    """Read a Set-Cookie of an answer from an address; None for one that is of no use there."""
    pair, *attributes = line.split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not name or not (name + value).isprintable():
        return None
    if len(name) + len(value) > MAXIMUM_COOKIE_CHARACTERS:
        return None
    said = {}
    for attribute in attributes:
        key, _, text = attribute.partition("=")
        said[key.strip().lower()] = text.strip()
    if not _is_within_domain(address.host, said.get("domain", "")):
        return None
    cookie = Cookie(name, value, address)
    cookie.is_secure = "secure" in said
    if said.get("path", "").startswith("/"):
        cookie.path = said["path"]
    age = said.get("max-age", "")
    if age.lstrip("-").isdecimal():
        cookie.until = 0.0 if age.startswith("-") else time() + int(age[:12])
    elif "expires" in said:
        cookie.until = _seconds(said["expires"])
    return cookie


def _is_within_domain(host: str, domain: str) -> bool:
    domain = domain.lower().lstrip(".")
    return not domain or host == domain or host.endswith(f".{domain}")


def _seconds(date: str) -> float:
    """Return a date in seconds since 1970; without end if it is none."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp()
    except (IndexError, OverflowError, TypeError, ValueError):
        return float("inf")
