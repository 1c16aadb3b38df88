"""The subscriptions of modern clients: what they are told outside of calls.

https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.serve.editing import edited_object
from mcpagg_runtime.serve.messages import notification, request
from mcpagg_runtime.start.jsontext import obj, parse
from mcpagg_runtime.start.message import error, failure, result
from mcpagg_runtime.start.protocol import (
    ACKNOWLEDGED,
    CANCELLED,
    INVALID_PARAMS,
    LISTEN,
    METHOD_NOT_FOUND,
    RESOURCE_UPDATED,
    SUBSCRIPTION_KEY,
)
from mcpagg_runtime.start.scanner import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.envelope.discover import ModernRequest
    from mcpagg_runtime.serve.router import Router
    from mcpagg_runtime.start.message import Message

# What a subscription may ask for, and the capability that has it.
LISTENABLE = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
# The ids of a modern request towards the router: the call itself, and auxiliary requests; those for
# the resources of a subscription count on from the latter.
CALL, ASIDE = 1, 2
# How long servers may take to say whether they tell of a resource, and how many notifications wait.
ACKNOWLEDGE_SECONDS = 10.0
MAXIMUM_HELD = 1_000


def subscription(asking: ModernRequest, router: Router) -> Subscription | None:
    """Return the subscription that a request asks for; refuse one that does not say what for."""
    wanted = asking.message.params.get("notifications")
    if type(wanted) is dict:
        return Subscription(asking, router, wanted)
    refusal = error(INVALID_PARAMS, f"{LISTEN} needs notifications in params, an object")
    asking.connection.deliver(failure(asking.identifier, refusal))
    return None


class Subscription:
    """One subscription: what is honoured of it is said before anything else.

    So it is acknowledged once the servers have said whether they tell of the resources in it.
    """

    def __init__(self, asking: ModernRequest, router: Router, wanted: Mapping[str, Any]) -> None:
        """`wanted` is what the request says that it wants."""
        self.request = asking
        self._router = router
        self._effects = router.effects
        declared = parse(router.plan.capabilities)
        self._changes = [name for name in LISTENABLE if wanted.get(name) is True]
        self._changes = [name for name in self._changes if _tells(declared, LISTENABLE[name])]
        """The changes of lists that it is told of."""
        kinds = [LISTENABLE[name] for name in self._changes]
        self._methods = {f"notifications/{kind}/list_changed" for kind in kinds}
        self._methods.add(RESOURCE_UPDATED)
        uris = _watchable(declared, wanted.get("resourceSubscriptions"))
        self._unanswered = {ASIDE + number: uri for number, uri in enumerate(uris)}
        """{id of the request: URI} of the resources that no server has agreed to tell of yet."""
        self._watched: list[str] = []
        """The URIs of those that one has."""
        self._held: list[Message] | None = []
        """The notifications that come behind the acknowledgement, None once it is given."""
        self._deadline = self._effects.arm(self._effects.clock() + ACKNOWLEDGE_SECONDS)

    def start(self) -> None:
        """Ask the servers for the resources."""
        self.request.attach(self.deliver)
        self.request.shake_hands()
        self._router.connect(self.request)
        for number, uri in [*self._unanswered.items()]:
            asked = request(number, "resources/subscribe", obj(uri=quote(uri)))
            self._router.receive(self.request, asked)
        if not self._unanswered and self._held is not None:
            self._acknowledge()

    def deliver(self, message: Message) -> None:
        """Take what the router says to the client."""
        if message.method is None:
            self._answered(message)
        elif "id" in message.members:
            refusal = error(METHOD_NOT_FOUND, f"Method not found: {message.method}")
            answer = failure(message.raw("id"), refusal)
            self._effects.later(lambda: self._router.receive(self.request, answer))
        else:
            self._tell(message)

    def _answered(self, message: Message) -> None:
        """Take the answer of a server to a resource that is to be watched."""
        uri = self._unanswered.pop(message.value("id"), None)
        if uri is not None and not message.is_error:
            self._watched.append(uri)
        if uri is not None and not self._unanswered:
            self._acknowledge()

    def tick(self, now: float) -> None:
        """Wait no longer for servers that say nothing of a resource: it is not honoured."""
        if self._held is None:
            return
        if self._deadline > now:
            self._effects.arm(self._deadline)
            return
        unanswered, self._unanswered = self._unanswered, {}
        for number in unanswered:
            gone = notification(CANCELLED, obj(requestId=str(number)))
            self._router.receive(self.request, gone)
        self._acknowledge()

    def _acknowledge(self) -> None:
        """Say what is honoured, and then what has happened meanwhile."""
        honoured = dict.fromkeys(self._changes, "true")
        if self._watched:
            uris = ",".join([quote(uri) for uri in self._watched])
            honoured["resourceSubscriptions"] = f"[{uris}]"
        marked = obj(notifications=obj(honoured), _meta=self._mark())
        self.request.connection.deliver(notification(ACKNOWLEDGED, marked))
        held, self._held = self._held or [], None
        for message in held:
            self._tell(message)

    def _tell(self, message: Message) -> None:
        """Tell the client what it has subscribed to, marked as such, and nothing else."""
        if message.method not in self._methods:
            return
        if self._held is None:
            params = edited_object(message.json("params"), add={"_meta": self._mark()})
            self.request.connection.deliver(notification(message.method or "", params))
        elif len(self._held) < MAXIMUM_HELD:
            self._held.append(message)

    def _mark(self) -> str:
        return obj({SUBSCRIPTION_KEY: self.request.identifier})

    def end(self) -> None:
        """Let the router forget the subscription."""
        if self.request in self._router.clients:
            self._router.disconnect(self.request)

    def finish(self) -> None:
        """Say that it ends: there will be no more news."""
        text = obj(resultType='"complete"', _meta=self._mark())
        self.request.connection.deliver(result(self.request.identifier, text))


def _tells(declared: Mapping[str, Any], capability: str) -> bool:
    kind = declared.get(capability)
    return type(kind) is dict and kind.get("listChanged") is True


def _watchable(declared: Mapping[str, Any], uris: Any) -> list[str]:
    resources = declared.get("resources")
    if type(resources) is not dict or not resources.get("subscribe") or type(uris) is not list:
        return []
    return list(dict.fromkeys([uri for uri in uris if type(uri) is str]))
