"""What a command asks for, where that can be frozen: packages, an image, a script, a program.

A launcher takes options, then what it is to run; all behind that belongs to the server. An option
that is not known here may change what is fetched, so it stops the freeze.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from mcpagg.passes.environment.programs import find_package, program_of
from mcpagg.passes.freezing.runners import other_program
from mcpagg_runtime.frozen.environment import NODE_OPTIONS, SEARCH_PATHS, split_node_options
from mcpagg_runtime.launch.variables import dollars

_NPM_SPEC = re.compile(r"((?:@[\w.~-]+/)?[\w~-][\w.~-]*)(?:@(.*))?", re.ASCII | re.DOTALL)
_NPM_ALIAS = re.compile(r"npm:(?:@[\w.~-]+/)?[\w.~-]+(?:@[^/:]*)?", re.ASCII)
_PYPI_AT = re.compile(r"([\w.-]+(?:\[[\w,. -]*\])?)@([\w.!+-]+)", re.ASCII)
_MINOR = re.compile(r"3\.\d+")


class NotFreezable(Exception):
    """Raised for what cannot be frozen: why, as a clause about the server, and what to do."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class NpmRequest:
    """Packages of an npm registry, {name: range or tag}, and the program of them to start.

    `program` is the name of a program, "" for that of the first package. `project`: packages of a
    project around the folder of the server would come first. `args` is how many words at the end
    are the server's own: what is resolved does not depend on them.
    """

    packages: tuple[tuple[str, str], ...]
    program: str = ""
    project: bool = True
    args: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PypiRequest:
    """Packages of a package index, as requirements, and the program of them to start.

    `python` is the version that is asked for, "" for any. `project`: an environment of a project
    around the folder of the server would come in between.
    """

    requirements: tuple[str, ...]
    program: str
    python: str = ""
    project: bool = False
    args: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """An image of Docker; `written` is how the config names it, `program` docker or podman."""

    program: str
    written: str
    args: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """A script of this machine, and the language of what runs it: python or node."""

    language: str
    written: str
    args: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """A program of this machine."""

    written: str


Request = NpmRequest | PypiRequest | ImageRequest | ScriptRequest | ProgramRequest


class _Words(NamedTuple):
    """Options, by what becomes of their values: packages, the version of Python, nothing.

    `package` has the program that is run, `more` are packages beside it.
    """

    package: frozenset[str] = frozenset()
    more: frozenset[str] = frozenset()
    python: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NPX = _Words(
    package=_words("-p --package"),
    ignored=_words(
        "-y --yes -q --quiet -s --silent --verbose --prefer-offline --prefer-online --offline"
        " --no-audit --no-fund --ignore-existing --no-update-notifier --ignore-scripts"
    ),
    valued=_words("--loglevel --cache"),
)
_UVX = _Words(
    package=_words("--from --spec"),
    more=_words("--with -w"),
    python=_words("--python -p"),
    ignored=_words(
        "-q --quiet -v --verbose --no-progress --native-tls --system-certs --offline --isolated"
        " --refresh --no-cache -n --no-env-file --managed-python --no-managed-python"
        " --no-python-downloads"
    ),
    valued=_words("--cache-dir --color --link-mode --refresh-package"),
)
_UV_RUN = _UVX._replace(package=frozenset(), ignored=_UVX.ignored | {"--no-project", "--no-sync"})
_PYTHON = _Words(
    ignored=_words("-u -I -E -s -B -O -OO -P -q -v -b -bb -d -i -x"), valued=_words("-X -W")
)
_X_OPTIONS = _words(
    "dev utf8 faulthandler tracemalloc importtime showrefcount int_max_str_digits no_debug_ranges"
    " warn_default_encoding gil cpu_count"
)
"""Values of Python's -X that change nothing of what is loaded."""
_NODE = _Words(
    ignored=_words(
        "--no-warnings --no-deprecation --trace-warnings --trace-deprecation --enable-source-maps"
        " --experimental-vm-modules --experimental-strip-types --use-system-ca --inspect"
        " --preserve-symlinks --unhandled-rejections --trace-uncaught"
    ),
    valued=_words("--max-old-space-size --stack-size"),
)


class _Scan(NamedTuple):
    """What a launcher was given: values of options, and where the first other word stands."""

    packages: list[str]
    more: list[str]
    python: str
    given: set[str]
    place: int


def read_command(command: str, args: Sequence[str], env: Mapping[str, str]) -> Request:
    """Return what a command asks for; `env` are the variables that its entry sets.

    Raises:
        NotFreezable: it cannot be frozen.
    """
    argv = [command, *args]
    _check_variables(env)
    start, name = program_of(argv)
    for words, (options, read) in _LAUNCHERS.items():
        after = start + len(words)
        if (name, *argv[start + 1 : after]) == words:
            _check_references(argv[:after])
            return read(argv, _scanned(argv, after, options, " ".join(words)))
    if name in ("docker", "podman") and argv[start + 1 : start + 2] == ["run"]:
        return _image(name, argv, start)
    language = _language(name)
    if language:
        if argv[start + 1 : start + 2] in (["-m"], ["-c"], ["-e"], ["--eval"]):
            raise NotFreezable(
                f"is started by `{name} {argv[start + 1]}`, from packages that only it knows",
                "start a package by npx or uvx, or a script by its path",
            )
        scan = _scanned(argv, start + 1, _PYTHON if language == "python" else _NODE, name)
        return _script(language, argv, scan)
    check_program(argv)
    _check_references([command])
    return ProgramRequest(command)


def check_program(argv: Sequence[str]) -> None:
    """Refuse a program that runs another one, or code: its bytes do not say what runs."""
    if why := other_program(argv):
        raise NotFreezable(
            why, "start a package by npx or uvx, an image, a script by node or python, or a program"
        )


def _language(name: str) -> str:
    if re.fullmatch(r"python(?:3(?:\.\d+)?)?", name):
        return "python"
    return "node" if name in ("node", "nodejs") else ""


def _check_variables(env: Mapping[str, str]) -> None:
    """Refuse variables that have other code loaded than what is frozen."""
    for name in SEARCH_PATHS:
        if env.get(name):
            raise NotFreezable(f"loads what its variable {name} names", f"leave {name} out")
    if others := split_node_options(env.get(NODE_OPTIONS, ""))[1]:
        option = others[0].partition("=")[0]
        why = f"has {option} in {NODE_OPTIONS}, which may change what is loaded"
        raise NotFreezable(why, "leave it out")


def _check_references(words: Sequence[str]) -> None:
    """Refuse words that depend on variables."""
    for word in words:
        if any(name for _, _, name, _ in dollars(word)):
            raise NotFreezable(
                f"is what variables say: {word}", "write it into the config as it is"
            )


def _scanned(argv: Sequence[str], start: int, options: _Words, launcher: str) -> _Scan:
    """Read the options of a launcher, up to the first other word.

    Raises:
        NotFreezable: there is an option that is not known, or nothing behind them.
    """
    scan = _Scan([], [], "", set(), len(argv))
    words = iter(range(start, len(argv)))
    for index in words:
        word = argv[index]
        if word == "--" or not word.startswith("-"):
            place = index + (word == "--")
            if place < len(argv):
                _check_references(argv[start : place + 1])
                return scan._replace(place=place)
            break
        option, equals, value = word.partition("=")
        scan.given.add(option)
        if option in options.ignored:
            continue
        if option not in options.package | options.more | options.python | options.valued:
            raise _unknown(launcher, option)
        if not equals:
            value = argv[next(words, index)]
        if option == "-X" and value.partition("=")[0] not in _X_OPTIONS:
            raise _unknown(launcher, f"-X {value}")
        if option in options.package:
            scan.packages.append(value)
        elif option in options.more:
            scan.more.append(value)
        elif option in options.python:
            scan = scan._replace(python=value)
    raise NotFreezable(f"gives {launcher} nothing to run")


def _unknown(launcher: str, option: str) -> NotFreezable:
    return NotFreezable(
        f"gives {launcher} the option {option}, which may change what is started",
        "leave it out, or put it into the settings of the tool",
    )


# npm


def _npm(argv: Sequence[str], scan: _Scan) -> NpmRequest:
    word, args = argv[scan.place], len(argv) - scan.place - 1
    specs = scan.packages or [word]
    packages = [_npm_spec(spec) for spec in specs]
    if len(dict(packages)) < len(packages):
        raise NotFreezable("names one package twice")
    return NpmRequest(tuple(packages), word if scan.packages else "", args=args)


def _dlx(argv: Sequence[str], scan: _Scan) -> NpmRequest:
    """Read what looks into no project."""
    return replace(_npm(argv, scan), project=False)


def _npm_exec(argv: Sequence[str], scan: _Scan) -> NpmRequest:
    """Read `npm exec`, which takes options for itself up to `--`, wherever they stand."""
    behind = argv[scan.place + 1 :]
    if argv[scan.place - 1] != "--" and any(word.startswith("-") for word in behind):
        raise NotFreezable("gives npm exec options behind the package", "write `--` before it")
    return _npm(argv, scan)


def _npm_spec(spec: str) -> tuple[str, str]:
    """Return the name of a package, and the range or tag that is asked for."""
    match = _NPM_SPEC.fullmatch(spec)
    wanted = (match[2] or "latest") if match else ":"
    if not match or (set("/:") & set(wanted) and not _NPM_ALIAS.fullmatch(wanted)):
        raise NotFreezable(f"starts {spec}, which is no package of a registry")
    return match[1], wanted


# PyPI


def _uvx(argv: Sequence[str], scan: _Scan) -> PypiRequest:
    word, args = argv[scan.place], len(argv) - scan.place - 1
    if len(scan.packages) > 1:
        raise NotFreezable("names several packages to start")
    if not scan.packages and word.endswith(".py"):
        raise NotFreezable(f"starts {word}, which is a script and no package")
    first = _requirement(scan.packages[0] if scan.packages else word)
    program = word if scan.packages else Requirement(first).name
    more = [one for given in scan.more for one in _requirements(given)]
    return PypiRequest((first, *more), program, _python(scan.python), args=args)


def _uv_run(argv: Sequence[str], scan: _Scan) -> PypiRequest:
    word, args = argv[scan.place], len(argv) - scan.place - 1
    if not scan.more:
        raise NotFreezable(
            "runs a project or a script by `uv run`",
            "start a package: uvx --from PACKAGE PROGRAM, or `uv run --no-project --with PACKAGE`",
        )
    if _language(word) or word.endswith(".py") or "/" in word:
        raise NotFreezable(f"runs {word}, which is no program of its packages")
    requirements = tuple(one for given in scan.more for one in _requirements(given))
    project = not scan.given & {"--no-project", "--isolated"}
    return PypiRequest(requirements, word, _python(scan.python), project, args)


def _python(version: str) -> str:
    if version and not _MINOR.fullmatch(version):
        raise NotFreezable(
            f"asks for Python {version}", "write the version as 3.X, or leave it out"
        )
    return version


def _requirements(given: str) -> Iterator[str]:
    """Yield the packages of one option; a comma separates them, or stands within one."""
    try:
        yield _requirement(given)
    except NotFreezable:
        if "," not in given:
            raise
        yield from (_requirement(part.strip()) for part in given.split(","))


def _requirement(written: str) -> str:
    at = _PYPI_AT.fullmatch(written)
    if at:
        written = at[1] if at[2] == "latest" else f"{at[1]}=={at[2]}"
    try:
        requirement = Requirement(written)
    except InvalidRequirement:
        requirement = None
    if requirement is None or requirement.url:
        raise NotFreezable(f"starts {written}, which is no package of an index")
    return str(requirement)


# What is no package


def _image(program: str, argv: Sequence[str], start: int) -> ImageRequest:
    package = find_package(argv[0], argv[1:])
    if package is None:
        raise NotFreezable(f"gives {program} run no image")
    _check_references([package.written])
    return ImageRequest(program, package.written, len(argv) - package.place - 2)


def _script(language: str, argv: Sequence[str], scan: _Scan) -> ScriptRequest:
    if argv[scan.place - 1] == "--":
        raise NotFreezable(f"gives {language} a script behind `--`", "leave `--` out")
    return ScriptRequest(language, argv[scan.place], len(argv) - scan.place - 1)


_Reader = Callable[[Sequence[str], _Scan], Request]
_LAUNCHERS: dict[tuple[str, ...], tuple[_Words, _Reader]] = {
    ("npx",): (_NPX, _npm),
    ("pnpx",): (_NPX, _dlx),
    ("bunx",): (_NPX, _npm),
    ("bun", "x"): (_NPX, _npm),
    ("npm", "exec"): (_NPX, _npm_exec),
    ("npm", "x"): (_NPX, _npm_exec),
    ("pnpm", "dlx"): (_NPX, _dlx),
    ("yarn", "dlx"): (_NPX, _dlx),
    ("uvx",): (_UVX, _uvx),
    ("uv", "tool", "run"): (_UVX, _uvx),
    ("uv", "x"): (_UVX, _uvx),
    ("uv", "run"): (_UV_RUN, _uv_run),
    ("pipx", "run"): (_UVX, _uvx),
}
