"""A contribution that is folded three times has the right payload, and is found by counting."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

from coordinator.history.journal import table
from coordinator.planning.plan import Plan
from coordinator.results.conclude import History, conclude
from emunode.algorithms.base import LocalView, Rule
from emunode.algorithms.conformance import check_algorithm
from emunode.algorithms.folding import FoldRule
from emunode.algorithms.star.multiple_trees import GreedyBroadcast
from emunode.algorithms.transforms import backwards
from emunode.errors import ContractError
from emunode.model import PortPacket, Rank, ScheduledSend, Segment, Step
from emunode.topologies.registry import parse_topology
from tests.helpers.mutation_support import Records, history_of
from tests.helpers.scenarios import Case

GreedyReduce = backwards(GreedyBroadcast)
CASES = [
    "star:4 reduce greedy-tree",
    "star:4 reduce-scatter mbst",
    "hypercube:3 allreduce sbt port_model=one-port",
    "petersen:5,2 allreduce bfs-tree",
    "complete:6 allreduce recursive-doubling port_model=one-port",
]


def metrics_of(plan: Plan, records: Records) -> dict[str, object]:
    """Return the metrics of a journal."""
    return dict(conclude(plan, History(table(records).lazy(), len(records)), replay=False).metrics)


@pytest.mark.parametrize("text", CASES)
def test_every_contribution_is_counted_once(text: str) -> None:
    plan = Case(text).plan
    assert metrics_of(plan, history_of(plan))["miscounted_results"] == 0


@pytest.mark.parametrize("text", CASES)
def test_a_contribution_that_is_missing_or_sent_again_is_counted(text: str) -> None:
    plan = Case(text).plan
    records = history_of(plan)
    partial = [place for place, row in enumerate(records) if row["target"] >= 0]
    for place in (partial[0], partial[len(partial) // 2], partial[-1]):
        kept = [number for number in range(len(records)) if number != place]
        assert metrics_of(plan, records[kept])["miscounted_results"]
        thrice = sorted([*range(len(records)), place, place])
        assert metrics_of(plan, records[thrice])["miscounted_results"]


def test_a_result_that_is_distributed_too_early_is_counted() -> None:
    plan = Case("petersen:5,2 allreduce bfs-tree").plan
    records = history_of(plan)
    records["step"][records["target"] < 0] -= 2
    assert metrics_of(plan, records)["miscounted_results"] == 1


class SendsThrice(FoldRule):
    """Sends its partial result in the scheduled step and in the two steps after it."""

    __slots__ = ()

    def start(self) -> Iterator[ScheduledSend]:
        for step, port, made in super().start():
            assert callable(made)
            segment = Again(made)
            yield from ((step + later, port, segment) for later in range(3))


class Again:
    """Makes a segment once, and gives the same one afterwards."""

    def __init__(self, made: object) -> None:
        self._made, self._segment = made, None

    def __call__(self) -> Segment:
        if self._segment is None:
            self._segment = self._made()  # type: ignore[operator]
        return self._segment  # type: ignore[return-value]


class OneLeafSendsThrice(GreedyReduce):  # type: ignore[valid-type, misc]
    """A reduce with a neighbour of the root that repeats itself."""

    def rule(self, view: LocalView) -> Rule:
        return SendsThrice(self, view) if view.rank == LAST else FoldRule(self, view)


LAST: Rank = 1


def test_a_repeated_partial_result_is_found_despite_its_payload() -> None:
    plan = Case("star:4 reduce greedy-tree").plan
    mutated = replace(plan, algorithm=OneLeafSendsThrice(plan.topology, plan.spec))
    records = history_of(mutated)
    conclusion = conclude(plan, History(table(records).lazy(), len(records)), replay=False)
    # Three times is once for exclusive or: the delivery looks intact.
    assert conclusion.metrics["intact_deliveries"] == 1
    assert conclusion.metrics["miscounted_results"] == 1
    assert conclusion.ruling.verdict == "violated"


class FoldsThrice(FoldRule):
    """Folds every partial result three times."""

    __slots__ = ()

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        for _ in range(3):
            super().receive(step, packets)
        return ()


class ReduceThatFoldsThrice(GreedyReduce):  # type: ignore[valid-type, misc]
    """A reduce by exclusive or that is right only because three is odd."""

    def rule(self, view: LocalView) -> Rule:
        return FoldsThrice(self, view)


def test_conformance_finds_a_rule_that_folds_three_times() -> None:
    plan = Case("star:4 reduce greedy-tree").plan
    mutated = replace(plan, algorithm=ReduceThatFoldsThrice(plan.topology, plan.spec))
    # Neither the payloads nor the hops of a run show it.
    assert (history_of(mutated) == history_of(plan)).all()
    check_algorithm(GreedyReduce, parse_topology("star:4"))
    with pytest.raises(ContractError, match="wrong payload"):
        check_algorithm(ReduceThatFoldsThrice, parse_topology("star:4"))
