"""A child over stdio: its process, its pipes, and how it ended.

The SDK's `stdio_client` hides the exit status and stderr, and refuses lines that the emitted file
accepts. Compiler and emitted file must agree on what a child may write, so the framing is the
runtime's.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import anyio
from anyio.abc import ByteSendStream, Process
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
)

from mcpagg.connection.framing import encode, messages
from mcpagg.connection.modern import DISCOVER
from mcpagg_runtime.connection import LostAnswers
from mcpagg_runtime.launch import Launch
from mcpagg_runtime.message import Lines, minted
from mcpagg_runtime.platforms import crashed, describe, lead_group, shell_line, start_options
from mcpagg_runtime.process import KILL, TERMINATE

# Seconds. The first two are those of both official SDKs; the specification gives none.
EOF_GRACE = 2.0
SIGTERM_GRACE = 2.0
REAP_GRACE = 1.0
EXIT_POLL = 0.02
PIPE_QUIET = 0.1

STDERR_KEPT = 8192  # bytes; more than is shown, so that no secret is cut where it is shown
NOISE_LINES = 3

_Pipe = TypeVar("_Pipe")


@asynccontextmanager
async def open_child(launch: Launch) -> AsyncGenerator[ChildProcess, None]:
    """Start a child in a process group of its own; on leaving, end all that is left of the group.

    Ending it: its stdin is closed, after 2 s SIGTERM, after 2 s more SIGKILL. Cancelling the
    caller does not cut this short.

    Raises:
        OSError: the command or its folder cannot be used.
        ValueError: the command line or the environment holds a NUL, or what a shell that it needs
            cannot be given.
    """
    process = await anyio.open_process(
        shell_line(launch.argv) or launch.argv,
        stderr=subprocess.PIPE,
        env=launch.env,
        cwd=launch.cwd,
        **start_options(),
    )
    # From here to the first await everything is inside `try`: a cancelled caller leaks no process.
    try:
        child = ChildProcess(process, launch.redact)
    except OSError:
        process.kill()
        raise
    try:
        async with anyio.create_task_group() as pumps:
            for pump in (child.pump_stdin, child.pump_stdout, child.pump_stderr, child.watch):
                pumps.start_soon(pump)
            try:
                yield child
            finally:
                with anyio.CancelScope(shield=True):
                    await child.aclose()
                pumps.cancel_scope.cancel()
    finally:
        # A second Ctrl-C gets through every shield; this needs no event loop.
        child.kill()


class ChildProcess:
    """The link to a running child.

    `read` and `write` are the streams that a JSON-RPC dispatcher takes. `broken` is set before
    either ends. `spoke` says whether a message came, `noise` what else the first few lines with
    something else on stdout held, without secrets.
    """

    refusal = ""

    def __init__(self, process: Process, redact: Callable[[str], str]) -> None:
        """Take over a process that was started with three pipes; `redact` hides its secrets."""
        self.process = process
        self._group = lead_group(process.pid)
        self._redact = redact
        self._deliver, self.read = anyio.create_memory_object_stream[SessionMessage | Exception]()
        self.write, self._outbox = anyio.create_memory_object_stream[SessionMessage]()
        self._hearing = anyio.CancelScope(), anyio.CancelScope()
        self._chunks = 0
        self._stderr = b""
        self._stderr_done = False
        self._in_flight: set[int] = set()
        self._lost = LostAnswers()
        self.broken = False
        self.spoke = False
        self.noise: list[str] = []

    async def fate(self) -> str:
        """Say how the child ended: `exited with status 3`, `was killed by SIGKILL`.

        To be asked when the link is broken: a process that outlives its pipes is waited for only
        shortly.
        """
        await _until(lambda: self.exited is not None and self._stderr_done, REAP_GRACE)
        status = self.exited
        return "closed its pipes" if status is None else describe(status)

    @property
    def exited(self) -> int | None:
        """The exit status, negative for a signal, None while it runs."""
        return self.process.returncode

    @property
    def hopeless(self) -> bool:
        """Whether it exited for another reason than the version that it was asked for.

        Who exits over a version has spoken before, or says nothing at all, or names on stderr the
        protocol or the method that it expected. Any other child that exits is a broken command, and
        starting it again helps no one; neither does it after a signal.
        """
        if self.exited is None:
            return False
        words = self.last_words.strip().lower()
        named = any(sign in words for sign in ("protocol", DISCOVER))
        spoke = self.spoke or named or not (words or self.noise)
        return crashed(self.exited) or not spoke

    @property
    def last_words(self) -> str:
        """The end of its stderr as it came, secrets included."""
        text = self._stderr[-STDERR_KEPT:].decode("utf-8", "replace")
        if len(self._stderr) > STDERR_KEPT:
            text = text.partition("\n")[2] or text  # the first line lost its beginning
        return text

    async def pump_stdin(self) -> None:
        """Write the messages of `write` until the pipe or the stream ends."""
        stdin = _present(self.process.stdin)
        async with self._outbox:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                async for item in self._outbox:
                    if isinstance(item.message, JSONRPCRequest):
                        self._in_flight.add(int(item.message.id))
                    await stdin.send(encode(item.message))
            self.broken = True

    async def pump_stdout(self) -> None:
        """Deliver what the child says to `read` until it ends; read on when no one listens."""
        stdout = _present(self.process.stdout)
        lines = Lines(lambda: self.noise.append("a line without end"))
        async with self._deliver:
            with self._hearing[0], suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for chunk in stdout:
                    self._chunks += 1
                    for line in lines.feed(chunk):
                        await self._receive(line)
            self.broken = True

    async def pump_stderr(self) -> None:
        """Read stderr at all times, so that the child never blocks on it; keep its end."""
        stderr = _present(self.process.stderr)
        with self._hearing[1], suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in stderr:
                self._chunks += 1
                # One byte more than is kept says that something was cut.
                self._stderr = (self._stderr + chunk)[-STDERR_KEPT - 1 :]
        self._stderr_done = True

    async def watch(self) -> None:
        """Stop reading soon after the child exits: a grandchild may hold its pipes for ever."""
        # Not process.wait(): older versions of anyio wait for the end of the pipes as well.
        await _until(lambda: self.exited is not None, math.inf)
        heard = -1
        with anyio.move_on_after(REAP_GRACE):
            while heard != self._chunks:
                heard = self._chunks
                await anyio.sleep(PIPE_QUIET)
        for scope in self._hearing:
            scope.cancel()

    async def aclose(self) -> None:
        """End the child and its group as `open_child` says; return when that is done."""
        await _closed(self.process.stdin)
        await _until(lambda: self.exited is not None, EOF_GRACE)
        if not self._gone():
            self._group.signal(TERMINATE)
            await _until(self._gone, SIGTERM_GRACE)
        self.kill()
        await _until(self._gone, REAP_GRACE)
        with anyio.move_on_after(REAP_GRACE):
            await self.process.aclose()
        self.read.close()
        self.write.close()

    def kill(self) -> None:
        """End what is left of the group at once."""
        if not self._gone():  # a group that is gone may have left its number to another
            self._group.signal(KILL)

    def _gone(self) -> bool:
        return self.exited is not None and not self._group.signal(0)

    async def _receive(self, line: bytes) -> None:
        """Deliver the messages of a line; note what else is there."""
        received, oddity = messages(line)
        if oddity and len(self.noise) < NOISE_LINES:
            # Read again: the oddity is cut, and half a secret would not be recognised.
            plain = self._redact(line.decode("utf-8", "surrogateescape"))
            _, shown = messages(plain.encode("utf-8", "surrogateescape"))
            self.noise.append(shown or oddity)
        for message in received:
            self.spoke = True
            await self._deliver_one(message)
            for number, error in self._lost.settled(self._in_flight).items():
                known = ErrorData.model_validate_json(error)
                await self._deliver_one(JSONRPCError(jsonrpc="2.0", id=number, error=known))

    async def _deliver_one(self, message: JSONRPCMessage) -> None:
        """Deliver a message; keep an error that does not say which request it is about."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            if message.id is None and isinstance(message, JSONRPCError):
                self._lost.add(self._in_flight, message.error.model_dump_json())
                return
            self._in_flight -= {minted(message.id)}
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._deliver.send(SessionMessage(message))


def _present(stream: _Pipe | None) -> _Pipe:
    if stream is None:
        raise RuntimeError("the process was started without this pipe")
    return stream


async def _closed(stream: ByteSendStream | None) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await _present(stream).aclose()


async def _until(done: Callable[[], bool], seconds: float) -> None:
    """Wait until `done`, at most so many seconds."""
    with anyio.move_on_after(seconds):
        while not done():  # noqa: ASYNC110 the end of a process group is no event
            await anyio.sleep(EXIT_POLL)
