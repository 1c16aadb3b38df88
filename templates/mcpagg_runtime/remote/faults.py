"""Faults of remote servers, as texts that say what to do."""

from __future__ import annotations

import json
import socket
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

UNAUTHORIZED, FORBIDDEN = 401, 403
# How much of what a server says about itself is shown.
QUOTED_CHARACTERS = 200
GZIP = b"\x1f\x8b"
NO_HTTP = "answered with what is no HTTP"


class RemoteFault(Exception):
    """Raised when a server cannot be reached, or its response cannot be used.

    `what` completes "server 'x' …"; it may hold values of variables. `status` is that of the
    response, 0 without one.
    """

    def __init__(self, what: str, status: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.status = status


class NotSent(RemoteFault):
    """Raised when a request has certainly not reached the server."""


def unreachable(problem: Exception, where: str, host: str, seconds: float) -> str:
    """Say why there is no connection; `where` is the URL, and the proxy on the way to it."""
    return f"could not be reached at {where}: {_explained_failure(problem, host, seconds)}"


def _explained_failure(problem: Exception, host: str, seconds: float) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        why = getattr(problem, "verify_message", "") or "it cannot be verified"
        advice = "where its authority is your own, name the file of that in SSL_CERT_FILE"
        return f"its certificate is not trusted ({why}); {advice}"
    if isinstance(problem, ssl.SSLError):
        if problem.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            return "it does not speak TLS there; is its URL one of http://?"
        return f"TLS failed ({(problem.reason or str(problem)).lower().replace('_', ' ')})"
    if isinstance(problem, socket.gaierror):
        return f"the name {host} is not known; check the URL, and the network"
    if isinstance(problem, ConnectionRefusedError):
        return "the connection was refused; is it running?"
    if isinstance(problem, (TimeoutError, socket.timeout)):
        return f"no connection within {seconds:g} s"
    if isinstance(problem, ConnectionResetError):
        return "the connection was closed at once; is its URL one of https://?"
    if isinstance(problem, OSError):
        return problem.strerror or str(problem)
    return f"{type(problem).__name__}: {problem}"


def broken(problem: Exception, where: str) -> str:
    """Say how a connection broke after the request had been sent."""
    how = "closed the connection"
    if str(problem).startswith("got more than "):
        # The limits of Python's own client: see `http.client`.
        limit = "100 headers" if "headers" in str(problem) else "65,536 bytes in one header"
        how = f"answered with more than {limit} at {where}, and no more are read"
        return f"{how}; the request is not repeated"
    if isinstance(problem, (TimeoutError, socket.timeout)):
        how = "was silent for too long"
    elif isinstance(problem, OSError) and problem.strerror:
        how = f"was lost ({problem.strerror.lower()})"
    elif type(problem).__name__ in ("BadStatusLine", "LineTooLong", "HTTPException"):
        how = NO_HTTP
    return f"{how} before it had answered at {where}; the request is not repeated"


def refusal_in(body: bytes) -> dict[str, Any]:
    """Return the JSON object that is the body of an error, {} if it is none."""
    try:
        value = json.loads(body) if body.lstrip()[:1] == b"{" else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def with_its_words(what: str, body: bytes) -> str:
    """Return `what`, and behind it the message of the server, if it has one."""
    refusal = refusal_in(body)
    inner = refusal.get("error")
    if isinstance(inner, dict):
        refusal = inner
    names = ("message", "error_description", "detail", "error", "title")
    texts = [refusal[name] for name in names if isinstance(refusal.get(name), str)]
    text = "" if refusal else body.decode("utf-8", "replace").strip()
    text = next(filter(None, texts), text)
    # One word says no more than the status does; markup is for a browser.
    if " " not in text or text.startswith("<") or text in what:
        return what
    return f"{what}; it says {shortened(text)!r}"


def refused(status: int, where: str, headers: Mapping[str, str]) -> str:
    """Say what an HTTP status means; `headers` are those of the response, in lower case."""
    answer = f"answered with {status} {_phrase(status)} at {where}".replace("  ", " ")
    if status == UNAUTHORIZED:
        # For a request without credentials, see Credentials: it says how to log in.
        return f"{answer}: it does not accept the credentials; are they still valid?"
    if status == FORBIDDEN and (scope := lacking_scope(headers)):
        return f"{answer}: these credentials lack the scope {scope!r}"
    if status == FORBIDDEN:
        return f"{answer}: these credentials are not allowed this, or it refuses this network"
    if status == 404:
        return f"{answer}: nothing is there; check the path of the URL"
    if status == 405:
        return f"{answer}: what is there takes no MCP requests; check the path of the URL"
    if status == 407:
        return f"{answer}: the proxy wants credentials; write them into its URL"
    if status == 413:
        return f"{answer}: the request is too large for it"
    if status == 429 or status >= 500:
        what = "it takes no more requests for now" if status == 429 else "the fault is its own"
        return f"{answer}: {what}{_retry_after(headers.get('retry-after', ''))}"
    return answer


def lacking_scope(headers: Mapping[str, str]) -> str:
    """Return the scope that a response names as lacking, "" for none (RFC 6750, section 3.1)."""
    challenge = headers.get("www-authenticate", "")
    scope = challenge.partition('scope="')[2].partition('"')[0]
    return shortened(scope) if "insufficient_scope" in challenge else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _retry_after(value: str) -> str:
    if not value:
        return ""
    value = shortened(value)
    return f"; try again in {value} s" if value.isdecimal() else f"; try again after {value}"


def shortened(text: str) -> str:
    """Return as much of a server's text as is shown."""
    return text if len(text) <= QUOTED_CHARACTERS else f"{text[:QUOTED_CHARACTERS]}…"


def no_answer(kind: str, body: bytes, where: str) -> str:
    """Say what a body holds instead of a message."""
    beginning = body[:512].lstrip().lower()
    if kind == "text/html" or beginning.startswith((b"<!doctype html", b"<html")):
        return f"answered with a web page at {where}, not with MCP; check the path of the URL"
    if body.startswith(GZIP):
        return f"answered with compressed content at {where}, and does not say so"
    if not body.strip():
        return f"answered with nothing at {where}"
    shown = repr(body[:QUOTED_CHARACTERS].decode("utf-8", "replace"))
    return f"answered with something else than JSON-RPC at {where}: {shown}"


def redirected(status: int, origin: str, where: str) -> str:
    """Say that a redirect to another origin is not followed."""
    origin = shortened(origin)
    advice = f"nothing was sent there; write a URL of {origin} if that is the server"
    return f"redirects ({status}) from {where} to another origin, {origin}: {advice}"
