"""Answers of a server that match no request: which of those in flight they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import obj
from mcpagg_runtime.messages.message import Fragment, Message, error, failure
from mcpagg_runtime.messages.protocol import (
    INITIALIZED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Collection

# The first id of a request to a server. What answers a lower one, or none, is not late: it was
# never asked. A higher one may be that of another client, where a server tells all of them
# everything.
FIRST_ID = 1
# Characters of an id that nobody knows, and of an error that is quoted in another one.
SHOWN_ID = 40
SHOWN_ERROR = 200


def unmatched_answers(
    said: Message | Fragment, in_flight: Collection[int], server: str
) -> list[Message]:
    """Return what the requests in flight are answered with, now that a server has said this.

    It is an answer that cannot be read, or has no id that a request has had. With one request in
    flight it is to that one; with several nobody can tell, and all end in an error that names the
    server. What cannot be read ends the one request whose id could be read.
    """
    number = said.number
    ended = [one for one in sorted(in_flight) if number < FIRST_ID or one == number]
    if isinstance(said, Fragment):
        how = f"that cannot be read: {said.problem}"
    else:
        how = wrong_id(said)
        if said.is_error:
            if len(ended) == 1:
                return [said.under(str(ended[0]))]
            how += f": {said.raw('error')[:SHOWN_ERROR]}"
    problem = failure_of(server, f"gave an answer {how}")
    return [failure(str(one), problem) for one in ended]


def failure_of(server: str, reason: str) -> str:
    """Return the error, as JSON text, for what a server will not answer; `reason` says why."""
    return error(INTERNAL_ERROR, f"Server '{server}' {reason}", obj(server=quote(server)))


def wrong_id(message: Message) -> str:
    """Say what is wrong with the id of a response that has none of ours."""
    if message.id is None:
        return "without the id of a request"
    return f"with the id {message.id_text[:SHOWN_ID]}, which no request has had"


class AnsweredNotifications:
    """Finds the answers that some servers give to notifications, though these have none.

    https://www.jsonrpc.org/specification#notification
    """

    __slots__ = ("_has_answered", "unanswered")

    def __init__(self) -> None:
        self._has_answered = False
        """Whether the server has answered one."""
        self.unanswered = 0
        """How many it was sent that it may answer yet."""

    def sent(self, method: str | None) -> None:
        """Note a message to the server; its answer to `initialized`, if any, shows how it is."""
        is_one = method is not None and method.startswith("notifications/")
        if method == INITIALIZED or (is_one and self._has_answered):
            self.unanswered += 1

    def settled(self) -> None:
        """Note that the server has answered a request: it answers in order."""
        if not self._has_answered:
            self.unanswered = 0

    def takes(self, message: Message) -> bool:
        """Whether an answer without an id of ours is to a notification.

        One that names a notification is. So is one that says nothing, or that its server does not
        know what it was sent, if one is expected.
        """
        if message.is_error:
            # In the text: to print the value would take a stack as deep as the server nests it.
            is_named = "notifications/" in message.raw("error").replace("\\/", "/")
            may_be = message.code in (METHOD_NOT_FOUND, INVALID_REQUEST)
        else:
            is_named, may_be = False, not message.value("result")
        if not is_named and not (may_be and self.unanswered):
            return False
        self._has_answered = True
        self.unanswered = max(self.unanswered - 1, 0)
        return True
