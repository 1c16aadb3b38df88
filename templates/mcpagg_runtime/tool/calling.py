"""Calls one tool from the command line of the emitted file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.answers import Answers
from mcpagg_runtime.base.catalogue import TOOLS
from mcpagg_runtime.base.client import Client
from mcpagg_runtime.base.standard import complain
from mcpagg_runtime.serve.engine import Engine
from mcpagg_runtime.tool.offers import offered_by
from mcpagg_runtime.tool.printing import print_json
from mcpagg_runtime.tool.saving import Folder
from mcpagg_runtime.tool.typed import BadArgument, arguments_of, suggestion

if TYPE_CHECKING:
    from typing import Any

    from mcpagg_runtime.base.message import Message
    from mcpagg_runtime.base.plan import Plan


def call_tool(plan: Plan, folder: str, name: str, words: list[str], save: str | None) -> int:
    """Print the result of one call as JSON; return the exit status: 1 if it is an error.

    `words` are its arguments as the shell gave them, `save` is the folder for images and blobs.
    """
    known = _tools(plan)
    try:
        arguments = arguments_of(words, known.get(name, {}))
        files = Folder(save) if save is not None else None
    except (BadArgument, OSError) as problem:
        complain(f"{plan.name}: {problem}")
        return 2
    answer = _answer(plan, folder, {"name": name, "arguments": arguments})
    if "result" not in answer:
        _explain(plan, name, known, answer["error"])
        return 1
    result = answer["result"]
    try:
        status = print_json(files.saved(result) if files is not None else result)
    except OSError as problem:
        complain(f"{plan.name}: cannot save what the tool returned: {problem}")
        return 2
    return status or (1 if result.get("isError") else 0)


def _tools(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return {name: input schema} of all tools, under each name that a call may use."""
    own: dict[str, list[dict[str, Any]]] = {}
    found: dict[str, dict[str, Any]] = {}
    for server in plan.snapshot:
        for exposed, names, item in offered_by(plan, server, TOOLS):
            found[exposed] = item["inputSchema"]
            found.setdefault(names[1], item["inputSchema"])
            own.setdefault(names[0], []).append(item["inputSchema"])
    for name, schemas in own.items():
        if len(schemas) == 1:
            found.setdefault(name, schemas[0])
    return found


def _answer(plan: Plan, folder: str, params: dict[str, Any]) -> dict[str, Any]:
    import json

    answers = _Answers()
    engine = Engine(Answers(plan), folder)
    client = Client("spec")
    engine.connect(client, answers)
    request = {"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params}
    engine.hear(client, json.dumps(request).encode())
    try:
        answers.come.wait()
    finally:
        engine.close()
    return answers.answer


class _Answers:
    """A client's sink that keeps the answer to one request."""

    def __init__(self) -> None:
        import threading

        self.come = threading.Event()
        self.answer: dict[str, Any] = {}

    def send(self, *messages: Message) -> None:
        """Take messages for the client."""
        import json

        for message in messages:
            if message.id == "call":
                self.answer = json.loads(message.line())
                self.come.set()

    def gate(self) -> None:
        """Nothing ever waits here."""


def _explain(plan: Plan, name: str, known: dict[str, Any], error: dict[str, Any]) -> None:
    """Say what a call was answered with instead of a result, and what may have been meant."""
    import json

    data = f" {json.dumps(error['data'])}" if "data" in error else ""
    complain(f"{plan.name}: {error.get('message')} (code {error.get('code')}){data}")
    if name in known:
        return
    server, sign, _ = name.partition(plan.options.separator)
    if sign and not any(name.startswith(f"{one}{sign}") for one in plan.servers):
        complain(f"{plan.name}: there is no server '{server}'; it has {', '.join(plan.servers)}")
    near = suggestion(name, list(plan.routes["tools"]))
    if near:
        complain(f"{plan.name}: there was no tool '{name}' when this was compiled{near}")
