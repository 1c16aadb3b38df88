"""What the emitted file does when it is run: it gives the answers that the compiler prepared.

These are the handshake, pings and lists of the snapshot, for a client with a handshake. What has no
such answer is left to `run`, with what has been said until then: there is no second way to
give the same answer, and everything else has its place there.

A client waits for what is imported here, so that is little: see `values`, too. The other modules
of the runtime need not care.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.start.greeting import (
    cut_list,
    introduction,
    is_capable,
    list_result,
    spelling_for,
    spoken,
    version_of,
)
from mcpagg_runtime.start.opening import ABOVE, ENDING, HEAD_START_SECONDS, INTERRUPT, Opening
from mcpagg_runtime.start.values import quote, scan
from mcpagg_runtime.start.waiting import says_more

try:
    # Not os and signal, which cost a start 1 and 6 ms.
    from _signal import SIG_DFL  # type: ignore[import-not-found]
    from _signal import signal as on_signal
    from posix import (  # type: ignore[attr-defined, unused-ignore]
        _exit,
        environ,
        isatty,
        read,
        write,
    )

    POSIX = True
except ImportError:
    from nt import (  # type: ignore[attr-defined, no-redef, assignment, unused-ignore]
        _exit,
        environ,
        isatty,
        read,
        write,
    )

    POSIX = False

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Longer input is for `run`, which keeps its pieces apart.
LONG = 1 << 16


class Prepared:
    """Answers one client from the tables of the file alone."""

    def __init__(self, tables: Mapping[str, Any], opening: Opening) -> None:
        """`tables` are those of a Plan; `opening` gets what is said."""
        self.tables = tables
        self.opening = opening
        self.children, _ = scan(tables["children"], 0)
        self.options, _ = scan(tables["options"], 0)
        self.lists, _ = scan(tables["lists"], 0)
        self.spelling = spelling_for(self.options["names"], None)
        self.capable = False

    def may_serve(self) -> bool:
        """Whether the environment has all that servers need, and asks for nothing else."""
        needs = [name for facts in self.children.values() for name in facts.get("needs", ())]
        return all(is_set(name) for name in needs) and not is_set(ABOVE)

    def serve(self) -> None:
        """Answer what is on standard input until something has no prepared answer, or it ends."""
        opening = self.opening
        while not (opening.owed or opening.ended):
            line, end, rest = opening.unanswered.partition(b"\n")
            answer = self.answer(line) if end else self._more(line)
            if answer is None:
                break
            if end:
                opening.unanswered = rest
            if answer:
                opening.owed = answer
                opening.owed = answer[write(1, answer) :]

    def _more(self, line: bytes) -> bytes | None:
        """Read what follows the beginning of a line; None if that is for `run` to do."""
        opening = self.opening
        wants_servers = opening.initialized and self.options["start"] == "eager"
        if len(line) > LONG or (wants_servers and not says_more(HEAD_START_SECONDS)):
            return None
        data = read(0, LONG)
        opening.unanswered += data
        opening.ended = not data
        return b""

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a line, b"" if it wants none, None if there is no prepared one."""
        try:
            text = line.decode().rstrip(" \t\r")
            message, end = scan(text, 0)
        except (ValueError, StopIteration, RecursionError, SystemError):
            return None
        if type(message) is not dict or end < len(text):
            return None
        method, params = message.get("method"), message.get("params", {})
        if "id" not in message:
            if method != "notifications/initialized":
                return None
            self.opening.initialized = True
            return b""
        identifier = message["id"]
        if type(method) is not str or type(params) is not dict:
            return None
        if type(identifier) not in (int, str):
            return None
        result = self._result(line, method, params)
        if result is None:
            return None
        shown = quote(identifier) if type(identifier) is str else str(identifier)
        return f'{{"jsonrpc":"2.0","id":{shown},"result":{result}}}\n'.encode()

    def _result(self, line: bytes, method: str, params: dict[str, Any]) -> str | None:
        if method == "initialize":
            self.opening.hello = line
            about = params.get("clientInfo")
            name = about.get("name") if type(about) is dict else None
            self.spelling = spelling_for(self.options["names"], name)
            self.capable = is_capable(params.get("capabilities"))
            return self._introduction(spoken(params.get("protocolVersion")))
        if params:  # a cursor, or the envelope of a client without a handshake
            return None
        if method == "ping":
            return "{}"
        return self._list(*self.lists[method]) if method in self.lists else None

    def _introduction(self, version: str) -> str:
        tables = self.tables
        info = f'{{"name":{quote(tables["name"])},"version":"{version_of(self.children)}"}}'
        words = "\n\n".join(scan(tables["instructions"], 0)[0])
        return introduction(version, tables["capabilities"], info, words)

    def _list(self, kind: str, member: str, key: str, label: str) -> str:
        shown = []
        column = 1 if self.spelling == "portable" else 0
        routes, _ = scan(self.tables[kind], 0)
        for server, rows in routes.items():
            text = self.tables["snapshot"][server][kind]
            facts = self.children.get(server, {}) if kind == "tools" else {}
            hidden = () if self.capable else facts.get("conditional", ())
            for own, names, head, tail in cut_list(text, key, label, server, rows):
                if own not in hidden:
                    shown.append(head + quote(names[column]) + tail)
        return list_result(member, shown)


def is_set(name: str) -> bool:
    """Whether the environment has a variable. Windows ignores the case of its name."""
    known: Any = environ
    return name.encode() in known if POSIX else name.upper() in map(str.upper, known)


def leave_at_once(number: int) -> None:
    """Have a signal end this process, which has started nothing yet.

    Windows calls no handler while this thread waits for input, but ends the process itself.
    """
    on_signal(number, (lambda *_: _exit(0)) if POSIX else SIG_DFL)


def main(tables: Mapping[str, Any], file: str) -> None:
    """Serve on standard input and output, or do what the command line says instead.

    `file` is the emitted file. Does not return: threads may still wait for input that never comes.
    """
    on_signal(INTERRUPT, SIG_DFL)  # until it is handled, it ends this without a traceback
    opening = Opening()
    if len(sys.argv) == 1 and "profiles" not in tables and not isatty(0):
        try:
            prepared = Prepared(tables, opening)
            if prepared.may_serve():
                for number in ENDING:
                    leave_at_once(number)
                prepared.serve()
        except Exception:  # noqa: S110 - `run` finds out what there is to say of it
            pass
        if opening.ended and not opening.unanswered:
            _exit(0)
    from mcpagg_runtime.stdio.stdio import run

    run(tables, file, opening)
