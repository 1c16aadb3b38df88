"""The part that the demo's servers share: tools are functions, and one loop serves them on stdio.

    server = Server("greeter", "Says hello.")

    @server.tool(name="Whom to greet")
    def greet(name: str) -> str:
        "Greet somebody."
        return f"Hello, {name}!"

    server.run()

A tool's schema comes from its annotations and defaults, its description from its docstring. What it
returns is the answer: a text, or a dict as structured content. A ValueError is an answer too, one
that the model can learn from. Standard library only.
"""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False  # `typing` costs more to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Json = dict[str, Any]
    Tool = TypeVar("Tool", bound=Callable[..., "str | Json"])

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
TYPES = {"str": "string", "int": "integer", "float": "number"}


class Server:
    """An MCP server with tools."""

    def __init__(self, name: str, instructions: str) -> None:
        self.info = {"name": name, "version": "1.0.0"}
        self.instructions = instructions
        self.tools: dict[str, tuple[Callable[..., str | Json], Json]] = {}

    def tool(self, read_only: bool = True, **parameters: str) -> Callable[[Tool], Tool]:
        """Make a function a tool; its parameters are described here."""

        def register(function: Tool) -> Tool:
            self.tools[function.__name__] = function, {
                "name": function.__name__,
                "description": function.__doc__,
                "inputSchema": schema(function, parameters),
                "annotations": {"readOnlyHint": read_only, "openWorldHint": False},
            }
            return function

        return register

    def run(self) -> None:
        """Answer requests until the end of input."""
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if "id" in request and "method" in request:
                response = {"jsonrpc": "2.0", "id": request["id"]}
                response.update(self.answer(request["method"], request.get("params") or {}))
                sys.stdout.write(json.dumps(response, separators=(",", ":")) + "\n")
                sys.stdout.flush()

    def answer(self, method: str, params: Json) -> Json:
        """Return the `result` or the `error` of a request."""
        if method == "initialize":
            asked = params.get("protocolVersion")
            return result(
                protocolVersion=asked if asked in VERSIONS else VERSIONS[-1],
                capabilities={"tools": {}},
                serverInfo=self.info,
                instructions=self.instructions,
            )
        if method == "ping":
            return result()
        if method == "tools/list":
            return result(tools=[description for _, description in self.tools.values()])
        if method == "tools/call":
            return self.call(str(params.get("name")), params.get("arguments") or {})
        return error(-32601, f"Method not found: {method}")

    def call(self, name: str, arguments: Json) -> Json:
        """Call a tool with the arguments that it declares."""
        if name not in self.tools:
            return error(-32602, f"Unknown tool: {name}")
        function, description = self.tools[name]
        accepted = description["inputSchema"]
        unknown = sorted(set(arguments) - set(accepted["properties"]))
        missing = sorted(set(accepted["required"]) - set(arguments))
        if unknown or missing:
            return said(f"unknown arguments: {unknown}, missing: {missing}", isError=True)
        try:
            value = function(**arguments)
        except (TypeError, ValueError) as problem:
            return said(str(problem), isError=True)
        if isinstance(value, dict):
            return said(json.dumps(value, ensure_ascii=False), structuredContent=value)
        return said(value)


def schema(function: Callable[..., object], descriptions: dict[str, str]) -> Json:
    """Return the JSON schema of a function's parameters."""
    names = [name for name in function.__annotations__ if name != "return"]
    properties: Json = {
        name: {"type": TYPES[function.__annotations__[name]], "description": descriptions[name]}
        for name in names
    }
    defaults: tuple[object, ...] = getattr(function, "__defaults__", None) or ()
    required = names[: len(names) - len(defaults)]
    for place, default in enumerate(defaults, len(required)):
        properties[names[place]]["default"] = default
    return {"type": "object", "properties": properties, "required": required}


def result(**members: object) -> Json:
    """The outcome of a request that was understood."""
    return {"result": members}


def error(code: int, message: str) -> Json:
    """The outcome of a request that was not."""
    return {"error": {"code": code, "message": message}}


def said(text: str, **members: object) -> Json:
    """A tool's answer."""
    return result(content=[{"type": "text", "text": text}], **members)
