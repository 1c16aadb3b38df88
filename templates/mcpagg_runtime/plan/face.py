"""Servers of the file without the others: one as itself, or several as a proxy of their own.

A server as itself, its *face*, has its own names, identity, capabilities and instructions, so that
a client cannot tell it from the server without the proxy. A profile is applied before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import parse
from mcpagg_runtime.plan.names import own_portable_names
from mcpagg_runtime.start.own import OwnWords, newest_version, own_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mcpagg_runtime.plan.plan import Plan


# Clients cut a server's instructions, silently: Claude Code at 2,048 characters.
INSTRUCTIONS_LIMIT = 2000


class UnknownServer(Exception):
    """Raised for a name that is not that of a server; the text says so, and which there are."""


def served(plan: Plan, names: Sequence[str]) -> Plan:
    """Return the plan of the servers of these names alone, of all for none.

    If it has profiles, that of one of them is that of these servers, too.

    Raises:
        UnknownServer: there is no such server.
    """
    for name in names:
        if name not in plan.servers:
            raise UnknownServer(f"--as: {_unknown(plan, name)}")
    return of_servers(plan.narrowed(asked=tuple(dict.fromkeys(names)))) if names else plan


def _unknown(plan: Plan, name: str) -> str:
    if name in plan.failed:
        return f"server '{name}' was left out when this was compiled, because it failed"
    from difflib import get_close_matches  # only for this error

    near = get_close_matches(name, [*plan.servers], 1)
    has = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(plan.servers)}"
    return f"there is no server '{name}'; {has}"


def of_servers(plan: Plan) -> Plan:
    """Return the plan of the servers that are asked for: a face, or a proxy for these alone.

    Those that a profile lacks are not there: nothing is offered of them.
    """
    names = plan.asked
    if not names:
        return plan
    known = [name for name in plan.servers if name in names]
    part = plan.narrowed(
        servers={name: plan.servers[name] for name in known},
        children={name: plan.children[name] for name in known},
        subtools={},
        routes={
            kind: {exposed: route for exposed, route in routes.items() if route[0] in known}
            for kind, routes in plan.routes.items()
        },
    )
    if len(names) == 1:
        return _as_itself(part, names[0])
    own = {name: _own_words(plan, name) for name in known}
    return part.narrowed(
        capabilities=_shared(plan.capabilities, [parse(one.capabilities) for one in own.values()]),
        modern_capabilities=_shared(
            plan.modern_capabilities, [parse(one.modern_capabilities) for one in own.values()]
        ),
        instructions=merged_instructions({name: one.instructions for name, one in own.items()}),
    )


def _as_itself(part: Plan, name: str) -> Plan:
    """Return the plan of a server as itself; `part` is that of it alone."""
    if name not in part.servers:
        return part.narrowed(
            name=name, capabilities="{}", modern_capabilities="{}", instructions=""
        )
    own = _own_words(part, name)
    return part.narrowed(
        name=name,
        face=name,
        newest=newest_version(part.children[name]),
        identity=own.info,
        capabilities=own.capabilities,
        modern_capabilities=own.modern_capabilities,
        instructions=own.instructions,
        routes={kind: _own_routes(part, name, kind) for kind in part.routes},
    )


def _own_words(plan: Plan, name: str) -> OwnWords:
    return OwnWords(plan.snapshot[name]["server"])


def _own_routes(part: Plan, name: str, kind: str) -> dict[str, tuple[str, ...]]:
    """Return the routing table of one kind of list, for a server as itself."""
    listed = {exposed: row for exposed, (_, *row) in part.routes[kind].items()}
    uris = part.own_uris.get(name, {}).get(kind)
    rows = own_rows(name, part.options.separator, listed, uris)
    portable = own_portable_names([exposed for exposed, row in rows.items() if len(row) > 1])
    return {
        exposed: (name, row[0], portable[exposed]) if len(row) > 1 else (name, *row)
        for exposed, row in rows.items()
    }


def _shared(whole: str, declared: Sequence[dict[str, Any]]) -> str:
    """Return those of the proxy's capabilities that one of some servers declares, as JSON text."""
    kept = {
        name: value
        for name, value in parse(whole).items()
        if name == "tools" or any(name in own for own in declared)
    }
    if "extensions" in kept:
        of_any = {name for own in declared for name in own.get("extensions", ())}
        kept["extensions"] = {n: v for n, v in kept["extensions"].items() if n in of_any}
    resources = [own.get("resources") for own in declared]
    if not any(type(one) is dict and one.get("subscribe") is True for one in resources):
        kept.get("resources", {}).pop("subscribe", None)
    return json.dumps(kept, separators=(",", ":"))


def merged_instructions(said: Mapping[str, str]) -> str:
    """Merge the instructions of servers, each under its name, within what clients keep."""
    words = {server: text.strip() for server, text in said.items() if text.strip()}
    if not words:
        return ""
    head = "What each server behind this proxy says, by its own names for its tools:"
    share = (INSTRUCTIONS_LIMIT - len(head)) // len(words)
    return "\n\n".join([head, *(_section(*pair, share) for pair in words.items())])


def _section(server: str, words: str, share: int) -> str:
    text = f"# {server}\n{words}"
    return text if len(text) <= share - 2 else text[: share - 3].rstrip() + "…"
