"""What the registries offer now of what FILE has frozen, for `--check`.

Three things are asked: what resolving now would give, and who has built what is new of it; whether
the registry still has, with the same bytes, each package that FILE lists; and which advisories
there are of these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcpagg.passes.freezing.advisories import Advisory, find_advisories
from mcpagg.passes.freezing.commands import NotFreezable, Request
from mcpagg.passes.freezing.freezing import LOCAL, Rows, requests_of
from mcpagg.passes.freezing.npm import NEEDED as NPM_NEEDED
from mcpagg.passes.freezing.npm import archives
from mcpagg.passes.freezing.pypi import NEEDED as UV_NEEDED
from mcpagg.passes.freezing.pypi import locked
from mcpagg.passes.freezing.resolving import ask_builders, in_folder, resolve, side_by_side
from mcpagg.passes.freezing.running import Tool, Unresolved
from mcpagg.passes.freezing.trees import Version, hashes_of, oldest_python, pins
from mcpagg.problems import Problem, name_list
from mcpagg.spec import ProxySpec
from mcpagg_runtime.frozen.table import SOURCE, NpmTree, PypiTree, read_frozen
from mcpagg_runtime.launch.launch import Launch

if TYPE_CHECKING:
    from mcpagg.job import Job
    from mcpagg_runtime.frozen.table import Frozen

NOT_LEARNT = "it could not be learnt whether there are advisories of"
_ANSWERED = re.compile(r"\b(?:ETARGET|E404)\b|no version of|not found in the package registry")
"""What a registry has no such version of, in the words of npm and uv."""
_NO_PACKAGE = re.compile(r"([\w.-]+) was not found in the package registry")
_NO_VERSION = re.compile(r"no version of ([\w.-]+)==(\S+?)[\s,.]*(?: |$)")


class Offered(NamedTuple):
    """What resolving one server would give, and what became of packages that FILE lists.

    Of each of `gone` the registry has that version no more, of `other` it has other bytes.
    `unasked` is why nothing is known of advisories, "" if something is.
    """

    rows: tuple[str, ...]
    gone: frozenset[Version] = frozenset()
    other: frozenset[Version] = frozenset()
    advisories: tuple[Advisory, ...] = ()
    unasked: str = ""


def find_offered(job: Job, ready: ProxySpec, frozen: Rows) -> dict[str, Offered]:
    """Return what is offered now for the servers that are `ready` and were kept as they were.

    A server that cannot be resolved is a warning: that is no change of it.
    """
    asked = {
        name: request
        for name, request in requests_of(job, ready).asked.items()
        if name in frozen and name not in (job.refresh or ()) and not isinstance(request, LOCAL)
    }
    launches = ready.launches([*asked], job.environ, job.options.minimal, job.values)

    def work(name: str) -> Offered:
        return _offered(job, asked[name], launches[name], frozen[name])

    offered = {}
    for name, task in side_by_side(job, [*asked], work).items():
        try:
            offered[name] = task.result()
        except (Unresolved, NotFreezable) as fault:
            why = launches[name].redact(str(fault))
            what = f"server '{name}': its packages were not compared with what there is: {why}"
            job.warn([Problem(ready.paths[name], what)])
    reasons: dict[str, list[str]] = {}
    for name, found in offered.items():
        if found.unasked:
            reasons.setdefault(launches[name].redact(found.unasked), []).append(name)
    job.warn(
        Problem("", f"{NOT_LEARNT} {name_list(names)}: {why}") for why, names in reasons.items()
    )
    return offered


def _offered(job: Job, request: Request, launch: Launch, rows: Sequence[str]) -> Offered:
    """Return what is offered now in place of the rows of a server.

    Raises:
        Unresolved, NotFreezable: that cannot be found out.
    """
    before = read_frozen([*rows])
    fault: Exception | None = None
    try:
        now: Frozen = resolve(request, launch, job.options.freeze_scripts)[0]
    except (Unresolved, NotFreezable) as problem:
        now, fault = before, problem
        if not isinstance(before, NpmTree | PypiTree):
            raise
    if not isinstance(before, NpmTree | PypiTree):
        return Offered(tuple(now.rows()))
    ask_builders(now, {*hashes_of(now)} - {*hashes_of(before)}, launch)
    old, new = hashes_of(before), hashes_of(now) if fault is None else {}
    there = in_folder(lambda folder: _there(before, {*old} - {*new}, launch, folder))
    offered = compared(old, {**new, **there})
    # A registry that is away has nothing of anything.
    is_answered = len(offered.gone) < len(old) or _ANSWERED.search(str(fault))
    if fault is not None and not (is_answered and (offered.gone or offered.other)):
        raise fault
    advisories, unasked = in_folder(lambda folder: _advisories(before, launch, folder))
    return offered._replace(rows=tuple(now.rows()), advisories=advisories, unasked=unasked)


def _advisories(
    tree: NpmTree | PypiTree, launch: Launch, folder: Path
) -> tuple[tuple[Advisory, ...], str]:
    """Return the advisories of a tree, and why they could not be asked for."""
    try:
        return tuple(find_advisories(tree, launch, folder)), ""
    except Unresolved as fault:
        return (), str(fault)


def compared(
    old: Mapping[Version, frozenset[str]], now: Mapping[Version, frozenset[str]]
) -> Offered:
    """Return what became of versions, by the hashes that a registry has of each `now`.

    More hashes than before are those of wheels that were added; of what is no registry's, nothing
    is known.
    """
    known = {version: now[version] for version in old if version in now}
    gone = {version for version, hashes in known.items() if not hashes}
    other = {version for version, hashes in known.items() if hashes and not old[version] <= hashes}
    return Offered((), frozenset(gone), frozenset(other))


def _there(
    tree: NpmTree | PypiTree, versions: Collection[Version], launch: Launch, folder: Path
) -> Mapping[Version, frozenset[str]]:
    """Return the hashes that the registry has of versions of packages, none of what is gone."""
    if not versions:
        return {}
    if isinstance(tree, NpmTree):
        registered = {(one.name, one.version) for one in tree.packages if not one.url}
        npm = Tool("npm", launch, NPM_NEEDED)
        return archives([one for one in versions if one in registered], npm, folder)
    uv = Tool("uv", launch, UV_NEEDED)
    lines, oldest = pins(tree, versions), oldest_python(tree)
    there = dict.fromkeys(lines, frozenset[str]())
    built = {one.name for one in tree.packages if SOURCE in one.marks}
    while lines:
        try:
            packages = locked([*lines.values()], oldest, uv, folder, built, ["--no-deps"])
        except Unresolved as fault:
            left = {key: line for key, line in lines.items() if not _names(str(fault), *key)}
            if len(left) == len(lines):
                raise
            lines = left
        else:
            return there | {(one.name, one.version): one.hashes for one in packages}
    return there


def _names(fault: str, name: str, version: str) -> bool:
    """Whether uv says that an index has a version no more, or nothing of the package."""
    missing, absent = _NO_VERSION.search(fault), _NO_PACKAGE.search(fault)
    return (missing is not None and missing.groups() == (name, version)) or (
        absent is not None and absent[1] == name
    )
