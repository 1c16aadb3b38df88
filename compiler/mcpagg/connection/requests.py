"""A child that answers, over any transport: handshake, requests, lists.

Requests are raw: a result is the plain JSON value that the child sent. The SDK's typed models drop
unknown members and refuse a whole list over one odd tool.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import version as installed_version
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_PROTOCOL_VERSION_HEADER,
    find_invalid_x_mcp_header,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from mcpagg.connection import modern
from mcpagg.connection.framing import Result
from mcpagg.connection.remote import RemoteChild
from mcpagg.connection.stdio import ChildProcess
from mcpagg.jsontext import dumps, loads
from mcpagg.snapshot import Json
from mcpagg.spec import ServerSpec
from mcpagg_runtime.catalogue import TOOLS, Kind
from mcpagg_runtime.jsontext import Malformed
from mcpagg_runtime.launch import Launch
from mcpagg_runtime.listing import Listing, unreadable
from mcpagg_runtime.protocol import LEGACY_VERSIONS
from mcpagg_runtime.terminal import printable

# The SDK logs a traceback for each odd line; without a handler Python would print it on stderr.
logging.getLogger("mcp").addHandler(logging.NullHandler())

TOOLS_CHANGED = "notifications/tools/list_changed"
USER_REJECTED = -1  # specification, client/sampling: what a client answers when the user declines
STDERR_LINES = 10
LINE_WIDTH = 400  # characters

Link = ChildProcess | RemoteChild


class ConnectionFault(Exception):
    """Raised when a child cannot be started or spoken with.

    `what` completes "server 'x' …"; the text as a whole also quotes the end of the child's stderr,
    on lines of their own. Neither holds a secret.
    """

    def __init__(self, what: str, words: list[str] | None = None) -> None:
        """`words` are the lines to quote."""
        quoted = [f"{what}; the end of its stderr:", *words] if words else [what]
        super().__init__("\n    ".join(quoted))
        self.what = what


class BadList(ConnectionFault):
    """Raised when a child's answer to a list request holds no list; nothing else is wrong."""


class Connection:
    """A child that answers.

    Once it was greeted: `protocol` is the version agreed upon, `info`, `capabilities` and
    `instructions` are what the child said of itself, `hints` what a modern one says of keeping its
    lists (see `merged_hints`). `remarks` are oddities worth a warning, without secrets. `changes`
    counts the `tools/list_changed` notifications so far.

    If that failed: `handshake` is whether one could succeed in another version, `modern` whether
    the child has shown that it speaks by envelopes, in whatever version.
    """

    def __init__(self, server: ServerSpec, launch: Launch, link: Link, declared: Json) -> None:
        """`declared` are the capabilities of this side."""
        self.server = server
        self.protocol = ""
        self.info: Json = {}
        self.capabilities: Json = {}
        self.instructions: str | None = None
        self.hints: Json = {}
        self.handshake = True
        self.modern = False
        self.remarks: list[str] = []
        self.changes = 0
        self.launch = launch
        self._link = link
        self._declared = declared
        self._about: Json = {"name": "mcpagg", "version": installed_version("mcpagg")}
        self._mirrored: dict[str, dict[tuple[str, ...], str]] = {}
        self._dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
            link.read, link.write
        )
        self._ended = anyio.Event()
        self._news = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Receive until the link ends."""
        try:
            await self._dispatcher.run(self._answer, _ignore, self._notice, task_status=task_status)
        finally:
            self._ended.set()

    async def greet(self, version: str) -> ConnectionFault | None:
        """Agree on `version` as its revision has it; return why that failed, or None.

        Of the versions with a handshake, every known one is accepted as the answer, as the
        specification asks.
        """
        by_envelope = version in MODERN_PROTOCOL_VERSIONS
        try:
            return await (self._discover() if by_envelope else self._initialize(version))
        except ConnectionFault as fault:
            return fault

    async def _initialize(self, version: str) -> ConnectionFault | None:
        """Shake hands, offering `version`."""
        params = {
            "protocolVersion": version,
            "capabilities": self._declared,
            "clientInfo": self._about,
        }
        try:
            answer = await self.request("initialize", params)
        except MCPError as error:
            self.handshake = not modern.knows_no_handshake(error)
            self.modern = modern.speaks_modern(error)
            return self.refusal("initialize", error)
        self.protocol = str(answer.get("protocolVersion"))
        if self.protocol not in LEGACY_VERSIONS:
            self.modern = self.protocol in MODERN_PROTOCOL_VERSIONS
            self.handshake = not self.modern
            return self._stranger([self.protocol], LEGACY_VERSIONS)
        self.info = _object(answer.get("serverInfo"))
        fault = self._introduced("initialize", answer)
        if fault is None:
            await self._dispatcher.notify("notifications/initialized", None, self._options())
        return fault

    async def _discover(self) -> ConnectionFault | None:
        """Ask a child that knows no handshake what it is."""
        self.protocol = LATEST_MODERN_VERSION
        try:
            answer = await self.request(modern.DISCOVER)
        except MCPError as error:
            self.modern = error.code in modern.CODES
            if error.code == UNSUPPORTED_PROTOCOL_VERSION:
                supported = _object(error.error.data).get("supported")
                return self._stranger(_list(supported), MODERN_PROTOCOL_VERSIONS)
            return self.refusal(modern.DISCOVER, error)
        self.modern = True
        versions = _list(answer.get("supportedVersions"))
        if self.protocol not in versions:
            return self._stranger(versions, MODERN_PROTOCOL_VERSIONS)
        self.info = _object(_object(answer.get("_meta")).get(SERVER_INFO_META_KEY))
        return self._introduced(modern.DISCOVER, answer)

    def _introduced(self, method: str, answer: Json) -> ConnectionFault | None:
        """Take down what the child said of itself; return what is wrong with it, or None."""
        self.capabilities = _object(answer.get("capabilities"))
        instructions = answer.get("instructions")
        self.instructions = instructions if isinstance(instructions, str) else None
        if odd := unreadable([self.info, self.capabilities, self.instructions]):
            return self.fault(f"answered {method} with {odd}, which strict clients refuse")
        return None

    def _stranger(self, versions: list[Any], known: tuple[str, ...]) -> ConnectionFault:
        """Say that it speaks these versions, and none that is known."""
        if not versions:
            return self.fault("names no protocol version that it speaks")
        what = f"version{'' if len(versions) == 1 else 's'} {', '.join(map(repr, versions))}"
        return self.fault(f"speaks protocol {what}, and not one of {', '.join(known)}")

    @property
    def hopeless(self) -> bool:
        """Whether a fresh process would do no better in another version."""
        return bool(self.protocol) or self._link.hopeless

    async def request(self, method: str, params: Json | None = None) -> Json:
        """Send a request, in an envelope if need be; return the child's result as it is.

        Raises:
            MCPError: the child's error, as it is.
            ConnectionFault: the child is gone.
        """
        # Only a call is worth a notice that its answer is no longer wanted, which a child that
        # does not read would block; `initialize` must not be cancelled at all.
        options = self._options(cancel_on_abandon=method == "tools/call")
        if self.protocol in MODERN_PROTOCOL_VERSIONS:
            params = modern.enveloped(params or {}, self._declared, self._about)
            options["headers"].update(modern.headers(method, params, self._mirrored))
        try:
            return await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED or not await self._is_lost():
                raise
        raise self.fault(f"{await self._link.fate()} before it answered {method}")

    async def call(self, params: Json) -> Json:
        """Call a tool; return its result, with questions answered for a user who is not there.

        Raises:
            MCPError: the child's error as it is; or it asked for what nobody here can give.
            ConnectionFault: the child is gone.
        """

        async def send(params: Json) -> Json:
            return await self.request("tools/call", params)

        if self.protocol not in MODERN_PROTOCOL_VERSIONS:
            return await send(params)
        return await modern.call_until_complete(send, params, self._answer_for_nobody)

    async def list_items(self, kind: Kind = TOOLS) -> list[Json]:
        """Return one list of the child as it gave it, page after page; see `request` for errors.

        What the emitted file would leave out is left out, with a remark; and so is a tool that asks
        for headers which no client may send.

        Raises:
            BadList: the answer holds no list.
        """
        if not kind.is_declared(self.capabilities):
            return []
        listing = Listing(kind, self.server.name)
        await self._read(listing)
        listed = []
        for item in listing.items:
            value: Json = loads(item.listed(item.exposed))
            if kind is TOOLS and (why := self._unsendable(value)):
                listing.faults.append(f"lists the tool {item.exposed!r}, which is left out: {why}")
            else:
                listed.append(value)
        self.remarks += [self.launch.redact(fault) for fault in listing.faults]
        return listed

    async def _read(self, listing: Listing) -> None:
        """Read all pages of a list."""
        params: Json | None = None
        while True:
            page = await self.request(listing.kind.method, params)
            if self.protocol in MODERN_PROTOCOL_VERSIONS:
                self.hints = modern.merged_hints(self.hints, page)
            try:
                cursor = listing.take(page.text if isinstance(page, Result) else dumps(page))
            except Malformed as problem:
                raise BadList(f"answered {listing.kind.method} with {problem}") from None
            if cursor is None:
                return
            params = {"cursor": cursor}

    def _unsendable(self, tool: Json) -> str:
        """Note which arguments of a tool go into headers as well; say why that cannot be done.

        Only streamable HTTP has headers, and only since the modern revision arguments in them.
        """
        if self.server.transport == "stdio" or self.protocol not in MODERN_PROTOCOL_VERSIONS:
            return ""
        schema = tool.get("inputSchema")
        why = find_invalid_x_mcp_header(schema)
        if why is None:
            self._mirrored[tool["name"]] = x_mcp_header_map(schema)
        return why or ""

    async def changed(self, within: float) -> bool:
        """Wait for news of changed tools that were not waited for yet, at most so many seconds."""
        with anyio.move_on_after(within):
            await self._news.wait()
        if not self._news.is_set():
            return False
        self._news = anyio.Event()
        return True

    def refusal(self, method: str, error: MCPError) -> ConnectionFault:
        """Say that the child refused `method`."""
        how = self._link.refusal or f"error {error.code}: {error.message}"
        return self.fault(f"answered {method} with {how}")

    def fault(self, what: str) -> ConnectionFault:
        """Say what is wrong with the child, with the end of its stderr.

        Both may hold a child's own words: without secrets, and without what a terminal acts on.
        """
        words = self._shown(self._link.last_words)
        return ConnectionFault(" ".join(self._shown(what)), words[-STDERR_LINES:])

    def _shown(self, text: str) -> list[str]:
        lines = self.launch.redact(text).replace("\r", "\n").split("\n")
        shown = [printable(line).rstrip()[:LINE_WIDTH] for line in lines]
        return [line for line in shown if line]

    def noise(self) -> str:
        """What was on stdout first that was no message, without secrets, or nothing."""
        return self._link.noise[0] if self._link.noise else ""

    def _options(self, **more: Any) -> CallOptions:
        """Add the header that streamable HTTP asks for once the version is known."""
        if self.protocol:
            more["headers"] = {MCP_PROTOCOL_VERSION_HEADER: self.protocol}
        options: CallOptions = {**more}  # type: ignore[typeddict-item]
        return options

    async def _is_lost(self) -> bool:
        """Whether the link has ended, or the error was the child's own."""
        if not self._link.broken:
            with anyio.move_on_after(0.1):  # the dispatcher tells its waiters a moment before
                await self._ended.wait()
        return self._link.broken or self._ended.is_set()

    def _notice(self, method: str, _params: Mapping[str, Any] | None) -> bool:
        """Take note of a notification, in the order of arrival; all are dealt with here."""
        if method == TOOLS_CHANGED:
            self.changes += 1
            self._news.set()
        return True

    async def _answer(
        self, _context: DispatchContext[TransportContext], method: str, _: Mapping[str, Any] | None
    ) -> Json:
        """Answer a request of the child."""
        return {} if method == "ping" else self._answer_for_nobody(method)

    def _answer_for_nobody(self, method: str) -> Json:
        """Answer what a child asks of the user, who is not there.

        Raises:
            MCPError: the user would refuse, or has no such capability.
        """
        if method == "roots/list" and "roots" in self._declared:
            return {"roots": []}
        if method == "elicitation/create" and "elicitation" in self._declared:
            return {"action": "cancel"}
        if method == "sampling/createMessage" and "sampling" in self._declared:
            raise MCPError(USER_REJECTED, "User rejected sampling request")
        raise MCPError(METHOD_NOT_FOUND, "Method not found", method)


async def _ignore(*_: object) -> None:
    """Take a notification that `Connection._notice` has dealt with."""


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
