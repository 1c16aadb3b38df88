#!/usr/bin/env python3
"""One MCP server over stdio that speaks 2026-07-28 alone, and misbehaves on demand, for tests.

    python3 modern.py OPTIONS [ignored arguments, reported by the tool `where`]

OPTIONS is a JSON object, or `@FILE` with one, as in stub.py, which this is built on: `page`,
`answers`, `does`, `at`, `log` and how it writes are the same here. It holds its client to the
revision, strictly: every request carries its version and its client's capabilities (else -32602; a
version that is not of `versions`: -32022), and what the revision removed is unknown (-32601). It
never sends a request. What a client must not send is noted in the log as {"event": "fault", "line":
the line, "why": …}: a response, a notification other than `cancelled`, an id that is in flight.

What it says about itself
    tools         names, raw tool objects, or JSON texts ("{…}") that are sent exactly as written;
                  "all" is one tool for each behaviour
    prompts, resources, templates   the same; a resource or template is named by its URI
    capabilities  by default what there is, with listChanged and subscribe; completions beside
                  prompts and templates; logging
    instructions, server_info       as in the result of server/discover
    versions      those that it supports (default: 2026-07-28)
    hints         {"ttlMs": …, "cacheScope": …} of every result that needs them, or {} for none
    hints_of      {method: hints} of single methods

How it negotiates
    initialize    "error" (default): -32022 with the supported versions, as an SDK that is pinned
                  to the revision; "unknown": -32601; "exit": exits 1; "silent": no answer
    listen        "end": a listen stream ends as soon as it was acknowledged; "error": is refused
    asks          the arguments of `ask`, for prompts and resources whose names begin with "ask"

Behaviours of tools: those of stub.py that are no question, and
    meta          the received `_meta`, as JSON text
    structured    `value`, any JSON, as structuredContent
    log           a log message for each of `levels` (default: all), if the request asked for it
    ask           asks for `requests` {key: {"method", "params"}} (default: one form) in `rounds`
                  rounds, and answers with the last round's responses, as JSON text. A retry must
                  carry the same params and the state of the round before (else -32602); what is
                  missing in it is asked for again. `state_only`: the first answer asks for nothing;
                  `demand`: -32021 unless the client has this capability
    grow, shrink  adds the tool `name`, removes the last one; both tell those who listen
    touch         tells those who listen that the resource `uri` has changed
    unlisten      ends every listen stream with a result
"""

from __future__ import annotations

import json
import os
from _thread import start_new_thread

import stub
from stub import Call, Stub, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stub import Json

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND = -32603, -32602, -32601
MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32021, -32022

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
CHANGES = {"toolsListChanged": "tools", "promptsListChanged": "prompts"}
CHANGES["resourcesListChanged"] = "resources"
# By the method of a list: the option, the member of the result, and what an item is known by.
LISTS = {
    "tools/list": ("tools", "tools", "name"),
    "prompts/list": ("prompts", "prompts", "name"),
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("templates", "resourceTemplates", "uriTemplate"),
}
CACHED = {"server/discover", *LISTS, "resources/read"}
FORM = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
QUESTION = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM}}


def members(value: Json) -> str:
    """The JSON text of an object's members, without the braces, to put others beside them."""
    return dumps(value)[1:-1]


def item_text(item: Json | str, key: str) -> str:
    """The JSON text of a prompt, a resource or a template."""
    if isinstance(item, str):
        return item if item.startswith('{"') else dumps({key: item, "name": item})
    return dumps(item)


class Request(Call):
    """One request that takes its time, or that asks back."""

    def __init__(self, message: Json, line: str, defaults: Json) -> None:
        super().__init__(message, line, defaults)
        self.method = message["method"]
        self.params = message["params"]
        self.meta = message["params"]["_meta"]


class Modern(Stub):
    """The server; what stub.py does by the handshake, this does by each request's `_meta`."""

    def __init__(self, options: Json) -> None:
        self.listening: dict[str, tuple[object, Json]] = {}  # id and filter, by the id's JSON text
        super().__init__(options)
        self.texts = {
            option: [item_text(item, key) for item in options.get(option, ())]
            for option, _, key in LISTS.values()
            if option != "tools"
        }
        self.capabilities = options.get("capabilities", self.offered())
        self.info = options.get("server_info", {"name": "modern", "version": "1"})

    def offered(self) -> Json:
        """What it can do, from what the options give it."""
        found: Json = {"tools": {"listChanged": True}, "logging": {}}
        if self.texts["prompts"]:
            found["prompts"] = {"listChanged": True}
        if self.texts["resources"] or self.texts["templates"]:
            found["resources"] = {"listChanged": True, "subscribe": True}
        if self.texts["prompts"] or self.texts["templates"]:
            found["completions"] = {}
        return found

    def set_tools(self, tools: Any) -> None:
        super().set_tools(list(BEHAVIOURS) if tools == "all" else tools)

    # What it reads

    def receive(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return self.log("fault", line=line, why="no JSON")
        if not isinstance(message, dict):
            return self.log("fault", line=line, why="no message")
        method = message.get("method")
        if method is None:
            return self.log("fault", line=line, why="a response")
        self.at(method)
        if "id" in message:
            if {dumps(message["id"])} & {*self.open, *self.listening}:
                self.log("fault", line=line, why="an id that is in flight")
            self.answer(method, message, line)
        elif method == "notifications/cancelled":
            self.cancel(message.get("params") or {})
        else:
            self.log("fault", line=line, why="a notification that does not exist")
        return self.at(f"after {method}")

    def cancel(self, params: Json) -> None:
        """End a call or a listen stream."""
        which = dumps(params.get("requestId"))
        self.listening.pop(which, None)
        call = self.open.pop(which, None)
        if call:
            call.cancelled.release()

    def answer(self, method: str, message: Json, line: str) -> None:
        request_id = message["id"]
        if method in self.options.get("answers", {}):
            return super().answer(method, message, line)
        if method == "initialize":
            return self.refuse(request_id, message.get("params") or {})
        if method not in METHODS:
            self.at("unknown")
            return self.fail(request_id, METHOD_NOT_FOUND, "Method not found", method)
        fault = self.envelope_fault(message.get("params"))
        if fault is not None:
            return self.fail(request_id, *fault)
        needed = METHODS[method][1]
        if needed and needed not in self.capabilities:
            return self.fail(request_id, METHOD_NOT_FOUND, "Method not found", method)
        return METHODS[method][0](self, Request(message, line, {}))

    def refuse(self, request_id: object, params: Json) -> None:
        """Refuse a handshake."""
        how = self.options.get("initialize", "error")
        if how == "exit":
            os._exit(1)
        if how == "error":
            self.unsupported(request_id, params.get("protocolVersion"))
        elif how == "unknown":
            self.fail(request_id, METHOD_NOT_FOUND, "Method not found", "initialize")

    @property
    def versions(self) -> list[str]:
        """The versions that it supports."""
        return list(self.options.get("versions", [VERSION]))

    def unsupported(self, request_id: object, version: object) -> None:
        """Refuse a version."""
        self.fail(request_id, *self.version_fault(version))

    def version_fault(self, version: object) -> tuple[int, str, Json]:
        data = {"supported": self.versions, "requested": version}
        return UNSUPPORTED_VERSION, "Unsupported protocol version", data

    def envelope_fault(self, params: Any) -> tuple[int, str] | tuple[int, str, Json] | None:
        """Return the error that a request without a proper envelope gets, or None."""
        meta = params.get("_meta") if isinstance(params, dict) else None
        meta = meta if isinstance(meta, dict) else {}
        for key, kind in (("protocolVersion", str), ("clientCapabilities", dict)):
            if not isinstance(meta.get(PREFIX + key), kind):
                return INVALID_PARAMS, f"_meta lacks {PREFIX}{key}"
        version = meta[PREFIX + "protocolVersion"]
        level = meta.get(PREFIX + "logLevel", LEVELS[0])
        if version not in self.versions:
            return self.version_fault(version)
        return None if level in LEVELS else (INVALID_PARAMS, f"Unknown level: {level}")

    # What it answers

    def complete(self, request: Request, body: str | Json) -> None:
        """Answer with the members `body`, and with what every result carries."""
        text = body if isinstance(body, str) else members(body)
        hints = self.options.get("hints", {"ttlMs": 60_000, "cacheScope": "public"})
        hints = self.options.get("hints_of", {}).get(request.method, hints)
        retried = "requestState" in request.params or "inputResponses" in request.params
        given = hints if request.method in CACHED and not retried else {}
        meta = {"_meta": {PREFIX + "serverInfo": self.info}}
        parts = ['"resultType":"complete"', text, members(given), members(meta)]
        self.reply(request.id, "result", f"{{{','.join(part for part in parts if part)}}}")

    def discover(self, request: Request) -> None:
        """Say what it is."""
        body: Json = {"supportedVersions": self.versions, "capabilities": self.capabilities}
        if "instructions" in self.options:
            body["instructions"] = self.options["instructions"]
        self.complete(request, body)

    def list_items(self, request: Request) -> None:
        """Answer with one page of a list."""
        option, member, _ = LISTS[request.method]
        texts = self.tools if option == "tools" else self.texts[option]
        size = self.options.get("page") or max(len(texts), 1)
        pages = [texts[at : at + size] for at in range(0, len(texts), size)] or [[]]
        cursor = request.params.get("cursor", "0")
        if cursor not in map(str, range(len(pages))):
            return self.fail(request.id, INVALID_PARAMS, "Unknown cursor")
        after = int(cursor) + 1
        more = f',"nextCursor":"{after}"' if after < len(pages) else ""
        return self.complete(request, f'"{member}":[{",".join(pages[after - 1])}]{more}')

    def known(self, option: str, key: str) -> set[str]:
        """Return what the items of a list are known by."""
        texts = self.tools if option == "tools" else self.texts[option]
        return {str(json.loads(text).get(key)) for text in texts}

    def get_prompt(self, request: Request) -> None:
        """Answer with a prompt: its name and arguments as JSON text."""
        name = request.params.get("name")
        if name not in self.known("prompts", "name"):
            return self.fail(request.id, INVALID_PARAMS, f"Unknown prompt: {name}")
        if name.startswith("ask") and not self.answered(request, self.options.get("asks", {})):
            return None
        said = dumps({"name": name, "arguments": request.given, **responses(request)})
        content = {"type": "text", "text": said}
        return self.complete(request, {"messages": [{"role": "user", "content": content}]})

    def read_resource(self, request: Request) -> None:
        """Answer with a resource: its URI as JSON text; a template has every URI of its scheme."""
        uri = str(request.params.get("uri"))
        schemes = {one.partition("://")[0] for one in self.known("templates", "uriTemplate")}
        if uri not in self.known("resources", "uri") and uri.partition("://")[0] not in schemes:
            return self.fail(request.id, INVALID_PARAMS, "Resource not found", {"uri": uri})
        if uri.startswith("ask") and not self.answered(request, self.options.get("asks", {})):
            return None
        said = dumps({"uri": uri, **responses(request)})
        contents = [{"uri": uri, "mimeType": "text/plain", "text": said}]
        return self.complete(request, {"contents": contents})

    def complete_argument(self, request: Request) -> None:
        """Answer with what was asked: the ref and the argument, as JSON texts."""
        values = [dumps(request.params.get("ref")), dumps(request.params.get("argument"))]
        self.complete(request, {"completion": {"values": values}})

    # Tools

    def call_tool(self, request: Request) -> None:
        """Answer a call, in a thread of its own if it takes time."""
        self.calls += 1
        name = request.params.get("name")
        self.at(f"call {name}")
        if name not in self.known("tools", "name"):
            return self.fail(request.id, INVALID_PARAMS, f"Unknown tool: {name}")
        does = self.options.get("does", {}).get(name, name)
        defaults = dict(does) if isinstance(does, dict) else {"do": does}
        behaviour = defaults.pop("do")
        request.arguments = {**defaults, **request.arguments}
        self.open[dumps(request.id)] = request
        if behaviour in stub.SLOW and not self.options.get("serial"):
            start_new_thread(self.work, (request, behaviour))
        else:
            self.work(request, behaviour)
        return None

    def work(self, call: Call, behaviour: str) -> None:
        result = BEHAVIOURS.get(behaviour, BEHAVIOURS["echo"])(self, call)
        if isinstance(result, str):
            result = {"content": [{"type": "text", "text": result}]}
        if result is not None and isinstance(call, Request):  # as every call here is
            self.complete(call, result)
        self.open.pop(dumps(call.id), None)

    # Asking back

    def answered(self, request: Request, arguments: Json) -> bool:
        """Whether all questions were answered; if not, this asks the next one, or fails."""
        demand = arguments.get("demand")
        if demand and demand not in request.meta[PREFIX + "clientCapabilities"]:
            data: Json = {"requiredCapabilities": {demand: {}}}
            self.fail(request.id, MISSING_CAPABILITY, "Missing client capability", data)
            return False
        first = 0 if arguments.get("state_only") else 1
        state = request.params.get("requestState")
        asked = self.round(request, state)
        if asked is None:
            self.fail(request.id, INVALID_PARAMS, "The requestState is not of this request")
            return False
        questions = arguments.get("requests", {"q": QUESTION})
        lacks = asked > 0 and set(questions) - set(request.params.get("inputResponses") or {})
        now = first if asked < 0 else asked if lacks else asked + 1
        if now > arguments.get("rounds", 1):
            return True
        result = {"resultType": "input_required", "requestState": self.state(request, now)}
        if now:
            result["inputRequests"] = questions
        self.reply(request.id, "result", dumps(result))
        return False

    def state(self, request: Request, asked: int) -> str:
        """Return the state of a round: it is bound to the request's params."""
        params = {
            key: value
            for key, value in request.params.items()
            if key not in ("_meta", "requestState", "inputResponses")
        }
        return f"{asked}:{request.method}:{json.dumps(params, sort_keys=True)}"

    def round(self, request: Request, state: Any) -> int | None:
        """Return the round that a retry answers: -1 for the first try, None for a wrong state."""
        if state is None:
            return None if "inputResponses" in request.params else -1
        asked = str(state).partition(":")[0]
        right = asked.isdigit() and state == self.state(request, int(asked))
        return int(asked) if right else None

    # Listening

    def listen(self, request: Request) -> None:
        """Open a listen stream, for what of the filter can be honoured."""
        if self.options.get("listen") == "error":
            return self.fail(request.id, INTERNAL_ERROR, "No listening today")
        wanted = request.params.get("notifications")
        if not isinstance(wanted, dict):
            return self.fail(request.id, INVALID_PARAMS, "notifications is no object")
        honoured = self.honoured(wanted)
        self.tell(request.id, "subscriptions/acknowledged", {"notifications": honoured})
        self.listening[dumps(request.id)] = request.id, honoured
        return self.unlisten() if self.options.get("listen") == "end" else None

    def honoured(self, wanted: Json) -> Json:
        """Return what of a filter the capabilities promise."""
        found: Json = {
            member: True
            for member, capability in CHANGES.items()
            if wanted.get(member) and self.promises(capability, "listChanged")
        }
        if "resourceSubscriptions" in wanted and self.promises("resources", "subscribe"):
            found["resourceSubscriptions"] = wanted["resourceSubscriptions"]
        return found

    def promises(self, capability: str, member: str) -> bool:
        return bool((self.capabilities.get(capability) or {}).get(member))

    def tell(self, listener: object, method: str, params: Json) -> None:
        """Send a notification on a listen stream."""
        tag = {"_meta": {PREFIX + "subscriptionId": listener}}
        self.notify(f"notifications/{method}", {**params, **tag})

    def changed(self) -> None:
        """Tell those who listen for it that the tools have changed."""
        for listener, wanted in list(self.listening.values()):
            if wanted.get("toolsListChanged"):
                self.tell(listener, "tools/list_changed", {})

    def unlisten(self) -> None:
        """End every listen stream."""
        for listener, _ in list(self.listening.values()):
            tag = {PREFIX + "subscriptionId": listener, PREFIX + "serverInfo": self.info}
            self.reply(listener, "result", dumps({"resultType": "complete", "_meta": tag}))
        self.listening.clear()


def responses(request: Request) -> Json:
    """Return the answers that a retry carries, as a member to show."""
    given = request.params.get("inputResponses")
    return {} if given is None else {"inputResponses": given}


if TYPE_CHECKING:
    Handler = Callable[[Modern, Request], None]

# By method: what answers it, and the capability that offers it.
METHODS: dict[str, tuple[Handler, str]] = {
    "server/discover": (Modern.discover, ""),
    "subscriptions/listen": (Modern.listen, ""),
    "tools/list": (Modern.list_items, "tools"),
    "tools/call": (Modern.call_tool, "tools"),
    "prompts/list": (Modern.list_items, "prompts"),
    "prompts/get": (Modern.get_prompt, "prompts"),
    "resources/list": (Modern.list_items, "resources"),
    "resources/templates/list": (Modern.list_items, "resources"),
    "resources/read": (Modern.read_resource, "resources"),
    "completion/complete": (Modern.complete_argument, "completions"),
}


# Behaviours of tools, as in stub.py.


def structured(server: Modern, call: Request) -> Json:
    value = call.arguments.get("value")
    return {"content": [{"type": "text", "text": dumps(value)}], "structuredContent": value}


def progress(server: Modern, call: Request) -> str:
    if call.token is None:
        return "no token"
    return stub.progress(server, call)


def log(server: Modern, call: Request) -> str:
    wanted = call.meta.get(PREFIX + "logLevel")
    for level in call.arguments.get("levels", LEVELS):
        if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted):
            server.notify("notifications/message", {"level": level, "data": {"said": level}})
    return "logged"


def ask(server: Modern, call: Request) -> str | None:
    if not server.answered(call, call.arguments):
        return None
    return dumps(call.params.get("inputResponses", {}))


def grow(server: Modern, call: Request) -> str:
    server.tools.append(stub.described(call.arguments.get("name", "grown")))
    server.changed()
    return f"{len(server.tools)} tools"


def shrink(server: Modern, call: Request) -> str:
    server.tools.pop()
    server.changed()
    return f"{len(server.tools)} tools"


def touch(server: Modern, call: Request) -> str:
    uri = call.arguments["uri"]
    listeners = [
        listener
        for listener, wanted in list(server.listening.values())
        if uri in wanted.get("resourceSubscriptions", ())
    ]
    for listener in listeners:
        server.tell(listener, "resources/updated", {"uri": uri})
    return f"{len(listeners)} told"


def unlisten(server: Modern, call: Request) -> str:
    count = len(server.listening)
    server.unlisten()
    return f"{count} ended"


BEHAVIOURS: dict[str, Callable[[Any, Any], Json | str | None]] = {
    **stub.BEHAVIOURS,
    "meta": lambda server, call: dumps(call.meta),
    **{tool.__name__: tool for tool in (structured, progress, log, ask, touch, unlisten)},
    **{tool.__name__: tool for tool in (grow, shrink)},
}


if __name__ == "__main__":
    stub.main(Modern)
