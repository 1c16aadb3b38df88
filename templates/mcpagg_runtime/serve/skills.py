"""Skills of several servers in one list: their URIs are kept apart by a first segment.

`skill://refunds/SKILL.md` of the server `shop` is listed as `skill://shop/refunds/SKILL.md`: the
extension lets a path have such a prefix, relative references stay true, and nobody takes the one
skill for the other. https://github.com/modelcontextprotocol/ext-skills
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import edited, members
from mcpagg_runtime.serve.editing import elements
from mcpagg_runtime.serve.names import server_address
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from typing import Any


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
