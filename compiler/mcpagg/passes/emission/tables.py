"""The tables of the emitted file, each declared once: what it is called, how it is laid out.

The template writes them in this order, then PLAN, in which the runtime finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mcpagg.literal import ONE_LINE, json_line, json_text, lines_text, table_text


def _line_a_key(table: Any) -> str:
    return table_text(table, ONE_LINE)


class Table(NamedTuple):
    """A table of the emitted file, which is JSON text in a string there.

    `planned` is its name in PLAN, "" if the runtime does not need it; `about` the comment above it,
    `layout` what makes JSON text of its value. What is `recorded` is read from the file of an
    earlier compilation.
    """

    name: str
    planned: str
    about: str = ""
    layout: Callable[[Any], str] = json_text
    recorded: bool = False


ROUTES = {
    "tools": "ROUTES",
    "prompts": "PROMPT_ROUTES",
    "resources": "RESOURCE_ROUTES",
    "templates": "TEMPLATE_ROUTES",
    "skills": "SKILL_ROUTES",
}
"""The routing tables, by kind of list."""
ABOUT_ROUTES = """\
The names that clients see, by server: [the server's own name, the portable name]. Resources and
templates keep their URIs: []. Skills of several servers have their server's name in front."""

SNAPSHOT = Table(
    "SNAPSHOT",
    "snapshot",
    "What each server said about itself, in its own words; " '"" has the composite tools, if any.',
    recorded=True,
)
"""{server: {kind: JSON text}}, the one that is no JSON text as a whole."""

TABLES = (
    Table(
        "SERVERS",
        "servers",
        """\
JSON texts, because a start reads them quicker than Python. How each server is started: references
stand as in the config and are resolved at every start.""",
        table_text,
        recorded=True,
    ),
    Table(
        "FROZEN",
        "frozen",
        """\
What is started in the place of their commands, down to the last package: a head, then a line a
package with its version and what its bytes hash to. Nothing else is installed, or started.""",
        lines_text,
        recorded=True,
    ),
    Table(
        "FAILED",
        "failed",
        "Left out, because they failed when this was compiled with --allow-failed.",
        recorded=True,
    ),
    Table(
        "KEPT",
        "",
        """\
Not as they are now: they failed when this was compiled with --allow-failed, so what is said of
them here is what an earlier compilation was told.""",
        recorded=True,
    ),
    *(
        Table(name, kind, "" if kind != "tools" else ABOUT_ROUTES, _line_a_key)
        for kind, name in ROUTES.items()
    ),
    Table(
        "OWN_URIS",
        "own_uris",
        "The URIs of a server as itself (--as), where another one is asked for some of them.",
        table_text,
    ),
    Table(
        "SUBTOOLS",
        "subtools",
        "What each composite tool may call: {server: the server's own names}. "
        'Its own server is "".',
    ),
    Table(
        "CHILDREN",
        "children",
        """\
What else was learnt of each server: the protocol version that it speaks (up to 2025-11-25 by a
handshake, since 2026-07-28 without), the one with a handshake that it speaks as well, the tools
that it offers only to a client with capabilities (sampling, elicitation, roots), how long, and by
whom, it lets its lists be kept, the variables that it needs, and a digest of all that it said.""",
        table_text,
        recorded=True,
    ),
    Table(
        "CAPABILITIES",
        "capabilities",
        "What the proxy declares to clients: what at least one server has and the proxy passes on.",
        json_line,  # it stands in an answer as it is
    ),
    Table(
        "MODERN_CAPABILITIES",
        "modern_capabilities",
        "The same to clients without a handshake, to which a server may declare something else.",
        json_line,
    ),
    Table("OPTIONS", "options"),
    Table("INSTRUCTIONS", "instructions", "The paragraphs of its instructions."),
    Table(
        "LISTS",
        "lists",
        """\
The lists that are the same for every client with a handshake, by method: [kind, and the members
that hold the items, what an item is asked for by, and what is shown of it].""",
    ),
    Table(
        "PROFILES",
        "profiles",
        """\
The subsets that it can be asked for with --profile, or by a client whose name begins so: {server:
the server's own names of its tools}. What is not in it is neither listed nor called then.""",
        table_text,
    ),
    Table(
        "OVERLAYS",
        "overlays",
        "What is listed of tools in place of what their servers say: a JSON Merge Patch of each.",
        _line_a_key,
    ),
    SNAPSHOT,
    Table(
        "APPROVAL",
        "approval",
        "Who has approved all of this has signed its digest; see --verify.",
        recorded=True,
    ),
)
RECORDED = tuple(table.name for table in TABLES if table.recorded)
