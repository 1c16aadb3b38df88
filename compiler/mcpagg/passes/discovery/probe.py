"""What a server says of itself over one connection: its introduction, and its lists.

The rules are those of the emitted file. What differs is that one thread asks, and waits.

A list may depend on the client's capabilities, and a server may complete it only after the
handshake. So every capability is declared that a proxy can relay, and the tools are read again when
no more `list_changed` notifications come.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcpagg.jsontext import dumps, loads, members_of
from mcpagg.passes.discovery.probe_connection import (
    ABOUT,
    TIME,
    BadList,
    ProbeConnection,
    Refusal,
    ServerFault,
    Silence,
)
from mcpagg.snapshot import ChildSnapshot, Json, Refused
from mcpagg_runtime.lists.catalogue import KINDS, LEGACY_ONLY, TOOLS, Kind
from mcpagg_runtime.lists.listing import Listing, strict_fault
from mcpagg_runtime.lists.values import items_of
from mcpagg_runtime.messages.jsontext import Malformed, edited, obj
from mcpagg_runtime.messages.message import Message, notification
from mcpagg_runtime.messages.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    INITIALIZED,
    METHOD_NOT_FOUND,
    MODERN_CODES,
    MODERN_VERSION,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.modern.child import envelope
from mcpagg_runtime.servers.lifecycle import (
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


class ServerProbe:
    """Asks a server over a connection what it is and what it lists.

    After `shake_hands`, `introduction` is what it says of itself, without lists, and `remarks` are
    oddities worth a warning, without secrets. If that failed, `handshake` is whether one could
    succeed in another version, `modern` whether the server has shown that it is modern.
    """

    def __init__(self, connection: ProbeConnection, seconds: float) -> None:
        """`seconds` is how long a server may take to shake hands, and for each list of tools."""
        self.connection = connection
        self.launch = connection.server.launch
        self.introduction = ChildSnapshot(connection.name, "")
        self.handshake = True
        self.modern = False
        self.remarks: list[str] = []
        self._seconds = seconds
        self._able = dumps(connection.declared)
        self._hints: Json = {}
        self._refused: dict[str, list[Refused]] = {}
        """{kind: what strict clients would refuse of that list}."""
        self._has_answered = False
        self._knows_envelopes = False
        """Whether it has refused a handshake for the envelope."""

    @property
    def is_hopeless(self) -> bool:
        """Whether a fresh process would do no better in another version."""
        if self.launch.transport != "stdio":
            return bool(self.connection.gone) and self.handshake
        return self._has_answered or self.connection.server.is_broken

    # What it is

    def shake_hands(self, deadline: float) -> ServerFault | None:
        """Agree on the version as its revision has it; return why that failed, or None.

        Of the versions with a handshake, every known one is accepted as the answer, as the
        specification asks.
        """
        connection = self.connection
        try:
            about = loads(self._handshake_answer(deadline).raw("result") or "null")
        except Silence:
            return connection.server.silence_fault(connection.greeting, self._seconds)
        except Refusal as refusal:
            return connection.server.fault(self._refusal_fault(refusal))
        except ServerFault as fault:
            # What knows no handshake may refuse the request in a way of its own.
            self.handshake = fault.status not in UNKNOWN_THERE
            return fault
        self._has_answered = True
        self.modern = connection.is_modern
        if what := introduction_fault(about) or self._take_introduction(about):
            return connection.server.fault(what)
        if not connection.is_modern:
            connection.notify(notification(INITIALIZED))
        return None

    def _handshake_answer(self, deadline: float) -> Message:
        """Ask for a handshake, first with an envelope that makes no request of either era.

        Some servers go by the first message that has no fault, and know one era alone from then on:
        they refuse this one for its version. Others take no notice of an envelope here.
        """
        params = handshake(self.connection.version, self._able, ABOUT)
        if self.connection.version == LEGACY_VERSIONS[0] and not self.launch.url:
            members = {VERSION_KEY: quote(UNSPOKEN), CAPABILITIES_KEY: self._able, INFO_KEY: ABOUT}
            try:
                enveloped = edited(params, add={"_meta": obj(members)})
                return self.connection.request("initialize", enveloped, deadline)
            except Refusal as refusal:
                self._knows_envelopes = mentions_modern(refusal.answer)
                if not self._knows_envelopes:
                    raise
        return self.connection.request("initialize", params, deadline)

    def _refusal_fault(self, refusal: Refusal) -> str:
        """Note what a refusal says about the era; return what is wrong with the server."""
        if not self.connection.is_modern:
            self.handshake = not knows_no_handshake(refusal.answer)
            self.modern = speaks_modern(refusal.answer)
            return str(refusal)
        self.modern = refusal.code in MODERN_CODES
        if refusal.code != UNSUPPORTED_VERSION:
            return str(refusal)
        data = members_of(members_of(refusal.answer.value("error")).get("data"))
        return _unknown_versions(data.get("supported"), (MODERN_VERSION,))

    def _take_introduction(self, about: Json) -> str:
        """Keep what the server says of itself; return what is wrong with it, "" for nothing."""
        connection = self.connection
        spoken = items_of(about.get("supportedVersions"))
        versions = (MODERN_VERSION,) if connection.is_modern else LEGACY_VERSIONS
        if not connection.is_modern:
            spoken = [about["protocolVersion"]]
            self.modern = MODERN_VERSION in spoken
            self.handshake = not self.modern
        if not any(version in versions for version in spoken):
            return _unknown_versions(spoken, versions)
        instructions = about.get("instructions")
        self.introduction = ChildSnapshot(
            name=connection.name,
            protocol=about["protocolVersion"],
            transport=self.launch.transport if self.launch.url else "",
            info=members_of(about.get("serverInfo")),
            capabilities=members_of(about.get("capabilities")),
            instructions=instructions if isinstance(instructions, str) else None,
        )
        odd = strict_fault(
            [self.introduction.info, self.introduction.capabilities, self.introduction.instructions]
        )
        what = f"answered {connection.greeting} with {odd}, which strict clients refuse"
        return what if odd else ""

    def may_be_modern(self) -> bool:
        """Whether a server that has shaken hands may speak without a handshake as well.

        It is asked for that, and may be of no further use. One behind a URL is not: to speak to it
        without a handshake takes no process.
        """
        connection = self.connection
        if connection.is_modern or self.launch.transport == "sse":
            return False
        if self.launch.url or self._knows_envelopes:
            return True
        params = obj(_meta=envelope(self._able, ABOUT))
        try:
            answer = connection.request("server/discover", params, TIME.now() + MODERN_SECONDS)
        except Refusal as refusal:
            return mentions_modern(refusal.answer)
        except (Silence, ServerFault):
            return False
        return MODERN_VERSION in items_of(answer.json("result").value.get("supportedVersions"))

    # Its lists

    def snapshot(self, tools: list[Json], fault: BadList | None = None) -> ChildSnapshot:
        """Return what the server offers, now that its tools are read, or why they are not.

        Raises:
            ServerFault: it is gone, or gives no list at all.
        """
        server = self.connection.server
        if server.noise:
            self.remarks.append(server.noise_remark())
        others = {kind.name: self._other_list(kind) for kind in KINDS if kind is not TOOLS}
        if fault is not None:
            if not any(others.values()):
                raise server.fault(fault.what, is_late=fault.is_late)
            self.remarks.append(f"{fault.what}: taken for empty")
        elif not tools and "tools" in self.introduction.capabilities:
            self.remarks.append("lists no tools")
        refused = tuple(entry for some in self._refused.values() for entry in some)
        lists: dict[str, Any] = {"tools": tuple(tools), **others}
        return replace(self.introduction, hints=self._hints, refused=refused, **lists)

    def settled_tools(self, patience: float) -> tuple[list[Json], float | None]:
        """Read the tools once no change comes; also return for how many seconds they changed.

        `patience` is how long to wait for news of a list that is not empty, in seconds. At most
        two readings, whatever the server announces.
        """
        connection = self.connection
        began = TIME.now()
        tools = self._list_items(TOOLS, self._seconds)
        declared = self.introduction.capabilities.get("tools")
        # A modern list is not settling: it may depend on no connection and on no capability
        # (specification 2026-07-28, the lists), and only listeners are notified of changes.
        if declared is None or connection.is_modern:
            return tools, None
        hinted = isinstance(declared, dict) and declared.get("listChanged") is True
        last: float | None = None
        end = TIME.now() + LONGEST
        wait = patience if tools and hinted else 0.0 if tools else LONGEST
        while connection.changed(min(wait, end - TIME.now())):
            last, wait = TIME.now(), QUIET
        if last is None:
            # The stream for such news is opened after the handshake: by then it may be no news.
            missed = hinted and bool(self.launch.url)
            return tools, 0.0 if missed else None
        before = connection.changes
        again = self._list_items(TOOLS, self._seconds)
        # News that comes with every reading, of a list that stays the same, is no news.
        moved = dumps(again) != dumps(tools) or connection.changes == before
        return again, last - began if moved else None

    def _other_list(self, kind: Kind) -> tuple[Json, ...]:
        """Read a list other than the tools; whatever is wrong with it costs the server no tool."""
        try:
            return tuple(self._list_items(kind, min(self._seconds, OTHERS)))
        except BadList as fault:
            self.remarks.append(f"{fault.what}: taken for empty")
            return ()

    def _list_items(self, kind: Kind, seconds: float) -> list[Json]:
        """Return one list as the server gives it, page after page.

        What the emitted file would leave out or mend is left out or mended, with a remark.

        Raises:
            BadList: it gives none.
            ServerFault: it is gone.
        """
        if not kind.is_declared(self.introduction.capabilities):
            return []
        redact, is_modern = self.launch.redact, self.connection.is_modern
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
            Refused(kind.name[:-1], *map(redact, entry))
            for entry in (*listing.left_out, *listing.mended)
        ]
        return [loads(item.listed(item.exposed)) for item in listing.items]

    def _read(self, listing: Listing, deadline: float) -> None:
        """Read all pages of a list."""
        while listing.next_params is not None:
            page = self.connection.request(listing.kind.method, listing.next_params, deadline)
            answer = page.json("result")
            listing.add_page(answer.text)
            if self.connection.is_modern:
                self._hints = merged_hints(self._hints, answer.value)


def _unknown_versions(versions: Any, known: tuple[str, ...]) -> str:
    """Say that a server speaks these versions, and none that is known."""
    spoken = items_of(versions)
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
