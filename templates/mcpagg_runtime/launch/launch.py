"""Resolves a row of the launch table to the command, environment and folder of a child.

A row keeps its references as the config has them. They are resolved here at every start, both when
the compiler takes the snapshot and when the emitted file runs. The only file that is read here is a
row's `env_file`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcpagg_runtime.launch.platforms import find_program, variable_key
from mcpagg_runtime.launch.secrecy import Redactor, passwords_in, secrets_in
from mcpagg_runtime.launch.variables import (
    CONFIG_FOLDER,
    BadUrl,
    MissingVariable,
    parse_env_file,
    references,
    resolve,
)
from mcpagg_runtime.start.handover import ABOVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Row = Mapping[str, Any]

# What the official SDKs pass to every child: https://modelcontextprotocol.io, client/stdio.
_BASIC_POSIX = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
_BASIC_WINDOWS = {"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMFILES"}
_WINDOWS_TOO = {"PROCESSOR_ARCHITECTURE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"}
BASIC_VARIABLES = frozenset(_BASIC_POSIX | _BASIC_WINDOWS | _WINDOWS_TOO | {"SYSTEMDRIVE"})

# Folders in which programs are looked up before those of PATH. The form of an extension sets this
# variable, since with an empty PATH not even Python would be found.
MORE_FOLDERS = "MCPAGG_PATH"

# Variables that every server may see, even if an entry sets them.
_LOCALE_AND_TEMP = {"LANG", "LC_ALL", "LC_CTYPE", "TMP", "TMPDIR", "TZ"}
_PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
_CERTIFICATES = {"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"}
COMMON_VARIABLES = BASIC_VARIABLES | _LOCALE_AND_TEMP | _PROXIES | _CERTIFICATES
# What belongs to the session at this screen: a browser for a login, a keyring.
_SESSION = {"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE"}
# What nobody's server has of its own: all that it sees of the environment under `minimal`.
MINIMAL_VARIABLES = COMMON_VARIABLES | _SESSION | {"DBUS_SESSION_BUS_ADDRESS"}


class Location:
    """The place of a string in a row, printed as `command`, `env.TOKEN` or `args[1]`.

    `key` is the name or the index within the field, None if the field is the string itself.
    """

    __slots__ = ("field", "key")

    def __init__(self, field: str, key: str | int | None = None) -> None:
        self.field = field
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and (self.field, self.key) == (other.field, other.key)

    def __hash__(self) -> int:
        return hash((self.field, self.key))

    def __str__(self) -> str:
        if self.key is None:
            return self.field
        return f"{self.field}[{self.key}]" if type(self.key) is int else f"{self.field}.{self.key}"

    __repr__ = __str__


class MissingVariables(Exception):
    """Raised when a row refers to variables that are not set, with (location, variable) of each."""

    def __init__(self, missing: list[tuple[Location, str]]) -> None:
        uses = ", ".join(f"{variable} (in {location})" for location, variable in missing)
        super().__init__(f"not set in the environment: {uses}")
        self.missing = missing


class Launch:
    """A child ready to be started: `argv`, the whole `env`, and `cwd` or None for the caller's.

    `argv` begins with the absolute path of the program, or with the command as it was written if
    there is no such program.

    A remote child has `name`, `url`, `headers` and `transport` instead. `mentioned` maps the value
    of every variable that the row refers to back to its name. `masks` {name: value} are the
    variables that clients name and never see.
    """

    __slots__ = (
        "_redactor",
        "argv",
        "cwd",
        "env",
        "headers",
        "masks",
        "mentioned",
        "name",
        "transport",
        "url",
    )

    def __init__(
        self,
        argv: list[str],
        env: dict[str, str],
        cwd: str | None,
        mentioned: dict[str, str],
        url: str = "",
        headers: Mapping[str, str] | None = None,
        masks: Mapping[str, str] | None = None,
        transport: str = "stdio",
        *,
        name: str = "",
    ) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.mentioned = mentioned
        self.name = name
        self.url = url
        self.transport = transport
        self.headers = dict(headers or {})
        self.masks = dict(masks or {})
        self._redactor: Redactor | None = None

    def with_transport(self, transport: str) -> Launch:
        """Return the same remote child, with another transport."""
        mentioned, env = self.mentioned, self.env
        return Launch(
            self.argv,
            env,
            self.cwd,
            mentioned,
            self.url,
            self.headers,
            self.masks,
            transport,
            name=self.name,
        )

    def secrets(self) -> dict[str, str]:
        """Return {value: variable} of what is redacted in text of the child.

        Those are the variables that the row refers to, and those of its environment whose names
        promise a secret.
        """
        return {**secrets_in(self.env), **self.mentioned, **passwords_in(self.mentioned)}

    def hide(self, secret: str, name: str) -> None:
        """Redact a secret, too, that the child was given later."""
        if secret not in self.mentioned:
            self.mentioned[secret] = name
            self._redactor = None

    def redact(self, text: str) -> str:
        """Return `text` with the values of variables replaced by their references."""
        if self._redactor is None:  # made late: most children write nothing that is shown
            self._redactor = Redactor(self.secrets())
        return self._redactor.redact(text)


def strings(row: Row) -> list[tuple[Location, str]]:
    """Return every string of a row that may hold references, with its location."""
    plain = [key for key in ("env_file", "command", "cwd", "url") if row.get(key)]
    found = [(Location(key), row[key]) for key in plain]
    found += [(Location("args", index), value) for index, value in enumerate(row.get("args", ()))]
    for group in ("env", "headers"):
        found += [(Location(group, key), value) for key, value in row.get(group, {}).items()]
    masks = row.get("masks", {}).items()
    return found + [(Location("masks", name), mask["value"]) for name, mask in masks]


def mentioned(row: Row) -> set[str]:
    """Return the variables that a row sets or refers to."""
    names = {name for _, text in strings(row) for name, _ in references(text)}
    return names | set(row.get("env", {}))


class Launches:
    """All rows of a launch table, in one environment, ready to be resolved.

    Relative paths are relative to `folder`. `minimal`: servers see MINIMAL_VARIABLES alone.
    """

    def __init__(
        self,
        rows: Mapping[str, Row],
        environ: Mapping[str, str],
        folder: str,
        minimal: bool = False,
    ) -> None:
        self.rows = rows
        self.environ = environ
        """Read at each `prepare`, so it may be the live environment of this process."""
        self.folder = os.path.abspath(folder)
        self._minimal = minimal
        self._mentioned: set[str] | None = None
        """The variables that any row sets or refers to; computed once."""

    def replaced(
        self, environ: Mapping[str, str], rows: Mapping[str, Row] | None = None
    ) -> Launches:
        """Return the same with another environment, or other rows; what servers see stays."""
        other = Launches(rows or self.rows, environ, self.folder, self._minimal)
        other._mentioned = self._all_mentioned()
        return other

    def prepare(self, name: str) -> Launch:
        """Resolve the row of server `name`.

        The child gets `environ` less the variables that only other rows mention, so that one
        server's key is not every server's key; over it the row's `env_file`, over that its own
        `env`. A name that the row's own `env` defines resolves to that definition, except in the
        definition itself. The program is looked up on the child's own PATH.

        Raises:
            MissingVariables: with every missing variable of the row.
            OSError, ValueError: the `env_file` cannot be read, or is no text.
            BadUrl: a value does not fit its place in the URL.
        """
        row = self.rows[name]
        own = row.get("env", {})
        environ = _with_folders(_keyed(self.environ))
        scope = _LaunchScope(own, environ, self.folder)
        values = _resolved(row, scope)
        env = self._visible(row, environ)
        env.update(scope.file)
        env.update(_keyed({key: values[Location("env", key)] for key in own}))
        cwd = values.get(Location("cwd"))
        cwd = _path_within(self.folder, cwd) if cwd is not None else None
        base = cwd or self.folder
        command = _program_within(values.get(Location("command"), ""), base)
        argv = [find_program(command, env, base) or command]
        argv += [values[Location("args", index)] for index in range(len(row.get("args", ())))]
        headers = {key: values[Location("headers", key)] for key in row.get("headers", {})}
        masks = {key: values[Location("masks", key)] for key in row.get("masks", {})}
        url = values.get(Location("url"), "")
        transport = row.get("transport", "stdio")
        return Launch(argv, env, cwd, scope.mentioned, url, headers, masks, transport, name=name)

    def _visible(self, row: Row, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the part of the environment that a server may see."""
        if self._minimal:
            seen = _keys({*MINIMAL_VARIABLES, ABOVE})
            return {key: value for key, value in environ.items() if key in seen}
        allowed = _keys(mentioned(row)) | _keys(COMMON_VARIABLES)
        hidden = self._all_mentioned() - allowed
        return {key: value for key, value in environ.items() if key not in hidden}

    def _all_mentioned(self) -> set[str]:
        if self._mentioned is None:
            self._mentioned = _keys(name for row in self.rows.values() for name in mentioned(row))
        return self._mentioned


def _resolved(row: Row, scope: _LaunchScope) -> dict[Location, str]:
    """Return every string of a row with its references replaced; read its `env_file` on the way.

    Raises:
        MissingVariables, OSError, ValueError, BadUrl: see `Launches.prepare`.
    """
    missing: list[tuple[Location, str]] = []
    bad_url: BadUrl | None = None
    values: dict[Location, str] = {}
    for location, text in strings(row):
        lookup = scope.lookup(str(location.key) if location.field == "env" else None)
        try:
            values[location] = _replaced(location, text, lookup)
        except MissingVariable:
            missing += [(location, variable) for variable in _missing(text, lookup)]
        except BadUrl as problem:
            bad_url = problem
        else:
            if location.field == "env_file":
                scope.read_file(values[location])
    if missing:
        raise MissingVariables(missing)
    if bad_url is not None:
        raise bad_url
    return values


def _replaced(location: Location, text: str, lookup: Callable[[str], str | None]) -> str:
    if location.field != "url":
        return resolve(text, lookup)
    from mcpagg_runtime.launch.urls import resolve_url  # only remote servers have a URL

    return resolve_url(text, lookup)


def _missing(text: str, lookup: Callable[[str], str | None]) -> list[str]:
    """Return every variable that `text` needs and `lookup` does not have, each once."""
    missing = {}
    for name, default in references(text):
        try:
            if lookup(name) is None and default is None:
                missing[name] = True
        except MissingVariable as problem:  # it is missing in the row's definition of `name`
            missing[problem.name] = True
    return list(missing)


def _path_within(folder: str, path: str) -> str:
    """Return `path`, relative to `folder`; `~` is a home directory."""
    return os.path.join(folder, os.path.expanduser(path))


def _program_within(command: str, folder: str) -> str:
    """Return `command`: a path relative to `folder`, a bare name as it is."""
    return _path_within(folder, command) if "/" in command or os.sep in command else command


def _keys(names: Iterable[str]) -> set[str]:
    return {variable_key(name) for name in names}


def _keyed(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables under their keys in an environment: see `variable_key`."""
    return {variable_key(name): value for name, value in variables.items()}


def _with_folders(environ: dict[str, str]) -> dict[str, str]:
    """Return the environment with the folders in its PATH that MORE_FOLDERS names."""
    more = environ.pop(MORE_FOLDERS, "")
    if more:
        environ["PATH"] = os.pathsep.join([more, environ.get("PATH", os.defpath)])
    return environ


class _LaunchScope:
    """Looks up variables for one row, and remembers the values from outside of it.

    The row's own `env` comes first, then its env file, then the environment.
    """

    def __init__(self, own: Mapping[str, str], environ: Mapping[str, str], folder: str) -> None:
        self.own = _keyed(own)
        self.environ = environ
        self.folder = folder
        self.file: dict[str, str] = {}
        self.mentioned: dict[str, str] = {}
        self.open: list[str] = []

    def read_file(self, path: str) -> None:
        """Take the variables that an env file sets."""
        path = _path_within(self.folder, path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"{path} is no file")  # reading a pipe might never end
        with open(path, encoding="utf-8") as file:
            variables = parse_env_file(file.read())
        self.file = _keyed(variables)
        for name, value in variables.items():
            self._remember(name, value)

    def lookup(self, owner: str | None) -> Callable[[str], str | None]:
        """Return the lookup for references in the definition of `owner`, None for other strings."""
        return lambda name: self.value(name, owner)

    def value(self, name: str, owner: str | None = None) -> str | None:
        key = variable_key(name)
        if key in self.own and key != variable_key(owner or "") and key not in self.open:
            self.open.append(key)
            try:
                return resolve(self.own[key], self.lookup(name))
            finally:
                self.open.remove(key)
        if name == CONFIG_FOLDER:
            return self.folder
        value = self.file.get(key, self.environ.get(key))
        if value is not None:
            self._remember(name, value)
        return value

    def _remember(self, name: str, value: str) -> None:
        # Short values are no secrets, and replacing them would make messages unreadable.
        if len(value) > 3:
            self.mentioned[value] = name
