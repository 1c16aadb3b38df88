"""What one run of the compiler is asked to do: what is given, and what FILE records of options.

An emitted file records the options that it was compiled with. `--check`, `--offline` and
`--refresh` take all of them from the file; an option that is given replaces the recorded one, and
one that can be repeated replaces all recorded ones of its name. Any other compilation takes no
option from the file that it replaces.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mcpagg.command.arguments import CONFIG_VARIABLE, Run, argument_parser
from mcpagg.command.printing import say
from mcpagg.options import PROGRAM, Options, Source, flag_of
from mcpagg.problems import ConfigError, Problem
from mcpagg.review import STRUCTURAL

_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is no UTF-8, as Python reads it


def parse(words: list[str]) -> Run:
    """Parse the arguments; where FILE is compared or renewed, it says what is not given.

    Raises:
        ConfigError: they cannot be understood, or need a file and there is none.
    """
    given = argument_parser().given(words)
    asked = Run.of(given)
    if asked.check or asked.offline or asked.refresh or (asked.login and asked.output):
        return Run.of(_with_recorded(asked, given))
    return asked


def _with_recorded(asked: Run, given: dict[str, Any]) -> dict[str, Any]:
    """Add to what is given what the file to be compared or rebuilt records, and its config."""
    from mcpagg.passes.emission.recorded import recorded_command

    output = asked.output or "-"
    if output == "-":
        raise ConfigError(PROGRAM, [Problem("", "--check, --offline and --refresh need -o FILE")])
    recorded = recorded_command(Path(output))
    if recorded is None:
        if asked.config is None and not Path(output).exists():
            raise ConfigError(output, [Problem("", "does not exist", "compile it first")])
        if Path(output).exists():
            say(f"{output}: warning: records no options that can be read; give those that it needs")
        return given
    try:
        before = argument_parser().given(recorded)
    except ConfigError as problem:
        raise ConfigError(f"{output}: its recorded command", problem.problems) from None
    config = before.pop("config", "-")
    if asked.config is None and asked.client is None and config != "-":
        before["config"] = os.path.join(os.path.dirname(output), config)
    return {**before, **given}


def chosen_source(chosen: Run) -> Source:
    """Read the config that is asked for, with the options that are given.

    Raises:
        ConfigError: there is none, or options cannot be had together.
    """
    if faults := [Problem("", what) for what, is_so in _contradictions(chosen) if is_so]:
        raise ConfigError(PROGRAM, faults)
    name = chosen.config or os.environ.get(CONFIG_VARIABLE)
    if chosen.client:
        from mcpagg.clients import find_config

        home, here, platform = Path.home(), Path.cwd(), sys.platform
        path = find_config(
            chosen.client, home=home, environ=os.environ, platform=platform, cwd=here
        )
        name = str(path)
    if not name:
        remedy = (
            "give its path, '-' for standard input, or --from CLIENT for that of a client, "
            f"or set {CONFIG_VARIABLE}"
        )
        raise ConfigError(PROGRAM, [Problem("", "no config is given", remedy)])
    options = chosen.options
    _check_options(options)
    if name == "-":
        return Source(_standard_input(), "-", Path.cwd(), options)
    try:
        text = Path(name).read_bytes()
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        raise ConfigError(name, [Problem("", what)]) from None
    return Source(text, name, Path(name).parent, options, chosen.client or "")


def _contradictions(chosen: Run) -> Iterator[tuple[str, object]]:
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


def _check_options(options: Options) -> None:
    """Refuse options whose values cannot be used, or must not be recorded.

    Raises:
        ConfigError: naming each.
    """
    if faults := [
        Problem("", f"{flag_of(key)} holds what is no text in UTF-8")
        for key, value in asdict(options).items()
        if _SURROGATE.search("".join(value) if isinstance(value, tuple) else str(value))
    ]:
        raise ConfigError(PROGRAM, faults)
    if options.ignore:
        from mcpagg.review.lint import check_ignored

        check_ignored(options)
    if any("=" not in pair for pair in options.define):
        # Not shown: it may be a value whose name was forgotten.
        raise ConfigError(PROGRAM, [Problem("", "--define needs NAME=VALUE")])
    if not options.allow_secrets and (faults := _credentials(options)):
        raise ConfigError(PROGRAM, faults)


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
    from mcpagg.passes.config.credentials import credential_in

    texts = []
    for key, value in asdict(options).items():
        flag = flag_of(key)
        for item in value if isinstance(value, tuple) else [value]:
            name, _, defined = item.partition("=") if key == "define" else ("", "", item)
            texts.append((f"{flag} {name}".strip(), name, str(defined)))
    return [
        Problem("", f"{place} holds {what}", "the file records it: export a variable instead")
        for place, name, text in texts
        if (what := credential_in(name, text))
    ]
