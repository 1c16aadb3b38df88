"""Entries that are faces of an emitted file: `python3 -I FILE --as NAME sha256:…`.

A face stands for the server that FILE was compiled from. Whatever is compiled from a config with
faces is compiled from those servers, so that no proxy gets into itself. An entry with a digest is a
face also where FILE is gone or damaged: no other program is started so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mcpagg.options import Source
from mcpagg.passes.config.reading import Original, project_of, read_config
from mcpagg.passes.emission.output import is_emitted
from mcpagg.passes.emission.recorded import recorded_command
from mcpagg.passes.environment.environment import settle_folders
from mcpagg.passes.environment.relocation import relocated
from mcpagg.problems import ConfigError, Problem
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.launch.variables import CONFIG_FOLDER, MissingVariable, resolve
from mcpagg_runtime.start.digest import DIGEST, LEAST_DIGITS

_AS = "--as"
_WITH_DIGEST = re.compile(rf"{DIGEST}[0-9a-f]{{{LEAST_DIGITS},64}}")


class Face(NamedTuple):
    """What an entry says that is a face: the emitted file, the server in it, the digest or ""."""

    file: Path
    name: str
    digest: str


def face_of(args: Sequence[str], folder: Path) -> Face | None:
    """Return the face that a command line with these arguments starts, None if it starts none.

    Relative paths are meant from `folder`.
    """
    if args.count(_AS) != 1 or not 0 < args.index(_AS) < len(args) - 1:
        return None
    place = args.index(_AS)
    digests = [word for word in args[place + 2 :] if word.startswith(DIGEST)]
    try:
        written = resolve(args[place - 1], {CONFIG_FOLDER: str(folder)}.get)
    except MissingVariable:
        return None
    file = Path(os.path.normpath(os.path.join(folder, os.path.expanduser(written))))
    if not is_emitted(file) and not any(map(_WITH_DIGEST.fullmatch, digests)):
        return None
    return Face(file, args[place + 1], digests[0] if digests else "")


def has_faces(value: Any) -> bool:
    """Whether any entry in a config, or in a part of one, is a face with a digest."""
    members = [*value.values()] if isinstance(value, dict) else value
    if not isinstance(members, list):
        return False
    words = [member for member in members if isinstance(member, str)]
    is_face = _AS in words and any(map(_WITH_DIGEST.fullmatch, words))
    return is_face or any(map(has_faces, members))


def source_for(file: Path) -> Path:
    """Return where the source of an installed FILE lies: beside it."""
    return file.with_name(f"{file.stem}.source.json")


def source_of(file: Path) -> Path | None:
    """Return the config that FILE was compiled from, None if it does not say.

    Of one that is gone or damaged it is that of an installed one.
    """
    if not is_emitted(file):
        return source_for(file)
    words = recorded_command(file) or ["-"]
    if words[0].startswith("-"):
        return None
    return Path(os.path.normpath(file.parent / words[0]))


def read_source(file: Path) -> ProxySpec:
    """Return what the config says that an emitted file was compiled from.

    Raises:
        ConfigError: it cannot be read.
    """
    source = source_of(file)
    if source is None:
        what = "does not say which config it was compiled from"
        raise ConfigError(str(file), [Problem("", what, "compile it from a file")])
    try:
        text = source.read_bytes()
    except OSError as problem:
        what = f"cannot be read: {problem.strerror}"
        remedy = (
            f"{file} was compiled from it, which entries start; if the project was moved, --install"
            " mends them; else put it back, or have --uninstall put them back"
        )
        raise ConfigError(str(source), [Problem("", what, remedy)]) from None
    return settle_folders(read_config(text, source=str(source), folder=source.parent)[0])


def originals(source: Source) -> Original:
    """Return what finds the server that an entry of a config stands for."""
    return partial(original, folder=project_of(source.folder, source.name, source.text))


def original(server: ServerSpec, folder: Path) -> ServerSpec:
    """Return the server that an entry stands for if it is a face, else the server itself.

    Raises:
        ConfigError: the source of the face cannot be read, or does not have it.
    """
    face = face_of(server.args, folder)
    if face is None:
        return server
    spec = read_source(face.file)
    for other in spec.servers:
        if other.name == face.name:
            return _in_its_place(other, server, relocated(other.row(), spec.folder, folder))
    what = f"starts server '{face.name}' of {face.file}, whose source has no such server"
    raise ConfigError(spec.source, [Problem(server.path, what, "remove the entry")])


def _in_its_place(found: ServerSpec, face: ServerSpec, row: Mapping[str, Any]) -> ServerSpec:
    """Return a server of a source as the entry of its face has it; `row` is how it is started.

    Messages name the entry, and what its client withholds stays withheld.
    """
    return replace(
        found,
        name=face.name,
        path=face.path,
        paths={},
        command=row.get("command", ""),
        args=tuple(row.get("args", ())),
        env=row.get("env", {}),
        env_file=row.get("env_file"),
        cwd=row.get("cwd"),
        url=row.get("url", ""),
        headers=row.get("headers", {}),
        hide=(*found.hide, *face.hide),
        expose=found.expose if face.expose is None else face.expose,
    )
