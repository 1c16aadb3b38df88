"""What servers said in a compilation that failed for others, for the next one of the same config.

Only servers that a package manager starts are kept: they take long, and are not what somebody is
working on meanwhile. They are kept for minutes, in a file of the user's cache that nobody else may
read, and only where no value of a variable is in them. A server that would be started in another
way, or in another environment, is asked anew: of these the file has a keyed digest.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from mcpagg import __version__
from mcpagg.jsontext import dumps, loads
from mcpagg.passes.emission.output import PRIVATE, write
from mcpagg.passes.environment.programs import find_package
from mcpagg.problems import ConfigError
from mcpagg.snapshot import ChildSnapshot, Json, Refused
from mcpagg.spec import ProxySpec
from mcpagg_runtime.launch.launch import Launches
from mcpagg_runtime.messages.jsontext import Malformed

KEPT_SECONDS = 900.0
SHELLS_OWN = ("_", "SHLVL", "PWD", "OLDPWD")
"""Variables that a shell sets anew for each command: no server goes by them."""
_SETS = ("conditional",)
_LISTS = ("tools", "prompts", "resources", "templates", "skills")


class Known(NamedTuple):
    """What a server said, and how many seconds ago."""

    child: ChildSnapshot
    seconds: float


class Kept:
    """The file of one config; `file` is where it lies."""

    def __init__(self, spec: ProxySpec, environ: Mapping[str, str], minimal: bool) -> None:
        self._spec = spec
        self._environ = environ
        self._minimal = minimal
        config = os.path.realpath(spec.folder / Path(spec.source).name)
        name = hashlib.sha256(config.encode()).hexdigest()[:16]
        self.file = cache_folder(environ, sys.platform) / f"{name}.json"

    def find(self, names: Collection[str]) -> dict[str, Known]:
        """Return what is known of servers, by their names."""
        record = self._read()
        now = time.time()
        known = {}
        for name, digest in self._digests(str(record.get("key")), names):
            with suppress(KeyError, TypeError):  # of another version, or nobody's
                entry = record["servers"][digest]
                if 0 <= now - entry["at"] <= KEPT_SECONDS:
                    known[name] = Known(_child(name, entry["said"]), now - entry["at"])
        return known

    def keep(self, children: Collection[ChildSnapshot], known: Mapping[str, Known]) -> int:
        """Keep what servers said, with what is known already; return of how many."""
        key = secrets.token_hex(32)
        said = {child.name: child for child in children}
        now = time.time()
        servers = {
            digest: {
                "at": now - (known[name].seconds if name in known else 0.0),
                "said": _facts(said[name]),
            }
            for name, digest in self._digests(key, said)
        }
        if not servers:
            return 0
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(self.file, dumps({"key": key, "servers": servers}).encode(), PRIVATE)
        except (OSError, ConfigError):  # it only saves time
            return 0
        return len(servers)

    def forget(self) -> None:
        """Keep nothing any more."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)

    def _read(self) -> Json:
        try:
            user = getattr(os, "geteuid", lambda: None)()  # Windows has none
            if user is not None and self.file.stat().st_uid != user:
                return {}
            record = loads(self.file.read_text("utf-8"))
        except (OSError, ValueError, Malformed):
            return {}
        return record if isinstance(record, dict) else {}

    def _digests(self, key: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield a digest of how each server is started, of those that are kept at all."""
        rows = {server.name: server.row() for server in self._spec.servers}
        launches = Launches(rows, self._environ, str(self._spec.folder), self._minimal)
        for server in self._spec.servers:
            if server.name not in names or not find_package(server.command, server.args):
                continue
            launch = launches.prepare(server.name)
            env = {name: value for name, value in launch.env.items() if name not in SHELLS_OWN}
            facts = [__version__, rows[server.name], launch.argv, launch.cwd, env]
            text = dumps(facts, sort=True).encode("utf-8", "surrogatepass")
            yield server.name, hmac.new(key.encode(), text, hashlib.sha256).hexdigest()


def cache_folder(environ: Mapping[str, str], platform: str) -> Path:
    """Return where programs of this user keep what they can do without."""
    if platform == "win32":
        base = environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
        return Path(base, "mcpagg", "cache")
    if platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches"), "mcpagg")
    base = environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "mcpagg")


def _facts(child: ChildSnapshot) -> Json:
    facts: dict[str, Any] = {one.name: getattr(child, one.name) for one in fields(child)}
    return facts | {name: sorted(facts[name]) for name in _SETS}


def _child(name: str, facts: Json) -> ChildSnapshot:
    found: dict[str, Any] = facts | {"name": name}
    found |= {key: frozenset(facts[key]) for key in _SETS}
    found |= {key: tuple(facts[key]) for key in _LISTS}
    found["refused"] = tuple(Refused(*one) for one in facts["refused"])
    return ChildSnapshot(**found)
