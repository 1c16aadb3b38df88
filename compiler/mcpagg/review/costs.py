"""What the list of tools costs: its bytes, an estimate of its tokens, and the starts of servers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import Any

from mcpagg.jsontext import dumps
from mcpagg.options import Options
from mcpagg.passes.linking.linking import Linked, listed_items
from mcpagg.passes.linking.profiles import DEFAULT
from mcpagg.problems import ConfigError, Problem
from mcpagg.snapshot import Snapshot
from mcpagg_runtime.lists.catalogue import TOOLS

BYTES_PER_TOKEN = 4
"""An estimate: tokenizers differ, and none is at hand without the network."""

ESTIMATE = f"tokens are an estimate: bytes of UTF-8 / {BYTES_PER_TOKEN}"
LARGEST = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """What one server adds to the list of tools; composite tools are those of the server "".

    `tools` is {listed name: bytes of its JSON text in UTF-8, without blanks}, `seconds` what its
    start took, None if it was not started.
    """

    server: str
    tools: dict[str, int] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def bytes(self) -> int:
        return sum(self.tools.values())

    @property
    def tokens(self) -> int:
        return tokens(self.bytes)


def tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def listed_bytes(item: Mapping[str, Any], **names: str) -> int:
    """Return the length in UTF-8 of an item as it is listed under other `names`, without blanks."""
    text = dumps({**item, **names}, quote=encode_basestring, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))


def measure(
    snapshot: Snapshot,
    linked: Linked,
    options: Options,
    within: Mapping[str, Collection[str]] | None = None,
) -> tuple[Cost, ...]:
    """Return the cost of each server, in the config's order, then that of the composite tools.

    `within` {server: own names of tools} leaves out all others.
    """
    seconds = {child.name: child.seconds for child in snapshot.children}
    costs = []
    for server, items in listed_items(snapshot, linked).items():
        tools = {item.name(options.names): item for item in items if item.kind is TOOLS}
        sizes = {
            name: listed_bytes(item.value, name=name)
            for name, item in tools.items()
            if within is None or item.own in within.get(server, ())
        }
        if within is None or server in within:
            costs.append(Cost(server, sizes, seconds.get(server)))
    return tuple(costs)


def check_size(
    costs: Sequence[Cost], profiles: Mapping[str, Sequence[Cost]], most: int, source: str
) -> None:
    """Check the lists of tools that can be served against `--max-bytes`: of all, of each profile.

    Raises:
        ConfigError: some are larger; names the largest tools of each.
    """
    lists = profiles if DEFAULT in profiles else {"": costs, **profiles}
    sizes = {
        profile: {name: size for cost in costs for name, size in cost.tools.items()}
        for profile, costs in lists.items()
    }
    problems = [
        _too_large(profile, tools, most)
        for profile, tools in sizes.items()
        if sum(tools.values()) > most
    ]
    if problems:
        raise ConfigError(source, problems)


def _too_large(profile: str, tools: Mapping[str, int], most: int) -> Problem:
    largest = sorted(tools, key=lambda name: -tools[name])[:LARGEST]
    names = ", ".join(f"{name} {tools[name]:,}" for name in largest)
    of = f" of the profile '{profile}'" if profile else ""
    total = sum(tools.values())
    what = f"the list of tools{of} has {total:,} bytes, of at most {most:,} (--max-bytes)"
    return Problem("", what, f"hide some; the largest are {names}")


def as_table(costs: Sequence[Cost], profiles: Mapping[str, Sequence[Cost]]) -> list[str]:
    """Return the lines of a table: a row for each server, their sum, and that of each profile.

    Starts are shown if there were any.
    """
    any_start = any(cost.seconds is not None for cost in costs)
    rows = [("server", "tools", "bytes", "tokens", "start" if any_start else "")]
    for cost in costs:
        start = "" if cost.seconds is None else f"{cost.seconds:.1f} s"
        rows.append((cost.server or "(composite)", *_sums([cost]), start))
    if len(costs) > 1:
        rows.append(("all", *_sums(costs), ""))
    rows += [(f"profile {name}", *_sums(part), "") for name, part in profiles.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *numbers in rows:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join(["", name.ljust(widths[0]), *cells]).rstrip())
    return [*lines, f"  {ESTIMATE}"]


def _sums(costs: Sequence[Cost]) -> tuple[str, str, str]:
    tools = sum(len(cost.tools) for cost in costs)
    return (
        f"{tools:,}",
        f"{sum(cost.bytes for cost in costs):,}",
        f"{sum(cost.tokens for cost in costs):,}",
    )
