"""A profile: the proxy as if what is not in it did not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.messages.jsontext import Malformed, decode, members, parse
from mcpagg_runtime.messages.message import read_message
from mcpagg_runtime.messages.protocol import INFO_KEY
from mcpagg_runtime.plan.face import of_servers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan

# What is served where no other is chosen.
DEFAULT_PROFILE = "default"


def profile_names(plan: Plan) -> list[str]:
    """Return the profiles that there are to choose from."""
    return list(parse(plan.profiles)) if plan.profiles else []


def narrowed(plan: Plan, profile: str | None) -> Plan:
    """Return the plan of a profile; for None that of `default`, or all where there is none.

    It has no profiles any more, and is still a part of the whole. Of its servers, it has those that
    are asked for.
    """
    if not plan.profiles:
        return of_servers(plan)
    parts, _ = members(plan.profiles)
    wanted = DEFAULT_PROFILE if profile is None else profile
    if wanted not in parts:
        return of_servers(plan.narrowed(profiles=""))
    part, start, _ = parts[wanted]
    texts, _ = members(plan.profiles, start)

    def declared(member: str) -> str:
        _, begin, end = texts[member]
        return "".join([line.lstrip(" ") for line in plan.profiles[begin:end].split("\n")])

    modern = "modern_capabilities" if "modern_capabilities" in texts else "capabilities"
    tools: Mapping[str, list[str]] = part["tools"]
    narrowed_plan = plan.narrowed(
        profiles="",
        capabilities=declared("capabilities"),
        modern_capabilities=declared(modern),
        instructions="\n\n".join(part["instructions"]),
        servers={
            server: {**row, "expose": [_literally(name) for name in tools[server]]}
            for server, row in plan.servers.items()
            if server in tools
        },
        children={name: facts for name, facts in plan.children.items() if name in tools},
        subtools={
            name: called for name, called in plan.subtools.items() if name in tools.get("", ())
        },
        routes={
            kind: {
                exposed: route
                for exposed, route in routes.items()
                if route[0] in tools and (kind != "tools" or route[1] in tools[route[0]])
            }
            for kind, routes in plan.routes.items()
        },
    )
    return of_servers(narrowed_plan)


def choose(plan: Plan, answers: Answers, line: bytes) -> tuple[Answers, bool]:
    """Return what answers a client that sent this line, and whether another line may change that.

    `answers` is what has answered so far.
    """
    try:
        name = client_name(read_message(decode(line)))
    except Malformed:
        name = None
    chosen = Answers(narrowed(plan, profile_for(plan, name)))
    chosen.outages |= answers.outages
    return chosen, name is None


def profile_for(plan: Plan, name: str | None) -> str | None:
    """Return the first profile that is for clients of a name, None if there is none."""
    fits = [
        profile
        for profile, part in parse(plan.profiles).items()
        if name is not None and name.lower().startswith(tuple(map(str.lower, part["clients"])))
    ]
    return fits[0] if fits else None


def client_name(message: Message) -> str | None:
    """Return the name that the client gives itself in a message, None if it gives none."""
    meta = message.params.get("_meta")
    about: Any = meta.get(INFO_KEY) if type(meta) is dict else None
    about = about or message.params.get("clientInfo")
    name = about.get("name") if type(about) is dict else None
    return name if type(name) is str else None


def _literally(name: str) -> str:
    """Return the glob that fits this name alone."""
    return "".join([f"[{char}]" if char in "*?[" else char for char in name])
