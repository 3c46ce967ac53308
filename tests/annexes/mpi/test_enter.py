"""The process before mpirun: it becomes a command, or says why not."""

import sys
from pathlib import Path

import pytest

from coordinator.annexes.mpi.enter import NOT_STARTED
from coordinator.planning.namespace import unavailable_reason
from tests.helpers.command_line import run_process

ENTER = [sys.executable, "-m", "coordinator.annexes.mpi.enter"]


def test_it_becomes_the_command(tmp_path: Path) -> None:
    ended = run_process(tmp_path, ["env", *ENTER, "shared", "0", "/bin/sh", "-c", "echo done; exit 4"])
    assert (ended.status, ended.out) == (4, "done\n")


def test_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    ended = run_process(tmp_path, ["env", *ENTER, "shared", "0", "/no/such/program"])
    assert (ended.status, ended.err) == (NOT_STARTED, "/no/such/program: [Errno 2] No such file or directory\n")


def test_nothing_starts_if_the_parent_is_gone(tmp_path: Path) -> None:
    ended = run_process(tmp_path, ["env", *ENTER, "shared", "1", "/bin/echo", "started"])
    assert (ended.status, ended.out) == (NOT_STARTED, "")


@pytest.mark.skipif(bool(unavailable_reason()), reason="no network namespace can be made here")
def test_its_own_network_has_the_loopback_alone(tmp_path: Path) -> None:
    ended = run_process(tmp_path, ["env", *ENTER, "own", "0", "/bin/cat", "/proc/net/dev"])
    names = [line.split(":")[0].strip() for line in ended.out.splitlines() if ":" in line]
    assert names == ["lo"]
