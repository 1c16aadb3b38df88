"""The handshake of one life over streamable HTTP, which is repeated if its session is lost.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, session management
"""

from __future__ import annotations

import _thread
from threading import Event as Flag
from typing import TYPE_CHECKING

from mcpagg_runtime.base.message import Message, minted
from mcpagg_runtime.remote.faults import RemoteFault
from mcpagg_runtime.remote.fields import SESSION_FIELD, VERSION_FIELD
from mcpagg_runtime.serve.messages import read_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpagg_runtime.remote.transfers import RemoteReply, Transfer


class Handshake:
    """What a server was greeted with, and by which headers it knows this life since.

    `hello` is the `initialize` of this life, None for a modern one, which has no session. `headers`
    say session and version, once they are known. `done` is set once the server knows that the
    handshake is over: no request goes before. `repeated` is set by each repetition, of which
    `generation` is the number.
    """

    def __init__(self) -> None:
        self.hello: Message | None = None
        self.headers: dict[str, str] = {}
        self.coming = self.headers
        """Those that the handshake under way fills."""
        self.done = Flag()
        self.repeated = Flag()
        self.generation = 0
        self._repeating = _thread.allocate_lock()
        self._attempts = 0
        """How often a repetition was tried."""
        self._failed: RemoteFault | None = None
        """Why it failed at the last try."""

    def is_asked_by(self, transfer: Transfer) -> bool:
        """Whether a request is the `initialize`."""
        return self.hello is not None and minted(self.hello.id) == transfer.number

    def note_session(self, reply: RemoteReply) -> None:
        """Take the id of the session from an answer to `initialize`."""
        identifier = reply.headers.get(SESSION_FIELD.lower(), "")
        if identifier and reply.status < 400:
            self.coming[SESSION_FIELD] = identifier

    def note_version(self, text: bytes) -> None:
        """Take the version from what `initialize` was answered with."""
        for message in read_line(text)[0]:
            result = message.value("result") if isinstance(message, Message) else None
            version = result.get("protocolVersion") if type(result) is dict else None
            if type(version) is str:
                self.coming[VERSION_FIELD] = version

    def repeat(self, generation: int, greet: Callable[[], None]) -> bool:
        """Open a session again, unless somebody has since that generation; return whether it did.

        All who wait share the outcome of `greet`, which fills `coming`; until it has returned, the
        old headers stay.

        Raises:
            RemoteFault: it cannot be opened.
        """
        attempts = self._attempts
        with self._repeating:
            if self.generation != generation:
                return False
            if self._failed is not None and self._attempts != attempts:
                raise self._failed
            self._attempts += 1
            self.coming = {}
            try:
                greet()
            except RemoteFault as fault:
                self._failed = fault
                raise
            self.headers = self.coming
            self._failed = None
            self.generation += 1
        self.repeated.set()
        return True


def is_lost(headers: Mapping[str, str], reply: RemoteReply, problem: bytes) -> bool:
    """Whether a request was refused because its session is over; some servers say 400.

    `headers` are those of the request, `problem` is the body of the answer.
    """
    if SESSION_FIELD not in headers:
        return False
    return reply.status == 404 or (reply.status == 400 and b"session" in problem.lower())
