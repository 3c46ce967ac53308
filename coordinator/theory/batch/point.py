"""One point of a campaign: the draws of a fault set, evaluated by number."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coordinator.planning.plan import Plan
from coordinator.scenario.blocks import Link
from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.theory.batch.draws import DrawnPlaces
from coordinator.theory.batch.engine import BatchEngine, BatchOutcome, count_by_trial
from coordinator.theory.batch.exactness import why_inexact
from coordinator.theory.batch.fault_batch import FaultBatch, effects_of, episodes_of
from coordinator.theory.dependence.bit_rows import Bits, Indices, no_trials, numbers
from emunode.faults.effects import Alters
from emunode.faults.kinds import LinkFault


def why_messages(plan: Plan, fault_set: FaultSetSpec) -> str | None:
    """Return why a point cannot be evaluated exactly, or None."""
    if fault_set.how == "process":
        return "the places of a process fail in steps of their own"
    if plan.scenario.clock != "steps":
        return why_inexact(plan)
    return why_inexact(plan, [fault_set.fault_of(term) for term in fault_set.parts if term.count or term.share])


class NumberedSets(Protocol):
    """Sets of faults by number: the draws of a point (`Draws`), or the sets of a certificate."""

    @property
    def fault_set(self) -> FaultSetSpec:
        """The description that all of them fit."""

    def struck(self, numbers: Indices) -> Sequence[DrawnPlaces]:
        """Return the places that each term strikes, for sets with these numbers."""


class PointEngine:
    """Evaluates the draws of one point. `seed_of` gives the seed of each draw."""

    def __init__(
        self, engine: BatchEngine, plan: Plan, draws: NumberedSets, sites: FaultSites, seed_of: Callable[[int], int]
    ) -> None:
        self.engine = engine
        self._plan = plan
        self._draws = draws
        self._seed_of = seed_of
        fault_set, end = draws.fault_set, plan.algorithm.final_step
        # As in `JudgedRun.effective_faults`: a fault that begins after the last step has no effect.
        self._late = end is not None and fault_set.window.start > end
        self._given = list(effects_of(plan.judged.effective_faults, engine.arcs))
        # A drawn place has no other fault, so the fault alone determines its random numbers.
        self._drawn = {
            term: [episode for episode, _ in episodes_of([fault_set.fault_of(term)])] for term in fault_set.parts
        }
        ends = np.array(sites.links, np.int64).reshape(-1, 2)
        self._ends = ends
        self._arcs = [self._arcs_of(sites.links), self._arcs_of([(there, here) for here, there in sites.links])]

    def _arcs_of(self, directions: Iterable[Link]) -> Indices:
        """Return for each link the arc of one direction, or -1 if the schedule does not use that direction."""
        adjacent = self._plan.topology.adjacent
        ports = [(here, next(port for port, peer in adjacent(here) if peer == there)) for here, there in directions]
        pairs = np.array(ports, np.int64).reshape(-1, 2)
        return self.engine.arcs.numbers(pairs[:, 0], pairs[:, 1])

    def evaluate(
        self, drawn: Indices, *, copies: bool = False, latencies: bool = False
    ) -> tuple[BatchOutcome, NDArray[np.bool_]]:
        """Return the results of the draws with these numbers, and the broken promises.

        The second array says whether each draw breaks a promise of theory about deliveries.
        """
        episodes = [*(episode for episode, _ in self._given), *chain.from_iterable(self._drawn.values())]
        lossy = any(episode.stream for episode in episodes)
        # Seeds matter only where packets are lost at random, and making them takes time.
        seeds = [self._seed_of(number) for number in drawn.tolist()] if lossy else None
        batch = FaultBatch(self.engine.arcs, len(drawn), seeds or [self._plan.spec.seed] * len(drawn))
        batch.strike_all(self._given)
        struck = [] if self._late else self._draws.struck(drawn)
        for each in struck:
            self._strike(batch, each)
        outcome = self.engine.evaluate(batch, copies=copies, latencies=latencies)
        # By the rules of `judge_run`: where nothing was delivered intact, a claim about deliveries is undecided.
        # Only decided trials can break a promise: with a faulty source nothing is promised.
        broken = outcome.decided & ~outcome.served & (outcome.intact > 0)
        if broken.any():
            # Promises are looked up only for the few trials with a loss.
            broken &= self._promised(batch, struck)
        return outcome, broken

    def _strike(self, batch: FaultBatch, drawn: DrawnPlaces) -> None:
        for episode in self._drawn[drawn.term]:
            if not episode.on_links:
                batch.strike_nodes(episode, drawn.places, drawn.draws)
                continue
            for arcs in self._arcs:
                batch.strike_arcs(episode, arcs[drawn.places], drawn.draws)

    # --- promises ------------------------------------------------------------------------------------------------------

    def _promised(self, batch: FaultBatch, struck: Sequence[DrawnPlaces]) -> NDArray[np.bool_]:
        """Return whether the algorithm promises every delivery under the faults of each trial.

        Faults are counted as in the claims of a single run.
        """
        algorithm, trials = self._plan.algorithm, batch.trials
        faulty = self.engine.faulty(batch)
        altering = no_trials(len(faulty), batch.words)
        for episode, rows in batch.effects.items():
            if isinstance(episode.effect, Alters):
                altering |= rows
        forging = count_by_trial(altering, trials)
        broken = count_by_trial(faulty, trials) - forging + self._broken_links(faulty, struck, trials)
        # With altered copies a majority has to be right.
        least = min(algorithm.tolerated_faults, self._plan.spec.redundancy - 1)
        bound = np.where(forging > 0, least, algorithm.tolerated_faults)
        # A forger takes a vote from the right value and gives it to a wrong one, so it counts twice.
        kept: NDArray[np.bool_] = broken + 2 * forging <= bound
        return kept

    def _broken_links(self, faulty: Bits, struck: Sequence[DrawnPlaces], trials: int) -> Indices:
        """Count the broken links of each trial; a faulty node breaks its links."""
        broken = np.zeros(trials, np.int64)
        for each in struck:
            if each.term.on_links and self._drawn[each.term]:
                ends = self._ends[each.places]
                # A broken link at a faulty node is no further fault.
                own = _has(faulty, ends[:, 0], each.draws) | _has(faulty, ends[:, 1], each.draws)
                # A draw may have several broken links; `add.at` counts each of them.
                np.add.at(broken, each.draws, ~own)
        topology = self._plan.topology
        given = {
            (min(pair), max(pair))
            for fault in self._plan.judged.effective_faults
            if isinstance(fault, LinkFault) and fault.breaks
            for pair in [(fault.sender, topology.neighbour(fault.sender, fault.port))]
        }
        # A link of a faulty node is already counted with the node.
        for here, there in given:
            broken += numbers([~(faulty[here] | faulty[there])], trials)
        return broken


def _has(rows: Bits, things: Indices, trials: Indices) -> NDArray[np.bool_]:
    """Return whether the row of each thing has the bit of its trial."""
    words = rows[things, trials >> 6] >> (trials & 63).astype(np.uint64)
    has_bit: NDArray[np.bool_] = (words & np.uint64(1)).astype(np.bool_)
    return has_bit
