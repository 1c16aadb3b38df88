"""Compiles the parts of the emitted file that a start does not need when they are first needed."""

from __future__ import annotations

import _thread
import sys

# {name: (the line where its text begins, the text)}; None once the part is loaded.
_PARTS: dict[str, tuple[int, str] | None] = {}
_LOADING = _thread.RLock()


def define_part(name: str, text: str) -> None:
    """Keep the source of a part, which begins in the line of the call."""
    _PARTS[name] = (sys._getframe(1).f_lineno, text)


def load_part(name: str) -> None:
    """Compile and run a part, once, whichever threads ask for it.

    In the emitted file, the compiler writes a call of this in place of an import of a later part. A
    part whose modules import from a deferred one begins with such a call itself.
    """
    if _PARTS[name] is None:
        return
    with _LOADING:
        part = _PARTS[name]
        if part is not None:
            _run(name, *part)
            _PARTS[name] = None


def _run(name: str, line: int, text: str) -> None:
    """Compile and run the text of a part, which begins in this line of the file.

    Module by module: at once, the syntax tree of all of them would leave 15 MB in use, not 3.
    """
    heading = f"\n# {name}/"
    first, *modules = text.split(heading)
    for module in (first, *[heading[1:] + rest for rest in modules]):
        # Behind as many line ends as in the file: tracebacks and debuggers then show its lines.
        code = compile("\n" * (line - 1) + module, __file__, "exec", dont_inherit=True)
        exec(code, globals())  # noqa: S102 - text of this very file, written by the compiler
        line += module.count("\n") + 1
