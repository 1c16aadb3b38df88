"""The first pass: a config's text, in any dialect, to a `ProxySpec`; nothing is looked up.

text ─▶ document ─▶ containers ─▶ selection ─▶ entries ─▶ beside ─▶ variables ─▶ credentials ─▶
ProxySpec
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from mcpagg.literal import is_visible
from mcpagg.passes.config import document as documents
from mcpagg.passes.config import patterns, readers
from mcpagg.passes.config.beside import report_beside
from mcpagg.passes.config.containers import RawEntry, find_servers
from mcpagg.passes.config.coordinator import (
    hidden_literals,
    masked,
    read_composites,
    read_transport,
)
from mcpagg.passes.config.credentials import find_credentials, known_format, without_formats
from mcpagg.passes.config.dialects import DEFAULTS, Dialect
from mcpagg.passes.config.entries import Defaults, read_entry
from mcpagg.passes.config.keys import STANDARD_KEYS
from mcpagg.passes.config.own import read_own
from mcpagg.passes.config.places import Place, kind, quoted, reach
from mcpagg.passes.config.restrictions import APPROVALS, says_nothing
from mcpagg.passes.config.selection import check_hosts, check_lists, select
from mcpagg.passes.config.variables import ClientVariables, look_alikes, password_inputs
from mcpagg.problems import ConfigError, Problem
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.launch.launch import Location, strings

Original = Callable[[ServerSpec], ServerSpec]
"""Returns the server that an entry stands for: see `faces`."""

_PLUGIN = b"_PLUGIN_ROOT}"
"""What ends a reference to the folder of a plugin, as all clients spell it."""
ALLOW = "--allow-secrets"
"""The option that every error about a literal credential names."""


class Steering(TypedDict, total=False):
    """What steers a reading."""

    only: Collection[str]
    """Names of servers: whatever else there is, is not judged."""
    skip: Collection[str]
    """Names of servers that are not judged."""
    defines: Mapping[str, str]
    """Values for variables that only a client could fill in."""
    stdio_only: bool
    """Whether the standard config alone is admitted."""
    allow_secrets: bool
    """Whether a literal credential is a warning, not an error."""
    original: Original
    """Returns what is read in the place of a server."""


def read_config(
    text: bytes, *, source: str, folder: Path, **steering: Unpack[Steering]
) -> tuple[ProxySpec, tuple[Problem, ...]]:
    """Return what `text` describes, and warnings.

    `source` is the config's name as the user wrote it, `folder` where it lies.

    Raises:
        ConfigError: with every problem of the config.
    """
    document = documents.parse(text, source)
    project = project_of(folder, source, text)
    return read_document(document, source=source, folder=folder, project=project, **steering)


def read_document(  # noqa: PLR0913 - all that steers a reading
    document: Any,
    *,
    source: str,
    folder: Path,
    project: Path,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    defines: Mapping[str, str] = {},
    stdio_only: bool = False,
    allow_secrets: bool = False,
    original: Original = lambda server: server,
) -> tuple[ProxySpec, tuple[Problem, ...]]:
    """Do what `read_config` does, with the value of a text; `project` is where its paths lead from.

    Raises:
        ConfigError: with every problem of the config.
    """
    root = Place()
    dialect, entries = find_servers(document, folder / Path(source).name, root)
    chosen, left_out = select(entries, dialect, only, skip, root)
    unread = {entry.place.path for entry in entries} - {entry.place.path for entry in chosen}
    documents.check(document, root, unread)
    if stdio_only:
        _check_standard(document, dialect, chosen, root)
    defaults = _defaults(document, root) if dialect.container else []
    servers = [original(server) for server in _servers(chosen, dialect, defaults, root)]
    more: dict[str, Any] = {}
    if isinstance(document, dict):
        names = [entry.name for entry in entries]
        servers = _adjusted(document, dialect, names, chosen, servers, root)
        more = _beside(document, dialect, names, root, allow_secrets)
    passwords = frozenset(password_inputs(document))
    called = _called(folder, project)
    variables = ClientVariables(defines, passwords, called, dialect.references)
    servers = [_rewritten(server, variables, root) for server in servers]
    for name in variables.unused():
        root.error(f"nothing asks for --define {quoted(name)[1:-1]}", "leave it out")
    for server in servers:
        _check_literals(server, root, allow_secrets)
    _check_formats(servers, more, root, allow_secrets)
    if root.errors:
        raise ConfigError(source, _shown(root.errors))
    spec = ProxySpec(
        source=source,
        folder=project,
        servers=tuple(servers),
        client=dialect.client,
        left_out=tuple(left_out),
        **more,
    )
    return spec, tuple(_shown(root.warnings))


def _defaults(document: Any, root: Place) -> Defaults:
    """Return what is meant for every entry that does not say otherwise."""
    defaults = [reach(document, path, root) for path in DEFAULTS]
    for value, at in defaults:
        if value is not None and not isinstance(value, dict):
            at.error(f"expected an object, found {kind(value)}")
        elif value and says_nothing(value):
            at.error("switches every server off", "compile a copy of the config without it")
    return [(value, at) for value, at in defaults if isinstance(value, dict)]


def _servers(
    chosen: list[RawEntry], dialect: Dialect, defaults: Defaults, root: Place
) -> list[ServerSpec]:
    servers = []
    for entry in chosen:
        if not is_visible(entry.name):
            entry.place.error("a server's name must be one line of visible text", "rename it")
        server = read_entry(entry.name, entry.value, entry.place, dialect, defaults)
        if server is not None:
            servers.append(server)
    return servers


def _adjusted(
    document: dict[str, Any],
    dialect: Dialect,
    names: list[str],
    chosen: list[RawEntry],
    servers: list[ServerSpec],
    root: Place,
) -> list[ServerSpec]:
    """Return the servers with what stands beside them honoured; report what cannot be.

    `names` are those of all servers, also of those that are left out.
    """
    check_lists(chosen, document, root)
    check_hosts(servers, dialect, document, root)
    if dialect.container:
        report_beside(document, dialect, [entry.name for entry in chosen], root)
    _name_approvals(chosen, root)
    servers = _enabled_tools(document, servers, root)
    switched = _switched(document, dialect, servers, names, root)
    _name_empty(servers, switched, root)
    if dialect.is_standard:
        return masked(document, switched, root)
    return switched


def _beside(
    document: dict[str, Any], dialect: Dialect, names: list[str], root: Place, allow_secrets: bool
) -> dict[str, Any]:
    """Read what of a ProxySpec stands beside the servers, which have these `names`."""
    profiles, overlays = read_own(document, names, root)
    parts: dict[str, Any] = {"profiles": profiles, "overlays": overlays}
    if dialect.is_standard:
        parts["composites"] = tuple(read_composites(document, names, root))
        parts["http"] = read_transport(document, root, allow_secrets)
    return parts


def _name_approvals(chosen: list[RawEntry], root: Place) -> None:
    """Say in one line that the client's lists of approved tools stay with the client."""
    names = [
        entry.name
        for entry in chosen
        if isinstance(entry.value, dict) and any(map(entry.value.get, APPROVALS))
    ]
    if names:
        root.warn(
            "which tools the client calls without asking is not kept, for"
            f" {', '.join(map(quoted, names))}",
            "approve the proxy's tools in the client, by their new names",
        )


def _switched(
    document: Mapping[str, Any],
    dialect: Dialect,
    servers: list[ServerSpec],
    names: list[str],
    root: Place,
) -> list[ServerSpec]:
    """Honour the client's switches for the tools of all servers, which have these `names`."""
    switches: list[patterns.ToolPattern] = []
    for path, read in dialect.tool_patterns.items():
        value, at = reach(document, path, root)
        if value is not None:
            switches += read(value, at)
    patterns.refuse_unplaced(switches, names, dialect.naming, dialect.bare)
    return [patterns.apply(switches, server, dialect.naming) for server in servers]


def _name_empty(before: list[ServerSpec], after: list[ServerSpec], root: Place) -> None:
    """Say in one line of which servers nothing is left, whatever tools they have.

    An empty list of an entry has its own warning.
    """
    names = [
        quoted(new.name)
        for old, new in zip(before, after, strict=True)
        if "*" in new.hide or (new.expose == () and old.expose is None)
    ]
    if names:
        root.warn(f"no tool is offered of {', '.join(names)}: the config's filters leave none")


def _enabled_tools(
    document: Mapping[str, Any], servers: list[ServerSpec], root: Place
) -> list[ServerSpec]:
    """Honour lists of tools that stand beside the servers: `enabledTools` by server."""
    lists = document.get("enabledTools")
    if lists is None:
        return servers
    at = root.at("enabledTools")
    if not isinstance(lists, dict):
        at.error(f"expected an object of lists by server, found {kind(lists)}")
        return servers
    chosen = []
    for server in servers:
        listed = (
            readers.allowed(lists[server.name], at.at(server.name))
            if server.name in lists
            else None
        )
        if listed and server.expose is not None:
            at.at(server.name).error(f"{server.path} has a list of its own", "keep one of them")
        chosen.append(replace(server, expose=listed.expose) if listed else server)
    return chosen


def _rewritten(server: ServerSpec, variables: ClientVariables, root: Place) -> ServerSpec:
    """Return the server with plain references for whatever only a client could fill in."""
    new = {
        location: variables.rewrite(text, location, root.of(server, location))
        for location, text in strings(server.row())
    }
    changed: dict[str, Any] = {
        field: new[Location(field)]
        for field in ("command", "cwd", "env_file", "url")
        if Location(field) in new
    }
    changed["args"] = tuple(new[Location("args", index)] for index in range(len(server.args)))
    changed["env"] = {key: new[Location("env", key)] for key in server.env}
    changed["headers"] = {key: new[Location("headers", key)] for key in server.headers}
    changed["masks"] = tuple(
        replace(mask, value=new[Location("masks", mask.name)]) for mask in server.masks
    )
    return replace(server, **changed)


def _check_literals(server: ServerSpec, root: Place, allowed: bool) -> None:
    """Report credentials that are written out, and what only looks like a reference."""
    literals = [*find_credentials(server), *hidden_literals(server)]
    credentials = {credential.location: credential for credential in literals}.values()
    for location, text in strings(server.row()):
        if all(credential.location != location for credential in credentials):
            for name, remedy in look_alikes(text, location):
                at = root.of(server, location)
                at.warn(f"holds what looks like {name}; it stays as it is", remedy)
    for credential in credentials:
        at = root.of(server, credential.location)
        if credential.placeholder:
            what = "holds a placeholder or a short word instead of a credential"
            at.warn(what, credential.remedy)
        elif allowed:
            at.warn(f"holds {credential.what}, which will stand in the output", credential.remedy)
        else:
            at.error(f"holds {credential.what}", f"{credential.remedy}, or pass {ALLOW}")


def _check_formats(
    servers: list[ServerSpec], beside: Mapping[str, Any], root: Place, allowed: bool
) -> None:
    """Report credentials of a known form in all else of which the file's tables are made."""
    parts: list[tuple[str, str]] = []
    for server in servers:
        row = server.row()
        judged = {text for _, text in strings(row)}
        parts += [(server.path, text) for text in _texts([server.name, row]) if text not in judged]
    for members in beside.values():
        for part in members if isinstance(members, tuple) else [members]:
            parts += [(getattr(part, "path", "serverTransport"), text) for text in _texts(part)]
    for path, text in parts:
        what = known_format(text)
        if what is None or any(error.where.startswith(path) for error in root.errors):
            continue
        at = Place(path, root.errors, root.warnings)
        if allowed:
            at.warn(f"holds {what}, which will stand in the output")
        else:
            at.error(f"holds {what}", f"the file would hold it: take it out, or pass {ALLOW}")


def _texts(value: object) -> Iterator[str]:
    """Yield all strings in a value, the keys of objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _texts(key)
            yield from _texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(member)
    elif is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in fields(value))
        yield from _texts([getattr(value, name) for name in names if name != "path"])


def _shown(problems: list[Problem]) -> list[Problem]:
    """Return problems, each once, without credentials that are names in the config."""
    texts = ((problem.where, problem.what, problem.remedy) for problem in problems)
    return [*dict.fromkeys(Problem(*map(without_formats, parts)) for parts in texts)]


def _check_standard(document: Any, dialect: Dialect, entries: list[RawEntry], root: Place) -> None:
    """Refuse what the standard config does not have."""
    if root.errors:
        return
    remedy = "remove it, or leave out --stdio-only"
    if not dialect.is_standard or not isinstance(document["mcpServers"], dict):
        root.error("--stdio-only reads a map called `mcpServers` alone")
        return
    beyond = [root.at(key) for key in document if key not in ("mcpServers", "$schema")]
    for _, value, place, _, _ in entries:
        if isinstance(value, dict):
            beyond += [place.at(key) for key in value if key not in STANDARD_KEYS]
            if value.get("type", "stdio") != "stdio":
                place.at("type").error("is not stdio", remedy)
            if isinstance(value.get("command"), list):
                place.at("command").error("a list is beyond the standard config", "use `args`")
    for place in beyond:
        place.error("is beyond the standard config", remedy)


def project_of(folder: Path, source: str, text: bytes = b"") -> Path:
    """Return the folder that paths are meant from, of a config in `folder`.

    A config in a hidden folder (`.vscode`, `.kiro/settings`) is meant from that folder's parent.
    A project of its own inside of a hidden folder, a worktree say, is not; nor is the folder within
    one of a file that is the folder's own: one with a hidden name, or of a plugin.
    """
    is_own = Path(source).name.startswith(".") or _PLUGIN in text
    here = folder.absolute()
    for candidate in (here,) if is_own else (here, here.parent):
        if (candidate / ".git").exists():
            break
        if candidate.name.startswith(".") and candidate.name != "..":
            return candidate.parent
    return folder


def _called(folder: Path, project: Path) -> str:
    """Return the name in messages of the folder that paths are meant from."""
    if project == folder:
        return "the folder of the config"
    return f"the folder that holds `{folder.absolute().relative_to(project).parts[0]}`"
