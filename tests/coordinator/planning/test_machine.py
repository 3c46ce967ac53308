"""Limits of this machine, against psutil's readings: of a process, and of the control groups of a container."""

import resource
import sys
from pathlib import Path

import psutil
import pytest

from coordinator.planning import machine
from emunode import available_memory as memory
from tests.helpers.command_line import run_process


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


def test_the_limit_of_a_process_counts(tmp_path: Path) -> None:
    code = (
        "import resource, coordinator as tb\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))\n"
        "try:\n"
        "    tb.network('star:8').alltoall('near-balanced-tree')\n"
        "except tb.RunError as error:\n"
        "    print(error)\n"
    )
    done = run_process(tmp_path, [sys.executable, "-c", code])
    assert "this run needs about 1946.1 GiB of memory and 1." in done.out
    assert "deliveries by 9,227,594,880 hops" in done.out
    assert "Traceback" not in done.err


def test_processes_without_limits_have_none() -> None:
    if (
        resource.getrlimit(resource.RLIMIT_AS)[0]
        == resource.getrlimit(resource.RLIMIT_DATA)[0]
        == resource.RLIM_INFINITY
    ):
        assert machine.process_memory() is None


@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_of_a_container_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int) -> None:
    folder = tmp_path / ("memory/job" if version == 1 else "job/inner")
    folder.mkdir(parents=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if version == 1 else ("memory.max", "memory.current")
    limited = folder if version == 1 else folder.parent
    (limited / names[0]).write_text(f"{3 * 2**30}\n")
    (limited / names[1]).write_text(f"{2 * 2**30}\n")
    (limited / "memory.stat").write_text(f"anon 5\ninactive_file {2**29}\n")
    if version == 2:
        (folder / "memory.max").write_text("max\n")
    lines = "4:memory:/job\n" if version == 1 else "0::/job/inner\n"
    monkeypatch.setattr(memory, "CONTROL_GROUPS", tmp_path)
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, *rest: lines if str(path) == "/proc/self/cgroup" else read(path, *rest)
    )
    assert machine.available_memory() == 2**30 + 2**29
