"""Gives requests of clients to children, and answers those that no child gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.start.message import error, failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpagg_runtime.serve.calls import Call
    from mcpagg_runtime.serve.child import Child
    from mcpagg_runtime.start.client import Client
    from mcpagg_runtime.start.message import Message


class Dispatch:
    """Where a request goes once it is decided."""

    def __init__(self, children: Mapping[str, Child]) -> None:
        self._children = children
        self._serial = 0

    def send(self, call: Call, children: list[Child]) -> None:
        """Give a call to the first of these children; the others are asked if it has an error."""
        first, *others = children
        self._register(call, first)
        call.others = [child.submit for child in others]
        first.submit(call)

    def send_unknown(self, call: Call, child: Child) -> None:
        """Give a call to a child that may know by now what it is for."""
        self._register(call, child)
        child.submit_unknown(call)

    def _register(self, call: Call, child: Child) -> None:
        """Number a call, and give it its time: a start of its child included."""
        self._serial += 1
        call.serial = self._serial
        child.calls.limit(call)

    def deny(self, client: Client, message: Message, code: int, text: str, data: str = "") -> None:
        """Answer a request with an error of the proxy's own."""
        self.refuse(client, message, error(code, text, data))

    def refuse(self, client: Client, message: Message, refusal: str) -> None:
        """Answer a request with an error, as JSON text."""
        client.deliver(failure(message.raw("id"), refusal))

    def refuse_withheld(self, client: Client, message: Message, name: str) -> bool:
        """Refuse what a child has and is withheld; return whether it is so."""
        for child in self._children.values():
            reason = child.lists.withheld(message.method or "", name)
            if reason is not None:
                self.refuse(client, message, child.connection.gone(reason))
                return True
        return False
