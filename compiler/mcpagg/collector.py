"""What a server says of itself: the introduction that it gives, and its lists.

The rules are those of the emitted file. What differs is that one thread asks, and waits.

A handshake is tried first: it works with every legacy server, and with those that speak both eras.
The specification recommends to probe with `server/discover` instead, but some servers exit on it.
So a child gets that request only after it has refused all handshakes, or, with an envelope, as the
last one of its life: what knows the newer revision gives itself away by its answer to it, and is
then asked on a fresh process.
"""

from __future__ import annotations

from collections.abc import Callable

from mcpagg import __version__
from mcpagg.conversation import DISCOVER, BadList, Conversation, Fault, Refusal, Silence, Time
from mcpagg.jsontext import dumps, loads
from mcpagg.snapshot import Json, Refused
from mcpagg_runtime.base.catalogue import LEGACY_ONLY, TOOLS, Kind
from mcpagg_runtime.base.jsontext import Malformed, edited, obj
from mcpagg_runtime.base.message import Message, notification
from mcpagg_runtime.base.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    INITIALIZED,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    SERVER_KEY,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mcpagg_runtime.modern.child import envelope
from mcpagg_runtime.serve.lifecycle import (
    MODERN_CODES,
    introduction_fault,
    knows_no_handshake,
    speaks_modern,
)
from mcpagg_runtime.serve.listing import Listing, unreadable
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS
from mcpagg_runtime.start.values import quote

ABOUT = obj(name='"mcpagg"', version=quote(__version__))
# How what is no endpoint of streamable HTTP, or of another revision, answers a POST (specification,
# transports, backwards compatibility).
UNKNOWN_THERE = (400, 404, 405)
FIRST_SHARE = 0.75
"""Of the time for all tries, what the first one gets."""
UNSPOKEN = "9999-12-31"
"""A version without a handshake that no server speaks."""
MODERN_SECONDS = 1.0
"""How long one that has shaken hands may take to show that it also speaks without."""


class Collector:
    """A server that is asked what it is and has.

    Once it was greeted: `protocol` is the version agreed upon, `info`, `capabilities` and
    `instructions` are what the server said of itself, `hints` what a modern one says of keeping its
    lists (see `merged_hints`). `remarks` are oddities worth a warning, `refused` {kind: what strict
    clients would refuse of that list}, both without secrets.

    If that failed: `handshake` is whether one could succeed in another version, `modern` whether
    the server has shown that it is modern, in whatever version.
    """

    def __init__(self, conversation: Conversation, time: Time) -> None:
        self.conversation = conversation
        self.launch = conversation.launch
        self.protocol = ""
        self.info: Json = {}
        self.capabilities: Json = {}
        self.instructions: str | None = None
        self.hints: Json = {}
        self.handshake = True
        self.modern = False
        self.remarks: list[str] = []
        self.refused: dict[str, list[Refused]] = {}
        self._time = time
        self._able = dumps(conversation.declared)
        self._knows_envelopes = False
        """Whether it has refused a handshake for the envelope."""

    @property
    def hopeless(self) -> bool:
        """Whether a fresh process would do no better in another version."""
        if self.launch.transport != "stdio":
            return self.conversation.is_gone and self.handshake
        return bool(self.protocol) or self.conversation.is_broken

    def _request(self, method: str, params: str, deadline: float) -> Message:
        """Send a request, in an envelope if need be; return the answer, which holds a result.

        Raises:
            Refusal, Silence, Fault: see `Conversation.request`.
        """
        if self.protocol == MODERN_VERSION:
            return self._enveloped(method, params, deadline)
        return self.conversation.request(method, params, deadline)

    def _enveloped(self, method: str, params: str, deadline: float) -> Message:
        meta = envelope(self._able, ABOUT, "", "")
        return self.conversation.request(method, edited(params, add={"_meta": meta}), deadline)

    # What it is

    def greet(self, version: str, deadline: float) -> Fault | None:
        """Agree on `version` as its revision has it; return why that failed, or None.

        Of the versions with a handshake, every known one is accepted as the answer, as the
        specification asks.

        Raises:
            Silence: it has not answered by then.
        """
        try:
            if version == MODERN_VERSION:
                return self._discover(deadline)
            return self._initialize(version, deadline)
        except Fault as fault:
            # What knows no handshake may refuse the request in a way of its own.
            self.handshake = fault.status not in UNKNOWN_THERE
            return fault

    def _initialize(self, version: str, deadline: float) -> Fault | None:
        params = obj(
            protocolVersion=quote(version),
            capabilities=self._able,
            clientInfo=ABOUT,
        )
        try:
            answer = self._shaken(version, params, deadline)
        except Refusal as refusal:
            self.handshake = not knows_no_handshake(refusal.answer)
            self.modern = speaks_modern(refusal.answer)
            return self.conversation.fault(f"answered initialize with {refusal}")
        about = loads(answer.raw("result"))
        self.protocol = str(about.get("protocolVersion"))
        if fault := introduction_fault("initialize", about):
            return self.conversation.fault(fault)
        if self.protocol not in LEGACY_VERSIONS:
            self.modern = self.protocol == MODERN_VERSION
            self.handshake = not self.modern
            return self._stranger([self.protocol], LEGACY_VERSIONS)
        self.info = _object(about.get("serverInfo"))
        odd = self._introduced("initialize", about)
        if odd is None:
            self.conversation.notify(notification(INITIALIZED))
        return odd

    def _shaken(self, version: str, params: str, deadline: float) -> Message:
        """Ask for a handshake, first with an envelope that makes no request of either era.

        Some servers go by the first message that has no fault, and know one era alone from then on:
        they refuse this one for its version. Others take no notice of an envelope here.
        """
        if version == LEGACY_VERSIONS[0] and not self.launch.url:
            said = {VERSION_KEY: quote(UNSPOKEN), CAPABILITIES_KEY: self._able, INFO_KEY: ABOUT}
            try:
                enveloped = edited(params, add={"_meta": obj(said)})
                return self.conversation.request("initialize", enveloped, deadline)
            except Refusal as refusal:
                self._knows_envelopes = mentions_modern(refusal.answer)
                if not self._knows_envelopes:
                    raise
        return self.conversation.request("initialize", params, deadline)

    def _discover(self, deadline: float) -> Fault | None:
        """Ask a child that knows no handshake what it is."""
        self.protocol = MODERN_VERSION
        try:
            answer = self._request(DISCOVER, "{}", deadline)
        except Refusal as refusal:
            self.modern = refusal.code in MODERN_CODES
            if refusal.code == UNSUPPORTED_VERSION:
                data = _object(refusal.answer.value("error")).get("data")
                return self._stranger(_list(_object(data).get("supported")), (MODERN_VERSION,))
            return self.conversation.fault(f"answered {DISCOVER} with {refusal}")
        self.modern = True
        about = loads(answer.raw("result"))
        if fault := introduction_fault(DISCOVER, about):
            return self.conversation.fault(fault)
        versions = _list(about.get("supportedVersions"))
        if MODERN_VERSION not in versions:
            return self._stranger(versions, (MODERN_VERSION,))
        self.info = _object(_object(about.get("_meta")).get(SERVER_KEY))
        return self._introduced(DISCOVER, about)

    def _introduced(self, method: str, about: Json) -> Fault | None:
        """Take down what the child said of itself; return what is wrong with it, or None."""
        self.capabilities = _object(about.get("capabilities"))
        instructions = about.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else None
        if odd := unreadable([self.info, self.capabilities, self.instructions]):
            return self.conversation.fault(
                f"answered {method} with {odd}, which strict clients refuse"
            )
        return None

    def _stranger(self, versions: list[object], known: tuple[str, ...]) -> Fault:
        """Say that it speaks these versions, and none that is known."""
        if not versions:
            return self.conversation.fault("names no protocol version that it speaks")
        what = f"version{'' if len(versions) == 1 else 's'} {', '.join(map(repr, versions))}"
        return self.conversation.fault(f"speaks protocol {what}, and not one of {', '.join(known)}")

    def may_be_modern(self) -> bool:
        """Whether a server that has shaken hands may speak without a handshake as well.

        It is asked for that, and may be of no further use. One behind a URL is not: to speak to it
        without a handshake takes no process.
        """
        if self.protocol == MODERN_VERSION or self.launch.transport == "sse":
            return False
        if self.launch.url or self._knows_envelopes:
            return True
        try:
            answer = self._enveloped(DISCOVER, "{}", self._time.now() + MODERN_SECONDS)
        except Refusal as refusal:
            return mentions_modern(refusal.answer)
        except (Silence, Fault):
            return False
        return MODERN_VERSION in _list(loads(answer.raw("result")).get("supportedVersions"))

    # Its lists

    def items(self, kind: Kind, seconds: float) -> list[Json]:
        """Return one list of the child as it gave it, page after page, within so many seconds.

        What the emitted file would leave out or mend is left out or mended, and told.

        Raises:
            BadList: it gives none.
            Fault: the child is gone.
        """
        if not kind.is_declared(self.capabilities):
            return []
        over_http = self.launch.transport == "streamable-http"
        modern = self.protocol == MODERN_VERSION
        without = LEGACY_ONLY if kind is TOOLS and modern else ()
        listing = Listing(kind, "", is_modern=modern, over_http=over_http, without=without)
        try:
            self._read(listing, self._time.now() + seconds)
        except Silence:
            what = f"did not answer {kind.method} within {seconds:g} s"
            raise BadList(what, is_late=True) from None
        except Refusal as refusal:
            if refusal.code != METHOD_NOT_FOUND:
                raise BadList(
                    self.launch.redact(f"answered {kind.method} with {refusal}")
                ) from None
            # Many servers have resources and know nothing of templates.
            if kind.name != "templates":
                what = f"declares {kind.capability}, but does not know {kind.method}"
                self.remarks.append(what)
            return []
        except Malformed as problem:
            raise BadList(f"answered {kind.method} with {problem}") from None
        self.remarks += [self.launch.redact(fault) for fault in listing.faults]
        self.refused[kind.name] = [
            Refused(kind.name[:-1], *map(self.launch.redact, one))
            for one in (*listing.left_out, *listing.mended)
        ]
        return [loads(item.listed(item.exposed)) for item in listing.items]

    def _read(self, listing: Listing, deadline: float) -> None:
        """Read all pages of a list."""
        while listing.wanted is not None:
            page = self._request(listing.kind.method, listing.wanted, deadline)
            if self.protocol == MODERN_VERSION:
                self.hints = merged_hints(self.hints, page.value("result"))
            listing.take(page.raw("result"))


def connect(
    start: Callable[[], Collector],
    close: Callable[[Collector], None],
    seconds: float,
    time: Time,
) -> Collector:
    """Start a child and agree on a version.

    A child that refuses the newest version with a handshake, or is silent, is asked again in each
    older one, and at last without a handshake, in the modern one; at once in that one if its
    refusal says that it knows no handshake. Always on a fresh process, since a refusal may have
    left it in any state. All tries together take at most `seconds`: the first one three quarters,
    because a child that is still installing is far more common than one that hangs over a version;
    the others share the rest. What a launcher takes to install the child does not count. A child
    that exits for another reason than its version is not started again: see `hopeless`.

    Raises:
        Fault: what came of the first try; of the last one, if the child is modern.
    """
    end = time.now() + seconds
    versions = [*LEGACY_VERSIONS, MODERN_VERSION]
    fault: Fault | None = None
    modern = False
    while True:
        version = versions.pop(0)
        now = time.now()
        share = (end - now) / (len(versions) + 1) if fault else (end - now) * FIRST_SHARE
        child = start()
        try:
            refused = child.greet(version, now + share)
            if refused is None:
                return child
            hopeless = child.hopeless  # before we end it, which would look the same
        except Silence:
            refused, hopeless = _silence(child, version, seconds), False
        except BaseException:
            close(child)
            raise
        close(child)
        if child.conversation.was_installed:
            end = max(end, time.now() + seconds * (1 - FIRST_SHARE))
        modern = modern or child.modern
        if fault is None or modern:
            fault = refused
        if not child.handshake:
            versions = [one for one in versions if one == MODERN_VERSION]
        elif hopeless or time.now() >= end:
            versions = []
        if not versions:
            raise fault


def mentions_modern(refusal: Message) -> bool:
    """Whether a refused request with an envelope comes from a server that knows such requests.

    One that does not know the method may repeat all that it was sent.
    """
    if refusal.code == METHOD_NOT_FOUND:
        return False
    return refusal.code in MODERN_CODES or MODERN_VERSION in refusal.raw("error")


def _silence(child: Collector, version: str, seconds: float) -> Fault:
    method = DISCOVER if version == MODERN_VERSION else "initialize"
    talk = child.conversation
    what = f"did not answer {method} within {seconds:g} s{talk.silence_told}"
    if talk.noise:
        what += f", but {talk.told_noise()}"
    return talk.fault(f"{what} ({_why_silent(child)})", is_late=True)


def _why_silent(child: Collector) -> str:
    """Return what may be the reason that a child has not answered, as a question if unknown."""
    if child.launch.url:
        return "is it an MCP server that is there, and does what is before it hold answers back?"
    installation = child.conversation.installation
    if installation is None:
        return "is it still installing, or does it buffer its output?"
    if installation.is_under_way():
        return f"{installation.package.launcher.words[0]} is still installing it"
    return "it is installed: does it take longer, or buffer its output?"


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
