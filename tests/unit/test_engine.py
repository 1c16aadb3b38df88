"""What an engine holds on to, and how long."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from core import plan
from wire import wait_until

from mcpagg_runtime.clients.answers import Answers
from mcpagg_runtime.routing.core import Core
from mcpagg_runtime.servers.effects import FOREVER
from mcpagg_runtime.stdio.engine import Engine


def test_nothing_is_left_of_an_engine_that_was_closed_before_a_time_limit() -> None:
    def limit(core: Core) -> list[Any]:
        core.effects.arm(core.effects.clock() + 1000)
        return []

    engine = Engine(Answers(plan({"db": ["query"]})), ".")
    engine.attempt(limit)
    assert engine._timer.due < FOREVER
    left = weakref.ref(engine)
    engine.close()
    del engine
    wait_until(lambda: gc.collect() >= 0 and left() is None)
