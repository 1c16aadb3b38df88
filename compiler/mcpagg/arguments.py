"""The arguments of the command line: read, checked, and written down as the file records them.

An emitted file records the options that it was compiled with. `--check`, `--offline` and
`--refresh` take all of them from the file; an option that is given replaces the recorded one, and
one that can be repeated replaces all recorded ones of its name. Any other compilation takes no
option from the file that it replaces.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mcpagg import __version__
from mcpagg.literal import HIDDEN
from mcpagg.printing import say, show
from mcpagg.problems import ConfigError, Problem, meant
from mcpagg.review import CLASSES, STRUCTURAL

if TYPE_CHECKING:
    from mcpagg.compilation import Source
    from mcpagg.options import Commands, Options

CONFIG_VARIABLE = "MCP_PROXY_CONFIG_PATH"
PROGRAM = "mcpagg-compile"
UNSHOWN = "(its arguments hold characters that cannot be shown: give them again)"
STATUSES = (
    "exit status: 0 done · 1 drift (--check) · 2 usage or config · 3 missing environment"
    " · 4 a server failed · 5 names clash · 70 a fault of the compiler itself · 130 interrupted"
)
INHERITED = (
    "The file records its options. --check, --offline and --refresh take all of them from FILE; an"
    " option that is given replaces the recorded one (a repeatable one: all recorded ones of its"
    " name). Without the three, no option is taken from FILE."
)
_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is no UTF-8, as Python reads it
RENEWS = "--check, --offline and --refresh"
UNRECORDED: dict[str, Any] = {
    "config": None,
    "output": None,
    "client": None,
    "dry_run": False,
    "check": False,
    "offline": False,
    "refresh": [],
    "login": None,
    "report": "text",
    "fail_on": [],
    "structural": False,
    "page": None,
    "sign": None,
    "sbom": None,
    "quiet": False,
    "verbose": False,
}
"""What is no part of `Options`, so that the file does not record it, with the defaults."""


def argument_parser() -> _Parser:
    """Return what reads a command line of the compiler."""
    # A namespace holds what was given and nothing else: defaults are not told apart from that.
    parser = _Parser(
        prog=PROGRAM,
        description="Compile an MCP client config into one self-contained static proxy server. "
        + INHERITED,
        epilog=STATUSES,
        argument_default=argparse.SUPPRESS,
    )
    add = parser.add_argument
    add("config", nargs="?", help=f"the config, '-' for stdin; default ${CONFIG_VARIABLE}")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="the proxy; '-' for stdout; *.mcpb: an extension of Claude Desktop",
    )
    add(
        "--dry-run", action="store_true", help="check the config and the environment, start nothing"
    )
    add("--from", dest="client", metavar="CLIENT", help="the config of claude-desktop, cursor, …")
    add("--check", action="store_true", help="write nothing; exit 1 if FILE is not up to date")
    add(
        "--fail-on",
        action="append",
        type=_class,
        metavar="CLASS",
        help=f"--check: exit 1 for changes of this class alone (repeatable); {', '.join(CLASSES)}",
    )
    add(
        "--structural",
        action="store_true",
        help="--check: texts and versions do not count; names, schemas and hints do",
    )
    add("--offline", action="store_true", help="take the snapshot from FILE; start no server")
    add(
        "--refresh",
        action="append",
        metavar="NAME",
        help="ask this server, and take the snapshots of the others from FILE (repeatable)",
    )
    add("--login", metavar="NAME", help="log in at this remote server, for all proxies; then exit")
    add("--only", action="append", metavar="NAME", help="this server (repeatable)")
    add("--skip", action="append", metavar="NAME", help="not this server (repeatable)")
    add(
        "--allow-failed",
        action="store_true",
        help="go on without servers that fail, or lack a variable, a program, a file or a folder;"
        " one that FILE has stays as it is there",
    )
    add("--expose", action="append", metavar="SERVER:TOOL", help="offer (globs, repeatable)")
    add("--hide", action="append", metavar="SERVER:TOOL", help="withhold (globs, repeatable)")
    add("--profile", action="append", metavar="NAME", help="this profile of `mcpagg` in the config")
    add("--define", action="append", metavar="NAME=VALUE", help="an editor's variable (repeatable)")
    add(
        "--separator", type=_mark, metavar="S", help="between server and tool in names; default ':'"
    )
    _add_choice(
        parser,
        "--names",
        auto="server:tool, but portable names to clients known to need them (default)",
        spec="server:tool to all",
        portable="server_tool to all, of letters, digits, '_' and '-'",
        bare="the tool's own name",
    )
    add(
        "--name", type=_mark, metavar="NAME", help="the proxy's own name; default from the config's"
    )
    _add_choice(
        parser,
        "--start",
        eager="servers start with the client (default)",
        lazy="each at its first call",
    )
    _add_choice(
        parser,
        "--on-drift",
        live="list what a server offers now (default)",
        warn="list what was compiled all the same",
        refuse="list what is unchanged, and refuse calls of anything else",
    )
    _add_choice(
        parser,
        "--restart",
        never="a server that is down stays down (default)",
        **{"on-call": "its next call starts it again"},
    )
    add("--idle-stop", type=_seconds, metavar="S", help="end a server idle for so long; default no")
    _add_choice(
        parser,
        "--env",
        inherit="servers get the environment of the proxy (default)",
        minimal="what any program needs, and their own `env`",
    )
    add("--timeout", type=_seconds, metavar="S", help="per call; default none")
    add("--connect-timeout", type=_seconds, metavar="S", help="per start; default 60")
    _add_choice(
        parser,
        "--serve",
        stdio="one client on standard input and output (default)",
        **{"stdio,http": "also many over HTTP: FILE --http, or uvicorn FILE:app"},
    )
    add("--stdio-only", action="store_true", help="refuse all but the standard stdio config")
    add("--strict", action="store_true", help="fail (2) for what clients refuse or texts hide")
    add(
        "--ignore",
        action="append",
        metavar="RULE[=SERVER:TOOL]",
        help="a finding that is no fault, named in brackets where it is told (globs, repeatable)",
    )
    add("--max-bytes", type=_bytes, metavar="N", help="fail (2) if the list of tools is larger")
    add("--allow-secrets", action="store_true", help="take literal credentials; writes FILE 0600")
    _add_choice(
        parser,
        "--report",
        action=_Report,
        text="what --dry-run found, or what has changed in FILE, as lines (default)",
        json="as JSON",
        markdown="changes, for a comment on a pull request",
        sarif="changes, for code scanning",
        **{"*.html": "writes a page to read and to search, too"},
    )
    add(
        "--sbom", metavar="FILE", help="also write what is started as a CycloneDX bill of materials"
    )
    add("--sign", metavar="KEY", help="approve what is written: a key of ssh-keygen, or its .pub")
    add("-q", "--quiet", action="store_true", help="no progress and no summary")
    add("-v", "--verbose", action="store_true", help="name every tool in the summary")
    add(
        "--version",
        action=_Version,
        nargs=0,
        help="print the version, and the digest of the runtime",
    )
    return parser


def _add_choice(parser: _Parser, flag: str, *, action: Any = "store", **choices: str) -> None:
    """Add an option that takes one of several words, or globs; each comes with what it means."""

    def chosen(text: str) -> str:
        if any(fnmatchcase(text, choice) for choice in choices):
            return text
        near = meant(text, choices) or f"choose {' or '.join(choices)}"
        raise argparse.ArgumentTypeError(f"{text!r} is none of its choices; {near}")

    meanings = "; ".join(f"{word}: {meaning}" for word, meaning in choices.items())
    parser.add_argument(flag, action=action, type=chosen, metavar="|".join(choices), help=meanings)


class _Parser(argparse.ArgumentParser):
    """Prints in a way that never raises, and raises what the rest of the compiler does."""

    def __init__(self, **options: Any) -> None:
        self.flags: list[str] = []
        super().__init__(**options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        action = super().add_argument(*names, **options)
        self.flags += action.option_strings
        return action

    def given(self, words: list[str]) -> dict[str, Any]:
        """Return what is given on a command line, by its name in `Options` or `UNRECORDED`.

        Raises:
            ConfigError: it cannot be understood.
        """
        found, others = self.parse_known_args(words)
        if others:
            raise ConfigError(PROGRAM, [self._unknown(word) for word in others])
        for name, value in vars(found).items():
            # Of `--only=--`, argparse before Python 3.13 makes an empty list.
            if isinstance(value, list) and (not value or [] in value):
                self.error(f"--{name.replace('_', '-')}: '--' is no value")
        return vars(found)

    def error(self, message: str) -> NoReturn:
        what = message.removeprefix("argument ")
        raise ConfigError(PROGRAM, [Problem("", what, f"see {PROGRAM} --help")])

    def _unknown(self, word: str) -> Problem:
        if not word.startswith("-"):
            return Problem("", f"more than one config is given: {word!r} is one too many")
        flag = word.partition("=")[0]  # the value may be anything, a secret too
        remedy = meant(flag, self.flags) or f"see {PROGRAM} --help"
        return Problem("", f"there is no option {flag}", remedy)

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is not None and file is sys.stdout:
            show(message)
        else:
            say(message)


class _Report(argparse.Action):
    """Takes what is to be printed, and apart from that the page that is to be written."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, value: Any, *_: object
    ) -> None:
        setattr(namespace, "page" if value.endswith(".html") else "report", value)


class _Version(argparse.Action):
    """Prints the version, and the digest of the runtime that emitted files have.

    What the digest needs costs more to import than reading most configs.
    """

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from mcpagg.bundle import runtime_digest

        show(f"{PROGRAM} {__version__}")
        show(f"runtime {runtime_digest()}")
        parser.exit()


def parse(words: list[str]) -> argparse.Namespace:
    """Parse the arguments; where FILE is compared or renewed, it says what is not given.

    Options that are neither given nor recorded are absent, so that `Options` has their defaults.

    Raises:
        ConfigError: they cannot be understood, or need a file and there is none.
    """
    parser = argument_parser()
    given = parser.given(words)
    chosen = {**UNRECORDED, **given}
    is_login = chosen["login"] and chosen["output"]
    if chosen["check"] or chosen["offline"] or chosen["refresh"] or is_login:
        chosen = _with_recorded(parser, chosen)
    return argparse.Namespace(**chosen)


def _with_recorded(parser: _Parser, chosen: dict[str, Any]) -> dict[str, Any]:
    """Add the options and the config that the file to be compared or rebuilt records."""
    from mcpagg.recorded import recorded_command

    output = chosen["output"] or "-"
    if output == "-":
        raise ConfigError(PROGRAM, [Problem("", f"{RENEWS} need -o FILE")])
    recorded = recorded_command(Path(output))
    if recorded is None:
        if chosen["config"] is None and not Path(output).exists():
            raise ConfigError(output, [Problem("", "does not exist", "compile it first")])
        if Path(output).exists():
            say(f"{output}: warning: records no options that can be read; give those that it needs")
        return chosen
    try:
        before = parser.given(recorded)
    except ConfigError as problem:
        raise ConfigError(f"{output}: its recorded command", problem.problems) from None
    config = before.pop("config", "-")
    if chosen["config"] is None and chosen["client"] is None and config != "-":
        chosen["config"] = os.path.join(os.path.dirname(output), config)
    return {**before, **chosen}


def _class(text: str) -> str:
    if text not in CLASSES:
        near = meant(text, CLASSES) or f"choose one of {', '.join(CLASSES)}"
        raise argparse.ArgumentTypeError(f"{text!r} is no class of changes; {near}")
    return text


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


def _bytes(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes above 0")
    return int(text)


def chosen_source(chosen: argparse.Namespace) -> Source:
    """Read the config that is asked for, with the options that are given.

    Raises:
        ConfigError: there is none, or options cannot be had together.
    """
    from mcpagg.clients import find_config
    from mcpagg.compilation import Source

    if faults := [Problem("", what) for what, is_so in _contradictions(chosen) if is_so]:
        raise ConfigError(PROGRAM, faults)
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
    options = _options(chosen)
    if name == "-":
        return Source(_standard_input(), "-", Path.cwd(), options)
    try:
        text = Path(name).read_bytes()
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        raise ConfigError(name, [Problem("", what)]) from None
    return Source(text, name, Path(name).parent, options)


def _contradictions(chosen: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """Yield what cannot be had together, and whether it is asked for."""
    changes = chosen.report in ("markdown", "sarif")
    compares = chosen.check or chosen.output not in (None, "-")
    gates = chosen.fail_on or chosen.structural
    nothing = chosen.fail_on and chosen.structural and not STRUCTURAL.intersection(chosen.fail_on)
    yield "both a config and --from are given", chosen.client and chosen.config is not None
    yield "--refresh does not go with --offline", chosen.refresh and chosen.offline
    for flag in ("check", "offline", "refresh", "login"):
        yield f"--{flag} does not go with --dry-run", getattr(chosen, flag) and chosen.dry_run
    yield "--login does not go with --check", chosen.login and chosen.check
    yield "--sbom needs the name of a file", chosen.sbom in ("", "-")
    yield "--dry-run asks no server, so it writes no page", chosen.page and chosen.dry_run
    yield "--dry-run asks no server, so it writes no bill", chosen.sbom and chosen.dry_run
    yield "--sign goes with writing FILE", chosen.sign and (chosen.check or chosen.dry_run)
    yield f"--report {chosen.report} does not go with --dry-run", changes and chosen.dry_run
    needs_file = chosen.report != "text" and not (chosen.dry_run or compares)
    yield f"--report {chosen.report} needs --dry-run, --check or -o FILE", needs_file
    yield "--fail-on and --structural go with --check", gates and not chosen.check
    yield "--structural leaves nothing of what --fail-on names", nothing


def _options(chosen: argparse.Namespace) -> Options:
    """Return the options that the file will record.

    Raises:
        ConfigError: a value cannot be used, or must not be recorded.
    """
    from mcpagg.options import Options

    given: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in vars(chosen).items()
        if key not in UNRECORDED
    }
    options = Options(**given)
    if faults := [
        Problem("", f"{_flag(key)} holds what is no text in UTF-8")
        for key, value in given.items()
        if _SURROGATE.search("".join(value) if isinstance(value, tuple) else str(value))
    ]:
        raise ConfigError(PROGRAM, faults)
    if options.ignore:
        from mcpagg.lint import check_ignored

        check_ignored(options)
    if any("=" not in pair for pair in options.define):
        # Not shown: it may be a value whose name was forgotten.
        raise ConfigError(PROGRAM, [Problem("", "--define needs NAME=VALUE")])
    if not options.allow_secrets and (faults := _credentials(options)):
        raise ConfigError(PROGRAM, faults)
    return options


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
    for key, value in asdict(options).items():
        flag = _flag(key)
        for one in value if isinstance(value, tuple) else [value]:
            name, _, defined = one.partition("=") if key == "define" else ("", "", one)
            words.append((f"{flag} {name}".strip(), name, str(defined)))
    return [
        Problem("", f"{said} holds {what}", "the file records it: export a variable instead")
        for said, name, word in words
        if (what := credential_in(name, word))
    ]


def commands(chosen: argparse.Namespace, source: Source) -> Commands:
    """Return the commands that rebuild and check the file.

    Raises:
        ConfigError: no relative path leads from the file's folder to the config.
    """
    from mcpagg.options import Commands
    from mcpagg.relocation import way

    output = chosen.output or "-"
    there = source.name if source.name == "-" else way(os.path.dirname(output) or ".", source.name)
    name = output if output == "-" else os.path.basename(output)
    config, file = _operand(there, source.name), _operand(name, output)
    check = ["--check", "-o", file]
    if "-" in (source.name, output):  # the file does not know its config, or its own name
        check = [config, "--check", "-o", "FILE"]
    options = _recorded_words(source.options)
    again = [_operand(source.name, source.name), "-o", _operand(output, output), *options]
    rebuild = [config, "-o", file, *options]
    if any(HIDDEN.search(word) for word in (*rebuild, *again)):
        return Commands(UNSHOWN, UNSHOWN, UNSHOWN)
    rebuilds, checks, builds = (shlex.join([PROGRAM, *w]) for w in (rebuild, check, again))
    return Commands(rebuilds, checks, builds, "" if there == "-" else there)


def _operand(path: str, given: str) -> str:
    """Return a path that is not taken for an option; a lone dash stays, if it was given as one."""
    return f"./{path}" if path.startswith("-") and given != "-" else path


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _recorded_words(options: Options) -> list[str]:
    """Return the options that differ from their defaults, as words of a command line."""
    words: list[str] = []
    defaults = type(options)()
    for key, value in asdict(options).items():
        if value == getattr(defaults, key):
            continue
        flag = _flag(key)
        if value is True:
            words.append(flag)
            continue
        for one in value if isinstance(value, tuple) else [value]:
            text = str(one).removesuffix(".0") if isinstance(one, float) else str(one)
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return words
