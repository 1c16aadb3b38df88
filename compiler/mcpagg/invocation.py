"""What one run of the compiler is asked to do: what is given, and what FILE records of options.

An emitted file records the options that it was compiled with. `--check`, `--offline` and
`--refresh` take all of them from the file; an option that is given replaces the recorded one, and
one that can be repeated replaces all recorded ones of its name. Any other compilation takes no
option from the file that it replaces.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mcpagg.arguments import CONFIG_VARIABLE, argument_parser
from mcpagg.options import PROGRAM, Options, Source, flag_of
from mcpagg.printing import say
from mcpagg.problems import ConfigError, Problem
from mcpagg.review import STRUCTURAL

_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is no UTF-8, as Python reads it
UNRECORDED: dict[str, Any] = {
    "config": None,
    "output": None,
    "client": None,
    "dry_run": False,
    "check": False,
    "offline": False,
    "refresh": [],
    "login": None,
    "pin": False,
    "yes": False,
    "report": "text",
    "fail_on": [],
    "structural": False,
    "against": None,
    "page": None,
    "sign": None,
    "sbom": None,
    "quiet": False,
    "verbose": False,
}
"""What is no part of `Options`, so that the file does not record it, with the defaults."""


def parse(words: list[str]) -> argparse.Namespace:
    """Parse the arguments; where FILE is compared or renewed, it says what is not given.

    Options that are neither given nor recorded are absent, so that `Options` has their defaults.

    Raises:
        ConfigError: they cannot be understood, or need a file and there is none.
    """
    chosen = {**UNRECORDED, **argument_parser().given(words)}
    is_login = chosen["login"] and chosen["output"]
    if chosen["check"] or chosen["offline"] or chosen["refresh"] or is_login:
        chosen = _with_recorded(chosen)
    return argparse.Namespace(**chosen)


def _with_recorded(chosen: dict[str, Any]) -> dict[str, Any]:
    """Add the options and the config that the file to be compared or rebuilt records."""
    from mcpagg.recorded import recorded_command

    output = chosen["output"] or "-"
    if output == "-":
        raise ConfigError(PROGRAM, [Problem("", "--check, --offline and --refresh need -o FILE")])
    recorded = recorded_command(Path(output))
    if recorded is None:
        if chosen["config"] is None and not Path(output).exists():
            raise ConfigError(output, [Problem("", "does not exist", "compile it first")])
        if Path(output).exists():
            say(f"{output}: warning: records no options that can be read; give those that it needs")
        return chosen
    try:
        before = argument_parser().given(recorded)
    except ConfigError as problem:
        raise ConfigError(f"{output}: its recorded command", problem.problems) from None
    config = before.pop("config", "-")
    if chosen["config"] is None and chosen["client"] is None and config != "-":
        chosen["config"] = os.path.join(os.path.dirname(output), config)
    return {**before, **chosen}


def chosen_source(chosen: argparse.Namespace) -> Source:
    """Read the config that is asked for, with the options that are given.

    Raises:
        ConfigError: there is none, or options cannot be had together.
    """
    if faults := [Problem("", what) for what, is_so in _contradictions(chosen) if is_so]:
        raise ConfigError(PROGRAM, faults)
    if chosen.client:
        from mcpagg.clients import find_config

        home, here = Path.home(), Path.cwd()
        chosen.config = str(
            find_config(
                chosen.client, home=home, environ=os.environ, platform=sys.platform, cwd=here
            )
        )
    name = chosen.config or os.environ.get(CONFIG_VARIABLE)
    if not name:
        remedy = (
            "give its path, '-' for standard input, or --from CLIENT for that of a client, "
            f"or set {CONFIG_VARIABLE}"
        )
        raise ConfigError(PROGRAM, [Problem("", "no config is given", remedy)])
    options = _options(chosen)
    if name == "-":
        return Source(_standard_input(), "-", Path.cwd(), options)
    try:
        text = Path(name).read_bytes()
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        raise ConfigError(name, [Problem("", what)]) from None
    return Source(text, name, Path(name).parent, options, chosen.client or "")


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
    for flag in ("output", "check", "offline", "refresh", "login", "dry_run"):
        yield f"--pin does not go with {flag_of(flag)}", getattr(chosen, flag) and chosen.pin
    yield "--yes goes with --pin", chosen.yes and not chosen.pin
    yield "--pin --yes needs a file to write to", chosen.yes and chosen.config == "-"
    yield "--login does not go with --check", chosen.login and chosen.check
    yield "--sbom needs the name of a file", chosen.sbom in ("", "-")
    yield "--dry-run asks no server, so it writes no page", chosen.page and chosen.dry_run
    yield "--dry-run asks no server, so it writes no bill", chosen.sbom and chosen.dry_run
    yield "--sign goes with writing FILE", chosen.sign and (chosen.check or chosen.dry_run)
    yield f"--report {chosen.report} does not go with --dry-run", changes and chosen.dry_run
    needs_file = chosen.report != "text" and not (chosen.dry_run or compares)
    yield f"--report {chosen.report} needs --dry-run, --check or -o FILE", needs_file
    yield "--fail-on and --structural go with --check", gates and not chosen.check
    yield "--against goes with --check", chosen.against and not chosen.check
    yield "--structural leaves nothing of what --fail-on names", nothing


def _options(chosen: argparse.Namespace) -> Options:
    """Return the options that the file will record.

    Raises:
        ConfigError: a value cannot be used, or must not be recorded.
    """
    given: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in vars(chosen).items()
        if key not in UNRECORDED
    }
    options = Options(**given)
    if faults := [
        Problem("", f"{flag_of(key)} holds what is no text in UTF-8")
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

    texts = []
    for key, value in asdict(options).items():
        flag = flag_of(key)
        for one in value if isinstance(value, tuple) else [value]:
            name, _, defined = one.partition("=") if key == "define" else ("", "", one)
            texts.append((f"{flag} {name}".strip(), name, str(defined)))
    return [
        Problem("", f"{place} holds {what}", "the file records it: export a variable instead")
        for place, name, text in texts
        if (what := credential_in(name, text))
    ]
