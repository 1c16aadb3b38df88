"""What the code of the file hands over to the modules that it imports, and what both go by."""

from __future__ import annotations

import sys

INTERRUPT = 2  # SIGINT
# SIGHUP, SIGINT, SIGTERM: a terminal that goes away ends the proxy like any other signal. Windows
# has SIGBREAK instead of the first, which is the one that a program can send to another.
ENDING = (1, 2, 15) if sys.platform != "win32" else (2, 15, 21)
# A client that has shaken hands asks for its lists next. Starting children takes the processor, so
# they leave it that moment.
HEAD_START_SECONDS = 0.02
# Where it is set, what becomes of the servers is logged in a file there, as with --log.
LOG_DIRECTORY = "MCP_PROXY_LOG_DIRECTORY_PATH"
# Where it is set, a server has started this process; it names the servers above, see `nesting`.
ABOVE = "MCPAGG_ABOVE"
# Where it is `debug`, that log has a line for each call and each request of HTTP, too.
LOG_LEVEL = "MCP_PROXY_LOG_LEVEL"


class Opening:
    """What has been said until something was said that has no prepared answer."""

    def __init__(self) -> None:
        self.hello = b""
        """The client's `initialize`, b"" if it sent none."""
        self.initialized = False
        """Whether it has sent `initialized`."""
        self.unanswered = b""
        """What was read and not answered."""
        self.owed = b""
        """What is left of an answer, which could not be written."""
        self.ended = False
        """Whether that was all of the input."""
