"""The answers of a compilation that failed for other servers, for the next one of its config.

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mcpagg import __version__
from mcpagg.jsontext import dumps, loads, members_of
from mcpagg.passes.emission.output import PRIVATE, make_folder, write
from mcpagg.passes.environment.programs import find_package
from mcpagg.problems import ConfigError
from mcpagg.snapshot import ChildSnapshot, Json, Refused
from mcpagg.spec import NO_VALUES, ProxySpec, Values
from mcpagg_runtime.lists.catalogue import KINDS
from mcpagg_runtime.messages.jsontext import Malformed

CACHE_SECONDS = 900.0
SHELLS_OWN = ("_", "SHLVL", "PWD", "OLDPWD")
"""Variables that a shell sets anew for each command: no server goes by them."""
_SETS = ("conditional",)


class Cached(NamedTuple):
    """The answers of a server, and how many seconds old they are."""

    child: ChildSnapshot
    seconds: float


class Cache:
    """The cache of one config, in `file`."""

    def __init__(
        self,
        spec: ProxySpec,
        environ: Mapping[str, str],
        minimal: bool,
        values: Values = NO_VALUES,
        frozen: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """`frozen` is the table FROZEN: what is started of servers."""
        self._spec = spec
        self._environ = environ
        self._minimal = minimal
        self._values = values
        self._frozen = frozen
        config = os.path.realpath(spec.folder / Path(spec.source).name)
        name = hashlib.sha256(config.encode()).hexdigest()[:16]
        self.file = cache_folder(environ, sys.platform) / f"{name}.json"

    def load(self, names: Collection[str]) -> dict[str, Cached]:
        """Return the cached answers of servers, by their names."""
        record = self._read()
        now = time.time()
        cached = {}
        for name, digest in self._digests(str(record.get("key")), names):
            with suppress(KeyError, TypeError):  # of another version, or nobody's
                entry = record["servers"][digest]
                if 0 <= now - entry["at"] <= CACHE_SECONDS:
                    cached[name] = Cached(_child(name, entry["said"]), now - entry["at"])
        return cached

    def store(self, children: Collection[ChildSnapshot], cached: Mapping[str, Cached]) -> int:
        """Keep the answers of servers, some of them `cached` already; return how many are kept."""
        key = secrets.token_hex(32)
        by_name = {child.name: child for child in children}
        now = time.time()
        servers = {
            digest: {
                "at": now - (cached[name].seconds if name in cached else 0.0),
                "said": _facts(by_name[name]),
            }
            for name, digest in self._digests(key, by_name)
        }
        if not servers:
            return 0
        try:
            make_folder(self.file.parent)
            write(self.file, dumps({"key": key, "servers": servers}).encode(), PRIVATE)
        except (OSError, ConfigError):  # it only saves time
            return 0
        return len(servers)

    def clear(self) -> None:
        with suppress(OSError):
            self.file.unlink(missing_ok=True)

    def _read(self) -> Json:
        try:
            user = getattr(os, "geteuid", lambda: None)()  # Windows has none
            if user is not None and self.file.stat().st_uid != user:
                return {}
            return members_of(loads(self.file.read_text("utf-8")))
        except (OSError, ValueError, Malformed):
            return {}

    def _digests(self, key: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield a digest of how each server is started, of those that are kept at all."""
        rows = {
            server.name: server.row()
            for server in self._spec.servers
            if server.name in names and find_package(server.command, server.args)
        }
        for name, launch in self._spec.launches(
            rows, self._environ, self._minimal, self._values
        ).items():
            env = {key: value for key, value in launch.env.items() if key not in SHELLS_OWN}
            frozen = [*self._frozen.get(name, ())]
            facts = [__version__, rows[name], launch.argv, launch.cwd, env, frozen]
            text = dumps(facts, sort=True).encode("utf-8", "surrogatepass")
            yield name, hmac.new(key.encode(), text, hashlib.sha256).hexdigest()


def cache_folder(environ: Mapping[str, str], platform: str) -> Path:
    """Return the cache folder of this user for our files."""
    if platform == "win32":
        base = environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
        return Path(base, "mcpagg", "cache")
    if platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches"), "mcpagg")
    base = environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "mcpagg")


def _facts(child: ChildSnapshot) -> Json:
    facts: dict[str, Any] = {field.name: getattr(child, field.name) for field in fields(child)}
    return facts | {name: sorted(facts[name]) for name in _SETS}


def _child(name: str, facts: Json) -> ChildSnapshot:
    members: dict[str, Any] = facts | {"name": name}
    members |= {key: frozenset(facts[key]) for key in _SETS}
    members |= {kind.name: tuple(facts[kind.name]) for kind in KINDS}
    members["refused"] = tuple(Refused(*entry) for entry in facts["refused"])
    return ChildSnapshot(**members)
