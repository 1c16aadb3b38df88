"""Finds the values of variables in what the children said, before that is written to a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcpagg.jsontext import dumps
from mcpagg.problems import Problem
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg.spec import ProxySpec
from mcpagg_runtime.launch.launch import COMMON_VARIABLES, Launch, Launches
from mcpagg_runtime.launch.secrecy import Redactor
from mcpagg_runtime.lists.catalogue import KINDS

SHORTEST = 8  # characters; what is shorter is a word like any other
REMEDY = "the file would hold it: mend the server, or let --allow-secrets write it all the same"


def leaks(
    spec: ProxySpec, snapshot: Snapshot, environ: Mapping[str, str], *, minimal: bool
) -> list[Problem]:
    """Return a problem for each place where a child repeats a secret that it was given.

    That is the value of a variable that its entry refers to, or that its name says is secret.
    """
    rows = {server.name: server.row() for server in spec.servers}
    paths = {server.name: server.path for server in spec.servers}
    launches = Launches(rows, environ, str(spec.folder), minimal)
    problems = []
    for child in snapshot.children:
        launch = launches.prepare(child.name)
        secrets = {
            value: name
            for value, name in launch.secrets().items()
            if len(value) >= SHORTEST and name not in COMMON_VARIABLES
        }
        redactor = Redactor(secrets)
        for place, value in _places(child, launch) if secrets else ():
            for name in redactor.names(dumps(value)):
                what = f"server '{child.name}' repeats the value of {name} in its {place}"
                problems.append(Problem(paths[child.name], what, REMEDY))
    return problems


def _places(child: ChildSnapshot, launch: Launch) -> Iterator[tuple[str, Any]]:
    yield "serverInfo", child.info
    yield "capabilities", child.capabilities
    yield "handshake", child.handshake
    yield "instructions", child.instructions
    for kind in KINDS:
        for item in child.items(kind):
            yield f"{kind.name[:-1]} '{launch.redact(item['name'])}'", item
