"""Answers what needs no child: the handshake, pings and lists, from what the compiler wrote.

This is all that a start needs, so it is all that the emitted file compiles before its first answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.catalogue import KINDS, SKILLS, Catalogue
from mcpagg_runtime.client import MODERN_VERSION, VERSION_KEY, is_enveloped
from mcpagg_runtime.wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Malformed,
    decode,
    error,
    failure,
    parse,
    quote,
    read_message,
    result,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from mcpagg_runtime.client import Client
    from mcpagg_runtime.wire import Message


class Plan:
    """What the compiler decided, as the emitted file holds it.

    `servers` is the launch table {server: row}, `children` {server: {"protocol": the version it
    speaks, "conditional": [tools for clients with capabilities], "extensions": [those whose
    requests go to it], "hints": {"ttlMs", "cacheScope" of
    its lists, where it gave some}}}, `options` are the compiler's
    options by name, `capabilities` is what the proxy declares, as JSON text. For the routing tables
    (`routes` is that of the tools) and `snapshot` see Catalogue. `subtools` {composite tool:
    {server: the tools that it may call}}: composite tools are the snapshot of a server called "",
    which nobody starts. `needs` are the variables of the environment without which some server
    cannot be started, unless its `env_file` has them. `compiler` is the version of what wrote it.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        servers: Mapping[str, Mapping[str, Any]],
        routes: Mapping[str, tuple[str, ...]],
        snapshot: Mapping[str, Mapping[str, str]],
        children: Mapping[str, Mapping[str, Any]],
        instructions: str,
        options: Mapping[str, Any],
        prompts: Mapping[str, tuple[str, ...]] = {},
        skills: Mapping[str, tuple[str, ...]] = {},
        resources: Mapping[str, tuple[str, ...]] = {},
        templates: Mapping[str, tuple[str, ...]] = {},
        capabilities: str = '{"tools":{"listChanged":true}}',
        subtools: Mapping[str, Mapping[str, list[str]]] = {},
        needs: Iterable[str] = (),
        compiler: str = "",
    ) -> None:
        self.name = name
        self.version = version
        self.servers = servers
        self.routes = {
            "tools": routes,
            "prompts": prompts,
            "resources": resources,
            "templates": templates,
            "skills": skills,
        }
        self.capabilities = capabilities
        self.subtools = subtools
        self.needs = needs
        self.compiler = compiler
        self.snapshot = snapshot
        self.children = children
        self.instructions = instructions
        self.options = options

    @property
    def info(self) -> str:
        """How the proxy introduces itself, as JSON text."""
        return f'{{"name":{quote(self.name)},"version":{quote(self.version)}}}'


class Desk:
    """Answers clients from the file alone."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        conditional = {name: facts.get("conditional", ()) for name, facts in plan.children.items()}
        servers = (*plan.servers, *([""] if plan.subtools else []))
        self.down: set[str] = set()
        declared = parse(plan.capabilities)
        self.declared = frozenset([*declared, *declared.get("extensions", ())])
        self.catalogues = {
            kind.name: Catalogue(
                kind,
                servers,
                plan.routes[kind.name],
                plan.snapshot,
                conditional if kind.name == "tools" else {},
                self.down,
            )
            for kind in KINDS
        }
        self.catalogues["tools"].modern = frozenset(
            name for name, facts in plan.children.items() if facts["protocol"] == MODERN_VERSION
        )
        self.extended = {
            name: facts["extensions"]
            for name, facts in plan.children.items()
            if "extensions" in facts
        }
        """{server: the extensions whose requests go to it}."""
        skilled = [name for name, known in self.extended.items() if SKILLS.capability in known]
        self.catalogues["skills"].apart = len(skilled) > 1
        self.lists = {kind.method: kind for kind in KINDS if kind.capability in self.declared}

    def extenders(self, method: str) -> list[str]:
        """Return the servers that a request of an unknown method may be for, likeliest first.

        Methods of an extension often begin with its name, or with the last part of that.
        """
        if not self.extended:
            return []
        from mcpagg_runtime.extensions import likely

        return likely(method, self.extended)

    def serve(self, client: Client, line: bytes) -> str | None:
        """Return the answer to a line, "" if it wants none, None if it is not for the desk."""
        try:
            text = decode(line)
            message = read_message(text) if text else None
        except Malformed:
            return None
        if message is None:
            return ""
        if message.method == "notifications/initialized" and "id" not in message.members:
            client.initialized = True
            return ""
        if message.id is None:
            return None
        if message.method != "initialize" and is_enveloped(message):
            from mcpagg_runtime.reception import receive

            return receive(self, client, message)[1]
        return self.answer(client, message)

    def answer(self, client: Client, message: Message) -> str | None:
        """Return the answer to a request without an envelope, None if it is not for the desk."""
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
        client.introduce(message, self.plan.options["names"])
        words = self.plan.instructions
        return (
            f'{{"protocolVersion":{quote(client.version)},'
            f'"capabilities":{self.plan.capabilities},"serverInfo":{self.plan.info}'
            + (f',"instructions":{quote(words)}}}' if words else "}")
        )
