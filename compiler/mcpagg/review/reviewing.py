"""Compares FILE with what compiling now gives: what servers say, the runtime, and all the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagg.compiling import earlier_text
from mcpagg.literal import json_text
from mcpagg.passes.emission.output import difference, differs
from mcpagg.passes.emission.readback import cut
from mcpagg.passes.emission.recorded import Contents, Rows
from mcpagg.problems import CompileError, Problem, count
from mcpagg.review import ALWAYS, CLASSES, NEWS, STRUCTURAL
from mcpagg.review.changes import Change, ServerSummary, compare, summaries, with_command_line
from mcpagg.review.dry_run import HIDDEN, without_credentials
from mcpagg.review.packages import frozen_changes, offered_changes
from mcpagg.spec import ServerSpec
from mcpagg_runtime.launch.launch import strings
from mcpagg_runtime.launch.variables import references
from mcpagg_runtime.lists.values import ABSENT, at_pointer

if TYPE_CHECKING:
    from mcpagg.compilation import Compilation, Earlier
    from mcpagg.options import Options
    from mcpagg.review.costs import Cost
    from mcpagg.review.lint import Finding

AS_COMPILED = "what compiling now would write"
MISSING = "is missing, or empty"
NEW = "is new"
NOT_COMPARED = "its code was not compared, as only the compiler that its header names can"
OTHERWISE = "has other options, names, profiles or overlays, or was edited by hand"
OTHER_RUNTIME = f"has another runtime of the same version, or {OTHERWISE.removeprefix('has ')}"


@dataclass(frozen=True, slots=True)
class Review:
    """All that has changed. `text` is that of `file`, `since` the file that is older, "" for none.

    `counting` are the classes that fail a check, `news` those of what registries offer; `unchanged`
    is the number of servers of which nothing has changed; `diff` a unified diff of what no table of
    the file explains, "" for none. `findings` are those of lint in what is listed now; `costs` are
    (profile, those of its list of tools), that of all (None) first. `frozen` is the table FROZEN;
    where it has servers, those that are not frozen have no rows there. `errors` are why nothing can
    be compiled now: what servers say is then all that was compared, if they could be asked.
    """

    file: str
    text: str
    changes: tuple[Change, ...] = ()
    servers: tuple[ServerSummary, ...] = ()
    unchanged: int = 0
    diff: str = ""
    counting: frozenset[str] = frozenset(CLASSES)
    news: frozenset[str] = frozenset(CLASSES) - NEWS
    since: str = ""
    findings: tuple[Finding, ...] = ()
    costs: tuple[tuple[str | None, tuple[Cost, ...]], ...] = ()
    frozen: Mapping[str, Sequence[str]] = field(default_factory=dict)
    errors: tuple[Problem, ...] = ()

    @property
    def fails(self) -> bool:
        return bool(self.errors) or any(self.counts(change) for change in self.changes)

    def counts(self, change: Change) -> bool:
        """Whether a change fails a check."""
        return change.class_ in (self.news if change.is_offered else self.counting)

    @property
    def is_of_packages(self) -> bool:
        """Whether what fails is what registries have: FILE is as compiled now."""
        return all(change.is_offered for change in self.changes if self.counts(change))

    @property
    def numbers(self) -> dict[str, int]:
        """How many changes there are of each class that has some, in the order of `CLASSES`."""
        counts = Counter(change.class_ for change in self.changes)
        return {class_: counts[class_] for class_ in CLASSES if counts[class_]}

    def by_server(self) -> list[Change]:
        """Return the changes, those of a server together, the proxy's last."""
        order = {summary.name: number for number, summary in enumerate(self.servers)}
        return sorted(self.changes, key=lambda change: order.get(change.server, len(order)))

    def outcome(self) -> str:
        """Say how much has changed, if anything."""
        if self.errors and not self.changes:
            return f"{self.file} was compared with nothing"
        if not self.changes:
            return f"{self.file} is {f'as {self.since}' if self.since else AS_COMPILED}"
        since = f" since {self.since}" if self.since else ""
        return f"{self.file}: {count(len(self.changes), 'change')}{since}"

    def headline(self) -> str:
        classes = ", ".join(f"{number} {class_}" for class_, number in self.numbers.items())
        return f"{self.outcome()} ({classes})" if classes else self.outcome()


def review(
    file: Path,
    old: str,
    result: Compilation,
    fail_on: Collection[str] = (),
    since: str = "",
    *,
    structural: bool = False,
) -> Review:
    """Compare `old`, the text of `file`, or of the file called `since`, with a compilation.

    `fail_on` are the classes that count beside those that always do, none for the usual ones.
    What servers and the launch table do not explain is a change of the class `file`: FILE then is
    not even what its own snapshot would be compiled to.
    """
    usual = frozenset(STRUCTURAL if structural else CLASSES)
    named = usual & frozenset(fail_on) | ALWAYS
    comparison = Review(
        str(file),
        result.text if since else old,
        counting=named if fail_on else usual,
        news=named if fail_on else usual - NEWS,
        since=since,
        findings=result.findings,
        costs=((None, result.costs), *result.profiles.items()),
        frozen={**result.data.frozen, **dict.fromkeys(result.data.not_frozen, ())},
    )
    offered = [
        change
        for name, found in result.offered.items()
        for change in offered_changes(name, result.data.frozen[name], found)
    ]
    before, names = result.earlier.contents, result.earlier.renamed
    now = Contents(result.data.rows, result.data.snapshot, frozen=result.data.frozen)
    if not differs(old, result.text):
        return _with_servers(comparison, offered, before, now, names)
    changes = _compared(result.earlier, now, result.options)
    labels = since or f"{file} (on disk)", str(file) if since else f"{file} (compiled now)"
    compilers, rest = difference(labels, old, earlier_text(result) or result.text)
    if compilers:
        changes.append(Change("runtime", "", "proxy", "", "", NOT_COMPARED, *compilers))
    if rest or not changes:
        what = _otherwise(old, result.text) if old else NEW if since else MISSING
        changes.append(Change("file", "", "proxy", what=what))
    if result.options.allow_secrets:
        rest = _masked_diff(rest, before.rows, now.rows)
    comparison = replace(comparison, diff=rest if old else "")
    return _with_servers(comparison, [*changes, *offered], before, now, names)


def _compared(earlier: Earlier, now: Contents, options: Options) -> list[Change]:
    """Return how servers and the launch table have changed, less literal credentials."""
    before = earlier.contents.renamed(earlier.renamed)
    changes = [*compare(earlier.contents, now, earlier.renamed), *_frozen_changes(before, now)]
    if options.allow_secrets:
        return [*_without_secrets(changes, _masked(before.rows), _masked(now.rows))]
    return changes


def _with_servers(
    comparison: Review,
    changes: Sequence[Change],
    before: Contents,
    now: Contents,
    names: Mapping[str, str],
) -> Review:
    """Return a review with its changes, and what became of each server."""
    servers = summaries(changes, before, now, names)
    unchanged = len(now.rows.keys() - {summary.name for summary in servers})
    return replace(comparison, changes=tuple(changes), servers=servers, unchanged=unchanged)


def _frozen_changes(before: Contents, now: Contents) -> Iterator[Change]:
    """Yield what has changed of what is frozen, of servers that were there and still are."""
    for name in before.snapshot.by_name:
        if name in now.rows:
            yield from frozen_changes(name, before.frozen.get(name, ()), now.frozen.get(name, ()))


def review_of_fault(
    file: Path | None,
    fault: CompileError,
    known: tuple[Earlier, Contents] | None,
    options: Options,
) -> Review:
    """Return why `file` cannot be compiled, beside what has changed of what servers say.

    `known` is what the file says of them, and what they say; None if they could not be asked.
    """
    review = Review(str(file), "", errors=fault.problems)
    if known is None or not known[0].contents.rows:
        return review
    earlier, now = known
    changes = _compared(earlier, now, options)
    return _with_servers(review, changes, earlier.contents, now, earlier.renamed)


def _otherwise(old: str, text: str) -> str:
    """Say what may be other in a file that no table explains."""
    before, now = cut(old), cut(text)
    if before is None or now is None or before.compiler != now.compiler:
        return OTHERWISE
    return OTHERWISE if before.runtime_digest == now.runtime_digest else OTHER_RUNTIME


def _masked(rows: Rows) -> dict[str, dict[str, Any]]:
    """Return a launch table less its literal credentials, and what else may be one."""
    return {name: _masked_row(name, row) for name, row in rows.items()}


def _masked_row(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    masked = without_credentials(ServerSpec.from_row(name, row), row)
    for key in ("env", "headers"):
        if key in masked:
            masked[key] = {k: v if references(v) else HIDDEN for k, v in masked[key].items()}
    return masked


def _without_secrets(changes: list[Change], before: Rows, now: Rows) -> Iterator[Change]:
    """Yield changes with the values of the launch tables `before` and `now`, which are masked."""
    for change in changes:
        if change.class_ == "launch" and change.place:
            old, new = (with_command_line(rows.get(change.server, {})) for rows in (before, now))
            yield replace(
                change,
                before=change.before if change.before is ABSENT else at_pointer(old, change.place),
                after=change.after if change.after is ABSENT else at_pointer(new, change.place),
            )
        else:
            yield change


def _masked_diff(diff: str, *tables: Rows) -> str:
    """Return a diff less the literal credentials of launch tables."""
    for rows in tables:
        for name, row in _masked(rows).items():
            pairs = zip(strings(rows[name]), strings(row), strict=True)
            for text in [text for (_, text), (_, masked) in pairs if text != masked]:
                diff = diff.replace(json_text(text), json_text(HIDDEN))
    return diff
