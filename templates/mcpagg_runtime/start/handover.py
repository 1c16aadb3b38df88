"""What the code of the file hands over to `running.run`, and constants that both need."""

from __future__ import annotations

import sys

INTERRUPT = 2  # SIGINT
# SIGHUP, SIGINT, SIGTERM: a terminal that goes away ends the proxy like any other signal. Windows
# has SIGBREAK instead of the first, which is the one that a program can send to another.
ENDING = (1, 2, 15) if sys.platform != "win32" else (2, 15, 21)
# After the handshake a client asks for its lists. Starting children takes the processor, so that
# comes this much later.
HEAD_START_SECONDS = 0.02
# A client that never stops asking must not keep them from starting: so often they wait for it.
HEAD_STARTS = 16
# Where it is set, the states of the servers are logged in a file there, as with --log.
LOG_DIRECTORY = "MCP_PROXY_LOG_DIRECTORY_PATH"
# Set for every server that is started: the servers above it, see `nesting`.
ABOVE = "MCPAGG_ABOVE"
# Where it is `debug`, that log has a line for each call and each request of HTTP, too.
LOG_LEVEL = "MCP_PROXY_LOG_LEVEL"


class Handover:
    """The state of standard input and output when the first line without a static answer comes."""

    def __init__(self) -> None:
        self.face: str | None = None
        """The server that is served as itself, "" for the whole proxy; None if the command line
        says anything else."""
        self.initialize_line = b""
        """The client's `initialize`, b"" if it sent none."""
        self.initialized = False
        """Whether it has sent `initialized`."""
        self.unprocessed = b""
        """What was read of input, and is still to be answered."""
        self.unwritten = b""
        """The rest of an answer that could not be written whole."""
        self.at_end = False
        """Whether the input has ended."""
