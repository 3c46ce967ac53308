"""The batch engine: the results of thousands of fault sets at once.

`follow` takes the sets from hop to hop. Segments, votes, messages, and the nodes that miss a message follow from the
hops by the definitions of `coordinator.results` for a journal.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from coordinator.planning.plan import Plan
from coordinator.results.claims import roots_of
from coordinator.results.deliveries import count_deliveries, record_arrivals
from coordinator.results.metrics import NOTHING_DUE
from coordinator.theory.batch.exactness import PASS_BYTES
from coordinator.theory.batch.fault_batch import Arcs, BatchEffects, FaultBatch, has_values
from coordinator.theory.batch.latency import Latencies, LatencyCounter
from coordinator.theory.dependence.bit_rows import (
    Bits,
    Indices,
    added,
    counted,
    first_trials,
    greater,
    no_trials,
    numbers,
    unpacked,
    words_for,
)
from coordinator.theory.dependence.follow import Flow, follow
from coordinator.theory.dependence.losses import owners_are_silent
from coordinator.theory.dependence.schedule import Schedule, due_messages, trace
from coordinator.theory.dependence.size import InexactError
from emunode.model import FOLDING, Collective, Rank, Step


@dataclass(frozen=True)
class BatchOutcome:
    """The results of some trials; arrays have an entry per trial."""

    expected: Indices
    """Messages due to healthy ranks."""
    delivered: Indices
    """Messages with every segment received, intact or not."""
    intact: Indices
    unserved: Indices
    """Healthy ranks that miss a message due to them."""
    decided: NDArray[np.bool_]
    """Whether a trial enters the statistics: no single source or target is faulty, and some message is due."""
    steps: Indices
    """The last step with a send."""
    segments: Indices
    """Segments sent, whether they arrive or not."""
    packets: Indices
    least_copies: Indices
    """Fewest intact copies of a segment, over the segments due to healthy ranks; 0 where a message is missing."""
    elected: NDArray[np.int64]
    """Due segments whose right value, a wrong value or no value was elected: three rows."""
    latencies: Latencies | None
    missing: Bits
    """By receiver, in the order of `BatchEngine.ranks`: the trials where it is healthy and misses a message."""

    @property
    def served(self) -> NDArray[np.bool_]:
        """Whether every healthy rank received every message due to it."""
        complete: NDArray[np.bool_] = self.intact == self.expected
        return self.decided & complete


class BatchEngine:
    """Evaluates fault sets against one schedule. `plan` gives the network and the collective; its faults are not used."""

    def __init__(self, plan: Plan, schedule: Schedule) -> None:
        self.plan = plan
        self.schedule = schedule
        self.arcs = Arcs(plan.topology, schedule)
        self._folds = plan.spec.collective in FOLDING
        self._due = due_messages(plan.algorithm, schedule)
        # Nothing is due to switches, nor from them.
        self._data = np.array(plan.topology.data_ranks, np.int64)
        self._roots = np.array([root for root, _ in roots_of(plan)], np.int64)
        self._silent = owners_are_silent(plan.algorithm)

    @property
    def ranks(self) -> Indices:
        """The ranks that messages are due to, in the order of `BatchOutcome.missing`."""
        return self._due.ranks

    @property
    def votes(self) -> bool:
        """Whether every tree brings one copy of a segment at most, so that each copy is one vote."""
        return self._due.votes

    def evaluate(self, batch: FaultBatch, *, copies: bool = False, latencies: bool = False) -> BatchOutcome:
        """Return the results of every trial.

        `least_copies` and `elected` are zeros without `copies`; `latencies` are None unless requested.
        """
        # The rows that one pass holds for each hop: the state of the hop, and for contents that may be wrong two more
        # planes with their intermediate results.
        rows = len(self.schedule) * ((8 if has_values(batch, folds=self._folds) else 3) + latencies)
        # A pass needs some rows for every hop, so the trials are cut into passes whose rows fit into a fixed amount of
        # memory.
        words = max(1, PASS_BYTES // (8 * rows))
        starts = range(0, batch.words, words)
        parts = (batch.part(slice(start, start + words)) for start in starts)
        return _joined([self._evaluate(part, copies=copies, latencies=latencies) for part in parts])

    def _evaluate(self, batch: FaultBatch, *, copies: bool, latencies: bool) -> BatchOutcome:
        return self.outcome(self._flow(batch), self.faulty(batch), batch.trials, copies=copies, latencies=latencies)

    def _flow(self, batch: FaultBatch) -> Flow:
        return follow(self.schedule, BatchEffects(self.schedule, batch, folds=self._folds))

    def outcome(
        self, flow: Flow, faulty: Bits, trials: int, *, copies: bool = False, latencies: bool = False
    ) -> BatchOutcome:
        """Return the results of trials from the states of their hops; `faulty` as the method of this name returns it."""
        due = self._due
        healthy = first_trials(trials) & ~faulty
        arrived = due.copies.any(flow.arrived)
        intact = arrived
        least, elected = np.zeros(trials, np.int64), np.zeros((3, trials), np.int64)
        if copies or flow.wrong is not None:
            right = due.copies.counts(flow.right)
            wrong = due.copies.counts(flow.arrived & ~flow.right)
            # More right copies than wrong copies means more than half of the votes, as every copy is one vote.
            intact = greater(right, wrong)
            if copies:
                least = self._least(right, healthy, trials)
                elected = self._elections(flow, arrived, intact, right, healthy, trials)
        # A message is lost in a trial if it is due there and some segment of it is not intact.
        owed = self._owed(healthy, due.receiver, due.owner)
        lost = owed & ~due.segments.all(intact)
        missing = due.by_receiver.any(lost)
        expected = self._expected(healthy, owed, trials)
        lost_count = count_by_trial(lost, trials)
        # Where no content can be wrong, messages are incomplete exactly if they are not intact.
        incomplete = lost_count if intact is arrived else count_by_trial(owed & ~due.segments.all(arrived), trials)
        # The trials with a faulty single source or target: they are undecided, like such a run.
        broken = reduce(or_, faulty[self._roots], no_trials(1, words_for(trials))[0])
        times = None
        if latencies:
            times = self._latencies.count(flow.right, owed, due.by_receiver.any(owed) & ~missing & ~broken, trials)
        return BatchOutcome(
            expected=expected,
            delivered=expected - incomplete,
            intact=expected - lost_count,
            unserved=count_by_trial(missing, trials),
            decided=(unpacked(broken)[:trials] == 0) & (expected > 0),
            steps=flow.steps,
            segments=flow.segments,
            packets=flow.packets,
            least_copies=np.where(lost_count == 0, least, 0),
            elected=elected,
            latencies=times,
            missing=missing,
        )

    def faulty(self, batch: FaultBatch) -> Bits:
        """Return for each rank the trials where it has a fault of its own at any time."""
        rows = no_trials(self.plan.topology.order, batch.words)
        for episode, struck in batch.effects.items():
            if not episode.on_links:
                rows |= struck
        return rows

    def unserved_ranks(self, outcome: BatchOutcome, trial: int) -> list[Rank]:
        """Return the healthy ranks that miss a message in one trial, ascending."""
        # Trial t is bit t mod 64 of word t div 64.
        bits = outcome.missing[:, trial >> 6] >> np.uint64(trial & 63) & np.uint64(1)
        return sorted(self.ranks[bits.astype(np.bool_)].tolist())

    def informed(self, batch: FaultBatch) -> Iterator[tuple[Step, Bits]]:
        """Yield for each step, by receiver, the trials where it has all its messages.

        Rows are in the order of `ranks`. Each segment counts from the first right copy of it. Rows of ranks that are
        faulty, and of messages that are not due, are included. Uses memory for all trials at once: pass batches of
        moderate size.
        """
        due, flow = self._due, self._flow(batch)
        # The inverse of the groups of copies: the segment that each hop brings, or -1 for a hop that only passes through.
        segment = np.full(len(self.schedule), -1)
        for column in due.copies.columns:
            segment[column] = np.arange(len(column))
        # A segment is there from its first right copy on, so bits are only ever added.
        segments = no_trials(len(due.copies), batch.words)
        for step, part in self.schedule.rounds:
            arriving = np.flatnonzero(segment[part] >= 0)
            # Two copies of one segment may arrive in one step, so the rows are not assigned at once.
            np.bitwise_or.at(segments, segment[part][arriving], flow.right[part][arriving])
            yield step, due.by_receiver.all(due.segments.all(segments))

    @cached_property
    def _latencies(self) -> LatencyCounter:
        return LatencyCounter(self.schedule, self._due, self._messages_of_segments)

    # --- what is due -------------------------------------------------------------------------------------------------

    def _owed(self, healthy: Bits, receiver: Indices, owner: Indices) -> Bits:
        """Return the trials where messages of these owners are due to these receivers."""
        rows = healthy[receiver]
        return rows & healthy[owner] if self._silent else rows

    def _expected(self, healthy: Bits, owed: Bits, trials: int) -> Indices:
        """Count the messages due in each trial: like `messages_due`, from the number of healthy ranks."""
        alive, roots = count_by_trial(healthy[self._data], trials), count_by_trial(healthy[self._roots], trials)
        others = np.maximum(alive - 1, 0)
        match self.plan.spec.collective:
            case Collective.BROADCAST | Collective.SCATTER:
                # All nodes but the source; a faulty source is not among `alive`.
                pairs = alive - roots
            case Collective.GATHER:
                pairs = roots * others
            case Collective.REDUCE:
                pairs = roots
            case Collective.ALLGATHER | Collective.ALLTOALL:
                pairs = alive * others
            case Collective.REDUCE_SCATTER:
                pairs = alive
            case Collective.ALLREDUCE:
                # A message for each block: of every healthy rank, or the one result.
                pairs = alive * (alive if self._silent else 1)
            case Collective.UNICAST | Collective.MESSAGES:
                return count_by_trial(owed, trials)
        return self.plan.spec.messages * pairs

    # --- copies and votes --------------------------------------------------------------------------------------------

    @cached_property
    def _messages_of_segments(self) -> Indices:
        """By segment, the place of its message in the results of `DueMessages.segments`."""
        messages = np.empty(len(self._due.copies), np.int64)
        for column in self._due.segments.columns:
            messages[column] = np.arange(len(column))
        return messages

    def _owed_segments(self, healthy: Bits) -> Bits:
        due, message = self._due, self._messages_of_segments
        return self._owed(healthy, due.receiver[message], due.owner[message])

    def _least(self, right: Sequence[Bits], healthy: Bits, trials: int) -> Indices:
        """Return the fewest right copies of a segment that is due; NOTHING_DUE where none is."""
        owed = self._owed_segments(healthy)
        least = np.zeros(trials, np.int64)
        for copies in range(len(self._due.copies.columns)):
            # The number `copies` in planes: all bits 1 where the number has a 1, else all bits 0.
            bound = [owed | ~owed if copies >> at & 1 else owed & ~owed for at in range(copies.bit_length())]
            # Trials where every due segment has more than `copies` right copies count 1, so the sum is the smallest number
            # of copies.
            least += numbers([np.bitwise_and.reduce(greater(right, bound) | ~owed, axis=0)], trials)
        # Where nothing is due, every threshold is exceeded, and the sum would mean nothing.
        nothing = numbers([np.bitwise_or.reduce(owed, axis=0)], trials) == 0
        return np.where(nothing, NOTHING_DUE, least)

    def _elections(
        self, flow: Flow, arrived: Bits, intact: Bits, right: Sequence[Bits], healthy: Bits, trials: int
    ) -> NDArray[np.int64]:
        """Return the due segments whose right value, a wrong value or no value was elected."""
        copies, won = self._due.copies, np.zeros_like(arrived)
        if flow.wrong is not None and flow.apart is not None:
            # Votes are cast by copies that arrive; a wrong copy is either the common forgery or has a value of its own.
            bad = flow.arrived & flow.wrong
            common, apart = copies.counts(bad & ~flow.apart), copies.counts(bad & flow.apart)
            # A value wins against all others together.
            won |= greater(common, added(right, apart))
            # Values that no other copy has win only if there is no other copy.
            others = reduce(or_, (*right, *common, *apart[1:]))
            won |= apart[0] & ~others
        voted = arrived & self._owed_segments(healthy)
        return np.stack(
            [count_by_trial(rows, trials) for rows in (voted & intact, voted & won, voted & ~intact & ~won)]
        )


def count_by_trial(rows: Bits, trials: int) -> Indices:
    """Count for each trial the rows that have its bit set."""
    if not rows.any():
        return np.zeros(trials, np.int64)
    return numbers(counted(rows), trials)


def _joined(parts: Sequence[BatchOutcome]) -> BatchOutcome:
    if len(parts) == 1:
        return parts[0]
    # Every part but the last fills its words, so rows of bits join like numbers per trial.
    names = [each.name for each in fields(BatchOutcome) if each.name != "latencies"]
    times = [part.latencies for part in parts if part.latencies is not None]
    return BatchOutcome(
        **{name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names},
        latencies=Latencies.joined(times) if times else None,
    )


def batch_engine_of(plan: Plan) -> BatchEngine:
    """Return the engine of a plan. Raises InexactError if `why_inexact` has a reason."""
    # Faults come with each batch; the faults of the plan must not enter the schedule.
    free = replace(plan, faults=())
    # The traced run is counted by the code for journals: if the schedule does not deliver everything, no result can be
    # trusted.
    schedule, records = trace(plan.algorithm, plan.scenario.step_limit)
    metrics = count_deliveries(free, record_arrivals(free, records)[0]).metrics
    if metrics["intact_deliveries"] != metrics["expected_deliveries"] or not len(schedule):
        raise InexactError("without faults it does not deliver every message")
    engine = BatchEngine(free, schedule)
    if not engine.votes:
        raise InexactError("a tree brings several copies of a segment to one rank")
    return engine
