"""The command line: runs the passes, says what came of it, and sets the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.invocation import chosen_source, parse
from mcpagg.options import PROGRAM, commands
from mcpagg.printing import give_text, is_terminal, say, show
from mcpagg.problems import CompileError, ConfigError, InternalFault, Problem, folded

if TYPE_CHECKING:
    import argparse

    from mcpagg.compilation import Compilation
    from mcpagg.options import Commands, Source

INTERNAL_FAULT = 70  # what sysexits.h calls EX_SOFTWARE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `mcpagg-compile`; return its exit status (see problems.py)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(given)
    except CompileError as problem:
        say(str(problem))
        if problem.advice:
            say(f"{problem.source}: {problem.advice}")
        return problem.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except OSError as problem:  # of a path that no pass looked at, too long perhaps
        say(f"{problem.filename or PROGRAM}: {problem.strerror or type(problem).__name__}")
        return ConfigError.exit_code
    except Exception as fault:
        say(f"internal fault: {_described(fault)}; this is a fault of {PROGRAM}, please report it")
        return INTERNAL_FAULT


def _described(fault: BaseException) -> str:
    """Say what and where a fault is; of its text only what is sure to hold no value."""
    import traceback

    frames = traceback.extract_tb(fault.__traceback__)
    while group := getattr(fault, "exceptions", None):
        fault = group[0]
        frames += traceback.extract_tb(fault.__traceback__)
    place = [frame for frame in frames if "mcpagg" in frame.filename][-1]
    text = f": {fault}" if isinstance(fault, InternalFault) else ""
    where = f"{place.name} ({Path(place.filename).name}:{place.lineno})"
    return f"{type(fault).__name__}{text} in {where}"


def _run(given: list[str]) -> int:
    chosen = parse(given)
    source = chosen_source(chosen)
    if chosen.login is not None:
        return _login(source, chosen.login)
    if chosen.output is None and not chosen.dry_run and is_terminal(sys.stdout):
        remedy = "give -o FILE, or -o - for standard output"
        raise ConfigError(PROGRAM, [Problem("", "the proxy would fill this terminal", remedy)])
    from mcpagg import results

    file = None if chosen.output in (None, "-") else Path(chosen.output)
    results.check_targets(file, chosen)
    if chosen.dry_run:
        return _dry_run(source, file, chosen)
    from mcpagg.costs import as_table
    from mcpagg.lint import shortened

    advised = commands(source, chosen.output or "-")
    result = _compiled(source, file, advised, chosen)
    _warn(source.name, shortened(result.findings, chosen.verbose))
    if not (chosen.quiet or chosen.check):
        say("\n".join(as_table(result.costs, result.profiles)))
    if chosen.page:
        results.write_page(Path(chosen.page), file, result, chosen)
    if chosen.sbom:
        results.write_bill(Path(chosen.sbom), result)
    if file is not None and chosen.check:
        results.compare(file, result, chosen, advised.again)
    elif file is not None:
        results.write_file(file, result, chosen)
    else:
        give_text(result.text)
    return 0


def _compiled(
    source: Source, file: Path | None, advised: Commands, chosen: argparse.Namespace
) -> Compilation:
    """Compile; a fault is reported in the form that is asked for, too."""
    from mcpagg.compilation import Job, compile_proxy

    job = Job(
        source=source,
        environ=os.environ,
        file=file,
        commands=advised,
        refresh=() if chosen.offline else chosen.refresh or None,
        check=chosen.check,
        against=Path(chosen.against) if chosen.against else None,
        key=chosen.sign,
        progress=(lambda server, text: None) if chosen.quiet else _progress(),
        warn=lambda problem: _warn(source.name, [problem]),
        in_full=chosen.verbose,
    )
    try:
        return compile_proxy(job)
    except CompileError as fault:
        from mcpagg.review.report import print_fault

        print_fault(str(file), fault, chosen.report)
        raise


def _login(source: Source, name: str) -> int:
    from mcpagg.login import log_in

    def tell(what: str) -> None:
        say(f"{name}: {what}")

    show(f"{name}: {log_in(source, name, os.environ, tell)}")
    return 0


def _dry_run(source: Source, file: Path | None, chosen: argparse.Namespace) -> int:
    from mcpagg.compilation import dry_run
    from mcpagg.dry_run import as_json, as_text, errors_as_json

    try:
        run = dry_run(source, os.environ, file)
    except ConfigError as problem:
        if chosen.report == "json":
            give_text(errors_as_json(problem))
            return problem.exit_code
        raise
    if chosen.report == "json":
        give_text(as_json(run))
    else:
        show(as_text(run))
        paths = [server.path for server in run.spec.servers]
        _warn(source.name, run.warnings if chosen.verbose else folded(run.warnings, paths))
    if run.fault is not None:
        raise run.fault
    return 0


def _progress() -> Callable[[str, str], None]:
    """Return what says how each server comes up; where nobody watches, only what came of it."""
    watched = is_terminal(sys.stderr)

    def say_step(server: str, text: str) -> None:
        if watched or text != "starting":
            say(f"  {server}: {text}")

    return say_step


def _warn(source: str, warnings: Sequence[Problem]) -> None:
    for problem in warnings:
        say(f"{source}: warning: {problem}")
