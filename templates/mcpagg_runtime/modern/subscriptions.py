"""Subscriptions to what happens outside of calls: those of modern clients, and of modern children.

https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import Json, obj, parse
from mcpagg_runtime.messages.message import (
    Message,
    error,
    failure,
    minted,
    notification,
    request,
    result,
)
from mcpagg_runtime.messages.protocol import (
    ACKNOWLEDGED,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LISTEN,
    METHOD_NOT_FOUND,
    RESOURCE_UPDATED,
    SUBSCRIPTION_KEY,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.clients.client import ModernRequest
    from mcpagg_runtime.routing.router import Router
    from mcpagg_runtime.servers.connection import Connection


# What a subscription may ask for, and the capability that has it.
LISTENABLE = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
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
        """The changes of lists that it is notified of."""
        kinds = [LISTENABLE[name] for name in self._changes]
        self._methods = {f"notifications/{kind}/list_changed" for kind in kinds}
        self._methods.add(RESOURCE_UPDATED)
        uris = _watchable(declared, wanted.get("resourceSubscriptions"))
        self._unanswered = dict(enumerate(uris, 1))
        """{id of the request: URI} of the resources that no server has agreed to tell of yet."""
        self._watched: list[str] = []
        """The URIs of those that one has."""
        self._held: list[Message] | None = []
        """The notifications that come behind the acknowledgement, None once it is given."""
        self._deadline = self._effects.arm(self._effects.clock() + ACKNOWLEDGE_SECONDS)

    def start(self) -> None:
        """Ask the servers for the resources."""
        self.request.deliver = self.deliver
        self.request.shake_hands()
        self._router.connect(self.request)
        for number, uri in [*self._unanswered.items()]:
            params = Json(obj(uri=quote(uri)), value={"uri": uri})
            method = "resources/subscribe"
            self._router.request(
                self.request, Message({"params": params}, method, str(number), number)
            )
        if not self._unanswered and self._held is not None:
            self._acknowledge()

    def deliver(self, message: Message) -> None:
        """Take what the router says to the client."""
        if message.method is None:
            self._answered(message)
        elif message.id_text:
            refusal = error(METHOD_NOT_FOUND, f"Method not found: {message.method}")
            answer = failure(message.id_text, refusal)
            self._effects.later(lambda: self._router.reply(self.request, answer))
        else:
            self._notify(message)

    def _answered(self, message: Message) -> None:
        """Take the answer of a server to a resource that is to be watched."""
        uri = self._unanswered.pop(message.number, None)
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
            self._router.withdraw(self.request, Json("{}"), number)
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
            self._notify(message)

    def _notify(self, message: Message) -> None:
        """Tell the client what it has subscribed to, marked as such, and nothing else."""
        if message.method not in self._methods:
            return
        if self._held is None:
            params = message.json("params").owned({"_meta": self._mark()}).text
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
        """Send the final result: the subscription has ended."""
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


class Streams:
    """The streams of one life of one child."""

    def __init__(
        self,
        connection: Connection,
        enveloped: Callable[[str], str],
    ) -> None:
        """`enveloped` puts the proxy's own envelope into the JSON text of params."""
        self._connection = connection
        self._effects = connection.effects
        self._enveloped = enveloped
        self._open: dict[int, tuple[str, list[int]]] = {}
        """{id: (URI, the calls that wait for the child to honour it)}.

        The URI is "" for the stream of the lists, for which none waits.
        """

    def __contains__(self, stream: object) -> bool:
        return stream in self._open

    @property
    def awaited(self) -> set[int]:
        """The ids of those that the child has not honoured yet."""
        return {stream for stream, (_, waiting) in self._open.items() if waiting}

    def listen(self, declared: Any) -> None:
        """Open a stream for the changes of lists that a child with these capabilities tells of."""
        known = declared if type(declared) is dict else {}
        wanted = {name: "true" for name, kind in LISTENABLE.items() if _tells(known, kind)}
        if wanted:
            self._begin(obj(wanted), "", [])

    def _begin(self, wanted: str, uri: str, identifiers: list[int]) -> None:
        stream = self._connection.mint()
        self._open[stream] = uri, identifiers
        params = self._enveloped(obj(notifications=wanted))
        self._effects.send(self._connection.child, request(stream, LISTEN, params))

    def subscribe(self, identifier: int, uri: str) -> None:
        """Open a stream for a resource; the request is answered once the child honours it."""
        waiting = [identifiers for known, identifiers in self._open.values() if known == uri]
        if not waiting:
            wanted = obj(resourceSubscriptions=f"[{quote(uri)}]")
            self._begin(wanted, uri, [identifier])
        elif waiting[0]:  # not honoured yet
            waiting[0].append(identifier)
        else:
            self._end(identifier)

    def withdraw(self, identifier: int) -> None:
        """Forget a subscription that is not honoured yet; without any its stream is of no use."""
        for stream, (_, identifiers) in [*self._open.items()]:
            if identifier in identifiers:
                identifiers.remove(identifier)
                if not identifiers:
                    self._close(stream)

    def unsubscribe(self, identifier: int, uri: str) -> None:
        """Want no more news of a resource."""
        for stream in [s for s, (known, _) in self._open.items() if known == uri]:
            self._close(stream)
        self._end(identifier)

    def _close(self, stream: int) -> None:
        """Want no more of a stream; a subscription that waits for it is notified."""
        gone = notification(CANCELLED, obj(requestId=str(stream)))
        self._effects.send(self._connection.child, gone)
        self.ended(stream)

    def acknowledged(self, message: Message) -> None:
        """The child says what it honours of a stream; without the resource it is of no use."""
        meta = message.params.get("_meta")
        stream = minted(meta.get(SUBSCRIPTION_KEY)) if type(meta) is dict else 0
        uri, identifiers = self._open.get(stream, ("", []))
        honoured = message.params.get("notifications")
        uris = honoured.get("resourceSubscriptions") if type(honoured) is dict else None
        if not identifiers:
            return
        if type(uris) is list and uri in uris:
            self._open[stream] = uri, []
            for identifier in identifiers:
                self._end(identifier)
        else:
            self._close(stream)

    def ended(self, stream: int, why: str = "") -> None:
        """A stream has ended; a subscription that it never acknowledged has failed.

        `why` is the JSON text of an error, "" for none.
        """
        uri, identifiers = self._open.pop(stream, ("", []))
        for identifier in identifiers:
            unwatched = f"Server '{self._connection.name}' does not watch {uri}"
            self._end(identifier, why or error(INTERNAL_ERROR, unwatched))

    def _end(self, identifier: int, why: str = "") -> None:
        """Answer a call, behind what is under way; `why` is the JSON text of an error."""
        number, events = str(identifier), self._connection.events
        answer = failure(number, why) if why else result(number, "{}")
        self._effects.later(partial(events.answered, identifier, answer))
