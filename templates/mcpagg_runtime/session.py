"""One request of a client without a handshake, as the router knows clients.

The revision of 2026-07-28 knows no sessions: each request carries an envelope that says who asks.
https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.client import Client
from mcpagg_runtime.jsontext import members, place_of, quote
from mcpagg_runtime.message import error
from mcpagg_runtime.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    INVALID_PARAMS,
    LEVEL_KEY,
    LEVELS,
    MODERN_VERSION,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpagg_runtime.message import Message


class Session(Client):
    """A legacy session of one call, made of one request, or of one and those that take it up again.

    `message` is the request that is to be answered, `identifier` the JSON text of its id, "" while
    it is the client's turn; `token` is the JSON text of its progress token, "" for none, `declared`
    all that the client can do. `fault` is the JSON text of the error that a bad envelope is
    answered with, "" for none.

    When the client is asked something, `asked` {question's id: (method, params)} is what, `state`
    the handle by which it takes the call up again, before `deadline`, and `outcome` what
    ended the call meanwhile, None if nothing did.

    `listens` are the notifications that a subscription wants, None for a call. Until it is
    acknowledged, before `deadline`, `unanswered` {request's id: URI} are those that no server has
    agreed to yet, `watched` those that one has, and `held` are the notifications that come behind
    the acknowledgement.
    """

    __slots__ = (
        "asked",
        "deadline",
        "declared",
        "fault",
        "held",
        "identifier",
        "listens",
        "message",
        "outcome",
        "state",
        "token",
        "unanswered",
        "watched",
    )

    def __init__(self, client: Client, message: Message, names: str) -> None:
        """`names` is the option of that name."""
        super().__init__(names)
        self.connection = client
        self.version = MODERN_VERSION
        self.asked: dict[int, tuple[str, str]] = {}
        self.state = ""
        self.outcome: Message | None = None
        self.deadline = float("inf")
        self.listens: frozenset[str] | None = None
        self.unanswered: dict[int, str] = {}
        self.watched: list[str] = []
        self.held: list[Message] | None = None
        self.take_up(message)

    def take_up(self, message: Message) -> None:
        """Let `message`, which has an envelope, be the request that is to be answered."""
        text = message.raw("params")
        meta, _ = members(text, place_of(text, ("_meta",))[0])
        self.message = message
        self.identifier = message.raw("id")
        self.token = _text(text, meta, "progressToken")
        self._present(text, meta.get(INFO_KEY), meta.get(CAPABILITIES_KEY))
        self.declared = _text(text, meta, CAPABILITIES_KEY)
        level = meta[LEVEL_KEY][0] if LEVEL_KEY in meta else ""
        self.level = level if type(level) is str else ""
        self.fault = _fault({name: value for name, (value, _, _) in meta.items()})


def _text(text: str, found: Mapping[str, tuple[Any, int, int]], name: str) -> str:
    return text[slice(*found[name][1:])] if name in found and found[name][0] is not None else ""


def _fault(meta: Mapping[str, Any]) -> str:
    """Return the error that an envelope is refused with; the version comes first.

    Whoever speaks another one may well have another envelope.
    """
    version = meta.get(VERSION_KEY)
    if type(version) is not str:
        return error(INVALID_PARAMS, f"params._meta needs {VERSION_KEY}, a string")
    if version != MODERN_VERSION:
        data = f'{{"supported":["{MODERN_VERSION}"],"requested":{quote(version)}}}'
        return error(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if type(meta.get(CAPABILITIES_KEY)) is not dict:
        return error(INVALID_PARAMS, f"params._meta needs {CAPABILITIES_KEY}, an object")
    if LEVEL_KEY in meta and meta[LEVEL_KEY] not in LEVELS:
        return error(INVALID_PARAMS, "Unknown log level")
    return ""
