"""Answers what needs no child: the handshake, pings and lists, as they are served now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.catalogue import KINDS, SKILLS, TOOLS, Catalogue, Outages
from mcpagg_runtime.base.client import is_enveloped
from mcpagg_runtime.base.jsontext import Malformed, parse
from mcpagg_runtime.base.message import decode, error, failure, read_message, result
from mcpagg_runtime.base.protocol import (
    INITIALIZED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.start.greeting import introduction

if TYPE_CHECKING:
    from mcpagg_runtime.base.catalogue import Kind
    from mcpagg_runtime.base.client import Client
    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.base.plan import Plan


class Answers:
    """Answers clients from the file alone."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        declared = parse(plan.capabilities)
        self.declared = frozenset([*declared, *declared.get("extensions", ())])
        """The capabilities and extensions that the proxy declares."""
        self.extended = {
            name: facts["extensions"]
            for name, facts in plan.children.items()
            if "extensions" in facts
        }
        """{server: the extensions whose requests go to it}."""
        self.outages = Outages()
        self.catalogues = {kind.name: self._catalogue(kind) for kind in KINDS}
        self.lists = {kind.method: kind for kind in KINDS if kind.capability in self.declared}
        """{method: the kind of list that it asks for}."""

    def _catalogue(self, kind: Kind) -> Catalogue:
        plan = self.plan
        facts = plan.children.items() if kind is TOOLS else ()
        skilled = [name for name, known in self.extended.items() if SKILLS.capability in known]
        return Catalogue(
            kind,
            (*plan.servers, *([""] if plan.subtools else [])),
            plan.routes[kind.name],
            plan.snapshot,
            {name: known.get("conditional", ()) for name, known in facts},
            self.outages,
            modern=frozenset(n for n, known in facts if known["protocol"] == MODERN_VERSION),
            apart=kind is SKILLS and len(skilled) > 1,
            overlays=plan.overlays if kind is TOOLS else "",
        )

    def extenders(self, method: str) -> list[str]:
        """Return the servers that a request of an unknown method may be for, likeliest first.

        Methods of an extension often begin with its name, or with the last part of that.
        """
        if not self.extended:
            return []
        from mcpagg_runtime.serve.extensions import likely

        return likely(method, self.extended)

    def answer(self, client: Client, message: Message) -> Message | None:
        """Return the answer to a request without an envelope, None if the file has none."""
        method = message.method or ""
        identifier = message.raw("id")
        if method == "server/discover":
            # A client that only tries takes this code for "shake hands", others for the end.
            why = f"Method not found: server/discover without {VERSION_KEY} in params._meta"
            return failure(identifier, error(METHOD_NOT_FOUND, why))
        if method not in ("initialize", "ping") and method not in self.lists:
            return None
        if type(message.value("params")) not in (dict, type(None)):
            return failure(identifier, error(INVALID_PARAMS, "params must be an object"))
        if method == "initialize":
            return result(identifier, self._introduction(client, message))
        if method == "ping":
            return result(identifier, "{}")
        if message.params.get("cursor") is not None:
            refusal = error(INVALID_PARAMS, "Unknown cursor: the list has one page")
            return failure(identifier, refusal)
        catalogue = self.catalogues[self.lists[method].name]
        return result(identifier, catalogue.listing(client.spelling, client.capable))

    def _introduction(self, client: Client, message: Message) -> str:
        client.introduce(message)
        plan = self.plan
        return introduction(client.version, plan.capabilities, plan.info, plan.instructions)


def answer_line(answers: Answers, client: Client, line: bytes) -> Message | str | None:
    """Return the answer to a line of a client, "" if it wants none, None if the file has none."""
    try:
        text = decode(line)
        message = read_message(text) if text else None
    except Malformed:
        return None
    if message is None:
        return ""
    if message.method == INITIALIZED and "id" not in message.members:
        client.shake_hands()
        return ""
    if message.id is None:
        return None
    if message.method != "initialize" and is_enveloped(message):
        from mcpagg_runtime.envelope.discover import discover

        return discover(answers, client, message)[1]
    return answers.answer(client, message)
