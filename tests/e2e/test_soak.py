"""The soak, for ten seconds and with a fixed seed; `python tests/soak.py` runs it for longer."""

from __future__ import annotations

import os

import pytest
from soak import soak


@pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")
def test_every_request_is_answered_once_and_right_whatever_happens() -> None:
    counts = soak(10, seed=4)
    for kind in ("echo: answered", "echo: failed with its child", "sleep: cancelled"):
        assert counts[kind] > 20
