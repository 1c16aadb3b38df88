"""Small SVG plots, made by hand: no library, and readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

STYLE = """<style>
text { font: 12px sans-serif; fill: #333 } .small { font-size: 10px }
.axis { stroke: #888; fill: none } .straight { stroke: #888; stroke-dasharray: 3 3; fill: none }
.data { stroke: #2a78d6; stroke-width: 2; fill: none } .mark { fill: #2a78d6 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } }
</style>"""

Points = Sequence[tuple[float, float]]

PANEL, HEIGHT, LEFT, TOP = 230, 120, 50, 50
"""Width and height of the area of one panel, and where the first begins."""

BAR, NAMES, WIDTH = 22, 170, 400
"""Height of a bar, width of the names, and width of the longest bar."""


def lines(title: str, panels: Mapping[str, Points]) -> str:
    """Plot values against a count, a panel each; the dashed line is straight, for comparison."""
    width = len(panels) * (PANEL + LEFT) + 20
    drawn = [_panel(at, name, points) for at, (name, points) in enumerate(panels.items())]
    return _svg(width, TOP + HEIGHT + 30, title, drawn)


def _panel(at: int, name: str, points: Points) -> str:
    """Draw one panel; both axes begin at zero."""
    left, bottom = LEFT + at * (PANEL + LEFT), TOP + HEIGHT
    right, top = (
        max((x for x, _ in points), default=1) or 1,
        max((y for _, y in points), default=1) or 1,
    )
    placed = [
        (round(left + x / right * PANEL, 1), round(bottom - y / top * HEIGHT, 1)) for x, y in points
    ]
    path = " ".join(f"{x},{y}" for x, y in placed)
    ends = " ".join(f"{x},{y}" for x, y in (placed[:1] + placed[-1:]))
    marks = "".join(f'<circle class="mark" cx="{x}" cy="{y}" r="3"/>' for x, y in placed)
    return (
        f'<text x="{left}" y="{TOP - 10}">{escape(name)}</text>'
        f'<path class="axis" d="M{left} {TOP}V{bottom}H{left + PANEL}"/>'
        f'<text class="small" x="{left - 4}" y="{TOP + 8}" text-anchor="end">{_number(top)}</text>'
        f'<text class="small" x="{left - 4}" y="{bottom}" text-anchor="end">0</text>'
        f'<text class="small" x="{left + PANEL}" y="{bottom + 14}" text-anchor="end">'
        f"{_number(right)}</text>"
        f'<polyline class="straight" points="{ends}"/>'
        f'<polyline class="data" points="{path}"/>{marks}'
    )


def bars(title: str, unit: str, values: Mapping[str, float]) -> str:
    """Plot one value for each name, on a logarithmic axis: some are a thousand times others."""
    shown = {name: value for name, value in values.items() if value > 0}
    low = floor(log10(min(shown.values(), default=1)))
    decades = max(1, ceil(log10(max(shown.values(), default=1))) - low)
    drawn: list[str] = []
    for at, (name, value) in enumerate(shown.items()):
        y, length = TOP + at * BAR, round(WIDTH * (log10(value) - low) / decades, 1)
        drawn.append(
            f'<text x="{NAMES - 6}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="mark" x="{NAMES}" y="{y + 2}" width="{length}" height="{BAR - 7}"/>'
            f'<text class="small" x="{NAMES + length + 4}" y="{y + 13}">{_number(value)}'
            f" {escape(unit)}</text>"
        )
    bottom = TOP + len(shown) * BAR
    for decade in range(decades + 1):
        x = NAMES + WIDTH * decade / decades
        drawn.append(
            f'<path class="axis" d="M{x:g} {bottom}v4"/><text class="small" x="{x:g}"'
            f' y="{bottom + 15}" text-anchor="middle">{10.0 ** (low + decade):g}</text>'
        )
    return _svg(NAMES + WIDTH + 80, bottom + 25, title, drawn)


def _number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _svg(width: int, height: int, title: str, drawn: Sequence[str]) -> str:
    """Return the whole file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    )
    body = "\n".join([STYLE, f'<text x="10" y="20">{escape(title)}</text>', *drawn])
    return f"{head}\n<title>{escape(title)}</title>\n{body}\n</svg>\n"
