"""Compiles the rooms that a start does not need when they are first needed."""

from __future__ import annotations

import _thread

_FOLDING = _thread.allocate_lock()
_LINES: dict[str, int] = {}


def unfold(rooms: dict[str, str], last: str) -> None:
    """Compile and take in the rooms {name: source} in their order, up to `last`, each once.

    In the emitted file, the compiler puts a call of this where a module imports such a room. Any
    thread may come by there: a room is crossed off only when it stands.
    """
    with _FOLDING:
        if not _LINES:
            _LINES.update(_lines_before(rooms))
        while last in rooms:
            name = next(iter(rooms))
            # Behind as many line ends as in the file, so that tracebacks and debuggers are right.
            code = compile("\n" * _LINES[name] + rooms[name], __file__, "exec")
            exec(code, globals())  # noqa: S102 - text of this very file, folded by the compiler
            del rooms[name]


def _lines_before(rooms: dict[str, str]) -> dict[str, int]:
    """Return how many lines stand before each room in this file; 0 if it is not there any more."""
    try:
        with open(__file__, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        text = ""
    lines, place, count = {}, 0, 0
    for name, source in rooms.items():
        found = text.find(source, place)
        if found >= 0:
            count += text.count("\n", place, found)
            place = found
        lines[name] = count if found >= 0 else 0
    return lines
