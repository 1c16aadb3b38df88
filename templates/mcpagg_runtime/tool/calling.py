"""Calls one tool from the command line of the emitted file.

Its arguments are one JSON object, or key=value with the types of the tool's schema; images, sounds
and blobs of the result may be written to files.
"""

from __future__ import annotations

import base64
import json
import os
import queue
from contextlib import suppress
from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import TOOLS
from mcpagg_runtime.messages.jsontext import rivals
from mcpagg_runtime.processes.threads import SIGNAL_SECONDS
from mcpagg_runtime.stdio.standard import print_error
from mcpagg_runtime.tool.inspection import offered_by
from mcpagg_runtime.tool.local_client import LocalClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mcpagg_runtime.messages.message import Message
    from mcpagg_runtime.plan.plan import Plan

_TYPES = {str: "string", bool: "boolean", float: "number", list: "array", dict: "object"}
_NOTHING = object()

# Not those of the system, so that the same result gives the same names everywhere.
_ENDINGS = {
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/webp": ".webp",
}


def call_tool(
    plan: Plan,
    folder: str,
    name: str,
    given: list[str],
    save: str | None,
    show: Callable[[dict[str, Any]], int],
) -> int:
    """Call a tool and print the result; return the exit status: 1 for an error.

    `given` are the arguments of the command line, `save` is the folder for images and blobs.
    `show` prints a result and returns the exit status of that.
    """
    known = _schemas(plan)
    try:
        arguments = arguments_of(given, known.get(name, {}))
        files = Files(save) if save is not None else None
    except (BadArgument, OSError) as problem:
        print_error(f"{plan.name}: {problem}")
        return 2
    proxy = LocalClient(plan, folder)
    try:
        answer = _answer(proxy, {"name": name, "arguments": arguments})
        if type(answer.get("result")) is not dict:
            for line in _error_lines(
                plan, name, known, answer.get("error", "the result is no object")
            ):
                proxy.engine.say(line)
            return 1
    finally:
        proxy.close()
    result = answer["result"]
    try:
        status = show(files.saved(result) if files is not None else result)
    except OSError as problem:
        print_error(f"{plan.name}: cannot save what the tool returned: {problem}")
        return 2
    return status or (1 if result.get("isError") else 0)


def _schemas(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return {name: input schema} of all tools, by each name that a call may use."""
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


def _answer(proxy: LocalClient, params: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a call."""
    answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    proxy.ask("tools/call", params, answers.put)
    while True:  # in steps, between which signal handlers are called
        with suppress(queue.Empty):
            message = answers.get(timeout=SIGNAL_SECONDS)
            break
    answer: dict[str, Any] = json.loads(message.line()) if message is not None else {}
    return answer


def _error_lines(plan: Plan, name: str, known: dict[str, Any], error: Any) -> Iterator[str]:
    """Explain an error that a call was answered with, and suggest names that may be meant."""
    answer = error if type(error) is dict else {"message": error}
    code = f" (code {answer['code']})" if "code" in answer else ""
    data = f" {json.dumps(answer['data'])}" if "data" in answer else ""
    yield f"{answer.get('message')}{code}{data}"
    if name in known:
        return
    server, sign, _ = name.partition(plan.options.separator)
    if server in plan.failed:
        yield f"server '{server}' was left out when this was compiled, because it failed"
    elif (
        sign
        and not plan.face
        and not any(name.startswith(f"{known}{sign}") for known in plan.servers)
    ):
        yield f"there is no server '{server}'; it has {', '.join(plan.servers)}"
    near = suggestion(name, list(plan.routes["tools"]))
    if near:
        yield f"there was no tool '{name}' when this was compiled{near}"


class BadArgument(Exception):
    """Raised for an argument that is not valid; the text says why."""


def arguments_of(given: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Parse the arguments of the command line.

    Raises:
        BadArgument: one is neither JSON nor key=value, or its value is not of the schema's type.
    """
    if len(given) == 1 and ("=" not in given[0] or given[0].lstrip().startswith("{")):
        document = _parsed(given[0])
        if type(document) is not dict:
            raise BadArgument(f"neither a JSON object nor key=value: {given[0]}")
        return document
    arguments: dict[str, Any] = {}
    for argument in given:
        key, sign, text = argument.partition("=")
        if not key or not sign:
            raise BadArgument(f"neither a JSON object nor key=value: {argument}")
        if key in arguments:
            raise BadArgument(f"{key} is given twice")
        arguments[key] = _typed(key, text, schema)
    return arguments


def _typed(key: str, text: str, schema: dict[str, Any]) -> Any:
    """Return the value of an argument: JSON of the schema's type, else the text itself."""
    properties = schema.get("properties")
    known = properties if type(properties) is dict else {}
    if key not in known and schema.get("additionalProperties") is False:
        raise BadArgument(f"there is no argument {key}{suggestion(key, list(known))}")
    types = _types_of(known.get(key))
    value = _parsed(text)
    if types != {"string"} and value is not _NOTHING:
        found = _TYPES.get(type(value), "null" if value is None else "integer")
        if not types or found in types or (found == "integer" and "number" in types):
            return value
    if types and "string" not in types:
        raise BadArgument(f"{key}: {text!r} is no {' or '.join(sorted(types))}")
    return text


def _types_of(schema: Any) -> set[str]:
    """Return the JSON types that a schema names, none if it names none."""
    if type(schema) is not dict:
        return set()
    types = {name for name in _list(schema.get("type")) if type(name) is str}
    for member in ("anyOf", "oneOf"):
        for branch in _list(schema.get(member)):
            types |= _types_of(branch)
    return types


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else [value]


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, `_NOTHING` if it is none."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NOTHING


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def suggestion(name: str, known: list[str]) -> str:
    """Return what to add to a message about an unknown name: similar ones, or ""."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


class Files:
    """The folder of `--save`. Files are numbered (1.png, 2.bin), so that servers choose no path.

    Members called `file` that servers send are dropped, so that they cannot name one either.
    """

    def __init__(self, path: str) -> None:
        """Make the folder, if there is none.

        Raises:
            OSError: it cannot be made.
        """
        os.makedirs(path, exist_ok=True)
        self._path = path
        self._number = 0

    def saved(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a tool's result with `file` in the place of each `data` or `blob`.

        Raises:
            OSError: a file cannot be written.
        """
        content = result.get("content")
        if type(content) is not list:
            return result
        return {**result, "content": [self._without_data(block) for block in content]}

    def _without_data(self, block: Any) -> Any:
        if type(block) is not dict:
            return block
        block = _without_file(block)
        if type(block.get("resource")) is dict:
            resource = self._replaced(_without_file(block["resource"]), "blob")
            return {**block, "resource": resource}
        return self._replaced(block, "data")

    def _replaced(self, holder: dict[str, Any], member: str) -> dict[str, Any]:
        """Write the data of a member to a file; if it is no base64, leave it as it is."""
        try:
            data = base64.b64decode(holder[member], validate=True)
        except (KeyError, ValueError, TypeError):
            return holder
        file = self._write(data, _ENDINGS.get(str(holder.get("mimeType")), ".bin"))
        return {
            ("file" if name == member else name): (file if name == member else value)
            for name, value in holder.items()
        }

    def _write(self, data: bytes, ending: str) -> str:
        """Write a new file, without replacing another; return its path."""
        while True:
            self._number += 1
            path = os.path.join(self._path, f"{self._number}{ending}")
            try:
                with open(path, "xb") as file:
                    file.write(data)
            except FileExistsError:
                continue
            return path


def _without_file(holder: dict[str, Any]) -> dict[str, Any]:
    """Return an object without members called `file`, in any case."""
    theirs = {"file", *rivals(holder, ["file"])}
    return {name: value for name, value in holder.items() if name not in theirs}
