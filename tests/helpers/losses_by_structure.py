"""Losses to outages from trees, routes and tables, without a run: the oracle of `coordinator.theory.dependence.losses`.

Each function follows the copies of messages along the structure that an algorithm is made of. It shares no code with traced
schedules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, singledispatch
from itertools import chain

from coordinator.theory.dependence.outages import Outages
from emunode.algorithms.allreduce import Allreduce
from emunode.algorithms.any_network.table_collective import TableCollective
from emunode.algorithms.any_network.unicast import MinimalUnicast
from emunode.algorithms.base import Algorithm, LocalView
from emunode.algorithms.eisenstein_jacobi.allgather import PhasedAllgather
from emunode.algorithms.flooding import Flood
from emunode.algorithms.folding import FoldingSchedule
from emunode.algorithms.hypercube.ring import BACK, ONWARD, RingAllgather
from emunode.algorithms.routed_collective import RoutedCollective
from emunode.algorithms.scheduled_collective import ScheduledCollective
from emunode.algorithms.star.allgather import HamiltonianCycle
from emunode.algorithms.star.substars import SubstarSegments
from emunode.algorithms.traits import PassesFirstArrivals
from emunode.algorithms.tree_collective import TreeCollective
from emunode.faults.effects import Interval
from emunode.model import ALL_RANKS, Collective, Port, Rank, Step
from emunode.topologies.base import Topology

Missing = set[tuple[Rank, Rank, int]]
"""(origin, receiver, message) of messages that do not arrive, of faulty ranks too."""


def delivered(algorithm: Algorithm, outages: Outages) -> int:
    """Count the messages that healthy ranks receive completely and intact."""
    if isinstance(algorithm, Allreduce):
        return _of_allreduce(algorithm, outages)
    messages, healthy = range(algorithm.spec.messages), healthy_ranks(algorithm, outages)
    if isinstance(algorithm, FoldingSchedule) and algorithm.folds:
        lost = lost_results(algorithm, outages)
        owners = [owner for owner in algorithm.block_owners if owner not in outages.faulty]
        return sum((owner, message) not in lost for owner in owners for message in messages)
    missing = missing_messages(algorithm, outages)
    return sum((*pair, message) not in missing for pair in pairs(algorithm, healthy) for message in messages)


def healthy_ranks(algorithm: Algorithm, outages: Outages) -> list[Rank]:
    """List the ranks that own data and have no fault of their own."""
    return [rank for rank in algorithm.topology.data_ranks if rank not in outages.faulty]


def pairs(algorithm: Algorithm, healthy: Sequence[Rank]) -> Iterator[tuple[Rank, Rank]]:
    """Yield each healthy origin with each healthy receiver of its messages."""
    for origin in algorithm.sources:
        receivers = healthy if algorithm.spec.common_target == ALL_RANKS else [algorithm.spec.common_target]
        if algorithm.collective is Collective.UNICAST:
            receivers = [algorithm.spec.destination(origin)]
        if origin in healthy:
            yield from ((origin, rank) for rank in receivers if rank != origin and rank in healthy)


def blocked(outages: Outages, topology: Topology, step: Step, sender: Rank, port: Port) -> bool:
    """Tell whether a packet does not cross."""
    return outages.blocks(step, sender, port, topology.neighbour(sender, port)) is not None


def lost_results(algorithm: FoldingSchedule, outages: Outages) -> set[tuple[Rank, int]]:
    """List (owner, message) of results that lack a contribution."""
    return {
        (root, segment // algorithm.segments_per_message)
        for rank in algorithm.topology.ranks()
        for step, root, _, segment, port in algorithm.fold_sends(LocalView(algorithm.topology, rank))
        if blocked(outages, algorithm.topology, step, rank, port)
    }


def _of_allreduce(algorithm: Allreduce, outages: Outages) -> int:
    """A result is lost for every rank if it lacks a contribution, and for some if it is lost on its way."""
    first, second = algorithm.first, algorithm.second
    assert isinstance(first, FoldingSchedule)
    shift, owners = algorithm.shift, algorithm.block_owners
    later = {
        place: [Interval(each.start - shift, each.end - shift) for each in intervals]
        for place, intervals in outages.places.items()
    }
    lost, missing = lost_results(first, outages), missing_messages(second, Outages(later))
    healthy = healthy_ranks(algorithm, outages)
    # The one result is due to all healthy ranks, also if its owner fails after it has begun to distribute it.
    live = owners if len(owners) == 1 else [owner for owner in owners if owner in healthy]
    return sum(
        (owner, message) not in lost and (owner, rank, message) not in missing
        for owner in live
        for rank in healthy
        for message in range(algorithm.spec.messages)
    )


def messages_of(algorithm: Algorithm, segments: Iterable[tuple[Rank, Rank, int]]) -> Missing:
    """Return the messages of (origin, receiver, segment)."""
    return {(origin, rank, segment // algorithm.segments_per_message) for origin, rank, segment in segments}


@singledispatch
def missing_messages(algorithm: Algorithm, outages: Outages) -> Missing:
    """List the messages that do not arrive, where nothing is folded."""
    raise NotImplementedError(algorithm)


@missing_messages.register
def _(algorithm: TreeCollective, outages: Outages) -> Missing:
    """A segment is missing if each of its copies is blocked on its path."""
    topology, rooted, trees = algorithm.topology, algorithm.rooted, algorithm.trees

    def hops(relative: Rank, tree: int) -> Iterator[tuple[Rank, Rank, Port]]:
        here = 0
        for port in trees.route(relative, tree):
            here, before = rooted.neighbour(here, port), here
            yield before, here, port

    def stopped(origin: Rank, relative: Rank, tree: int, number: int) -> bool:
        return any(
            blocked(
                outages, topology, algorithm.crossing_step(child, tree, number), topology.absolute(here, origin), port
            )
            for here, child, port in hops(relative, tree)
        )

    return messages_of(
        algorithm,
        (
            (origin, topology.absolute(relative, origin), segment)
            for origin in algorithm.sources
            for relative in algorithm.reached
            for segment, places in enumerate(algorithm.places_of_copies)
            if all(stopped(origin, relative, *place) for place in places)
        ),
    )


@missing_messages.register
def _(algorithm: PhasedAllgather, outages: Outages) -> Missing:
    """A rank that misses a message of a stage sends nothing in later stages."""
    topology, trees = algorithm.topology, algorithm.trees
    missed: dict[Rank, set[Rank]] = {0: set()}
    """By relative rank, the origins whose message does not arrive there."""
    stuck: set[Rank] = set()

    def receipt(relative: Rank) -> tuple[int, Step]:
        stage, step = trees.place(relative)
        return stage, trees.begins[stage] + step

    order = sorted(algorithm.reached, key=lambda each: receipt(each)[1])
    for stage in range(len(trees.due)):
        late = set(stuck)
        for goal in (each for each in order if receipt(each)[0] == stage):
            parent, port = topology.end(goal, trees.parent(goal, 0))
            missed[goal] = set(missed[parent])
            for origin in topology.ranks():
                sender = topology.absolute(parent, origin)
                if sender in stuck or blocked(outages, topology, receipt(goal)[1], sender, port):
                    missed[goal].add(origin)
            late |= {topology.absolute(goal, origin) for origin in missed[goal]}
        stuck = late
    # A misprint may leave ranks out.
    missed |= {goal: set(topology.ranks()) for goal in topology.ranks() if goal not in missed}
    return {
        (origin, topology.absolute(goal, origin), message)
        for goal, origins in missed.items()
        for origin in origins
        for message in range(algorithm.spec.messages)
    }


def unreached(
    topology: Topology, outages: Outages, origin: Rank, onward: Callable[[Rank], Iterable[tuple[Step, Port]]]
) -> Iterator[Rank]:
    """Yield the ranks that a segment does not reach; `onward` gives the steps and ports of a rank's sends of it."""
    waiting = [(origin, False)]
    for rank, lost in waiting:
        for step, port in onward(rank):
            gone = lost or blocked(outages, topology, step, rank, port)
            waiting.append((topology.neighbour(rank, port), gone))
            if gone:
                yield topology.neighbour(rank, port)


@missing_messages.register
def _(algorithm: ScheduledCollective, outages: Outages) -> Missing:
    def onward(root: Rank, segment: int, rank: Rank) -> Sequence[tuple[Step, Port]]:
        return algorithm.onward(rank).get((root, segment), ())

    return messages_of(
        algorithm,
        (
            (root, rank, segment)
            for root in algorithm.roots
            for segment in algorithm.numbers
            for rank in unreached(algorithm.topology, outages, root, partial(onward, root, segment))
        ),
    )


@missing_messages.register
def _(algorithm: TableCollective, outages: Outages) -> Missing:
    topology, missing = algorithm.topology, set()
    for origin in algorithm.sources:
        for target, segment in {(target, segment) for _, _, target, segment in algorithm.departures(origin)}:

            def onward(
                rank: Rank, item: tuple[Rank, Rank, int] = (origin, target, segment)
            ) -> Iterable[tuple[Step, Port]]:
                return algorithm.onward(rank, topology.relative(rank, item[0]), item)

            for rank in unreached(topology, outages, origin, onward):
                if target in (rank, ALL_RANKS):
                    missing.add((origin, rank, segment))
    return messages_of(algorithm, missing)


@missing_messages.register
def _(algorithm: RoutedCollective, outages: Outages) -> Missing:
    """A segment is missing if each of its copies is blocked on its route; a gather is a scatter backwards."""
    topology, rooted, gathers = algorithm.topology, algorithm.rooted, algorithm.collective is Collective.GATHER
    end = algorithm.last_step + 1

    def stopped(root: Rank, target: Rank, route: int, number: int) -> bool:
        here = 0
        for port, step in algorithm.route(target, route, number):
            there = rooted.neighbour(here, port)
            sender, out, when = (*rooted.end(here, port), end - step) if gathers else (here, port, step)
            if blocked(outages, topology, when, topology.absolute(sender, root), out):
                return True
            here = there
        return False

    arrived, due = set(), set()
    for root in [algorithm.spec.source] if gathers else algorithm.sources:
        for target in range(1, topology.order):
            far = topology.absolute(target, root)
            for route, number, segment in algorithm.copies_of(target):
                piece = (far, root, segment) if gathers else (root, far, segment)
                due.add(piece)
                if not stopped(root, target, route, number):
                    arrived.add(piece)
    return messages_of(algorithm, due - arrived)


@missing_messages.register
def _(algorithm: MinimalUnicast, outages: Outages) -> Missing:
    topology = algorithm.topology
    return messages_of(
        algorithm,
        (
            (origin, algorithm.spec.destination(origin), segment)
            for origin in algorithm.sources
            for hop, (sender, port) in enumerate(algorithm.path(origin), 1)
            for segment in range(algorithm.copies)
            if blocked(outages, topology, segment + hop, sender, port)
        ),
    )


def around(
    algorithm: Algorithm, outages: Outages, ports: Mapping[Rank, Port], reach: int, step: Callable[[int, int], Step]
) -> Missing:
    """Return the losses around a circuit that leaves each rank by its port; `step` gives the step of (segment, hop)."""
    missing = set()
    for origin in algorithm.sources:
        for segment in range(algorithm.spec.messages * algorithm.segments_per_message):
            here, lost = origin, False
            for hop in range(1, reach + 1):
                lost = lost or blocked(outages, algorithm.topology, step(segment, hop), here, ports[here])
                here = algorithm.topology.neighbour(here, ports[here])
                if lost:
                    missing.add((origin, here, segment))
    return messages_of(algorithm, missing)


@missing_messages.register
def _(algorithm: RingAllgather, outages: Outages) -> Missing:
    ranks = algorithm.topology.ranks()
    ways = [
        around(algorithm, outages, {rank: algorithm.ports(rank)[way] for rank in ranks}, reach, lambda _, hop: hop)
        for way, reach in zip((ONWARD, BACK), algorithm.reach, strict=True)
        if reach
    ]
    return set(chain.from_iterable(ways))


@missing_messages.register
def _(algorithm: HamiltonianCycle, outages: Outages) -> Missing:
    others = algorithm.topology.order - 1
    return around(algorithm, outages, algorithm.successor, others, lambda number, hop: number * others + hop)


@missing_messages.register(Flood)
@missing_messages.register(SubstarSegments)
def _(algorithm: Algorithm, outages: Outages) -> Missing:
    """Follow a segment by the algorithm's own account; runs judge that account."""

    def crosses(step: Step, sender: Rank, port: Port, receiver: Rank) -> bool:
        return outages.blocks(step, sender, port, receiver) is None

    assert isinstance(algorithm, PassesFirstArrivals)
    source, missing = algorithm.spec.source, set()
    for segment in range(algorithm.spec.messages * algorithm.segments_per_message):
        reached = algorithm.follow(segment, crosses)
        missing |= {(source, rank, segment) for rank in algorithm.topology.ranks() if rank not in reached}
    return messages_of(algorithm, missing)
