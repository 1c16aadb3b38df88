"""Tables of medians and ratios, printed as soon as they are complete."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

Samples = dict[str, dict[str, list[float]]]
"""server → metric → values, one a turn."""


@dataclass(frozen=True)
class Table:
    """The samples of one measurement, and the server that the others are compared with."""

    title: str
    base: str
    samples: Samples
    difference: bool

    def metrics(self) -> list[str]:
        """Return the metrics that any server has, in order."""
        return list(dict.fromkeys(metric for row in self.samples.values() for metric in row))

    def median(self, server: str, metric: str) -> float | None:
        """Return the median of a server's values."""
        values = self.samples.get(server, {}).get(metric)
        return median(values) if values else None

    def ratio(self, server: str, metric: str) -> float | None:
        """Return how many times the base's median a server's is."""
        value, base = self.median(server, metric), self.median(self.base, metric)
        return value / base if value is not None and base else None

    def medians(self, metric: str) -> dict[str, float]:
        """Return the median of each server that has this metric."""
        found = {server: self.median(server, metric) for server in self.samples}
        return {server: value for server, value in found.items() if value is not None}

    def more(self, server: str, other: str, metric: str) -> float | None:
        """Return how much more a server's median is than another's."""
        value, less = self.median(server, metric), self.median(other, metric)
        return value - less if value is not None and less is not None else None

    def cell(self, server: str, metric: str) -> str:
        """Return "value  ratio", and the difference if asked for."""
        value, ratio = self.median(server, metric), self.ratio(server, metric)
        if value is None:
            return "-"
        text = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
        if ratio is None or server == self.base:
            return text
        more = f" {value - value / ratio:+.3f}" if self.difference else ""
        return f"{text}  {ratio:.2f}x{more}"

    def lines(self) -> list[str]:
        """Lay the table out; it is Markdown too."""
        metrics = self.metrics()
        rows = [[self.title, *metrics]]
        rows += [[name, *(self.cell(name, m) for m in metrics)] for name in self.samples]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, ["-" * width for width in widths])
        return ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]


class Report:
    """Prints tables to stdout and notes to stderr, and keeps both."""

    def __init__(self, machine: str) -> None:
        self.machine = machine
        self.tables: list[Table] = []
        self.notes: list[str] = []
        self.goals: list[dict[str, object]] = []
        self.plots: dict[str, str] = {}
        """{name: SVG}."""

        print(f"{machine}; medians, and ratios to the first row of each table")

    def add(self, title: str, base: str, samples: Samples, *, difference: bool = False) -> Table:
        """Print a table, and return it."""
        table = Table(title, base, samples, difference)
        self.tables.append(table)
        print("", *table.lines(), sep="\n", flush=True)
        return table

    def goal(
        self,
        what: str,
        value: float | None,
        unit: str,
        *,
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        """Print a value beside the most or the least that it is to be."""
        if value is None:
            self.note(f"{what}: not measured")
            return
        met = (most is None or value <= most) and (least is None or value >= least)
        bounds = {"at most": most, "at least": least}
        bound = ", ".join(
            f"{word} {number:g}" for word, number in bounds.items() if number is not None
        )
        goal = {"what": what, "value": value, "unit": unit, "bound": bound, "met": met}
        self.goals.append(goal)
        self.say(f"goal: {what}: {value:.2f} {unit}, {bound}: {'met' if met else 'NOT met'}")

    def say(self, text: str) -> None:
        """Print a line below the table it belongs to."""
        print(text, flush=True)

    def note(self, text: str) -> None:
        """Say what is missing, once."""
        if text not in self.notes:
            self.notes.append(text)
            print(text, file=sys.stderr)

    def data(self) -> dict[str, object]:
        """Return everything, for machines."""
        return {
            "machine": self.machine,
            "notes": self.notes,
            "goals": self.goals,
            "tables": [
                {
                    "title": table.title,
                    "base": table.base,
                    "servers": {
                        server: {
                            metric: {
                                "median": table.median(server, metric),
                                "ratio": table.ratio(server, metric),
                                "samples": values,
                            }
                            for metric, values in row.items()
                        }
                        for server, row in table.samples.items()
                    },
                }
                for table in self.tables
            ],
        }


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the slope between the first two and the last two points; equal where it is linear."""
    steps = [(b - y) / (a - x) for (x, y), (a, b) in pairwise(points)]
    return (steps[0], steps[-1]) if steps else (float("nan"), float("nan"))
