"""What a client hears of a server, with the proxy between them and without it.

A dialogue is a script of requests, played one after the other on a `Wire`. What the server asks
meanwhile is answered from a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wire import Wire

from mcpagg_runtime.messages.jsontext import decode
from mcpagg_runtime.messages.message import read_message

Json = dict[str, Any]
Step = tuple[str, Json | None]

READ_FROM_FILE = ("initialize", "ping", "logging/setLevel", "server/discover")
"""The methods that are answered by the proxy, beside lists: equal as values."""


@dataclass
class Heard:
    """What a client has heard: answers in the order of the script, all else as it came.

    Texts are as they were written, without ids; those of lists, and of what the proxy answers, are
    values printed anew.
    """

    answers: list[tuple[str, str]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)


def play(wire: Wire, script: Iterable[Step], answers: Mapping[str, Json]) -> Heard:
    """Play a script; `answers` {method: result} are to what the server asks.

    What is under "notifications/" is a notification of the client, which waits for nothing.
    """
    heard = Heard()
    for method, params in script:
        if method.startswith("notifications/"):
            wire.notify(method, params)
            continue
        number = wire.start_request(method, params)
        while True:
            raw = wire.line().raw
            message = read_message(decode(raw))
            if message.method is None and message.id == number:
                break
            if message.method is None:
                raise AssertionError(raw)
            text = message.raw("params")
            if message.id_text:
                heard.asked.append((message.method, text))
                wire.answer({"id": json.loads(message.id_text)}, answers[message.method])
            else:
                heard.told.append((message.method, text))
        kind = "error" if message.is_error else "result"
        text = message.raw(kind)
        if method in READ_FROM_FILE or method.endswith("/list"):
            text = json.dumps(json.loads(text), sort_keys=True)
        heard.answers.append((f"{method} {json.dumps(params)}", f"{kind} {text}"))
    return heard
