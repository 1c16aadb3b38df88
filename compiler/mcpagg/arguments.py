"""The arguments of the command line: read, checked, and written down as the file records them."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from mcpagg.clients import find_config
from mcpagg.literal import HIDDEN
from mcpagg.options import Options
from mcpagg.printing import say, show
from mcpagg.problems import ConfigError, Problem
from mcpagg.relocation import way

if TYPE_CHECKING:
    from mcpagg.compilation import Source

CONFIG_VARIABLE = "MCP_PROXY_CONFIG_PATH"
PROGRAM = "mcpagg-compile"
UNSHOWN = "(its arguments hold characters that cannot be shown: give them again)"


def _parser() -> _Parser:
    parser = _Parser(
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


class _Parser(argparse.ArgumentParser):
    """Prints in a way that never raises."""

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is not None and file is sys.stdout:
            show(message)
        else:
            say(message)


class _Version(argparse.Action):
    """Prints the version; importing the metadata reader costs more than reading most configs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        show(f"{PROGRAM} {version('mcpagg')}")
        parser.exit()


def parse(given: list[str]) -> argparse.Namespace:
    """Parse the arguments; --check and --offline take what is not given from the existing file.

    Raises:
        ConfigError: they need a file and there is none.
    """
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


def chosen_source(chosen: argparse.Namespace) -> Source:
    """Read the config that is asked for, with the options that are given.

    Raises:
        ConfigError: there is none, or options cannot be had together.
    """
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
            # Not shown: it may be a value whose name was forgotten.
            raise ConfigError(PROGRAM, [Problem("", "--define needs NAME=VALUE")])
    try:
        options = Options(
            **{key: getattr(chosen, key) for key in Options.model_fields if key in chosen}
        )
    except ValidationError as problem:
        flags = dict.fromkeys(str(one["loc"][0]).replace("_", "-") for one in problem.errors())
        faults = [Problem("", f"--{flag} has no value that can be used") for flag in flags]
        raise ConfigError(PROGRAM, faults) from None
    if not options.allow_secrets and (faults := _credentials(options)):
        raise ConfigError(PROGRAM, faults)
    if name == "-":
        return Source(_standard_input(), "-", Path.cwd(), options)
    try:
        text = Path(name).read_bytes()
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        raise ConfigError(name, [Problem("", what)]) from None
    return Source(text, name, Path(name).parent, options)


def _standard_input() -> bytes:
    reason = "it is closed"
    try:
        if sys.stdin is not None:
            return sys.stdin.buffer.read()
    except OSError as problem:
        reason = problem.strerror or str(problem)
    raise ConfigError("standard input", [Problem("", f"cannot be read: {reason}")])


def _credentials(options: Options) -> list[Problem]:
    """Return a problem for each credential among the options: the file records them."""
    from mcpagg.config.credentials import credential_in

    words = []
    for key, value in options:
        flag = "--" + key.replace("_", "-")
        for one in value if isinstance(value, tuple) else [value]:
            name, _, defined = one.partition("=") if key == "define" else ("", "", one)
            words.append((f"{flag} {name}".strip(), name, str(defined)))
    return [
        Problem("", f"{said} holds {what}", "the file records it: export a variable instead")
        for said, name, word in words
        if (what := credential_in(name, word))
    ]


def recorded_commands(chosen: argparse.Namespace, source: Source) -> tuple[str, str]:
    """Return the commands that rebuild and check the file, from the file's own folder.

    Raises:
        ConfigError: no relative path leads from there to the config.
    """
    folder = os.path.dirname(chosen.output) or "."
    config = source.name if source.name == "-" else way(folder, source.name)
    output = chosen.output if chosen.output == "-" else os.path.basename(chosen.output)
    # A name that starts with a dash would be taken for an option.
    config, output = (
        f"./{path}" if path.startswith("-") and given != "-" else path
        for path, given in ((config, source.name), (output, chosen.output))
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
