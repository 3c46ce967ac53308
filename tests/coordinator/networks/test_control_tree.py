"""Control by a tree of hosts: its shape, the journal of memory, and hosts in its middle that are killed or stopped."""

import os
import re
import signal
from collections import Counter
from itertools import pairwise
from math import ceil, log
from pathlib import Path
from typing import Any

import pytest

from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.networks import control_channel, control_tree, host_network, step_barrier
from coordinator.networks.control_tree import COORDINATOR, tree_parents
from coordinator.networks.host_network import HostNetwork
from emunode.host.control_tree import SubtreeReport
from tests.helpers.scenarios import Case


def depths(parents: list[int]) -> list[int]:
    """Return the level of each host; 1 for the hosts at the top."""
    found: list[int] = []
    for parent in parents:  # a parent has a lower number
        found.append(1 if parent == COORDINATOR else found[parent] + 1)
    return found


@pytest.mark.parametrize("fan_out", [2, 3, 16])
@pytest.mark.parametrize("hosts", [1, 2, 16, 17, 200, 1000, 10_000])
def test_a_tree_has_few_children_and_few_levels(hosts: int, fan_out: int) -> None:
    parents = tree_parents(hosts, fan_out)
    assert max(Counter(parents).values()) <= fan_out
    # A full tree of d levels has f + f^2 + .. + f^d hosts.
    least = ceil(log(hosts * (fan_out - 1) / fan_out + 1, fan_out) - 1e-9)
    assert max(depths(parents)) in (least, least + 1)


def test_a_subtree_is_a_block_of_hosts() -> None:
    parents = tree_parents(300, 4)
    below: dict[int, list[int]] = {}
    for host in reversed(range(300)):
        members = [*below.setdefault(host, []), host]
        below.setdefault(parents[host], []).extend(members)
        assert all(one - other == 1 for other, one in pairwise(sorted(members)))


@pytest.fixture
def small_tree(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Use a tree of two children on each level from four hosts on; return the hosts of each report through the tree."""
    monkeypatch.setattr(host_network, "TREE_HOSTS", 4)
    monkeypatch.setattr(step_barrier, "TREE_ORDERS", 3)
    monkeypatch.setattr(control_tree, "FAN_OUT", 2)
    reports: list[int] = []
    take = step_barrier.StepBarrier.on_subtree

    def noted(barrier: Any, host: Any, report: SubtreeReport) -> None:
        reports.append(report.hosts)
        take(barrier, host, report)

    monkeypatch.setattr(step_barrier.StepBarrier, "on_subtree", noted)
    return reports


LINES = (
    "hypercube:3 allgather sbt messages=3",
    "star:3 broadcast edt messages=3 fault=loss:123~213:0.5@2",
    "star:3 broadcast flood messages=3 fault=crash:213@2 fault=recover:213@4 fault=hang:321@3-4",
    "star:4 broadcast edt redundancy=3 fault=byzantine:2134",
    "star:3 broadcast edt fault_knowledge=detect:1 on_failure=shrink fault=crash:213@2",
)


@pytest.mark.parametrize("line", LINES)
def test_runs_through_a_tree_have_the_journal_of_memory(line: str, small_tree: list[int], tmp_path: Path) -> None:
    case = Case(line, driver="local", ranks_per_host=1)
    run = case.stored(tmp_path / "out")
    memory = Case(line)
    assert run.summary["journal_hash"] == memory.summary["journal_hash"]
    # Two hosts at the top speak for all hosts.
    order = memory.plan.topology.order
    assert {one + other for one, other in zip(small_tree[::2], small_tree[1::2], strict=True)} == {order}


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGKILL, "disconnected"), (signal.SIGSTOP, "do not answer: 1")])
def test_a_broken_host_in_the_middle_is_named(
    number: signal.Signals, reason: str, small_tree: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = HostNetwork.step

    async def broken(network: HostNetwork, at: int, faults: Any) -> Any:
        if at == 3:
            os.kill(network.pids[1], number)
            monkeypatch.setattr(control_channel, "STALL_SECONDS", 6.0)
        return await step(network, at, faults)

    monkeypatch.setattr(HostNetwork, "step", broken)
    assert tree_parents(16, 2)[1] == 0, "host 1 is in the middle"
    case = Case("hypercube:4 broadcast flood messages=9", driver="local", ranks_per_host=1)
    found = run(case.plan, DirectorySink(tmp_path / "out", draw=False))
    undecided = str(found.summary["undecided_because"])
    assert reason in undecided
    assert re.search(r"\bhost 1 \(process|answer: 1\b", undecided)
    assert found.execution.steps == 2
    assert small_tree
