"""Compile an MCP client config into one self-contained static proxy server.

`Aggregator` is the live counterpart: connect to every server of a config, list, call. It is
imported when it is first asked for, because it brings the SDK along, which the command line does
not need to say that a config is wrong.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpagg.aggregator import Aggregator

__all__ = ["Aggregator"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Aggregator":
        from mcpagg.aggregator import Aggregator

        return Aggregator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
