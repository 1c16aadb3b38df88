"""Overlays: what is listed of a tool in place of what its server says.

The snapshot, and what is compared with it, keep the server's own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import edited, members

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpagg_runtime.base.catalogue import Item


def with_overlays(items: Iterable[Item], spelling: str, table: str) -> list[tuple[Item, str]]:
    """Return items with their JSON texts as they are listed.

    `spelling` is an attribute of Item; `table` {server: {own name of a tool: patch}} is JSON text
    in which a patch has no line end.
    """
    patches = patches_of(table)
    listed = []
    for item in items:
        text = item.listed(getattr(item, spelling))
        patch = patches.get((item.server, item.original))
        listed.append((item, text if patch is None else overlaid(text, patch)))
    return listed


def patches_of(table: str) -> dict[tuple[str, str], str]:
    """Return {(server, tool): patch} of a table as `with_overlays` takes it."""
    found = {}
    for server, (_, start, _) in members(table)[0].items():
        for tool, (_, begin, end) in members(table, start)[0].items():
            found[server, tool] = table[begin:end]
    return found


def overlaid(text: str, patch: str) -> str:
    """Apply a JSON Merge Patch (RFC 7396) to an object; both are JSON texts.

    What the patch does not name stays as it was written.
    """
    found, _ = members(text)
    changes, _ = members(patch)
    changed = {}
    for name, (value, start, end) in changes.items():
        if type(value) is dict:
            known, begin, behind = found.get(name, (None, 0, 0))
            old = text[begin:behind] if type(known) is dict else "{}"
            changed[name] = overlaid(old, patch[start:end])
        elif value is not None:
            changed[name] = patch[start:end]
    return edited(text, drop=changes, add=changed)
