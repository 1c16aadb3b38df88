"""The streams of a modern child: by them it tells what has changed.

One is for its lists, and one for each resource that a client watches.
https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.modern.subscriptions import LISTENABLE
from mcpagg_runtime.serve.messages import minted, notification, request
from mcpagg_runtime.start.jsontext import obj
from mcpagg_runtime.start.message import error, failure, result
from mcpagg_runtime.start.protocol import CANCELLED, INTERNAL_ERROR, LISTEN, SUBSCRIPTION_KEY
from mcpagg_runtime.start.scanner import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.serve.child import Child
    from mcpagg_runtime.start.message import Message


class Streams:
    """The streams of one life of one child."""

    def __init__(
        self, child: Child, enveloped: Callable[[str], str], answer: Callable[[Message], None]
    ) -> None:
        """`enveloped` puts the proxy's own envelope into the JSON text of params.

        `answer` lets the router hear what the child answers.
        """
        self._child = child
        self._effects = child.connection.effects
        self._enveloped = enveloped
        self._answer = answer
        self._open: dict[int, tuple[str, list[int]]] = {}
        """{id: (URI, the router's requests that wait for the child to honour it)}.

        The URI is "" for the stream of the lists, for which none waits.
        """

    def __contains__(self, stream: object) -> bool:
        return stream in self._open

    @property
    def awaited(self) -> set[int]:
        """The ids of those that the child has not honoured yet."""
        return {stream for stream, (_, waiting) in self._open.items() if waiting}

    def listen(self) -> None:
        """Open a stream for the changes of lists that the child tells of."""
        declared = self._child.lifecycle.capabilities
        wanted = {
            name: "true"
            for name, kind in LISTENABLE.items()
            if type(declared.get(kind)) is dict and declared[kind].get("listChanged") is True
        }
        if wanted:
            self._begin(obj(wanted), "", [])

    def _begin(self, wanted: str, uri: str, identifiers: list[int]) -> None:
        stream = self._child.connection.mint()
        self._open[stream] = uri, identifiers
        params = self._enveloped(obj(notifications=wanted))
        self._effects.send(self._child, request(stream, LISTEN, params))

    def subscribe(self, message: Message) -> None:
        """Open a stream for a resource; the request is answered once the child honours it."""
        uri = message.params["uri"]
        waiting = [identifiers for known, identifiers in self._open.values() if known == uri]
        if not waiting:
            wanted = obj(resourceSubscriptions=f"[{quote(uri)}]")
            self._begin(wanted, uri, [minted(message.id)])
        elif waiting[0]:  # not honoured yet
            waiting[0].append(minted(message.id))
        else:
            self._done(message)

    def withdraw(self, identifier: int) -> None:
        """Forget a subscription that is not honoured yet; without any its stream is of no use."""
        for stream, (_, identifiers) in [*self._open.items()]:
            if identifier in identifiers:
                identifiers.remove(identifier)
                if not identifiers:
                    self._close(stream)

    def unsubscribe(self, message: Message) -> None:
        """Want no more news of a resource."""
        uri = message.params["uri"]
        for stream in [s for s, (known, _) in self._open.items() if known == uri]:
            self._close(stream)
        self._done(message)

    def _close(self, stream: int) -> None:
        """Want no more of a stream; a subscription that waits for it is told so."""
        gone = notification(CANCELLED, obj(requestId=str(stream)))
        self._effects.send(self._child, gone)
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
                self._answer(result(str(identifier), "{}"))
        else:
            self._close(stream)

    def ended(self, stream: int, why: str = "") -> None:
        """A stream has ended; a subscription that it never acknowledged has failed.

        `why` is the JSON text of an error, "" for none.
        """
        uri, identifiers = self._open.pop(stream, ("", []))
        for identifier in identifiers:
            unwatched = f"Server '{self._child.name}' does not watch {uri}"
            self._answer(failure(str(identifier), why or error(INTERNAL_ERROR, unwatched)))

    def _done(self, message: Message) -> None:
        self._answer(result(message.raw("id"), "{}"))
