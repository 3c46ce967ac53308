"""Every order of events of equal times: counted against an enumeration of whole networks, and mutants are found."""

from collections.abc import Sequence
from itertools import permutations
from math import factorial, prod
from typing import Any

import pytest

from coordinator.annexes.orders.every_order import every_order
from coordinator.annexes.orders.ranks_in_time import merges
from coordinator.history.journal import Journal
from coordinator.history.prediction import completed, prediction, timed_faults, without_protocols
from coordinator.history.timetable import FaultFreeSteps, PredictionInputs
from coordinator.scenario.model import costs_of
from emunode.algorithms.registry import make_algorithm
from emunode.model import Rank
from emunode.play import play
from emunode.timed import on_arrival, through_protocol
from emunode.timed.memory_engine import TimedMemoryEngine
from emunode.timed.rank import Arrival
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case

DETECT = "clock=timed keep_alive=10ms fault_knowledge=detect:1"
SCENARIOS = (
    "hypercube:3 broadcast flood clock=timed fault=crash:011@2",
    "star:3 broadcast edt redundancy=2 clock=timed fault=byzantine:213",
    "star:3 broadcast edt redundancy=2 clock=timed fault=delay:123~213:1",
    "complete:3 reduce bfs-tree clock=timed messages=2",
    "hypercube:2 allgather sbt clock=timed fault=drop:00>01:1",
    "hypercube:2 broadcast sbt clock=timed reliable=true fault=loss:00~01:0.5",
    "hypercube:2 broadcast sbt clock=timed repair=next-port fault=down:00>01@1",
    f"hypercube:2 broadcast sbt {DETECT} fault=crash:01@2",
    f"hypercube:2 broadcast sbt {DETECT} on_failure=shrink fault=crash:01@2",
    f"hypercube:2 broadcast sbt {DETECT} on_failure=agree fault=crash:01@2",
)
"""Both policies of ranks, and every protocol."""
TINY = (
    "complete:3 reduce bfs-tree clock=timed",
    "hypercube:2 broadcast flood clock=timed fault=delay:00~01:1",
    "hypercube:2 gather sbt clock=timed fault=crash:11@9",
    "complete:3 broadcast bfs-tree clock=timed reliable=true",
    "complete:3 reduce bfs-tree clock=timed reliable=true",
    "hypercube:2 broadcast sbt clock=timed repair=next-port fault=down:00>01@1",
)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("line", SCENARIOS)
def test_every_order_gives_the_journal_of_the_run(line: str) -> None:
    found = every_order(Case(line).plan)
    assert found.deviation is None
    assert (found.verdict, found.journal_hash) == ("holds", Case(line).summary["journal_hash"])


# --- counts ----------------------------------------------------------------------------------------------------------


class _Chosen(TimedMemoryEngine):
    """A memory engine whose orders are chosen by a list of numbers; it notes how many choices there were each time."""

    def __init__(self, choices: Sequence[int], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._choices = choices
        self.options: list[int] = []
        self.trace: list[tuple[object, ...]] = []

    def _choose(self, options: Sequence[Any]) -> Any:
        self.options.append(len(options))
        number = len(self.options) - 1
        return options[self._choices[number] if number < len(self._choices) else 0]

    def in_order(self, _now: int, ranks: set[Rank]) -> Sequence[Rank]:
        order: Sequence[Rank] = self._choose(list(permutations(sorted(ranks))))
        return order

    def _act(self, now: int, rank: Rank, arrivals: list[Arrival], missing: list[int], rows: bytearray) -> None:
        numbered = list(enumerate(sorted(arrivals, key=lambda arrival: arrival[:2])))
        allowed = [
            order
            for order in permutations(numbered)
            if all(
                one[0] < other[0]
                for at, one in enumerate(order)
                for other in order[at + 1 :]
                if one[1][0] == other[1][0]
            )
        ]
        chosen = [arrival for _, arrival in self._choose(allowed)]
        self.trace.append((now, rank, tuple(port for port, _, _ in chosen)))
        super()._act(now, rank, chosen, missing, rows)


def by_brute_force(line: str) -> tuple[int, set[str]]:
    """Run every order of the events of a whole network, and return the number of different executions, and all hashes."""
    plan = Case(line).plan
    costs, limit = costs_of(plan.scenario), plan.scenario.step_limit
    fault_free = completed(prediction(without_protocols(plan.algorithm), (), costs, limit))
    steps = FaultFreeSteps(fault_free.packets, costs)
    faults = timed_faults(plan.faults, steps)

    inputs = PredictionInputs(faults, fault_free, costs, steps, limit)
    plans = None if plan.spec.has_control else inputs.plans()
    traces, hashes = set(), set()
    left: list[list[int]] = [[]]
    while left:
        choices = left.pop()
        engine = _Chosen(choices, make_algorithm(plan.topology, plan.spec), faults, costs, steps, limit, plans)
        journal = Journal()
        journal.add([bytes(rows) for rows in play(engine, limit=limit + 1)])
        journal.close()
        hashes.add(journal.hash)
        traces.add(tuple(engine.trace))
        for number in range(len(choices), len(engine.options)):
            done = [*choices, *[0] * (number - len(choices))]
            left += [[*done, other] for other in range(1, engine.options[number])]
    return len(traces), hashes


@pytest.mark.parametrize("line", TINY)
def test_orders_are_counted_as_by_brute_force(line: str) -> None:
    found = every_order(Case(line).plan)
    count, hashes = by_brute_force(line)
    assert count > 1
    assert (prod(found.orders.values()), {found.journal_hash}) == (count, hashes)


@pytest.mark.parametrize("order", [3, 4, 5])
def test_number_of_orders_has_a_closed_form(order: int) -> None:
    """In a reduce over a star of its root all others send at once, and all their packets arrive at once."""
    found = every_order(Case(f"complete:{order} reduce bfs-tree clock=timed").plan)
    assert prod(found.orders.values()) == factorial(order - 1) ** 2


def test_packets_of_one_port_keep_their_order() -> None:
    arrivals: list[Arrival] = [(0, 1, ()), (1, 1, ()), (0, 2, ()), (2, 1, ())]
    orders = list(merges(arrivals))
    assert len(orders) == len(set(map(tuple, orders))) == factorial(4) // 2
    assert all(order.index(arrivals[0]) < order.index(arrivals[2]) for order in orders)


# --- mutants ---------------------------------------------------------------------------------------------------------


def test_a_rank_that_reads_in_the_order_of_arrival_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsorted(values: Any, key: Any = None) -> list[Any]:
        return sorted(values, key=key) if key else list(values)

    monkeypatch.setattr(through_protocol, "sorted", unsorted, raising=False)
    found = every_order(Case("hypercube:2 broadcast flood clock=timed reliable=true").plan).deviation
    assert found is not None
    assert (found.label, found.timed) == ("11", True)
    assert "11: other actions in the order packet on port " in found.words()


def test_ranks_that_share_what_they_change_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    transmit = vars(on_arrival)["transmit"]

    def lose_the_third(faults: Any, *arguments: Any) -> Any:
        faults.sent = getattr(faults, "sent", 0) + 1
        sent, lost, free = transmit(faults, *arguments)
        return (None, [sent], free) if faults.sent == 3 else (sent, lost, free)

    monkeypatch.setattr(on_arrival, "transmit", lose_the_third)
    found = every_order(Case("hypercube:2 broadcast flood clock=timed").plan).deviation
    assert found is not None
    assert found.words().endswith("all ranks: another journal in the order 10, 01")


def test_beyond_the_bound_the_claim_is_undecided(call: Call) -> None:
    line = "certify --every-order --topology star:3 --algorithm flood --clock timed --fault crash:213@2"
    ended = call(f"{line} --executions 5")
    assert (ended.status, "the bound of 5 was reached" in ended.out) == (3, True)
    ended = call(line)
    assert (ended.status, " times" in ended.out) == (0, True)
