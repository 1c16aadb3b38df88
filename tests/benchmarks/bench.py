"""Lets contenders take turns, so that a noisy machine is noisy to everybody."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from contenders import Workshop
from pipe import GoneError, Open, Pipe, listed
from report import Report, Samples

FAILURES = (GoneError, OSError, EOFError, KeyError, IndexError, ValueError)
"""How a server shows that it is not up to a measurement: it goes, or its answer is not one."""

ENOUGH = 8.0
"""Seconds after which a contender gets no further turn: what is so slow needs no better median."""

Contender = TypeVar("Contender")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Bench:
    """What each measurement gets: who is measured, where to tell it, and how thoroughly."""

    workshop: Workshop
    report: Report
    quick: bool

    def turns(
        self,
        rounds: int,
        contenders: Mapping[str, Contender],
        measure: Callable[[Contender], dict[str, float]],
    ) -> Samples:
        """Measure all contenders in turn, again and again; one that fails is out, with a note."""
        samples: Samples = {name: {} for name in contenders}
        spent = dict.fromkeys(contenders, 0.0)
        for _ in range(rounds):
            for name in [name for name in samples if spent[name] < ENOUGH]:
                before = time.monotonic()
                seen = self.attempt(name, partial(measure, contenders[name]))
                spent[name] += time.monotonic() - before
                if seen is None:
                    del samples[name]
                    continue
                for metric, value in seen.items():
                    samples[name].setdefault(metric, []).append(value)
        return samples

    def attempt(self, name: str, action: Callable[[], Result]) -> Result | None:
        """Return what the action returns; None, and a note, if the server fails."""
        try:
            return action()
        except FAILURES as problem:
            self.report.note(f"{name}: {type(problem).__name__} {problem}".strip())
            return None

    def opened(self, contenders: Mapping[str, list[str]]) -> dict[str, Open]:
        """Start servers and call each once, so that its child is up; those that fail are out."""
        found = {
            name: self.attempt(name, partial(_echo, argv)) for name, argv in contenders.items()
        }
        return {name: server for name, server in found.items() if server}


def _echo(argv: list[str]) -> Open:
    """Start a server, and call its tool `echo` once."""
    pipe = Pipe(argv)
    try:
        pipe.initialize()
        server = listed(pipe, "echo")
        server.call(text="x")
    except FAILURES:
        pipe.close()
        raise
    return server
