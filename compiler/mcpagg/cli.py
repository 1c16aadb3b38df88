"""The command line: runs the passes, says what came of it, and sets the exit status."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.arguments import PROGRAM, chosen_source, parse, recorded_commands
from mcpagg.clients import desktop_entry
from mcpagg.output import is_emitted
from mcpagg.printing import give, on_terminal, say, show
from mcpagg.problems import (
    ChildFault,
    CompileError,
    ConfigError,
    Drift,
    InternalFault,
    Problem,
)

if TYPE_CHECKING:
    import argparse

    from mcpagg.compilation import Compilation, Source

FRAMEWORK_HINT = (
    "Agent frameworks that hand names to model APIs need portable ones: --names portable, when "
    "compiling or when the file is run"
)
HAS_CRLF = (
    "has CRLF line ends, compared as LF; `{} text eol=lf` in .gitattributes keeps them as written"
)
INTERNAL_FAULT = 70  # what sysexits.h calls EX_SOFTWARE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `mcpagg-compile`; return its exit status (see problems.py)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(given)
    except CompileError as problem:
        say(str(problem))
        if isinstance(problem, ChildFault) and problem.advice:
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
    file = None if chosen.output == "-" else Path(chosen.output)
    source = chosen_source(chosen)
    if file is not None and not chosen.check:
        _spare(file)
    if chosen.dry_run:
        return _dry_run(source, chosen)
    from mcpagg.compilation import compile_proxy

    result = compile_proxy(
        source,
        os.environ,
        file=file,
        commands=recorded_commands(chosen, source),
        offline=chosen.offline,
        check=chosen.check,
        progress=_Progress() if not chosen.quiet else None,
        warn=lambda problem: _warn(source.name, [problem]),
    )
    if chosen.check:
        return _check(file, result, source)
    _write(file, result, chosen)
    return 0


def _spare(file: Path) -> None:
    """Refuse to overwrite what is no emitted file: a config, say, in the wrong place.

    Raises:
        ConfigError: it is something else.
    """
    if file.is_file() and file.stat().st_size and not is_emitted(file):
        remedy = "choose another -o FILE, or remove it first"
        raise ConfigError(str(file), [Problem("", f"is no file that {PROGRAM} wrote", remedy)])


def _dry_run(source: Source, chosen: argparse.Namespace) -> int:
    from mcpagg.compilation import dry_run
    from mcpagg.dry_run import as_json, as_text, errors_as_json

    try:
        run = dry_run(source, os.environ)
    except ConfigError as problem:
        if chosen.report == "json":
            _give(errors_as_json(problem))
            return problem.exit_code
        raise
    if chosen.report == "json":
        _give(as_json(run))
    else:
        show(as_text(run))
        _warn(source.name, run.warnings)
    if run.fault is not None:
        raise run.fault
    return 0


def _check(file: Path | None, result: Compilation, source: Source) -> int:
    from mcpagg.output import CRLF, difference, on_disk

    assert file is not None  # noqa: S101 - parse saw to it
    old = on_disk(file)
    changes = difference(file, old, result.text)
    if CRLF in old:
        say(f"{file}: {HAS_CRLF.format(file.name)}")
    if not changes:
        return 0
    show(changes)
    remedy = f"compile it again: {PROGRAM} {source.name} -o {file}"
    raise Drift(str(file), [Problem("", "is not what compiling now would write", remedy)])


def _write(file: Path | None, result: Compilation, chosen: argparse.Namespace) -> None:
    from mcpagg.output import EXECUTABLE, PRIVATE, write

    if file is None:
        _give(result.text)
        return
    write(file, result.text, PRIVATE if chosen.allow_secrets else EXECUTABLE)
    if not chosen.quiet:
        total = sum(len(names) for names in result.servers.values())
        show(f"{file}: {_count(len(result.servers), 'server')}, {_count(total, 'tool')}")
        for server, names in result.servers.items():
            show(f"  {server}: {', '.join(names) or 'no tools'}")
        if result.composites:
            show(f"  composite tools: {', '.join(result.composites)}")
        if total and chosen.names == "auto":
            show(FRAMEWORK_HINT)
        entry = json.dumps(desktop_entry(result.name, file))
        show(f"For Claude Desktop's config: {entry}")


def _give(text: str) -> None:
    """Write what a program reads."""
    give((text.removesuffix("\n") + "\n").encode("utf-8"))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


class _Progress:
    """Says how each server comes up; where nobody watches, only what came of it."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.watched = on_terminal()

    def __call__(self, server: str, text: str) -> None:
        if self.watched or text != "starting":
            say(f"  {time.monotonic() - self.began:5.1f} s  {server}: {text}")


def _warn(source: str, warnings: Sequence[Problem]) -> None:
    for problem in warnings:
        say(f"{source}: warning: {problem}")
