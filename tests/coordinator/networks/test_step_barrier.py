"""Steps are ordered of hosts with work only; these hosts are computed anew from the journal of memory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from coordinator.networks.admission import ConnectedHost
from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.messages import Received, StepReport
from coordinator.networks.step_barrier import StepBarrier
from emunode.errors import FrameError
from tests.helpers.scenarios import Case


class Orders(ControlChannel):
    """A channel that notes the hosts with orders."""

    def __init__(self, hosts: int) -> None:
        self.hosts = {index: ConnectedHost(-1, index, 0, "", "") for index in range(hosts)}
        self.sent: list[list[int]] = []

    def send_to_all(self, hosts: Iterable[ConnectedHost], *message: object) -> None:
        """Note the hosts of an order."""
        self.sent.append([host.index for host in hosts])


def reports(barrier: StepBarrier, channel: Orders, step: int, sent: dict[int, dict[int, int]], **due: int) -> None:
    """Let the hosts of the newest order report; `due` names hosts as `host3`."""
    for index in channel.sent[-1]:
        report = StepReport(step, sent.get(index, {}), {}, due.get(f"host{index}", 0), b"")
        barrier.on_report(channel.hosts[index], report)


def test_only_hosts_with_work_get_orders() -> None:
    channel = Orders(5)
    barrier = StepBarrier(channel)
    barrier.begin(1, ())
    reports(barrier, channel, 1, {0: {3: 2}}, host1=4)
    barrier.begin(2, ())
    # Host 4 has no order, and receives a packet all the same.
    reports(barrier, channel, 2, {3: {4: 1}})
    assert barrier._in_flight == 1
    barrier.on_received(channel.hosts[4], Received(2, {3: 1}))
    assert not barrier._in_flight
    barrier.begin(3, ())
    reports(barrier, channel, 3, {})
    barrier.begin(4, ())
    assert channel.sent == [[0, 1, 2, 3, 4], [3], [4], [1]]
    reports(barrier, channel, 4, {})
    assert not barrier.busy
    assert not barrier.begin(5, ())
    assert len(barrier.begin(6, (), everyone=True)) == 5


def test_counts_of_a_step_that_has_not_begun_are_refused() -> None:
    channel = Orders(2)
    barrier = StepBarrier(channel)
    barrier.begin(1, ())
    with pytest.raises(FrameError, match="packets of step 2 in step 1"):
        barrier.on_received(channel.hosts[0], Received(2, {1: 1}))


def test_a_late_count_of_an_earlier_step_is_ignored() -> None:
    channel = Orders(2)
    barrier = StepBarrier(channel)
    barrier.begin(1, ())
    reports(barrier, channel, 1, {})
    barrier.begin(2, ())
    barrier.on_received(channel.hosts[0], Received(1, {1: 1}))
    assert not barrier._in_flight


@pytest.mark.parametrize(
    "line", ["hypercube:3 broadcast sbt", "star:3 scatter edt messages=3", "torus:3x3 scatter bfs-tree"]
)
def test_orders_of_a_run_follow_its_journal(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(line, driver="local", ranks_per_host=1)
    found: dict[int, set[int]] = {}
    order = StepBarrier.order

    def noted(barrier: StepBarrier, kind: Any, step: int, faults: Any, hosts: Any) -> None:
        found[step] = {host.index for host in hosts}
        order(barrier, kind, step, faults, hosts)

    monkeypatch.setattr(StepBarrier, "order", noted)
    run = case.stored(tmp_path / "out")
    assert run.summary["journal_hash"] == Case(line).summary["journal_hash"]
    hops = set(case.journal.select("step", "sender", "receiver").iter_rows())
    for step in range(2, max(found) + 1):
        senders = {sender for at, sender, _ in hops if at == step}
        readers = {receiver for at, _, receiver in hops if at == step - 1}
        assert found[step] == senders | readers, step
