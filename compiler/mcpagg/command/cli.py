"""The command line: runs the passes, prints the outcome, and sets the exit status."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.command.invocation import check_run, parse, read_source
from mcpagg.command.printing import give_text, is_terminal, say, show
from mcpagg.options import PROGRAM, commands
from mcpagg.problems import ChildFault, CompileError, ConfigError, InternalFault, Problem, count

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
    run = parse(given)
    if run.install or run.uninstall:
        return _install(run)
    source = read_source(run)
    if run.login is not None:
        return _login(source, run.login)
    if run.pin:
        return _pin(source, run)
    if run.output is None and not run.dry_run and is_terminal(sys.stdout):
        remedy = "give -o FILE, or -o - for standard output"
        raise ConfigError(PROGRAM, [Problem("", "the proxy would fill this terminal", remedy)])
    from mcpagg.command import results

    file = None if run.output in (None, "-") else Path(run.output)
    results.check_targets(file, run)
    if run.dry_run:
        return _dry_run(source, file, run)
    from mcpagg.command.console import Console
    from mcpagg.passes.environment.pins import unpinned
    from mcpagg.review.costs import as_table
    from mcpagg.review.lint import shortened

    advised = commands(source, run.output or "-")
    console = Console(source.name, quiet=run.quiet, verbose=run.verbose)
    try:
        result = _compiled(source, file, advised, run, console)
    except CompileError as fault:
        console.tell_failures()  # which may be why
        console.tell_fault(fault)
        return fault.exit_code
    console.warn(shortened(result.findings, run.verbose))
    config = ["--from", run.client] if run.client else [source.name]
    pin = "" if source.name == "-" else shlex.join([PROGRAM, *config, "--pin"])
    console.warn([*unpinned(result.pins, each=run.verbose, command=pin)])
    console.warn(_lost_rules(source, run, result))
    if not (run.quiet or run.check):
        say("\n".join(as_table(result.costs, result.profiles)))
    console.tell_failures()
    if run.page:
        results.write_page(Path(run.page), file, result, run)
    if run.sbom:
        results.write_bill(Path(run.sbom), result)
    if file is not None and run.check:
        results.compare(file, result, run, advised.again)
    elif file is not None:
        results.write_file(file, result, run)
    else:
        give_text(result.text)
    return 0


def _lost_rules(source: Source, run: Run, result: Compilation) -> list[Problem]:
    """Return what rules of Claude Code lose, if it is its config that is compiled."""
    from mcpagg.clients import client_of
    from mcpagg.passes.environment.client_rules import lost_rules

    file = Path(source.name).absolute()
    owner = run.client or client_of(file)
    if owner != "claude-code" or source.name == "-":
        return []
    project = Path.cwd() if file.parent == Path.home() else file.parent
    return lost_rules(project, Path.home(), [*result.data.spec.paths])


def _compiled(
    source: Source, file: Path | None, advised: Commands, run: Run, console: Console
) -> Compilation:
    """Compile; a fault is reported in the form that is asked for, too."""
    from mcpagg.compiling import compile_proxy
    from mcpagg.job import Job

    job = Job(
        source=source,
        environ=os.environ,
        file=file,
        commands=advised,
        refresh=() if run.offline else run.refresh or None,
        check=run.check,
        against=Path(run.against) if run.against else None,
        key=run.sign,
        values=run.values,
        listener=console,
        verbose=run.verbose,
    )
    try:
        return compile_proxy(job)
    except CompileError as fault:
        if run.check or run.report != "text":
            from mcpagg.review.report import print_review
            from mcpagg.review.reviewing import review_of_fault

            print_review(review_of_fault(file, fault, console.known, source.options), run.report)
        raise


def _login(source: Source, name: str) -> int:
    from mcpagg.command.login import log_in

    def show_step(what: str) -> None:
        say(f"{name}: {what}")

    show(f"{name}: {log_in(source, name, os.environ, show_step)}")
    return 0


def _install(run: Run) -> int:
    check_run(run)
    if run.client is None and run.config is None:
        remedy = "give --from CLIENT"
        raise ConfigError(PROGRAM, [Problem("", "no client is given", remedy)])
    from mcpagg.command import installing

    verb = installing.install if run.install else installing.uninstall
    return verb(run, os.environ)


def _pin(source: Source, run: Run) -> int:
    """Say which versions to write, or write them; a server that fails has none."""
    from mcpagg.command.console import Console
    from mcpagg.compiling import find_versions, with_versions
    from mcpagg.job import Job
    from mcpagg.passes.emission.output import put
    from mcpagg.passes.environment.pins import lines

    console = Console(source.name, quiet=run.quiet, verbose=run.verbose)
    job = Job(source=source, environ=os.environ, listener=console, verbose=run.verbose)
    pins, failed = find_versions(job)
    if run.yes:
        text, left = with_versions(job, pins)
        file = Path(source.name).resolve()
        put(file, text, file.stat().st_mode & 0o777)
        done = [pin for pin in pins if pin not in left]
        show(f"{source.name}: {count(len(done), 'version')} written")
    else:
        left = pins
    show("\n".join([f"  {line}" for line in lines(left)]) or "every package has an exact version")
    console.tell_failures()
    return ChildFault.exit_code if failed else 0


def _dry_run(source: Source, file: Path | None, run: Run) -> int:
    from mcpagg.command.console import Console
    from mcpagg.compiling import dry_run
    from mcpagg.passes.environment.pins import unpinned
    from mcpagg.review.dry_run import as_json, as_text, errors_as_json

    try:
        outcome = dry_run(source, os.environ, file)
    except ConfigError as problem:
        if run.report == "json":
            give_text(errors_as_json(problem))
            return problem.exit_code
        raise
    if run.report == "json":
        give_text(as_json(outcome))
    else:
        show(as_text(outcome))
        warnings = [*outcome.warnings, *unpinned(outcome.pins, each=run.verbose)]
        paths = [server.path for server in outcome.spec.servers]
        Console(source.name, verbose=run.verbose).warn(warnings, paths)
    if outcome.fault is not None:
        raise outcome.fault
    return 0
