"""The second pass: does this machine have what the config needs? Nothing is started.

What a child would be started with is worked out by the launcher of the emitted file, so what
passes here is what a start finds.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mcpagg.passes.config.places import Place, where
from mcpagg.passes.environment.relocation import is_relative
from mcpagg.problems import EnvironmentFault, Problem
from mcpagg.spec import NO_VALUES, LeftOut, ProxySpec, ServerSpec, Values
from mcpagg_runtime.launch.launch import (
    Launch,
    Launches,
    Location,
    MissingVariables,
)
from mcpagg_runtime.launch.platforms import WINDOWS
from mcpagg_runtime.launch.urls import filled_url
from mcpagg_runtime.launch.variables import CONFIG_FOLDER, BadUrl, resolve
from mcpagg_runtime.launch.windows_programs import PROGRAM_SUFFIXES

ADVICE = "--skip NAME leaves a server out, --allow-failed goes on without those that lack something"


def check_environment(
    spec: ProxySpec,
    environ: Mapping[str, str],
    *,
    asked: Collection[str] | None = None,
    recorded: Collection[str] = (),
    minimal: bool = False,
    allow_failed: bool = False,
    values: Values = NO_VALUES,
) -> tuple[ProxySpec, tuple[Problem, ...]]:
    """Return the spec of the servers to start, made ready for this machine, and warnings.

    `asked` names them, None for all; the others need nothing. With `allow_failed`, servers that
    lack something are not started, and what they lack is a warning; they are left out, except for
    those of `recorded`, whose snapshot is at hand.

    A server without a `cwd` that names a file of the config's folder gets that folder as its own:
    the children of a project's config expect to be started there. `minimal`: children get the
    basic variables of the environment only. `values` are as in `Job`.

    Raises:
        EnvironmentFault: with every variable, program and folder that is missing, if that is not
            allowed, or no server is left.
    """
    spec = settle_folders(spec)
    judged = [server for server in spec.servers if asked is None or server.name in asked]
    launches = Launches(spec.rows, environ, str(spec.folder), minimal)
    missing = {
        server.name: _missing(
            server, launches.replaced({**environ, **values.get(server.name, {})}), spec.folder
        )
        for server in judged
    }
    problems = [problem for faults in missing.values() for problem in faults]
    ready = [server for server in judged if not missing[server.name]]
    is_any_left = ready or any(server.name in recorded for server in spec.servers)
    if problems and not (allow_failed and is_any_left):
        raise EnvironmentFault(spec.source, problems, "" if allow_failed else ADVICE)
    lacking = [
        LeftOut(name=server.name, path=server.path, why="it lacks what a start needs")
        for server in judged
        if missing[server.name] and server.name not in recorded
    ]
    for server in ready:
        own = {CONFIG_FOLDER: "", **environ, **values.get(server.name, {})}
        problems += _encoded_as_one(server, own)
    left_out = (*spec.left_out, *lacking)
    return replace(spec, servers=tuple(ready), left_out=left_out), tuple(problems)


def _encoded_as_one(server: ServerSpec, environ: Mapping[str, str]) -> list[Problem]:
    """Warn of values that look like several parts of a URL, and will be one."""
    names = filled_url(server.url, environ.get)[1] if server.url else []
    return [
        Problem(
            where(server, Location("url")),
            f"the value of {name} is encoded as one part of the URL, and looks like several",
            "write what stands between the parts into the config",
        )
        for name in names
    ]


def settle_folders(spec: ProxySpec) -> ProxySpec:
    """Give each server that names a file of the config's folder that folder as its `cwd`.

    Goes by what the config says, not by what variables hold: the same config is settled alike
    wherever its folder holds the same files.
    """
    servers = [
        (
            replace(server, cwd=".")
            if server.transport == "stdio"
            and server.cwd is None
            and _names_a_file_of(spec.folder, server.command, server.args)
            else server
        )
        for server in spec.servers
    ]
    return replace(spec, servers=tuple(servers))


def _missing(server: ServerSpec, launches: Launches, folder: Path) -> list[Problem]:
    """Return what a start of the server would not find."""
    # what starts no server needs none of it
    from mcpagg.passes.environment.programs import find_fault

    root = Place()

    launch, unknown = _launch(server, launches, folder, root)
    if server.transport != "stdio":
        return root.errors
    is_here = Location("cwd") in unknown or _report_folder(server, launch, root)
    if unknown & {Location("command"), Location("cwd"), Location("env", "PATH")}:
        return root.errors
    if not is_here and launch.argv[0].startswith(os.path.join(launch.cwd or "", "")):
        return root.errors  # a path from a folder that is not there
    if fault := find_fault(launch.argv[0], launch.env, server.command):
        root.of(server, Location("command")).error(*map(launch.redact, fault))
    return root.errors


def _launch(
    server: ServerSpec, launches: Launches, folder: Path, root: Place
) -> tuple[Launch, set[Location]]:
    """Return what would be started, and the strings in it that cannot be resolved.

    What is missing is reported and taken as empty, so that the rest can be checked all the same.
    Without its env file, what else a server lacks is not known, as the file may define it.
    """
    unknown: set[Location] = set()
    while True:  # each turn has one missing thing less
        try:
            return launches.prepare(server.name), unknown
        except MissingVariables as problem:
            for location, variable in problem.missing:
                if launches.rows[server.name].get("env_file") or not server.env_file:
                    _report_missing(server, variable, root.of(server, location))
                unknown.add(location)
            empty = {variable: "" for _, variable in problem.missing}
            launches = launches.replaced({**launches.environ, **empty})
        except BadUrl as problem:
            if Location("url") not in unknown:
                root.of(server, Location("url")).error(f"{problem}", "correct what is set")
            unknown.add(Location("url"))
            launches = _without(launches, server.name, "url")
        except (OSError, ValueError) as problem:
            if Location("env_file") not in unknown:
                _report_env_file(server, folder, problem, root.of(server, Location("env_file")))
            launches = _without(launches, server.name, "env_file")


def _without(launches: Launches, server: str, field: str) -> Launches:
    """Return launches in which a field of a server's row is empty."""
    row = {**launches.rows[server], field: ""}
    return launches.replaced(launches.environ, {**launches.rows, server: row})


def _report_env_file(server: ServerSpec, folder: Path, problem: Exception, at: Place) -> None:
    """Report an env file by its whole path, with the references that hold values left as such."""
    path = resolve(
        server.env_file or "", lambda name: str(folder) if name == CONFIG_FOLDER else f"${{{name}}}"
    )
    reason = problem.strerror if isinstance(problem, OSError) else "it is no text in UTF-8"
    whole = os.path.join(folder, path)
    at.error(f"{whole} cannot be read: {reason}", "create it, or leave it out")


def _report_missing(server: ServerSpec, variable: str, at: Place) -> None:
    at.error(
        f"server {server.name!r} needs the variable {variable}, which is not set",
        f"export {variable}, write ${{{variable}:-default}}, or $$ if a dollar was meant",
    )


def _report_folder(server: ServerSpec, launch: Launch, root: Place) -> bool:
    """Whether the child's folder is one; report it if not."""
    from mcpagg.passes.environment.programs import WINDOWS_PATH  # as above

    if launch.cwd is None or os.path.isdir(launch.cwd):
        return True
    at = root.of(server, Location("cwd"))
    if not WINDOWS and WINDOWS_PATH.match(server.cwd or ""):
        what = f"{server.cwd} is a folder of Windows, and this is another system"
        at.error(what, "write the folder here, or leave it out")
        return False
    what = "is not a directory" if os.path.exists(launch.cwd) else "does not exist"
    at.error(f"the folder {launch.redact(launch.cwd)} {what}", "create it, or correct the path")
    return False


def _names_a_file_of(folder: Path, command: str, args: Sequence[str]) -> bool:
    """Whether the command line holds a relative path to something in `folder`.

    It is read as each system would, so that all of them settle the same config alike.
    """
    words = [*args, *(word.partition("=")[2] for word in args if word.startswith("-"))]
    if "/" in command or "\\" in command:  # a bare name is one of the PATH
        words += [command + suffix for suffix in ("", *PROGRAM_SUFFIXES)]
    return any(
        spelling and is_relative(spelling) and os.path.exists(os.path.join(folder, spelling))
        for word in words
        for spelling in (word, word.replace("\\", "/"))
    )
