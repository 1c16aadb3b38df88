"""Answers questions about calendar dates, without a clock: the same question, the same answer."""

from __future__ import annotations

from datetime import date, timedelta

from mcp_server import Server

server = Server("dates", "Reckons with calendar dates, written as YYYY-MM-DD.")


@server.tool(start="The first date", end="The second date")
def days_between(start: str, end: str) -> dict[str, object]:
    """Count the days from one date to another."""
    return {"days": (date.fromisoformat(end) - date.fromisoformat(start)).days}


@server.tool(day="The date to start from", days="How many days later; negative for earlier")
def add_days(day: str, days: int) -> str:
    """Return the date some days after another one."""
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


@server.tool(day="The date")
def about(day: str) -> dict[str, object]:
    """Tell the weekday, the ISO week and the day of the year of a date."""
    when = date.fromisoformat(day)
    year, week, _ = when.isocalendar()
    return {
        "weekday": when.strftime("%A"),
        "week": f"{year}-W{week:02}",
        "day_of_year": when.timetuple().tm_yday,
    }


server.run()
