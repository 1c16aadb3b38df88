"""What the benchmarks print and draw: ratios, goals, slopes, plots."""

from __future__ import annotations

import re

import pytest
from plots import bars, lines
from report import Report, slope


def test_a_table_has_medians_and_ratios_to_its_base(capsys: pytest.CaptureFixture[str]) -> None:
    samples = {"direct": {"ms": [1.0, 2.0, 9.0]}, "proxy": {"ms": [3.0], "MB": [1234.0]}}
    table = Report("machine").add("a call", "direct", samples, difference=True)
    assert table.ratio("proxy", "ms") == 1.5
    assert table.more("proxy", "direct", "ms") == 1.0
    assert table.medians("MB") == {"proxy": 1234.0}
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| a call | ms              | MB    |",
        "| ------ | --------------- | ----- |",
        "| direct | 2               | -     |",
        "| proxy  | 3  1.50x +1.000 | 1,234 |",
    ]


def test_a_goal_is_a_most_or_a_least(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("machine")
    report.goal("start", 2.0, "x the floor", most=1.6)
    report.goal("in flight", 0.7, "of direct", least=0.6)
    report.goal("idle", 0.0, "wake-ups", most=0)
    report.goal("gone", None, "ms", most=1)
    assert [goal["met"] for goal in report.goals] == [False, True, True]
    assert report.notes == ["gone: not measured"]
    assert "goal: start: 2.00 x the floor, at most 1.6: NOT met" in capsys.readouterr().out


def test_what_grows_in_a_line_has_one_slope() -> None:
    assert slope([(1, 10), (10, 28), (100, 208)]) == (2, 2)
    assert slope([(1, 0), (2, 1), (4, 9)]) == (1, 4)


def test_a_plot_of_growth_has_a_panel_for_each_metric() -> None:
    plot = lines("tools & <more>", {"ms": [(10, 1), (20, 4)], "MB": [(1, 0)]})
    assert "<title>tools &amp; &lt;more&gt;</title>" in plot
    assert re.findall(r'class="data" points="(.*?)"', plot) == [
        "165.0,140.0 280.0,50.0",
        "560.0,170.0",
    ]


def test_a_bar_is_longer_by_the_same_for_each_decade() -> None:
    plot = bars("start", "ms", {"floor": 10.0, "a": 100.0, "b": 1000.0})
    assert re.findall(r'width="([\d.]+)" height="15"', plot) == ["0.0", "200.0", "400.0"]
