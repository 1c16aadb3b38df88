"""The subscriptions of clients without a handshake: what they are told outside of calls.

https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.modern import edited
from mcpagg_runtime.reception import LISTEN
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    error,
    failure,
    notification,
    parse,
    quote,
    read_message,
    request,
    result,
)

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.border import Border
    from mcpagg_runtime.session import Session
    from mcpagg_runtime.wire import Message

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
# What a subscription may ask for, and the capability that has it.
LISTENABLE = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
# Within a session the router knows the call, and what else it is asked on its behalf, by these ids.
CALL, ASIDE = 1, 2


class Subscriptions:
    """Opens them, and marks what is told by them with the id of each."""

    def __init__(self, border: Border) -> None:
        self.border = border
        self.router = border.router
        self.desk = border.router.desk

    def open(self, session: Session) -> bool:
        """Open a subscription, and return whether it is one.

        What is honoured of it is said before anything else.
        """
        params = session.message.params
        wanted = params.get("notifications")
        if type(wanted) is not dict:
            refusal = error(INVALID_PARAMS, f"{LISTEN} needs notifications in params, an object")
            self.border.send(session.connection, failure(session.identifier, refusal))
            return False
        names = [n for n, kind in LISTENABLE.items() if wanted.get(n) is True and self._tells(kind)]
        uris = self._watchable(wanted.get("resourceSubscriptions"))
        honoured = [f'"{name}":true' for name in names]
        if uris:
            honoured.append(f'"resourceSubscriptions":[{",".join([quote(uri) for uri in uris])}]')
        text = f'{{"notifications":{{{",".join(honoured)}}}}}'
        self._notify(session, "notifications/subscriptions/acknowledged", text)
        session.listens = frozenset(
            [f"notifications/{LISTENABLE[name]}/list_changed" for name in names]
            + ["notifications/resources/updated"]
        )
        session.initialized = True
        self.border.carry(self.router.connect(session))
        for uri in uris:
            asked = request(ASIDE, "resources/subscribe", f'{{"uri":{quote(uri)}}}')
            self.border.carry(self.router.hear(session, read_message(asked)))
        return True

    def _tells(self, capability: str) -> bool:
        declared = parse(self.desk.plan.capabilities).get(capability)
        return type(declared) is dict and declared.get("listChanged") is True

    def _watchable(self, uris: Any) -> list[str]:
        declared = parse(self.desk.plan.capabilities).get("resources")
        if type(declared) is not dict or not declared.get("subscribe") or type(uris) is not list:
            return []
        known = [uri for uri in uris if type(uri) is str and self.router.owners(uri)]
        return list(dict.fromkeys(known))

    def tell(self, session: Session, message: Message) -> None:
        """Tell a client what it has subscribed to, and nothing else."""
        if session.listens is not None and message.method in session.listens:
            self._notify(session, message.method or "", message.params_text)

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
