"""The limits of this machine, against those that psutil reads."""

import resource

import psutil
import pytest

from coordinator.planning import machine


def test_free_memory_is_that_of_psutil() -> None:
    before, found, after = psutil.virtual_memory().available, machine.free_memory(), psutil.virtual_memory().available
    # Other processes take and return memory between two readings.
    assert min(before, after) - 2**30 < found < max(before, after) + 2**30


@pytest.mark.parametrize(
    ("kind", "used"), [(resource.RLIMIT_AS, "vms"), (resource.RLIMIT_DATA, "data")], ids=["ulimit -v", "ulimit -d"]
)
def test_what_a_limit_leaves_is_the_limit_without_what_is_used(
    monkeypatch: pytest.MonkeyPatch, kind: int, used: str
) -> None:
    limit = 2**45
    monkeypatch.setattr(resource, "getrlimit", lambda one: (limit if one == kind else resource.RLIM_INFINITY, limit))
    left, memory = machine.process_memory(), psutil.Process().memory_info()
    assert left is not None
    assert abs(limit - left - getattr(memory, used)) < 2**24
