"""Overlays: what is listed of a tool in place of what its server says.

The snapshot, and what is compared with it, keep the server's own words.
"""

from __future__ import annotations

from mcpagg_runtime.base.jsontext import edited, members


def patches_of(table: str) -> dict[tuple[str, str], str]:
    """Return {(server, tool): patch} of a table.

    `table` {server: {own name of a tool: patch}} is JSON text in which a patch has no line end.
    """
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
