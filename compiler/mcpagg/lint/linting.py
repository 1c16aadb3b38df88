"""Applies the rules to what a proxy lists, less what the options say to ignore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from mcpagg.filters import UNUSED_FILTER
from mcpagg.linking import Linked
from mcpagg.lint import names, texts, validity
from mcpagg.lint.finding import Finding, Offer, Surface
from mcpagg.listed import listed_items
from mcpagg.options import Options
from mcpagg.problems import ConfigError, Problem, count, meant
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec

RULES = (
    texts.hidden_text,
    texts.look_alike,
    texts.instructions,
    names.look_alike_name,
    names.refused_name,
    validity.no_object,
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


def check_ignored(options: Options) -> None:
    """Check what `--ignore` names.

    Raises:
        ConfigError: there is no such rule.
    """
    known = [*(rule.name for rule in RULES), UNUSED_FILTER]
    problems = [
        Problem("", f"--ignore: there is no rule '{name}'", meant(name, known) or _known(known))
        for name in (word.partition("=")[0] for word in options.ignore)
        if name not in known
    ]
    if problems:
        raise ConfigError("mcpagg-compile", problems)


def lint(
    spec: ProxySpec, snapshot: Snapshot, linked: Linked, options: Options, proxy: str
) -> tuple[tuple[Finding, ...], tuple[Problem, ...]]:
    """Return what the rules find, rule by rule, and a warning for each `--ignore` without effect.

    Raises:
        ConfigError: with `--strict`, for findings that some client or reader is harmed by.
    """
    surface = Surface(tuple(_offers(spec, snapshot, linked)), proxy, options.names)
    found = [
        Finding(rule, offer, hit)
        for rule in RULES
        for offer in surface.offers
        for hit in rule.check(offer, surface)
    ]
    ignored = {word: [one for one in found if _is_ignored(one, word)] for word in options.ignore}
    findings = [one for one in found if not any(one in some for some in ignored.values())]
    failing = [one.as_problem() for one in findings if one.rule.level in FAILING]
    if options.strict and failing:
        raise ConfigError(spec.source, failing)
    idle = [
        Problem("", f"--ignore {word} ignores nothing")
        for word, some in ignored.items()
        if not some and word.partition("=")[0] != UNUSED_FILTER
    ]
    return tuple(findings), tuple(idle)


def shortened(findings: Iterable[Finding], verbose: bool) -> list[Problem]:
    """Return findings as they are shown: of each rule the first few, unless all are wanted."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule.name, []).append(finding)
    problems = []
    for rule, found in by_rule.items():
        shown = len(found) if verbose else SHOWN
        problems += [finding.as_problem() for finding in found[:shown]]
        if more := found[shown:]:
            servers = ", ".join(dict.fromkeys(f"'{finding.offer.server}'" for finding in more))
            what = f"{count(len(more), 'more finding')} of {servers} [{rule}]"
            problems.append(Problem("", what, f"-v shows all, --ignore {rule} none"))
    return problems


def _is_ignored(finding: Finding, word: str) -> bool:
    """Whether RULE or RULE=SERVER:TOOL means a finding."""
    rule, _, glob = word.partition("=")
    return rule == finding.rule.name and fnmatchcase(finding.offer.target, glob or "*")


def _offers(spec: ProxySpec, snapshot: Snapshot, linked: Linked) -> Iterator[Offer]:
    """Yield all that the proxy lists, server by server, then its composite tools."""
    listed = listed_items(snapshot, linked)
    paths = {server.name: server.path for server in spec.servers}
    for child in snapshot.children:
        path, protocol = paths[child.name], child.protocol
        about = {"serverInfo": child.info, "instructions": child.instructions or ""}
        yield Offer(child.name, "server", "about", about, path, protocol)
        for server, kind, own, value, *spelled in listed[child.name]:
            yield Offer(server, kind.name[:-1], own, value, path, protocol, *spelled)
    where = {composite.name: composite.path for composite in spec.composites}
    for _, _, own, value, *spelled in listed.get("", ()):
        yield Offer("", "tool", own, value, where[own], "", *spelled)


def _known(names: Iterable[str]) -> str:
    return f"rules are {', '.join(names)}"
