"""Holds what a proxy said, to clients and to children, against the revision that it said it in.

    check(log, "server")    # a tap before the proxy: what it said to its client
    check(log, "client")    # a tap before a child: what it said to the child

The shapes are those of `mcp_types`; what they let pass (members of another revision, errors,
ids) is checked here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError
from wire import ENVELOPE, LATEST, MODERN, Json

# Of the revision without a handshake alone, and of those with one alone.
MODERN_MEMBERS = {"resultType", "ttlMs", "cacheScope"}
RETIRED_CODES = {-32002, -32042}
MODERN_CODES = {-32020, -32021, -32022}
EMPTY = {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
UNKNOWN: frozenset[str] = frozenset()
"""Methods of clients that `mcp_types` lacks: the shapes of what they say are not checked."""
# What both sides may say is known by what it answers or is about; these are known by their marks.
SUBSCRIPTION = ENVELOPE["subscriptionId"]


def passed(log: Path) -> list[tuple[int, str, str]]:
    """Return the lines that passed a tap: (its process id, who said it, text)."""
    rows = [json.loads(row) for row in log.read_text().splitlines()] if log.exists() else []
    return [(row["pid"], row["from"], row["line"]) for row in rows]


def check(log: Path, speaker: str) -> int:
    """Check every line that `speaker` said; return how many there were."""
    talks: dict[int, Talk] = {}
    count = 0
    for pid, sender, line in passed(log):
        talk = talks.setdefault(pid, Talk())
        problems = [*talk.heard(sender, line)]
        if sender == speaker:
            count += 1
            assert not problems, f"{problems}\n{line}"
    return count


class Talk:
    """One connection: what was asked, and in which revision."""

    def __init__(self) -> None:
        self.version = ""
        self.asked: dict[tuple[str, str], tuple[str, str]] = {}
        """{(who asked, JSON text of the id): (method, version)} of what has no answer yet."""
        self.tokens: dict[str, str] = {}
        """{JSON text of a progress token: version} of what has no answer yet."""
        self.token_of: dict[tuple[str, str], str] = {}
        self.capabilities: Json = {}

    def heard(self, sender: str, line: str) -> Iterator[str]:
        """Take a line; yield what is wrong with it."""
        message = json.loads(line)
        try:
            self.model(message).model_dump()
        except ValidationError as problem:
            yield str(problem)
            return
        try:
            if "method" not in message:
                yield from self.answered(sender, message)
            elif "id" in message:
                yield from self.requested(sender, message)
            else:
                yield from self.notified(sender, message)
        except (ValidationError, KeyError) as problem:
            yield repr(problem)

    def model(self, message: Any) -> Any:
        """Return a message as the model of its kind."""
        if isinstance(message, dict) and "error" in message:
            return JSONRPCError.model_validate(message)
        return jsonrpc_message_adapter.validate_python(message)

    def requested(self, sender: str, message: Json) -> Iterator[str]:
        method, params = message["method"], message.get("params")
        meta = (params or {}).get("_meta") or {}
        version = meta.get(ENVELOPE["protocolVersion"], "") or self.version or LATEST
        key = sender, json.dumps(message["id"])
        if key in self.asked:
            yield "an id that is in flight"
        self.asked[key] = method, version
        if "progressToken" in meta:
            self.token_of[key] = json.dumps(meta["progressToken"])
            self.tokens[self.token_of[key]] = version
        if method == "initialize":
            self.capabilities = params["capabilities"] if params else {}
        if version != MODERN and any(key in meta for key in ENVELOPE.values()):
            yield "an envelope that is none"
        if sender == "client":
            if method not in UNKNOWN:
                methods.parse_client_request(method, version, params)
            return
        if version == MODERN:
            yield "a request to a client without a handshake"
        methods.parse_server_request(method, version, params)
        needed = method.partition("/")[0]
        if needed not in ("ping", *self.capabilities):
            yield f"a question of a kind that was not declared: {needed}"

    def answered(self, sender: str, message: Json) -> Iterator[str]:
        asker = "client" if sender == "server" else "server"
        key = asker, json.dumps(message.get("id"))
        method, version = self.asked.pop(key, ("", ""))
        self.tokens.pop(self.token_of.pop(key, ""), None)
        if not method:
            yield "an answer to nothing"
        elif "error" in message:
            retired = RETIRED_CODES if version == MODERN else MODERN_CODES
            if message["error"]["code"] in retired:
                yield f"a code that {version} does not have"
        elif sender == "client":
            methods.validate_client_result(method, version, message["result"])
        else:
            yield from self.resulted(method, version, message["result"])

    def resulted(self, method: str, version: str, result: Json) -> Iterator[str]:
        if method not in UNKNOWN:
            methods.parse_server_result(method, version, result)
        if method == "initialize":
            self.version = result["protocolVersion"]
        if version != MODERN and MODERN_MEMBERS & {*result}:
            yield f"members that {version} does not have"
        if version != MODERN and method in EMPTY and result:
            yield "a result that is not empty"
        stamped = ENVELOPE["serverInfo"] in (result.get("_meta") or {})
        if version == MODERN and not stamped and method != "subscriptions/listen":
            yield "a result that says not where it is from"

    def notified(self, sender: str, message: Json) -> Iterator[str]:
        method, params = message["method"], message.get("params") or {}
        if method == "notifications/cancelled":
            yield from self.cancelled(sender, params)
            return
        version = self.version or MODERN
        if method == "notifications/progress":
            if json.dumps(params["progressToken"]) not in self.tokens:
                yield "progress of nothing"
            version = self.tokens.get(json.dumps(params["progressToken"]), version)
        elif SUBSCRIPTION in (params.get("_meta") or {}):
            version = MODERN
            asker = "client", json.dumps(params["_meta"][SUBSCRIPTION])
            if self.asked.get(asker, ("", ""))[0] != "subscriptions/listen":
                yield "news of no subscription"
        elif version == MODERN and method not in ("notifications/message",):
            yield "news that nobody subscribed to"
        if sender == "client":
            methods.parse_client_notification(method, version, params)
        else:
            methods.parse_server_notification(method, version, params)

    def cancelled(self, sender: str, params: Json) -> Iterator[str]:
        """A request needs no answer any more; it may have got one meanwhile."""
        key = sender, json.dumps(params["requestId"])
        # Progress may cross the cancellation on its way.
        method, version = self.asked.pop(key, ("", self.version or MODERN))
        if sender == "server" and version == MODERN:
            yield "a cancellation that a client without a handshake may not get"
        parse = methods.parse_client_notification
        if sender == "server":
            parse = methods.parse_server_notification
        parse("notifications/cancelled", version, params)
        if method == "initialize":
            yield "a handshake that is cancelled"
