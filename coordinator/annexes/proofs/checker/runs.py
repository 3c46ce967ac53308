"""Runs that check a certificate by cuts: its counterexample, and some sets that are proved to be survived."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from coordinator.annexes.proofs.checker.paths import run_rows
from coordinator.annexes.proofs.checker.subject import Subject
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.scenario.fault_syntax import parse_faults
from emunode.faults.kinds import NodeFault
from emunode.model import ALL_RANKS, HopOutcome, Rank

SAMPLED_SETS: Final = 10
"""Sets of the largest level without a failing set that are run."""
ARRIVED: Final = frozenset({HopOutcome.FIRST, HopOutcome.DUPLICATE, HopOutcome.CORRUPT})


class Runs:
    """Runs of the message engine under sets of faults, where the copies of a message take fixed paths."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def unserved(self, specs: Sequence[str]) -> set[Rank]:
        """Return the healthy nodes that miss a message, by a run of the message engine and a vote of its copies."""
        faults = parse_faults((*self._subject.plan.scenario.fault, *specs), self._subject.plan.topology)
        faulty = {fault.rank for fault in faults if isinstance(fault, NodeFault)}
        votes: dict[tuple[Rank, tuple[Rank, Rank, int]], dict[int, bool]] = {}
        for _, _, receiver, origin, target, segment, _, tree, _, outcome in run_rows(self._subject.plan, faults):
            if outcome in ARRIVED and target in (ALL_RANKS, receiver):
                votes.setdefault((receiver, (origin, target, segment)), {}).setdefault(
                    tree, outcome != HopOutcome.CORRUPT
                )
        missing = set()
        for (origin, receiver), pieces in self._subject.schedule.due.items():
            if origin not in faulty and receiver not in faulty:
                cast = [list(votes.get((receiver, piece), {}).values()) for piece in pieces]
                if any(2 * sum(each) <= len(each) for each in cast):
                    missing.add(receiver)
        return missing

    def sample(self, level: Mapping[str, Any], fault_set: FaultSetSpec) -> None:
        """Run some sets of a level that is proved; none of them may cost a node a message."""
        nodes, links = (sorted(each) for each in self._subject.places)
        draw = Random(self._subject.data["schedule"]["sha256"])
        for _ in range(min(SAMPLED_SETS, level["sets"])):
            free: dict[bool, list[Any]] = {False: list(nodes), True: list(links)}
            chosen = []
            for at, part in enumerate(fault_set.parts):
                for place in draw.sample(free[part.on_links], part.count):
                    free[part.on_links].remove(place)
                    chosen.append((at, place))
            specs = self._subject.specs(chosen, fault_set)
            unserved = self.unserved(specs)
            if unserved:
                self._subject.findings.append(
                    f"{level['faults']}: a run with {', '.join(specs)[:200]} leaves rank {min(unserved)} unserved"
                )
                return
