"""The subscriptions of clients without a handshake: what they are told outside of calls.

https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.effects import FOREVER
from mcpagg_runtime.jsontext import edited, parse, quote
from mcpagg_runtime.message import error, failure, notification, request, result
from mcpagg_runtime.protocol import INVALID_PARAMS, LISTEN, SUBSCRIPTION_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.border import Border
    from mcpagg_runtime.message import Message
    from mcpagg_runtime.session import Session

# What a subscription may ask for, and the capability that has it.
LISTENABLE = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
UPDATED = "notifications/resources/updated"
# Within a session the router knows the call, and what else it is asked on its behalf, by these ids;
# resources of a subscription by those from the latter on.
CALL, ASIDE = 1, 2
# How long servers may take to say whether they tell of a resource, and how many notifications wait.
ACKNOWLEDGE_SECONDS = 10.0
MAXIMUM_HELD = 1_000


class Subscriptions:
    """Opens them, and marks what is told by them with the id of each."""

    def __init__(self, border: Border) -> None:
        self.border = border
        self.router = border.router
        self.answers = border.router.answers

    def open(self, session: Session) -> bool:
        """Open a subscription, and return whether it is one.

        What is honoured of it is said before anything else, so once the servers have said so.
        """
        wanted = session.message.params.get("notifications")
        if type(wanted) is not dict:
            refusal = error(INVALID_PARAMS, f"{LISTEN} needs notifications in params, an object")
            self.border.send(session.connection, failure(session.identifier, refusal))
            return False
        names = [name for name in _wanted(wanted) if self._tells(LISTENABLE[name])]
        session.listens = frozenset(
            [f"notifications/{LISTENABLE[name]}/list_changed" for name in names] + [UPDATED]
        )
        session.held = []
        session.deadline = self.border.clock() + ACKNOWLEDGE_SECONDS
        session.initialized = True
        uris = self._watchable(wanted.get("resourceSubscriptions"))
        session.unanswered = {ASIDE + number: uri for number, uri in enumerate(uris)}
        self.border.carry(self.router.connect(session))
        for number, uri in [*session.unanswered.items()]:
            asked = request(number, "resources/subscribe", f'{{"uri":{quote(uri)}}}')
            self.border.carry(self.router.hear(session, asked))
        if not uris:
            self._acknowledge(session)
        return True

    def _tells(self, capability: str) -> bool:
        declared = parse(self.answers.plan.capabilities).get(capability)
        return type(declared) is dict and declared.get("listChanged") is True

    def _watchable(self, uris: Any) -> list[str]:
        declared = parse(self.answers.plan.capabilities).get("resources")
        if type(declared) is not dict or not declared.get("subscribe") or type(uris) is not list:
            return []
        return list(dict.fromkeys([uri for uri in uris if type(uri) is str]))

    def answered(self, session: Session, message: Message) -> None:
        """Take the answer of a server to a resource that is to be watched."""
        uri = session.unanswered.pop(message.value("id"), None)
        if uri is not None and not message.is_error:
            session.watched.append(uri)
        if uri is not None and not session.unanswered:
            self._acknowledge(session)

    def give_up(self, session: Session) -> None:
        """Wait no longer for servers that say nothing of a resource: it is not honoured."""
        unanswered, session.unanswered = session.unanswered, {}
        for number in unanswered:
            gone = notification("notifications/cancelled", f'{{"requestId":{number}}}')
            self.border.carry(self.router.hear(session, gone))
        self._acknowledge(session)

    def _acknowledge(self, session: Session) -> None:
        """Say what is honoured of a subscription, and then what has happened meanwhile."""
        wanted = session.message.params["notifications"]
        listens = session.listens or ()
        honoured = [
            f'"{name}":true'
            for name in _wanted(wanted)
            if f"notifications/{LISTENABLE[name]}/list_changed" in listens
        ]
        if session.watched:
            uris = ",".join([quote(uri) for uri in session.watched])
            honoured.append(f'"resourceSubscriptions":[{uris}]')
        text = f'{{"notifications":{{{",".join(honoured)}}}}}'
        self._notify(session, "notifications/subscriptions/acknowledged", text)
        held, session.held = session.held or [], None
        session.deadline = FOREVER
        for message in held:
            self.tell(session, message)

    def tell(self, session: Session, message: Message) -> None:
        """Tell a client what it has subscribed to, and nothing else."""
        if session.listens is None or message.method not in session.listens:
            return
        if session.held is None:
            self._notify(session, message.method or "", message.params_text)
        elif len(session.held) < MAXIMUM_HELD:
            session.held.append(message)

    def _notify(self, session: Session, method: str, params: str) -> None:
        """Tell a client something that its subscription is about, marked as such."""
        text = edited(params, add={"_meta": _subscription(session)})
        self.border.send(session.connection, notification(method, text))

    def end(self, session: Session) -> None:
        """Say of a subscription that it ends: there will be no more news."""
        text = f'{{"resultType":"complete","_meta":{_subscription(session)}}}'
        self.border.send(session.connection, result(session.identifier, text))


def _subscription(session: Session) -> str:
    return f'{{"{SUBSCRIPTION_KEY}":{session.identifier}}}'


def _wanted(notifications: Mapping[str, Any]) -> list[str]:
    """Return the changes of lists that a subscription asks for."""
    return [name for name in LISTENABLE if notifications.get(name) is True]
