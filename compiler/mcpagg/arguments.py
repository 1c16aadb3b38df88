"""The parser of the command line: which options there are, and what each takes."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from mcpagg import __version__
from mcpagg.literal import HIDDEN
from mcpagg.options import PROGRAM
from mcpagg.printing import say, show
from mcpagg.problems import ConfigError, Problem, meant
from mcpagg.review import ALWAYS, CLASSES

CONFIG_VARIABLE = "MCP_PROXY_CONFIG_PATH"
STATUSES = (
    "exit status: 0 done · 1 drift (--check) · 2 usage or config · 3 missing environment"
    " · 4 a server failed · 5 names clash · 70 a fault of the compiler itself · 130 interrupted"
)
INHERITED = (
    "The file records its options. --check, --offline and --refresh take all of them from FILE; an"
    " option that is given replaces the recorded one (a repeatable one: all recorded ones of its"
    " name). Without the three, no option is taken from FILE."
)


def argument_parser() -> _Parser:
    """Return what reads a command line of the compiler."""
    # A namespace holds what was given and nothing else: a default would look as if it was given.
    parser = _Parser(
        prog=PROGRAM,
        description="Compile an MCP client config into one self-contained static proxy server. "
        + INHERITED,
        epilog=STATUSES,
        argument_default=argparse.SUPPRESS,
    )
    _add_ways(parser)
    _add_chosen(parser)
    _add_behaviour(parser)
    _add_judged(parser)
    _add_reports(parser)
    return parser


def _add_ways(parser: _Parser) -> None:
    """Add what is read, what is written, and which servers are asked."""
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
        help=f"--check: only changes of this class, and those of {' and '.join(sorted(ALWAYS))}, "
        f"which always do, give exit 1 (repeatable); {', '.join(CLASSES)}",
    )
    add(
        "--structural",
        action="store_true",
        help="--check: texts and versions do not count; names, schemas and hints do",
    )
    add(
        "--against",
        metavar="OLD",
        help="--check: what has changed since this file, which was FILE earlier",
    )
    add("--offline", action="store_true", help="take the snapshot from FILE; start no server")
    add(
        "--refresh",
        action="append",
        metavar="NAME",
        help="ask this server, and take the snapshots of the others from FILE (repeatable)",
    )
    add(
        "--pin",
        action="store_true",
        help="say which versions of their packages servers run, where the config names none, and"
        " write them into it with --yes; then exit",
    )
    add("--yes", action="store_true", help="--pin: write the versions into the config")
    add("--login", metavar="NAME", help="log in at this remote server, for all proxies; then exit")


def _add_chosen(parser: _Parser) -> None:
    """Add which servers, tools and profiles are part of the proxy."""
    add = parser.add_argument
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


def _add_behaviour(parser: _Parser) -> None:
    """Add how the proxy calls its tools, and what it does when it runs."""
    add = parser.add_argument
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


def _add_judged(parser: _Parser) -> None:
    """Add what is refused, and what is let pass."""
    add = parser.add_argument
    add("--stdio-only", action="store_true", help="refuse all but the standard stdio config")
    add("--strict", action="store_true", help="fail (2) for what clients refuse or texts hide")
    add(
        "--ignore",
        action="append",
        metavar="RULE[=SERVER:TOOL]",
        help="a finding that is no fault, by its name in brackets (globs, repeatable)",
    )
    add("--max-bytes", type=_bytes, metavar="N", help="fail (2) if the list of tools is larger")
    add("--allow-secrets", action="store_true", help="take literal credentials; writes FILE 0600")


def _add_reports(parser: _Parser) -> None:
    """Add what is printed, and written beside the proxy."""
    add = parser.add_argument
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
    add(
        "-v",
        "--verbose",
        action="store_true",
        help="name every tool, each warning by itself, all that servers said that failed",
    )
    add(
        "--version",
        action=_Version,
        nargs=0,
        help="print the version, and the digest of the runtime",
    )


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
        """Return what is given on a command line, by the names of options.

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
