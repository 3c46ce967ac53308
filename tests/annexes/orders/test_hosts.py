"""Every order of events at a host: counted against an enumeration of whole networks, and mutants are found."""

from collections.abc import Sequence
from math import factorial
from typing import Any

import pytest

from coordinator.annexes.orders.every_order import every_order
from coordinator.annexes.orders.hosts import local_orders
from coordinator.annexes.orders.result import EveryOrder, LocalEvent
from coordinator.networks.step_barrier import StepBarrier
from emunode.engine import node
from emunode.errors import ScenarioError
from emunode.host.placement import Placement
from emunode.host.step_engine import StepEngine
from emunode.net import wire
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case

SCENARIOS = (
    "hypercube:2 allgather sbt",
    "hypercube:3 broadcast sbt fault=crash:011@2",
    "complete:3 reduce bfs-tree messages=2",
    "star:3 broadcast edt redundancy=2 fault=byzantine:213",
    "star:3 broadcast greedy-tree reliable=true fault=loss:123~213:0.5",
    "star:3 scatter edt messages=2 fault=hang:132@2-3 fault=down:123~321@2 fault=up:123~321@4",
    "hypercube:2 broadcast sbt fault=crash:01@1 fault=recover:01@3 fault=delay:00~10:1",
    "hypercube:2 broadcast sbt fault_knowledge=detect:1 on_failure=shrink fault=crash:01@2",
    "hypercube:2 broadcast sbt repair=next-port fault=down:00>01@1",
)
"""Faults of every group, and every protocol."""
TINY = ("complete:3 broadcast flood", "complete:3 reduce bfs-tree", "hypercube:2 broadcast flood")


def result(line: str) -> EveryOrder:
    return every_order(Case(line).plan)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("line", SCENARIOS)
def test_hosts_with_several_ranks_give_the_journal_of_memory(line: str) -> None:
    case = Case(line)
    order = case.plan.topology.order
    found = every_order(case.plan, placement=Placement(order, order - 1))
    assert found.deviation is None
    assert (found.verdict, found.journal_hash) == ("holds", case.summary["journal_hash"])


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("line", SCENARIOS)
def test_every_order_gives_the_journal_of_memory(line: str) -> None:
    found = result(line)
    assert found.deviation is None
    assert (found.verdict, found.journal_hash) == ("holds", Case(line).summary["journal_hash"])


# --- counts ----------------------------------------------------------------------------------------------------------


def by_brute_force(
    works: Sequence[bool], packets: Sequence[tuple[int, int]], host_of: Sequence[int], *, first: bool
) -> list[set[tuple[LocalEvent, ...]]]:
    """Return by host its sequences of events in all executions of one step, without any reduction.

    `packets` are (sender, receiver). Written anew: a packet exists once its sender has taken its turn. Hosts without work
    get no order, but in the first step.
    """
    hosts = range(1 + max(host_of))
    found: list[set[tuple[LocalEvent, ...]]] = [set() for _ in hosts]
    executions = 0
    ordered = {host for host in hosts if first or any(works[rank] for rank, at in enumerate(host_of) if at == host)}

    def has_reported(host: int, events: list[LocalEvent]) -> bool:
        turns = [rank for rank, where in enumerate(host_of) if where == host and works[rank]]
        return host not in ordered or (("order", 0) in events and all(("turn", rank) in events for rank in turns))

    def go(done: list[list[LocalEvent]], flying: frozenset[int], pending: frozenset[int]) -> None:
        nonlocal executions
        moved = False
        for host, events in enumerate(done):
            if host in ordered and ("order", 0) not in events:
                moved = True
                go(_with(done, host, ("order", 0)), flying, pending)
                continue
            for rank, where in enumerate(host_of):
                if where == host and works[rank] and ("turn", rank) not in events:
                    moved = True
                    sent = {number for number, (sender, _) in enumerate(packets) if sender == rank}
                    go(_with(done, host, ("turn", rank)), flying | sent, pending)
            if host in pending:
                moved = True
                go(_with(done, host, ("report", 0)), flying, pending - {host})
        for number in flying:
            moved = True
            host = host_of[packets[number][1]]
            waiting = pending | {host} if has_reported(host, done[host]) else pending
            go(_with(done, host, ("packet", number)), flying - {number}, waiting)
        if not moved:
            executions += 1
            for host, events in enumerate(done):
                found[host].add(tuple(events))

    go([[] for _ in hosts], frozenset(), frozenset())
    assert executions >= max(map(len, found))
    return found


def _with(done: list[list[LocalEvent]], host: int, event: LocalEvent) -> list[list[LocalEvent]]:
    return [[*events, event] if each == host else events for each, events in enumerate(done)]


@pytest.mark.parametrize(("line", "hosts"), [*((line, 0) for line in TINY), (TINY[0], 1), (TINY[1], 2), (TINY[2], 2)])
def test_orders_are_counted_as_by_brute_force(line: str, hosts: int) -> None:
    case = Case(line)
    order = case.plan.topology.order
    placement = Placement(order, hosts or order)
    found = every_order(case.plan, placement=placement)
    rows = case.journal.select("step", "sender", "receiver").unique()
    for step in range(1, found.steps):
        packets = [(one, other) for at, one, other in rows.iter_rows() if at == step]
        senders = {sender for sender, _ in packets}
        # Ranks that read something take a turn as well.
        readers = {receiver for at, _, receiver in rows.iter_rows() if at == step - 1}
        works = [rank in senders | readers for rank in range(order)]
        counts = [
            len(each)
            for each in by_brute_force(works, packets, list(map(placement.host, range(order))), first=step == 1)
        ]
        assert counts == [found.orders[step, host] for host in range(placement.hosts)]


@pytest.mark.parametrize("count", range(5))
def test_number_of_local_orders_has_a_closed_form(count: int) -> None:
    ports = list(range(count))
    found = (
        (local_orders(ports, 0), 2**count),
        (local_orders(ports, 1), 2 ** (count + 1) - 1),
        (local_orders(ports, ordered=False), 2 ** max(count - 1, 0)),
        (local_orders(ports, unexpected=True), 2**count * (count + 2) // 2),
    )
    for orders, expected in found:
        listed = list(orders)
        assert len(listed) == len(set(listed)) == factorial(count) * expected


# --- mutants ---------------------------------------------------------------------------------------------------------


def test_a_node_that_reads_in_the_order_of_arrival_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "port_of", lambda _: 0)  # the sort by it keeps the order
    found = result("hypercube:2 broadcast flood").deviation
    assert found is not None
    assert (found.step, found.label) == (3, "11")
    assert found.words() == "step 3, 11: other journal rows in the order packet on port 1, packet on port 0, report"


def test_a_host_that_loses_early_packets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def file_under_its_own_step(engine: StepEngine, fd: int, frame: bytes) -> None:
        _, packet = wire.decode_packet(frame, engine._order)
        slots, packets = engine._arrivals[engine._step & 1]
        slots.append(fd)
        packets.append(packet)

    monkeypatch.setattr(StepEngine, "on_frame", file_under_its_own_step)
    found = result("hypercube:2 broadcast flood").deviation
    assert found is not None
    assert (found.step, found.events[0][0]) == (1, "packet")


def test_a_host_that_waits_for_an_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepEngine, "_expects_order", lambda *_: True)
    found = result("hypercube:2 broadcast flood").deviation
    assert found is not None
    assert found.words() == "step 2, 11: other counts in the order packet on port 0, packet on port 1, report"


def test_a_coordinator_that_forgets_receivers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = StepBarrier.begin

    def forgetful(barrier: StepBarrier, *arguments: Any, **named: Any) -> Any:
        barrier._receivers.clear()
        return begin(barrier, *arguments, **named)

    monkeypatch.setattr(StepBarrier, "begin", forgetful)
    found = result("hypercube:2 broadcast flood").deviation
    assert found is not None


def test_a_coordinator_that_does_not_count_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepBarrier, "_count_received", lambda *_: None)
    found = result("hypercube:2 broadcast flood").deviation
    assert found is not None
    assert found.words() == "step 1, coordinator: the step does not end"


# --- the command -----------------------------------------------------------------------------------------------------


def test_beyond_the_bound_the_claim_is_undecided(call: Call) -> None:
    line = "certify --every-order --topology star:3 --algorithm flood --fault crash:213@2"
    ended = call(f"{line} --executions 50")
    assert ended.status == 3
    assert "50 executions" in ended.out
    assert "the bound of 50 was reached" in ended.out
    ended = call(f"{line} --json")
    assert (ended.status, ended.data["verdict"], ended.data["deviation"]) == (0, "holds", None)
    assert ended.data["executions"] > 50


def test_hosts_with_several_ranks_are_asked_for(call: Call) -> None:
    line = "certify --every-order --topology hypercube:2 --algorithm flood --driver local --ranks-per-host 2 --json"
    found = call(line).data
    case = Case("hypercube:2 broadcast flood")
    assert found["executions"] == every_order(case.plan, placement=Placement(4, 2)).executions
    assert found["journal_hash"] == case.summary["journal_hash"]


def test_programs_are_refused() -> None:
    plan = Case("star:3 broadcast flood", program="true", algorithm="program").plan
    with pytest.raises(ScenarioError, match="rules only"):
        every_order(plan)
