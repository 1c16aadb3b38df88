#!/usr/bin/env python3
"""One MCP server over stdio that shakes hands and offers all that there is, for tests.

    python3 legacy.py OPTIONS [ignored arguments]

It is stub.py, whose OPTIONS are known here, with the surface of modern.py:

    prompts, resources, templates   names or URIs, or whole items
    asks          {method: {"method", "params"}}: what is asked before an answer to `prompts/get`,
                  `resources/read` or `completion/complete` whose params mention "ask", and which
                  then has the client's answer

It notes in its log, as {"event": "fault", "line": the line, "why": …}, what a client of these
revisions must not send: an envelope of the revision without a handshake, a request before the
handshake, a method that it did not declare, an answer to nothing that it asked.

Behaviours of tools: those of stub.py, and
    log           a log message for each of `levels` (default: all) that the client wants
    touch         tells the client that the resource `uri` has changed, if it subscribed to it
    choose        asks as `ask` does, with `message` for the text of a form, and answers with the
                  client's answer and that text
"""

from __future__ import annotations

import json
from _thread import start_new_thread

import stub
from stub import Call, Stub, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stub import Json

PREFIX = "io.modelcontextprotocol/"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
# By method: the option, the member of the result, and what an item is known by.
LISTS = {
    "prompts/list": ("prompts", "prompts", "name"),
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("templates", "resourceTemplates", "uriTemplate"),
}
FORM = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}


class Legacy(Stub):
    """The server."""

    def __init__(self, options: Json) -> None:
        super().__init__({"capabilities": CAPABILITIES, **options})
        self.level = LEVELS[0]
        self.watched: set[str] = set()

    def receive(self, line: str) -> None:
        self.check(line)
        super().receive(line)

    def check(self, line: str) -> None:
        """Note what a line has that it must not have."""
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            known = dumps(message.get("id")) in self.asked
            why = "" if known else "an answer to nothing"
        elif method == "server/discover":  # whoever does not know the revision may ask
            why = ""
        elif any(key.startswith(PREFIX) for key in params.get("_meta") or {}):
            why = "an envelope"
        elif method not in ("initialize", "ping") and self.client is None:
            why = "before the handshake"
        else:
            why = ""
        if why:
            self.log("fault", line=line, why=why)

    def answer(self, method: str, message: Json, line: str) -> None:
        params = message.get("params") or {}
        if method in self.options.get("answers", {}):
            super().answer(method, message, line)
        elif method in LISTS:
            option, member, key = LISTS[method]
            items = [
                one if isinstance(one, dict) else {key: one, "name": one}
                for one in self.options.get(option, ())
            ]
            self.reply(message["id"], "result", dumps({member: items}))
        elif method == "logging/setLevel":
            self.level = params["level"]
            self.reply(message["id"], "result", "{}")
        elif method in ("resources/subscribe", "resources/unsubscribe"):
            add = self.watched.add if method.endswith("/subscribe") else self.watched.discard
            add(params["uri"])
            self.reply(message["id"], "result", "{}")
        elif method in ("prompts/get", "resources/read", "completion/complete"):
            start_new_thread(self.give, (method, message["id"], params))
        else:
            super().answer(method, message, line)

    def give(self, method: str, request_id: object, params: Json) -> None:
        """Answer with what was asked for, and what the client answered meanwhile, as JSON text."""
        given: Json = {key: params[key] for key in params if key != "_meta"}
        question = self.options.get("asks", {}).get(method)
        if question is not None and "ask" in dumps([*given.values()]):
            arrived, answer = self.ask(question["method"], question.get("params"))
            arrived.acquire()
            given["answer"] = answer.get("result", answer.get("error"))
        text = dumps(given)
        result: Json = {"completion": {"values": [text]}}
        if method == "prompts/get":
            message = {"role": "user", "content": {"type": "text", "text": text}}
            result = {"messages": [message]}
        elif method == "resources/read":
            result = {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": text}]}
        self.reply(request_id, "result", dumps(result))


# Behaviours of tools, as in stub.py.


def cast(tool: Any) -> Any:
    """Return a behaviour of this server as one of any; `typing` costs too much to import."""
    return tool


def log(server: Legacy, call: Call) -> str:
    for level in call.arguments.get("levels", LEVELS):
        if LEVELS.index(level) >= LEVELS.index(server.level):
            server.notify("notifications/message", {"level": level, "data": {"said": level}})
    return "logged"


def touch(server: Legacy, call: Call) -> str:
    uri = call.arguments["uri"]
    if uri in server.watched:
        server.notify("notifications/resources/updated", {"uri": uri})
    return f"{len({uri} & server.watched)} told"


def choose(server: Legacy, call: Call) -> str:
    said = call.arguments.get("message", "?")
    params = {"message": said, "requestedSchema": FORM}
    arrived, answer = server.ask("elicitation/create", params)
    arrived.acquire()
    found: Any = answer.get("result", answer.get("error"))
    return dumps({"asked": said, "answer": found})


stub.BEHAVIOURS.update({tool.__name__: cast(tool) for tool in (log, touch, choose)})
stub.SLOW.add("choose")


if __name__ == "__main__":
    stub.main(Legacy)
