"""Applies the rules to what a proxy lists, without what the options ignore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from shlex import quote

from mcpagg.options import PROGRAM, Options
from mcpagg.passes.linking.filters import UNUSED_FILTER
from mcpagg.passes.linking.linking import Linked, listed_items
from mcpagg.problems import ConfigError, Problem, count, name_list, suggest
from mcpagg.review.lint import names, texts, validity
from mcpagg.review.lint.finding import KIND_OF, Finding, Hit, Offer, Surface
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.lists.listing import is_hidden

RULES = (
    validity.refused_entry,
    texts.hidden_text,
    texts.look_alike,
    texts.instructions,
    names.look_alike_name,
    names.refused_name,
    validity.broken_schema,
    validity.remote_reference,
    validity.task_only,
    validity.top_level_choice,
    validity.array_items,
    validity.property_names,
    validity.gemini_subset,
    validity.large_schema,
    texts.long_description,
    texts.no_description,
    texts.same_description,
)
"""The rules, in the order in which their findings are shown."""

FAILING = ("refused", "hidden")
"""The levels for which `--strict` fails."""

SHOWN = 3
MENDED_BY = "have its server mended"


def check_ignored(options: Options) -> None:
    """Check what `--ignore` names.

    Raises:
        ConfigError: there is no such rule.
    """
    rules = [*(rule.name for rule in RULES), UNUSED_FILTER]
    problems = [
        Problem("", f"--ignore: there is no rule '{name}'", suggest(name, rules) or _known(rules))
        for name in (word.partition("=")[0] for word in options.ignore)
        if name not in rules
    ]
    if problems:
        raise ConfigError(PROGRAM, problems)


def lint(
    spec: ProxySpec, snapshot: Snapshot, linked: Linked, options: Options, proxy: str
) -> tuple[tuple[Finding, ...], tuple[Problem, ...]]:
    """Return what the rules find, rule by rule, and a warning for each `--ignore` without effect.

    Raises:
        ConfigError: with `--strict`, for findings that some client or reader is harmed by.
    """
    surface = Surface(tuple(_offers(spec, snapshot, linked)), proxy, options.names)
    broken = [Finding(validity.refused_entry, *hit) for hit in _refused(spec, snapshot)]
    broken += [
        Finding(rule, offer, hit)
        for rule in RULES
        for offer in surface.offers
        for hit in rule.check(offer, surface)
    ]
    findings = [
        finding
        for finding in broken
        if not any(_is_ignored(finding, word) for word in options.ignore)
    ]
    failing = [finding.as_problem() for finding in findings if finding.rule.level in FAILING]
    if options.strict and failing:
        raise ConfigError(spec.source, failing)
    idle = [
        Problem("", f"--ignore {word} ignores nothing")
        for word in dict.fromkeys(options.ignore)
        if word.partition("=")[0] != UNUSED_FILTER
        and not any(_is_ignored(finding, word) for finding in broken)
    ]
    return tuple(findings), tuple(idle)


def shortened(findings: Iterable[Finding], verbose: bool) -> list[Problem]:
    """Return findings as they are shown: of each rule one that stands for all, unless each is.

    Of entries that are refused, one line for each server.
    """
    if verbose:
        return [finding.as_problem() for finding in findings]
    by_rule: dict[str, list[Finding]] = {}
    refused: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.rule is validity.refused_entry:
            refused.setdefault(finding.offer.path, []).append(finding)
        else:
            by_rule.setdefault(finding.rule.name, []).append(finding)
    problems = [_in_one_line(group) for group in refused.values()]
    for rule, group in by_rule.items():
        first, *more = group
        problem = first.as_problem()
        if more:
            names = name_list([*dict.fromkeys(finding.offer.target for finding in more)], SHOWN)
            what = f"{problem.what}; and {len(more)} more: {names}"
            problem = Problem(problem.where, what, f"-v shows each, --ignore {rule} none")
        problems.append(problem)
    return problems


def _in_one_line(findings: list[Finding]) -> Problem:
    """Return what one rule finds in one server as one problem; what is alike is counted."""
    first = findings[0]
    if len(findings) == 1:
        return first.as_problem()
    alike: dict[tuple[str, ...], list[str]] = {}
    for finding in findings:
        names = alike.setdefault((finding.offer.kind, finding.hit.pointer, finding.hit.what), [])
        names.append(f"'{finding.offer.name}'")
    parts = []
    for (kind, *place_and_what), names in alike.items():
        about = (
            f"{count(len(names), kind)} (first {names[0]})" if names[1:] else f"{kind} {names[0]}"
        )
        parts.append(" ".join(filter(None, (about, *place_and_what))))
    if more := parts[SHOWN:]:
        parts[SHOWN:] = [f"and {len(more)} more"]
    ignore = f"--ignore {quote(f'{first.rule.name}={first.offer.server}:*')}"
    what = f"{'; '.join(parts)}, which {first.effect} [{first.rule.name}]"
    return Problem(first.offer.path, what, f"-v shows each, {ignore} none")


def _is_ignored(finding: Finding, word: str) -> bool:
    rule, _, glob = word.partition("=")
    return rule == finding.rule.name and fnmatchcase(finding.offer.target, glob or "*")


def _offers(spec: ProxySpec, snapshot: Snapshot, linked: Linked) -> Iterator[Offer]:
    """Yield all that the proxy lists, server by server, then its composite tools."""
    listed = listed_items(snapshot, linked)
    paths = spec.paths
    for child in snapshot.children:
        path, protocol = paths[child.name], child.protocol
        about = {"serverInfo": child.info, "instructions": child.instructions or ""}
        yield Offer(child.name, "server", "about", about, path, protocol)
        for server, kind, own, value, *spelled in listed[child.name]:
            yield Offer(server, kind.name[:-1], own, value, path, protocol, *spelled)
    where = {composite.name: composite.path for composite in spec.composites}
    for _, _, own, value, *spelled in listed.get("", ()):
        yield Offer("", "tool", own, value, where[own], "", *spelled)


def _refused(spec: ProxySpec, snapshot: Snapshot) -> Iterator[tuple[Offer, Hit]]:
    """Yield what was left out of lists or mended when they were read, but for what is hidden."""
    servers = {server.name: server for server in spec.servers}
    for child in snapshot.children:
        server = servers[child.name]
        row = server.row()
        for entry in child.refused:
            if not is_hidden(KIND_OF[entry.kind], entry.name, row):
                offer = Offer(child.name, entry.kind, entry.name, {}, server.path, child.protocol)
                hit = Hit(entry.pointer, f"has {entry.what} ({entry.done})", remedy=MENDED_BY)
                yield offer, hit


def _known(names: Iterable[str]) -> str:
    return f"rules are {', '.join(names)}"
