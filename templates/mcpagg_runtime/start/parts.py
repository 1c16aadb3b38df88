"""The emitted file itself: where it lies, and its parts, compiled when they are first needed."""

from __future__ import annotations

import _thread
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

# {name: (the line where its text begins, the text)}; None once the part is loaded.
_PARTS: dict[str, tuple[int, str] | None] = {}
_LOADING = _thread.RLock()
# A descriptor that is kept for when there is no other: a part may import modules, which opens
# files, and what reports that there are too many open is in such a part.
SPARE: list[int] = []


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
            try:
                _run(name, *part)
            except (ImportError, OSError):
                if not SPARE:
                    raise
                import os

                os.close(SPARE.pop())
                _run(name, *part)
            _PARTS[name] = None


def _run(name: str, line: int, text: str) -> None:
    """Compile and run the text of a part, which begins in this line of the file.

    Module by module: at once, the syntax tree of all of them would leave 15 MB in use, not 3.
    """
    heading = f"\n# {name}/"
    first, *modules = text.split(heading)
    for module in (first, *[heading[1:] + rest for rest in modules]):
        code = compile(module, __file__, "exec", dont_inherit=True)
        exec(_further_down(code, line - 1), globals())  # noqa: S102 - text of this very file
        line += module.count("\n") + 1


def _further_down(code: CodeType, lines: int) -> CodeType:
    """Return code as it is so many lines further down: tracebacks then show the file's lines.

    To compile it behind so many line ends would take a sixth longer.
    """
    inner = [
        _further_down(one, lines) if type(one) is type(code) else one for one in code.co_consts
    ]
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_consts=tuple(inner))


def own_folder(file: str) -> str:
    """Return the folder in which the emitted file lies, where links lead to it.

    That of a mapped drive of Windows would be one of the network, in which its shell starts nothing
    (`cmd.exe` goes elsewhere): there, links are followed only if the file itself is one.
    """
    import os

    is_resolved = sys.platform != "win32" or os.path.islink(file)
    return os.path.dirname(os.path.realpath(file) if is_resolved else os.path.abspath(file))
