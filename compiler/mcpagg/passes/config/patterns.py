"""Switches that a client keeps beside the servers, for the tools of all of them.

They are globs over the client's own names of the tools, `SERVER_TOOL` say, in which most clients
write `_` for every character that is no letter, digit, `_` or `-`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import escape
from typing import Any, Literal, NamedTuple

from mcpagg import spec
from mcpagg.jsontext import members_of
from mcpagg.passes.config.places import Place, kind
from mcpagg.passes.config.readers import switch
from mcpagg.spec import ServerSpec


class Naming(NamedTuple):
    """How a client names the tools of a server `{}`: the prefix of each, and a name for all."""

    prefix: str
    server: str = ""
    exact: bool = False
    """Whether it writes names as they are."""

    def spelled(self, server: str) -> str:
        """Return the name of a server as the client spells it in the name of a tool."""
        return server if self.exact else re.sub(r"[^A-Za-z0-9_-]", "_", server)


_ANY_SIGN = "[!A-Za-z0-9-]"
"""What clients write `_` for in their names of tools, or `_` itself."""

SINGLE, DOUBLE = Naming("{}_"), Naming("mcp__{}__", "mcp__{}")


Outcome = Literal["withheld", "kept", "asked", "only", "some calls"]


class ToolPattern(NamedTuple):
    """A glob over the names of tools, what it does to them, and where it stands.

    "withheld" and "kept" ones apply in their order, the last that fits a tool counts; where there
    are "only" ones, no other tool is offered. "asked" ones are kept: to ask is the client's part.
    Of "some calls" ones we cannot tell which.
    """

    glob: str
    tools: Outcome
    at: Place


PatternReader = Callable[[Any, Place], list[ToolPattern]]

_OWN_TOOLS = frozenset(
    "apply_patch bash edit edit_file execute_bash execute_command find_path fs_read fs_write"  # noqa: SIM905 - a word a line
    " glob google_web_search grep grep_search list_directory ls mermaid multi_edit notebook_edit"
    " now oracle patch read read_file read_many_files replace run_command run_in_terminal"
    " run_shell_command save_memory search_file_content search_replace shell terminal"
    " think todo todo_read todo_write undo_edit update_plan use_aws view web_fetch web_search"
    " webfetch websearch write write_file write_todos".split()
)
"""What clients call tools of their own."""


def is_clients_own(name: str) -> bool:
    """Whether a name, perhaps with a rule in parentheses, is that of a client's own tool."""
    name = name.partition("(")[0]
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().removesuffix("_tool")
    return name.startswith(("builtin:", "@builtin")) or snake in _OWN_TOOLS


def switches(value: Any, at: Place) -> list[ToolPattern]:
    """Read `{GLOB: true or false}`."""
    chosen = [(glob, switch(on, at.at(glob))) for glob, on in _object(value, at)]
    return [ToolPattern(glob, "kept" if on else "withheld", at.at(glob)) for glob, on in chosen]


def permissions(value: Any, at: Place) -> list[ToolPattern]:
    """Read `{GLOB: "allow", "ask" or "deny"}`, or one of these words for all tools."""
    chosen = [("*", value, at)]
    if not isinstance(value, str):
        chosen = [(glob, answer, at.at(glob)) for glob, answer in _object(value, at)]
    patterns: list[ToolPattern] = []
    for glob, answer, place in chosen:
        if answer == "deny":
            patterns.append(ToolPattern(glob, "withheld", place))
        else:
            patterns.append(ToolPattern(glob, "asked" if answer == "ask" else "kept", place))
    return patterns


_ACTIONS: dict[object, Outcome] = {
    "allow": "kept",
    "ask": "asked",
    "delegate": "asked",
    "deny": "withheld",
    "reject": "withheld",
}
_DESCRIBING = ("reason", "message")


def rules(tool: str, action: str, *, first: bool) -> PatternReader:
    """Return a reader of a list of rules, of which the first that fits a tool counts, or the last.

    They are objects: the member `tool` holds a glob, `action` says what becomes of the tools. One
    with further members that are not `*` is for some calls of them alone.
    """

    def read(value: Any, at: Place) -> list[ToolPattern]:
        patterns: list[ToolPattern] = []
        for index, rule in enumerate(value if isinstance(value, list) else [value]):
            place = at.at(index) if isinstance(value, list) else at
            glob, does = members_of(rule).get(tool), members_of(rule).get(action)
            if not isinstance(glob, str) or not isinstance(does, str) or does not in _ACTIONS:
                place.error(f'expected {{"{tool}": GLOB, "{action}": "allow", "ask" or "deny"}}')
                continue
            outcome, understood = _ACTIONS[does], (tool, action, *_DESCRIBING)
            if any(member != "*" for key, member in rule.items() if key not in understood):
                outcome = "some calls" if outcome == "withheld" else "asked"
            patterns.append(ToolPattern(glob, outcome, place))
        return patterns[::-1] if first else patterns

    return read


def zed(value: Any, at: Place) -> list[ToolPattern]:
    """Read `agent`: the profile that it begins with, and the tools that it denies."""
    agent = members_of(value)
    profiles, name = members_of(agent.get("profiles")), str(agent.get("default_profile", "write"))
    if profiles.keys() - {name}:
        at.at("profiles").warn("only the profile that Zed begins with is honoured", "see `mcpagg`")
    patterns = []
    if name in profiles:
        profile, place = members_of(profiles[name]), at.at("profiles").at(name)
        patterns = _zed_profile(profile, name == "write", place)
    place = at.at("tool_permissions")
    permissions = members_of(agent.get("tool_permissions"))
    if permissions.get("default") == "deny":
        patterns.append(ToolPattern("*", "withheld", place))
    for tool, rules in members_of(permissions.get("tools")).items():
        there = place.at("tools").at(tool)
        default = members_of(rules).get("default")
        if default is not None:
            patterns.append(ToolPattern(tool, "withheld" if default == "deny" else "kept", there))
        if members_of(rules).get("always_deny"):
            patterns.append(ToolPattern(tool, "some calls", there))
    return patterns


def _zed_profile(profile: dict[str, Any], all_by_default: bool, at: Place) -> list[ToolPattern]:
    everything = profile.get("enable_all_context_servers", all_by_default)
    patterns = [] if everything else [ToolPattern("", "only", at)]
    for server, preset in members_of(profile.get("context_servers")).items():
        tools = members_of(members_of(preset).get("tools"))
        chosen = {escape(tool): on for tool, on in tools.items()}
        if isinstance(members_of(preset).get("enabled"), bool):
            chosen = {"*": preset["enabled"]}
        for tool, on in chosen.items():
            if on is not everything:
                glob = f"mcp:{escape(server)}:{tool}"
                patterns.append(ToolPattern(glob, "only" if on else "withheld", at))
    return patterns


def withheld(value: Any, at: Place) -> list[ToolPattern]:
    """Read a list of globs of tools to withhold."""
    return [ToolPattern(glob, "withheld", place) for glob, place in _globs(value, at)]


def asked(value: Any, at: Place) -> list[ToolPattern]:
    globs = _globs(value, at) if isinstance(value, list) else ()
    return [ToolPattern(glob, "asked", place) for glob, place in globs]


def offered(value: Any, at: Place) -> list[ToolPattern]:
    """Read a list of globs of the only tools to offer."""
    return [ToolPattern(glob, "only", place) for glob, place in _globs(value, at)]


def apply(
    patterns: list[ToolPattern], server: ServerSpec, naming: Collection[Naming]
) -> ServerSpec:
    """Return the server with the filters that the patterns mean for its own names of its tools."""
    hide: list[str] = []
    expose: list[str] | None = None
    origins: dict[str, spec.Pattern] = {}
    for pattern in patterns:
        globs = own_globs(pattern.glob, server.name, naming)
        if pattern.tools == "asked" and globs:
            pattern.at.warn("is not kept", "have the client ask before it calls the proxy's tools")
        if pattern.tools == "some calls" and globs:
            pattern.at.error("withholds some calls of a tool, which is not honoured", "--skip it")
        elif pattern.tools == "withheld":
            hide += globs
            prefix = _prefix(pattern.glob, server.name, naming)
            origin = spec.Pattern(pattern.glob, pattern.at.path, prefix)
            origins |= dict.fromkeys(globs, origin)
        elif pattern.tools == "only":
            expose = [*(expose or ()), *globs]
        elif "*" in globs:
            hide, expose = [], None
        elif "*" in hide and globs:
            hide, expose = [], globs
        elif any(_overlap(glob, hidden) for glob in globs for hidden in hide):
            pattern.at.warn("is not honoured: what a pattern before it withholds stays withheld")
    if expose is not None and server.expose is not None:
        what = f"{server.path} has a list of its own of the tools to offer"
        patterns[0].at.error(what, "keep one of them, or --skip the server")
    return replace(
        server,
        hide=(*server.hide, *dict.fromkeys(hide)),
        patterns=server.patterns | origins,
        expose=server.expose if expose is None else tuple(dict.fromkeys(expose)),
    )


def refuse_unplaced(
    patterns: list[ToolPattern], servers: Collection[str], naming: Sequence[Naming], bare: bool
) -> None:
    """Refuse what names a server's tool as its client does not, or may do so where it is `bare`."""
    for glob, tools, at in patterns:
        another = any(glob.startswith(form.prefix.partition("{")[0] or "\0") for form in naming)
        if (
            tools in ("withheld", "some calls")
            and not any(own_globs(glob, server, naming) for server in servers)
            and not is_clients_own(glob)
            and (names_one(glob, servers) or (bare and not another))
        ):
            remedy = f"write {naming[0].prefix.replace('{}', 'SERVER')}TOOL"
            at.error("does not say whose tool it is, and is not honoured", remedy)


def names_one(name: str, servers: Collection[str], naming: Collection[Naming] = ()) -> bool:
    """Whether a name is that of one of the servers, or of a tool of one for some client."""
    if name in servers:
        return True
    if is_clients_own(name):
        return False
    inner = re.sub(r"^\w+\((.*)\)$", r"\1", name)
    if servers and re.match(r"mcp_{0,2}[*?\[]", inner):
        return True
    for server in servers:
        for own in {server, SINGLE.spelled(server)}:
            form = re.escape(own)
            if re.match(rf"@{form}(?:/|$)|mcp(?:__?|:){form}(?:[_:]|$)|{form}:", inner):
                return True
            if name.startswith(f"{own}("):
                return True
            if any(inner.startswith(other.prefix.replace("{}", own)) for other in naming):
                return True
    return False


def own_globs(glob: str, server: str, naming: Collection[Naming]) -> list[str]:
    """Return the globs over a server's own names that a glob over the client's names means."""
    globs: list[str] = []
    for form in naming:
        name = form.spelled(server)
        prefix = form.prefix.replace("{}", name)
        if form.server and fnmatchcase(form.server.replace("{}", name), glob):
            globs.append("*")
        for index in range(len(glob) + 1):
            if fnmatchcase(prefix, glob[:index]):
                # A star that reached beyond the prefix goes on.
                rest = "*" * glob[:index].endswith("*") + glob[index:]
                globs.append(rest if form.exact else rest.replace("_", _ANY_SIGN))
    return [own for own in dict.fromkeys(globs) if own]


def _overlap(glob: str, other: str) -> bool:
    """Whether two globs may fit one tool: one of them fits the other."""
    first, second = (pattern.replace(_ANY_SIGN, "_") for pattern in (glob, other))
    return fnmatchcase(first, other) or fnmatchcase(second, glob)


def _prefix(glob: str, server: str, naming: Collection[Naming]) -> str:
    """Return what a server's tools begin with in the naming that a glob is written in."""
    prefixes = [form.prefix.replace("{}", form.spelled(server)) for form in naming]
    fitting = (prefix for prefix in prefixes if glob.startswith((prefix, escape(prefix))))
    return next(fitting, prefixes[0])


def _object(value: Any, at: Place) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    at.error(f"expected an object by tool, found {kind(value)}")
    return []


def _globs(value: Any, at: Place) -> Iterator[tuple[str, Place]]:
    if not isinstance(value, list):
        at.error(f"expected a list of tool names, found {kind(value)}", 'write ["TOOL"]')
        return
    for index, glob in enumerate(value):
        place = at.at(index)
        if not isinstance(glob, str):
            place.error(f"expected a string, found {kind(glob)}")
        elif glob.startswith("re:"):
            place.error("is a regular expression, which is not honoured", "write a glob")
        else:
            yield glob, place
