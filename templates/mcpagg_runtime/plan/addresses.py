"""URIs of pages and skills that several servers have: each is qualified with its server's name.

`ui://widget/main.html` of the server `shop` is then listed, and named by its tools and its results,
as `ui://shop/widget/main.html`; a request for that goes to `shop` with its own URI. So a host never
shows the page of another server. A skill is qualified with its folder, so that relative references
stay valid. No other URI changes. The exposed URI is the one that clients see.

https://github.com/modelcontextprotocol/ext-apps, https://github.com/modelcontextprotocol/ext-skills
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, elements, members
from mcpagg_runtime.plan.uri_templates import fits, is_qualifiable, percent_encoded, qualified_unit
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Rewrite = Callable[[str], str]
    """Returns the exposed URI for a server's own."""

_OLD_PAGE = "ui/resourceUri"
"""The name of `ui.resourceUri` in `_meta` in older servers; hosts read both."""
_OTHERS = ""
"""An owner that is no server: makes a URI qualified that only one server has."""


class Addresses:
    """Which servers have which URIs of pages and skills, and as what they are exposed."""

    def __init__(self, uris: Mapping[str, Iterable[str]]) -> None:
        """`uris` is {server: the URIs, and templates of URIs, in its lists}."""
        self._servers = {percent_encoded(server): server for server in uris}
        self._owners: dict[str, set[str]] = {}
        """{URI of a page, or folder of a skill: the servers that have it}."""
        listed = [(uri, server) for server, own in uris.items() for uri in own]
        listed = [(uri, server) for uri, server in listed if is_qualifiable(uri)]
        for uri, server in listed:
            self._owners.setdefault(qualified_unit(uri), set()).add(server)
        for uri, server in listed:  # a file of one server may be a folder of another
            self._owners[self._place(uri)].add(server)
        self._templates = [uri for uri, by in self._owners.items() if "{" in uri and len(by) > 1]
        while self._resolve_conflicts({uri for uri, _ in listed}):
            pass

    def _resolve_conflicts(self, uris: set[str]) -> bool:
        """Qualify each URI that equals another one's exposed URI; return whether there was any.

        Each URI that is qualified for that has one segment more, so this comes to an end.
        """
        conflicting = [
            uri for uri in uris if self._has_one_owner(uri) and self._unqualified(uri) is not None
        ]
        for uri in conflicting:
            self._owners[self._place(uri)].add(_OTHERS)
        return bool(conflicting)

    def _has_one_owner(self, uri: str) -> bool:
        """Whether only one server has a URI, or the folder that it lies in."""
        return len(self._owners.get(self._place(uri), ())) == 1

    def owners(self, uri: str) -> set[str]:
        """Return the servers in whose lists a URI of a page or a skill is."""
        place = self._place(uri)
        if place or not is_qualifiable(uri):
            return self._owners.get(place, set())
        fitting = [self._owners[template] for template in self._templates if fits(template, uri)]
        return set().union(*fitting)

    def _place(self, uri: str) -> str:
        """Return the URI, or the innermost folder around it, that has owners; "" for none."""
        if not is_qualifiable(uri):
            return ""
        while uri not in self._owners:
            if qualified_unit(uri) == uri:
                return ""
            uri = qualified_unit(uri)
        return uri

    def exposed_uri(self, uri: str, server: str, origin: str | None = None) -> str:
        """Return the exposed URI for a server's own.

        It is qualified if another server has it, too: in a list, or else in a result, where
        `origin` was the first server that named it.
        """
        if not is_qualifiable(uri):
            return uri
        owners = self.owners(uri) or ({origin} if origin else set())
        return qualified_uri(uri, server) if owners - {server} else uri

    def own_uri(self, uri: str, origin: Callable[[str], str | None]) -> tuple[str, str] | None:
        """Return the server of a qualified URI and its own URI; None if the URI is not qualified.

        `origin` returns the first server that named a URI in a result.
        """
        found = self._unqualified(uri, origin)
        if found is None or not self._has_one_owner(uri):
            return found
        server, own = found
        # A skill of one server may lie in the folder of another server's skill.
        moved = qualified_uri(self._place(own), server)
        is_qualified = server in self.owners(own) and len(moved) > len(self._place(uri))
        return found if is_qualified else None

    def _unqualified(
        self, uri: str, origin: Callable[[str], str | None] = lambda uri: None
    ) -> tuple[str, str] | None:
        """Return the server, and its own URI, that would be exposed as this one."""
        scheme, _, path = uri.partition("://")
        first, mark, rest = path.partition("/")
        server, own = self._servers.get(first), f"{scheme}://{rest}"
        if server is None or not mark or self.exposed_uri(own, server, origin(own)) == own:
            return None
        return server, own


def qualified_uri(uri: str, server: str) -> str:
    """Return a URI with the name of a server as its first segment."""
    scheme, _, path = uri.partition("://")
    return f"{scheme}://{percent_encoded(server)}/{path}"


# The URIs in values


def uris_of(kind: str, item: Mapping[str, Any]) -> list[str]:
    """Return the URIs that an item of a list names; of a skill, also those of its files."""
    if kind in ("tools", "prompts"):
        return pages_of(item)
    files = item.get("resources")
    named = [item, *(files if type(files) is list else ())]
    key = "uriTemplate" if kind == "templates" else "uri"
    uris = [entry.get(key) for entry in named if type(entry) is dict]
    return [uri for uri in uris if type(uri) is str]


def pages_of(value: Mapping[str, Any]) -> list[str]:
    """Return the pages that the `_meta` of a tool, or of its result, names."""
    meta = value.get("_meta")
    if type(meta) is not dict:
        return []
    ui = meta.get("ui")
    named = [ui.get("resourceUri") if type(ui) is dict else None, meta.get(_OLD_PAGE)]
    return [uri for uri in named if type(uri) is str]


# The URIs in JSON texts


def rewritten_item(kind: str, text: str, rewrite: Rewrite) -> str:
    """Return an item of a list with its URIs as they are exposed."""
    if kind == "tools":
        return _with_pages(text, rewrite)
    text = _with_uri(text, rewrite, "uriTemplate" if kind == "templates" else "uri")
    return _with_each(text, "resources", lambda part: _with_uri(part, rewrite))


def rewritten_result(text: str, rewrite: Rewrite) -> str:
    """Return a result with its URIs as they are exposed.

    They stand in links, in resources that are embedded or read, in the entries of skills and
    folders, and where a tool names its page.
    """

    def block(part: str) -> str:
        return _with_inner(
            _with_uri(part, rewrite), "resource", lambda inner: _with_uri(inner, rewrite)
        )

    text = _with_pages(text, rewrite)
    text = _with_inner(text, "skill", lambda skill: rewritten_item("skills", skill, rewrite))
    text = _with_each(text, "messages", lambda part: _with_inner(part, "content", block))
    text = _with_each(text, "content", block)
    for member in ("contents", "resources"):
        text = _with_each(text, member, lambda part: _with_uri(part, rewrite))
    return text


def _with_pages(text: str, rewrite: Rewrite) -> str:
    """Change the pages that `_meta` names."""

    def change(meta: str) -> str:
        return _with_inner(_with_uri(meta, rewrite, _OLD_PAGE), "ui", page)

    def page(ui: str) -> str:
        return _with_uri(ui, rewrite, "resourceUri")

    return _with_inner(text, "_meta", change)


def _with_uri(text: str, rewrite: Rewrite, member: str = "uri") -> str:
    """Change a URI that is a member of an object."""
    uri: Any = members(text)[0].get(member, (None,))[0]
    new = rewrite(uri) if type(uri) is str else uri
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
