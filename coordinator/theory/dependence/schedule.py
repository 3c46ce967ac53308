"""The schedule of a collective: every hop of a run without faults, and the earlier hops that it depends on.

In a fixed schedule a node sends each packet in its step, whatever else arrives. A hop then depends on two things alone:
on the earlier hop that brought its copy to the sender (*carried*), and, where contributions are folded, on the hops
whose contents went into its partial result (*folded*). Without the carried hop it is not sent; without a folded hop it
is sent with wrong content. So outages and losses can be followed from hop to hop, whatever the algorithm is.

`trace` finds both from a run in memory; `message_paths` has the chain of hops of every copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from coordinator.history.journal import RECORD, Records, sorted_records
from coordinator.theory.dependence.bit_rows import Groups, Indices, grouped
from coordinator.theory.dependence.size import MOST_STEPS, TRACE_HOPS, InexactError
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import make_algorithm
from emunode.algorithms.tree_collective import original_of
from emunode.engine.memory import MemoryEngine
from emunode.model import ALL_RANKS, FOLDING, Step
from emunode.play import play

MOST_KEYS: Final = 2**44
"""Combinations of ranks, trees and segments; times MOST_STEPS they fit into 64 bits."""
BEGIN: Final = -1
"""In `Schedule.carried`: a hop that begins at the rank that has its content."""


@dataclass(frozen=True)
class StepHops:
    """The hops of one step."""

    step: Step
    part: slice
    """The numbers of the hops."""
    carried: Indices
    """By hop, the hop that brought the copy, or BEGIN."""
    packets: Indices
    """Positions of the first hops of packets; the other hops of a packet follow."""
    begins: Indices
    """Positions of the hops that begin at their sender."""
    folding: Indices
    """Positions of the hops that carry a fold, in the order of the results of `folds`."""
    folds: Groups
    """For each of these, the hops whose contents were folded."""


@dataclass(frozen=True)
class Schedule:
    """The hops of a run without faults, in order of steps; arrays have an entry per hop."""

    step: Indices
    sender: Indices
    port: Indices
    receiver: Indices
    origin: Indices
    target: Indices
    """The rank that the copy is for, or ALL_RANKS."""
    tree: Indices
    segment: Indices
    size: Indices
    """Bytes of the payload."""
    carried: Indices
    """The hop that brought the copy to the sender, or BEGIN."""
    fold_starts: Indices
    """With `fold_stops`: the part of `fold_order` that has the hops whose contents the sender folded into this one."""
    fold_stops: Indices
    fold_order: Indices

    def __len__(self) -> int:
        return len(self.step)

    @cached_property
    def rounds(self) -> list[tuple[Step, slice]]:
        """Every step with hops, and these hops."""
        steps, starts = np.unique(self.step, return_index=True)
        ends = [*starts[1:].tolist(), len(self)] if len(self) else []
        return [
            (step, slice(start, end)) for step, start, end in zip(steps.tolist(), starts.tolist(), ends, strict=True)
        ]

    @cached_property
    def steps(self) -> list[StepHops]:
        """The hops of every step that has any, with what they depend on."""
        return [self._step_hops(step, part) for step, part in self.rounds]

    def _step_hops(self, step: Step, part: slice) -> StepHops:
        carried = self.carried[part]
        starts, stops = self.fold_starts[part], self.fold_stops[part]
        folding = np.flatnonzero(stops > starts)
        sizes = (stops - starts)[folding]
        # For each fold the whole range of `fold_order` from its start to its stop.
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        folds = Groups(self.fold_order[np.repeat(starts[folding], sizes) + within], sizes)
        packets = np.unique(self.packets[part], return_index=True)[1]
        return StepHops(step, part, carried, packets, np.flatnonzero(carried == BEGIN), folding[folds.order], folds)

    @cached_property
    def packets(self) -> Indices:
        """The number of the packet of each hop: segments that cross a link together have the same."""
        # The hops of a packet are adjacent in the order of a journal.
        new = np.zeros(len(self), np.bool_)
        for key in (self.step, self.sender, self.port):
            new[1:] |= key[1:] != key[:-1]
        return np.cumsum(new)

    def folded(self, hop: int) -> Indices:
        """Return the hops whose contents went into the content of this hop; empty where nothing is folded."""
        return self.fold_order[self.fold_starts[hop] : self.fold_stops[hop]]


_TRACED: Final[WeakKeyDictionary[Algorithm, tuple[Schedule, Records]]] = WeakKeyDictionary()


def trace(algorithm: Algorithm, step_limit: Step, most_hops: int = TRACE_HOPS) -> tuple[Schedule, Records]:
    """Return the schedule of an algorithm, traced once, and its journal.

    InexactError if the hops do not determine one another, or are too many.
    """
    if algorithm in _TRACED:
        return _TRACED[algorithm]
    engine, rows, hops, limit = MemoryEngine(algorithm), [], 0, min(step_limit, MOST_STEPS)
    for turn in play(engine, limit=limit):
        rows.append(turn)
        hops += len(turn) // RECORD.itemsize
        # Checked during the run: a run that is too long is not finished first.
        if hops > most_hops:
            raise InexactError(f"it has more than {most_hops:,} hops")
    if engine.busy:
        raise InexactError(f"without faults it does not end within {limit:,} steps")
    records = sorted_records(rows)
    _TRACED[algorithm] = _linked(algorithm, records), records
    return _TRACED[algorithm]


def plain_algorithm(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm without the protocols of a run; they send the same packets where nothing fails."""
    spec, plain = algorithm.spec, algorithm.spec.without_protocols()
    if original_of(algorithm) is not algorithm:
        # The trees of this algorithm are the trees that the repair has planned.
        return make_algorithm(algorithm.topology, plain)
    return algorithm if plain == spec else type(algorithm)(algorithm.topology, plain)


def _linked(algorithm: Algorithm, records: Records) -> Schedule:
    """Return the hops of a journal, each with the hops that it depends on."""
    column = {name: records[name].astype(np.int64) for name in records.dtype.names or () if name != "outcome"}
    step, sender, receiver = column["step"], column["sender"], column["receiver"]
    origin, target, segment = column["origin"], column["target"], column["segment"]
    count = len(step)
    folds = np.zeros(count, np.bool_)
    if algorithm.collective in FOLDING:
        # A partial result is folded by its sender; so is a finished one at the rank that owns it.
        folds = (target != ALL_RANKS) | (sender == origin)
        if bool((folds & (sender != origin)).any()):
            raise InexactError("partial results pass ranks that do not fold them")
    carried = _carried(column, relays=~folds & (sender != origin))
    starts, stops, order = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(0, np.int64)
    if folds.any():
        partial = np.flatnonzero(target != ALL_RANKS)
        # Recursive doubling folds all arrivals; a tree folds the arrivals for the same root.
        root = (
            np.zeros(count, np.int64)
            if algorithm.traits.folds_all_arrivals
            else np.where(target == ALL_RANKS, sender, target)
        )
        arrived, wanted = _keys((receiver[partial], root[partial], segment[partial]), (sender, root, segment))
        # Key and step as one number: arrivals with the same key are sorted by step, and never meet the arrivals of the
        # next key.
        most = int(step.max(initial=0)) + 2
        by_time = arrived * most + step[partial]
        place = np.argsort(by_time, kind="stable")
        order, by_time = partial[place], by_time[place]
        # The arrivals before the step of the send: a range, because equal keys are sorted by step.
        starts = np.where(folds, np.searchsorted(by_time, wanted * most), 0)
        stops = np.where(folds, np.searchsorted(by_time, wanted * most + step), 0)
    return Schedule(
        step, sender, column["port"], receiver, origin, target, column["tree"], segment, column["bytes"],
        carried, starts, stops, order,
    )  # fmt: skip


def _carried(column: dict[str, Indices], relays: NDArray[np.bool_]) -> Indices:
    """Return for each forwarding hop the hop that brought its copy.

    Raises InexactError unless there is exactly one.
    """
    what = [column[name] for name in ("origin", "target", "tree", "segment")]
    arrived, wanted = _keys((column["receiver"], *what), (column["sender"], *what))
    place = np.argsort(arrived, kind="stable")
    first = np.searchsorted(arrived[place], wanted)
    # How many arrivals have the name of the copy that is sent: exactly one may be the cause.
    number = np.searchsorted(arrived[place], wanted, side="right") - first
    if bool((number[relays] == 0).any()):
        raise InexactError("ranks send copies that they did not receive under the same name")
    if bool((number[relays] > 1).any()):
        raise InexactError("a rank passes on a copy that it receives more than once")
    carried = np.full(len(arrived), BEGIN, np.int64)
    carried[relays] = place[first[relays]]
    if bool((column["step"][carried[relays]] >= column["step"][relays]).any()):
        raise InexactError("a rank sends a copy before it receives it")
    return carried


def _keys(*tables: Sequence[Indices]) -> list[Indices]:
    """Return one number for each row of some tables with the same columns; rows with equal values have equal numbers."""
    keys = [np.zeros(len(table[0]), np.int64) for table in tables]
    values = 1
    for columns in zip(*tables, strict=True):
        # Mixed radix, with one range of values for all tables, so that equal rows get equal numbers in each of them.
        low = min(int(column.min(initial=0)) for column in columns)
        span = 1 + max(int(column.max(initial=0)) for column in columns) - low
        values *= span
        if values >= MOST_KEYS:
            raise InexactError("its ranks, trees and segments are too many to number")
        keys = [key * span + (column - low) for key, column in zip(keys, columns, strict=True)]
    return keys


# --- deliveries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DueMessages:
    """The messages of a schedule, by the copies of their segments."""

    copies: Groups
    """By segment, the hops that bring a copy of it to a rank that it is meant for."""
    segments: Groups
    """By message, its segments, as indices into the results of `copies`."""
    receiver: Indices
    """By message in the order of the results of `segments`."""
    owner: Indices
    """The owner of the message, as in `coordinator.results.deliveries`."""
    by_receiver: Groups
    """By receiver, its messages, as indices into the results of `segments`."""
    ranks: Indices
    """The receivers, in the order of the results of `by_receiver`."""
    votes: bool
    """Whether every tree brings one copy of a segment at most, so that each copy is one vote."""


def due_messages(algorithm: Algorithm, schedule: Schedule) -> DueMessages:
    """Return the messages that a schedule delivers."""
    topology = algorithm.topology
    owns = np.array([not topology.is_switch(rank) for rank in topology.ranks()])
    meant = (schedule.target == ALL_RANKS) | (schedule.target == schedule.receiver)
    hops = np.flatnonzero(meant & (schedule.receiver != schedule.origin) & owns[schedule.receiver])
    receiver, origin, segment = schedule.receiver[hops], schedule.origin[hops], schedule.segment[hops]
    folding = algorithm.collective in FOLDING
    owner = np.where(schedule.target[hops] == ALL_RANKS, origin, receiver) if folding else origin
    # Partial results of all ranks count towards one message; elsewhere the owner is the origin.
    order, sizes = grouped([receiver, owner, segment, origin if folding else owner])
    copies = Groups(hops[order], sizes)
    # The first member of each group stands for the values that all its members have.
    first = order[(np.cumsum(sizes) - sizes)[copies.order]]
    receiver, owner = receiver[first], owner[first]
    message = segment[first] // algorithm.segments_per_message
    order, sizes = grouped([receiver, owner, message])
    segments = Groups(order, sizes)
    first = order[(np.cumsum(sizes) - sizes)[segments.order]]
    receiver, owner = receiver[first], owner[first]
    order, sizes = grouped([receiver])
    by_receiver = Groups(order, sizes)
    ranks = receiver[order[(np.cumsum(sizes) - sizes)[by_receiver.order]]]
    named = (schedule.receiver, schedule.origin, schedule.target, schedule.segment, schedule.tree)
    # If no two hops agree in receiver, segment and tree, every copy is one vote.
    [trees] = _keys([column[hops] for column in named])
    return DueMessages(copies, segments, receiver, owner, by_receiver, ranks, len(np.unique(trees)) == len(hops))
