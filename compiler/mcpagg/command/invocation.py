"""What one run is asked to do: by the command line, and by the options that FILE records.

An emitted file records the options that it was compiled with. `--check`, `--offline` and
`--refresh` take all of them from the file; an option that is given replaces the recorded one, and
one that can be repeated replaces all recorded ones of its name. Any other compilation takes no
option from the file that it replaces.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
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
    run = Run.of(given)
    if run.check or run.offline or run.refresh or (run.login and run.output):
        return Run.of(_with_recorded(run, given))
    return run


def _with_recorded(run: Run, given: dict[str, Any]) -> dict[str, Any]:
    """Add to what is given what the file to be compared or rebuilt records, and its config."""
    from mcpagg.passes.emission.output import not_ours
    from mcpagg.passes.emission.recorded import recorded_command

    if run.client and run.config is None and not run.login:
        given = _of_installed(run, given)
        run = Run.of(given)
    output = run.output or "-"
    if output == "-":
        raise ConfigError(PROGRAM, [Problem("", "--check, --offline and --refresh need -o FILE")])
    recorded = recorded_command(Path(output))
    if recorded is None:
        if run.config is None and not Path(output).exists():
            raise ConfigError(output, [Problem("", "does not exist", "compile it first")])
        if what := not_ours(Path(output)):
            if run.config is None and run.client is None:
                raise ConfigError(output, [Problem("", what, "give the file that it wrote")])
            say(f"{output}: warning: {what}")
        elif Path(output).exists():
            say(f"{output}: warning: records no options that can be read; give those that it needs")
        return given
    try:
        before = argument_parser().given(recorded)
    except ConfigError as problem:
        raise ConfigError(f"{output}: its recorded command", problem.problems) from None
    config = before.pop("config", "-")
    if run.config is None and run.client is None and config != "-":
        before["config"] = os.path.join(os.path.dirname(output), config)
    return {**before, **given}


def _of_installed(run: Run, given: dict[str, Any]) -> dict[str, Any]:
    """Return what is given, with the FILE that entries of a client start in place of the client.

    It is compiled from its own source, and servers get the values of their entries.

    Raises:
        ConfigError: no FILE is given, and entries start none, or more than one.
    """
    from mcpagg.install.places import find_scopes
    from mcpagg.install.planning import installed
    from mcpagg.install.record import record_for

    if run.output is not None and not record_for(Path(run.output)).exists():
        return given
    scopes = find_scopes(run.client or "", None, Path.home(), os.environ, sys.platform, Path.cwd())
    found = installed(scopes, os.environ)
    if run.output is not None:
        files = [file for file in found if file == Path(run.output).absolute()]
        if not files:
            return given
    else:
        files = [*found]
    if len(files) != 1:
        what = f"entries start {' and '.join(map(str, files)) or 'no installed file'}"
        place = ", ".join(scope.shown for scope in scopes)
        raise ConfigError(place, [Problem("", what, "give the file that is meant as -o FILE")])
    values = {**given, "output": str(files[0]), "values": found[files[0]]}
    return {name: value for name, value in values.items() if name != "client"}


def frozen_as_before(run: Run, file: Path, servers: Collection[str]) -> Run:
    """Return a run that also freezes what FILE has frozen of servers.

    Else whoever installs again, to take over what has changed, would have others started.
    """
    from mcpagg.passes.emission.recorded import recorded_command

    try:
        before = argument_parser().given(recorded_command(file) or [])
    except ConfigError:  # of another version
        return run
    globs = [glob for glob in before.get("freeze", ()) if fnmatch.filter(servers, glob)]
    scripts = before.get("freeze_scripts", ()) if globs else ()
    options = replace(
        run.options,
        freeze=(*dict.fromkeys([*globs, *run.options.freeze]),),
        freeze_scripts=(*dict.fromkeys([*scripts, *run.options.freeze_scripts]),),
    )
    return replace(run, options=options)


def check_run(run: Run) -> None:
    """Refuse options that cannot be had together, or whose values cannot be used.

    Raises:
        ConfigError: naming each.
    """
    if faults := [Problem("", what) for what, is_so in _contradictions(run) if is_so]:
        raise ConfigError(PROGRAM, faults)
    _check_options(run.options)


def read_source(run: Run) -> Source:
    """Read the config that is asked for, with the options that are given.

    Raises:
        ConfigError: there is none, or options cannot be had together.
    """
    check_run(run)
    name = run.config or os.environ.get(CONFIG_VARIABLE)
    if run.client:
        from mcpagg.clients import find_config

        home, here, platform = Path.home(), Path.cwd(), sys.platform
        path = find_config(run.client, home=home, environ=os.environ, platform=platform, cwd=here)
        name = str(path)
    if not name:
        remedy = (
            "give its path, '-' for standard input, or --from CLIENT for that of a client, "
            f"or set {CONFIG_VARIABLE}"
        )
        raise ConfigError(PROGRAM, [Problem("", "no config is given", remedy)])
    options = run.options
    if name == "-":
        return Source(_standard_input(), "-", Path.cwd(), options)
    try:
        text = Path(name).read_bytes()
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        raise ConfigError(name, [Problem("", what)]) from None
    return Source(text, name, Path(name).parent, options, run.client or "")


def _contradictions(run: Run) -> Iterator[tuple[str, object]]:
    """Yield what cannot be had together, and whether it is asked for."""
    changes = run.report in ("markdown", "sarif")
    compares = run.check or run.output not in (None, "-")
    gates = run.fail_on or run.structural
    nothing = run.fail_on and run.structural and not STRUCTURAL.intersection(run.fail_on)
    yield "both a config and --from are given", run.client and run.config is not None
    yield "--refresh does not go with --offline", run.refresh and run.offline
    for flag in ("check", "offline", "refresh", "login"):
        yield f"--{flag} does not go with --dry-run", getattr(run, flag) and run.dry_run
    for flag in ("output", "check", "offline", "refresh", "login", "dry_run"):
        yield f"--pin does not go with {flag_of(flag)}", getattr(run, flag) and run.pin
    for verb in ("install", "uninstall"):
        for flag in ("check", "offline", "refresh", "login", "dry_run", "pin"):
            what = f"--{verb} does not go with {flag_of(flag)}"
            yield what, getattr(run, flag) and getattr(run, verb)
        for flag, value in (("--report", run.page), ("--sbom", run.sbom), ("--sign", run.sign)):
            yield f"--{verb} does not go with {flag}", value and getattr(run, verb)
    yield "--install does not go with --uninstall", run.install and run.uninstall
    yield "--uninstall takes no -o: the entries name their file", run.uninstall and run.output
    yield "--install needs a config that can be edited", run.install and run.config == "-"
    is_no_file = run.output == "-" or (run.output or "").endswith(".mcpb")
    yield "--install writes a *.py, which entries can start", run.install and is_no_file
    asks = run.pin or run.install or run.uninstall
    yield "--yes goes with --pin, --install and --uninstall", run.yes and not asks
    yield "--pin --yes needs a file to write to", run.yes and run.config == "-"
    scripts = run.options.freeze_scripts and not run.options.freeze
    yield "--freeze-scripts goes with --freeze", scripts
    yield "--login does not go with --check", run.login and run.check
    yield "--sbom needs the name of a file", run.sbom in ("", "-")
    yield "--dry-run asks no server, so it writes no page", run.page and run.dry_run
    yield "--dry-run asks no server, so it writes no bill", run.sbom and run.dry_run
    yield "--sign goes with writing FILE", run.sign and (run.check or run.dry_run)
    yield f"--report {run.report} does not go with --dry-run", changes and run.dry_run
    needs_file = run.report != "text" and not (run.dry_run or compares)
    yield f"--report {run.report} needs --dry-run, --check or -o FILE", needs_file
    yield "--fail-on and --structural go with --check", gates and not run.check
    yield "--against goes with --check", run.against and not run.check
    refuses = run.options.drift == "refuse" or (run.install and run.options.on_drift is None)
    yield "--accept goes with --on-drift refuse, or --locked", run.options.accept and not refuses
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
