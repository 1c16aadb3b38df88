"""Prints how a compilation goes: warnings, the servers that are awaited, those that failed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from mcpagg.command.printing import Line, is_terminal, rewrite, say, say_lines
from mcpagg.job import Listener
from mcpagg.problems import ChildFault, CompileError, Problem, count, folded

if TYPE_CHECKING:
    from mcpagg.compilation import Earlier
    from mcpagg.passes.discovery.discovery import Awaited
    from mcpagg.passes.emission.recorded import Contents

NEWS_SECONDS = 10.0
"""How often the awaited servers are printed where there is no terminal to rewrite a line of."""


class Console(Listener):
    """Prints what comes of a config: with `quiet` only warnings, with `verbose` each by itself.

    The config's name is printed once, before all that concerns it.
    """

    def __init__(
        self,
        source: str,
        *,
        quiet: bool = False,
        verbose: bool = False,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._source = source
        self._quiet = quiet
        self._verbose = verbose
        self._now = now
        self._watched = is_terminal(sys.stderr)
        self._is_named = False
        self._printed = now()
        """When something was printed last."""
        self._failures: tuple[Line, ...] = ()
        self.known: tuple[Earlier, Contents] | None = None
        """What FILE says of servers, and what they say now; None before they were asked."""

    def warn(self, problems: Sequence[Problem], servers: Collection[str] = ()) -> None:
        """Print warnings; those that are alike for one key of several servers are one line."""
        warnings = problems if self._verbose else folded(problems, servers)
        self._print([Line(f"  warning: {problem}") for problem in warnings])

    def failed(self, failures: Sequence[Problem], advice: str) -> None:
        """Keep the failures, which are printed last: see `tell_failures`."""
        self._failures = tuple(failure_lines(failures, advice))

    def tell_failures(self) -> None:
        self._print(self._failures)
        self._failures = ()

    def learnt(self, before: Earlier, now: Contents) -> None:
        self.known = before, now

    def tell_fault(self, fault: CompileError) -> None:
        """Print why the compilation failed."""
        if fault.source != self._source:
            Console(fault.source).tell_fault(fault)
        elif isinstance(fault, ChildFault) and fault.advice:
            self._print([*failure_lines(fault.problems, fault.advice)])
        elif self._is_named or len(fault.problems) > 1:
            heading = Line(f"{count(len(fault.problems), 'error')}:", "grave")
            texts = "\n".join(map(str, fault.problems)).split("\n")
            lines = [Line(f"  {text}") for text in texts]
            self._print([heading, *lines, *([Line(f"  {fault.advice}")] if fault.advice else [])])
        else:
            say(str(fault))
            if fault.advice:
                say(f"{fault.source}: {fault.advice}")

    def progress(self, server: str, text: str) -> None:
        if not self._quiet or not server:
            style = "removed" if text.startswith("failed") else ""
            self._print([Line(f"  {server}: {text}" if server else text, style)], named=False)

    def waiting(self, awaited: Sequence[Awaited]) -> None:
        """Print the awaited servers: on one line of a terminal, else from time to time."""
        if self._quiet:
            return
        if self._watched:
            rewrite(_waiting(awaited)[: shutil.get_terminal_size().columns - 1] if awaited else "")
        elif awaited and self._now() - self._printed >= NEWS_SECONDS:
            self._print([Line(_waiting(awaited))], named=False)

    def _print(self, lines: Sequence[Line], *, named: bool = True) -> None:
        if not lines:
            return
        if self._watched and not self._quiet:
            rewrite("")
        if named and not self._is_named:
            self._is_named = True
            say_lines([Line(f"{self._source}:")])
        say_lines(lines)
        self._printed = self._now()


def failure_lines(failures: Sequence[Problem], advice: str) -> Iterator[Line]:
    """Yield the failed servers with the reason of each, and what helps."""
    yield Line(f"{count(len(failures), 'server')} failed:", "grave")
    for failure in failures:
        first, *rest = str(failure).split("\n")
        yield Line(f"  {first}", "removed")
        yield from (Line(f"  {line}") for line in rest)
    yield Line(f"  {advice}")


def _waiting(awaited: Sequence[Awaited]) -> str:
    """Return the awaited servers, the longest first, with the last line of each."""
    started = [server for server in awaited if server.seconds is not None]
    texts = []
    for server in sorted(started, key=lambda server: -(server.seconds or 0)):
        last_line = server.last_line()
        seconds = f"{server.seconds:.0f} s"
        texts.append(f"{server.name} ({'; '.join(filter(None, (seconds, last_line)))})")
    if later := len(awaited) - len(started):
        texts.append(f"{later} more after them")
    return f"  waiting for {len(awaited)}: {', '.join(texts)}"
