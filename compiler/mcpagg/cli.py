"""The command line: the only place that prints and sets exit codes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.arguments import PROGRAM, chosen_source, parse, recorded_commands
from mcpagg.clients import desktop_entry
from mcpagg.output import is_emitted
from mcpagg.problems import ChildFault, CompileError, ConfigError, Drift, Problem

if TYPE_CHECKING:
    import argparse

    from mcpagg.compilation import Compilation, Source

CHILD_HINT = (
    "--skip NAME leaves a server out, --allow-failed goes on without those that fail, "
    "--connect-timeout S gives them more time"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `mcpagg-compile`; return its exit status (see problems.py)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(given)
    except CompileError as problem:
        print(_plain(str(problem)), file=sys.stderr)
        if isinstance(problem, ChildFault):
            print(CHILD_HINT, file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(given: list[str]) -> int:
    chosen = parse(given)
    file = None if chosen.output == "-" else Path(chosen.output)
    source = chosen_source(chosen)
    if file is not None and not (chosen.check or chosen.dry_run):
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
        progress=_progress() if not chosen.quiet else None,
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
    from mcpagg.compilation import planned
    from mcpagg.plan import as_json, as_text, errors_as_json

    try:
        plan = planned(source, os.environ)
    except ConfigError as problem:
        if chosen.report == "json":
            print(errors_as_json(problem))
            return problem.exit_code
        raise
    if chosen.report == "json":
        print(as_json(plan))
    else:
        print(_plain(as_text(plan)))
        _warn(source.name, plan.warnings)
    if plan.fault is not None:
        raise plan.fault
    return 0


def _check(file: Path | None, result: Compilation, source: Source) -> int:
    from mcpagg.output import difference

    assert file is not None  # noqa: S101 - parse saw to it
    changes = difference(file, result.text)
    if not changes:
        return 0
    sys.stdout.write(_plain(changes))
    remedy = f"compile it again: {PROGRAM} {source.name} -o {file}"
    raise Drift(str(file), [Problem("", "is not what compiling now would write", remedy)])


def _write(file: Path | None, result: Compilation, chosen: argparse.Namespace) -> None:
    from mcpagg.output import EXECUTABLE, PRIVATE, write

    if file is None:
        sys.stdout.buffer.write(result.text.encode("utf-8"))
        sys.stdout.flush()
        return
    write(file, result.text, PRIVATE if chosen.allow_secrets else EXECUTABLE)
    if not chosen.quiet:
        total = sum(len(names) for names in result.servers.values())
        print(f"{file}: {_count(len(result.servers), 'server')}, {_count(total, 'tool')}")
        for server, names in result.servers.items():
            print(_plain(f"  {server}: {', '.join(names) or 'no tools'}"))
        if result.composites:
            print(_plain(f"  composite tools: {', '.join(result.composites)}"))
        entry = json.dumps(desktop_entry(result.name, file))
        print(f"For Claude Desktop's config: {_plain(entry)}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


class _Progress:
    """Says on a terminal how each server comes up."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def __call__(self, server: str, text: str) -> None:
        print(f"  {time.monotonic() - self.began:5.1f} s  {server}: {text}", file=sys.stderr)


def _progress() -> _Progress | None:
    return _Progress() if sys.stderr.isatty() else None


def _warn(source: str, warnings: Sequence[Problem]) -> None:
    for problem in warnings:
        print(_plain(f"{source}: warning: {problem}"), file=sys.stderr)


def _plain(text: str) -> str:
    """Return text that a terminal prints as it stands: a child's words may hold anything."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )
