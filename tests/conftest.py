"""Hypothesis profiles: `repeatable` unless the environment says `HYPOTHESIS_PROFILE=thorough`; and one Docker engine."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# no verdict may depend on how fast or how busy the machine is
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("repeatable", UNHURRIED, derandomize=True)
settings.register_profile("thorough", UNHURRIED, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def the_engine() -> Iterator[None]:
    """No test of another process uses the Docker engine meanwhile: each looks whether it leaves anything there."""
    with (Path(tempfile.gettempdir()) / "testbench-engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
