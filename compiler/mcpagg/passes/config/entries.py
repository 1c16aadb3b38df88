"""From one server's entry, in any dialect, to its `ServerSpec`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from mcpagg.options import CONNECT_SECONDS
from mcpagg.passes.config.coordinator import has_masks, read_masks
from mcpagg.passes.config.dialects import Dialect
from mcpagg.passes.config.keys import (
    KEYS,
    PROVIDED,
    TRANSPORTS,
    UNHONOURED,
    URL_SAYS,
    USUAL,
    Key,
    is_nested,
    is_quiet,
    key_of,
    within_of,
)
from mcpagg.passes.config.places import Place, Written, kind, quoted
from mcpagg.passes.config.readers import Filter, command_line, text
from mcpagg.passes.config.restrictions import SWITCHES, is_off, refuse_within, report_unknown
from mcpagg.problems import suggest
from mcpagg.spec import OAuth, ServerSpec, Transport
from mcpagg_runtime.launch.launch import Location

STDIO_FIELDS = ("command", "args", "env", "env_file", "cwd")
REMOTE_FIELDS = ("url", "headers", "token", "token header", "token format", "token scheme", "oauth")

_RUNTIME = "${runtime."
"""What begins a reference that only the client knows."""

Defaults = Sequence[tuple[dict[str, Any], Place]]
"""What is meant for every entry that does not say otherwise, and where it stands."""


def read_entry(
    name: str, value: Any, place: Place, dialect: Dialect, defaults: Defaults
) -> ServerSpec | None:
    """Return the server that entry `name` describes, or None after an error at its place."""
    if not isinstance(value, dict):
        what = f"expected an object with `command` or `url`, found {kind(value)}"
        place.error(what, 'write {"command": …}')
        return None
    before = len(place.errors)
    entry = _Entry(dialect)
    entry.collect(value, place)
    transport = entry.transport(place) if len(place.errors) == before else None
    if transport is None:
        return None
    for default, at in defaults:
        entry.inherit(default, at, transport)
    fields = entry.of(transport)
    chosen = entry.filter(name, place)
    return ServerSpec(
        name=name,
        path=place.path,
        transport=transport,
        timeout=entry.fields.get("timeout") or None,
        expose=chosen.expose,
        hide=chosen.hide,
        rename=chosen.rename,
        nested=entry.fields.get("nested", False),
        masks=entry.fields.get("masks", ()),
        paths=entry.paths,
        **fields,
    )


class _Entry:
    """The fields of an entry, the keys that set them, and where every string of them stands."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.fields: dict[str, Any] = {}
        self.filters: list[tuple[str, Filter]] = []
        self.spelled: dict[str, str] = {}
        self.places: dict[str, Place] = {}
        self.paths: dict[Location, str] = {}
        self.keys: list[str] = []

    def collect(self, value: dict[str, Any], place: Place, within: str = "") -> None:
        """Read every key; what is null or empty is as good as absent.

        `within` is the key that leads here.
        """
        for key, member in value.items():
            self.keys.append(key)
            at, whole = place.at(key), within + key
            if member is None or whole in SWITCHES or is_off(key, value):
                continue
            meaning = key_of(self.dialect.keys, whole)
            if meaning is not None and _is_blank(member, meaning):
                continue
            if isinstance(member, dict) and is_nested(self.dialect.keys, whole):
                self.collect(member, at, within_of(whole))
            elif meaning is not None:
                self._read(whole, meaning, member, at)
            elif key in UNHONOURED:
                at.warn("is not honoured", UNHONOURED[key])
            elif is_quiet(key):
                refuse_within(key, member, at)
            else:
                report_unknown(key, member, at, [*KEYS, *self.dialect.keys], USUAL)

    def _read(self, key: str, known_as: Key, value: Any, at: Place) -> None:
        field, read = known_as
        if key == "envVars" and has_masks(value):
            field, read = "masks", read_masks
        elif field == "target":
            is_url = isinstance(value, str) and "://" in value
            field, read = ("url", text) if is_url else ("command", command_line)
        parsed = read(value, at)
        if parsed is None:
            return
        if field == "filter":
            self.filters.append((key, parsed))
            return
        if field.endswith("limit"):
            if 0 < parsed <= CONNECT_SECONDS:
                return  # it gets so long anyway
            remedy = f"pass --connect-timeout {parsed:g}" if parsed else ""
            at.warn(f"is the client's {field}, not one for calls, and is not honoured", remedy)
            return
        if field == "timeout" and 0 < parsed < 1:
            at.warn(f"is {parsed:g} s: a call that takes longer fails")
        first = self.fields.setdefault(field, parsed)
        if not _agree(first, parsed):
            at.error(f"says the same as `{self.spelled[field]}`, and differs", "keep one of them")
        elif isinstance(first, dict):
            self.fields[field] = {**parsed, **first}
        self.spelled.setdefault(field, key)
        self.places.setdefault(field, at)

    def inherit(self, value: dict[str, Any], place: Place, transport: Transport) -> None:
        """Take over what is meant for all entries, where this one does not say otherwise."""
        common = _Entry(self.dialect)
        common.collect(value, place)
        for field in REMOTE_FIELDS if transport == "stdio" else STDIO_FIELDS:
            common.fields.pop(field, None)
        for field, common_value in common.fields.items():
            own = self.fields.setdefault(field, common_value)
            if isinstance(own, dict):
                self.fields[field] = {**common_value, **own}
            self.places.setdefault(field, common.places[field])
        self.filters = self.filters or common.filters

    def transport(self, place: Place) -> Transport | None:
        """Return how the server is reached, from what the entry says and holds."""
        command, url = "command" in self.fields, "url" in self.fields
        declared = self.fields.get("transport")
        if declared is not None:
            spelling = spelled(declared)
            if spelling not in TRANSPORTS:
                what = f"unknown transport {quoted(declared)}"
                remedy = "write stdio, http or sse"
                if spelling in ("ws", "websocket"):
                    what, remedy = "WebSocket is not spoken here", "--skip it, or use its http URL"
                self.places["transport"].error(what, remedy)
                return None
            wanted = TRANSPORTS[spelling] or self._by_url()
            if not (command if wanted == "stdio" else url):
                needed = "command" if wanted == "stdio" else "url"
                place.error(f"says it is {quoted(declared)}, but has no `{needed}`")
                return None
            return wanted
        if command and url:
            place.error("has both a command and a URL", 'say "type": "stdio" or "type": "http"')
        elif not command and not url:
            keys = ", ".join(quoted(key) for key in self.keys) or "{}"
            what = f"has neither `command` nor `url`, only {keys}"
            if {"command", "url"} & {*self.keys}:
                what = f"has no `command` and no `url` that says something, of {keys}"
            remedy = "write the program to start, or the URL to connect to, or --skip it"
            near = (suggest(key, ("command", "url")) for key in self.keys if key not in KEYS)
            remedy = next(filter(None, near), remedy)
            place.error(what, remedy)
        return "stdio" if command and not url else self._by_url() if url and not command else None

    def _by_url(self) -> Transport:
        says = URL_SAYS.get(self.spelled.get("url", ""))
        path = self.fields.get("url", "").partition("?")[0]
        return says or ("sse" if path.rstrip("/").endswith("/sse") else self.dialect.url)

    def of(self, transport: Transport) -> dict[str, Any]:
        """Return the fields of a server of this transport; warn of those of other transports."""
        remote = transport != "stdio"
        for field in STDIO_FIELDS if remote else REMOTE_FIELDS:
            if self.fields.pop(field, None):
                what = f"means nothing to a server that is reached over {transport}"
                self.places[field].warn(what)
        if remote:
            _check_url(self.fields["url"], self.places["url"])
            return {
                "url": self._plain("url"),
                "headers": self._members("headers", self._headers()),
                "oauth": self.fields.get("oauth", OAuth()),
            }
        program, *first = self.fields["command"]
        if self.dialect.splits and not first and not self.fields.get("args"):
            program, *first = command_line(program.text, self.places["command"]) or (program,)
        args = [*first, *self.fields.get("args", ())]
        for index, word in enumerate(args):
            self.paths[Location("args", index)] = word.path
        if "args" in self.places:
            self.paths[Location("args")] = self.places["args"].path
        self.paths[Location("command")] = program.path
        return {
            "command": program.text,
            "args": tuple(word.text for word in args),
            "env": self._members("env", self.fields.get("env", {})),
            "env_file": self._plain("env_file"),
            "cwd": self._plain("cwd"),
        }

    def _headers(self) -> dict[str, Written]:
        """Return the headers; one holds the token that the entry gives by a key of its own."""
        headers: dict[str, Written] = self.fields.get("headers", {})
        token: Written | None = self.fields.get("token")
        if token is None:
            return headers
        name, form = self.fields.get("token scheme", ("Authorization", "Bearer {token}"))
        name = self.fields.get("token header", name)
        if not name:
            return headers
        form = self.fields.get("token format", form)
        if token.text.lower().startswith("bearer "):
            form = "{token}"
        return headers | {name: Written(form.replace("{token}", token.text), token.path)}

    def _plain(self, field: str) -> str | None:
        """Return the string of a field, and record where it stands."""
        if field in self.fields:
            self.paths[Location(field)] = self.places[field].path
        return self.fields.get(field)

    def _members(self, field: str, members: Mapping[str, Written]) -> dict[str, str]:
        """Return the strings of an object, and record where each stands."""
        for name, member in members.items():
            self.paths[Location(field, name)] = member.path
        return {name: member.text for name, member in members.items()}

    def filter(self, server: str, place: Place) -> Filter:
        """Return the entry's tool filters as one, for the server's own names of its tools."""
        prefix = self.dialect.prefix.replace("{}", server)
        lists = [(key, chosen) for key, chosen in self.filters if chosen.expose is not None]
        if len(lists) > 1:
            keys = " and ".join(f"`{key}`" for key, _ in lists)
            place.error(f"has two lists of tools to offer: {keys}", "keep one of them")
        hide = [name.removeprefix(prefix) for _, chosen in self.filters for name in chosen.hide]
        rename: dict[str, str] = {}
        for _, chosen in self.filters:
            rename.update({name.removeprefix(prefix): new for name, new in chosen.rename.items()})
        return Filter(lists[0][1].expose if lists else None, tuple(hide), rename)


def spelled(transport: str) -> str:
    return re.sub(r"[-_ ]", "", transport.lower())


def is_provided(entry: Any, dialect: Dialect) -> bool:
    """Whether only its own client can start the server of an entry."""
    if not isinstance(entry, dict):
        return False
    types = [entry.get(key) for key, meaning in KEYS.items() if meaning.field == "transport"]
    of_hub = "uses" in entry and not {"command", "url"} & entry.keys()
    return (
        of_hub
        or any(isinstance(transport, str) and spelled(transport) in PROVIDED for transport in types)
        or _RUNTIME in str(entry)
        or dialect.provided(entry)
    )


def _is_blank(value: Any, meaning: Key) -> bool:
    """Whether a value is as good as absent; an empty list of tools is not."""
    if isinstance(value, str):
        return not value.strip()
    return meaning.field == "command" and value == []


def _agree(first: Any, second: Any) -> bool:
    """Whether two keys of one field can both be meant."""
    if isinstance(first, dict):
        return all(first[name].text == second[name].text for name in first.keys() & second.keys())
    if isinstance(first, tuple) and first and isinstance(first[0], Written):
        return [word.text for word in first] == [word.text for word in second]
    return bool(first == second)


def _check_url(url: str, at: Place) -> None:
    if url.startswith(("$", "{")):
        return  # a reference: only the start can tell
    scheme, behind, _ = url.partition("://")
    if behind and scheme.lower() not in ("http", "https"):
        at.error(f"cannot connect to {quoted(scheme)} URLs", "use http or https, or --skip it")
        return
    try:
        parts = urlsplit(url)
        # What refers to something is checked where its value is known.
        complete = bool(parts.netloc and ("$" in parts.netloc or parts.port != 0))
    except ValueError:
        complete = False
    if not (complete and behind):
        at.error("is no URL", "write https://HOST/PATH")
