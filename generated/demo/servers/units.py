"""Converts between units of length, mass and time, and temperatures."""

from __future__ import annotations

from mcp_server import Server

server = Server("units", "Converts quantities exactly where a model would guess.")

UNITS: dict[str, dict[str, float]] = {  # each in terms of the one that is 1
    "length": {"mm": 0.001, "cm": 0.01, "m": 1, "km": 1000, "in": 0.0254, "mi": 1609.344},
    "mass": {"g": 0.001, "kg": 1, "t": 1000, "oz": 0.028349523125, "lb": 0.45359237},
    "time": {"s": 1, "min": 60, "h": 3600, "d": 86400, "week": 604800},
    "temperature": {"K": 1, "C": 1, "F": 5 / 9},
}
ZERO = {"C": 273.15, "F": 459.67}  # how far above absolute zero a scale begins


@server.tool(
    value="The quantity", source="Its unit, such as mi", target="The unit wanted, such as km"
)
def convert(value: float, source: str, target: str) -> dict[str, object]:
    """Convert a quantity from one unit to another."""
    for units in UNITS.values():
        if source in units and target in units:
            base = (value + ZERO.get(source, 0)) * units[source]
            return {"value": round(base / units[target] - ZERO.get(target, 0), 9), "unit": target}
    raise ValueError(f"cannot convert {source} to {target}; see list_units")


@server.tool()
def list_units() -> str:
    """List the units that are known, by what they measure."""
    return "\n".join(f"{kind}: {', '.join(units)}" for kind, units in UNITS.items())


server.run()
