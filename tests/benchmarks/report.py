"""Tables of medians and ratios, printed as soon as they are complete."""

from __future__ import annotations

import sys
from dataclasses import dataclass
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
        print(f"{machine}; medians, and ratios to the first row of each table")

    def add(self, title: str, base: str, samples: Samples, *, difference: bool = False) -> Table:
        """Print a table, and return it."""
        table = Table(title, base, samples, difference)
        self.tables.append(table)
        print("", *table.lines(), sep="\n", flush=True)
        return table

    def goal(self, what: str, value: float | None, most: float, unit: str) -> None:
        """Print a value beside the most that it is to be."""
        if value is None:
            self.note(f"{what}: not measured")
            return
        self.goals.append({"what": what, "value": value, "most": most, "unit": unit})
        verdict = "met" if value <= most else "NOT met"
        print(f"goal: {what}: {value:.2f} {unit}, at most {most:g}: {verdict}", flush=True)

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
