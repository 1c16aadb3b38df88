"""Requests that another worker of this machine must answer: they are handed on to it.

A server may run several workers, and gives each connection to any of them. A session is known to
the one that began it, and a suspended call to the one that suspended it: what names either begins
with the worker's own name. Each worker listens on a socket in a folder of the user's own. What it
gets there it answers as any other request, its origin and its token checked like theirs.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING

from mcpagg_runtime.http.access import is_worker
from mcpagg_runtime.http.exchange import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping
    from typing import Any

    from mcpagg_runtime.http.access import Settings
    from mcpagg_runtime.http.exchange import Exchange, Receive, Scope, Send

    Serve = Callable[[Scope, Receive, Send], Awaitable[None]]

# A socket that is younger may be of a worker that does not listen yet.
BEGINNING_SECONDS = 60.0
_LENGTH = 4  # bytes that say how long the piece of an answer is that follows; 0 is the end


class Siblings:
    """The other workers of this proxy, and the way to this one."""

    def __init__(self, version: str, settings: Settings) -> None:
        """`version` is the proxy's: another one has other servers."""
        self.name = settings.worker or os.urandom(8).hex()
        self._version = version
        self._folder = settings.worker_folder or _default_folder()
        self._listener: asyncio.AbstractServer | None = None

    def mint(self) -> str:
        """Return a text that nobody can guess, and that says of which worker it is."""
        return f"{self.name}-{os.urandom(16).hex()}"

    def other(self, text: str) -> str:
        """Return the name of the other worker that may have minted a text, "" for none."""
        name, mark, _ = text.partition("-")
        is_others = mark and is_worker(name) and name != self.name and self._folder
        return name if is_others else ""

    async def open(self, serve: Serve) -> None:
        """Listen to the others; where the system has no such sockets, there are none."""
        if not self._folder:
            return
        os.makedirs(self._folder, 0o700, exist_ok=True)
        about = os.lstat(self._folder)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != _user() or about.st_mode & 0o22:
            return  # whoever can write there could answer in our place

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _Handed(reader, writer).answer(serve)

        for entry in [*os.scandir(self._folder)]:
            if entry.name.endswith(".sock"):
                _remove_if_dead(entry)
        path = self._path(self.name)
        _remove(path)
        system: Any = asyncio  # without these on Windows
        self._listener = await system.start_unix_server(take, path)

    def close(self) -> None:
        """Listen no more."""
        if self._listener is not None:
            self._listener.close()
            _remove(self._path(self.name))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{self._version}-{name}.sock")

    async def hand_on(self, exchange: Exchange, name: str) -> bool:
        """Have another worker answer a request; return whether there is such a worker.

        Raises:
            Refused: it has ended meanwhile, or the body cannot be read.
        """
        body = await exchange.body() if exchange.method == "POST" else b""
        head = {
            "method": exchange.method,
            "path": exchange.root + exchange.path,
            "root_path": exchange.root,
            "query": exchange.query.decode("latin-1"),
            "headers": exchange.headers,
            "server": exchange.server,
            "length": len(body),
        }
        try:
            system: Any = asyncio
            reader, writer = await system.open_unix_connection(self._path(name))
        except OSError:
            return False  # and all that it knew is gone
        try:
            with exchange.leaving(writer.close):
                writer.write(json.dumps(head).encode() + b"\n" + body)
                await writer.drain()
                start = json.loads(await _piece(reader))
                await exchange.begin(start["status"], dict(start["headers"]))
                while piece := await _piece(reader):
                    await exchange.write(piece)
                await exchange.end()
        except (OSError, asyncio.IncompleteReadError):
            if not exchange.status:
                raise Refused(502, "The worker of this session has ended") from None
        finally:
            writer.close()
        return True


class _Handed:
    """One request that another worker has handed on, over the connection to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._length = 0
        self._is_read = False

    async def answer(self, serve: Serve) -> None:
        """Answer it by `serve`."""
        try:
            head = json.loads(await self._reader.readline())
            self._length = head["length"]
            scope = {
                "type": "http",
                "method": head["method"],
                "path": head["path"],
                "root_path": head["root_path"],
                "query_string": head["query"].encode("latin-1"),
                "headers": [(n.encode("latin-1"), v.encode("latin-1")) for n, v in head["headers"]],
                "server": head["server"] and tuple(head["server"]),
            }
            await serve(scope, self._receive, self._send)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # the other worker has gone
        finally:
            self._writer.close()

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": await self._reader.readexactly(self._length)}
        await self._reader.read(1)
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [[n.decode("latin-1"), v.decode("latin-1")] for n, v in message["headers"]]
            self._put(json.dumps({"status": message["status"], "headers": headers}).encode())
        else:
            if message.get("body"):
                self._put(message["body"])
            if not message.get("more_body", False):
                self._put(b"")
        await self._writer.drain()

    def _put(self, data: bytes) -> None:
        self._writer.write(len(data).to_bytes(_LENGTH, "big") + data)


async def _piece(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(_LENGTH), "big")
    return await reader.readexactly(size)


def _default_folder() -> str:
    """Return the folder of the sockets, "" on a system without them."""
    if not hasattr(asyncio, "start_unix_server"):
        return ""
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"mcpagg-{_user()}")


def _user() -> int:
    system: Any = os  # whose getuid Windows lacks
    return int(system.getuid())


def _remove_if_dead(entry: os.DirEntry[str]) -> None:
    """Remove a socket that a worker has left which was killed: whoever connects is refused."""
    system: Any = socket  # without these on Windows
    with suppress(OSError), socket.socket(system.AF_UNIX) as probe:
        if time() - entry.stat(follow_symlinks=False).st_mtime < BEGINNING_SECONDS:
            return
        probe.setblocking(False)
        try:
            probe.connect(entry.path)
        except ConnectionRefusedError:
            _remove(entry.path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
