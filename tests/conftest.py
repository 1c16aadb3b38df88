"""How hard the property tests try: `HYPOTHESIS_PROFILE=thorough pytest tests/property`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,  # of a single example: a busy machine is no fault
    derandomize=True,  # the same examples on every run, so that a red test is red for everybody
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", settings.get_profile("default"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
