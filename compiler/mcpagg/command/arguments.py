"""The options that steer one run, and the parser of all options."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NoReturn

from mcpagg import __version__
from mcpagg.command.printing import give_text, say, show
from mcpagg.options import (
    BEHAVIOUR,
    CHOSEN,
    FILE,
    JUDGED,
    NAME,
    PROGRAM,
    Option,
    Options,
    flag_of,
    option,
    options_of,
)
from mcpagg.problems import ConfigError, Problem, suggest
from mcpagg.review import ALWAYS, CLASSES

if TYPE_CHECKING:
    from mcpagg.spec import Values

CONFIG_VARIABLE = "MCP_PROXY_CONFIG_PATH"
STATUSES = (
    "exit status: 0 done · 1 drift (--check), or a question that was answered with no · 2 usage or"
    " config · 3 missing environment · 4 a server failed · 5 names clash · 70 a fault of the"
    " compiler itself · 130 interrupted"
)
INHERITED = (
    "The file records its options. --check, --offline and --refresh take all of them from FILE; an"
    " option that is given replaces the recorded one (a repeatable one: all recorded ones of its"
    " name). Without the three, no option is taken from FILE."
)
READ = "what is read and written"
REPORTED = "what is reported"
PRINTED = {
    "--schema": "the JSON Schema of a config, by which editors complete and check it",
    "--version": "the version, and the digest of the runtime",
}
ALONE = {
    flag_of(name): f"{flag_of(name)}={how.alone}"
    for name, (how, _) in options_of(Options).items()
    if how.alone
}
"""Options that may be given without a value, and what they mean then."""
GROUPS = (READ, CHOSEN, BEHAVIOUR, JUDGED, REPORTED)


class _Report(argparse.Action):
    """Sets what `--report` prints, or the page that it writes."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, value: Any, *_: object
    ) -> None:
        setattr(namespace, "page" if value.endswith(".html") else "report", value)


class _Prints(argparse.Action):
    """Prints something and exits; its imports cost more than reading a config."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        if self.dest == "version":
            from mcpagg.passes.emission.bundle import runtime_digest

            show(f"{PROGRAM} {__version__}\nruntime {runtime_digest()}")
        else:
            from mcpagg.passes.config.models import config_schema

            give_text(config_schema())
        parser.exit()


def _class(text: str) -> str:
    if text not in CLASSES:
        near = suggest(text, CLASSES) or f"choose one of {', '.join(CLASSES)}"
        raise argparse.ArgumentTypeError(f"{text!r} is no class of changes; {near}")
    return text


_FAIL_ON = (
    "--check: exit 1 for changes of this class only, and for those that always count:"
    f" {', '.join(sorted(ALWAYS))} (repeatable); {', '.join(CLASSES)}"
)
_STRUCTURAL = "--check: texts and versions do not count; names, schemas and hints do"
_AGAINST = "--check: what has changed since this file, which was FILE earlier"
_FROM = "the config of claude-desktop, cursor, … from its usual place (an unknown name lists all)"
_REFRESH = (
    "ask this server again, and take its newer packages if it is frozen; the others stay as FILE"
    " has them (repeatable)"
)
_PIN = (
    "say which versions of their packages servers run, where the config names none, and"
    " write them into it with --yes; then exit"
)
_INSTALL = (
    "have the client's entries start one FILE, each as itself, under the names that they have;"
    " shows what changes, and asks"
)
_UNINSTALL = "put the client's entries back as they were before --install"
_REPORT = {
    "text": "what --dry-run found, or what has changed in FILE, as lines (default)",
    "json": "as JSON",
    "markdown": "changes, for a comment on a pull request",
    "sarif": "changes, for code scanning",
    "*.html": "also write a page to read and to search",
}
_SBOM = "also write what is started as a CycloneDX bill of materials; needs cyclonedx-python-lib"
_VERBOSE = "name every tool, print each warning by itself, and all that failed servers printed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run of the compiler is asked to do; the file records `options` alone."""

    config: str | None = option(
        None, READ, f"the config, '-' for stdin; default ${CONFIG_VARIABLE}", flags=("config",)
    )
    output: str | None = option(
        None,
        READ,
        "the proxy; '-' for stdout; *.mcpb: an extension of Claude Desktop",
        FILE,
        flags=("-o", "--output"),
    )
    dry_run: bool = option(
        False, READ, "check the config and the environment, say what would be started"
    )
    client: str | None = option(None, READ, _FROM, ("CLIENT", str), flags=("--from",))
    check: bool = option(
        False, READ, "write nothing; exit 1 if FILE is not up to date, and say what has changed"
    )
    fail_on: tuple[str, ...] = option((), READ, _FAIL_ON, ("CLASS", _class))
    structural: bool = option(False, READ, _STRUCTURAL)
    against: str | None = option(None, READ, _AGAINST, ("OLD", str))
    offline: bool = option(False, READ, "take the snapshot from FILE; start no server")
    refresh: tuple[str, ...] = option((), READ, _REFRESH, NAME)
    pin: bool = option(False, READ, _PIN)
    install: bool = option(False, READ, _INSTALL)
    uninstall: bool = option(False, READ, _UNINSTALL)
    yes: bool = option(False, READ, "--pin: write the versions; --install, --uninstall: do not ask")
    login: str | None = option(
        None, READ, "log in at this remote server, for all proxies; then exit", NAME
    )
    options: Options = field(default_factory=Options)
    report: str = option("text", REPORTED, _REPORT, action=_Report)
    page: str | None = None
    """The page that `--report` is to write."""
    values: Values = field(default_factory=dict)
    """What installed entries give to variables of their servers, as in `Job`."""
    sbom: str | None = option(None, REPORTED, _SBOM, FILE)
    sign: str | None = option(
        None, REPORTED, "approve what is written: a key of ssh-keygen, or its .pub", ("KEY", str)
    )
    quiet: bool = option(False, REPORTED, "no progress and no summary", flags=("-q", "--quiet"))
    verbose: bool = option(False, REPORTED, _VERBOSE, flags=("-v", "--verbose"))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Run:
        """Return what is asked for by options {name: value}, all others at their defaults."""
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in given.items()
        }
        recorded = {name: values.pop(name) for name in options_of(Options) if name in values}
        return cls(options=Options(**recorded), **values)


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
    groups = {name: parser.add_argument_group(name) for name in GROUPS}
    for name, (how, default) in (options_of(Run) | options_of(Options)).items():
        flags = how.flags or (flag_of(name),)
        groups[how.group].add_argument(*flags, **_argparse_keywords(name, how, default))
    for flag, what in PRINTED.items():
        groups[REPORTED].add_argument(flag, action=_Prints, nargs=0, help=f"print {what}")
    return parser


def _argparse_keywords(name: str, how: Option, default: Any) -> dict[str, Any]:
    """Return what argparse is to know of an option, beside its flags."""
    if how.flags == (name,):
        return {"nargs": "?", "help": how.help}
    if default is False:
        return {"action": "store_true", "help": how.help}
    action = how.action or ("append" if isinstance(default, tuple) else "store")
    metavar, read = how.value
    more = {"dest": name, "action": action, "type": read, "metavar": metavar}
    if isinstance(how.help, str):
        return {**more, "help": how.help}
    meanings = "; ".join(f"{word}: {meaning}" for word, meaning in how.help.items())
    return {**more, "type": _choice_type(how.help), "metavar": "|".join(how.help), "help": meanings}


def _choice_type(choices: Mapping[str, str]) -> Callable[[str], str]:
    """Return what takes one of several words, or what one of several globs fits."""

    def chosen(text: str) -> str:
        if any(fnmatchcase(text, choice) for choice in choices):
            return text
        near = suggest(text, choices) or f"choose {' or '.join(choices)}"
        raise argparse.ArgumentTypeError(f"{text!r} is none of its choices; {near}")

    return chosen


class _Parser(argparse.ArgumentParser):
    """A parser that raises ConfigError, and prints as the rest of the compiler does."""

    def format_help(self) -> str:
        """Return the help; argparse has no form for a value behind `=` that may be left out."""
        text = super().format_help()
        for flag in ALONE:
            text = re.sub(rf"{flag} ([A-Z]+)(?:  (?= ))?", rf"{flag}[=\1]", text)
        return text

    def given(self, words: list[str]) -> dict[str, Any]:
        """Return what is given on a command line, by the names of options.

        Raises:
            ConfigError: it cannot be understood.
        """
        namespace, others = self.parse_known_args([ALONE.get(word, word) for word in words])
        if others:
            bare = next((word for word in words if word in ALONE), "")
            raise ConfigError(PROGRAM, [self._unknown(word, bare) for word in others])
        for name, value in vars(namespace).items():
            # Of `--only=--`, argparse before Python 3.13 makes an empty list.
            if isinstance(value, list) and (not value or [] in value):
                self.error(f"{flag_of(name)}: '--' is no value")
        return vars(namespace)

    def error(self, message: str) -> NoReturn:
        what = message.removeprefix("argument ")
        raise ConfigError(PROGRAM, [Problem("", what, f"see {PROGRAM} --help")])

    def _unknown(self, word: str, bare: str) -> Problem:
        """Say what a word too many is; `bare` is an option that was given without a value."""
        if not word.startswith("-"):
            remedy = f"a value of {bare} follows `=`: {bare}=NAME" if bare else ""
            return Problem("", f"more than one config is given: {word!r} is one too many", remedy)
        flag = word.partition("=")[0]  # the value may be anything, a secret too
        remedy = suggest(flag, self._option_string_actions) or f"see {PROGRAM} --help"
        return Problem("", f"there is no option {flag}", remedy)

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is not None and file is sys.stdout:
            show(message)
        else:
            say(message)
