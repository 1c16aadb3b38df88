"""Answers that can be fetched again, answers that nobody waits for, and what is kept of them."""

from __future__ import annotations

from typing import Any

import pytest
from asgi import Answer, Site, run
from core import TOOLS_CHANGED, call, notification, request, result

SERVERS = {"db": ["query"]}


def told(token: int, progress: int) -> dict[str, Any]:
    """Return a notification of progress."""
    return notification("notifications/progress", {"progressToken": token, "progress": progress})


async def begun(site: Site, session: str, number: int = 1) -> tuple[Answer, Any, Any]:
    """Make a call that is answered by a stream; return the answer, its server and what it got."""
    answer = site.post(call(number, "db:query", token=7), session)
    await answer.status()
    db = site.peers["db"] if site.peers.get("db") else site.up("db")
    [asked] = site.received(db)
    return answer, db, asked


def attended(site: Site) -> list[bool]:
    """Return of each call under way whether somebody reads its answer."""
    return [one.attended for child in site.core.children.values() for one in child.calls.all()]


async def cancel(site: Site, session: str, number: int, path: str = "/mcp") -> None:
    """Cancel a call."""
    cancelled = notification("notifications/cancelled", {"requestId": number})
    assert await site.post(cancelled, session, path).status() == 202
