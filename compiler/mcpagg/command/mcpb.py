"""An emitted file as an extension of Claude Desktop: a zip archive with a manifest.

The manifest is of version 0.3 (https://github.com/modelcontextprotocol/mcpb, MANIFEST.md): the
variables that the servers need are the fields of a form, and arrive in the environment of the
proxy. The archive holds the same bytes for the same file, and is the same bytes itself where zlib
is: each release of that may compress in its own way. So what is compared is what it holds.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from mcpagg.passes.emission.output import SERVER
from mcpagg.passes.emission.readback import digest_of
from mcpagg.passes.linking.linking import listed_items
from mcpagg.problems import count
from mcpagg_runtime.launch.launch import MORE_FOLDERS
from mcpagg_runtime.launch.needs import uses
from mcpagg_runtime.launch.secrecy import promise
from mcpagg_runtime.lists.catalogue import TOOLS

if TYPE_CHECKING:
    from mcpagg.compilation import Compilation

MANIFEST = "manifest.json"

PATH_FIELD = {
    "type": "string",
    "title": "PATH",
    "description": "Folders of programs of servers (npx, uvx, …) that a desktop does not find",
    "sensitive": False,
    "required": False,
    "default": "",
}

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip archive can name
_LISTED = 10


def pack(result: Compilation) -> bytes:
    archive = io.BytesIO()
    manifest = json.dumps(_manifest(result), indent=2) + "\n"
    with zipfile.ZipFile(archive, "w") as members:
        for name, text in ((MANIFEST, manifest), (SERVER, result.text)):
            member = zipfile.ZipInfo(name, _EARLIEST)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3  # Unix, wherever this runs
            member.external_attr = 0o100644 << 16
            members.writestr(member, text.encode("utf-8"))
    return archive.getvalue()


def held(archive: bytes) -> dict[str, bytes]:
    """Return the contents of an extension, by the names of its members."""
    with zipfile.ZipFile(io.BytesIO(archive)) as members:
        return {name: members.read(name) for name in members.namelist()}


def _manifest(result: Compilation) -> dict[str, Any]:
    servers = list(result.data.rows)
    more = ", …" if len(servers) > _LISTED else ""
    fields = _fields(result.data.rows)
    manifest: dict[str, Any] = {
        "manifest_version": "0.3",
        "name": re.sub(r"[^a-z0-9]+", "-", result.name.lower()).strip("-") or "mcpagg",
        "display_name": result.name,
        "version": f"1.0.0+{hashlib.sha256(result.text.encode('utf-8')).hexdigest()[:12]}",
        "description": f"One proxy for {count(len(servers), 'MCP server')}: "
        f"{', '.join(servers[:_LISTED])}{more}",
        "author": {"name": "compiled by mcpagg"},
        "server": _server(fields, [digest_of(result.text)] if result.options.locked else []),
        "tools": [*_tools(result)],
        "tools_generated": result.options.drift == "live",
        "prompts_generated": bool(result.data.linked.routes["prompts"]),
        "compatibility": {"runtimes": {"python": ">=3.9"}},
    }
    return manifest | ({"user_config": fields} if fields else {})


def _server(fields: Iterable[str], words: Iterable[str]) -> dict[str, Any]:
    """Return how the proxy is started, with these words behind it.

    On Windows alone, `python` is Python 3 for sure.
    """
    start = {"command": "python3", "args": ["-I", f"${{__dirname}}/{SERVER}", *words]}
    env = {MORE_FOLDERS if name == "PATH" else name: f"${{user_config.{name}}}" for name in fields}
    override = {"platform_overrides": {"win32": {"command": "python"}}}
    return {
        "type": "python",
        "entry_point": SERVER,
        "mcp_config": start | ({"env": env} if env else {}) | override,
    }


def _tools(result: Compilation) -> Iterator[dict[str, str]]:
    """Yield the tools by the names that Claude Desktop is given."""
    names = "portable" if result.options.names == "auto" else result.options.names
    listed = listed_items(result.data.listed, result.data.linked)
    for item in chain.from_iterable(listed.values()):
        if item.kind is TOOLS:
            description = item.value.get("description")
            described = {"description": description} if isinstance(description, str) else {}
            yield {"name": item.name(names)} | described


def _fields(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the fields of the form: {variable: field}, one for each that the rows refer to.

    What is optional has a default, if an empty one: the host would hand on the name of a field
    that has no value. Which folders servers' programs are in, only the user's machine knows.
    """
    asked: dict[str, list[tuple[str, str, str | None]]] = {}
    for server, row in rows.items():
        for location, name, default in uses(row):
            if name != "PATH":
                asked.setdefault(name, []).append((server, str(location), default))
    fields = {name: _field(name, places) for name, places in sorted(asked.items())}
    return fields | ({"PATH": PATH_FIELD} if any("command" in row for row in rows.values()) else {})


def _field(name: str, places: Iterable[tuple[str, str, str | None]]) -> dict[str, Any]:
    places = list(places)
    defaults = {default for *_, default in places}
    field: dict[str, Any] = {
        "type": "string",
        "title": name,
        "description": f"For {', '.join(f'{server} ({place})' for server, place, _ in places)}",
        "sensitive": any(map(_is_secret, [name, *(place for _, place, _ in places)])),
        "required": None in defaults,
    }
    if None in defaults:
        return field
    return field | {"default": defaults.pop() if len(defaults) == 1 else ""}


def _is_secret(name: str) -> bool:
    """Whether a name says that its value is a secret; of a place its last word counts."""
    return bool(promise(name.partition(".")[2] or name))
