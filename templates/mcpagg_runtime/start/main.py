"""What the emitted file does when it is run: it answers from its tables as long as it can.

These static answers are the handshake, pings and the lists of the snapshot, for a client with a
handshake. The first line that has none is left to `running.run`, which also takes over what was
read and written until then. Errors, cursors and clients without a handshake are handled there
alone.

A client waits for what is imported here, so that is little; see `values`, too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mcpagg_runtime.start.greeting import (
    cut_list,
    initialize_result,
    is_capable,
    list_result,
    negotiated_version,
    spelling_for,
    version_of,
)
from mcpagg_runtime.start.handover import (
    ABOVE,
    ENDING,
    HEAD_START_SECONDS,
    HEAD_STARTS,
    INTERRUPT,
    Handover,
)
from mcpagg_runtime.start.values import quote, scan
from mcpagg_runtime.start.waiting import has_input

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

    from mcpagg_runtime.plan.own import OwnWords

# Longer lines are left to `run`, which does not copy them at each read.
LONG = 1 << 16


class StaticAnswers:
    """Answers one client from the tables of the file alone."""

    def __init__(self, tables: Mapping[str, Any], handover: Handover) -> None:
        """`tables` are those of a Plan; `handover` gets the state of input and output.

        Raises:
            KeyError: there is no such server as is to be served as itself.
        """
        self.tables = tables
        self.handover = handover
        self.face = handover.face
        children, _ = scan(tables["children"], 0)
        self.children = {self.face: children[self.face]} if self.face else children
        self.own: OwnWords | None = None
        """What that server says of itself."""
        if self.face:
            from mcpagg_runtime.plan.own import OwnWords  # of a server as itself alone

            self.own = OwnWords(tables["snapshot"][self.face]["server"])
        self.options, _ = scan(tables["options"], 0)
        self.lists, _ = scan(tables["lists"], 0)
        self.spelling = spelling_for(self.options["names"], None)
        self.capable = False
        self.head_starts = 0
        """How often servers that are to be started have waited for the client."""

    def can_serve(self) -> bool:
        """Whether all variables that servers need are set, and no server has started us."""
        needs = [name for facts in self.children.values() for name in facts.get("needs", ())]
        return all(is_set(name) for name in needs) and not is_set(ABOVE)

    def serve(self) -> None:
        """Answer what is on standard input until something has no static answer, or it ends."""
        handover = self.handover
        while not (handover.unwritten or handover.at_end):
            line, end, rest = handover.unprocessed.partition(b"\n")
            answer = self.answer(line) if end else self._more(line)
            if answer is None:
                break
            if end:
                handover.unprocessed = rest
            if answer:
                handover.unwritten = answer
                handover.unwritten = answer[write(1, answer) :]

    def _more(self, line: bytes) -> bytes | None:
        """Read on behind an incomplete line; return b"", or None if `run` is to read on."""
        handover = self.handover
        if len(line) > LONG:
            return None
        if handover.initialized and self.options["start"] == "eager":
            self.head_starts += 1
            if self.head_starts > HEAD_STARTS or not has_input(HEAD_START_SECONDS):
                return None
        data = read(0, LONG)
        handover.unprocessed += data
        handover.at_end = not data
        return b""

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a line, b"" if it needs none, None if there is no static one."""
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
            self.handover.initialized = True
            return b""
        identifier = message["id"]
        if type(method) is not str or type(params) is not dict:
            return None
        if type(identifier) not in (int, str):
            return None
        result = self._result(line, method, params)
        if result is None:
            return None
        id_text = quote(identifier) if type(identifier) is str else str(identifier)
        return f'{{"jsonrpc":"2.0","id":{id_text},"result":{result}}}\n'.encode()

    def _result(self, line: bytes, method: str, params: dict[str, Any]) -> str | None:
        if method == "initialize":
            self.handover.initialize_line = line
            about = params.get("clientInfo")
            name = about.get("name") if type(about) is dict else None
            self.spelling = spelling_for(self.options["names"], name)
            self.capable = is_capable(params.get("capabilities"))
            return self._initialize_result(params.get("protocolVersion"))
        if params:  # a cursor, or the envelope of a client without a handshake
            return None
        if method == "ping":
            return "{}"
        if method not in self.lists:
            return None
        kind, member, key, label = self.lists[method]
        of = "resources" if kind == "templates" else kind
        if self.own is not None and of not in self.own.declared:
            return None  # an error, which the server makes itself
        return self._list(kind, member, key, label)

    def _initialize_result(self, asked: object) -> str:
        tables, own = self.tables, self.own
        if own is not None:
            from mcpagg_runtime.plan.own import newest_version

            version = negotiated_version(asked, *map(newest_version, self.children.values()))
            return initialize_result(version, own.capabilities, own.info, own.instructions)
        version = negotiated_version(asked)
        info = f'{{"name":{quote(tables["name"])},"version":"{version_of(self.children)}"}}'
        instructions = "\n\n".join(scan(tables["instructions"], 0)[0])
        return initialize_result(version, tables["capabilities"], info, instructions)

    def _list(self, kind: str, member: str, key: str, label: str) -> str | None:
        items = []
        column = 1 if self.spelling == "portable" else 0
        for server, rows in self._routes(kind).items():
            text = self.tables["snapshot"][server].get(kind, "[]")
            facts = self.children.get(server, {}) if kind == "tools" else {}
            hidden = () if self.capable else facts.get("conditional", ())
            shown = "" if self.face else server
            for own, names, head, tail in cut_list(text, key, label, shown, rows):
                if not names[column]:  # a name that is made in `names`
                    return None
                if own not in hidden:
                    items.append(head + quote(names[column]) + tail)
        return list_result(member, items)

    def _routes(self, kind: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the routing table of a kind of list, by server."""
        routes: Mapping[str, Mapping[str, Any]] = scan(self.tables[kind], 0)[0]
        face = self.face
        if not face:
            return routes
        from mcpagg_runtime.plan.own import own_rows

        apart = scan(self.tables.get("own_uris", "{}"), 0)[0].get(face, {})
        rows = routes.get(face, {})
        return {face: own_rows(face, self.options["separator"], rows, apart.get(kind))}


def is_set(name: str) -> bool:
    """Whether the environment has a variable. Windows ignores the case of its name."""
    known: Any = environ
    return name.encode() in known if POSIX else name.upper() in map(str.upper, known)


def exit_on_signal(number: int) -> None:
    """Have a signal end this process at once: it has started no server yet.

    Windows calls no handler while this thread waits for input, but ends the process itself.
    """
    on_signal(number, (lambda *_: _exit(0)) if POSIX else SIG_DFL)


def face_asked(words: list[str], tables: Mapping[str, Any]) -> str | None:
    """Return the server that a command line has served as itself, "" for the whole proxy.

    It is `--as NAME`, or nothing, and may end in a digest; None if it is anything else, or the
    digest is not that of the tables.
    """
    if words and words[-1].startswith("sha256:"):
        from mcpagg_runtime.plan.digest import data_digest, is_digest  # for such an entry alone

        if not is_digest(words[-1]) or not data_digest(tables).startswith(words[-1]):
            return None
        words = words[:-1]
    if not words:
        return ""
    return words[1] if len(words) == 2 and words[0] == "--as" and words[1] else None


def main(tables: Mapping[str, Any], file: str) -> None:
    """Serve on standard input and output, or do what the command line says instead.

    `file` is the emitted file. Does not return: threads may still wait for input that never comes.
    """
    on_signal(INTERRUPT, SIG_DFL)  # until it is handled, it ends this without a traceback
    handover = Handover()
    if not isatty(0):
        try:
            handover.face = face_asked(sys.argv[1:], tables)
            can_answer = handover.face is not None and "profiles" not in tables
            static = StaticAnswers(tables, handover) if can_answer else None
            if static is not None and static.can_serve():
                for number in ENDING:
                    exit_on_signal(number)
                static.serve()
        except Exception:  # noqa: S110 - `run` meets the same fault and reports it
            pass
        if handover.at_end and not handover.unprocessed:
            _exit(0)
    from mcpagg_runtime.stdio.running import run

    run(tables, file, handover)
