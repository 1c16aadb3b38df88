"""The command line: the only place that reads arguments, prints, and sets exit codes."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from mcpagg.clients import desktop_entry, find_config
from mcpagg.literal import HIDDEN
from mcpagg.options import Options
from mcpagg.output import is_emitted
from mcpagg.problems import ChildFault, CompileError, ConfigError, Drift, Problem

if TYPE_CHECKING:
    from mcpagg.compilation import Compilation, Source

CONFIG_VARIABLE = "MCP_PROXY_CONFIG_PATH"
PROGRAM = "mcpagg-compile"
UNSHOWN = "(its arguments hold characters that cannot be shown: give them again)"
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
    chosen = _parse(given)
    file = None if chosen.output == "-" else Path(chosen.output)
    source = _source(chosen)
    if file is not None and not (chosen.check or chosen.dry_run):
        _spare(file)
    if chosen.dry_run:
        return _dry_run(source, chosen)
    from mcpagg.compilation import compile_proxy

    result = compile_proxy(
        source,
        os.environ,
        file=file,
        commands=_commands(chosen, source),
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Compile an MCP client config into one self-contained static proxy server.",
        epilog="exit status: 0 done · 1 drift (--check) · 2 usage or config · 3 missing environment"
        " · 4 a server failed · 5 names clash",
    )
    add = parser.add_argument
    add("config", nargs="?", help=f"the config, '-' for stdin; default ${CONFIG_VARIABLE}")
    add("-o", "--output", default="-", metavar="FILE", help="the proxy; default '-', stdout")
    add(
        "--dry-run", action="store_true", help="check the config and the environment, start nothing"
    )
    add("--from", dest="client", metavar="CLIENT", help="the config of claude-desktop, cursor, …")
    add("--check", action="store_true", help="write nothing; exit 1 if FILE is not up to date")
    add("--offline", action="store_true", help="take the snapshot from FILE; start no server")
    add("--only", action="append", default=[], metavar="NAME", help="this server (repeatable)")
    add("--skip", action="append", default=[], metavar="NAME", help="not this server")
    add("--allow-failed", action="store_true", help="go on without a server that fails")
    add("--expose", action="append", default=[], metavar="SERVER:TOOL", help="offer (globs)")
    add("--hide", action="append", default=[], metavar="SERVER:TOOL", help="withhold (globs)")
    add("--define", action="append", default=[], metavar="NAME=VALUE", help="an editor's variable")
    add(
        "--separator",
        type=_mark,
        default=":",
        metavar="S",
        help="between server and tool; default ':'",
    )
    add("--names", choices=("auto", "spec", "portable", "bare"), default="auto", help="spelling")
    add(
        "--name", type=_mark, metavar="NAME", help="the proxy's own name; default from the config's"
    )
    add("--start", choices=("eager", "lazy"), default="eager", help="when servers start")
    add(
        "--on-drift", choices=("live", "warn", "refuse"), default="live", help="a list that changed"
    )
    add("--restart", choices=("never", "on-call"), default="never", help="a server that is down")
    add("--idle-stop", type=_seconds, metavar="S", help="end a server idle for so long; default no")
    add("--env", choices=("inherit", "minimal"), default="inherit", help="what servers inherit")
    add("--timeout", type=_seconds, metavar="S", help="per call; default none")
    add("--connect-timeout", type=_seconds, default=60.0, metavar="S", help="per start; default 60")
    add("--stdio-only", action="store_true", help="refuse all but the standard stdio config")
    add("--allow-secrets", action="store_true", help="take literal credentials; writes FILE 0600")
    add("--report", choices=("text", "json"), default="text", help="how --dry-run reports")
    add("-q", "--quiet", action="store_true", help="no progress and no summary")
    add("--version", action=_Version, nargs=0, help="print the version")
    return parser


class _Version(argparse.Action):
    """Prints the version; importing the metadata reader costs more than reading most configs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"{PROGRAM} {version('mcpagg')}")
        parser.exit()


def _parse(given: list[str]) -> argparse.Namespace:
    """Parse the arguments; --check and --offline take what is not given from the existing file."""
    parser = _parser()
    chosen = parser.parse_args(given)
    if not (chosen.check or chosen.offline):
        return chosen
    if chosen.output == "-":
        raise ConfigError(PROGRAM, [Problem("", "--check and --offline need -o FILE")])
    from mcpagg.recorded import recorded_command

    recorded = recorded_command(Path(chosen.output))
    if recorded is None:
        if chosen.config is None and not Path(chosen.output).exists():
            raise ConfigError(chosen.output, [Problem("", "does not exist", "compile it first")])
        return chosen
    before = parser.parse_args(recorded)
    fixed = {"config": chosen.config, "output": chosen.output}
    parser.set_defaults(**{k: v for k, v in vars(before).items() if k not in fixed})
    chosen = parser.parse_args(given)
    if chosen.config is None and before.config not in (None, "-"):
        chosen.config = os.path.join(os.path.dirname(chosen.output), before.config)
    return chosen


def _mark(text: str) -> str:
    if not text.strip() or HIDDEN.search(text):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be seen")
    return text


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _source(chosen: argparse.Namespace) -> Source:
    from mcpagg.compilation import Source

    if chosen.client and chosen.config is not None:
        raise ConfigError(PROGRAM, [Problem("", "both a config and --from are given")])
    if chosen.report != "text" and not chosen.dry_run:
        raise ConfigError(PROGRAM, [Problem("", "--report json goes with --dry-run")])
    if chosen.client:
        home, here = Path.home(), Path.cwd()
        chosen.config = str(
            find_config(
                chosen.client, home=home, environ=os.environ, platform=sys.platform, cwd=here
            )
        )
    name = chosen.config or os.environ.get(CONFIG_VARIABLE)
    if not name:
        remedy = f"give its path, '-' for standard input, or set {CONFIG_VARIABLE}"
        raise ConfigError(PROGRAM, [Problem("", "no config is given", remedy)])
    for pair in chosen.define:
        if "=" not in pair:
            raise ConfigError(PROGRAM, [Problem("", f"--define {pair}", "write NAME=VALUE")])
    try:
        options = Options(
            **{key: getattr(chosen, key) for key in Options.model_fields if key in chosen}
        )
    except ValidationError as problem:
        flags = dict.fromkeys(str(one["loc"][0]).replace("_", "-") for one in problem.errors())
        faults = [Problem("", f"--{flag} has no value that can be used") for flag in flags]
        raise ConfigError(PROGRAM, faults) from None
    if name == "-":
        return Source(sys.stdin.buffer.read(), "-", Path.cwd(), options)
    try:
        text = Path(name).read_bytes()
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        raise ConfigError(name, [Problem("", what)]) from None
    return Source(text, name, Path(name).parent, options)


def _commands(chosen: argparse.Namespace, source: Source) -> tuple[str, str]:
    """Return the commands that rebuild and check the file, from the file's own folder."""
    folder = os.path.dirname(chosen.output) or "."
    config = source.name if source.name == "-" else os.path.relpath(source.name, folder)
    output = chosen.output if chosen.output == "-" else os.path.basename(chosen.output)
    # A name that starts with a dash would be taken for an option.
    config, output = (
        f"./{path}" if path.startswith("-") and given != "-" else path
        for path, given in ((config.replace(os.sep, "/"), source.name), (output, chosen.output))
    )
    words = [config, "-o", output]
    defaults = Options()
    for key in Options.model_fields:
        value = getattr(source.options, key)
        if value == getattr(defaults, key):
            continue
        flag = "--" + key.replace("_", "-")
        if value is True:
            words.append(flag)
        else:
            for one in value if isinstance(value, tuple) else [value]:
                text = str(one).removesuffix(".0") if isinstance(one, float) else str(one)
                words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    check = ["--check", "-o", output]
    if "-" in (source.name, chosen.output):  # the file does not know its config, or its own name
        check = [config, "--check", "-o", "FILE"]
    if any(HIDDEN.search(word) for word in words):
        return UNSHOWN, UNSHOWN
    return shlex.join([PROGRAM, *words]), shlex.join([PROGRAM, *check])


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

    assert file is not None  # noqa: S101 - _parse saw to it
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
