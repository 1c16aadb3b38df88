"""The keys of a server's entry, as all clients spell them: what each sets, how it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from mcpagg.passes.config import readers
from mcpagg.passes.config.readers import Reader
from mcpagg.passes.config.restrictions import is_harmless
from mcpagg.spec import Transport
from mcpagg_runtime.launch.secrecy import words_of


class Key(NamedTuple):
    """Which field of an entry a key sets, and how its value is read."""

    field: str
    read: Reader


# What a limit is for, and its unit. A limit for a start or a listing is named, not kept.
CALL_S, CALL_MS = Key("timeout", readers.seconds), Key("timeout", readers.milliseconds)
START_S, START_MS = Key("start limit", readers.seconds), Key("start limit", readers.milliseconds)
LISTING_MS = Key("listing limit", readers.milliseconds)

KEYS: dict[str, Key] = {
    "command": Key("command", readers.command),
    "args": Key("args", readers.scalars),
    "arguments": Key("args", readers.scalars),
    "env": Key("env", readers.variables),
    "environment": Key("env", readers.variables),
    "envVars": Key("env", readers.variables),
    "env_vars": Key("env", readers.variables),
    "envFile": Key("env_file", readers.text),
    "env_file": Key("env_file", readers.text),
    "cwd": Key("cwd", readers.text),
    "workingDirectory": Key("cwd", readers.text),
    "working_directory": Key("cwd", readers.text),
    "type": Key("transport", readers.text),
    "transport": Key("transport", readers.text),
    "transportType": Key("transport", readers.text),
    "url": Key("url", readers.text),
    "server_url": Key("url", readers.text),
    "serverUrl": Key("url", readers.text),
    "httpUrl": Key("url", readers.text),
    "sseUrl": Key("url", readers.text),
    "sseEndpoint": Key("url", readers.text),
    "baseUrl": Key("url", readers.text),
    "endpoint": Key("url", readers.endpoint),
    "headers": Key("headers", readers.headers),
    "http_headers": Key("headers", readers.headers),
    "env_http_headers": Key("headers", readers.headers_of_variables),
    "bearer_token_env_var": Key("token", readers.variable),
    "bearerTokenEnv": Key("token", readers.variable),
    "bearerToken": Key("token", readers.written),
    "bearer_token": Key("token", readers.written),
    "authorization_token": Key("token", readers.written),
    "target": Key("target", readers.text),
    "auth": Key("oauth", readers.oauth),
    "oauth": Key("oauth", readers.oauth),
    "timeout": Key("timeout", readers.duration),
    "requestTimeout": CALL_MS,
    "request_timeout_ms": CALL_MS,
    "timeoutMs": CALL_MS,
    "tool_timeout_sec": CALL_S,
    "read_timeout_seconds": CALL_S,
    "startup_timeout_sec": START_S,
    "startup_timeout_ms": START_MS,
    "connectionTimeout": START_MS,
    "anythingllm.suppressedTools": Key("filter", readers.withheld),
    "tool_configuration.allowed_tools": Key("filter", readers.allowed),
    "discoveryTimeoutMs": LISTING_MS,
    "tools": Key("filter", readers.tools),
    "prompts": Key("nothing", readers.none_withheld),
    "resources": Key("nothing", readers.none_withheld),
    "toolFilter": Key("filter", readers.tool_filter),
    "mcpagg": Key("nested", readers.nested),
}
STANDARD_KEYS = frozenset({"command", "args", "env", "type"})
USUAL = {"arguments": "args", "environment": "env"}
"""What is advised in the place of a spelling that few clients know."""

NESTED = frozenset({"transport", "options", "requestOptions", "requestInit"})
"""Keys whose value, when it is an object, holds keys of the entry."""

FILTERS: tuple[tuple[re.Pattern[str], Key], ...] = (
    (re.compile(r"allow(ed)?|enabled?|exposed?|included?|only"), Key("filter", readers.allowed)),
    (
        re.compile(
            r"block(ed)?|den(y|ied)|disabled?|disallow(ed)?|excluded?|forbid(den)?|hid(e|den)"
            r"|reject(ed)?|suppress(ed)?"
        ),
        Key("filter", readers.withheld),
    ),
)
"""The word that stands beside `tools` in a key that lists an entry's tools, in any spelling."""

URL_SAYS: dict[str, Transport] = {
    "httpUrl": "streamable-http",
    "sseUrl": "sse",
    "sseEndpoint": "sse",
}
"""Spellings of `url` that say which transport it is."""

TRANSPORTS: dict[str, Transport | None] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "streamable-http",
    "streamable": "streamable-http",
    "streamablehttp": "streamable-http",
    "sse": "sse",
    "remote": None,  # by the URL
    "url": None,
}
"""Transports, in lower case without `-` and `_`."""

PROVIDED = frozenset({"inmemory", "builtin", "platform", "frontend", "inlinepython", "sdk"})
"""Transports of servers that only their client can start, spelled likewise."""

QUIET = frozenset(
    "trust chat autoStart critical persistent alwaysLoad source gallery"  # noqa: SIM905 - a word a line
    " id name displayName title description note notes icon icons tags category useCases"
    " requiredFor requiredRoles provider author homepage repository documentation version"
    " installCommands installDirectory dev comment display_name bundled iconPath startup"
    " serverInstructions start_on_launch lifecycle directTools anythingllm protocol"
    " required chatMenu customUserVars requiresOAuth watchPaths custom_instructions tokenCacheDir"
    " oauthRedirectUrl protocol_mode panicIfInvalid logEnabled".split()
)
"""Keys that matter to a client, or to people."""

UNHONOURED = {
    "headersHelper": "it would have to be run at every start: pass a variable in `headers`",
    "authTokens": "it guards another proxy: see `serverTransport` for a token of this one",
    "sseReadTimeout": "use --timeout",
    "read_transport_sse_timeout_seconds": "use --timeout",
    "http_timeout_seconds": "use --connect-timeout",
    "inheritParentEnv": "use --env",
    "installCommand": "install it before compiling",
}
"""Keys that are understood but not honoured, with what to do instead."""


def key_of(own: Mapping[str, Key], key: str) -> Key | None:
    """Return what an entry's key sets, None if it is not known: `a.b` is key b of the object a.

    `own` are the keys that the dialect reads in its own way.
    """
    if key in own or key in KEYS:
        return own.get(key) or KEYS[key]
    words = words_of(key)
    if len(words) == 2 and "tools" in words:
        words.remove("tools")
        return next((meaning for verbs, meaning in FILTERS if verbs.fullmatch(words[0])), None)
    return None


def is_nested(own: Mapping[str, Key], key: str) -> bool:
    """Whether the object of an entry's key holds keys of the entry; `own` as in `key_of`."""
    dotted = (*KEYS, *own)
    return key in NESTED or any(name.startswith(f"{key}.") for name in dotted)


def within_of(key: str) -> str:
    """Return what leads to the keys within the object of a key that is nested."""
    return "" if key in NESTED else f"{key}."


def is_quiet(key: str) -> bool:
    """Whether an entry's key needs no warning: it only matters to the client, or is a comment."""
    return key in QUIET or is_harmless(key)
