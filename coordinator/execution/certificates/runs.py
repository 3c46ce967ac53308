"""Checks of a certificate that run sets of faults with the message engine."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from random import Random
from typing import Any, Final

from coordinator.execution.certificates.paths import Place, Threat, every_set, run_rows
from coordinator.execution.certificates.subject import Subject
from coordinator.history.journal import sorted_records
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.scenario.fault_syntax import parse_faults
from emunode.faults.kinds import FOREVER, NodeFault
from emunode.model import ALL_RANKS, HopOutcome, Rank
from emunode.net.wire import ROW

MOST_RUN_HOPS: Final = 1_000_000
"""About the most hops in all runs of one verification."""
SAMPLED_SETS: Final = 10
"""Sets of the largest level without a failing set that are run."""
ARRIVED: Final = frozenset({HopOutcome.FIRST, HopOutcome.DUPLICATE, HopOutcome.CORRUPT})


class Runs:
    """Runs of the message engine under sets of faults, within a bound on their hops."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._left = max(SAMPLED_SETS, MOST_RUN_HOPS // max(1, len(subject.schedule.rows)))

    def level(self, level: Mapping[str, Any], fault_set: FaultSetSpec) -> None:
        """Run every set of a level if there are few, else those whose histories are stored and some others."""
        name = level["faults"]
        for history in level["histories"][:SAMPLED_SETS]:
            self._history(name, history)
        whole = level["survived"][0] == level["sets"] and not level["undecided"]
        if not whole:
            return
        threat = Threat(tuple(part.kind for part in fault_set.parts), 1, FOREVER, *self._subject.places)
        if level["sets"] > self._left:
            self._subject.undecided(f"{name}: {level['sets']} sets are too many to run again; some of them were")
        for chosen in islice(every_set(fault_set, threat), self._left):
            self._left -= 1
            specs = self._specs(chosen, fault_set)
            unserved = self.unserved(specs)
            if unserved:
                self._subject.findings.append(f"{name}: under {', '.join(specs)} rank {min(unserved)} misses a message")
                return

    def _specs(self, chosen: Sequence[tuple[int, Place]], fault_set: FaultSetSpec) -> list[str]:
        label, found = self._subject.plan.topology.label, []
        for part, place in chosen:
            term = fault_set.parts[part]
            where = label(place) if isinstance(place, int) else "~".join(map(label, place))
            found.append(f"{term.kind}:{where}{term.argument}@{fault_set.when}")
        return found

    def _run(self, specs: Sequence[str]) -> list[tuple[int, ...]]:
        return run_rows(self._subject.plan, specs)

    def unserved(self, specs: Sequence[str]) -> set[Rank]:
        """The healthy nodes that miss a message, by a run of the message engine and a vote of its copies."""
        faults = parse_faults((*self._subject.plan.scenario.fault, *specs), self._subject.plan.topology)
        faulty = {fault.rank for fault in faults if isinstance(fault, NodeFault)}
        votes: dict[tuple[Rank, tuple[Rank, Rank, int]], dict[int, bool]] = {}
        for _, _, receiver, origin, target, segment, _, tree, _, outcome in self._run(specs):
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

    def _history(self, name: str, history: Mapping[str, Any]) -> None:
        """Run a set whose history is stored."""
        rows = b"".join(ROW.pack(*row) for row in self._run(history["faults"]))
        digest = blake2b(sorted_records([rows]).tobytes(), digest_size=16).hexdigest()
        if digest != history["journal_hash"]:
            specs = ", ".join(history["faults"])[:80] or "no faults"
            self._subject.findings.append(
                f"{name}: under {specs} the history is {digest}, and not {history['journal_hash'][:40]}"
            )

    def sample(self, level: Mapping[str, Any], fault_set: FaultSetSpec) -> None:
        """Run some sets of a level that is proved; none of them may cost a node a message."""
        nodes, links = (sorted(each) for each in self._subject.places)
        draw = Random(self._subject.data["schedule"]["sha256"])
        for _ in range(min(SAMPLED_SETS, self._left, level["sets"])):
            free: dict[bool, list[Any]] = {False: list(nodes), True: list(links)}
            chosen = []
            for at, part in enumerate(fault_set.parts):
                for place in draw.sample(free[part.on_links], part.count):
                    free[part.on_links].remove(place)
                    chosen.append((at, place))
            specs = self._specs(chosen, fault_set)
            unserved = self.unserved(specs)
            if unserved:
                self._subject.findings.append(
                    f"{level['faults']}: a run with {', '.join(specs)[:200]} leaves rank {min(unserved)} unserved"
                )
                return
