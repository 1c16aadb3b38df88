"""Which extensions the proxy declares: those whose methods it can route, and those without any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpagg.jsontext import members_of
from mcpagg.problems import Problem
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.lists.catalogue import SKILLS
from mcpagg_runtime.messages.protocol import PAGES
from mcpagg_runtime.start.greeting import TASKS

# Extensions that clients need no methods of, so that several servers may have them: those of
# https://modelcontextprotocol.io/extensions for pages of tools and for authorization.
WITHOUT_METHODS = frozenset(
    {
        PAGES,
        "io.modelcontextprotocol/oauth-client-credentials",
        "io.modelcontextprotocol/enterprise-managed-authorization",
    }
)


def declared_extensions(snapshot: Snapshot) -> dict[str, Any]:
    """Return {extension: settings} for what the proxy declares.

    Of settings that several servers have, the first ones count; folders of skills can be read if
    any server says so.
    """
    extensions: dict[str, Any] = {}
    answered = answered_by(snapshot)
    for child in snapshot.children:
        for name, settings in extensions_of(child).items():
            if name in WITHOUT_METHODS or name in answered.get(child.name, ()):
                extensions.setdefault(name, settings)
    skills = [extensions_of(child).get(SKILLS.capability, {}) for child in snapshot.children]
    if any(settings.get("directoryRead") is True for settings in skills):
        extensions[SKILLS.capability] = {"directoryRead": True}
    return extensions


def answered_by(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return {server: extensions whose requests go to it}.

    A request names no server, so it must be the only one with the extension; skills are qualified
    by their URIs.
    """
    owners = _owners(snapshot)
    answered: dict[str, list[str]] = {}
    for name, servers in owners.items():
        if name == SKILLS.capability or (
            len(servers) == 1 and name not in (TASKS, *WITHOUT_METHODS)
        ):
            for server in servers:
                answered.setdefault(server, []).append(name)
    return answered


def extension_warnings(snapshot: Snapshot, paths: Mapping[str, str]) -> list[Problem]:
    """Warn of extensions that are not declared to clients."""
    warnings = []
    for name, servers in _owners(snapshot).items():
        if name == TASKS:
            what, remedy = "tasks are not relayed", "a tool that demands it fails"
        elif len(servers) > 1 and name not in (SKILLS.capability, *WITHOUT_METHODS):
            others = " and ".join(f"'{server}'" for server in servers)
            what = f"so have others ({others}), and a request of it names no server"
            remedy = "--skip all of them but one"
        else:
            continue
        warnings += [
            Problem(
                paths[server],
                f"server '{server}' has the extension {name}, and {what}",
                f"clients cannot use it; {remedy}",
            )
            for server in servers
        ]
    return warnings


def extensions_of(child: ChildSnapshot) -> dict[str, Any]:
    """Return the extensions that a server declares, with their settings.

    What is no object says nothing as settings, and strict clients refuse a handshake that has it.
    """
    declared = members_of(child.capabilities.get("extensions"))
    return {name: members_of(settings) for name, settings in declared.items()}


def _owners(snapshot: Snapshot) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for child in snapshot.children:
        for name in extensions_of(child):
            owners.setdefault(name, []).append(child.name)
    return owners
