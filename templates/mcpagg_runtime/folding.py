"""Compiles the rooms that a start does not need when they are first needed."""

from __future__ import annotations

import _thread

_FOLDING = _thread.allocate_lock()


def unfold(rooms: dict[str, str], last: str) -> None:
    """Compile and take in the rooms {name: source} in their order, up to `last`, each once.

    In the emitted file, the compiler puts a call of this where a module imports such a room. Any
    thread may come by there: a room is crossed off only when it stands.
    """
    with _FOLDING:
        while last in rooms:
            name = next(iter(rooms))
            code = compile(rooms[name], f"{__file__}:{name}", "exec")
            exec(code, globals())  # noqa: S102 - text of this very file, folded by the compiler
            del rooms[name]
