"""Where two servers hand out one URI of a page or a skill: each is told apart by its server's name.

`ui://widget/main.html` of the server `shop` is then listed, and named by its tools and its results,
as `ui://shop/widget/main.html`; a request for that is one to `shop` for its own URI. So a host
shows nobody the page of another. A skill goes as a whole, with its folder: relative references
stay true. No other URI changes.

https://github.com/modelcontextprotocol/ext-apps, https://github.com/modelcontextprotocol/ext-skills
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, elements, members
from mcpagg_runtime.plan.uri_templates import fits, folder_of, is_told_apart
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Told = Callable[[str], str]
    """Returns the URI that clients are told of in place of a server's own."""

_SEGMENT = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_FLAT = "ui/resourceUri"
"""What `ui.resourceUri` was in `_meta` at first; hosts heed both."""
_SEVERAL = ""
"""Stands among the owners of a URI that is told apart though one server alone hands it out."""


class Addresses:
    """Which servers hand out which URIs of pages and skills, and how clients are told of them."""

    def __init__(self, handed: Mapping[str, Iterable[str]]) -> None:
        """`handed` is {server: the URIs, and templates of such, in its lists}."""
        self._servers = {_encoded(server): server for server in handed}
        self._owners: dict[str, set[str]] = {}
        """{URI of a page, or folder of a skill: who hands it out}."""
        listed = [(uri, server) for server, uris in handed.items() for uri in uris]
        listed = [(uri, server) for uri, server in listed if is_told_apart(uri)]
        for uri, server in listed:
            self._owners.setdefault(folder_of(uri), set()).add(server)
        for uri, server in listed:  # what is a file to one may be a folder to another
            self._owners[self._place(uri)].add(server)
        self._templates = [one for one, by in self._owners.items() if "{" in one and len(by) > 1]
        while self._clears({uri for uri, _ in listed}):
            pass

    def _clears(self, uris: set[str]) -> bool:
        """See that no URI stays as it is that is told in place of another; return whether one did.

        Each that is moved for that has one segment more, so this comes to an end.
        """
        taken = [uri for uri in uris if self._is_alone(uri) and self._stands_for(uri) is not None]
        for uri in taken:
            self._owners[self._place(uri)].add(_SEVERAL)
        return bool(taken)

    def _is_alone(self, uri: str) -> bool:
        """Whether one server alone hands out a URI, or what it lies in."""
        return len(self._owners.get(self._place(uri), ())) == 1

    def owners(self, uri: str) -> set[str]:
        """Return the servers whose lists hand out a URI of a page or a skill."""
        place = self._place(uri)
        if place or not is_told_apart(uri):
            return self._owners.get(place, set())
        fitting = [self._owners[one] for one in self._templates if fits(one, uri)]
        return set().union(*fitting)

    def _place(self, uri: str) -> str:
        """Return the URI, or the innermost folder of a skill, that is handed out; "" for none."""
        if not is_told_apart(uri):
            return ""
        while uri not in self._owners:
            if folder_of(uri) == uri:
                return ""
            uri = folder_of(uri)
        return uri

    def told(self, uri: str, server: str, origin: str | None = None) -> str:
        """Return what clients are told of in place of a server's own URI.

        That is another one where another server hands it out too: in a list, or else in a result,
        where `origin` was the first.
        """
        if not is_told_apart(uri):
            return uri
        owners = self.owners(uri) or ({origin} if origin else set())
        return server_address(uri, server) if owners - {server} else uri

    def meant(self, uri: str, origin: Callable[[str], str | None]) -> tuple[str, str] | None:
        """Return whose URI was told as this one, and that; None where it is somebody's own.

        `origin` returns who was the first to hand out a URI in a result.
        """
        meant = self._stands_for(uri, origin)
        if meant is None or not self._is_alone(uri):
            return meant
        server, own = meant
        # A skill of one server may lie in what is the folder of another's.
        moved = server_address(self._place(own), server)
        return meant if server in self.owners(own) and len(moved) > len(self._place(uri)) else None

    def _stands_for(
        self, uri: str, origin: Callable[[str], str | None] = lambda uri: None
    ) -> tuple[str, str] | None:
        """Return the server, and its own URI, that would be told as this one."""
        scheme, _, path = uri.partition("://")
        first, mark, rest = path.partition("/")
        server, own = self._servers.get(first), f"{scheme}://{rest}"
        if server is None or not mark or self.told(own, server, origin(own)) == own:
            return None
        return server, own


def server_address(uri: str, server: str) -> str:
    """Return a URI with the name of a server as its first segment."""
    scheme, _, path = uri.partition("://")
    return f"{scheme}://{_encoded(server)}/{path}"


def _encoded(server: str) -> str:
    """Return the name of a server as one segment of a URI (RFC 3986)."""
    return "".join(
        [chr(byte) if byte in _SEGMENT else f"%{byte:02X}" for byte in server.encode("utf-8")]
    )


# What is handed out, in values


def uris_of(kind: str, item: Mapping[str, Any]) -> list[str]:
    """Return the URIs that an item of a kind of list hands out; those of a skill with its files."""
    if kind in ("tools", "prompts"):
        return pages_of(item)
    files = item.get("resources")
    named = [item, *(files if type(files) is list else ())]
    key = "uriTemplate" if kind == "templates" else "uri"
    found = [one.get(key) for one in named if type(one) is dict]
    return [one for one in found if type(one) is str]


def pages_of(value: Mapping[str, Any]) -> list[str]:
    """Return the pages that the `_meta` of a tool, or of its result, names."""
    meta = value.get("_meta")
    if type(meta) is not dict:
        return []
    ui = meta.get("ui")
    named = [ui.get("resourceUri") if type(ui) is dict else None, meta.get(_FLAT)]
    return [one for one in named if type(one) is str]


# What is told, in JSON texts


def told_item(kind: str, text: str, told: Told) -> str:
    """Return an item of a kind of list with its URIs as they are told."""
    if kind == "tools":
        return _with_pages(text, told)
    text = _with_uri(text, told, "uriTemplate" if kind == "templates" else "uri")
    return _with_each(text, "resources", lambda one: _with_uri(one, told))


def told_result(text: str, told: Told) -> str:
    """Return a result with its URIs as they are told.

    They stand in links, in resources that are embedded or read, in the entry of a skill and those
    of a folder, and where a tool names its page.
    """

    def block(one: str) -> str:
        return _with_inner(_with_uri(one, told), "resource", lambda inner: _with_uri(inner, told))

    text = _with_pages(text, told)
    text = _with_inner(text, "skill", lambda skill: told_item("skills", skill, told))
    text = _with_each(text, "messages", lambda one: _with_inner(one, "content", block))
    text = _with_each(text, "content", block)
    for member in ("contents", "resources"):
        text = _with_each(text, member, lambda one: _with_uri(one, told))
    return text


def _with_pages(text: str, told: Told) -> str:
    """Change the pages that `_meta` names."""

    def change(meta: str) -> str:
        return _with_inner(_with_uri(meta, told, _FLAT), "ui", page)

    def page(ui: str) -> str:
        return _with_uri(ui, told, "resourceUri")

    return _with_inner(text, "_meta", change)


def _with_uri(text: str, told: Told, member: str = "uri") -> str:
    """Change a URI that is a member of an object."""
    uri: Any = members(text)[0].get(member, (None,))[0]
    new = told(uri) if type(uri) is str else uri
    return text if new == uri else Json(text).owned({member: quote(new)}).text


def _with_inner(text: str, member: str, change: Callable[[str], str]) -> str:
    """Change an object that is a member of an object."""
    value, start, end = members(text)[0].get(member, (None, 0, 0))
    if type(value) is not dict:
        return text
    new = change(text[start:end])
    return text if new == text[start:end] else Json(text).owned({member: new}).text


def _with_each(text: str, member: str, change: Callable[[str], str]) -> str:
    """Change the objects in a list that is a member of an object."""
    value, start, _ = members(text)[0].get(member, (None, 0, 0))
    if type(value) is not list:
        return text
    found = [(item, text[begin:end]) for item, begin, end in elements(text, start)]
    new = [change(part) if type(item) is dict else part for item, part in found]
    same = new == [part for _, part in found]
    return text if same else Json(text).owned({member: f"[{','.join(new)}]"}).text
