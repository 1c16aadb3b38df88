"""Routes requests for completions: to the owner of a prompt or of a template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.message import result
from mcpagg_runtime.messages.protocol import INVALID_PARAMS, METHOD_NOT_FOUND
from mcpagg_runtime.servers.calls import Call

if TYPE_CHECKING:
    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.routing.resources import ResourceRouting
    from mcpagg_runtime.routing.router import Dispatch, NameRouting


class CompletionCall(Call):
    """A request for completions: a child that knows none has none.

    Clients ask for none at all after the first METHOD_NOT_FOUND, and other servers have some.
    """

    __slots__ = ()

    def __init__(
        self, client: Client, message: Message, name: str, path: tuple[str, ...], original: str
    ) -> None:
        super().__init__(client, message, name, path, original)
        deliver = self.answer
        self.answer = lambda answer: deliver(_completed(answer))


def _completed(answer: Message) -> Message:
    if answer.is_error and answer.code == METHOD_NOT_FOUND:
        return result(answer.id_text, '{"completion":{"values":[]}}')
    return answer


class Completions:
    """Finds the children that a request for completions is for."""

    def __init__(
        self, face: str, names: NameRouting, resources: ResourceRouting, dispatch: Dispatch
    ) -> None:
        """`face` is the server that is served as itself, which answers as it likes; "" for none."""
        self._kind = Call if face else CompletionCall
        self._names = names
        self._resources = resources
        self._dispatch = dispatch

    def request(self, client: Client, message: Message) -> None:
        """Ask the owner of a prompt or a template for completions; its names are translated."""
        reference = message.params.get("ref")
        of = reference if type(reference) is dict else {}
        name, uri = of.get("name"), of.get("uri")
        if type(name) is str and of.get("type") == "ref/prompt":
            named, own, children = self._names.prompt(name)
            path: tuple[str, ...] = ("ref", "name")
        elif type(uri) is str and of.get("type") == "ref/resource":
            named = uri
            own, children = self._resources.completing(uri)
            path = ("ref", "uri") if own != uri else ()
        else:
            fault = "completion/complete needs a ref"
            self._dispatch.deny(client, message, INVALID_PARAMS, fault)
            return
        if children:
            call = self._kind(client, message, named, path, own)
            self._dispatch.send(call, children)
        else:
            self._dispatch.deny(client, message, INVALID_PARAMS, f"Nothing to complete: {named}")
