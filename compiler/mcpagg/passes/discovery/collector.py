"""What a server says of itself in one conversation: its introduction, and its lists.

The rules are those of the emitted file. What differs is that one thread asks, and waits.

A list may depend on the client's capabilities, and a server may complete it only after the
handshake. So every capability is declared that a proxy can relay, and the tools are read again when
no more `list_changed` notifications come.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcpagg.jsontext import dumps, loads
from mcpagg.passes.discovery.conversation import (
    ABOUT,
    TIME,
    BadList,
    Conversation,
    Fault,
    Refusal,
    Silence,
)
from mcpagg.snapshot import ChildSnapshot, Json, Refused
from mcpagg_runtime.lists.catalogue import KINDS, LEGACY_ONLY, TOOLS, Kind
from mcpagg_runtime.lists.listing import Listing, unreadable
from mcpagg_runtime.messages.jsontext import Malformed, edited, obj
from mcpagg_runtime.messages.message import Message, notification
from mcpagg_runtime.messages.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    INITIALIZED,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.modern.child import envelope
from mcpagg_runtime.servers.lifecycle import (
    MODERN_CODES,
    handshake,
    introduction_fault,
    knows_no_handshake,
    speaks_modern,
)
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS
from mcpagg_runtime.start.values import quote

# How what is no endpoint of streamable HTTP, or of another revision, answers a POST (specification,
# transports, backwards compatibility).
UNKNOWN_THERE = (400, 404, 405)
UNSPOKEN = "9999-12-31"
"""A version without a handshake that no server speaks."""
# Seconds. A list is complete when no notification came for QUIET; LONGEST limits the whole wait.
# The first notification is waited for: HINT if the child declares `listChanged`, LONGEST if its
# list is empty.
HINT = 0.25
QUIET = 0.5
LONGEST = 2.0
# How long a list other than the tools may take.
OTHERS = 10.0
MODERN_SECONDS = 1.0
"""How long one that has shaken hands may take to show that it also speaks without."""


class Collector:
    """A server that is asked what it is and has.

    Once it was greeted: `introduction` is what it says of itself, without lists. `remarks` are
    oddities worth a warning, without secrets.

    If that failed: `handshake` is whether one could succeed in another version, `modern` whether
    the server has shown that it is modern, in whatever version.
    """

    def __init__(self, conversation: Conversation, seconds: float) -> None:
        """`seconds` is how long a server may take to shake hands, and for each list of tools."""
        self.conversation = conversation
        self.launch = conversation.server.launch
        self.introduction = ChildSnapshot(conversation.name, "")
        self.handshake = True
        self.modern = False
        self.remarks: list[str] = []
        self._seconds = seconds
        self._able = dumps(conversation.declared)
        self._hints: Json = {}
        self._refused: dict[str, list[Refused]] = {}
        """{kind: what strict clients would refuse of that list}."""
        self._has_answered = False
        self._knows_envelopes = False
        """Whether it has refused a handshake for the envelope."""

    @property
    def hopeless(self) -> bool:
        """Whether a fresh process would do no better in another version."""
        if self.launch.transport != "stdio":
            return bool(self.conversation.gone) and self.handshake
        return self._has_answered or self.conversation.server.is_broken

    # What it is

    def greet(self, deadline: float) -> Fault | None:
        """Agree on the version as its revision has it; return why that failed, or None.

        Of the versions with a handshake, every known one is accepted as the answer, as the
        specification asks.
        """
        talk = self.conversation
        try:
            about = loads(self._greeted(deadline).raw("result") or "null")
        except Silence:
            return talk.server.silence_fault(talk.greeting, self._seconds)
        except Refusal as refusal:
            return talk.server.fault(self._refusal_fault(refusal))
        except Fault as fault:
            # What knows no handshake may refuse the request in a way of its own.
            self.handshake = fault.status not in UNKNOWN_THERE
            return fault
        self._has_answered = True
        self.modern = talk.is_modern
        if what := introduction_fault(about) or self._introduced(about):
            return talk.server.fault(what)
        if not talk.is_modern:
            talk.notify(notification(INITIALIZED))
        return None

    def _greeted(self, deadline: float) -> Message:
        """Ask for a handshake, first with an envelope that makes no request of either era.

        Some servers go by the first message that has no fault, and know one era alone from then on:
        they refuse this one for its version. Others take no notice of an envelope here.
        """
        params = handshake(self.conversation.version, self._able, ABOUT)
        if self.conversation.version == LEGACY_VERSIONS[0] and not self.launch.url:
            said = {VERSION_KEY: quote(UNSPOKEN), CAPABILITIES_KEY: self._able, INFO_KEY: ABOUT}
            try:
                enveloped = edited(params, add={"_meta": obj(said)})
                return self.conversation.request("initialize", enveloped, deadline)
            except Refusal as refusal:
                self._knows_envelopes = mentions_modern(refusal.answer)
                if not self._knows_envelopes:
                    raise
        return self.conversation.request("initialize", params, deadline)

    def _refusal_fault(self, refusal: Refusal) -> str:
        """Note what a refusal tells of the era; return what is wrong with the server."""
        if not self.conversation.is_modern:
            self.handshake = not knows_no_handshake(refusal.answer)
            self.modern = speaks_modern(refusal.answer)
            return str(refusal)
        self.modern = refusal.code in MODERN_CODES
        if refusal.code != UNSUPPORTED_VERSION:
            return str(refusal)
        data = _object(_object(refusal.answer.value("error")).get("data"))
        return _stranger(data.get("supported"), (MODERN_VERSION,))

    def _introduced(self, about: Json) -> str:
        """Take down what the server says of itself; return what is wrong with it, or ""."""
        talk = self.conversation
        spoken = _list(about.get("supportedVersions"))
        known = (MODERN_VERSION,) if talk.is_modern else LEGACY_VERSIONS
        if not talk.is_modern:
            spoken = [about["protocolVersion"]]
            self.modern = MODERN_VERSION in spoken
            self.handshake = not self.modern
        if not any(version in known for version in spoken):
            return _stranger(spoken, known)
        instructions = about.get("instructions")
        self.introduction = ChildSnapshot(
            name=talk.name,
            protocol=about["protocolVersion"],
            transport=self.launch.transport if self.launch.url else "",
            info=_object(about.get("serverInfo")),
            capabilities=_object(about.get("capabilities")),
            instructions=instructions if isinstance(instructions, str) else None,
        )
        odd = unreadable(
            [self.introduction.info, self.introduction.capabilities, self.introduction.instructions]
        )
        what = f"answered {talk.greeting} with {odd}, which strict clients refuse"
        return what if odd else ""

    def may_be_modern(self) -> bool:
        """Whether a server that has shaken hands may speak without a handshake as well.

        It is asked for that, and may be of no further use. One behind a URL is not: to speak to it
        without a handshake takes no process.
        """
        talk = self.conversation
        if talk.is_modern or self.launch.transport == "sse":
            return False
        if self.launch.url or self._knows_envelopes:
            return True
        params = obj(_meta=envelope(self._able, ABOUT))
        try:
            answer = talk.request("server/discover", params, TIME.now() + MODERN_SECONDS)
        except Refusal as refusal:
            return mentions_modern(refusal.answer)
        except (Silence, Fault):
            return False
        return MODERN_VERSION in _list(answer.json("result").value.get("supportedVersions"))

    # Its lists

    def offers(self, tools: list[Json], fault: BadList | None = None) -> ChildSnapshot:
        """Return what the server offers, now that its tools are read, or why they are not.

        Raises:
            Fault: it is gone, or gives no list at all.
        """
        server = self.conversation.server
        if server.noise:
            self.remarks.append(server.noise_remark())
        others = {kind.name: self._others(kind) for kind in KINDS if kind is not TOOLS}
        if fault is not None:
            if not any(others.values()):
                raise server.fault(fault.what, is_late=fault.is_late)
            self.remarks.append(f"{fault.what}: taken for empty")
        elif not tools and "tools" in self.introduction.capabilities:
            self.remarks.append("lists no tools")
        refused = tuple(one for some in self._refused.values() for one in some)
        lists: dict[str, Any] = {"tools": tuple(tools), **others}
        return replace(self.introduction, hints=self._hints, refused=refused, **lists)

    def at_rest(self, patience: float) -> tuple[list[Json], float | None]:
        """Read the tools once no change comes; also return for how many seconds they changed.

        `patience` is how long to wait for news of a list that is not empty, in seconds. At most
        two readings, whatever the server announces.
        """
        talk = self.conversation
        began = TIME.now()
        tools = self._items(TOOLS, self._seconds)
        declared = self.introduction.capabilities.get("tools")
        # A modern list is not settling: it may depend on no connection and on no capability
        # (specification 2026-07-28, the lists), and only listeners are notified of changes.
        if declared is None or talk.is_modern:
            return tools, None
        hinted = isinstance(declared, dict) and declared.get("listChanged") is True
        last: float | None = None
        end = TIME.now() + LONGEST
        wait = patience if tools and hinted else 0.0 if tools else LONGEST
        while talk.changed(min(wait, end - TIME.now())):
            last, wait = TIME.now(), QUIET
        if last is None:
            # The stream for such news is opened after the handshake: by then it may be no news.
            missed = hinted and bool(self.launch.url)
            return tools, 0.0 if missed else None
        before = talk.changes
        again = self._items(TOOLS, self._seconds)
        # News that comes with every reading, of a list that stays the same, is no news.
        moved = dumps(again) != dumps(tools) or talk.changes == before
        return again, last - began if moved else None

    def _others(self, kind: Kind) -> tuple[Json, ...]:
        """Read a list other than the tools; whatever is wrong with it costs the server no tool."""
        try:
            return tuple(self._items(kind, min(self._seconds, OTHERS)))
        except BadList as fault:
            self.remarks.append(f"{fault.what}: taken for empty")
            return ()

    def _items(self, kind: Kind, seconds: float) -> list[Json]:
        """Return one list as the server gives it, page after page, within so many seconds.

        What the emitted file would leave out or mend is left out or mended, and told.

        Raises:
            BadList: it gives none.
            Fault: it is gone.
        """
        if not kind.is_declared(self.introduction.capabilities):
            return []
        redact, is_modern = self.launch.redact, self.conversation.is_modern
        over_http = self.launch.transport == "streamable-http"
        without = LEGACY_ONLY if kind is TOOLS and is_modern else ()
        listing = Listing(kind, "", is_modern=is_modern, over_http=over_http, without=without)
        try:
            self._read(listing, TIME.now() + seconds)
        except Silence:
            what = f"did not answer {kind.method} within {seconds:g} s"
            raise BadList(what, is_late=True) from None
        except Refusal as refusal:
            if refusal.code != METHOD_NOT_FOUND:
                raise BadList(redact(str(refusal))) from None
            # Many servers have resources and know nothing of templates.
            if kind.name != "templates":
                what = f"declares {kind.capability}, but does not know {kind.method}"
                self.remarks.append(what)
            return []
        except Malformed as problem:
            raise BadList(f"answered {kind.method} with {problem}") from None
        self.remarks += map(redact, listing.faults)
        self._refused[kind.name] = [
            Refused(kind.name[:-1], *map(redact, one))
            for one in (*listing.left_out, *listing.mended)
        ]
        return [loads(item.listed(item.exposed)) for item in listing.items]

    def _read(self, listing: Listing, deadline: float) -> None:
        """Read all pages of a list."""
        while listing.wanted is not None:
            page = self.conversation.request(listing.kind.method, listing.wanted, deadline)
            found = page.json("result")
            listing.take(found.text)
            if self.conversation.is_modern:
                self._hints = merged_hints(self._hints, found.value)


def _stranger(versions: Any, known: tuple[str, ...]) -> str:
    """Say that a server speaks these versions, and none that is known."""
    spoken = _list(versions)
    if not spoken:
        return "names no protocol version that it speaks"
    what = f"version{'' if len(spoken) == 1 else 's'} {', '.join(map(repr, spoken))}"
    return f"speaks protocol {what}, and not one of {', '.join(known)}"


def mentions_modern(refusal: Message) -> bool:
    """Whether a refused request with an envelope comes from a server that knows such requests.

    One that does not know the method may repeat all that it was sent.
    """
    if refusal.code == METHOD_NOT_FOUND:
        return False
    return refusal.code in MODERN_CODES or MODERN_VERSION in refusal.raw("error")


def merged_hints(hints: Json, page: Json) -> Json:
    """Return how long, and for whom, a client may keep lists: `hints` so far and one result's.

    `ttlMs` is the least of all (milliseconds), `cacheScope` is "private" if any is.
    """
    ttl, scope = page.get("ttlMs"), page.get("cacheScope")
    merged = dict(hints)
    if type(ttl) is int and ttl >= 0:
        merged["ttlMs"] = min(ttl, hints.get("ttlMs", ttl))
    if scope in ("public", "private"):
        merged["cacheScope"] = "private" if "private" in (scope, hints.get("cacheScope")) else scope
    return merged


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
