"""What the list of tools costs: its bytes, an estimate of its tokens, and the starts of servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import Any

from mcpagg.jsontext import dumps
from mcpagg.linking import Linked
from mcpagg.options import Options
from mcpagg.problems import ConfigError, Problem
from mcpagg.snapshot import Snapshot

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
        """The bytes of all its tools."""
        return sum(self.tools.values())

    @property
    def tokens(self) -> int:
        """An estimate of the tokens."""
        return tokens(self.bytes)


def tokens(size: int) -> int:
    """Return about how many tokens so many bytes are, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


def listed_bytes(item: Mapping[str, Any], **names: str) -> int:
    """Return the length in UTF-8 of an item as it is listed under other `names`, without blanks."""
    text = dumps({**item, **names}, quote=encode_basestring, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))


def measure(snapshot: Snapshot, linked: Linked, options: Options) -> tuple[Cost, ...]:
    """Return the cost of each server, in the config's order, then that of the composite tools."""
    costs = {child.name: Cost(child.name, seconds=child.seconds) for child in snapshot.children}
    if linked.composed.tools:
        costs[""] = Cost("")
    known = {("", tool["name"]): tool for tool in linked.composed.tools}
    for child in snapshot.children:
        for tool in child.tools:
            known.setdefault((child.name, tool["name"]), tool)
    for exposed, (server, name, portable) in linked.routes["tools"].items():
        listed = portable if options.names == "portable" else exposed
        costs[server].tools[listed] = listed_bytes(known[server, name], name=listed)
    return tuple(costs.values())


def check_size(costs: Iterable[Cost], options: Options, source: str) -> None:
    """Check the list of tools against `--max-bytes`.

    Raises:
        ConfigError: it is larger; names the largest tools.
    """
    tools = {name: size for cost in costs for name, size in cost.tools.items()}
    total, most = sum(tools.values()), options.max_bytes
    if most is None or total <= most:
        return
    largest = sorted(tools, key=lambda name: -tools[name])[:LARGEST]
    names = ", ".join(f"{name} {tools[name]:,}" for name in largest)
    what = f"the list of tools has {total:,} bytes, of at most {most:,} (--max-bytes)"
    raise ConfigError(source, [Problem("", what, f"--hide some; the largest are {names}")])


def as_table(costs: Sequence[Cost]) -> list[str]:
    """Return the lines of a table: a row for each server, and their sum if there are several.

    Starts are told if there were any.
    """
    any_start = any(cost.seconds is not None for cost in costs)
    rows = [("server", "tools", "bytes", "tokens", "start" if any_start else "")]
    for cost in costs:
        start = "" if cost.seconds is None else f"{cost.seconds:.1f} s"
        rows.append((cost.server or "(composite)", *_sums([cost]), start))
    if len(costs) > 1:
        rows.append(("all", *_sums(costs), ""))
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
