"""Starts the servers of a compilation, less those whose answers lie in the cache of a failed run.

No answer may hold the value of a variable: it would be written to a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mcpagg.job import Job
from mcpagg.jsontext import dumps
from mcpagg.passes.discovery.cache import Cache, Cached
from mcpagg.passes.discovery.discovery import Discovery, discover
from mcpagg.passes.discovery.ordering import in_order_of
from mcpagg.passes.discovery.probe_connection import ALL_LINES
from mcpagg.problems import ChildFault, Problem, count, name_list
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.launch.launch import COMMON_VARIABLES, Launch
from mcpagg_runtime.launch.secrecy import Redactor
from mcpagg_runtime.lists.catalogue import KINDS
from mcpagg_runtime.processes.process import STDERR_TAIL_LINES

SHORTEST_SECRET = 8  # characters; what is shorter is a word like any other
LEAK_REMEDY = (
    "the file would hold it: mend the server, or let --allow-secrets write it all the same"
)


def survey(
    job: Job,
    spec: ProxySpec,
    ready: ProxySpec,
    before: Snapshot,
    frozen: Mapping[str, Sequence[str]],
) -> Snapshot:
    """Start the servers of `spec` that are `ready`; return their answers, in the order of `before`.

    `frozen` is the table FROZEN: what is started of these.

    Raises:
        ChildFault: one fails, and that is not allowed, or repeats a secret.
    """
    options = job.options
    cache = (
        Cache(spec, job.environ, options.minimal, job.values, frozen) if job.may_use_cache else None
    )
    cached = cache.load([server.name for server in ready.servers]) if cache else {}
    if cached:
        text = f"{count(len(cached), 'server')} not asked again, from the run that failed"
        oldest = max(entry.seconds for entry in cached.values())
        job.listener.progress("", f"{text} {oldest:.0f} s ago: {name_list([*cached])}")
    discovery = ask(job, spec, ready, cached, frozen)
    job.warn(discovery.warnings)
    if not options.allow_secrets and (problems := _leaks(job, spec, discovery.snapshot)):
        raise ChildFault(spec.source, problems)
    number = cache.store(discovery.snapshot.children, cached) if cache else 0
    if discovery.failures and not options.allow_failed:
        raise ChildFault(job.source.name, discovery.failures, _advice(job, discovery, number))
    if discovery.failures:
        job.listener.failed(discovery.failures, _advice(job, discovery))
    snapshot = in_order_of(before, discovery.snapshot)
    return snapshot.with_known_ttl(before) if job.check else snapshot


def ask(
    job: Job,
    spec: ProxySpec,
    ready: ProxySpec,
    cached: Mapping[str, Cached] = MappingProxyType({}),
    frozen: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Discovery:
    """Start the servers of `spec` that are `ready` and not `cached`; return the answers of all.

    `frozen` is as in `discover`.
    """
    discovery = discover(
        spec,
        job.environ,
        asked=[server.name for server in ready.servers if server.name not in cached],
        connect_timeout=job.options.connect_timeout,
        minimal=job.options.minimal,
        frozen=frozen,
        quoted=ALL_LINES if job.verbose else STDERR_TAIL_LINES,
        progress=job.listener.progress,
        waiting=job.listener.waiting,
        values=job.values,
    )
    children = discovery.snapshot.by_name
    children |= {name: entry.child for name, entry in cached.items()}
    ordered = tuple(children[server.name] for server in ready.servers if server.name in children)
    return discovery._replace(snapshot=replace(discovery.snapshot, children=ordered))


def outcome_of(job: Job, discovery: Discovery) -> list[str]:
    """Return how many servers came up, and what helps those that were late."""
    up = len(discovery.snapshot.children)
    facts = [f"{count(up, 'server')} of {up + len(discovery.failures)} came up"]
    if discovery.late:
        given = f"{job.options.connect_timeout:g} seconds"
        facts.append(f"--connect-timeout S gives {name_list(discovery.late)} more than {given}")
    return facts


def _advice(job: Job, discovery: Discovery, cached: int = 0) -> str:
    """Return what helps against the failures; `cached` of the other servers are in the cache."""
    tips = outcome_of(job, discovery)
    if job.options.allow_failed:
        tips.append("--refresh NAME, with -o FILE, asks one again")
    else:
        tips.append("--skip NAME leaves a server out")
        tips.append("--allow-failed goes on without those that fail")
    if cached:
        tips.append(f"for some minutes, the next run does not ask {count(cached, 'server')} again")
    return "; ".join(tips)


def _leaks(job: Job, spec: ProxySpec, snapshot: Snapshot) -> list[Problem]:
    """Return a problem for each place where a server repeats a secret that it was given.

    That is the value of a variable that its entry refers to, or that its name says is secret.
    """
    launches = spec.launches(snapshot.names, job.environ, job.options.minimal, job.values)
    problems = []
    for child in snapshot.children:
        launch = launches[child.name]
        secrets = {
            value: name
            for value, name in launch.secrets().items()
            if len(value) >= SHORTEST_SECRET and name not in COMMON_VARIABLES
        }
        redactor = Redactor(secrets)
        for place, value in _places(child, launch) if secrets else ():
            for name in redactor.names(dumps(value)):
                what = f"server '{child.name}' repeats the value of {name} in its {place}"
                problems.append(Problem(spec.paths[child.name], what, LEAK_REMEDY))
    return problems


def _places(child: ChildSnapshot, launch: Launch) -> Iterator[tuple[str, Any]]:
    yield "serverInfo", child.info
    yield "capabilities", child.capabilities
    yield "handshake", child.handshake
    yield "instructions", child.instructions
    for kind in KINDS:
        for item in child.items(kind):
            yield f"{kind.name[:-1]} '{launch.redact(item['name'])}'", item
