"""Every order of events at a process: counted against an enumeration of whole networks, and mutants are found."""

from collections.abc import Sequence
from math import factorial

import pytest

from coordinator.execution.every_order import EveryOrder, LocalEvent, every_order, fingerprint, local_orders
from coordinator.networks.step_barrier import StepBarrier
from emunode.engine import node
from emunode.errors import ScenarioError
from emunode.host.step_engine import StepEngine
from emunode.net import wire
from tests.command_line import Call
from tests.scenarios import Case

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


def result(line: str, **bounds: int) -> EveryOrder:
    return every_order(Case(line).plan, **bounds)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("line", SCENARIOS)
def test_every_order_gives_the_journal_of_memory(line: str) -> None:
    found = result(line)
    assert found.deviation is None
    assert (found.verdict, found.journal_hash) == ("holds", Case(line).summary["journal_hash"])


# --- counts ----------------------------------------------------------------------------------------------------------


def by_brute_force(works: Sequence[bool], packets: Sequence[tuple[int, int]]) -> list[set[tuple[LocalEvent, ...]]]:
    """Return by process its sequences of events in all executions of one step, without any reduction.

    `packets` are (sender, receiver). Written anew: a packet exists once its sender has taken its turn.
    """
    found: list[set[tuple[LocalEvent, ...]]] = [set() for _ in works]
    executions = 0

    def go(done: list[list[LocalEvent]], flying: frozenset[int], pending: frozenset[int]) -> None:
        nonlocal executions
        moved = False
        for process, events in enumerate(done):
            names = [name for name, _ in events]
            if "order" not in names:
                moved = True
                go(_with(done, process, ("order", 0)), flying, pending)
            elif works[process] and "turn" not in names:
                moved = True
                sent = {number for number, (sender, _) in enumerate(packets) if sender == process}
                go(_with(done, process, ("turn", 0)), flying | sent, pending)
            elif process in pending:
                moved = True
                go(_with(done, process, ("report", 0)), flying, pending - {process})
        for number in flying:
            moved = True
            receiver = packets[number][1]
            names = [name for name, _ in done[receiver]]
            reported = ("turn" if works[receiver] else "order") in names
            waiting = pending | {receiver} if reported else pending
            go(_with(done, receiver, ("packet", number)), flying - {number}, waiting)
        if not moved:
            executions += 1
            for process, events in enumerate(done):
                found[process].add(tuple(events))

    go([[] for _ in works], frozenset(), frozenset())
    assert executions >= max(map(len, found))
    return found


def _with(done: list[list[LocalEvent]], process: int, event: LocalEvent) -> list[list[LocalEvent]]:
    return [[*events, event] if each == process else events for each, events in enumerate(done)]


@pytest.mark.parametrize("line", TINY)
def test_orders_are_counted_as_by_brute_force(line: str) -> None:
    found, case = result(line), Case(line)
    rows = case.journal.select("step", "sender", "receiver").unique()
    for step in range(1, found.steps):
        packets = [(one, other) for at, one, other in rows.iter_rows() if at == step]
        senders = {sender for sender, _ in packets}
        # Ranks that read something take a turn as well.
        readers = {receiver for at, _, receiver in rows.iter_rows() if at == step - 1}
        ranks = range(case.plan.topology.order)
        counts = [len(each) for each in by_brute_force([rank in senders | readers for rank in ranks], packets)]
        assert counts == [found.orders[step, rank] for rank in ranks]


@pytest.mark.parametrize("count", range(5))
def test_number_of_local_orders_has_a_closed_form(count: int) -> None:
    ports = list(range(count))
    for works, expected in ((False, 2**count), (True, 2 ** (count + 1) - 1)):
        orders = list(local_orders(ports, works=works))
        assert len(orders) == len(set(orders)) == factorial(count) * expected


# --- mutants ---------------------------------------------------------------------------------------------------------


def test_a_node_that_reads_in_the_order_of_arrival_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "port_of", lambda _: 0)  # the sort by it keeps the order
    found = result("hypercube:2 broadcast flood").deviation
    assert found is not None
    assert (found.step, found.label) == (3, "11")
    assert "other journal rows in the order order, packet on port 1, " in found.words()


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


def test_a_coordinator_that_does_not_count_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepBarrier, "_count_received", lambda *_: None)
    found = result("hypercube:2 broadcast flood").deviation
    assert found is not None
    assert found.words() == "step 1, coordinator: the step does not end"


def test_fingerprints_see_paused_generators_and_closures() -> None:
    def numbers(last: int):  # type: ignore[no-untyped-def]
        yield from range(last)

    one, other = numbers(3), numbers(3)
    assert fingerprint([one]) == fingerprint([other])
    next(one)
    assert fingerprint([one]) != fingerprint([other])
    assert fingerprint(lambda: one) != fingerprint(lambda: other)
    circle: list[object] = [1]
    circle.append(circle)
    assert fingerprint(circle) != fingerprint([1, [1]])


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


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--topology star:4 --algorithm flood", "every order is run of at most 8 nodes"),
        ("--topology star:3 --algorithm flood --clock timed", "every order is run in lock-step only"),
        ("--topology star:3 --algorithm flood --executions 0", "at least 1"),
        ("--topology star:3 --algorithm flood --sample 2", "no other flag of certify"),
    ],
    ids=["nodes", "clock", "bound", "sample"],
)
def test_what_cannot_be_ordered_is_refused(line: str, reason: str, call: Call) -> None:
    ended = call(f"certify --every-order {line}")
    assert (ended.status, reason in ended.err) == (2, True), ended.err


def test_a_bound_without_every_order_is_refused(call: Call) -> None:
    assert call("certify --topology star:3 --algorithm flood --executions 5").status == 2


def test_programs_are_refused() -> None:
    with pytest.raises(ScenarioError, match="rules only"):
        every_order(Case("star:3 broadcast flood", program="true", algorithm="program").plan)
