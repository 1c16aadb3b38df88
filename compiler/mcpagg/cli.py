"""The command line: runs the passes, says what came of it, and sets the exit status."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.invocation import chosen_source, parse
from mcpagg.options import PROGRAM, commands
from mcpagg.printing import give_text, is_terminal, say, show
from mcpagg.problems import CompileError, ConfigError, Drift, InternalFault, Problem, count

if TYPE_CHECKING:
    import argparse

    from mcpagg.compilation import Compilation
    from mcpagg.options import Commands, Source

FRAMEWORK_HINT = (
    "Agent frameworks that hand names to model APIs need portable ones: --names portable, when "
    "compiling or when the file is run"
)
HAS_CRLF = (
    "has CRLF line ends, compared as LF; `{} text eol=lf` in .gitattributes keeps them as written"
)
ONE_NAME = "give -o, --report and --sbom one each"
SBOM_INSTALL = "pip install 'mcpagg[sbom]'"
OTHER_MANIFEST = "has another manifest"
UNGUARDED = (
    "It may hold credentials: on Windows the permissions of its folder decide who can read it"
)
SUMMARY_WIDTH = 100
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
    file = None if chosen.output in (None, "-") else Path(chosen.output)
    _check_targets(chosen, file)
    if chosen.dry_run:
        return _dry_run(source, chosen)
    from mcpagg.lint import shortened

    advised = commands(source, chosen.output or "-")
    result = _compiled(source, file, advised, chosen)
    _warn(source.name, shortened(result.findings, chosen.verbose))
    _write_page(chosen.page, file, result)
    _write_bill(chosen.sbom, result)
    if chosen.check:
        return _check(file, result, chosen, advised.again)
    _write(file, result, chosen)
    return 0


def _check_targets(chosen: argparse.Namespace, file: Path | None) -> None:
    """Refuse, before anything is started, what could not be written in the end."""
    from mcpagg.output import check_target

    if chosen.sbom:
        try:
            import mcpagg.sbom  # noqa: F401
        except ImportError as missing:
            what = f"needs {missing.name}, which is not installed"
            raise ConfigError("--sbom", [Problem("", what, SBOM_INSTALL)]) from None
    others = [Path(target) for target in (chosen.page, chosen.sbom) if target]
    targets = [*([] if file is None else [file]), *others]
    if len({os.path.realpath(target) for target in targets}) < len(targets):
        raise ConfigError(PROGRAM, [Problem("", "two files would have one name", ONE_NAME)])
    for target in others if chosen.check else targets:
        check_target(target)


def _compiled(
    source: Source, file: Path | None, advised: Commands, chosen: argparse.Namespace
) -> Compilation:
    """Compile; a fault is told in the report, too."""
    from mcpagg.compilation import Job, compile_proxy

    job = Job(
        source=source,
        environ=os.environ,
        file=file,
        commands=advised,
        refresh=() if chosen.offline else chosen.refresh or None,
        check=chosen.check,
        key=chosen.sign,
        progress=(lambda server, text: None) if chosen.quiet else _progress(),
        warn=lambda problem: _warn(source.name, [problem]),
    )
    try:
        return compile_proxy(job)
    except CompileError as fault:
        from mcpagg.review.report import print_fault

        print_fault(str(file), fault, chosen.report)
        raise


def _login(source: Source, name: str) -> int:
    from mcpagg.login import log_in

    def announce(url: str) -> None:
        say(f"{name}: log in with your browser; if none opens, go to {url}")

    show(f"{name}: {log_in(source, name, os.environ, announce)}")
    return 0


def _dry_run(source: Source, chosen: argparse.Namespace) -> int:
    from mcpagg.compilation import dry_run
    from mcpagg.dry_run import as_json, as_text, errors_as_json

    try:
        run = dry_run(source, os.environ)
    except ConfigError as problem:
        if chosen.report == "json":
            give_text(errors_as_json(problem))
            return problem.exit_code
        raise
    if chosen.report == "json":
        give_text(as_json(run))
    else:
        show(as_text(run))
        _warn(source.name, run.warnings)
    if run.fault is not None:
        raise run.fault
    return 0


def _check(file: Path | None, result: Compilation, chosen: argparse.Namespace, again: str) -> int:
    from mcpagg.output import CRLF, is_extension, on_disk
    from mcpagg.review import CLASSES, STRUCTURAL
    from mcpagg.review.changes import Change
    from mcpagg.review.report import print_review
    from mcpagg.review.reviewing import review

    assert file is not None  # noqa: S101 - parse saw to it
    old = on_disk(file)
    if CRLF in old:
        say(f"{file}: {HAS_CRLF.format(file.name)}")
    counting = frozenset(chosen.fail_on or CLASSES)
    counting = counting & STRUCTURAL if chosen.structural else counting
    found = review(file, old, result, counting)
    if is_extension(file) and old and file.read_bytes() != _content(file, result):
        other = Change("file", "", "proxy", what=OTHER_MANIFEST)
        found = replace(found, changes=(*found.changes, other))
    if found.changes or chosen.report != "text":
        print_review(found, chosen.report)
    if not found.fails:
        if found.changes:
            say(f"{file}: nothing has changed that counts")
        return 0
    what = "is not what compiling now would write"
    raise Drift(str(file), [Problem("", what, f"compile it again: {again}")])


def _write(file: Path | None, result: Compilation, chosen: argparse.Namespace) -> None:
    from mcpagg.costs import as_table
    from mcpagg.output import (
        EXECUTABLE,
        PRIVATE,
        READABLE,
        differs,
        is_extension,
        on_disk,
        write,
    )
    from mcpagg.review.report import print_review
    from mcpagg.review.reviewing import review

    if not chosen.quiet:
        say("\n".join(as_table(result.costs, result.profiles)))
    if file is None:
        give_text(result.text)
        return
    old = on_disk(file)
    mode = READABLE if is_extension(file) else EXECUTABLE
    write(file, _content(file, result), PRIVATE if result.options.allow_secrets else mode)
    if chosen.report != "text":
        print_review(review(file, old, result), chosen.report)
    elif not chosen.quiet:
        show("\n".join(_summary(file, result, chosen.verbose)))
        if result.earlier.contents.rows and differs(old, result.text):
            show("What has changed:")
            print_review(review(file, old, result), "text", in_full=chosen.verbose)


def _content(file: Path, result: Compilation) -> bytes:
    """Return what a file is to hold, in the form that its name asks for."""
    from mcpagg.output import is_extension

    if not is_extension(file):
        return result.text.encode("utf-8")
    from mcpagg.mcpb import pack

    return pack(result)


def _write_page(page: str | None, file: Path | None, result: Compilation) -> None:
    """Write the page of a compilation, with what changes of `file` if that was compiled before."""
    if not page:
        return
    from mcpagg.html_report import render
    from mcpagg.output import PRIVATE, READABLE, on_disk, write
    from mcpagg.review.report import as_lines
    from mcpagg.review.reviewing import review

    changes = None
    if file is not None and result.earlier.contents.rows:
        changes = [*as_lines(review(file, on_disk(file), result))]
    text = render(result, changes).encode("utf-8")
    write(Path(page), text, PRIVATE if result.options.allow_secrets else READABLE)


def _write_bill(bill: str | None, result: Compilation) -> None:
    if not bill:
        return
    from mcpagg.output import READABLE, write
    from mcpagg.sbom import bill_of_materials

    write(Path(bill), bill_of_materials(result).encode("utf-8"), READABLE)


def _summary(file: Path, result: Compilation, verbose: bool) -> Iterator[str]:
    """Say what a file lists and what it leaves out; `verbose` names every tool."""
    from mcpagg.clients import desktop_entry
    from mcpagg.output import is_extension
    from mcpagg_runtime.spawn.platforms import WINDOWS

    total = sum(len(names) for names in result.servers.values())
    yield f"{file}: {count(len(result.servers), 'server')}, {count(total, 'tool')}"
    for server, names in result.servers.items():
        line = f"  {server}: {', '.join(names) or 'no tools'}"
        if len(line) > SUMMARY_WIDTH and not verbose:
            line = f"  {server}: {count(len(names), 'tool')} (-v names them)"
        yield line
    if composites := result.made_of.linked.composed.subtools:
        yield f"  composite tools: {', '.join(composites)}"
    if result.left_out:
        yield f"  left out: {', '.join(f'{name} ({why})' for name, why in result.left_out.items())}"
    if kept := result.made_of.snapshot.kept:
        yield f"  as they were, for they failed: {', '.join(kept)}"
    if WINDOWS and result.options.allow_secrets:
        yield UNGUARDED
    if is_extension(file):
        yield "Open it with Claude Desktop, which asks for the variables and installs it"
        return
    if result.options.names == "auto" and not result.is_portable:
        yield FRAMEWORK_HINT
    entry = json.dumps(desktop_entry(result.name, file))
    yield f"For Claude Desktop's config: {entry}"


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
