"""The streams of a child without a handshake: by them it tells what has changed.

One is for its lists, and one for each resource that a client watches.
https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.jsontext import quote
from mcpagg_runtime.message import error, failure, minted, notification, request, result
from mcpagg_runtime.protocol import INTERNAL_ERROR, LISTEN, SUBSCRIPTION_KEY
from mcpagg_runtime.subscriptions import LISTENABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpagg_runtime.border import Border
    from mcpagg_runtime.child import Child
    from mcpagg_runtime.message import Message


class Streams:
    """Those of one life of one child: `open` {id: (URI, the router's requests that wait for it)}.

    The URI is "" for the stream of the lists, for which none waits.
    """

    def __init__(self, border: Border, child: Child, enveloped: Callable[[str], str]) -> None:
        """`enveloped` puts the proxy's own envelope into the JSON text of params."""
        self.border = border
        self.child = child
        self.enveloped = enveloped
        self.open: dict[int, tuple[str, list[int]]] = {}

    def listen(self) -> None:
        """Open a stream for the changes of lists that the child tells of."""
        declared = self.child.lifecycle.capabilities
        wanted = [
            f'"{name}":true'
            for name, kind in LISTENABLE.items()
            if type(declared.get(kind)) is dict and declared[kind].get("listChanged") is True
        ]
        if wanted:
            self._open(",".join(wanted), "", [])

    def _open(self, wanted: str, uri: str, identifiers: list[int]) -> None:
        stream = self.child.connection.mint()
        self.open[stream] = uri, identifiers
        params = self.enveloped(f'{{"notifications":{{{wanted}}}}}')
        self.border.send(self.child, request(stream, LISTEN, params))

    def subscribe(self, message: Message) -> None:
        """Open a stream for a resource; the request is answered once the child honours it."""
        uri = message.params["uri"]
        waiting = [identifiers for known, identifiers in self.open.values() if known == uri]
        if not waiting:
            self._open(f'"resourceSubscriptions":[{quote(uri)}]', uri, [minted(message.id)])
        elif waiting[0]:  # not honoured yet
            waiting[0].append(minted(message.id))
        else:
            self._done(message)

    def withdraw(self, identifier: int) -> None:
        """Forget a subscription that is not honoured yet; without any its stream is of no use."""
        for stream, (_, identifiers) in [*self.open.items()]:
            if identifier in identifiers:
                identifiers.remove(identifier)
                if not identifiers:
                    self._close(stream)

    def unsubscribe(self, message: Message) -> None:
        """Want no more news of a resource."""
        uri = message.params["uri"]
        for stream in [s for s, (known, _) in self.open.items() if known == uri]:
            self._close(stream)
        self._done(message)

    def _close(self, stream: int) -> None:
        """Want no more of a stream; a subscription that waits for it is told so."""
        params = f'{{"requestId":{stream}}}'
        self.border.send(self.child, notification("notifications/cancelled", params))
        self.ended(stream)

    def acknowledged(self, message: Message) -> None:
        """A child says what it honours of a stream; without the resource it is of no use."""
        meta = message.params.get("_meta")
        stream = minted(meta.get(SUBSCRIPTION_KEY)) if type(meta) is dict else 0
        uri, identifiers = self.open.get(stream, ("", []))
        honoured = message.params.get("notifications")
        uris = honoured.get("resourceSubscriptions") if type(honoured) is dict else None
        if not identifiers:
            return
        if type(uris) is list and uri in uris:
            self.open[stream] = uri, []
            for identifier in identifiers:
                self.border.say_for(self.child, result(str(identifier), "{}"))
        else:
            self._close(stream)

    def ended(self, stream: int, why: str = "") -> None:
        """A stream has ended; a subscription that it never acknowledged has failed.

        `why` is the JSON text of an error, "" for none.
        """
        uri, identifiers = self.open.pop(stream, ("", []))
        for identifier in identifiers:
            unwatched = f"Server '{self.child.name}' does not watch {uri}"
            text = failure(str(identifier), why or error(INTERNAL_ERROR, unwatched))
            self.border.say_for(self.child, text)

    def _done(self, message: Message) -> None:
        self.border.say_for(self.child, result(message.raw("id"), "{}"))
