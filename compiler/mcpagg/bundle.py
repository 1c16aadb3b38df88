"""Joins the runtime's modules into the parts of the emitted file.

The folders of the runtime are the parts of the emitted file. `start` stands in it as code. The
others stand in it as strings, because a script is compiled at every start: each is compiled as a
whole when it is first needed. A module may import its own part and earlier ones at its top, and
later ones only within functions, where the import becomes a call that loads the part.

The path of a module and the first line of its docstring become its heading. Imports of the standard
library are gathered at the top of a part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib import resources

from mcpagg.modules import PACKAGE, PARTS, BundleError, Module, load, runtime_modules

FIRST, *DEFERRED = PARTS


@dataclass(frozen=True, slots=True)
class Bundle:
    """The imports of the first part, its modules, and {name: source} of the deferred parts."""

    imports: str
    first: str
    deferred: dict[str, str]


def bundle(taken: Iterable[str] = (), without: Collection[str] = ()) -> Bundle:
    """Join the modules of the runtime, part by part.

    `taken` are names that the rest of the emitted file defines, and no module may. `without` are
    modules and whole parts to leave out: this proxy never calls what they define.

    Raises:
        BundleError: a module breaks a rule of joining.
    """
    modules = runtime_modules()
    parts = {part: _ordered([one for one in modules if one.part == part]) for part in PARTS}
    _refuse_doubles((one for part in parts.values() for one in part), taken)
    known = {*DEFERRED, *(one.name for one in modules)}
    if unknown := set(without) - known:
        raise BundleError(f"no module to leave out: {', '.join(sorted(unknown))}")
    kept = {
        part: [module for module in modules if not {part, module.name} & {*without}]
        for part, modules in parts.items()
    }
    deferred = {part: _deferred(part, kept[part]) for part in DEFERRED if kept[part]}
    return Bundle(_imports(kept[FIRST]), _joined(kept[FIRST]), deferred)


def runtime_digest() -> str:
    """Return the digest of the whole runtime and of the templates around it.

    It is the same for every proxy of one compiler, whatever modules the proxy leaves out.
    """
    joined = bundle()
    files = sorted(resources.files(PACKAGE).iterdir(), key=lambda file: file.name)
    templates = [file.read_text("utf-8") for file in files if file.name.endswith(".j2")]
    text = "\0".join([joined.imports, joined.first, *joined.deferred.values(), *templates])
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def _ordered(part: Iterable[Module]) -> list[Module]:
    """Return the modules of a part, each behind those that it imports.

    Raises:
        BundleError: they import one another in a circle, or one that does not exist.
    """
    modules = {module.name: module for module in part}
    ordered: dict[str, Module] = {}

    def take(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise BundleError(f"{name}: imported in a circle by {' -> '.join(above)}")
        if name in ordered:
            return
        if name not in modules:
            raise BundleError(f"{above[-1]}: imports {name}, and there is no such module")
        for other, needed in modules[name].needs:
            if other == modules[name].part:
                take(needed, (*above, name))
        ordered[name] = modules[name]

    for name in modules:
        take(name, ())
    return [*ordered.values()]


def _refuse_doubles(modules: Iterable[Module], taken: Iterable[str]) -> None:
    """Refuse a name that has two meanings: all parts share the names of one file."""
    owners = dict.fromkeys(taken, "the emitted file itself")
    for module in modules:
        meanings = dict.fromkeys(module.defines, f"{module.part}/{module.name}") | module.binds
        for name, meaning in meanings.items():
            if owners.setdefault(name, meaning) != meaning:
                raise BundleError(f"{module.name}: {name} is also defined in {owners[name]}")


def _imports(modules: Iterable[Module]) -> str:
    plain = sorted({line for module in modules for line in module.imports})
    return "\n".join([*plain, *(block for module in modules for block in module.guarded)])


def _joined(modules: Iterable[Module]) -> str:
    return "\n".join(f"# {m.heading}\n{m.code}" for m in modules)


def _deferred(part: str, modules: Iterable[Module]) -> str:
    """Return the source of a deferred part, which first loads what its modules import."""
    needed = {other for module in modules for other, _ in module.needs}
    loads = [load(other) for other in DEFERRED if other in needed and other != part]
    head = "\n".join([_imports(modules), *loads]).strip("\n")
    return f"{head}\n\n{_joined(modules)}" if head else _joined(modules)
