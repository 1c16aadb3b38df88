"""Skills of several servers in one list: their URIs are kept apart by a first segment.

`skill://refunds/SKILL.md` of the server `shop` is listed as `skill://shop/refunds/SKILL.md`: the
extension lets a path have such a prefix, relative references stay true, and nobody takes the one
skill for the other. https://github.com/modelcontextprotocol/ext-skills
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import edited, elements, members
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from typing import Any


_SEGMENT = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def server_address(uri: str, server: str) -> str:
    """Return the URI of a server's skill, or of a file in it, with the server as first segment.

    A URI without an authority stays as it is.
    """
    scheme, mark, path = uri.partition("://")
    return f"{scheme}://{_encoded(server)}/{path}" if mark else uri


def own_address(uri: str, server: str) -> str | None:
    """Return what `server_address` made this URI of, None if it is not of this server."""
    scheme, _, path = uri.partition("://")
    first, mark, rest = path.partition("/")
    return f"{scheme}://{rest}" if mark and first == _encoded(server) else None


def moved_entry(text: str, server: str) -> str:
    """Return the JSON text of a skill's entry with all its URIs as they are listed."""
    return _moved_list(_moved_uri(text, server), "resources", server)


def moved_result(text: str, server: str) -> str:
    """Return the result of a request about skills with its URIs as they are listed.

    That is a skill's entry, the entries of a folder, or the contents of a file.
    """
    found, _ = members(text)
    value, start, end = found.get("skill", (None, 0, 0))
    if type(value) is dict:
        text = edited(text, add={"skill": moved_entry(text[start:end], server)})
    return _moved_list(_moved_list(text, "resources", server), "contents", server)


def _moved_list(text: str, member: str, server: str) -> str:
    found, _ = members(text)
    value, start, _ = found.get(member, (None, 0, 0))
    if type(value) is not list:
        return text
    parts = [
        _moved_uri(text[begin:end], server) if type(item) is dict else text[begin:end]
        for item, begin, end in elements(text, start)
    ]
    return edited(text, add={member: f"[{','.join(parts)}]"})


def _moved_uri(text: str, server: str) -> str:
    uri: Any = members(text)[0].get("uri", (None,))[0]
    return (
        edited(text, add={"uri": quote(server_address(uri, server))}) if type(uri) is str else text
    )


def _encoded(server: str) -> str:
    """Return the name of a server as one segment of a URI (RFC 3986)."""
    return "".join(
        [chr(byte) if byte in _SEGMENT else f"%{byte:02X}" for byte in server.encode("utf-8")]
    )
