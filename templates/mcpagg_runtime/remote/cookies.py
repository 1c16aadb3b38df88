"""Cookies (RFC 6265) of one origin, kept in memory alone.

A load balancer finds by a cookie which of several instances has a session.
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
    """One cookie; `expires` is in seconds since 1970."""

    __slots__ = ("expires", "is_secure", "name", "path", "value")

    def __init__(self, name: str, value: str, address: Address) -> None:
        self.name = name
        self.value = value
        self.path = address.target.partition("?")[0].rpartition("/")[0] or "/"
        self.expires = float("inf")
        self.is_secure = False

    def is_for(self, address: Address) -> bool:
        """Whether it is sent with a request to an address of its origin."""
        path = address.target.partition("?")[0]
        below = self.path if self.path.endswith("/") else f"{self.path}/"
        is_there = path == self.path or path.startswith(below)
        return is_there and (address.scheme == "https" or not self.is_secure)


class Cookies:
    """The cookies of one origin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cookies: dict[tuple[str, str], Cookie] = {}
        """By path and name; the cookie that was set last comes last."""

    def accept(self, lines: Iterable[str], address: Address) -> None:
        """Note the cookies that a response from an address sets; an expired one is deleted."""
        for line in lines:
            cookie = read_cookie(line, address)
            if cookie is None:
                continue
            key = (cookie.path, cookie.name)
            with self._lock:
                self._cookies.pop(key, None)
                if cookie.expires > time():
                    self._cookies[key] = cookie
                if len(self._cookies) > MAXIMUM_COOKIES:
                    del self._cookies[next(iter(self._cookies))]

    def header(self, address: Address, own: str) -> str:
        """Return the header Cookie of a request, "" for none; `own` is the config's."""
        now = time()
        with self._lock:
            cookies = [*self._cookies.values()]
        names = {pair.partition("=")[0].strip() for pair in own.split(";")}
        cookies = [cookie for cookie in cookies if cookie.expires > now and cookie.is_for(address)]
        cookies.sort(key=lambda cookie: -len(cookie.path))
        pairs = [f"{cookie.name}={cookie.value}" for cookie in cookies if cookie.name not in names]
        return "; ".join([own, *pairs] if own else pairs)


def read_cookie(line: str, address: Address) -> Cookie | None:
    """Parse a Set-Cookie of a response from an address; None if it is not valid there."""
    pair, *attributes = line.split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not name or not (name + value).isprintable():
        return None
    if len(name) + len(value) > MAXIMUM_COOKIE_CHARACTERS:
        return None
    given = {}
    for attribute in attributes:
        key, _, text = attribute.partition("=")
        given[key.strip().lower()] = text.strip()
    if not _is_within_domain(address.host, given.get("domain", "")):
        return None
    cookie = Cookie(name, value, address)
    cookie.is_secure = "secure" in given
    if given.get("path", "").startswith("/"):
        cookie.path = given["path"]
    age = given.get("max-age", "")
    if age.lstrip("-").isdecimal():
        cookie.expires = 0.0 if age.startswith("-") else time() + int(age[:12])
    elif "expires" in given:
        cookie.expires = _timestamp(given["expires"])
    return cookie


def _is_within_domain(host: str, domain: str) -> bool:
    domain = domain.lower().lstrip(".")
    return not domain or host == domain or host.endswith(f".{domain}")


def _timestamp(date: str) -> float:
    """Return a date in seconds since 1970, infinity if it cannot be parsed."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp()
    except (IndexError, OverflowError, TypeError, ValueError):
        return float("inf")
