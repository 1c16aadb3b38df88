"""Says what went wrong within the proxy itself, so that it can be found and mended."""

from __future__ import annotations


def where(fault: BaseException) -> str:
    """Return the kind of an exception, and the last function and line of ours that it came through.

    Not what it says: that may be of a message, and nobody else's to read.
    """
    place = ""
    trace = fault.__traceback__
    package = __name__.partition(".")[0]
    while trace is not None:
        frame = trace.tb_frame
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            place = f" in {frame.f_code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return type(fault).__name__ + place
