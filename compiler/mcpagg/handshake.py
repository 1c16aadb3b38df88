"""From a child of the config to one that answers: start it, and agree on a version.

A handshake is tried first: it works with every legacy server, and with those that speak both eras.
The specification recommends to probe with `server/discover` instead, but some servers exit on it.
So a child gets that request only after it has refused all handshakes.
"""

from __future__ import annotations

from collections.abc import Callable

from mcpagg.collector import Collector
from mcpagg.conversation import DISCOVER, Fault, Silence, Time
from mcpagg_runtime.base.protocol import MODERN_VERSION
from mcpagg_runtime.start.greeting import LEGACY_VERSIONS

FIRST_SHARE = 0.75


def connect(
    start: Callable[[], Collector],
    close: Callable[[Collector], None],
    seconds: float,
    time: Time,
) -> Collector:
    """Start a child and agree on a version.

    A child that refuses the newest version with a handshake, or is silent, is asked again in each
    older one, and at last without a handshake, in the modern one; at once in that one if its
    refusal says that it knows no handshake. Always on a fresh process, since a refusal may have
    left it in any state. All tries together take at most `seconds`: the first one three quarters,
    because a child that is still installing is far more common than one that hangs over a version;
    the others share the rest. A child that exits for another reason than its version is not
    started again: see `hopeless`.

    Raises:
        Fault: what came of the first try; of the last one, if the child is modern.
    """
    end = time.now() + seconds
    versions = [*LEGACY_VERSIONS, MODERN_VERSION]
    fault: Fault | None = None
    modern = False
    while True:
        version = versions.pop(0)
        now = time.now()
        share = (end - now) / (len(versions) + 1) if fault else (end - now) * FIRST_SHARE
        child = start()
        try:
            refused = child.greet(version, now + share)
            if refused is None:
                return child
            hopeless = child.hopeless  # while it can be told from how we end it
        except Silence:
            refused, hopeless = None, False
        except BaseException:
            close(child)
            raise
        close(child)
        modern = modern or child.modern
        if fault is None or modern:
            fault = refused or _silence(child, version, seconds)
        if not child.handshake:
            versions = [one for one in versions if one == MODERN_VERSION]
        elif hopeless or time.now() >= end:
            versions = []
        if not versions:
            raise fault


def _silence(child: Collector, version: str, seconds: float) -> Fault:
    method = DISCOVER if version == MODERN_VERSION else "initialize"
    what = f"did not answer {method} within {seconds:g} s"
    talk = child.conversation
    if talk.noise:
        what += f", but wrote something else than JSON-RPC to stdout: {talk.noise}"
    return talk.fault(f"{what} (is it still installing, or does it buffer its output?)")
