"""Environments of Python: the requirements that are made of the lines of a file, and their tools.

`uv` installs them, or `pip` where there is none. Only wheels whose hashes are in the file are
taken, and the source of packages that are marked so: building one runs code, and fetches what
nobody has reviewed.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from sysconfig import get_config_var
from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.coverage import is_within
from mcpagg_runtime.frozen.folders import remove
from mcpagg_runtime.frozen.records import files_below, refuse_others
from mcpagg_runtime.frozen.table import SOURCE, FrozenError
from mcpagg_runtime.frozen.uv_settings import keep_settings_out
from mcpagg_runtime.launch.platforms import WINDOWS
from mcpagg_runtime.processes.reasons import status_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpagg_runtime.frozen.programs import Programs
    from mcpagg_runtime.frozen.table import PypiPackage, PypiTree

OLDEST_UV = (0, 4, 30)
ENVIRONMENT = "env"
REQUIREMENTS = "requirements.txt"
_PIP = "pip-env"
"""The environment that has pip, which is not to be in that of the server."""
NEWEST_MINOR, OLDEST_MINOR = 20, 8
DIGEST_BYTES = 32
_PIP_OPTIONS = (
    "--require-hashes",
    "--no-deps",
    # Whatever a user's pip.conf says: these win.
    f"--prefix={ENVIRONMENT}",
    "--target=",
    "--root=",
    "--no-user",
    "--ignore-installed",
    "--no-compile",
    "--no-warn-script-location",
    "--disable-pip-version-check",
    "--no-input",
    "--retries=1",
)
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_MINOR_VERSION = re.compile(r"(?:python|pypy)3\.\d+t?")
"""The name of a Python, and of the folder below `lib` in which it finds packages."""
_OTHER_BYTES = (
    re.compile(r"Hash mismatch for `([^`=]+)==([^`]+)`"),
    re.compile(r"DO NOT MATCH THE HASHES.*?\n\s*([\w.-]+)==([\w.+!-]+) from ", re.DOTALL),
)
_UV_CAUSE = re.compile(
    r"^\s*(?:error:|\u00d7|\u2570\u2500\u25b6|\u251c\u2500\u25b6|cause:|Caused by:)\s*(.*)$",
    re.MULTILINE,
)
_PIP_CAUSE = re.compile(r"^ERROR: (.*)$", re.MULTILINE)
# The package is the last one that pip has begun with.
_PIP_BUILD = re.compile(
    r".*^Collecting (\S+).*?^ *\u00d7 ([^\n]*) did not run successfully", re.DOTALL | re.MULTILINE
)
_LINES = 4
# The current folder is no place to find modules in, though Python looks there for those of `-c`.
_PATHS = "sys.path[:] = [path for path in sys.path if path]"
_CALL = (
    f"import sys; {_PATHS}; sys.argv[0] = {{command!r}}; "
    "from {module} import {first}; sys.exit({function}())"
)
_RUN = (
    f"import runpy, sys; {_PATHS}; "
    "runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
)


def requirements_of(tree: PypiTree) -> str:
    """Return the requirements, with hashes, of an environment."""
    return "".join(f"{_with_hashes(package)}\n" for package in tree.packages)


def _with_hashes(package: PypiPackage) -> str:
    hashes = [f"--hash=sha256:{_hex(text)}" for text in package.hashes]
    return " \\\n    ".join([requirement_of(package), *hashes])


def requirement_of(package: PypiPackage) -> str:
    """Return the requirement that asks for this version of a package, and for nothing else."""
    marker = f" ; {package.marker}" if package.marker else ""
    return f"{package.name}=={package.version}{marker}"


def archives_allowed(packages: Iterable[PypiPackage]) -> list[str]:
    """Return the options of uv and pip by which they take wheels, and build no others than these.

    Of a package that is to be built, neither takes a wheel.
    """
    built = sorted({package.name for package in packages if SOURCE in package.marks})
    return ["--only-binary=:all:", *(f"--no-binary={name}" for name in built)]


def hash_text(digest: str) -> str:
    """Return a SHA-256 in hexadecimal digits as a line has it: base64url, without padding."""
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).decode("ascii").rstrip("=")


def _hex(text: str) -> str:
    """Return the hexadecimal digits of a hash of a line.

    Raises:
        FrozenError: it is none.
    """
    try:
        digest = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise FrozenError(f"cannot be read as a hash: {text}")
    return digest.hex()


def install_environment(programs: Programs, tree: PypiTree, folder: str) -> None:
    """Make the environment of a server in a folder.

    Raises:
        FrozenError: it cannot be made.
        OSError: the folder cannot be written.
    """
    with open(os.path.join(folder, REQUIREMENTS), "w", encoding="utf-8") as file:
        file.write(requirements_of(tree))
    if any(SOURCE in package.marks for package in tree.packages):
        programs.hold_nothing()
    uv = programs.find("uv")
    if uv is not None:
        own = _install_with_uv(programs, uv, tree, folder)
    else:
        own = _install_with_pip(programs, tree, folder)
    refuse_others(tree, os.path.join(folder, ENVIRONMENT), own)


def _install_with_uv(programs: Programs, uv: str, tree: PypiTree, folder: str) -> set[str]:
    """Install with uv; return the files that an environment has without packages."""
    _, output = programs.run([uv, "--version"], folder)
    version = _VERSION.search(output)
    if version is None or tuple(map(int, version.groups())) < OLDEST_UV:
        floor = ".".join(map(str, OLDEST_UV))
        found = version[0] if version else output.strip()[-200:]
        raise FrozenError(f"uv {floor} or newer is needed to install it, and {uv} is {found}")
    keep_settings_out(programs.env, folder)
    python = _own_python(tree) or tree.python  # which uv looks for on the PATH, and may fetch
    made = [uv, "venv", "--relocatable", "--no-project", "--python", python, ENVIRONMENT]
    status, output = programs.run(made, folder)
    if status:
        raise FrozenError(failure("uv", output) or f"uv venv {status_text(status)}")
    own = files_below(os.path.join(folder, ENVIRONMENT))
    sync = [uv, "pip", "sync", "--python", _python_in(folder), "--require-hashes"]
    sync += [*archives_allowed(tree.packages), "--link-mode", "copy", REQUIREMENTS]
    # Only so does uv ask no index about what it has already.
    status, output = programs.run([*sync, "--offline"], folder)
    if status:
        status, output = programs.run(sync, folder)
    if status:
        raise FrozenError(failure("uv", output) or f"uv pip sync {status_text(status)}")
    return own


def _install_with_pip(programs: Programs, tree: PypiTree, folder: str) -> set[str]:
    """Install with pip, from an environment of its own, and return the same."""
    python = _interpreter(programs, tree, folder)
    options = [*_PIP_OPTIONS, *archives_allowed(tree.packages), "-r", REQUIREMENTS]
    for step in (["venv", _PIP], ["venv", "--without-pip", ENVIRONMENT]):
        _run_python(programs, [python, "-m", *step], folder)
    own = files_below(os.path.join(folder, ENVIRONMENT))
    _run_python(programs, [_python_in(folder, _PIP), "-m", "pip", "install", *options], folder)
    remove(os.path.join(folder, _PIP))
    return own


def _run_python(programs: Programs, command: list[str], folder: str) -> None:
    """Run Python.

    Raises:
        FrozenError: it fails, with the reason in the words of pip.
    """
    status, output = programs.run(command, folder)
    if status:
        words = f"{' '.join(output.split())[-300:]} (where uv is installed, it does this instead)"
        raise FrozenError(failure("pip", output) or words)


def _own_python(tree: PypiTree) -> str:
    """Return the Python that runs this, if the lines are for such a one; "" otherwise."""
    is_usual = sys.implementation.name == "cpython" and not get_config_var("Py_GIL_DISABLED")
    return sys.executable if is_usual and is_within(sys.version_info[:3], tree.python) else ""


def _interpreter(programs: Programs, tree: PypiTree, folder: str) -> str:
    """Return a Python of one of the versions that the lines cover.

    Raises:
        FrozenError: there is none.
    """
    if own := _own_python(tree):
        return own
    numbered = [f"python3.{minor}" for minor in range(NEWEST_MINOR, OLDEST_MINOR, -1)]
    for name in ("python3", *numbered, "python"):
        found = programs.find(name)
        if found is not None:
            code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
            _, output = programs.run([found, "-c", code], folder)
            version = _VERSION.search(output)
            if version and is_within(tuple(map(int, version.groups())), tree.python):
                return found
    raise FrozenError(
        f"Python {tree.python} is needed, and is not on the PATH; or install uv, which fetches it"
    )


def failure(tool: str, output: str) -> str:
    """Say why uv or pip has failed, "" if its output does not."""
    for pattern in _OTHER_BYTES:
        other = pattern.search(output)
        if other:
            return (
                f"{other[1]} {other[2]} from the index is not what was reviewed: "
                "no hash of it is in the file"
            )
    build = _PIP_BUILD.search(output)
    if build:
        return f"pip: {build[1]} could not be built: {build[2]} failed"
    causes = (_UV_CAUSE if tool == "uv" else _PIP_CAUSE).findall(output)
    words = [" ".join(cause.split()) for cause in causes if cause.strip()]
    return f"{tool}: " + "; ".join(words[:_LINES]) if words else ""


def scripts_folder(folder: str, environment: str = ENVIRONMENT) -> str:
    """Return where the programs of an environment are."""
    return os.path.join(folder, environment, "Scripts" if WINDOWS else "bin")


def _python_in(folder: str, environment: str = ENVIRONMENT) -> str:
    """Return the Python of an environment."""
    name = "python.exe" if WINDOWS else "python"
    return os.path.join(scripts_folder(folder, environment), name)


def is_usable(folder: str) -> bool:
    """Whether the Python that an environment was made with is still there, in the same version.

    On Windows the environment has a program that starts it. Elsewhere it has a link, and what that
    leads to may have become a newer version, which looks for packages elsewhere.
    """
    python = _python_in(folder)
    if WINDOWS:
        return os.path.exists(python) and os.path.exists(_python_behind(folder))
    version = os.path.basename(os.path.realpath(python))
    packages = os.path.join(folder, ENVIRONMENT, "lib", version)
    is_same = not _MINOR_VERSION.fullmatch(version) or os.path.isdir(packages)
    return os.path.exists(python) and is_same


def _python_behind(folder: str) -> str:
    """Return the Python that an environment of Windows was made with, "" if it does not say."""
    try:
        with open(os.path.join(folder, ENVIRONMENT, "pyvenv.cfg"), encoding="utf-8") as file:
            facts = dict(re.findall(r"(?m)^(\w+)\s*=\s*(.*?)\s*$", file.read()))
        return os.path.join(facts["home"], "python.exe")
    except (OSError, ValueError, KeyError):
        return ""


def python_command(tree: PypiTree, folder: str) -> list[str]:
    """Return what starts a server from the folder that its environment is in.

    Not its script: that of an environment that can be moved is one of a shell.
    """
    command, _, place = tree.entry.partition("=")
    module, _, function = place.partition(":")
    form = _CALL if function else _RUN
    first = function.partition(".")[0]
    code = form.format(command=command, module=module, first=first, function=function)
    return [_python_in(folder), "-c", code]
