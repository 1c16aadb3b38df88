"""Logins at remote servers: the tokens by which requests are authorized where the config has none.

`mcpagg-compile --login` writes a record of each login into the user's state folder: what OAuth's
token endpoint answered, and what refreshing needs. Discovery, every proxy and the live `Aggregator`
read it there, several at once. A token is refreshed when that is due. The record is one file for
each server, readable by its owner alone, or an item of the system's keyring; then the file names
the Python that can read that. No exception that is raised here holds a token.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import contextmanager, suppress
from http.client import HTTPException
from shlex import quote as quote_word
from subprocess import DEVNULL, PIPE, SubprocessError, run
from tempfile import mkstemp
from time import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit, urlunsplit

from mcpagg_runtime.launch.platforms import FOR_THIS_USER, WINDOWS
from mcpagg_runtime.plan.uri_templates import percent_encoded
from mcpagg_runtime.remote.connections import PORTS, basic, is_this_machine
from mcpagg_runtime.remote.faults import FORBIDDEN, UNAUTHORIZED, NotSent, RemoteFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from mcpagg_runtime.launch.launch import Launch

    Record = dict[str, Any]

TOKEN_SECONDS = 30.0
"""How long a token endpoint, or the keyring, may take."""
EARLY = 0.1
"""A token is refreshed when this part of its lifetime is left."""
AGAIN_SECONDS = 60.0
"""How long a token that is still good is used before refreshing it is tried again."""
ANSWER_BYTES = 1 << 20
KEYRING_SERVICE = "mcpagg"

NO_LOGIN = 'it wants a login, or a header such as "Authorization": "Bearer ${TOKEN}"'
EXPIRED_LOGIN = "its login has expired, and cannot be refreshed"
ENDED_LOGIN = "its login has expired, or was revoked"
UNREADABLE_LOGIN = "its login cannot be read"
UNSAFE_LOGIN = "its login cannot be refreshed: its token endpoint"
# The name that stands for a token where text of a server is shown.
TOKEN_NAME = "LOGIN"  # noqa: S105 no secret


class LoginNeeded(Exception):
    """Raised where only a new login helps; the text follows the name of its server."""


class Credentials:
    """The login at the server of a launch, if there is one."""

    def __init__(self, launch: Launch, config: str) -> None:
        """`config` is the path of the config that has the server."""
        self._launch = launch
        self._login = Login(launch.url)
        self._config = config

    def token(self, where: str) -> str | None:
        """Return a token that should be valid, None without a login.

        `where` is the URL, to be shown.

        Raises:
            NotSent: the login has ended, or cannot be read.
        """
        return self._got(self._login.bearer, NotSent, f"was not asked at {where}")

    def refreshed(self, refused: str | None, where: str) -> str | None:
        """Return another token than the one that was refused.

        Raises:
            RemoteFault: there is none; it says what to do.
        """
        what = f"answered with 401 Unauthorized at {where}"
        return self._got(lambda: self._login.refreshed(refused), RemoteFault, what)

    def _got(
        self, get: Callable[[], str | None], fault: type[RemoteFault], what: str
    ) -> str | None:
        try:
            token = get()
        except LoginNeeded as problem:
            remedy = f"to log in, run `{self._command()}`"
            raise fault(f"{what}: {problem}; {remedy}", UNAUTHORIZED) from None
        except OSError as problem:
            why = f"its login cannot be refreshed now: {problem}"
            remedy = f"if that lasts, run `{self._command()}`"
            raise fault(f"{what}: {why}; {remedy}", UNAUTHORIZED) from None
        if token is not None:
            self._launch.hide(token, TOKEN_NAME)
        return token

    def lacks_scope(self, scope: str, where: str) -> RemoteFault:
        """Return the fault of a valid token without a scope; it says what to do."""
        what = f"answered with 403 Forbidden at {where}: its login lacks the scope {scope!r}"
        remedy = f"add it to `scopes` in `oauth` of its entry, and run `{self._command()}`"
        return RemoteFault(f"{what}; {remedy}", FORBIDDEN)

    def _command(self) -> str:
        words = ["mcpagg-compile", "--login", self._launch.name, self._config]
        return " ".join([quote_word(word) for word in words])


class Login:
    """The login at the server with one URL.

    A record has `access_token`, `token_endpoint` and `client_id`; `refresh_at` (seconds since
    1970), `refresh_token`, `client_secret`, `auth_method`
    (`token_endpoint_auth_method` of RFC 7591) and `resource` (RFC 8707) where there are any. A
    record without `access_token` is of a login that the authorization server has ended.
    """

    def __init__(self, url: str) -> None:
        self.name = hashlib.sha256(_canonical_url(url).encode("utf-8")).hexdigest()[:32]
        self.path = os.path.join(state_folder(), f"{self.name}.json")
        self._url = url
        self._known: Record = {}
        """The record as last read or written, so that a request reads no file."""
        self._not_before = 0.0
        """When refreshing early may be tried again, as requests wait for each attempt."""

    def bearer(self) -> str | None:
        """Return the access token, refreshed if that is due; None if nobody has logged in.

        Raises:
            LoginNeeded: the login has ended.
            OSError: the record cannot be read.
        """
        record = self._known or self._read()
        if record is None:
            return None
        token: str | None = record.get("access_token")
        if token is None:
            raise LoginNeeded(ENDED_LOGIN)
        due = max(record.get("refresh_at", float("inf")), self._not_before)
        if time() >= due and "refresh_token" in record:
            try:
                return self.refreshed(token)
            except OSError:  # the token is still valid for a while
                self._not_before = time() + AGAIN_SECONDS
                return token
        self._known = record
        return token

    def refreshed(self, refused: str | None) -> str:
        """Return another access token than `refused`, which the server does not accept any more.

        If another process has refreshed it meanwhile, that is its token; else it is refreshed here,
        and the record is written before another process can read it.

        Raises:
            LoginNeeded: there is no login, or it has ended.
            OSError: the authorization server cannot be reached, or has a fault.
        """
        self._known = {}
        if refused is None:
            raise LoginNeeded(NO_LOGIN)
        with self._locked():
            record = self._read()
            if record is None:
                raise LoginNeeded(NO_LOGIN)
            token: str | None = record.get("access_token")
            if token is None:
                raise LoginNeeded(ENDED_LOGIN)
            if token == refused:
                if "refresh_token" not in record:
                    raise LoginNeeded(EXPIRED_LOGIN)
                record = self._refresh(record)
            self._known = record
            return str(record["access_token"])

    def save(self, record: Record, keyring: str | None = None) -> None:
        """Write a new record; `keyring` is a Python that writes it to the system's keyring.

        Raises:
            OSError: it cannot be written.
        """
        with self._locked():
            if keyring is not None:
                self._keep(keyring, record)
                _write_login(self.path, {"keyring": keyring})
            else:
                _write_login(self.path, record)

    def _refresh(self, record: Record) -> Record:
        """Refresh the token, write the record and return it; the lock is held.

        With most servers a refresh token can be used once, and the one that replaces it must not
        be lost. So the record is written before, too: that fails where nothing can be written.
        """
        if why := unsafe(str(record["token_endpoint"]), self._url):
            raise LoginNeeded(f"{UNSAFE_LOGIN} {why}")
        self._replace(record)
        grant = {"grant_type": "refresh_token", "refresh_token": record["refresh_token"]}
        try:
            answer = _token_answer(record, grant)
        except LoginNeeded:
            self._replace({key: record[key] for key in record if not key.endswith("_token")})
            raise
        kept = {key: value for key, value in record.items() if key != "refresh_at"}
        fresh = {**kept, **issued(answer)}
        self._replace(fresh)
        return fresh

    def _read(self) -> Record | None:
        """Return the record, None if there is none.

        Raises:
            LoginNeeded: it is no record.
            OSError: the file, or the keyring, cannot be read.
        """
        try:
            with open(self.path, "rb") as file:
                record = _login_record(file.read())
        except FileNotFoundError:
            return None
        keyring = record.get("keyring")
        record = _login_record(_ask_keyring(keyring, "get", self.name)) if keyring else record
        if not {"token_endpoint", "client_id"} <= record.keys():
            raise LoginNeeded(UNREADABLE_LOGIN)
        return record

    def _replace(self, record: Record) -> None:
        """Write a record in the place of the earlier one: the file, or the keyring."""
        with open(self.path, "rb") as file:
            keyring = _login_record(file.read()).get("keyring")
        if keyring:
            self._keep(keyring, record)
        else:
            _write_login(self.path, record)

    def _keep(self, keyring: str, record: Record) -> None:
        _ask_keyring(keyring, "set", self.name, json.dumps(record).encode("ascii"))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other threads and processes from refreshing at the same time."""
        os.makedirs(os.path.dirname(self.path), mode=FOR_THIS_USER, exist_ok=True)
        lock = os.open(f"{self.path[: -len('.json')]}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _hold_lock(lock)
            yield
        finally:
            os.close(lock)


def unsafe(url: str, server: str) -> str:
    """Say why no secret of a login at a server may be sent to a URL, "" if it may.

    Whatever the metadata of the server name, it must be https (RFC 9700), and not this machine,
    where other programs listen. A server on this machine, such as one under development, may have
    its login there as well.
    """
    try:
        parts, own = urlsplit(url), urlsplit(server)
    except ValueError:
        return "is no URL"
    is_here = is_this_machine(parts.hostname or "")
    if is_here and not is_this_machine(own.hostname or ""):
        return "is on this machine, and the server is not"
    is_plain = parts.scheme == "http" and is_here
    return "" if parts.scheme == "https" or is_plain else "is not safe: https only"


def state_folder() -> str:
    """Return the folder of the logins, in that where programs of this user keep their state."""
    if WINDOWS:
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = os.environ.get("XDG_STATE_HOME", "")
        if not os.path.isabs(base):  # which the XDG specification has ignored
            base = os.path.expanduser("~/.local/state")
    return os.path.join(base, "mcpagg")


def issued(answer: Mapping[str, Any]) -> Record:
    """Return the members of a record that a token endpoint's answer gives (RFC 6749, 5.1)."""
    record = {key: answer[key] for key in ("access_token", "refresh_token") if answer.get(key)}
    with suppress(KeyError, TypeError, ValueError):  # without it, refreshed when it is refused
        record["refresh_at"] = time() + (1 - EARLY) * float(answer["expires_in"])
    return record


def _canonical_url(url: str) -> str:
    """Return one spelling for all spellings of a server's URL."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2].lower()
    place = place.removesuffix(f":{PORTS.get(parts.scheme)}")
    return urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))


def _login_record(text: bytes) -> Record:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise LoginNeeded(UNREADABLE_LOGIN)
    return record


def _write_login(path: str, record: Record) -> None:
    """Write a record in one step, for its owner alone."""
    descriptor, new = mkstemp(dir=os.path.dirname(path))  # mode 0600
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump(record, file, indent=1)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def _hold_lock(descriptor: int) -> None:
    """Wait for a lock that ends with the descriptor."""
    system: Any  # type checkers know each on its own system alone
    if not WINDOWS:
        import fcntl as system

        system.flock(descriptor, system.LOCK_EX)
        return
    import msvcrt as system

    while True:
        try:
            system.locking(descriptor, system.LK_LOCK, 1)
            return
        except OSError:  # it gives up after ten seconds
            continue


def _ask_keyring(python: str, verb: str, name: str, secret: bytes = b"") -> bytes:
    """Read or write a secret in the keyring of the system; it is passed by pipe.

    Raises:
        OSError: the keyring cannot be used, or has no such item.
    """
    command = [python, "-P", "-m", "keyring", verb, KEYRING_SERVICE, name]
    try:
        done = run(
            command,
            check=False,
            input=secret,
            stdout=PIPE,
            stderr=DEVNULL,
            timeout=TOKEN_SECONDS,
        )
    except SubprocessError:
        raise OSError("the keyring of the system does not answer") from None
    if done.returncode:
        raise OSError("the keyring of the system cannot be used, or has no such item")
    return done.stdout


def _token_answer(record: Record, grant: dict[str, str]) -> dict[str, Any]:
    """Ask the token endpoint for a token.

    Raises:
        LoginNeeded: it refuses.
        OSError: it cannot be reached, or has a fault.
    """
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    form = {**grant, "client_id": record["client_id"]}
    if record.get("resource"):
        form["resource"] = record["resource"]
    secret = record.get("client_secret")
    if secret and record.get("auth_method") == "client_secret_basic":
        # RFC 6749, section 2.3.1
        user = percent_encoded(form["client_id"])
        headers["Authorization"] = basic(user, percent_encoded(secret))
    elif secret:
        form["client_secret"] = secret
    body = urlencode(form).encode("ascii")
    request = Request(record["token_endpoint"], body, headers)  # noqa: S310 - see `unsafe`
    try:
        with _no_redirects().open(request, timeout=TOKEN_SECONDS) as response:
            answer = json.loads(response.read(ANSWER_BYTES))
    except HTTPError as refusal:
        with refusal:
            if _is_final(refusal.code, refusal):
                raise LoginNeeded(ENDED_LOGIN) from None
        raise OSError(f"the authorization server answered with HTTP {refusal.code}") from None
    except URLError as problem:
        raise OSError(f"the authorization server cannot be reached: {problem.reason}") from None
    except (HTTPException, ValueError, RecursionError):
        raise OSError("the authorization server gave no answer that can be read") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        raise LoginNeeded(ENDED_LOGIN)  # some servers say so with status 200
    return answer


def _is_final(status: int, body: Any) -> bool:
    """Whether a token endpoint's refusal means that the login has ended (RFC 6749, section 5.2).

    A gateway in front of it refuses, too; then the tokens are kept.
    """
    if status in (400, 401):
        return True
    if status in (408, 429) or not 400 <= status < 500:
        return False
    try:
        return isinstance(json.loads(body.read(ANSWER_BYTES))["error"], str)
    except Exception:  # the body is no answer of a token endpoint, whatever it is
        return False


def _no_redirects() -> Any:
    """Return an opener that follows no redirect, since the requests hold secrets."""
    from urllib.request import HTTPRedirectHandler, build_opener

    class Refusing(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    return build_opener(Refusing)
