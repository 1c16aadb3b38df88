#!/usr/bin/env python3
"""One MCP server over stdio that speaks both eras, each as a stub does.

    python3 both.py OPTIONS

OPTIONS is a JSON object {"legacy": options of stub.py, "modern": options of modern.py, "shows":
HOW}. Its first message decides which of the two it is, as in the SDKs. HOW is the way in which it
shows, asked in its other era, that it has one:

    "refusal"     refuses a request with an envelope by name, as the SDK for Python does (default)
    "answer"      answers server/discover after a handshake too
    "opening"     does not know it; but refuses a first message with an envelope of a version that
                  it does not speak, and waits for another one, as the SDK for TypeScript does
"""

from __future__ import annotations

import json
import sys

from modern import PREFIX, UNSUPPORTED_VERSION, VERSION, Modern
from stub import Stub, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stub import Json

INVALID_REQUEST = -32600


class Legacy(Stub):
    """It, after a handshake."""

    def answer(self, method: str, message: Json, line: str) -> None:
        """Answer a request; one with an envelope is of the other era."""
        how = self.options["shows"]
        claimed = method == "server/discover"
        if claimed and how == "refusal":
            self.fail(message["id"], INVALID_REQUEST, f"{VERSION} is not spoken on this connection")
        elif claimed and how == "answer":
            body = {"resultType": "complete", "supportedVersions": [VERSION], "capabilities": {}}
            self.reply(message["id"], "result", dumps(body))
        else:
            super().answer(method, message, line)


class Both(Stub):
    """It, before its first message."""

    spoken: Stub | None = None

    def receive(self, line: str) -> None:
        """Become one of the two, and handle a line as it does."""
        if self.spoken is None:
            message = json.loads(line)
            claim = message["params"].get("_meta", {}).get(f"{PREFIX}protocolVersion", VERSION)
            if claim != VERSION and self.options["shows"] == "opening":
                data = {"supported": [VERSION], "requested": claim}
                return self.fail(message["id"], UNSUPPORTED_VERSION, "Unsupported", data)
            is_modern = message["method"] == "server/discover"
            self.spoken = (Modern if is_modern else Legacy)(
                {**self.options, **self.options["modern" if is_modern else "legacy"]}
            )
        return self.spoken.receive(line)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    Both({"shows": "refusal", "legacy": {}, "modern": {}, **given}).run()
