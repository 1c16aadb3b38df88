"""The parts of a config that are ours and closed, as models; `--schema` prints them.

A model says the shape of a section, its short forms, and what must hold of it by itself;
`validation` reports what is wrong. To import this takes 0.1 s: only who has such a section does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from mcpagg.literal import is_visible
from mcpagg.passes.config.places import COMMENTS, IS_SUBTOOLS, ValidationFault, quoted
from mcpagg.problems import suggest
from mcpagg.spec import tool_glob


class _Schema(GenerateJsonSchema):
    """Writes JSON Schemas in the order of the models, without titles that repeat a name.

    Null is as good as no member at all, and not offered.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: Any, parent_key: str | None = None) -> Any:
        return value

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        result = super().default_schema(schema)
        return {key: value for key, value in result.items() if (key, value) != ("default", None)}


_COMMENTED: dict[str, Any] = {"patternProperties": {f"^({'|'.join(COMMENTS)})": {}}}


class _Closed(BaseModel):
    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        defer_build=True,
        json_schema_extra=_COMMENTED,
    )


def _must(holds: Callable[[str], object], what: str, remedy: str = "") -> AfterValidator:
    """Return what refuses a string of which something does not hold."""

    def checked(text: str) -> str:
        if not holds(text):
            raise ValidationFault(what, remedy)
        return text

    return AfterValidator(checked)


def _is_server(name: str, info: ValidationInfo) -> str:
    servers = _servers(info)
    if name not in servers:
        remedy = suggest(name, servers) or f"it has {', '.join(servers)}"
        raise ValidationFault(f"there is no server {quoted(name)}", remedy)
    return name


def _has_server(target: str, info: ValidationInfo) -> str:
    if not any(target.startswith(f"{server}:") for server in _servers(info)):
        raise ValidationFault("is for no server of the config", _near(target, info))
    return target


def _fits_server(glob: str, info: ValidationInfo) -> str:
    """Refuse a glob that is for no server: a filter that does nothing would fail open.

    One without a colon is the name of a composite tool.
    """
    if ":" in glob and all(tool_glob(glob, server) is None for server in _servers(info)):
        what = f"{quoted(glob)} is for no server of the config"
        raise ValidationFault(what, _near(glob, info))
    return glob


def _near(target: str, info: ValidationInfo) -> str:
    return suggest(target.partition(":")[0], _servers(info)) or "write SERVER:TOOL"


def _servers(info: ValidationInfo) -> Collection[str]:
    return info.context or ()


def _listed(value: Any) -> Any:
    return ([value] if value else None) if isinstance(value, str) else value


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_IS_PROFILE = "a profile's name has letters, digits, _, . and -"
_IS_TOOL = "a tool's name must be one line of visible text"
Text = Annotated[str, _must(str.strip, "is empty"), Field(json_schema_extra={"pattern": r"\S"})]
ProfileName = Annotated[str, _must(_NAME.fullmatch, _IS_PROFILE, "rename it")]
ToolName = Annotated[str, _must(is_visible, _IS_TOOL, "rename it")]
Variable = Annotated[Text, _must(re.compile(r"[^}\0- ]*").fullmatch, "is no name of a variable")]
Server = Annotated[str, AfterValidator(_is_server)]
Target = Annotated[str, AfterValidator(_has_server)]
Glob = Annotated[Text, AfterValidator(_fits_server)]
_OneOrMore = BeforeValidator(_listed, json_schema_input_type=str | list[Text])
Globs = Annotated[list[Glob] | None, _OneOrMore]
Names = Annotated[list[Text] | None, _OneOrMore]


class Profile(_Closed):
    """A subset of the tools, for those who choose it by its name."""

    expose: Globs = Field(
        None,
        description="Globs of the tools that it has; left out: all.",
        examples=[["db:query", "web:*"]],
    )
    hide: Globs = Field(
        None, description="Globs of the tools that it does not have.", examples=[["web:admin*"]]
    )
    clients: Names = Field(
        None,
        description="Clients that get it unasked: what the names begin with that they give"
        " themselves.",
        examples=[["cursor"]],
    )


def _or_null(schema: dict[str, Any]) -> None:
    schema["type"] = [schema["type"], "null"]


class Overlay(_Closed):
    """A JSON Merge Patch (RFC 7396) of what a server says of one tool; null leaves it out."""

    description: str | None = Field(
        None, description="The description that clients are shown.", json_schema_extra=_or_null
    )
    title: str | None = Field(
        None, description="The title that clients are shown.", json_schema_extra=_or_null
    )
    annotations: dict[str, Any] | None = Field(
        None,
        description="Hints, such as `readOnlyHint`.",
        examples=[{"readOnlyHint": True}],
        json_schema_extra=_or_null,
    )
    meta: dict[str, Any] | None = Field(
        None,
        alias="_meta",
        description="What clients get beside.",
        examples=[{"anthropic/alwaysLoad": True}],
        json_schema_extra=_or_null,
    )


class Own(_Closed):
    """Subsets of the tools, and reviewed texts for them."""

    model_config = ConfigDict(
        json_schema_extra={
            **_COMMENTED,
            "examples": [{"profiles": {"sales": {"expose": ["db:query"]}}}],
        }
    )

    profiles: dict[ProfileName, Profile] | None = Field(
        None,
        description="Named subsets of the tools: `server.py --profile NAME`.",
        examples=[{"sales": {"expose": ["db:query"], "clients": ["cursor"]}}],
    )
    overlays: dict[Target, Overlay] | None = Field(
        None,
        description="What clients are shown of a tool, by SERVER:TOOL.",
        examples=[{"db:query": {"description": "…"}}],
    )


class EntryOwn(_Closed):
    """What an entry says of this server to mcpagg alone."""

    nested: bool = Field(
        False, description="Whether it may start another emitted proxy.", examples=[True]
    )


def _instead(short: type, member: str, as_schema: Any) -> BeforeValidator:
    """Return what takes the value of a member alone for an object that has no more."""
    return BeforeValidator(
        lambda value: {member: value} if isinstance(value, short) else value,
        json_schema_input_type=as_schema,
    )


class Subtool(_Closed):
    """A tool that a composite tool can call."""

    name: Text = Field(description="Its server's own name of it.", examples=["query"])
    description: str | None = Field(None, description="Said in place of its server's words.")


_Subtool = Annotated[Subtool, _instead(str, "name", Text | Subtool)]


class Subtools(_Closed):
    """Tools of one server."""

    tools: list[_Subtool] = Field(
        description="The tools that it can call.", examples=[[{"name": "query"}]]
    )


_Subtools = Annotated[Subtools, _instead(list, "tools", Subtools | list[Text | Subtool])]


class Composite(_Closed):
    """A tool that calls any of several tools of servers."""

    description: str | None = Field(None, description="What clients get as its description.")
    subtools: dict[Server, _Subtools] = Field(
        description="The tools that it can call, by server.",
        examples=[{"db": {"tools": [{"name": "query"}]}}],
    )

    @model_validator(mode="after")
    def _calls_something(self) -> Composite:
        if not any(server.tools for server in self.subtools.values()):
            raise ValidationFault(
                "names no tool that it could call", 'write {"subtools": {SERVER: [TOOL]}}'
            )
        return self


Composites = dict[ToolName, Composite]


class Mask(_Closed):
    """A variable that clients name and never see."""

    name: Variable = Field(description="The variable.", examples=["PASSWORD"])
    value: Annotated[Any, WithJsonSchema({"type": ["string", "number", "boolean"]})] = Field(
        None,
        description="Its value, as a reference; left out: the variable of this name.",
        examples=["${DB_PASSWORD}"],
    )
    expand: bool = Field(False, description="Whether `${NAME}` in arguments becomes the value.")
    unexpand: bool = Field(False, description="Whether the value in answers becomes `${NAME}`.")


Masks = list[Mask]


class Bearer(_Closed):
    """Who may use the proxy over HTTP."""

    type: Literal["bearer"] = Field("bearer", description="How a client shows who it is.")
    token: Text = Field(
        description="The token, as a reference.", examples=["${MCP_PROXY_AUTH_TOKEN}"]
    )


_PORT = "^0*([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"


def _port(value: Any) -> Any:
    port = int(value) if isinstance(value, str) and re.fullmatch("[0-9]+", value) else value
    if value is None or (type(port) is int and 0 <= port < 1 << 16):
        return port
    remedy = "write a number, or leave it out and set PORT where it is served"
    raise ValidationFault("expected a number from 0 to 65535", remedy)


class Transport(_Closed):
    """How the proxy itself is served."""

    type: Literal["stdio", "sse", "streamable-http"] = Field(
        description="stdio, or one of the others for HTTP, which serves both.",
        examples=["streamable-http"],
    )
    host: Text | None = Field(None, description="The address to listen at.", examples=["127.0.0.1"])
    port: Annotated[
        Any,
        BeforeValidator(_port),
        WithJsonSchema(
            {"type": ["integer", "string"], "minimum": 0, "maximum": 65535, "pattern": _PORT}
        ),
    ] = Field(None, description="The port; 0: any that is free.", examples=[3006])
    path: Text | None = Field(None, description="The path of the endpoint.", examples=["/mcp"])
    auth: Bearer | None = Field(
        None,
        description="Who may use it.",
        examples=[{"type": "bearer", "token": "${MCP_PROXY_AUTH_TOKEN}"}],
    )


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", defer_build=True)


def _if_mask(schema: dict[str, Any]) -> None:
    """Let other clients' ways be: names of variables, or their values."""
    mask = {"if": {"type": "object"}, "then": schema["items"]}
    schema |= {"type": ["array", "object"], "items": mask}


class Entry(_Open):
    """A server, as its client has it."""

    env_vars: list[Mask] | None = Field(
        None,
        alias="envVars",
        description="Variables of this server that clients name and never see.",
        json_schema_extra=_if_mask,
    )
    mcpagg: EntryOwn | None = Field(None, description="Settings of this server for mcpagg alone.")


def _if_composite(schema: dict[str, Any]) -> None:
    """Let other clients' tools be: of composite tools, some member has subtools."""
    has_none = {"propertyNames": {"not": {"pattern": IS_SUBTOOLS.pattern}}}
    others = {"additionalProperties": {"anyOf": [{"not": {"type": "object"}}, has_none]}}
    composites = {"additionalProperties": schema.pop("additionalProperties")}
    schema |= {"type": ["object", "array"], "if": others, "else": composites}


def _or_list(schema: dict[str, Any]) -> None:
    schema |= {"type": ["object", "array"], "items": schema["additionalProperties"]}


class Config(_Open):
    """An MCP config as mcpagg-compile reads it: what is ours is said in full, the rest is open."""

    servers: dict[str, Entry] | None = Field(
        None,
        alias="mcpServers",
        description="The servers, as any MCP client has them.",
        json_schema_extra=_or_list,
    )
    mcpagg: Own | None = None
    tools: Composites | None = Field(
        None, description="Composite tools.", json_schema_extra=_if_composite
    )
    env_vars: list[Mask] | None = Field(
        None, alias="envVars", description="Variables that clients name and never see."
    )
    transport: Transport | None = Field(None, alias="serverTransport")


def schema_of(shape: Any) -> dict[str, Any]:
    return TypeAdapter(shape).json_schema(schema_generator=_Schema)


def config_schema() -> str:
    schema = {"$schema": _Schema.schema_dialect, **schema_of(Config), "title": "mcpagg"}
    return json.dumps(schema, indent=2)
