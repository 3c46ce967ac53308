"""Hypothesis profiles: `repeatable` unless the environment says `HYPOTHESIS_PROFILE=thorough`."""

import os

from hypothesis import HealthCheck, settings

# no verdict may depend on how fast or how busy the machine is
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("repeatable", UNHURRIED, derandomize=True)
settings.register_profile("thorough", UNHURRIED, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
