"""A proxy of TCP in this process that spoils what passes through it, as a test says.

    with FaultyProxy(server.port) as proxy:
        proxy.spoil([Cut(0), Duplicate(100)])  # of the next two connections

Faults are dealt out in order, one for each connection that is opened, `None` for none; when they
are used up, all passes.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

PATIENCE = 60.0


class Fault:
    """What happens to the answer of a connection, behind so many bytes of it."""

    def __init__(self, after: int) -> None:
        self.after = after

    def spoiled(self, rest: bytes) -> Iterator[bytes | None]:
        """Yield what is sent instead of the bytes that come then; None: the connection is reset."""
        raise NotImplementedError


class Cut(Fault):
    """The connection is reset."""

    def spoiled(self, rest: bytes) -> Iterator[bytes | None]:
        yield None


class Truncate(Fault):
    """The connection is closed in good order, as if that were all."""

    def spoiled(self, rest: bytes) -> Iterator[bytes | None]:
        yield b""


class Duplicate(Fault):
    """The bytes come twice."""

    def spoiled(self, rest: bytes) -> Iterator[bytes | None]:
        yield rest + rest


class Stall(Fault):
    """Nothing comes until somebody lets go, or the connection is given up."""

    def __init__(self, after: int) -> None:
        super().__init__(after)
        self.reached = threading.Event()
        self.released = threading.Event()

    def spoiled(self, rest: bytes) -> Iterator[bytes | None]:
        self.reached.set()
        assert self.released.wait(PATIENCE)
        yield rest


class FaultyProxy:
    """Listens on a port of its own, and passes on to another."""

    def __init__(self, port: int) -> None:
        self.target = port
        """The port that connections are passed on to; another one holds for those to come."""
        self._faults: Iterator[Fault | None] = iter(())
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def __enter__(self) -> FaultyProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset_all()

    def spoil(self, faults: Iterable[Fault | None]) -> None:
        """Spoil the connections that are opened from here on."""
        with self._lock:
            self._faults = iter(faults)

    def reset_all(self) -> None:
        """Reset every connection, as a server does that is killed."""
        with self._lock:
            while self._open:
                _reset(self._open.pop())

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        """Pass on what comes on a connection, in both directions, and close it in the end."""
        try:
            far = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            _reset(near)
            return
        with self._lock:
            self._open |= {near, far}
            fault = next(self._faults, None)
        back = threading.Thread(target=self._pass_on, args=(far, near, fault), daemon=True)
        back.start()
        self._pass_on(near, far, None)
        back.join()
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()

    def _pass_on(self, source: socket.socket, sink: socket.socket, fault: Fault | None) -> None:
        """Pass on what comes, until either side ends."""
        passed = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if fault is None or passed + len(data) <= fault.after:
                    sink.sendall(data)
                    passed += len(data)
                    continue
                sink.sendall(data[: fault.after - passed])
                for piece in fault.spoiled(data[fault.after - passed :]):
                    if not piece:
                        if piece is None:
                            _reset(sink)
                        break
                    sink.sendall(piece)
                else:
                    fault = None
                    continue
                break
            sink.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            source.shutdown(socket.SHUT_RD)


def _reset(one: socket.socket) -> None:
    """End a connection so that the other side sees an error, and whoever reads it here its end."""
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
    one.close()
