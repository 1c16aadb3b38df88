"""The tables of FILE that are read back, as models: FILE is a text that anybody may have written.

What is not named here passes. To import this takes 0.1 s: only who reads FILE does.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from mcpagg.passes.config.places import ValidationFault, quoted
from mcpagg.spec import Transport
from mcpagg_runtime.frozen.table import Unreadable, read_frozen


def _is_text(value: Any) -> Any:
    """Take any string: what a server says may hold half of a surrogate pair."""
    if not isinstance(value, str):
        raise ValidationFault("expected a string")
    return value


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, defer_build=True)


class _Mask(_Table):
    model_config = ConfigDict(extra="forbid")

    value: str
    expand: bool = False
    unexpand: bool = False


class _Row(_Table):
    """What is needed to start or to reach a server."""

    transport: Transport = "stdio"
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    env_file: str = ""
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    masks: dict[str, _Mask] = {}
    timeout: float | None = None
    hide: list[str] = []
    expose: list[str] | None = None
    rename: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _is_whole(cls, row: Any) -> Any:
        """Refuse a row without what each of its transport has."""
        if isinstance(row, dict):
            is_local = row.get("transport", "stdio") == "stdio"
            needed = ("command", "args", "env") if is_local else ("url", "headers")
            if missing := [name for name in needed if name not in row]:
                raise ValidationFault(f"has no {' and no '.join(missing)}")
        return row


class _Facts(_Table):
    protocol: str
    handshake: str = ""
    conditional: list[str] = []
    hints: dict[Any, Any] = {}


class _About(_Table):
    info: dict[Any, Any] = Field(alias="serverInfo")
    capabilities: dict[Any, Any]
    of_handshake: dict[Any, Any] | None = Field(None, alias="handshakeCapabilities")
    instructions: Annotated[Any, AfterValidator(_is_text), WithJsonSchema({"type": "string"})] = ""


class _Named(_Table):
    name: str


class _Resource(_Table):
    uri: str


class _Template(_Table):
    uri: str = Field(alias="uriTemplate")


class _Lists(_Table):
    server: _About | None = None
    tools: list[_Named] = []
    prompts: list[_Named] = []
    resources: list[_Resource] = []
    templates: list[_Template] = []
    skills: list[_Resource] = []


def _is_frozen(rows: list[str]) -> list[str]:
    try:
        read_frozen(rows)
    except Unreadable as fault:
        raise ValidationFault(str(fault)) from None
    return rows


class File(_Table):
    """The tables of a FILE."""

    servers: dict[str, _Row] = Field(alias="SERVERS")
    children: dict[str, _Facts] = Field(alias="CHILDREN")
    snapshot: dict[str, _Lists] = Field(alias="SNAPSHOT")
    failed: list[str] = Field([], alias="FAILED")
    kept: list[str] = Field([], alias="KEPT")
    approval: dict[str, str] = Field({}, alias="APPROVAL")
    frozen: dict[str, Annotated[list[str], AfterValidator(_is_frozen)]] = Field({}, alias="FROZEN")

    @model_validator(mode="after")
    def _agrees(self) -> File:
        for name, lists in self.snapshot.items():
            facts = self.children.get(name)
            if not name:
                continue  # the composite tools, which are of no server
            if facts is None or lists.server is None or name not in self.servers:
                raise ValidationFault(f"its tables do not all have {quoted(name)}")
            if facts.handshake and lists.server.of_handshake is None:
                raise ValidationFault(
                    f"SNAPSHOT does not say what {quoted(name)} declares in a handshake"
                )
        return self
