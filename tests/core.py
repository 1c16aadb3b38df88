"""A router without processes: a plan in one line, a clock that stands still, and who got what.

    world = World({"db": ["query"]})
    client = world.client()
    db = world.up("db")
    world.say(client, call(1, "db:query"))
    world.answer(db, {})
    assert world.received(client) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]

Peers are given and asked for as objects; `world["db"]` is a child.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagg.options import Options
from mcpagg.passes.emission.emission import plan_tables
from mcpagg.passes.linking.linking import link
from mcpagg.passes.linking.overlays import patches, with_overlays
from mcpagg.passes.linking.profiles import subsets
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg.spec import Overlay, Profile, ProxySpec, ServerSpec
from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.clients.client import Client
from mcpagg_runtime.clients.profiles import narrowed
from mcpagg_runtime.lists.catalogue import KINDS, SKILLS, TOOLS, Kind
from mcpagg_runtime.messages.protocol import (
    CAPABILITIES_KEY,
    INFO_KEY,
    MODERN,
    MODERN_VERSION,
    SERVER_MARK,
    VERSION_KEY,
)
from mcpagg_runtime.plan.face import served
from mcpagg_runtime.plan.plan import Plan
from mcpagg_runtime.routing.core import Core
from mcpagg_runtime.routing.router import Dispatch
from mcpagg_runtime.servers.child import Child
from mcpagg_runtime.servers.effects import SAY, SEND, SLEEP, START, STATE, STOP

if TYPE_CHECKING:
    from mcpagg_runtime.routing.router import Dispatching
    from mcpagg_runtime.servers.effects import Action

Json = dict[str, Any]
Peer = Client | Child
Message = Json | list[Any] | str | bytes
"""What a peer says: a value for json.dumps, or the text or bytes of the line itself."""

PREFIX = '{"jsonrpc":"2.0",'
"""How each line of the proxy begins."""
INITIALIZED: Json = {"jsonrpc": "2.0", "method": "notifications/initialized"}
TOOLS_CHANGED: Json = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
ROOTS: Json = {"roots": {"listChanged": True}}
ASKABLE: Json = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
REQUEST = re.compile(r'\{"jsonrpc":"2.0","id":(\d+),"method":')
SHOWN = 500
"""How many characters of a request have its id, its method and what it is for."""
Rows = Mapping[str, Mapping[str, Any]]
Profiles = Mapping[str, Mapping[str, list[str]]]


def tool(name: str, **more: Any) -> Json:
    """Return a tool as a child lists it."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def plan(  # noqa: PLR0913 - as many as a snapshot has parts
    servers: Mapping[str, Iterable[str | Json]],
    *,
    rows: Mapping[str, Json] | None = None,
    prompts: Mapping[str, Iterable[str]] | None = None,
    resources: Mapping[str, Iterable[str]] | None = None,
    templates: Mapping[str, Iterable[str]] | None = None,
    skills: Mapping[str, Iterable[str]] | None = None,
    conditional: Mapping[str, Iterable[str]] | None = None,
    instructions: Mapping[str, str] | None = None,
    capabilities: Json | None = None,
    declares: Mapping[str, Json] | None = None,
    facts: Mapping[str, Json] | None = None,
    profiles: Profiles | None = None,
    profile: str | None = None,
    overlays: Mapping[str, Mapping[str, Json]] | None = None,
    asked: Sequence[str] = (),
    **options: Any,
) -> Plan:
    """Return what the compiler makes of servers {name: tools}, a tool by name or whole.

    `prompts` {server: names}, `resources`, `templates` and `skills` {server: URIs} are for those
    that have some. A server declares the lists that it has and `capabilities`, or what `declares`
    {server: capabilities} says of it; `facts` are {server: more of its ChildSnapshot}.
    `profiles` {name: {server: its tools}} are those to choose from, each also for the clients of
    its name, and `profile` is the one chosen; `overlays` {server: {tool: patch}}. `asked` are the
    servers that are served alone.
    """
    lists = {"tools": servers, "prompts": prompts, "resources": resources}
    lists |= {"templates": templates, "skills": skills}
    children = []
    for name in servers:
        child = _child(name, {kind: (found or {}).get(name, ()) for kind, found in lists.items()})
        declared = (declares or {}).get(name, {**child.capabilities, **(capabilities or {})})
        children.append(
            replace(
                child,
                capabilities=declared,
                conditional=frozenset((conditional or {}).get(name, ())),
                instructions=(instructions or {}).get(name),
                **(facts or {}).get(name, {}),
            )
        )
    whole = Plan(
        _tables(
            _spec(servers, profiles or {}, overlays or {}),
            {server: {"command": "none", **(rows or {}).get(server, {})} for server in servers},
            Snapshot(tuple(children)),
            Options(**options),
        )
    )
    whole.version = "1"  # and not a digest of all that it is made of
    return served(narrowed(whole, profile) if profile else whole, asked)


def _child(name: str, lists: Mapping[str, Iterable[str | Json]]) -> ChildSnapshot:
    """Return the snapshot of a server with these lists, which declares them and nothing else."""
    items: dict[str, Any] = {}
    declared: Json = {"tools": {}}
    for kind in KINDS:
        items[kind.name] = tuple(
            entry if isinstance(entry, dict) else _entry(kind, entry) for entry in lists[kind.name]
        )
        if items[kind.name] and kind is SKILLS:
            declared["extensions"] = {kind.capability: {}}
        elif items[kind.name]:
            declared[kind.capability] = {}
    return ChildSnapshot(name, "2025-11-25", capabilities=declared, **items)


def _entry(kind: Kind, key: str) -> Json:
    """Return an entry of a list; `key` is its name, or its URI."""
    if kind is TOOLS:
        return tool(key)
    return {kind.key: key} if kind is SKILLS else {"name": "r", kind.key: key}


def _spec(
    servers: Iterable[str], profiles: Profiles, overlays: Mapping[str, Mapping[str, Json]]
) -> ProxySpec:
    """Return the config of servers of which nothing is said but what else has their names."""
    globs = {
        name: [f"{server}:{tool}" for server, tools in found.items() for tool in tools or [""]]
        for name, found in profiles.items()
    }
    return ProxySpec(
        source="mcp.json",
        folder=Path("/project"),
        servers=tuple(ServerSpec(name=name, path=name) for name in servers),
        profiles=tuple(
            Profile(name=name, path=name, expose=tuple(map(escape, found)), clients=(name,))
            for name, found in globs.items()
        ),
        overlays=tuple(
            Overlay(server=server, tool=tool, path=server, patch=patch)
            for server, patched in overlays.items()
            for tool, patch in patched.items()
        ),
    )


def _tables(spec: ProxySpec, rows: Rows, snapshot: Snapshot, options: Options) -> Json:
    """Return the tables of the emitted file."""
    listed = with_overlays(spec, snapshot)
    linked, _ = link(spec, rows, listed, options)
    profiles, _ = subsets(spec, listed, linked, options)
    linked = replace(linked, profiles=profiles, overlays=patches(spec, snapshot))
    return plan_tables(name="test", rows=rows, snapshot=snapshot, linked=linked, options=options)


def request(identifier: Any, method: str, params: Any = None) -> Json:
    """Return a request; None for `params` leaves them out."""
    message = {"jsonrpc": "2.0", "id": identifier, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: Any = None) -> Json:
    """Return a notification; None for `params` leaves them out."""
    message = request(0, method, params)
    del message["id"]
    return message


def cancelled(identifier: Any, **more: Any) -> Json:
    """Return a cancellation."""
    return notification("notifications/cancelled", {"requestId": identifier, **more})


def progress(token: Any, value: float = 1, **more: Any) -> Json:
    """Return a progress notification."""
    params = {"progressToken": token, "progress": value, **more}
    return notification("notifications/progress", params)


def call(identifier: Any, name: str, arguments: Any = None, token: Any = None) -> Json:
    """Return a call of a tool; None leaves `arguments` or the progress token out."""
    params: Json = {"name": name}
    if arguments is not None:
        params["arguments"] = arguments
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request(identifier, "tools/call", params)


def result(identifier: Any, value: Any) -> Json:
    """Return a response."""
    return {"jsonrpc": "2.0", "id": identifier, "result": value}


def failure(identifier: Any, code: int, message: str, **data: Any) -> Json:
    """Return an error response."""
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    return {"jsonrpc": "2.0", "id": identifier, "error": error}


def introduction(era: str, capabilities: Json) -> Json:
    """Return how a server of this era introduces itself."""
    if era == MODERN:
        return {"supportedVersions": [MODERN_VERSION], "capabilities": capabilities}
    return {"protocolVersion": "2025-11-25", "capabilities": capabilities}


def by(server: str) -> Json:
    """Return the member of params that says which server asks a client something."""
    return {"_meta": {SERVER_MARK: server}}


def enveloped(message: Json, capabilities: Json | None = None, meta: Json | None = None) -> Json:
    """Return a request with the envelope of a client that can do `capabilities`.

    `meta` are more members of it; None leaves one out.
    """
    params = message.get("params") or {}
    given = {
        VERSION_KEY: MODERN_VERSION,
        CAPABILITIES_KEY: capabilities or {},
        INFO_KEY: {"name": "test", "version": "1"},
        **params.get("_meta", {}),
        **(meta or {}),
    }
    kept = {name: value for name, value in given.items() if value is not None}
    return {**message, "params": {**params, "_meta": kept}}


def retried(identifier: Any, message: Json, asked: Json, responses: Any) -> Json:
    """Return a request that takes up the one of `message`, which got the response `asked`."""
    state = {"requestState": asked["result"]["requestState"], "inputResponses": responses}
    return {**message, "id": identifier, "params": {**message["params"], **state}}


class World:
    """A router with its clock, and everything that it wants done, by peer and in order."""

    def __init__(
        self,
        servers: Mapping[str, Iterable[str | Json]],
        *,
        dispatching: Dispatching = Dispatch,
        **choices: Any,
    ) -> None:
        """See `plan` for the other arguments."""
        self.now = 0.0
        self.plan = plan(servers, **choices)
        self.core = Core(Answers(self.plan), lambda: self.now, self._mint, dispatching)
        self.router = self.core.router
        self.minted = 0
        self.started: list[str] = []
        self.stopped: list[tuple[str, str]] = []
        self.asleep: list[str] = []
        self.said: list[str] = []
        self.states: list[tuple[str, str, str | None]] = []
        self.masks: dict[str, dict[str, str]] = {}
        """{server: the values of its variables that are masked}."""
        self.secrets: dict[str, str] = {}
        """{secret: what is shown in its place}."""
        self._sent: dict[Peer, list[str]] = {}
        self._history: dict[Peer, list[str]] = {}
        """The beginnings of all lines that a peer was sent."""

    def __getitem__(self, server: str | Child) -> Child:
        return self.router.children[server] if isinstance(server, str) else server

    def own(self, server: str, client: Client) -> Child:
        """Return the instance of a server that a client has."""
        return self.router.servers[server].of(client)

    def do(self, actions: list[Action]) -> None:
        """Note what the router wants done."""
        for kind, peer, what in actions:
            if kind == SEND:
                line = b"".join(what.pieces()).decode()
                assert line.index("\n") == len(line) - 1
                self._sent.setdefault(peer, []).append(line[:-1])
                self._history.setdefault(peer, []).append(line[:SHOWN])
            elif kind == START:
                self.started.append(peer.name)
            elif kind == STOP:
                self.stopped.append((peer.name, what))
            elif kind == STATE:
                state, reason = what
                self.states.append((peer.name, state, reason or None))
            elif kind == SLEEP:
                self.asleep.append(peer.name)
            else:
                assert kind == SAY
                self.said.append(what)

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        for secret, shown in self.secrets.items():
            text = text.replace(secret, shown)
        return text

    def lines(self, peer: Peer) -> list[str]:
        """Return what was sent to a peer since this was last asked, as it was sent."""
        return self._sent.pop(peer, [])

    def received(self, peer: Peer) -> list[Json]:
        """Return what was sent to a peer since this was last asked, as values."""
        return [json.loads(line) for line in self.lines(peer)]

    def say(self, peer: Peer, *messages: Message) -> None:
        """Let a peer say something, a line each."""
        for message in messages:
            text = message if isinstance(message, str | bytes) else json.dumps(message)
            line = text.encode() if isinstance(text, str) else text
            if isinstance(peer, Client):
                self.core.from_client(peer, line)
            else:
                self.core.from_child(peer, peer.connection.read(line, self.redact))
            self.do(self.core.taken())

    def asked(self, child: Child, what: str = "tools/call") -> list[int]:
        """Return the ids of all requests that a child was sent, in order.

        `what` is their method, or the name or URI that they are for.
        """
        lines = [line for line in self._history.get(child, ()) if json.dumps(what) in line]
        return [int(found[1]) for line in lines if (found := REQUEST.match(line))]

    def answer(self, child: Child, value: Any, what: str = "tools/call") -> None:
        """Let a child answer the latest request of those that are `asked`."""
        self.say(child, result(self.asked(child, what)[-1], value))

    def ask(self, client: Client, message: Message) -> Json:
        """Let a client say something; return the one message that it gets for it."""
        self.lines(client)
        self.say(client, message)
        [answer] = self.received(client)
        return answer

    def client(
        self, capabilities: Json | None = None, audience: Client | None = None, **params: Any
    ) -> Client:
        """Let a client connect and shake hands; `params` are more of its `initialize`.

        `audience` is on whose behalf it has servers started, if not on its own.
        """
        client = Client(self.plan.options.names)
        client.audience = audience
        self.do(self.core.connect(client))
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
            **params,
        }
        self.ask(client, request("hello", "initialize", params))
        self.say(client, INITIALIZED)
        return client

    def born(self, server: str | Child) -> int:
        """Let a child's process be there; return the id of the handshake that it is asked for.

        A server by its name is the instance that stands for it.
        """
        child = self[server]
        assert child.name in self.started
        self.do(self.core.child_up(child, self.masks.get(child.name, {})))
        [hello] = self.received(child)
        modern = child.era == MODERN
        assert hello["method"] == ("server/discover" if modern else "initialize")
        return int(hello["id"])

    def ready(self, server: str | Child, capabilities: Json | None = None) -> Child:
        """Let a child's process be there and shake hands; it has not said yet what it lists."""
        child, declared = self[server], {"tools": {}} if capabilities is None else capabilities
        self.say(child, result(self.born(server), introduction(child.era, declared)))
        return child

    def up(self, server: str | Child, tools: Iterable[str | Json] | None = None) -> Child:
        """Let a child come up and list `tools`, by default those of its snapshot.

        What was sent to it meanwhile is forgotten, calls excepted.
        """
        child = self.ready(server)
        self.give_list(child, tools)
        return child

    def give_list(self, child: Child, tools: Iterable[str | Json] | None = None) -> None:
        """Let a child answer the one request for its list that it was sent; see `up`."""
        text = self.plan.snapshot[child.name]["tools"].replace("\n", "")
        if tools is not None:
            text = json.dumps([tool(t) if isinstance(t, str) else t for t in tools])
        lines = self.lines(child)
        [asked] = [line for line in lines if '"method":"tools/list"' in line]
        self._sent[child] = [line for line in lines if '"method":"tools/call"' in line]
        identifier = json.loads(asked)["id"]
        self.say(child, f'{{"jsonrpc":"2.0","id":{identifier},"result":{{"tools":{text}}}}}')

    def down(
        self, server: str | Child, reason: str = "exited with status 1", words: str = ""
    ) -> None:
        """Let a child's process be gone."""
        self.do(self.core.child_down(self[server], reason, words))

    def wait(self, seconds: float) -> None:
        """Let time pass, with a tick whenever the router wants one."""
        end = self.now + seconds
        ticks = 0
        while self.core.alarm <= end:
            ticks += 1
            assert ticks < 10_000, "the router does not come to rest"
            self.now = max(self.now, self.core.alarm)
            self.do(self.core.tick())
        self.now = end

    def names(self, client: Client) -> list[str]:
        """Return the names that a client is listed."""
        answer = self.ask(client, request("list", "tools/list"))
        return [entry["name"] for entry in answer["result"]["tools"]]

    def idle(self) -> bool:
        """Whether nothing is under way or remembered for it."""
        return self.core.is_idle

    def _mint(self) -> str:
        self.minted += 1
        return f"h{self.minted}"

    def modern(self) -> Client:
        """Let a client connect that shakes no hands."""
        client = Client(self.plan.options.names)
        self.do(self.core.connect(client))
        return client

    def leave(self, client: Client) -> None:
        """Let a client go."""
        self.do(self.core.disconnect(client))
