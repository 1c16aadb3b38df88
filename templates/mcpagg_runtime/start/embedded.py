"""Imports the modules that the emitted file holds as text, when they are first needed.

The modules of this folder are code of the file itself; those that few starts need are texts until
then, which `run_late` runs. All others are texts in a table of it, in a package of its own name, so
that several emitted files can run in one process.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

START = "start"
"""The folder whose modules are code of the file itself."""
# A spare descriptor, closed where none is left: importing a module opens files, also of the one
# that reports that too many are open.
SPARE: list[int] = []


class Embedded:
    """A finder and loader of Python's import system, for the modules of one emitted file."""

    def __init__(
        self, package: str, texts: dict[str, str], names: Mapping[str, Any], end: int
    ) -> None:
        """`package` is the name of the package; `texts` {folder.module: text} are the modules.

        `names` are those of the emitted file, whose table of texts ends in the line `end`.
        """
        self.package = package
        self.texts = texts
        self.names = names
        self.end = end
        self.lines: dict[str, int] = {}
        """{folder.module: the line in which its text begins}, once a module has been imported."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return the spec of a module, None if it is not ours."""
        package, own = name.partition(".")[::2]
        if package != self.package:
            return None
        is_package = "." not in own
        if not (is_package or own in self.texts or own.startswith(f"{START}.")):
            return None
        new_spec: Any = type(sys.__spec__)  # ModuleSpec, without the import of a module
        file = self.names["__file__"]
        spec: ModuleSpec = new_spec(name, self, origin=file, is_package=is_package)
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        return  # Python creates it as it creates others

    def exec_module(self, module: ModuleType) -> None:
        """Run the text of a module; a module of `start` gets the names of the emitted file."""
        _, _, own = module.__name__.partition(".")
        if own.startswith(f"{START}."):
            if own in self.texts:
                self.names["run_late"](own)
            code = self.names.items()
            vars(module).update({name: value for name, value in code if name[:2] != "__"})
        elif own in self.texts:
            self._run(own, vars(module))

    def _run(self, own: str, names: dict[str, Any]) -> None:
        names["__file__"] = file = self.names["__file__"]
        code = compile(self.texts[own], file, "exec", dont_inherit=True)
        code = _with_line_offset(code, self._line(own) - 1)
        try:
            exec(code, names)  # noqa: S102 - text of this very file
        except (ImportError, OSError):
            if not SPARE:
                raise
            import os

            os.close(SPARE.pop())
            exec(code, names)  # noqa: S102

    def _line(self, own: str) -> int:
        """Return the line of the file in which the text of a module begins."""
        if own not in self.lines:  # one line stands between two texts
            line = self.end
            for name in reversed(self.texts):
                line -= self.texts[name].count("\n") + 1
                self.lines[name] = line
        return self.lines[own]


def _with_line_offset(code: CodeType, lines: int) -> CodeType:
    """Return code with its line numbers raised, so that tracebacks show lines of the file.

    To compile it with so many line ends in front would take a sixth longer.
    """
    inner = [
        _with_line_offset(const, lines) if type(const) is type(code) else const
        for const in code.co_consts
    ]
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_consts=tuple(inner))


def embed(package: str, texts: dict[str, str], names: Mapping[str, Any], end: int) -> None:
    """Have Python import the modules of the emitted file, see `Embedded`."""
    sys.meta_path.insert(0, Embedded(package, texts, names, end))
