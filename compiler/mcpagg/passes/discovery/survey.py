"""Starts the servers of a compilation, less those that an earlier run has asked just now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from mcpagg.job import Job
from mcpagg.problems import ChildFault, count, name_list
from mcpagg.snapshot import Snapshot
from mcpagg.spec import ProxySpec

if TYPE_CHECKING:
    from mcpagg.passes.discovery.cache import Cached
    from mcpagg.passes.discovery.discovery import Discovery


def survey(job: Job, spec: ProxySpec, ready: ProxySpec, before: Snapshot) -> Snapshot:
    """Start the servers of `spec` that are `ready`, and return what they say.

    Its order is that of what they said before.

    Raises:
        ChildFault: one fails, and that is not allowed, or repeats a secret.
    """
    from mcpagg.passes.discovery.cache import Cache
    from mcpagg.passes.discovery.ordering import in_order_of

    options = job.options
    cache = Cache(spec, job.environ, options.minimal) if job.may_use_cache else None
    cached = cache.load([server.name for server in ready.servers]) if cache else {}
    if cached:
        text = f"{count(len(cached), 'server')} not asked again, from the run that failed"
        oldest = max(entry.seconds for entry in cached.values())
        job.listener.progress("", f"{text} {oldest:.0f} s ago: {name_list([*cached])}")
    discovery = ask(job, spec, ready, cached)
    job.warn(discovery.warnings)
    if not options.allow_secrets:
        from mcpagg.passes.discovery.leaks import leaks

        if problems := leaks(spec, discovery.snapshot, job.environ, minimal=options.minimal):
            raise ChildFault(spec.source, problems)
    number = cache.store(discovery.snapshot.children, cached) if cache else 0
    if discovery.failures and not options.allow_failed:
        raise ChildFault(job.source.name, discovery.failures, _advice(job, discovery, number))
    if discovery.failures:
        job.listener.failed(discovery.failures, _advice(job, discovery))
    snapshot = in_order_of(before, discovery.snapshot)
    return snapshot.with_known_ttl(before) if job.check else snapshot


def ask(
    job: Job, spec: ProxySpec, ready: ProxySpec, cached: Mapping[str, Cached] = MappingProxyType({})
) -> Discovery:
    """Start the servers of `spec` that are `ready` and not `known`, and return what all say."""
    from mcpagg.passes.discovery.discovery import ALL_LINES, LAST_WORDS_LINES, discover

    discovery = discover(
        spec,
        job.environ,
        asked=[server.name for server in ready.servers if server.name not in cached],
        connect_timeout=job.options.connect_timeout,
        minimal=job.options.minimal,
        quoted=ALL_LINES if job.verbose else LAST_WORDS_LINES,
        progress=job.listener.progress,
        waiting=job.listener.waiting,
    )
    children = discovery.snapshot.by_name
    children |= {name: entry.child for name, entry in cached.items()}
    ordered = tuple(children[server.name] for server in ready.servers if server.name in children)
    return discovery._replace(snapshot=replace(discovery.snapshot, children=ordered))


def facts_of(job: Job, discovery: Discovery) -> list[str]:
    """Return how many servers came up, and what helps those that were late."""
    up = len(discovery.snapshot.children)
    facts = [f"{count(up, 'server')} of {up + len(discovery.failures)} came up"]
    if discovery.late:
        given = f"{job.options.connect_timeout:g} seconds"
        facts.append(f"--connect-timeout S gives {name_list(discovery.late)} more than {given}")
    return facts


def _advice(job: Job, discovery: Discovery, cached: int = 0) -> str:
    """Return what helps against what failed, where so many of the others are kept."""
    tips = facts_of(job, discovery)
    if job.options.allow_failed:
        tips.append("--refresh NAME, with -o FILE, asks one again")
    else:
        tips.append("--skip NAME leaves a server out")
        tips.append("--allow-failed goes on without those that fail")
    if cached:
        tips.append(f"for some minutes, the next run does not ask {count(cached, 'server')} again")
    return "; ".join(tips)
