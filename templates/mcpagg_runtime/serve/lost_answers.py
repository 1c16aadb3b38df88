"""Answers of a child without an id that is ours: which of its requests they end, if any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.protocol import INITIALIZED, INVALID_REQUEST, METHOD_NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from mcpagg_runtime.base.message import Message

# Of a child that loses more answers than that, nothing that is in flight is waited for.
MAXIMUM_LOST = 16


class LostAnswers:
    """Answers of a child that came without an id that can be read.

    Each answers one of the requests that were in flight when it came. As soon as the others of
    these have ended, it is known which: so that none waits for ever, and none fails for another.
    """

    __slots__ = ("errors",)

    def __init__(self) -> None:
        self.errors: list[tuple[set[int], str]] = []
        """(the requests that it may be for, what the one is answered with) of each."""

    def add(self, in_flight: Collection[int], error: str) -> None:
        """Note one; `error` is the JSON text that its request will be answered with."""
        if in_flight:
            self.errors.append((set(in_flight), error))

    def settled(self, owed: Callable[[], Collection[int]]) -> Iterator[tuple[int, str]]:
        """Yield (request, error) of those that must be the ones answered; forget these.

        `owed` returns what is in flight at that moment: each one that ends may settle others.
        """
        while self.errors:
            settled = self._settled(owed())
            if not settled:
                return
            yield from settled.items()

    def _settled(self, in_flight: Collection[int]) -> dict[int, str]:
        """Return {request: error} for those that must be the ones answered; forget these.

        As many lost answers as there are requests that they may be for answer them all; so do
        more than MAXIMUM_LOST, whatever they may be for.
        """
        left = [(ids.intersection(in_flight), error) for ids, error in self.errors]
        self.errors = [(ids, error) for ids, error in left if ids]
        if len(self.errors) > MAXIMUM_LOST:
            lost, self.errors = self.errors, []
            return {number: error for ids, error in lost for number in ids}
        for ids, _ in self.errors:
            within = [lost for lost in self.errors if lost[0] <= ids]
            if len(within) >= len(ids):
                self.errors = [lost for lost in self.errors if lost not in within]
                return dict(zip(sorted(ids), [error for _, error in within]))  # noqa: B905
        return {}


class AnsweredNotifications:
    """Tells the answers that some servers give to notifications, though these have none.

    https://www.jsonrpc.org/specification#notification
    """

    __slots__ = ("_is_expected",)

    def __init__(self) -> None:
        self._is_expected = False
        """Whether the end of the handshake is the last that it was told before a request."""

    def told(self, method: str | None) -> None:
        """Note what the server is sent."""
        if method == INITIALIZED:
            self._is_expected = True

    def settled(self) -> None:
        """Note that the server has answered a request: it answers in order."""
        self._is_expected = False

    def takes(self, message: Message) -> bool:
        """Whether an answer without an id of ours is to a notification.

        One that names a notification is. Right after the handshake, so is one that says nothing,
        or that its server does not know what it was sent.
        """
        if message.is_error:
            # In the text: to print the value would take a stack as deep as the server nests it.
            is_named = "notifications/" in message.raw("error").replace("\\/", "/")
            may_be = message.code in (METHOD_NOT_FOUND, INVALID_REQUEST)
        else:
            is_named, may_be = False, not message.value("result")
        if not is_named and not (may_be and self._is_expected):
            return False
        self._is_expected = False
        return True
