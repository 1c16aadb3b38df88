"""The runtime in an emitted file: what every start needs is code, all other modules are texts.

A text is what `stripping` leaves of a module; Python's import system compiles it when it is first
imported (`start/embedded.py`). The file has what can be reached by imports from where it is
entered, the code and the template, by way of no module that this proxy has no use for.

A part that not every file has may extend a module of the core by one of the same use (`EXTENDED`).
Where the file has that part, all other modules import its module instead; the core knows nothing of
it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from mcpagg.passes.emission.stripping import stripped
from mcpagg.problems import InternalFault
from mcpagg_runtime.start.embedded import START

PACKAGE = "mcpagg_runtime"
EXTENDED = {
    "stdio.supervisor": "frozen.supervisor",
    "tool.commands": "frozen.commands",
}
"""{module of the core: the one that extends it, and is imported in its place where it is there}."""
TEMPLATE = "server.py.j2"
MAIN = f"{START}.main"
"""What every start runs: it is code of the file, with all that it imports at its top."""
# The imports of one module of the runtime by another, within a function or at the top.
_OWN = re.compile(rf"^( *)from {PACKAGE}\.(\w+\.\w+) import (?:\([^)]*\)|[^\n(]*)\n", re.MULTILINE)
_QUOTES = '"""'
_DIGITS = 8  # of the digest, in the name under which Python knows the modules of a file


class BundleError(InternalFault):
    """Raised for a runtime that no file can hold: a fault of ours, not of the user's."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The code of the file itself, and {folder.module: text} of the other modules."""

    code: str
    texts: dict[str, str]


def bundle(without: Collection[str] = ()) -> Bundle:
    """Return the runtime of a file; `without` are modules, and whole folders, to leave out.

    Raises:
        BundleError: there is nothing of such a name, or a module cannot do without it.
    """
    modules = _modules()
    names = {*modules, *map(_folder, modules)}
    if unknown := set(without) - names:
        raise BundleError(f"no module to leave out: {', '.join(sorted(unknown))}")
    modules = {name: _extended(name, text, without) for name, text in modules.items()}
    reached = _reached(modules, without)
    at_once = _at_once(modules)
    code = "\n".join(
        f"# {name.replace('.', '/')}.py\n{_in_one_namespace(modules[name], at_once)}"
        for name in modules
        if name in at_once
    )
    texts = {
        name: _text(name, text, at_once)
        for name, text in modules.items()
        if name in reached and name not in at_once
    }
    return Bundle(code, texts)


def _at_once(modules: Mapping[str, str]) -> set[str]:
    """Return the modules that every start needs."""
    found: set[str] = set()
    todo = [MAIN]
    while todo:
        name = todo.pop()
        if name not in found and name in modules:
            found.add(name)
            todo += [needed for at_top, needed in _imports(modules[name]) if at_top]
    return found


def _reached(modules: Mapping[str, str], without: Collection[str]) -> set[str]:
    """Return the modules that the code and the template lead to, by way of none to leave out."""
    reached: set[str] = set()
    todo = [name for name in modules if _folder(name) == START]
    todo += [name for _, name in _imports(_template())]
    while todo:
        name = todo.pop()
        if name in reached or _is_of(without, name):
            continue
        if name not in modules:
            raise BundleError(f"{name}: is imported, and there is no such module")
        reached.add(name)
        for at_top, needed in _imports(modules[name]):
            if at_top and _is_of(without, needed):
                raise BundleError(f"{name}: cannot be imported without {needed}")
            todo.append(needed)
    return reached


def _extended(name: str, text: str, without: Collection[str]) -> str:
    """Return the text of a module, which imports what extends a module in the place of that."""
    for plain, other in EXTENDED.items():
        if name != other and not _is_of(without, other):
            text = text.replace(f"from {PACKAGE}.{plain} ", f"from {PACKAGE}.{other} ")
    return text


@cache
def runtime_digest() -> str:
    """Return the digest of the whole runtime and of the template around it.

    It is the same for every proxy of one compiler, whatever modules the proxy leaves out.
    """
    text = "\0".join([_template(), *(f"{name}\0{text}" for name, text in _modules().items())])
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def package_name() -> str:
    """Return the name of the package that the modules of an emitted file are in, when it runs."""
    return f"_mcpagg_{runtime_digest().partition(':')[2][:_DIGITS]}"


@cache
def _modules() -> dict[str, str]:
    """Return {folder.module: what is left of its source}, in the order of their names."""
    files = {
        f"{folder.name}.{file.name.removesuffix('.py')}": file
        for folder in resources.files(PACKAGE).iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".py") and file.name != "__init__.py"
    }
    return {name: stripped(files[name].read_text("utf-8")) for name in sorted(files)}


@cache
def _template() -> str:
    return resources.files(PACKAGE).joinpath(TEMPLATE).read_text("utf-8")


def _folder(name: str) -> str:
    return name.partition(".")[0]


def _is_of(names: Collection[str], module: str) -> bool:
    """Whether a module, or the folder that it is in, is one of some names."""
    return module in names or _folder(module) in names


def _imports(text: str) -> Iterator[tuple[bool, str]]:
    """Yield whether an import stands at the top of a module, and the module that it names."""
    for match in _OWN.finditer(text):
        yield not match[1], match[2]


def _in_one_namespace(text: str, at_once: Collection[str]) -> str:
    """Return the text of a module of `start`, which all share the names of the file.

    What stands there already needs no import; other modules of it are run when they are asked for.
    """

    def run(match: re.Match[str]) -> str:
        indent, name = match.groups()
        if name in at_once:
            return ""
        return f'{indent}run_late("{name}")\n' if _folder(name) == START else match[0]

    return _OWN.sub(run, text)


def _text(name: str, text: str, at_once: Collection[str]) -> str:
    """Return the text of a module, as the table has it.

    Others than those of `start` have relative imports: the package has another name there.

    Raises:
        BundleError: it does not fit a raw string, or mentions the package otherwise.
    """
    if _folder(name) == START:
        text = _in_one_namespace(text, at_once)
    else:
        text = _OWN.sub(lambda match: match[0].replace(f"from {PACKAGE}.", "from ..", 1), text)
    for forbidden in (_QUOTES, PACKAGE):
        if forbidden in text:
            raise BundleError(f"{name}: holds {forbidden}")
    return text
