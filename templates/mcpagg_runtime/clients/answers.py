"""Answers what needs no child: handshakes, pings, discoveries, and lists as they are served now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.clients.client import ModernRequest
from mcpagg_runtime.lists.catalogue import KINDS, SKILLS, Catalogue
from mcpagg_runtime.messages.jsontext import Malformed, decode, obj, parse
from mcpagg_runtime.messages.message import error, failure, read_message, result
from mcpagg_runtime.messages.protocol import (
    APART,
    INITIALIZED,
    INVALID_PARAMS,
    LISTEN,
    METHOD_NOT_FOUND,
    METHODS,
    MODERN_VERSION,
    OTHER,
    PROTOCOL_METHODS,
    VERSION_KEY,
)
from mcpagg_runtime.plan.addresses import Addresses, uris_of
from mcpagg_runtime.start.greeting import initialize_result
from mcpagg_runtime.start.lists import list_result
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from mcpagg_runtime.clients.client import Client
    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan

LIST_MILLISECONDS = 3_600_000
"""For how long a list may be kept that is as its servers gave it."""
UNCHECKED_MILLISECONDS = 5_000
"""The same while it may change because a server is still to be compared with its snapshot."""
# What the protocol has servers offer: what one does not declare was not reviewed.
OFFERED = frozenset(METHODS) | {kind.method for kind in KINDS}


class Answers:
    """Answers clients from the file alone."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        declared = [parse(text) for text in {plan.capabilities, plan.modern_capabilities}]
        self.declared = frozenset(
            [name for one in declared for name in (*one, *one.get("extensions", ()))]
        )
        """The capabilities and extensions that the proxy declares."""
        self.outages: set[str] = set()
        """The servers that are down: what they have has left the lists."""
        self.catalogues = {kind.name: Catalogue(kind, plan, self.outages) for kind in KINDS}
        with_uris = not self.declared.isdisjoint({"resources", SKILLS.capability})
        self.has_addresses = with_uris and len(plan.servers) > 1
        """Whether two servers may hand out one URI."""
        self._addresses: tuple[int, Addresses] | None = None
        """What the lists hand out, and their versions."""
        self._lists = {
            kind.method: self.catalogues[kind.name]
            for kind in KINDS
            if kind.capability in self.declared
        }

    def addresses(self) -> Addresses:
        """Return what the lists, as they are served now, hand out of pages and skills."""
        version = sum(catalogue.version for catalogue in self.catalogues.values())
        if self._addresses is None or self._addresses[0] != version:
            handed: dict[str, list[str]] = {server: [] for server in self.plan.servers}
            for kind, catalogue in self.catalogues.items():
                for server in handed if self._hands_out(catalogue) else ():
                    for item in catalogue.served(server):
                        handed[server] += uris_of(kind, parse(item.listed(item.original)))
            self._addresses = version, Addresses(handed)
        return self._addresses[1]

    def _hands_out(self, catalogue: Catalogue) -> bool:
        """Whether a list may hand out URIs of pages or skills."""
        return self.has_addresses and any(map(catalogue.mentions, APART))

    def extenders(self, method: str) -> list[str]:
        """Return the servers that a request of an unknown method may be for, likeliest first.

        Methods of an extension often begin with its name, or with the last part of that. One that
        is served as itself is asked for all that it may know, so that its own error is answered.
        """
        plan = self.plan
        if plan.face and plan.options.on_drift == "live" and method in OFFERED:
            return [plan.face]
        if method in METHODS or method in PROTOCOL_METHODS:
            return []
        if plan.face:
            return [plan.face]
        likely = {}
        for server, facts in plan.children.items():
            own = [name for name in facts.get("extensions", ()) if name != SKILLS.capability]
            marks = [f"{mark}/" for name in own for mark in (name, name.rpartition("/")[2])]
            if own:
                likely[server] = method.startswith(tuple(marks))
        return sorted(likely, key=lambda server: not likely[server])

    # Clients with a handshake

    def answer(self, client: Client, message: Message) -> Message | None:
        """Return the answer to a request without an envelope, None if the file has none."""
        method = message.method or ""
        identifier = message.id_text
        if method == "server/discover":
            # A client that only tries takes this code for "shake hands", others for the end.
            why = f"Method not found: server/discover without {VERSION_KEY} in params._meta"
            return failure(identifier, error(METHOD_NOT_FOUND, why))
        if method not in ("initialize", "ping") and method not in self._lists:
            return None
        if type(message.value("params")) not in (dict, type(None)):
            return failure(identifier, error(INVALID_PARAMS, "params must be an object"))
        if method == "initialize":
            plan = self.plan
            client.introduce(message, plan.newest)
            about = initialize_result(
                client.version, plan.capabilities, plan.info, plan.instructions
            )
            return result(identifier, about)
        if method == "ping":
            return result(identifier, "{}")
        return self._listed(client, message)

    def _listed(self, client: Client, message: Message) -> Message:
        """Return the answer to a request for a list."""
        if message.params.get("cursor") is not None:
            refusal = error(INVALID_PARAMS, "Unknown cursor: the list has one page")
            return failure(message.id_text, refusal)
        catalogue = self._lists[message.method or ""]
        exposed = self.addresses().exposed_uri if self._hands_out(catalogue) else None
        member, texts = catalogue.kind.member, catalogue.texts(client, exposed)
        if not client.is_modern:
            return result(message.id_text, list_result(member, texts))
        ttl, scope = self._hints(catalogue)
        listed = self._cacheable({member: f"[{','.join(texts)}]"}, ttl, scope)
        return result(message.id_text, listed)

    # Clients without one: each request carries an envelope that says who asks.
    # https://modelcontextprotocol.io/specification/2026-07-28/basic, and server/discover

    def answer_modern(self, request: ModernRequest) -> Message | None:
        """Return the answer to a request with an envelope, None if it needs a child.

        Any request but a discovery may mean that children will be wanted.
        """
        message, identifier = request.message, request.identifier
        method = message.method or ""
        if request.fault:
            return failure(identifier, request.fault)
        if method == "server/discover":
            return result(identifier, self._discovery())
        listed = method in self._lists
        forwarded = method == LISTEN or METHODS.get(method, OTHER).modern
        if listed or forwarded or self.extenders(method):
            request.connection.starter = request
            return self._listed(request, message) if listed else None
        return failure(identifier, error(METHOD_NOT_FOUND, f"Method not found: {method}"))

    def _discovery(self) -> str:
        plan = self.plan
        about = {"instructions": quote(plan.instructions)} if plan.instructions else {}
        versions = f"[{quote(MODERN_VERSION)}]"
        declared = plan.modern_capabilities
        members = {"supportedVersions": versions, "capabilities": declared, **about}
        return self._cacheable(members, LIST_MILLISECONDS, "public")

    def _cacheable(self, members: dict[str, str], ttl: int, scope: str) -> str:
        """Return a modern result that may be kept for `ttl` milliseconds, and for whom."""
        head = {"resultType": '"complete"', **members, "ttlMs": str(ttl)}
        return obj({**head, "cacheScope": quote(scope), "_meta": self.plan.signature})

    def _hints(self, catalogue: Catalogue) -> tuple[int, str]:
        """Return for how many milliseconds a list may be kept, and for whom.

        No longer and for no more than any child said of its own, and not for long before all have
        been compared: nobody tells a client that keeps a list what changed then. What depends on
        who asks (how names are spelled, tools for clients with capabilities) is for it alone.
        """
        plan = self.plan
        hints = [facts["hints"] for facts in plan.children.values() if "hints" in facts]
        may_change = plan.options.on_drift != "warn" and catalogue.unchecked
        longest = UNCHECKED_MILLISECONDS if may_change else LIST_MILLISECONDS
        ttl = min([longest, *(hint["ttlMs"] for hint in hints if "ttlMs" in hint)])
        private = any(hint.get("cacheScope") == "private" for hint in hints)
        spelled = plan.options.names == "auto" and catalogue.has_two_spellings
        alone = private or spelled or any(catalogue.conditional.values())
        return ttl, "private" if alone else "public"


def answer_line(answers: Answers, client: Client, line: bytes) -> Message | str | None:
    """Return the answer to a line of a client, "" if it wants none, None if the file has none."""
    try:
        text = decode(line)
        message = read_message(text) if text else None
    except Malformed:
        return None
    if message is None:
        return ""
    if message.method == INITIALIZED and not message.id_text:
        client.shake_hands()
        return ""
    if message.id is None:
        return None
    if message.method != "initialize" and message.is_enveloped:
        return answers.answer_modern(ModernRequest(client, message))
    return answers.answer(client, message)
