"""The table FROZEN: what a frozen server starts, down to the last package.

It is {server: [head, line, …]}: JSON with one string a line, so that a package that moves is one
line that changes, and branches merge. The head says what is started, the lines which packages it
takes, sorted as texts. Fields are separated by single spaces; a field in brackets may be missing.

    npm NAME VERSION BIN [on=PLATFORM,…] args=N
      PATH VERSION INTEGRITY [name=NAME] [os=…] [cpu=…] [libc=…] [optional] [scripts]
           [via-metadata] [url=URL] [from=BUILDER]
    pypi NAME VERSION COMMAND=MODULE:FUNCTION python>=X.Y[,<X.Z] [on=PLATFORM,…] args=N
      NAME VERSION HASH[,HASH…] [source] [from=BUILDER] [; MARKER]
    docker IMAGE DIGEST [tag=TAG] args=N
    files LANGUAGE DIGEST COUNT args=N
    program DIGEST

- `args=N`: the last N words of the command in the launch table are the server's own. They are given
  to what is started instead of the command. The word before them is the image (docker), or the
  script (files): what is checked is by that the very thing that is started.
- `on`: the platforms that the lines cover, in the words of Node (`linux-x64`, `linux-x64-musl`,
  `darwin-arm64`, `win32-x64`); without it, all.
- DIGEST is `sha256:` and 64 digits; of a docker image that of the index, for all platforms.
- npm. BIN: the script to start, below `node_modules`. PATH: where a package lies, `parent>name` for
  `node_modules/parent/node_modules/name`. INTEGRITY as in a lock. `name`: what the package is
  called where its folder has another name (an alias). `os`, `cpu`, `libc`: as in its manifest,
  joined by commas. `scripts`: its install scripts may run. `via-metadata`: the registry keeps its
  archive elsewhere than at NAME/-/NAME-VERSION.tgz. `url`: an archive that no registry has.
- pypi. MODULE:FUNCTION as in `entry_points.txt`, MODULE alone (`COMMAND=MODULE`) for
  `python -m MODULE`. `python`: versions that the lines cover. HASH: SHA-256 of a wheel in
  base64url, without padding. `source`: of the source distribution, which is built where it is
  installed. MARKER: as PEP 508 has it. One package may have several lines.
- `from`: the repository that built it, as the registry says (`github.com/OWNER/REPO`); `none`: the
  registry names none. Without the flag nothing is known. It has no part in what is installed.
- files. LANGUAGE: `python` or `node`; the digest is that of `local.files_digest`, COUNT how many
  files it covers. program: the digest of the file that the command names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.shapes import NESTED, SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Union

    Frozen = Union["NpmTree", "PypiTree", "DockerImage", "LocalFiles", "Program"]

LISTED = ("os", "cpu", "libc")
"""Flags of an npm package that hold a list."""
MARKS = ("optional", "scripts", "via-metadata")
"""Flags of an npm package that are there or not."""
SOURCE = "source"
"""The flag of a Python package that is built from its source."""
UNATTESTED = "none"
"""In place of a builder: the registry has no attestation that names one."""


class FrozenError(ValueError):
    """Raised for a server that cannot be started as it was frozen.

    `str()` completes "Server 'x' could not be started: …".
    """


class Unreadable(FrozenError):
    """Raised for rows that are none of a frozen server."""


class NpmPackage:
    """A package of an npm tree: a line."""

    __slots__ = ("builder", "integrity", "listed", "marks", "name", "path", "url", "version")

    def __init__(
        self,
        path: Sequence[str],
        version: str,
        integrity: str,
        *,
        name: str = "",
        listed: dict[str, list[str]] | None = None,
        marks: Iterable[str] = (),
        url: str = "",
        builder: str = "",
    ) -> None:
        """`path`: the names of the folders, from the outermost. The rest: see above."""
        self.path = tuple(path)
        self.version = version
        self.integrity = integrity
        self.name = name or self.path[-1]
        self.listed = dict(listed or {})
        self.marks = frozenset(marks)
        self.url = url
        self.builder = builder

    def row(self) -> str:
        """Return its line.

        Raises:
            Unreadable: a field holds a space.
        """
        return _joined(*self.fields(), *_from(self))

    def fields(self) -> list[str]:
        """Return what its line says of what is installed."""
        flags = [f"name={self.name}"] if self.name != self.path[-1] else []
        flags += [f"{flag}={','.join(self.listed[flag])}" for flag in LISTED if flag in self.listed]
        flags += [mark for mark in MARKS if mark in self.marks]
        flags += [f"url={self.url}"] if self.url else []
        return [NESTED.join(self.path), self.version, self.integrity, *flags]


class NpmTree:
    """A server from an npm registry: what `node` starts, and all packages below it."""

    __slots__ = ("args", "bin", "name", "on", "packages", "version")
    kind = "npm"

    def __init__(
        self,
        name: str,
        version: str,
        bin: str,
        args: int,
        packages: Iterable[NpmPackage],
        on: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.version = version
        self.bin = bin
        self.args = args
        self.packages = list(packages)
        self.on = tuple(on)

    def rows(self) -> list[str]:
        """Return its head and lines.

        Raises:
            Unreadable: a field holds a space.
        """
        head = _joined(self.kind, self.name, self.version, self.bin, *_on(self.on), _args(self))
        return [head, *sorted(package.row() for package in self.packages)]


class PypiPackage:
    """A package of an environment of Python: a line."""

    __slots__ = ("builder", "hashes", "marker", "marks", "name", "version")

    def __init__(
        self,
        name: str,
        version: str,
        hashes: Iterable[str],
        marker: str = "",
        marks: Iterable[str] = (),
        builder: str = "",
    ) -> None:
        """`hashes`: those of the archives that may be installed, in base64url."""
        self.name = name
        self.version = version
        self.hashes = sorted(hashes)
        self.marker = marker
        self.marks = frozenset(marks)
        self.builder = builder

    def row(self) -> str:
        """Return its line.

        Raises:
            Unreadable: a field holds a space.
        """
        line = _joined(*self._archives(), *_from(self))
        return f"{line} ; {self.marker}" if self.marker else line

    def fields(self) -> list[str]:
        """Return what its line says of what is installed."""
        return [*self._archives(), *([";", self.marker] if self.marker else [])]

    def _archives(self) -> list[str]:
        return [self.name, self.version, ",".join(self.hashes), *sorted(self.marks)]


class PypiTree:
    """A server from a package index: what Python starts, and all packages of its environment."""

    __slots__ = ("args", "entry", "name", "on", "packages", "python", "version")
    kind = "pypi"

    def __init__(
        self,
        name: str,
        version: str,
        entry: str,
        python: str,
        args: int,
        packages: Iterable[PypiPackage],
        on: Sequence[str] = (),
    ) -> None:
        """`entry`: COMMAND=MODULE:FUNCTION; `python`: `>=3.10`, say."""
        self.name = name
        self.version = version
        self.entry = entry
        self.python = python
        self.args = args
        self.packages = list(packages)
        self.on = tuple(on)

    def rows(self) -> list[str]:
        """Return its head and lines.

        Raises:
            Unreadable: a field holds a space.
        """
        fields = (self.kind, self.name, self.version, self.entry, f"python{self.python}")
        head = _joined(*fields, *_on(self.on), _args(self))
        return [head, *sorted(package.row() for package in self.packages)]


class DockerImage:
    """A server in an image: the digest takes the place of the tag."""

    __slots__ = ("args", "digest", "image", "tag")
    kind = "docker"

    def __init__(self, image: str, digest: str, args: int, tag: str = "") -> None:
        """`image` is its name without tag; `tag` what the config had behind it, if anything."""
        self.image = image
        self.digest = digest
        self.args = args
        self.tag = tag

    def rows(self) -> list[str]:
        """Return its head."""
        tag = [f"tag={self.tag}"] if self.tag else []
        return [_joined(self.kind, self.image, self.digest, *tag, _args(self))]


class LocalFiles:
    """A script of this machine, with what beside it an interpreter can load."""

    __slots__ = ("args", "count", "digest", "language")
    kind = "files"

    def __init__(self, language: str, digest: str, count: int, args: int) -> None:
        self.language = language
        self.digest = digest
        self.count = count
        self.args = args

    def rows(self) -> list[str]:
        """Return its head."""
        return [_joined(self.kind, self.language, self.digest, str(self.count), _args(self))]


class Program:
    """A program of this machine."""

    __slots__ = ("digest",)
    kind = "program"

    def __init__(self, digest: str) -> None:
        self.digest = digest

    def rows(self) -> list[str]:
        """Return its head."""
        return [_joined(self.kind, self.digest)]


def read_frozen(rows: Sequence[str]) -> Frozen:
    """Return what the rows of a server say.

    Raises:
        Unreadable: they are none of this table.
    """
    try:
        kind, *fields = rows[0].split(" ")
        reader = _READERS[kind]
        if rows[1:] and kind not in (NpmTree.kind, PypiTree.kind):
            raise Unreadable(f"cannot be read as it is frozen: {rows[1]} is of no tree")
        lines = rows[1:]
        _refuse_twice(lines if kind == PypiTree.kind else [line.split(" ")[0] for line in lines])
        return reader(fields, lines)
    except Unreadable:
        raise
    except (LookupError, ValueError, TypeError, AttributeError) as problem:
        shown = rows[0] if rows else ""
        raise Unreadable(f"cannot be read as a frozen server: {shown}") from problem


def _refuse_twice(lines: Sequence[str]) -> None:
    """Refuse two lines of one package: of npm, for one path.

    Raises:
        Unreadable: there are such.
    """
    if len(set(lines)) < len(lines):
        twice = next(line for line in lines if lines.count(line) > 1)
        raise Unreadable(f"cannot be read as it is frozen: {twice} is there twice")


def _npm(fields: list[str], lines: Sequence[str]) -> NpmTree:
    name, version, script, *flags = fields
    given = _flags(flags, "on", "args")
    packages = [_npm_package(line) for line in lines]
    return NpmTree(
        _shaped("name", name),
        _shaped("version", version),
        _shaped("bin", script),
        _number(given["args"]),
        packages,
        _listed(given.get("on")),
    )


def _npm_package(line: str) -> NpmPackage:
    path, version, integrity, *flags = line.split(" ")
    given = _flags(flags, *LISTED, *MARKS, "name", "url", "from")
    return NpmPackage(
        _shaped("path", path).split(NESTED),
        _shaped("version", version),
        _shaped("integrity", integrity),
        name=_shaped("name", given["name"]) if "name" in given else "",
        listed={flag: _listed(given[flag]) for flag in LISTED if flag in given},
        marks=[mark for mark in MARKS if mark in given],
        url=_shaped("url", given["url"]) if "url" in given else "",
        builder=_builder(given),
    )


def _pypi(fields: list[str], lines: Sequence[str]) -> PypiTree:
    name, version, entry, python, *flags = fields
    given = _flags(flags, "on", "args")
    packages = [_pypi_package(line) for line in lines]
    return PypiTree(
        _shaped("distribution", name),
        _shaped("version", version),
        _shaped("entry", entry),
        _shaped("python", python)[len("python") :],
        _number(given["args"]),
        packages,
        _listed(given.get("on")),
    )


def _pypi_package(line: str) -> PypiPackage:
    plain, semicolon, marker = line.partition(" ; ")
    name, version, hashes, *flags = plain.split(" ")
    given = _flags(flags, SOURCE, "from")
    return PypiPackage(
        _shaped("distribution", name),
        _shaped("version", version),
        _shaped("hashes", hashes).split(","),
        _shaped("marker", marker) if semicolon else "",
        [mark for mark in (SOURCE,) if mark in given],
        _builder(given),
    )


def _docker(fields: list[str], lines: Sequence[str]) -> DockerImage:
    image, digest, *flags = fields
    given = _flags(flags, "tag", "args")
    tag = _shaped("tag", given["tag"]) if "tag" in given else ""
    image, digest = _shaped("image", image), _shaped("digest", digest)
    return DockerImage(image, digest, _number(given["args"]), tag)


def _files(fields: list[str], lines: Sequence[str]) -> LocalFiles:
    language, digest, count, args = fields
    given = _flags([args], "args")
    language, digest = _shaped("language", language), _shaped("digest", digest)
    return LocalFiles(language, digest, _number(count), _number(given["args"]))


def _program(fields: list[str], lines: Sequence[str]) -> Program:
    (digest,) = fields
    return Program(_shaped("digest", digest))


_READERS: Mapping[str, Callable[[list[str], Sequence[str]], Frozen]] = {
    NpmTree.kind: _npm,
    PypiTree.kind: _pypi,
    DockerImage.kind: _docker,
    LocalFiles.kind: _files,
    Program.kind: _program,
}


def _flags(words: Iterable[str], *known: str) -> dict[str, str]:
    """Return {flag: its value, "" for none}.

    Raises:
        Unreadable: one is not known, or is there twice.
    """
    given: dict[str, str] = {}
    for word in words:
        flag, _, value = word.partition("=")
        if flag not in known or flag in given:
            raise Unreadable(f"cannot be read as it is frozen: {word}?")
        given[flag] = value
    return given


def _shaped(shape: str, text: str) -> str:
    """Return a field that has its shape.

    Raises:
        Unreadable: it has another one.
    """
    if not SHAPES[shape].fullmatch(text):
        raise Unreadable(f"cannot be read as it is frozen: {text!r} is no {shape}")
    return text


def _number(text: str) -> int:
    return int(_shaped("number", text))


def _listed(value: str | None) -> list[str]:
    return _shaped("list", value).split(",") if value is not None else []


def _builder(given: Mapping[str, str]) -> str:
    return _shaped("builder", given["from"]) if "from" in given else ""


def _from(package: NpmPackage | PypiPackage) -> list[str]:
    return [f"from={package.builder}"] if package.builder else []


def _on(platforms: Sequence[str]) -> list[str]:
    return [f"on={','.join(platforms)}"] if platforms else []


def _args(frozen: NpmTree | PypiTree | DockerImage | LocalFiles) -> str:
    return f"args={frozen.args}"


def _joined(*fields: str) -> str:
    for field in fields:
        if not field or field.split() != [field]:
            raise Unreadable(f"a field of a line is empty, or holds a space: {field!r}")
    return " ".join(fields)
