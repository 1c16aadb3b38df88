"""`--install` and `--uninstall` on the command line: what is shown, the question, what is said."""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from mcpagg.clients import client_of
from mcpagg.command.arguments import Run
from mcpagg.command.console import Console
from mcpagg.command.invocation import frozen_as_before
from mcpagg.command.pasting import TO_FILL, Start, entry_lines
from mcpagg.command.printing import Line, ask, is_terminal, show, show_lines
from mcpagg.command.results import SERVES
from mcpagg.install.editing import Config
from mcpagg.install.installing import Installation, plans_of, prepare, write_all
from mcpagg.install.places import Scope, find_scopes
from mcpagg.install.planning import Plan, Reading
from mcpagg.install.starting import form_of, place_of
from mcpagg.install.uninstalling import Removal, removal_of, remove
from mcpagg.options import PROGRAM
from mcpagg.passes.emission.output import on_disk
from mcpagg.passes.environment.programs import find_package
from mcpagg.problems import ConfigError, Problem, count
from mcpagg.review.lint import shortened

_TEAM = "it belongs to the repository {}, and so to everybody who works there"
_ABSOLUTE = "the entries have the absolute path of FILE, which fits this machine alone"
_STARTED_IN = "the entries lead from the folder that Claude Code is started in: start it in {}"
_LOOSE = (
    "may start with other dependencies each time; --freeze records those of now, starts no others"
)
_REFUSED = "not frozen: the warning about it says why, and what helps"
_INSTALL, _INSTALL_OR_FREEZE = "Install? [y/N] ", "Install? [y]es / [f]reeze first / [N]o "
YES = ("y", "yes")
_NO_TERMINAL = "--yes is needed where nobody can be asked"


def install(run: Run, environ: Mapping[str, str]) -> int:
    """Have the entries of a client start one reviewed FILE; return the exit status.

    Raises:
        CompileError: nothing can be installed.
    """
    _check_question(run)
    prepared = _prepared(run, environ)
    if not prepared:
        show("nothing is installed")
        return 0
    if any(one.changes for one in prepared):
        may_freeze = not run.options.freeze and any(map(_not_frozen, prepared))
        answer = _answer(run, _INSTALL_OR_FREEZE if may_freeze else _INSTALL)
        if may_freeze and answer in ("f", "freeze"):
            return install(replace(run, options=replace(run.options, freeze=("*",))), environ)
        if answer not in YES:
            show("nothing was changed")
            return 1
    now: dict[Path, Config] = {}
    for installation in prepared:
        scope = installation.plan.scope
        config = now.get(scope.target, installation.plan.config)
        now[scope.target] = write_all(installation, config)
        show_lines(_done(run, installation))
    return 0


def _prepared(run: Run, environ: Mapping[str, str]) -> list[Installation]:
    """Compile what is to be installed, and show what would become of each scope.

    Raises:
        CompileError: nothing can be installed.
    """
    prepared: dict[int, Installation] = {}
    plans = plans_of(run, environ)
    for number, plan in enumerate(plans):
        console = Console(str(plan.scope.file), quiet=run.quiet, verbose=run.verbose)
        servers = [one.server.name for one in plan.chosen.values()]
        installation = prepare(plan, frozen_as_before(run, plan.file, servers), environ, console)
        if installation is not None:
            console.warn(shortened(installation.result.findings, run.verbose))
            prepared[number] = installation
    for number, plan in enumerate(plans):
        installation = prepared.get(number)
        show_lines(_plan_lines(plan, installation))
        if installation is not None and installation.result.earlier.contents.rows:
            _show_news(installation)
    return [*prepared.values()]


def uninstall(run: Run, environ: Mapping[str, str]) -> int:
    """Put the entries of a client back as they were; return the exit status.

    Raises:
        ConfigError: nothing can be put back.
    """
    _check_question(run)
    home, cwd = Path.home(), Path.cwd()
    scopes = find_scopes(run.client or "", run.config, home, environ, sys.platform, cwd)
    only, skip = run.options.only, run.options.skip
    found = [removal_of(Reading(scope), only, skip, environ) for scope in scopes]
    removals = [removal for removal in found if removal is not None]
    if not removals:
        places = ", ".join(scope.shown for scope in scopes)
        show(f"nothing is installed in {places}")
        return 0
    for removal in removals:
        show_lines(_removal_lines(removal))
    if any(removal.shown for removal in removals) and _answer(run, "Put back? [y/N] ") not in YES:
        show("nothing was changed")
        return 1
    now: dict[Path, Config] = {}
    for removal in removals:
        target = removal.scope.target
        now[target], left = remove(removal, now.get(target, removal.config), environ)
        show(f"{removal.scope.shown}: {', '.join(removal.shown) or 'nothing'} put back")
        if left:
            show(f"  nothing in it starts {left[0]} any more, which stays, as does its source")
    return 0


def _show_news(installation: Installation) -> None:
    """Show what has changed in FILE since it was installed."""
    from mcpagg.review.report import print_review  # noqa: PLC0415 - few have a FILE already
    from mcpagg.review.reviewing import review  # noqa: PLC0415

    file, result = installation.plan.file, installation.result
    print_review(review(file, on_disk(file), result), "text")


def _check_question(run: Run) -> None:
    if not run.yes and not is_terminal(sys.stdin):
        raise ConfigError(PROGRAM, [Problem("", _NO_TERMINAL, "pass --yes to ask nothing")])


def _answer(run: Run, question: str) -> str:
    return YES[0] if run.yes else ask(question).strip().lower()


def _plan_lines(plan: Plan, installation: Installation | None) -> Iterator[Line]:
    """Yield what would become of a scope: each entry before and after, and what stays."""
    scope = plan.scope
    yield Line(scope.shown, "heading")
    if scope.root is not None:
        yield Line(f"  {_TEAM.format(scope.root)}")
    if scope.target != scope.file:
        yield Line(f"  it is a link to {scope.target}")
    if installation is not None:
        yield from _change_lines(installation)
    for name, why in plan.left.items():
        yield Line(f"  {name}: stays as it is: {why}")
    for name, variables in plan.unset.items():
        yield Line(f"  {name}: {', '.join(variables)}: must be set where the client is started")
    values = _shared(plan)
    if values:
        yield Line(
            f"  {', '.join(values)}: has another value in another entry, so that FILE serves these"
            " servers one by one, and not as one proxy"
        )
    if installation is not None and installation.lost:
        yield Line(
            f"  no server gets these variables any more: {', '.join(installation.lost)};"
            ' write one that it needs into its entry, "env": {"NAME": "VALUE"}, and install again'
        )


def _change_lines(installation: Installation) -> Iterator[Line]:
    plan, scope = installation.plan, installation.plan.scope
    for change in installation.changes:
        yield Line(f"  {change.name}:")
        yield from _diff(change.before, change.after)
    same = len(plan.chosen) - len(installation.changes) - len(installation.argvs)
    if same:
        yield Line(f"  {count(same, 'server')} installed already, as it is now")
    if scope.root is not None:
        place = place_of(scope, plan.file)
        if place == str(plan.file):
            yield Line(f"  {_ABSOLUTE}")
        elif scope.client == "claude-code":
            yield Line(f"  {_STARTED_IN.format(scope.folder)}")
    yield Line(f"  FILE: {plan.file}, compiled from {plan.source.name} beside it")
    if loose := _not_frozen(installation):
        is_refused = bool(installation.result.options.freeze)
        yield Line(f"  {', '.join(loose)}: {_REFUSED if is_refused else _LOOSE}")
    if installation.changes and installation.backup is not None:
        yield Line(f"  backup: {installation.backup}")
    for name, argv in installation.argvs.items():
        why = plan.chosen[name].by_hand
        yield Line(f"  {name}: cannot be edited safely: {why}. Write this in its place:")
        env = [*plan.chosen[name].fields.literals(), *plan.chosen[name].env]
        start = Start(name, [*argv], sorted({*env}), [], "", [])
        yield from (Line(f"    {line}") for line in entry_lines(form_of(scope), start))
        if env:
            yield Line(f"    with what it has now in place of {TO_FILL}")


def _not_frozen(installation: Installation) -> list[str]:
    """Return the servers that start a package or image which is not frozen."""
    data = installation.result.data
    return [
        server.name
        for server in data.spec.servers
        if server.name not in data.frozen and find_package(server.command, server.args)
    ]


def _diff(before: str, after: str) -> Iterator[Line]:
    """Yield how one text becomes another, line by line."""
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        if line[:1] in "+- ":
            style = {"+": "added", "-": "removed"}.get(line[:1], "")
            yield Line(f"  {line.rstrip()}", style)


def _shared(plan: Plan) -> list[str]:
    """Return the variables that have different values in two entries."""
    seen: dict[str, str] = {}
    found = []
    for chosen in plan.chosen.values():
        for name, value in chosen.values.items():
            if name != "PATH" and seen.setdefault(name, value) != value:
                found.append(name)
    return [*dict.fromkeys(found)]


def _done(run: Run, installation: Installation) -> Iterator[Line]:
    plan = installation.plan
    names = ", ".join(plan.chosen)
    yield Line(f"{plan.scope.shown}: {names}: installed; restart the client", "added")
    yield Line(f"  {SERVES[installation.result.options.drift]}")
    config = _config_words(plan.scope)
    place = f" (in {plan.scope.folder})" if plan.scope.keys else ""
    only = [word for name in run.options.only for word in ("--only", name)]
    again, undo = (
        shlex.join([PROGRAM, *config, word, *only]) for word in ("--install", "--uninstall")
    )
    yield Line(f"  to see what has changed since, and to take it over{place}: {again}")
    yield Line(f"  to undo it{place}: {undo}")


def _config_words(scope: Scope) -> list[str]:
    """Return the words that name a scope on the command line, from wherever that can be."""
    is_file = not scope.keys and client_of(scope.file) == scope.client
    return [str(scope.file)] if is_file else ["--from", scope.client]


def _removal_lines(removal: Removal) -> Iterator[Line]:
    yield Line(removal.scope.shown, "heading")
    for name, (before, after) in removal.shown.items():
        yield Line(f"  {name}:")
        yield from _diff(before, after)
    for name, what in removal.left.items():
        yield Line(f"  {name}: {what}")
