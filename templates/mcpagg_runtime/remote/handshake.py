"""The handshake with one remote server, which is repeated where the server has lost its session."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import Message, notification, read_line
from mcpagg_runtime.messages.protocol import INITIALIZED
from mcpagg_runtime.remote.faults import RemoteFault
from mcpagg_runtime.remote.responses import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable


class Handshake:
    """The handshake of one connection.

    `initialize` is the request of that name, None for a modern server, which has no handshake;
    `version` is what the server has answered it with, "" before. `done` is set once `initialized`
    was sent: no other request goes before.
    """

    def __init__(self) -> None:
        self.initialize: Message | None = None
        self.version = ""
        self.done = threading.Event()
        self._repetition: Transfer | None = None
        """The repetition that is under way."""
        self._error = ""
        """The error that the last one was answered with, as JSON text, "" for none."""

    def takes(self, line: bytes, transfer: Transfer) -> bool:
        """Note the answer to `initialize`, if it is in a line; return whether it is a repetition's.

        The core did not ask for a repetition, so its answer is not passed on.
        """
        repetition = self._repetition
        if self.initialize is None or (repetition is None and self.done.is_set()):
            return False
        number = self.initialize.number
        for message in read_line(line, request=transfer.number)[0]:
            if not isinstance(message, Message) or message.method or message.number != number:
                continue
            result = message.value("result")
            version = result.get("protocolVersion") if type(result) is dict else None
            self.version = version if type(version) is str else self.version
            if repetition is not None:
                self._error = message.raw("error") if message.is_error else ""
                repetition.answered = True
                repetition.done.set()
                return True
        return False

    def repeat(
        self, request: Callable[[Transfer, Message], object], notify: Callable[[Message], object]
    ) -> None:
        """Shake hands again, for a new session.

        `request` sends a request and returns when it is answered; `notify` returns at once.

        Raises:
            RemoteFault: the server does not answer, or refuses it.
        """
        if self.initialize is None:
            return
        self._repetition = repetition = Transfer(self.initialize.number)
        try:
            request(repetition, self.initialize)
        finally:
            self._repetition = None
        if not repetition.answered or self._error:
            why = self._error or "it does not answer"
            raise RemoteFault(f"has lost its session, and refuses another: {why}")
        notify(notification(INITIALIZED))
