"""Starts the servers of a compilation, less those that an earlier run has asked just now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from mcpagg.job import Job
from mcpagg.problems import ChildFault, count, some
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec

if TYPE_CHECKING:
    from mcpagg.passes.discovery.discovery import Found
    from mcpagg.passes.discovery.kept import Known


def survey(job: Job, spec: ProxySpec, ready: ProxySpec, before: Snapshot) -> Snapshot:
    """Start the servers of `spec` that are `ready`, and return what they say.

    Its order is that of what they said before.

    Raises:
        ChildFault: one fails, and that is not allowed, or repeats a secret.
    """
    from mcpagg.passes.discovery.kept import Kept
    from mcpagg.passes.discovery.ordering import in_order_of

    options = job.options
    kept = Kept(spec, job.environ, options.minimal) if job.may_know else None
    known = kept.find([server.name for server in ready.servers]) if kept else {}
    if known:
        said = f"{count(len(known), 'server')} not asked again, from the run that failed"
        oldest = max(one.seconds for one in known.values())
        job.listener.progress("", f"{said} {oldest:.0f} s ago: {some([*known])}")
    found = ask(job, spec, ready, known)
    job.warn_of(found.warnings)
    if not options.allow_secrets:
        from mcpagg.passes.discovery.leaks import leaks

        if problems := leaks(spec, found.snapshot, job.environ, minimal=options.minimal):
            raise ChildFault(spec.source, problems)
    number = kept.keep(found.snapshot.children, known) if kept else 0
    if found.failures and not options.allow_failed:
        raise ChildFault(job.source.name, found.failures, _advice(job, found, number))
    if found.failures:
        job.listener.failed(found.failures, _advice(job, found))
    snapshot = in_order_of(before, found.snapshot)
    return snapshot.with_known_ttl(before) if job.check else snapshot


def ask(
    job: Job, spec: ProxySpec, ready: ProxySpec, known: Mapping[str, Known] = MappingProxyType({})
) -> Found:
    """Start the servers of `spec` that are `ready` and not `known`, and return what all say."""
    from mcpagg.passes.discovery.discovery import ALL_LINES, STDERR_TAIL_LINES, discover

    found = discover(
        spec,
        job.environ,
        asked=[server.name for server in ready.servers if server.name not in known],
        connect_timeout=job.options.connect_timeout,
        minimal=job.options.minimal,
        quoted=ALL_LINES if job.verbose else STDERR_TAIL_LINES,
        progress=job.listener.progress,
        waiting=job.listener.waiting,
    )
    children = {one.name: one for one in found.snapshot.children}
    children |= {name: one.child for name, one in known.items()}
    ordered = tuple(children[one.name] for one in ready.servers if one.name in children)
    return found._replace(snapshot=replace(found.snapshot, children=ordered))


def facts_of(job: Job, found: Found) -> list[str]:
    """Return how many servers came up, and what helps those that were late."""
    up = len(found.snapshot.children)
    facts = [f"{count(up, 'server')} of {up + len(found.failures)} came up"]
    if found.late:
        given = f"{job.options.connect_timeout:g} seconds"
        facts.append(f"--connect-timeout S gives {some(found.late)} more than {given}")
    return facts


def _advice(job: Job, found: Found, kept: int = 0) -> str:
    """Return what helps against what failed, where so many of the others are kept."""
    tips = facts_of(job, found)
    if job.options.allow_failed:
        tips.append("--refresh NAME, with -o FILE, asks one again")
    else:
        tips.append("--skip NAME leaves a server out")
        tips.append("--allow-failed goes on without those that fail")
    if kept:
        tips.append(f"for some minutes, the next run does not ask {count(kept, 'server')} again")
    return "; ".join(tips)
