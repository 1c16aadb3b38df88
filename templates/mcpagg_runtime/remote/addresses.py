"""Where a remote server is: its URL taken apart, and the proxy that it is reached through."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

PORTS = {"http": 80, "https": 443}
HIDDEN = "***"


class Address:
    """One URL of http or https, whole: `target` is its path with the query.

    `origin` is what a credential is for: scheme, host and port. `shown` is the URL without what
    may be secret in it: the user, the password, and the values of the query.
    """

    __slots__ = ("host", "origin", "password", "port", "scheme", "shown", "target", "url", "user")

    def __init__(self, url: str) -> None:
        """Take a URL apart.

        Raises:
            ValueError: it is none, or one of another scheme.
        """
        parts = urlsplit(url.strip())
        port = parts.port
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("its URL has not the form https://HOST/PATH")
        self.scheme = parts.scheme
        self.host = parts.hostname
        self.port = port or PORTS[parts.scheme]
        self.user = unquote(parts.username or "")
        self.password = unquote(parts.password or "")
        self.origin = (self.scheme, self.host, self.port)
        path = _in_ascii(parts.path or "/")
        self.target = path + (f"?{_in_ascii(parts.query)}" if parts.query else "")
        where = f"[{self.host}]" if ":" in self.host else self.host
        if self.port != PORTS[self.scheme]:
            where += f":{self.port}"
        self.url = f"{self.scheme}://{where}{self.target}"
        self.shown = f"{self.scheme}://{where}{path}{_without_values(parts.query)}"

    def joined(self, reference: str) -> Address:
        """Return the address that a reference in an answer leads to.

        Raises:
            ValueError: it leads nowhere.
        """
        return Address(urljoin(self.url, reference))


def _in_ascii(text: str) -> str:
    """Return a part of a URL in ASCII, as it is sent: a blank or a letter with an accent is not."""
    octets = text.encode("utf-8", "surrogateescape")
    return "".join(chr(o) if 0x20 < o < 0x7F else f"%{o:02X}" for o in octets)


def _without_values(query: str) -> str:
    names = [pair.partition("=")[0] for pair in query.split("&")] if query else []
    return f"?{'&'.join(f'{name}={HIDDEN}' for name in names)}" if names else ""


def proxy_for(address: Address, environ: Mapping[str, str]) -> tuple[str, Address] | None:
    """Return the variable that names the proxy for an address, and the proxy; None for none.

    `HTTP_PROXY` or `HTTPS_PROXY`, and `NO_PROXY`, in either case; the lower one counts first, as
    with curl. This machine itself is never reached through a proxy.

    Raises:
        ValueError: the variable names something else than an HTTP proxy.
    """
    name = f"{address.scheme}_proxy"
    name = name if environ.get(name) else name.upper()
    value = environ.get(name, "").strip()
    if not value or _is_local(address.host):
        return None
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if any(_matches(entry.strip().lower(), address) for entry in exceptions.split(",")):
        return None
    if "://" not in value:
        value = f"http://{value}"
    if not value.startswith("http://"):
        kind = value.partition("://")[0]
        raise ValueError(f"{name} names a proxy of the kind {kind}, and only http:// ones work")
    return name, Address(value)


def _is_local(host: str) -> bool:
    return host in ("localhost", "::1") or host.endswith(".localhost") or host.startswith("127.")


def _matches(entry: str, address: Address) -> bool:
    """Whether an entry of NO_PROXY names an address: `*`, a host or a domain, a network."""
    if entry == "*":
        return True
    if "/" in entry:
        return _is_within(address.host, entry)
    host, _, port = entry.rpartition(":")
    if host and port.isdigit() and (":" not in host or host.endswith("]")):
        if int(port) != address.port:
            return False
        entry = host
    entry = entry.strip("[]").lstrip(".")
    return bool(entry) and (address.host == entry or address.host.endswith(f".{entry}"))


def _is_within(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
