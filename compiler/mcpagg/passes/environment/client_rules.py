"""Rules of Claude Code that withhold tools by names which they do not have behind a proxy.

Claude Code calls a tool `mcp__ENTRY__TOOL`, by the entry of its server. An entry that is a face
keeps that name; behind a proxy that serves all, a rule for it fits nothing any more.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcpagg.jsontext import loads, members_of
from mcpagg.problems import Problem

_RESTRICTING = ("deny", "ask")
_REMEDY = "they go on to fit the entries that --install writes, or that start it with --as NAME"


def lost_rules(project: Path, home: Path, names: Collection[str]) -> list[Problem]:
    """Return a warning for each list of rules that restrict tools of the servers `names`.

    They are looked up in the settings of a project (shared and local) and of the user.
    """
    places = [project / ".claude" / name for name in ("settings.json", "settings.local.json")]
    files = dict.fromkeys([*places, home / ".claude" / "settings.json"])
    return [*_found([*files], names)]


def _found(files: list[Path], names: Collection[str]) -> Iterator[Problem]:
    beginnings = {f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', name)}" for name in names}
    for file in files:
        permissions = members_of(members_of(_read(file)).get("permissions"))
        for kind in _RESTRICTING:
            rules = permissions.get(kind)
            lost = [
                rule
                for rule in (rules if isinstance(rules, list) else [])
                if isinstance(rule, str)
                and any(rule == one or rule.startswith(f"{one}__") for one in beginnings)
            ]
            if lost:
                what = f"{file}: permissions.{kind} fits nothing of this proxy: {', '.join(lost)}"
                yield Problem("", what, _REMEDY)


def _read(file: Path) -> Any:
    with suppress(OSError, ValueError):
        return loads(file.read_text("utf-8-sig"))
    return None
