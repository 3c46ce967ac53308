"""Hypothesis profiles, chosen by HYPOTHESIS_PROFILE (default `repeatable`), and a lock on the Docker engine."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No verdict may depend on the speed or load of the machine.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("repeatable", UNHURRIED, derandomize=True)
settings.register_profile("thorough", UNHURRIED, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def the_engine() -> Iterator[None]:
    """Exclusive use of the Docker engine among test processes: these tests check that no container is left over."""
    with (Path(tempfile.gettempdir()) / "testbench-engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
