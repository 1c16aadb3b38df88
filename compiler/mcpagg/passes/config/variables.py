"""Variables that only a client can fill in: `${input:token}`, `${workspaceFolder}`, and so on.

Each becomes a reference that a start can resolve, or a value given by `--define`. Such a value is
written into the file, so `--define` is refused for what may be secret, and for environment
variables, since the file keeps references to these. Text that only looks like a reference stays as
it is, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcpagg.passes.config.places import Place, quoted
from mcpagg_runtime.launch.launch import BASIC_VARIABLES, Location
from mcpagg_runtime.launch.secrecy import NOTHING, promise
from mcpagg_runtime.launch.variables import CONFIG_FOLDER

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_UNCLOSED = rf"\A(?:os\.environ/)(?P<whole>{_NAME})\Z|\$env:(?P<colon>{_NAME})|\$(?P<bare>{_NAME})"
_TOKENS = (
    rf"\$\{{\{{\s*(?:secrets|inputs)\.(?P<secret>{_NAME})\s*\}}\}}|\$\{{(?P<body>[^}}]*)\}}"
    rf"|(?<!\$)\{{env:(?P<braced>{_NAME})\}}|{_UNCLOSED}"
)
_VARIABLE = re.compile(rf"(?:env:)?(?P<name>{_NAME})(?P<default>:-.*)?", re.DOTALL)
_CLIENTS_OWN = re.compile(r"(?P<kind>[A-Za-z]+(?=:)|user_config(?=\.))[:.](?P<rest>.*)", re.DOTALL)

_NODE = "process.env."
"""What begins the name of a variable where a client fills it in as JavaScript does."""

_HERE = f"${{{CONFIG_FOLDER}}}"
EDITOR: dict[str, tuple[str, str]] = {
    "workspaceFolder": (_HERE, ""),
    "workspaceRoot": (_HERE, ""),
    "projectDir": (_HERE, ""),
    "CLAUDE_PLUGIN_ROOT": (_HERE, ""),
    "extensionPath": (_HERE, ""),
    "__dirname": (_HERE, ""),
    "userHome": ("${HOME}", "the variable HOME"),
    "pathSeparator": ("/", "a slash"),
    "/": ("/", "a slash"),
}
"""Variables that a client knows: what takes their place, and how to say so ("": the folder)."""

EDITOR_ONLY = frozenset(
    "workspaceFolderBasename file fileBasename fileBasenameNoExtension fileDirname fileExtname"  # noqa: SIM905 - a word a line
    " fileWorkspaceFolder relativeFile relativeFileDirname lineNumber selectedText execPath"
    " extensionInstallFolder defaultBuildTask".split()
)
"""Variables that mean nothing outside of an editor."""

KINDS = {
    "input": "asked for by the editor",
    "cmd": "the output of a command, which is not run here",
    "command": "the output of an editor's command",
    "config": "a setting of the editor",
    "file": "the content of a file",
    "keyring": "an entry of the client's keyring",
    "secret": "an entry of the client's keyring",
    "user_config": "asked for by the client",
    "user": "filled in for each user of the client",
}
"""Kinds of `${kind:name}` that become variables, and what they were."""

NAMED_KINDS = frozenset({"input", "user", "user_config"})
"""Those whose name is that of a value, wherever it is used."""

SECRET_KINDS = frozenset({"cmd", "file", "keyring", "secret"})
"""Those of them that mostly bring a secret."""

_OP = "write a reference, ${NAME}, and run all commands under `op run --`, with NAME=op://… set"

_OF_WINDOWS = re.compile(r"%(?:[A-Z_][A-Z0-9_]{2,}|(?![0-9A-Fa-f]{2})[A-Za-z_]\w{2,})%")
_ESCAPED = re.compile(r"^(?:[A-Za-z]:|\.\.?|\\)[^\x00-\x1f<>|?*\"]*[\b\f\n\r\t]\w")
"""What is left of `C:\\temp` where it was written with one backslash."""

ONE_BACKSLASH = "write `\\\\` or `/` for each `\\` of a path"

LOOK_ALIKES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (_OF_WINDOWS, "a variable of Windows, `%NAME%`", "write ${NAME}"),
    (_ESCAPED, "a path with backslashes taken for escapes", ONE_BACKSLASH),
    (re.compile(r"\{\{[^{}]+\}\}"), "a placeholder in double braces", ""),
    (re.compile(r"(?<![${\\\w])\{[A-Za-z]\w*\}(?!\})"), "a placeholder in braces", ""),
    (re.compile(r"<[A-Za-z][\w -]*>"), "a placeholder in angle brackets", ""),
    (re.compile(r"\byour[_-]\w|\bYOUR"), "a placeholder, `YOUR_…`", ""),
    (re.compile(r"^op://"), "a reference to 1Password", _OP),
    (re.compile(r"^~(?=/|$)"), "a home directory, which only a shell would fill in", ""),
)
"""What looks like a reference and is none, and what to do about it."""

_HOME_IS_UNDERSTOOD = ("command", "cwd", "env_file")


def look_alikes(text: str, location: Location) -> list[tuple[str, str]]:
    """Return what a string of plain references still looks like, with the remedy for each."""
    if text.startswith("~") and location.field in _HOME_IS_UNDERSTOOD:
        return []
    matches = [(name, remedy) for pattern, name, remedy in LOOK_ALIKES if pattern.search(text)]
    if "${" in text[text.rfind("}") + 1 :]:
        matches.append(("a reference without its closing brace", ""))
    return matches


def password_inputs(document: Any) -> Iterator[str]:
    """Yield the names of the inputs that a config declares secret, wherever it has `inputs`."""
    holders, seen = [document], set()
    while holders:
        holder = holders.pop()
        if id(holder) in seen:  # YAML may have one value in several places
            continue
        seen.add(id(holder))
        for key, value in holder.items() if isinstance(holder, dict) else ():
            if key != "inputs":
                holders.append(value)
            elif isinstance(value, list):
                inputs = [item for item in value if isinstance(item, dict)]
                yield from (str(item.get("id")) for item in inputs if item.get("password") is True)


class ClientVariables:
    """Rewrites the strings of all entries of one config.

    `defines` are the user's own values, `passwords` the inputs that the config declares secret,
    `folder` is what the folder is called that paths are meant from, `references` are the client's
    own (see `Dialect`).
    """

    def __init__(
        self,
        defines: Mapping[str, str],
        passwords: frozenset[str],
        folder: str,
        references: Mapping[str, str],
    ) -> None:
        own = [pattern.replace("?P<rest>", f"?P<own{n}>") for n, pattern in enumerate(references)]
        self.tokens = re.compile("|".join([r"\$\$", *own, _TOKENS]))
        self.unclosed = re.compile("|".join([r"\$\$", *own, _UNCLOSED]))
        """The tokens where no brace closes any more: to look for one from each `${` takes long."""
        self.kinds = {f"own{n}": kind for n, kind in enumerate(references.values())}
        self.defines = defines
        self.passwords = passwords
        self.folder = folder
        self._used: set[str] = set()
        self._names: dict[str, str] = {}

    def unused(self) -> list[str]:
        return [name for name in self.defines if name not in self._used]

    def rewrite(self, text: str, location: Location, at: Place) -> str:
        """Return `text` with nothing but plain references."""
        bare: list[str] = []
        closed = text.rfind("}") + 1
        matches = (*self.tokens.finditer(text, 0, closed), *self.unclosed.finditer(text, closed))
        pieces: list[str] = []
        end = 0
        for match in matches:
            pieces += [text[end : match.start()], self._token(match, location, at, bare)]
            end = match.end()
        result = "".join(pieces) + text[end:]
        if bare:
            names = ", ".join(f"${name}" for name in dict.fromkeys(bare))
            at.warn(
                f"taken for references, which not every client does: {names}",
                f"write ${{{bare[0]}}}, or $${bare[0]} for a dollar",
            )
        return result

    def _token(self, match: re.Match[str], location: Location, at: Place, bare: list[str]) -> str:
        whole = match[0]
        for group, kind in self.kinds.items():
            if match[group]:
                start, end = (place - match.start() for place in match.span(group))
                shown = f"{whole[:start]}…{whole[end:]}"
                return self._own(kind, match[group].strip(), location, at, shown)
        named: dict[str, str | None] = match.groupdict()
        if named.get("colon") and location.field in ("command", "args"):
            return f"${whole}"  # a variable of PowerShell, which a script of it means
        if name := named.get("colon") or named.get("whole"):
            return self._variable(name, f"${{{name}}}", at)
        if secret := named.get("secret"):
            return self._asked("secret", secret, location, at, "${secret:…}")
        if braced := named.get("braced"):
            return self._variable(braced, f"${{{braced}}}", at)
        if name := named.get("bare"):
            value = self._variable(name, whole, at)
            if value == whole:
                bare.append(name)
            return value
        body = named.get("body")
        return whole if body is None else self._braced(body, whole, location, at)

    def _braced(self, body: str, whole: str, location: Location, at: Place) -> str:
        if body.startswith(_NODE):
            body = body.removeprefix(_NODE)
            whole = f"${{{body}}}"
        if plain := _VARIABLE.fullmatch(body):
            default = plain["default"] or ""
            if "${" in default or any(
                reference.lastgroup in self.kinds for reference in self.tokens.finditer(default)
            ):
                at.error("a default cannot hold another reference", "define that one instead")
            return self._variable(plain["name"], whole, at)
        if body in EDITOR:
            return self._variable(body, whole, at)
        own = _CLIENTS_OWN.fullmatch(body)
        if own and own["kind"] in EDITOR:
            return self._variable(own["kind"], whole, at)
        if own and own["kind"] in KINDS:
            shown = f"${{{body[: own.start('rest')]}…}}"
            return self._asked(own["kind"], own["rest"].strip(), location, at, shown)
        at.warn("holds a ${…} that is no reference; it stays as it is", "write ${NAME}")
        return whole

    def _variable(self, name: str, whole: str, at: Place) -> str:
        if name in self.defines:
            if name in EDITOR or name in EDITOR_ONLY:
                return self._defined(name)
            self._refuse(name, "the file refers to this variable", name, at)
        if name in EDITOR_ONLY:
            at.error(f"only an editor knows ${{{name}}}", f"pass --define {name}=VALUE")
        if name not in EDITOR:
            return whole
        replacement, meaning = EDITOR[name]
        at.warn(f"${{{name}}} is the client's own; here it means {meaning or self.folder}")
        return replacement

    def _own(self, kind: str, rest: str, location: Location, at: Place, shown: str) -> str:
        if kind == "env":
            return self._variable(rest, f"${{{rest}}}", at)
        return self._asked(kind, rest, location, at, shown)

    def _asked(self, kind: str, rest: str, location: Location, at: Place, shown: str) -> str:
        key = location.key if isinstance(location.key, str) else ""
        promised = kind in NAMED_KINDS and kind != "input" and promise(rest) != NOTHING
        secret = kind in SECRET_KINDS or rest in self.passwords or promised
        defined = next((n for n in (rest, f"{kind}:{rest}") if n in self.defines), None)
        if defined is not None and not secret:
            return self._defined(defined)
        wanted = key if kind not in NAMED_KINDS and location.field == "env" else rest
        variable = self._named(f"{kind}:{rest}", wanted)
        if defined is not None:
            self._refuse(defined, f"{shown} may be a secret", variable, at)
        remedy = "export it"
        if kind == "input":  # a command or a path may hold more than a name: it is not shown
            shown = f"${{input:{quoted(rest)[1:-1]}}}"
            if not secret and promise(rest) == promise(key) == NOTHING:
                remedy = f"export it, or pass --define {quoted(rest)[1:-1]}=VALUE"
        at.warn(f"{shown} is {KINDS[kind]}; here it is the variable {variable}", remedy)
        return f"${{{variable}}}"

    def _defined(self, name: str) -> str:
        self._used.add(name)
        return self.defines[name]

    def _refuse(self, name: str, why: str, variable: str, at: Place) -> None:
        """Report a value that would be written into the file and must not be."""
        self._used.add(name)
        what = f"--define {quoted(name)[1:-1]} would write its value into the file: {why}"
        at.error(what, f"export {variable} instead")

    def _named(self, what: str, wanted: str) -> str:
        """Return a variable for `what`: one for each, and none that every environment has."""
        name = re.sub(r"[^A-Z0-9]+", "_", wanted.upper()).strip("_")
        if not name or name[0].isdigit() or name in BASIC_VARIABLES:
            name = f"INPUT_{name}".strip("_")
        while self._names.setdefault(name, what) != what:
            name += "_2"
        return name
