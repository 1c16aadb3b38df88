"""The command line: runs the passes, says what came of it, and sets the exit status."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.command.invocation import chosen_source, parse
from mcpagg.command.printing import give_text, is_terminal, say, show
from mcpagg.options import PROGRAM, commands
from mcpagg.problems import (
    ChildFault,
    CompileError,
    ConfigError,
    InternalFault,
    Problem,
    count,
)

if TYPE_CHECKING:
    from mcpagg.command.arguments import Run
    from mcpagg.command.console import Console
    from mcpagg.compilation import Compilation
    from mcpagg.options import Commands, Source

INTERNAL_FAULT = 70  # what sysexits.h calls EX_SOFTWARE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `mcpagg-compile`; return its exit status (see problems.py)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(given)
    except CompileError as problem:
        from mcpagg.command.console import Console

        Console(problem.source).tell_fault(problem)
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
    if chosen.pin:
        return _pin(source, chosen)
    if chosen.output is None and not chosen.dry_run and is_terminal(sys.stdout):
        remedy = "give -o FILE, or -o - for standard output"
        raise ConfigError(PROGRAM, [Problem("", "the proxy would fill this terminal", remedy)])
    from mcpagg.command import results

    file = None if chosen.output in (None, "-") else Path(chosen.output)
    results.check_targets(file, chosen)
    if chosen.dry_run:
        return _dry_run(source, file, chosen)
    from mcpagg.command.console import Console
    from mcpagg.passes.environment.pins import unpinned
    from mcpagg.review.costs import as_table
    from mcpagg.review.lint import shortened

    advised = commands(source, chosen.output or "-")
    console = Console(source.name, quiet=chosen.quiet, verbose=chosen.verbose)
    try:
        result = _compiled(source, file, advised, chosen, console)
    except CompileError as fault:
        console.tell_failures()  # which may be why
        console.tell_fault(fault)
        return fault.exit_code
    console.warn(shortened(result.findings, chosen.verbose))
    config = ["--from", chosen.client] if chosen.client else [source.name]
    pin = "" if source.name == "-" else shlex.join([PROGRAM, *config, "--pin"])
    console.warn([*unpinned(result.pins, each=chosen.verbose, command=pin)])
    if not (chosen.quiet or chosen.check):
        say("\n".join(as_table(result.costs, result.profiles)))
    console.tell_failures()
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
    source: Source,
    file: Path | None,
    advised: Commands,
    chosen: Run,
    console: Console,
) -> Compilation:
    """Compile; a fault is reported in the form that is asked for, too."""
    from mcpagg.compiling import compile_proxy
    from mcpagg.job import Job

    job = Job(
        source=source,
        environ=os.environ,
        file=file,
        commands=advised,
        refresh=() if chosen.offline else chosen.refresh or None,
        check=chosen.check,
        against=Path(chosen.against) if chosen.against else None,
        key=chosen.sign,
        listener=console,
        verbose=chosen.verbose,
    )
    try:
        return compile_proxy(job)
    except CompileError as fault:
        from mcpagg.review.report import print_fault

        print_fault(str(file), fault, chosen.report)
        raise


def _login(source: Source, name: str) -> int:
    from mcpagg.command.login import log_in

    def tell(what: str) -> None:
        say(f"{name}: {what}")

    show(f"{name}: {log_in(source, name, os.environ, tell)}")
    return 0


def _pin(source: Source, chosen: Run) -> int:
    """Say which versions to write, or write them; a server that fails has none."""
    from mcpagg.command.console import Console
    from mcpagg.compiling import find_versions, with_versions
    from mcpagg.job import Job
    from mcpagg.passes.emission.output import write
    from mcpagg.passes.environment.pins import lines

    console = Console(source.name, quiet=chosen.quiet, verbose=chosen.verbose)
    job = Job(source=source, environ=os.environ, listener=console, verbose=chosen.verbose)
    pins, failed = find_versions(job)
    if chosen.yes:
        text, left = with_versions(job, pins)
        file = Path(source.name)
        write(file, text, file.stat().st_mode & 0o777)
        done = [pin for pin in pins if pin not in left]
        show(f"{source.name}: {count(len(done), 'version')} written")
    else:
        left = pins
    show("\n".join([f"  {line}" for line in lines(left)]) or "every package has an exact version")
    console.tell_failures()
    return ChildFault.exit_code if failed else 0


def _dry_run(source: Source, file: Path | None, chosen: Run) -> int:
    from mcpagg.command.console import Console
    from mcpagg.compiling import dry_run
    from mcpagg.passes.environment.pins import unpinned
    from mcpagg.review.dry_run import as_json, as_text, errors_as_json

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
        warnings = [*run.warnings, *unpinned(run.pins, each=chosen.verbose)]
        paths = [server.path for server in run.spec.servers]
        Console(source.name, verbose=chosen.verbose).warn(warnings, paths)
    if run.fault is not None:
        raise run.fault
    return 0
